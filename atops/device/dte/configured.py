"""DTE contexts that are configured once, then patched, triggered and connected. TOPS C++, beside 8.7.

The text describes operations that configure and start in one; published kernels also do it in two steps. What an
operation demands is checked when a transfer is triggered, as far as a patch could have changed it.
"""

from __future__ import annotations

import sys
from typing import Any

from atops.base.errors import DteError, InvalidType, InvalidValue
from atops.device.call_site import caller
from atops.device.dte.chain import connect, reaches
from atops.device.dte.context import DteContext, check_arch, lend, new_event, start
from atops.device.dte.descriptor import Descriptor
from atops.device.dte.operands import fault, no_context, operand_of
from atops.device.dte.operations import OPERATIONS
from atops.device.dte.transfer import PENDING, DteEvent, Operand
from atops.device.exec.thread import THREAD_SLOT, KernelThread, current_thread
from atops.device.span.span import Span

__all__ = ("ConfiguredContext",)


class ConfiguredContext(DteContext):
    """A context that keeps what it is to do: configured once, it may be patched between one transfer and the next.

    Everything here raises DteError, naming thread and line, for a context that is not ready, belongs to another thread
    or has a transfer in flight; patches and triggers also for one that was not configured, or whose configuration
    another operation of the same context has replaced.
    """

    __slots__ = ()

    def set_src_addr(self, memory: Operand) -> None:
        """Read from the start of `memory` from now on, in the configured shape and type.

        Raises DteError where `memory` has fewer bytes, or gaps and another shape; and for one that it cannot reach.
        """
        self._move("src", memory)

    def set_dst_addr(self, memory: Operand) -> None:
        """Write to the start of `memory` from now on, in the configured shape and type. Raises as set_src_addr does."""
        self._move("dst", memory)

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

    def _configure(self, name: str, dst: Any, src: Any, **parameters: Any) -> None:
        """Keep an operation with its operands and parameters, to be done at each trigger.

        Raises DteError where the chip lacks it, and for operands that no transfer of this context may have.
        """
        thread, operation = current_thread(), OPERATIONS[name]
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
        event: DteEvent = new_event(DteEvent)
        event.state, event.thread, event.context = PENDING, thread, self
        event.destination, event.source, event.into = destination, source, into
        event.out, event.operation = out, descriptor.operation
        event.parameters = descriptor.parameters  # nothing changes them while it is in flight
        start(event, thread, self, sys._getframe(depth))
        return event

    def _move(self, role: str, memory: Any) -> None:
        thread, descriptor = self._patched(f"set_{role}_addr")
        operand, _ = operand_of(thread, memory, role, descriptor.operation.name, self.shared)
        try:
            descriptor.move(role, operand)
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
