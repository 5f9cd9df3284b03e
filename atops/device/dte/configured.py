"""DTE contexts that are configured once, then patched, triggered and connected. TOPS C++, beside 8.7.

The text describes operations that configure and start in one; published kernels also do it in two steps. What an
operation demands is checked when a transfer is triggered, as far as a patch could have changed it.
"""

from __future__ import annotations

import operator
import sys
import threading
from typing import Any

import numpy as np

from atops.base.dtypes import DType, element_name
from atops.base.errors import DteError, InvalidType, InvalidValue
from atops.base.locks import fork_safe
from atops.device.call_site import Site, caller, calling_place
from atops.device.dte.context import DteContext, check_arch, lend, start
from atops.device.dte.operations import Operation, memcpy
from atops.device.dte.stages import Parameters, Stages
from atops.device.dte.transfer import (
    CHAINED,
    PENDING,
    DteEvent,
    Operand,
    apart,
    fault,
    look_at_issue,
    no_context,
    operand_of,
)
from atops.device.exec.thread import THREAD_SLOT, KernelThread, current_thread
from atops.device.geometry import Array, frozen
from atops.device.span.span import Span

__all__ = ("Chain", "ConfiguredContext", "Descriptor", "connect", "reaches")

_new_event = object.__new__
_ANY_OFFSET = (1 << 63) - 1
_lock = fork_safe(threading.Lock())  # a leaf: contexts of a block may be connected, and its threads may be OS threads
_Form = tuple[tuple[int, ...], DType]  # shape and element type


class Descriptor:
    """One configured operation: its operands, in the form that they were configured in, and its parameters.

    `work` is dst, src and their arrays. `valid` says that the operation's demands have been checked since anything
    changed that could break them.
    """

    __slots__ = ("_forms", "_given", "_most", "operation", "parameters", "site", "valid", "work")

    work: tuple[Operand, Operand | None, Array, Array | None]

    def __init__(
        self, operation: Operation[...], dst: Operand, src: Operand | None, parameters: Parameters, site: Site
    ) -> None:  # fmt: skip
        """Configure an operation, at `site`. `src` is None where it takes none."""
        self.operation = operation
        self.parameters: dict[str, Any] = {name: frozen(value) for name, value in parameters.items()}
        self.site = site
        for name in operation.work.offsets.values():
            if isinstance(numbers := self.parameters[name], tuple):
                self.parameters[name] = list(numbers)  # this is what patches change
        given = {"dst": dst} if src is None else {"dst": dst, "src": src}
        self._given = given
        self._forms: dict[str, _Form] = {role: (each.shape, each.dtype) for role, each in given.items()}
        self._most: dict[str, list[int]] = {}
        self._place(given)
        self.valid = False

    def check(self) -> None:
        """Raise what the operation raises unless its demands are met, and note which offsets meet them, too."""
        destination, source, into, out = self.work
        self.operation.check(into, out, self.parameters)
        self.valid = True
        work = self.operation.work
        for role, name in work.offsets.items():
            offsets = self.parameters[name]
            if source is None or out is None or not isinstance(work, Stages) or not apart(destination, source):
                self._most[role] = [-1] * len(offsets)  # each patch might make them overlap
            elif role == "src":  # where a window leaves src it is filled
                self._most[role] = [_ANY_OFFSET] * len(offsets)
            else:
                extents = work.extents(into, out, self.parameters)
                self._most[role] = [whole - width for whole, width in zip(into.shape, extents, strict=True)]

    def readdress(self, role: str, memory: Operand) -> None:
        """Let an operand lie at the start of `memory`, in the shape and with the type that it was configured with.

        Raises InvalidValue where `memory` is too small, or there is no such operand.
        """
        if role not in self._given:
            raise InvalidValue(f"{self.operation.name} has no {role}; it has {' and '.join(self._given)}")
        shape, element = self._forms[role]
        array = _array(memory)
        formed = memory
        if array.shape != shape or array.dtype != element:
            formed = _formed(memory, self._forms[role], f"{role} of {self.operation.name}")
            array = _array(formed)
        self._given[role] = memory
        destination, source, into, out = self.work
        self.work = (formed, source, array, out) if role == "dst" else (destination, formed, into, array)
        moved = self.work[0], self.work[1]
        if self.valid and moved[1] is not None and not apart(moved[0], moved[1]):
            self.valid = False

    def set_offset(self, role: str, dim: int, offset: int) -> None:
        """Change one offset of the window in an operand.

        Raises InvalidValue where the operation has no such window or dimension, and InvalidType for what is no int.
        """
        names = self.operation.work.offsets
        if role not in names:
            has = " and ".join(f"{each} offsets" for each in names) or "no offsets at all"
            raise InvalidValue(f"{self.operation.name} has no {role} offsets; it has {has}")
        try:
            if bool in (type(dim), type(offset)):
                raise TypeError  # as in the lists that it changes
            axis, value = operator.index(dim), operator.index(offset)
        except TypeError:
            raise InvalidType(f"dimension {dim!r} and offset {offset!r}; expected two ints") from None
        numbers = self.parameters[names[role]]
        if not isinstance(numbers, list) or not 0 <= axis < len(numbers):
            raise InvalidValue(f"{self.operation.name} has the {role} offsets {numbers!r} and no dimension {axis}; "
                               "the outermost is 0")  # fmt: skip
        numbers[axis] = value
        if self.valid and not 0 <= value <= self._most[role][axis]:
            self.valid = False

    def set_total_size(self, size: int) -> None:
        """Let memcpy move the first `size` bytes. Raises InvalidValue where it cannot, InvalidType for no int."""
        if self.operation is not memcpy:
            raise InvalidValue(f"{self.operation.name} has no total size, only memcpy has; shapes say what it moves")
        try:
            count = operator.index(size)
        except TypeError:
            raise InvalidType(f"total size {size!r}; expected a number of bytes") from None
        if count < 0:
            raise InvalidValue(f"total size {count}; expected 0 or more")
        form: _Form = ((count,), np.dtype(np.uint8))
        self._place({role: _formed(each, form, f"{role} of memcpy") for role, each in self._given.items()})
        self._forms = dict.fromkeys(self._given, form)
        self.valid = False

    def _place(self, operands: dict[str, Operand]) -> None:
        destination, source = operands["dst"], operands.get("src")
        self.work = destination, source, _array(destination), None if source is None else _array(source)

    def __repr__(self) -> str:
        return f"<{self.operation.name} configured at {self.site}>"


def _array(operand: Operand) -> Array:
    return operand.array if isinstance(operand, Span) else operand


def _formed(memory: Operand, form: _Form, what: str) -> Operand:
    """Return the first elements of `memory` in a form. Raises InvalidValue where there are not so many."""
    shape, element = form
    size = element.itemsize
    for extent in shape:
        size *= extent
    where = f"{element_name(memory.dtype)}{list(memory.shape)}"
    if size > memory.nbytes:
        raise InvalidValue(
            f"{what}: {element_name(element)}{list(shape)} has {size} bytes; {where} has {memory.nbytes}"
        )
    return memory.reshape(-1).view(np.uint8)[:size].view(element).reshape(shape)


# ---- the order of connected contexts: which transfers begin only after which others


class Chain:
    """What one context is connected to.

    Each transfer of an earlier context lets one of a later one begin; `first` has, for each earlier context, its last
    transfer that has let none begin yet.
    """

    __slots__ = ("context", "first", "later")

    def __init__(self, context: DteContext) -> None:
        """Be the place of `context` in no order yet."""
        self.context = context
        self.first: dict[DteContext, DteEvent | None] = {}
        self.later: list[DteContext] = []

    def started(self, event: DteEvent) -> None:
        """Put a transfer of this context behind those before it, and before those that wait for it."""
        with _lock:
            if self.first:
                event.after = [transfer or context for context, transfer in self.first.items()]
                self.first = dict.fromkeys(self.first)
                event.state = CHAINED
            for later in self.later:
                waiting, chain = later.busy, later.chain
                if waiting is not None and waiting.state is CHAINED and self.context in waiting.after:
                    waiting.after[waiting.after.index(self.context)] = event
                elif chain is not None:
                    chain.first[self.context] = event

    def connected(self) -> frozenset[DteContext]:
        """Return all contexts whose transfers come before or after those of this one, itself too."""
        with _lock:
            found = {self.context}
            rest = [self.context]
            while rest:
                chain = rest.pop().chain
                near = () if chain is None else (*chain.first, *chain.later)
                rest += [each for each in near if each not in found]
                found.update(near)
        return frozenset(found)

    def cut(self) -> None:
        """Take the context out of every order."""
        with _lock:
            for later in self.later:
                if later.chain is not None:
                    later.chain.first.pop(self.context, None)
            for earlier in self.first:
                if earlier.chain is not None:
                    earlier.chain.later.remove(self.context)
            self.first.clear()
            self.later.clear()


def connect(earlier: DteContext, later: DteContext) -> None:
    """Let transfers of `later` begin after those of `earlier`, each after one. A second time changes nothing."""
    with _lock:
        before = earlier.chain = earlier.chain or Chain(earlier)
        behind = later.chain = later.chain or Chain(later)
        if later not in before.later:
            before.later.append(later)
            behind.first[earlier] = None


def reaches(earlier: DteContext, later: DteContext) -> bool:
    """Return whether transfers of `later` begin after those of `earlier`, or both are one."""
    if earlier is later:
        return True
    with _lock:
        following = [] if earlier.chain is None else list(earlier.chain.later)
    return any(reaches(each, later) for each in following)


# ---- contexts


class ConfiguredContext(DteContext):
    """A context that keeps what it is to do: configured once, it may be patched between one transfer and the next.

    Everything here raises DteError, naming thread and line, for a context that is not ready, belongs to another thread
    or has a transfer in flight; patches and triggers also for one that was not configured, or whose configuration
    another operation of the same context has replaced.
    """

    __slots__ = ()

    def set_src_addr(self, memory: Operand) -> None:
        """Read from the start of `memory` from now on, in the configured shape and type.

        Raises DteError where `memory` has fewer bytes or is not contiguous, and for one that it cannot reach.
        """
        self._set_address("src", memory)

    def set_dst_addr(self, memory: Operand) -> None:
        """Write to the start of `memory` from now on, in the configured shape and type. Raises as set_src_addr does."""
        self._set_address("dst", memory)

    def set_src_offset(self, dim: int, offset: int) -> None:
        """Begin the window in src at `offset` of dimension `dim`, the outermost being 0.

        Raises DteError where the operation has no window in src, or no such dimension. A window that fits nowhere is
        found at the trigger.
        """
        self._set_offset("src", dim, offset)

    def set_dst_offset(self, dim: int, offset: int) -> None:
        """Begin the window in dst at `offset` of dimension `dim`, the outermost being 0. Raises as set_src_offset."""
        self._set_offset("dst", dim, offset)

    def set_total_size(self, size: int) -> None:
        """Let the configured memcpy move the first `size` bytes of src. Raises DteError for any other operation."""
        thread, descriptor = self._patched("set_total_size")
        try:
            descriptor.set_total_size(size)
        except (InvalidValue, InvalidType) as error:
            raise fault(thread, str(error)) from error

    def trigger(self) -> DteEvent:
        """Start the configured operation and return the event to await, as its asynchronous form does.

        Raises DteError where its demands are not met, naming the dimension and extents of a window that leaves dst;
        IllegalAddress on dead memory, MissingAwait.
        """
        return self._trigger(2)

    def trigger_and_wait(self) -> None:
        """Do the configured operation, and those that it is connected after. Raises what `trigger` raises."""
        self._trigger(2).complete()

    def connect(self, other: DteContext) -> None:
        """Let each transfer of `other` begin only after one of this context: start both, wait only for `other`'s.

        Waiting for the later one waits for both; either may be started first. The connection lasts until one of them
        is destroyed. Raises DteError where `other` is no context, is not ready, belongs to another thread or is in
        flight, and where the order would be a circle.
        """
        thread = current_thread()
        self.check(thread, "connect")
        if not isinstance(other, DteContext):
            raise no_context(thread, other, "connect")
        other.check(thread, "connect")
        if reaches(other, self):
            raise fault(thread, f"connect of {self!r} to {other!r}, whose transfers come first already; neither would "
                                "ever begin")  # fmt: skip
        connect(self, other)

    def configure(self, operation: Operation[...], dst: Any, src: Any, parameters: Parameters) -> None:
        """Keep an operation with its operands and parameters, to be done at each trigger.

        Raises DteError where the chip lacks it, and for operands that no transfer of this context may have.
        """
        thread, name = current_thread(), operation.name
        self.check(thread, f"config_{name}")
        check_arch(thread, operation)
        dst, _ = operand_of(thread, dst, "dst", name, self.shared)
        if operation.takes_source:
            src, _ = operand_of(thread, src, "src", name, self.shared)
        self.descriptor = Descriptor(operation, dst, src, parameters, caller())

    def _trigger(self, depth: int) -> DteEvent:
        cell = THREAD_SLOT.get()
        thread = cell.thread if cell is not None and cell.thread is not None else current_thread()
        if self.user is not thread or self.busy is not None or thread.unawaited is not None:
            lend(self, thread, "trigger")
            if thread.race is not None:
                thread.race.uses(self, *calling_place(1))
            try:
                return self._trigger(depth + 1)
            finally:
                self.take_back()
        descriptor = self.descriptor
        if descriptor is None:
            raise self._unconfigured(thread, "trigger")
        if not descriptor.valid:
            try:
                descriptor.check()
            except (InvalidValue, InvalidType) as error:
                raise fault(thread, f"{error}; it was configured at {descriptor.site}") from error
        destination, source, into, out = descriptor.work
        for operand in (destination, source):
            if type(operand) is Span and (allocation := operand.allocation) is not None and not allocation.alive:
                what = f"{descriptor.operation.name} of {thread} at {caller()}"
                raise allocation.violation(operand.offset, operand.nbytes, what)
        event: DteEvent = _new_event(DteEvent)
        event.state, event.thread, event.context = PENDING, thread, self
        event.destination, event.source, event.into = destination, source, into
        event.out, event.operation = out, descriptor.operation
        event.parameters = descriptor.parameters  # nothing changes them while it is in flight
        if thread.race is not None:
            look_at_issue(event, thread, sys._getframe(depth))
        start(event, thread, self, sys._getframe(depth))
        return event

    def _set_address(self, role: str, memory: object) -> None:
        thread, descriptor = self._patched(f"set_{role}_addr")
        operand, _ = operand_of(thread, memory, role, descriptor.operation.name, self.shared)
        try:
            descriptor.readdress(role, operand)
        except InvalidValue as error:
            raise fault(thread, str(error)) from error

    def _set_offset(self, role: str, dim: int, offset: int) -> None:
        thread, descriptor = self._patched(f"set_{role}_offset")
        try:
            descriptor.set_offset(role, dim, offset)
        except (InvalidValue, InvalidType) as error:
            raise fault(thread, str(error)) from error

    def _patched(self, what: str) -> tuple[KernelThread, Descriptor]:
        """Return the running thread and the configuration, which may be changed now."""
        thread = current_thread()
        if self.user is not thread or self.busy is not None:
            self.check(thread, what)
        descriptor = self.descriptor
        if descriptor is None:
            raise self._unconfigured(thread, what)
        return thread, descriptor

    def _unconfigured(self, thread: KernelThread, what: str) -> DteError:
        return fault(thread, f"{what} on {self!r}, which is not configured; call config_memcpy() or the like first, "
                             "and again after an operation that configures for itself, as memcpy() does")  # fmt: skip
