"""The constants of an executable: their bytes on the host, and the copy of each section on each device that uses it.

A copy is never changed: what a refit changes goes to a new one, so that launches enqueued before keep what they saw.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.event import Event
from atops.runtime.device import Device
from atops.runtime.executables.file import SectionKind
from atops.runtime.executables.tables import ConstantRecord
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.resources.bundle import ResourceBundle, within

if TYPE_CHECKING:
    from atops.runtime.stream import Stream

__all__ = ("Constants", "place_of")

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
        return self.images[place_of(record)][record.offset : record.offset + record.nbytes]

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
                part = memory[place_of(record)][record.offset : record.offset + record.nbytes]
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
        context = stream.context
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
                self._loaded.setdefault((context, place_of(record)), []).insert(0, buffer.allocation)
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
        """Return the copy of a section as it is now, after which `stream` goes on."""
        self._forget_dead()
        place = stream.context, kind
        known = self._copies.get(place)
        if known is not None and known.ready.state == "failed":  # its stream was, or was aborted
            del self._copies[place]
            known.memory.close()
            known = None
        if known is not None and known.image is self.images[kind]:
            if (mark := known.ready.record) is not None and not mark.over:
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
        memory = _allocate(stream.context, len(image), f"section {kind.name}", bundle)
        try:
            if known is None:
                if image:
                    stream.copy(memory, image)
            else:
                stream.wait(known.ready)
                stream.copy(memory, known.memory)
                for record in self.records:
                    part = slice(record.offset, record.offset + record.nbytes)
                    if place_of(record) is kind and image[part] != known.image[part]:
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


def place_of(record: ConstantRecord) -> SectionKind:
    """Return the section that a constant lies in."""
    return SectionKind.MANAGED_CONSTANT if record.managed else SectionKind.CONSTANT


def _allocate(context: Any, nbytes: int, label: str, bundle: ResourceBundle | None) -> Buffer:
    if bundle is not None:
        return bundle.allocate(nbytes)
    return Device(context.ordinal, context.driver).allocate(nbytes, label=label)
