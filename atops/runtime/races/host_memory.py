"""The host's own memory, as far as it can be seen: what changed under an upload, and copies that meet in one array.

numpy tells nothing of its accesses. But a source that has other bytes when the copy begins, or when the host is told
that it is over, than at the call was changed in between, which nothing orders; which line did it is not known. And of
two copies the ends in one array are compared as device memory is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple
from weakref import ref

import numpy as np

from atops.device.memory.allocation import Allocation
from atops.device.races.race import Access, Race
from atops.runtime.commands.copy import PAGE, changed_ranges, checksum
from atops.runtime.races.byte_history import ByteHistory
from atops.runtime.races.command_clock import Epoch
from atops.runtime.races.wording import access_of, api_of

__all__ = ("HostMemory", "Place")

MOST: Final = 1_024  # sources that are looked at again; of more the oldest are not
POISON: Final = 0xA5


class Place(NamedTuple):
    """Host bytes: the history of the array that they lie in, its name, and where they are in it."""

    history: ByteHistory
    name: str
    start: int


class _Source(NamedTuple):
    """The source of a copy, with what it was at the call."""

    epoch: Epoch
    owner: int  # the identity of what its memory belongs to
    alive: Callable[[], object | None]  # nothing here keeps it
    address: int
    size: int
    sums: tuple[int, ...]


class HostMemory:
    """The host's memory of one board. The detector's lock guards all of it."""

    def __init__(self) -> None:
        self._histories: dict[int, tuple[ByteHistory, int, int, ref[object]]] = {}  # by the owner's identity
        self._sources: dict[int, _Source] = {}  # by the number of the copy
        self.see_pinned = True  # False: host work in the order of streams may store there in order

    def given(self, epoch: Epoch, source: memoryview, size: int, sums: tuple[int, ...] | None) -> None:
        """Note what the source of a copy is at the call."""
        owner, alive = _keeper_of(source)
        if alive is None:
            return
        view = source[:size]
        address = _address_of(view)
        self._sources[epoch.seq] = _Source(epoch, id(owner), alive, address, size, sums or checksum(view))
        if len(self._sources) > MOST:
            del self._sources[next(iter(self._sources))]

    def looks_at(self, memory: Allocation) -> bool:
        """Whether sources of copies there are looked at, as those in arrays: it is pinned or registered."""
        return self.see_pinned and memory.device is None and not memory.managed

    def given_pinned(self, epoch: Epoch, memory: Allocation, start: int, size: int) -> None:
        """Note what the source of a copy in pinned or registered memory is at the call."""
        if memory.alive and self.looks_at(memory):
            view = memory.view[start : start + size]
            living = partial(_living, ref(memory))
            self._sources[epoch.seq] = _Source(epoch, id(memory), living, _address_of(view), size, checksum(view))
            if len(self._sources) > MOST:
                del self._sources[next(iter(self._sources))]

    def begins(self, epoch: Epoch) -> Race | None:
        """Return the race of a copy whose source has changed before the copy began."""
        source = self._sources.get(epoch.seq)
        return None if source is None else self._look(source)

    def over(self, epoch: Epoch) -> Race | None:
        """Return the race of a copy whose source has changed before the host was told that the copy is over."""
        source = self._sources.pop(epoch.seq, None)
        return None if source is None else self._look(source)

    @property
    def watched(self) -> list[Epoch]:
        """The copies whose sources are looked at once the host is told that they are over."""
        return [source.epoch for source in self._sources.values()]

    def _look(self, source: _Source) -> Race | None:
        if (owner := source.alive()) is None or (isinstance(owner, Allocation) and not self.see_pinned):
            return None
        view = memoryview((ctypes.c_char * source.size).from_address(source.address)).cast("B")
        found = changed_ranges(view, source.sums)
        del view, owner
        if not found:
            return None
        self._sources.pop(source.epoch.seq, None)
        epoch, size = source.epoch, source.size
        first = f"`{api}StreamSynchronize` first" if (api := api_of(epoch.site)) else "`await` it first"
        return Race(
            "host memory changed in flight", Access("the host", "writes, at a line that is not known", True, None, ""),
            access_of(epoch, False, -1), f"the source of that copy, {size} bytes in pages of {PAGE}", -1, tuple(found),
            f"the source of a copy changed after the call; leave it alone until the copy is done: {first}, or copy "
            "from another array",
        )  # fmt: skip

    def written(self, target: memoryview) -> None:
        """Note that a copy writes to host memory: its sources there are no longer what they were."""
        self.stored(_keeper_of(target)[0])

    def stored(self, owner: object) -> None:
        """Note that a command stores to memory of the host."""
        for seq in [seq for seq, source in self._sources.items() if source.owner == id(owner)]:
            del self._sources[seq]

    def poison(self, target: memoryview, size: int) -> None:
        """Fill the target of a copy, which is not to be read yet, unless a copy that is not over reads there."""
        owner = _owner_of(target)
        if owner is not None and not any(source.owner == id(owner) for source in self._sources.values()):
            np.frombuffer(target, np.uint8)[:size] = POISON

    def place(self, view: memoryview) -> Place | None:
        """Return where host bytes are; None where nothing can tell whose they are."""
        if (owner := _owner_of(view)) is None:
            return None
        known = self._histories.get(id(owner))
        address = _address_of(view)
        if known is None:
            histories, key = self._histories, id(owner)
            start = _start_of(owner, address)
            known = (
                ByteHistory(),
                start,
                getattr(owner, "nbytes", len(view)),
                ref(owner, lambda _: histories.pop(key, None)),
            )
            histories[key] = known
        return Place(known[0], f"the host's {type(owner).__name__} of {known[2]} bytes", address - known[1])


def _living(memory: ref[Allocation]) -> Allocation | None:
    """Return memory that is not freed."""
    found = memory()
    return found if found is not None and found.alive else None


def _start_of(owner: object, address: int) -> int:
    """Return where an owner's bytes begin; where they are in pieces, that of the bytes which were met first."""
    if isinstance(owner, np.ndarray) and owner.flags.c_contiguous:
        address = owner.__array_interface__["data"][0]
    return address


def _owner_of(view: memoryview) -> object | None:
    """Return what host bytes belong to, if it can be known by a weak reference: else an identity would mean nothing."""
    owner: object = view.obj
    while isinstance(owner, np.ndarray | memoryview):
        below = owner.obj if isinstance(owner, memoryview) else owner.base
        if below is None:
            break
        owner = below
    return owner if isinstance(owner, np.ndarray) else None


def _keeper_of(view: memoryview) -> tuple[object, Callable[[], object | None] | None]:
    """Return what host bytes belong to, and a weak reference to what keeps them: None where they cannot change.

    A bytearray knows no weak references; an array over it, or the copy's own view of it, keeps it in its place.
    """
    owner: object = view
    alive: Callable[[], object | None] = partial(_held, ref(view))
    while isinstance(owner, np.ndarray | memoryview):
        if isinstance(owner, np.ndarray):
            alive = ref(owner)
        below = owner.obj if isinstance(owner, memoryview) else owner.base
        if below is None:
            break
        owner = below
    return owner, None if isinstance(owner, bytes) else alive


def _held(view: ref[memoryview]) -> memoryview | None:
    """Return a view that holds its memory still."""
    found = view()
    try:
        return None if found is None or not found.nbytes else found
    except ValueError:  # released
        return None


def _address_of(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0] if len(view) else 0
    return address
