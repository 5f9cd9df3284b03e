"""The constants of an executable: their bytes on the host, the copy of each section on each device that uses it, refit.

A copy is never changed: what a refit changes goes to a new one, so that launches enqueued before keep what they saw.
Refit is TOPS Runtime API, 2.11.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from atops.base.errors import IllegalState, NotSupported
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.event import Event
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from atops.runtime.executables.file import ConstantRecord, SectionKind
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.memory.host_array import HostArray
from atops.runtime.resources.bundle import ResourceBundle, within
from atops.runtime.stream import Stream, queue_of

__all__ = ("Constants", "ManagedConstant", "Refit", "RefitStep")

T = TypeVar("T")


class _Copy(NamedTuple):
    """A section on one device, complete once its event is; `image` is what it holds."""

    memory: Buffer
    ready: Event
    image: bytes


class Constants:
    """All constants of one executable. Safe from any OS thread."""

    def __init__(self, records: Sequence[ConstantRecord], images: dict[SectionKind, bytes]) -> None:
        self.records = tuple(records)
        self.images = images  # of each section that there is; the managed one is replaced by a refit
        self._copies: dict[tuple[DeviceContext, SectionKind], _Copy] = {}
        self._loaded: dict[tuple[DeviceContext, SectionKind], list[Allocation]] = {}  # what users loaded, first ones
        self._lock = threading.Lock()

    def content(self, record: ConstantRecord) -> bytes:
        """Return the bytes of a constant."""
        return self.images[record.section][record.offset : record.offset + record.nbytes]

    def use(
        self, stream: Stream, enqueue: Callable[[list[DeviceArray]], T], bundle: ResourceBundle | None = None
    ) -> T:
        """Return what `enqueue` returns, called with the constants as they are on the device of `stream`.

        What it enqueues there sees them complete. The first use on a device uploads in the order of `stream`; after a
        refit, only what has changed. New copies are memory of `bundle`, if one is given. Raises OutOfMemory, and what
        the stream and `enqueue` raise.
        """
        with self._lock:  # to the end: no copy is given back before the work that uses it is enqueued
            memory = {kind: self._current(stream, kind, bundle).memory for kind in self.images}
            found = []
            for record in self.records:
                part = memory[record.section][record.offset : record.offset + record.nbytes]
                found.append(part.view(record.kind, record.dims))
            return enqueue(found)

    def replace(self, image: bytes) -> None:
        """Let the managed constants be others, of the same layout; devices get them when next used."""
        with self._lock:
            self.images[SectionKind.MANAGED_CONSTANT] = image

    def load(self, stream: Stream, bundle: ResourceBundle | None) -> list[Buffer]:
        """Return memory of its own for each constant, uploaded in the order of `stream`.

        Raises OutOfMemory, and what the stream raises; then nothing is left allocated.
        """
        context = queue_of(stream).context
        made: list[Buffer] = []
        try:
            for record in self.records:
                made.append(_allocate(context, record.nbytes, f"constant {record.name}", bundle))
                if record.nbytes:
                    with within(bundle):
                        stream.copy(made[-1], self.content(record))
        except BaseException:
            for buffer in made:
                buffer.close()
            raise
        with self._lock:
            for record, buffer in reversed(list(zip(self.records, made, strict=True))):
                self._loaded.setdefault((context, record.section), []).insert(0, buffer.allocation)
        return made

    def address(self, context: DeviceContext, kind: SectionKind, bank: int) -> int:
        """Return where the copy of a section on one bank of a device begins; 0 where there is none."""
        with self._lock:
            self._forget_dead()
            copy = self._copies.get((context, kind))
            found = [copy.memory.allocation] if copy is not None else []
            found += self._loaded.get((context, kind), ())
        return next((each.address for each in found if each.bank == bank), 0)

    def close(self) -> None:
        """Give the copies back once the work that uses them is over. Idempotent."""
        with self._lock:
            copies, self._copies = self._copies, {}
            self._loaded.clear()
        for (context, _), copy in copies.items():
            if context.dead is None:
                copy.memory.close()

    def _current(self, stream: Stream, kind: SectionKind, bundle: ResourceBundle | None) -> _Copy:
        self._forget_dead()
        place = queue_of(stream).context, kind
        known = self._copies.get(place)
        if known is not None and known.ready.state == "failed":  # its stream was, or was aborted
            del self._copies[place]
            known.memory.close()
            known = None
        if known is not None and known.image is self.images[kind]:
            if (mark := known.ready.completion) is not None and not mark.over:
                stream.wait(known.ready)
            return known
        with within(bundle):
            made = self._copies[place] = self._upload(stream, kind, known, bundle)
        if known is not None:
            known.memory.close()  # once the launches that use it are over
        return made

    def _upload(
        self, stream: Stream, kind: SectionKind, known: _Copy | None, bundle: ResourceBundle | None
    ) -> _Copy:
        """Make a copy of a section; of a known one, all but what has changed comes from that."""
        image = self.images[kind]
        memory = _allocate(queue_of(stream).context, len(image), f"section {kind.name}", bundle)
        try:
            if known is None:
                if image:
                    stream.copy(memory, image)
            else:
                stream.wait(known.ready)
                stream.copy(memory, known.memory)
                for record in self.records:
                    part = slice(record.offset, record.offset + record.nbytes)
                    if record.section is kind and image[part] != known.image[part]:
                        stream.copy(memory[part], image[part])
            return _Copy(memory, stream.record(), image)
        except BaseException:
            memory.close()
            raise

    def _forget_dead(self) -> None:
        for place in [place for place in self._copies if place[0].dead is not None]:
            del self._copies[place]
        for place, loaded in list(self._loaded.items()):
            loaded[:] = [each for each in loaded if each.alive]
            if not loaded:
                del self._loaded[place]


def _allocate(context: DeviceContext, nbytes: int, label: str, bundle: ResourceBundle | None) -> Buffer:
    if bundle is not None:
        return bundle.allocate(nbytes)
    return Device(context.ordinal, context.board.driver).allocate(nbytes, label=label)


# ---- refit: changing the managed constants in steps, each of which needs the one before it


class RefitStep(IntEnum):
    """How far a refit has come."""

    NONE = 0
    DATA = 1  # the bytes can be written
    FUNCTIONS = 2  # functions can be called
    UPDATED = 3  # devices have the new bytes, and the key is still that of the old ones


class ManagedConstant(NamedTuple):
    """A constant that refit may change: write `data`, and set `flag[0]` to 1, in pinned memory that devices reach."""

    record: ConstantRecord
    data: npt.NDArray[np.generic]
    flag: npt.NDArray[np.uint8]


class Refit:
    """The refit of one executable, over and over. Call it from one thread at a time."""

    def __init__(self, name: str, permitted: bool, constants: Constants) -> None:
        self._name = name
        self._permitted = permitted
        self._constants = constants
        self._staging: HostArray | None = None
        self.step = RefitStep.NONE
        self.key_is_old = False

    def managed(self, driver: Driver) -> tuple[ManagedConstant, ...]:
        """Return the managed constants as they are, in pinned memory that is the same each time, to be written.

        The first step; it also begins a refit anew. Raises NotSupported where the executable was built without refit.
        """
        self._check(RefitStep.NONE, "GetConstManagedData")
        image = self._constants.images.get(SectionKind.MANAGED_CONSTANT, b"")
        records = [each for each in self._constants.records if each.managed]
        staging = self._staging
        if staging is None or not staging.is_live or staging.driver is not driver:
            self.close()
            staging = self._staging = Device(0, driver).host_malloc(len(image) + len(records))
            staging.array[: len(image)] = np.frombuffer(image, np.uint8)
            staging.array[len(image) :] = 0
        self.step = RefitStep.DATA if self.step in (RefitStep.NONE, RefitStep.UPDATED) else self.step
        found = []
        for index, record in enumerate(records):
            part = staging.array[record.offset : record.offset + record.nbytes]
            flag = staging.array[len(image) + index :][:1]
            found.append(ManagedConstant(record, part.view(record.kind).reshape(record.dims), flag))
        return tuple(found)

    def functions(self) -> None:
        """Permit calls of functions from now on. Raises IllegalState before `managed`, NotSupported."""
        self._check(RefitStep.DATA, "GetSubFuncInfo")
        if self.step is RefitStep.UPDATED:
            raise self._out_of_order("GetSubFuncInfo", "GetConstManagedData")
        self.step = RefitStep.FUNCTIONS

    def check_call(self) -> None:
        """Raise IllegalState unless functions may be called now, NotSupported where there is no refit."""
        self._check(RefitStep.DATA, "CallSubFunc")
        if self.step is not RefitStep.FUNCTIONS:
            raise self._out_of_order("CallSubFunc", "GetSubFuncInfo")

    def update(self, stream: Stream, bundle: ResourceBundle | None = None) -> None:
        """Take over the constants whose flag is set, and upload those in the order of `stream`; clear the flags.

        Launches on other devices get them when they need them. Raises IllegalState before `managed`, NotSupported,
        OutOfMemory, and what the stream raises; then the old constants stay.
        """
        self._check(RefitStep.DATA, "UpdateRuntimeResource")
        kind, constants, staging = SectionKind.MANAGED_CONSTANT, self._constants, self._staging
        assert staging is not None, "made by the first step"
        old = constants.images.get(kind, b"")
        if not staging.is_live:
            raise self._out_of_order("UpdateRuntimeResource", "GetConstManagedData, since its driver has closed,")
        image, changed = bytearray(old), False
        for index, record in enumerate(each for each in constants.records if each.managed):
            if staging.array[len(old) + index]:
                part = slice(record.offset, record.offset + record.nbytes)
                image[part] = staging.array[part].tobytes()
                changed = True
        if changed:
            constants.replace(bytes(image))
        try:
            constants.use(stream, lambda found: None, bundle)
        except BaseException:
            if changed:
                constants.replace(old)
            raise
        staging.array[len(old) :] = 0
        self.key_is_old |= changed
        self.step = RefitStep.UPDATED

    def key_renewed(self) -> None:
        """Note that the key is that of the constants again. Raises IllegalState before `update`, NotSupported."""
        self._check(RefitStep.DATA, "UpdateConstantKey")
        if self.step is not RefitStep.UPDATED:
            raise self._out_of_order("UpdateConstantKey", "UpdateRuntimeResource")
        self.key_is_old = False
        self.step = RefitStep.NONE

    def close(self) -> None:
        """Give the pinned memory back. Idempotent."""
        staging, self._staging = self._staging, None
        if staging is not None:
            staging.close()

    def _check(self, least: RefitStep, call: str) -> None:
        if not self._permitted:
            raise NotSupported(f"{call} of executable {self._name}, which was built without refit; build(refit=True)")
        if self.step < least:
            raise self._out_of_order(call, "GetConstManagedData")

    def _out_of_order(self, call: str, first: str) -> IllegalState:
        step = self.step.name
        return IllegalState(f"{call} of executable {self._name} at step {step} of its refit; {first} comes first")
