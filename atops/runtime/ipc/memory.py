"""Device memory between processes: an allocation lent to others, and one that another process lent.

A borrower maps the pages of the exporter's arena. The bytes stay valid for it until it closes, whatever becomes of the
exporter: a freed range is used again only after the last borrower has let go.
"""

from __future__ import annotations

import mmap
import struct
import weakref
from typing import Final

import numpy as np

from atops.base.errors import InvalidHandle
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.ipc.lending import Handle, HandleKind, MapFailed, OtherBoard, borrow, exporter

__all__ = ("BorrowedMemory", "LentMemory", "export_memory", "export_memory_as")

DESCRIPTION: Final = struct.Struct("<QQI16s")  # offset in the arena, bytes, device, architecture


class LentMemory:
    """An allocation of this process that others may borrow. It keeps neither it nor its device alive."""

    def __init__(self, context: DeviceContext, allocation: Allocation) -> None:
        self._context = weakref.ref(context)
        self._memory = context.memory
        self._allocation = allocation

    @property
    def alive(self) -> bool:
        """Whether the allocation lives, on a device that was not reset."""
        context = self._context()
        return self._allocation.alive and context is not None and context.dead is None

    def lend(self) -> tuple[int, bytes]:
        """Pin the range and return the arena's descriptor. Raises InvalidHandle when it was freed meanwhile."""
        allocation, context = self._allocation, self._context()
        if context is None or not self._memory.pin(allocation):
            raise InvalidHandle(allocation.freed_message(repr(allocation)))
        try:
            arena = self._memory.arena
            if arena is None or (descriptor := arena.lend()) is None:
                raise InvalidHandle(f"{allocation!r} has no bytes that can be lent")
            name = context.arch.name.encode()
            return descriptor, DESCRIPTION.pack(allocation.offset, allocation.size, context.ordinal, name)
        except BaseException:
            self._memory.unpin(allocation)
            raise

    def end_loan(self) -> None:
        """Unpin the range."""
        self._memory.unpin(self._allocation)


def export_memory(context: DeviceContext, allocation: Allocation) -> bytes:
    """Return the 64 bytes that name an allocation in other processes, the same each time.

    From then on value waits on it are polled, since others may store there; so are those that wait already.
    """
    return export_memory_as(HandleKind.MEMORY, context, allocation, LentMemory(context, allocation))


def export_memory_as(kind: HandleKind, context: DeviceContext, allocation: Allocation, lent: LentMemory) -> bytes:
    """As `export_memory`, by another kind of handle."""
    handle = exporter().export(kind, allocation.serial, context.ordinal, allocation.size, lent)
    allocation.expose()
    return handle


class BorrowedMemory:
    """An allocation of another process, mapped here. `count` says how often it is open."""

    __slots__ = (
        "__weakref__", "_lease", "_view", "allocation", "count", "device", "handle", "more", "offset", "size",
    )  # fmt: skip

    def __init__(self, handle: Handle, context: DeviceContext) -> None:
        """Borrow and map. Raises InvalidHandle, OwnHandle, MapFailed as `borrow` does.

        OtherBoard where the exporter's board does not fit this one: another architecture, a device that is not
        here, or one that no link joins to the device of `context`.
        """
        self.handle = handle
        self.count = 1
        self._lease = lease = borrow(handle)
        offset, self.size, self.device, name = DESCRIPTION.unpack_from(lease.description)
        self.more = lease.description[DESCRIPTION.size :]  # that the exporter says
        arch, board = name.rstrip(b"\0").decode(), context.board.topology
        here = context.ordinal
        if arch != context.arch.name or self.device >= board.devices or (
            self.device != here and not board.access_word(here, self.device)
        ):
            lease.close()
            there = f"{self.device} of {arch}"
            raise OtherBoard(f"device {here} of {context.arch.name} cannot reach the exporter's {there}")
        self.offset = offset % mmap.ALLOCATIONGRANULARITY
        try:
            mapping = mmap.mmap(lease.descriptor, self.offset + self.size, offset=offset - self.offset)
        except (OSError, ValueError) as error:
            lease.close()
            raise MapFailed(f"{self.size} bytes of process {handle.process} cannot be mapped: {error}") from error
        self._view = memoryview(mapping)
        self.allocation: Allocation | None = None

    def place(self, address: int) -> Allocation:
        """Give the memory its address here, and return it as an allocation."""
        source = np.frombuffer(self._view, np.uint8), self._view
        host = int(source[0].__array_interface__["data"][0]) + self.offset
        self.allocation = allocation = Allocation(
            address, self.size, self.device, self.offset, 0, 0, source, f"process {self.handle.process}", "imported",
            host, host_visible=True,
        )  # fmt: skip
        return allocation

    def close(self) -> None:
        """Let go before it was given an address."""
        self._view = memoryview(b"")
        self._lease.close()

    def end(self, allocation: Allocation, by: object) -> None:
        """End the allocation here and the lease. The mapping goes with the last view of it."""
        allocation.end(by)
        self._view = memoryview(b"")
        self._lease.close()
