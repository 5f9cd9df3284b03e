"""A live range of bytes, on a device or on the host: its address, its bytes, where it came from and how it ended.

Every access to emulated memory goes through `check`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from atops.base.errors import IllegalAddress, InvalidValue
from atops.base.locks import fork_safe

__all__ = ("NOTHING", "Allocation", "Bytes", "CopySource", "Watches", "fill", "move", "numbered_from_one")

Bytes = npt.NDArray[np.uint8]
CopySource = tuple[Bytes, memoryview]

KEEPS_THE_GIL = 128 << 10
NO_BYTES: Bytes = np.empty(0, np.uint8)
NO_VIEW = memoryview(b"")
NOTHING = (NO_BYTES, NO_VIEW)

_serials = count(1)
# A store and a waiter meet without a lock (a store writes, then looks for watches; a waiter adds its watch, then
# reads). With the GIL nothing reorders these; without it, taking any lock between the two steps is the fence.
_FENCE = None if getattr(sys, "_is_gil_enabled", lambda: True)() else fork_safe(threading.Lock())
FENCED = _FENCE is not None


@contextmanager
def numbered_from_one() -> Iterator[None]:
    """In the block, number allocations from 1 on: for a run whose memory meets no other."""
    global _serials
    before, _serials = _serials, count(1)
    try:
        yield
    finally:
        _serials = before


class Watches(Protocol):
    """The watches of an allocation, while there is a wait for a value in it."""

    def __len__(self) -> int:
        """Count the waiting watches."""

    def stored(self, offset: int, size: int) -> None:
        """Test the watches that a store of `size` bytes at `offset` may have satisfied."""

    def exposed(self) -> None:
        """Tell every watch that unreported stores are possible from now on."""

    def ended(self) -> None:
        """Tell every watch that the memory is gone."""


class Allocation:
    """A range of bytes with one owner and one life.

    `address` is the device address, `host_address` the real one; `size` the requested bytes; `serial` never repeats in
    a process; `device` is None for host memory. `data` (uint8, 1-D) and `view` (memoryview "B") are the same `size`
    bytes, and empty once the allocation is dead. `str(site)` says where it was allocated, `str(freed_by)` what freed
    it, or will free it in a stream's order: until then it lives, for work enqueued before. `host_visible`: stores are
    possible that the runtime cannot see. `managed`: one pointer for host and device. `watches`: None while there is no
    wait for a value here. `owner`: a weak reference to the buffer by which the stream `owner.home` owns it, or None.
    """

    __slots__ = ("__weakref__", "_data", "_source", "_view", "address", "alive", "bank", "device", "flags", "freed_by",
                 "host_address", "host_visible", "label", "managed", "offset", "owner", "serial", "site", "size",
                 "watches")

    def __init__(
        self, address: int, size: int, device: int | None, offset: int, bank: int, flags: int, source: CopySource,
        site: object, label: str = "", host_address: int = 0, host_visible: bool = False, managed: bool = False,
    ) -> None:
        """Describe `size` bytes at `offset` of `source`, which a memory has just set aside. Only memories do this."""
        self.address = address
        self.size = size
        self.serial = next(_serials)
        self.device = device
        self.offset = offset
        self.bank = bank
        self.flags = flags
        self.alive = True
        self._source = source
        self._data: Bytes | None = None
        self._view: memoryview | None = None
        self.site = site
        self.freed_by: object = None
        self.label = label
        self.watches: Watches | None = None
        self.owner: Any = None
        self.host_address = host_address
        self.host_visible = host_visible
        self.managed = managed

    def check(self, offset: int, size: int, user: object = "") -> None:
        """Make sure that `size` bytes at `offset` are inside this allocation and that it lives.

        Raises IllegalAddress naming the address, the allocation, the access, and what freed it.
        """
        if not self.alive or offset < 0 or size < 0 or offset + size > self.size:
            raise self.violation(offset, size, user)

    def wrote(self, offset: int, size: int) -> None:
        """Test the waits for a value in these bytes, which have just been stored."""
        if _FENCE is not None:
            with _FENCE:
                pass
        if self.watches is not None:
            self.watches.stored(offset, size)

    def expose(self) -> None:
        """Note that stores are possible from now on which the runtime cannot see, and tell the watches."""
        self.host_visible = True  # before the look at the watches: one that is armed later sees it
        if _FENCE is not None:
            with _FENCE:
                pass
        if (watches := self.watches) is not None:
            watches.exposed()

    def end(self, by: object) -> None:
        """Mark the allocation dead, let go of its bytes and tell its watches. Only memories end allocations."""
        self.freed_by = by
        self.alive = False
        self._data = NO_BYTES
        self._view = NO_VIEW
        self._source = NOTHING
        if _FENCE is not None:
            with _FENCE:
                pass
        if (watches := self.watches) is not None:
            watches.ended()

    def freed_message(self, what: object) -> str:
        """Return the text of every error for a use of freed memory; `what` names the memory."""
        return f"{what} was freed by {self.freed_by}"

    def violation(self, offset: int, size: int, user: object = "") -> IllegalAddress:
        """Return the error for an access of `size` bytes at `offset` that this allocation does not allow."""
        start = f"{str(user) + ': ' if user else ''}{size} bytes at {self.address + offset:#x} (offset {offset})"
        if not self.alive:
            return IllegalAddress(f"{start} are in freed memory: {self.freed_message(repr(self))}")
        return IllegalAddress(f"{start} are not inside {self!r}; expected offsets 0 to {self.size}")

    def freed_twice(self, by: object) -> IllegalAddress:
        """Return the error for a second end of this allocation, now by `by`."""
        return IllegalAddress(f"{self!r} is freed twice, now by {by}; it was freed by {self.freed_by}")

    # Made when first asked for: most allocations are used by kernels or copies in one of the two forms only.

    @property
    def data(self) -> Bytes:
        """The bytes as an array; empty once the allocation is dead."""
        data = self._data
        if data is None:
            self._data = data = self._source[0][self.offset : self.offset + self.size]
            if not self.alive:  # another thread has ended it since
                self._data = data = NO_BYTES
        return data

    @property
    def view(self) -> memoryview:
        """The bytes as a memoryview; empty once the allocation is dead."""
        view = self._view
        if view is None:
            self._view = view = self._source[1][self.offset : self.offset + self.size]
            if not self.alive:  # as above: a copy asks the view alone whether the memory lives
                self._view = view = NO_VIEW
        return view

    @property
    def where(self) -> str:
        """Say in words which memory this is."""
        if self.device is not None:
            return f"device {self.device}"
        return "managed memory" if self.managed else "host memory"

    def __len__(self) -> int:
        """Return the requested bytes."""
        return self.size

    def __repr__(self) -> str:
        label = f" {self.label!r}" if self.label else ""
        fate = "" if self.alive else ", freed"
        return (f"<Allocation #{self.serial}{label}: {self.size} bytes at {self.address:#x}, {self.where}, "
                f"allocated at {self.site}{fate}>")


def move(dst: Allocation, dst_offset: int, src: Allocation, src_offset: int, size: int, user: object = "") -> None:
    """Copy `size` bytes between two allocations; they may be one and the ranges may overlap.

    Up to 128 KiB the copy keeps the GIL, since a short copy ends sooner than a handover; above it releases it. Raises
    IllegalAddress naming the `user`, when either range is not inside its live allocation; then nothing is written.
    """
    # The bytes are taken before the checks: an allocation freed by another thread in between is then still mapped.
    if size <= KEEPS_THE_GIL:
        target, source = dst.view, src.view
        dst.check(dst_offset, size, user)
        src.check(src_offset, size, user)
        target[dst_offset : dst_offset + size] = source[src_offset : src_offset + size]
    else:
        into, out = dst.data, src.data
        dst.check(dst_offset, size, user)
        src.check(src_offset, size, user)
        np.copyto(into[dst_offset : dst_offset + size], out[src_offset : src_offset + size])
    dst.wrote(dst_offset, size)


def fill(dst: Allocation, offset: int, pattern: bytes, count: int, user: object = "") -> None:
    """Store `pattern` `count` times from `offset`, at any alignment.

    Raises InvalidValue for a pattern without bytes, and IllegalAddress naming the `user` for a range not inside.
    """
    width = len(pattern)
    if not width:
        raise InvalidValue("the fill pattern has no bytes; expected 1 or more")
    size = width * count
    view, data = dst.view, dst.data
    dst.check(offset, size, user)
    if size <= KEEPS_THE_GIL:
        view[offset : offset + size] = bytes(pattern) * count
    elif pattern.count(pattern[:1]) == width:
        data[offset : offset + size] = pattern[0]
    else:
        # 16 KiB of pattern laid down row by row is a plain copy, and so does not care for alignment.
        row = np.frombuffer(bytes(pattern) * (-(-(1 << 14) // width)), np.uint8)
        rows, rest = divmod(size, row.size)
        split = offset + rows * row.size
        data[offset:split].reshape(rows, row.size)[:] = row
        data[split : split + rest] = row[:rest]
    dst.wrote(offset, size)
