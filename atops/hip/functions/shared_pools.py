"""Pools that processes share (001): a descriptor opens the pool, 64 bytes name an allocation of it.

Imported memory is a second name here, which hipFree and hipFreeAsync end. Its bytes stay valid until then, whatever
becomes of the exporter; the exporter's own free gives the range back once every other process has let go.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakSet

import numpy as np

from atops.base.errors import AtopsError, InvalidDevice, InvalidHandle, InvalidValue, OutOfMemory
from atops.base.locks import fork_safe
from atops.bridge.arguments import flags_in, instance, member, whole
from atops.bridge.handles import current_board, device_at, live, register
from atops.bridge.pointers import (
    Alias,
    add_alias,
    address_of,
    alias_at,
    bad_pointer,
    check_range,
    find_device,
    remove_alias,
)
from atops.device.memory.allocation import Allocation
from atops.hip.functions.api import call, made_or_given
from atops.hip.functions.host import value_from, value_into
from atops.hip.header.enumerations import hipMemAllocationHandleType
from atops.hip.header.pointers import DeviceArray
from atops.hip.header.structs import hipMemPoolPtrExportData
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.deferred_free import free_when_idle
from atops.runtime.ipc.lending import MapFailed, OtherBoard
from atops.runtime.ipc.memory import BorrowedMemory
from atops.runtime.ipc.pool import BorrowedPool, descriptor_of, export_from_pool, export_pool
from atops.runtime.memory.buffer import Buffer
from atops.runtime.pools.pool import Access, MemoryPool

__all__ = (
    "SHAREABLE", "borrowed_pool", "hipMemPoolExportPointer", "hipMemPoolExportToShareableHandle",
    "hipMemPoolImportFromShareableHandle", "hipMemPoolImportPointer", "imported_at",
)  # fmt: skip

SHAREABLE: Final[WeakSet[MemoryPool]] = WeakSet()  # made for other processes, too
POSIX: Final = hipMemAllocationHandleType.hipMemHandleTypePosixFileDescriptor
INT: Final = 4
_OPENING = fork_safe(threading.Lock())


class _Imported:
    """Memory of a shared pool under a name of this device."""

    def __init__(
        self, context: DeviceContext, memory: BorrowedMemory | Allocation, others: list[DeviceContext]
    ) -> None:
        """Name memory of a device; kernels of some others reach it, too."""
        self.context, self.memory, self.others = context, memory, others
        self.alias: Alias = add_alias(context, memory.size, self.resolve, self)
        if isinstance(memory, BorrowedMemory):
            self.allocation = memory.place(self.alias.address)
            with context.board.lock:
                for each in others:
                    each.grant(self.allocation)  # no more than these bytes of a peer
        else:
            self.allocation = memory

    def resolve(self, offset: int, nbytes: int) -> Buffer:
        """Return bytes of it. Raises CodeError once it was let go of, InvalidValue beyond its end."""
        if not self.allocation.alive:
            raise bad_pointer("the imported memory was freed")
        return Buffer(self.allocation, check_range(self.allocation, offset, nbytes, "imported memory"), nbytes)

    def free_name(self, alias: Alias) -> None:
        """Let go of it: hipFree."""
        self.close()

    def close(self) -> None:
        """Let go of it, after the work enqueued by then. Idempotent."""
        with _OPENING:
            alias = alias_at(self.context.board, self.alias.address)
            if alias is not self.alias:
                return
            remove_alias(self.context.board, alias)
        if isinstance(self.memory, BorrowedMemory):
            with self.context.board.lock:
                for each in self.others:
                    each.revoke(self.allocation)
            free_when_idle(self.context, self.memory.end, self.allocation)


def imported_at(address: int) -> _Imported | None:
    """Return what begins at an address, if it is memory of hipMemPoolImportPointer."""
    alias = alias_at(current_board(), address)
    if alias is None or alias.address != address or not isinstance(alias.owner, _Imported):
        return None
    return alias.owner


def borrowed_pool(handle: object) -> BorrowedPool | None:
    """Return the pool of hipMemPoolImportFromShareableHandle that a handle stands for; None for any other."""
    try:
        return live(handle, BorrowedPool)
    except AtopsError:
        return None


@contextmanager
def _as_documented() -> Iterator[None]:
    """Raise OutOfMemory where the system has nothing left, and InvalidValue for all that is wrong with a handle."""
    try:
        yield
    except (InvalidHandle, InvalidDevice, OtherBoard) as error:
        raise InvalidValue(str(error)) from error
    except MapFailed as error:
        raise OutOfMemory(str(error)) from error


def _shareable(handle: object) -> MemoryPool:
    with _as_documented():
        pool = live(handle, MemoryPool)
    if pool.is_destroyed or pool not in SHAREABLE:
        raise InvalidValue(f"mem_pool must be a live pool made with handleTypes {POSIX.name}, got {pool!r}")
    return pool


def _check_type(handle_type: object, flags: object) -> None:
    if member(hipMemAllocationHandleType, handle_type, "handle_type") is not POSIX:
        raise InvalidValue(f"handle_type must be {POSIX.name}, got {handle_type!r}")
    flags_in(flags, 0)


@call
def hipMemPoolExportToShareableHandle(
    shared_handle: object, mem_pool: int, handle_type: hipMemAllocationHandleType, flags: int
) -> None:
    """Store a new file descriptor, an int, where `shared_handle` points to: it opens the pool in other processes.

    The caller closes it. It reaches another process by inheritance or over a Unix socket. OutOfMemory: no descriptor is
    left; InvalidValue: null, not a pool made for that, another type, flags.
    """
    _check_type(handle_type, flags)
    pool = _shareable(mem_pool)
    descriptor = descriptor_of(export_pool(pool))
    try:
        value_into(shared_handle, descriptor, INT, "shared_handle")
    except BaseException:
        os.close(descriptor)
        raise


@call
def hipMemPoolImportFromShareableHandle(
    shared_handle: int, handle_type: hipMemAllocationHandleType, flags: int
) -> int:
    """Return the pool that a descriptor opens: `shared_handle` is it, as an int or a `void *`, or points to an int.

    Memory of it is imported by hipMemPoolImportPointer; nothing is allocated from it here. hipMemPoolDestroy lets go of
    it. OutOfMemory: no descriptor is left; InvalidValue: no descriptor of a pool, a forged one, one whose pool or
    process is gone, another type, flags.
    """
    _check_type(handle_type, flags)
    named = getattr(shared_handle, "value", shared_handle)
    if isinstance(named, int | np.integer):
        descriptor = whole(named, "shared_handle")
    else:
        descriptor = value_from(named, INT, "shared_handle", signed=True)
    if descriptor < 0:
        raise InvalidValue(f"shared_handle must be a file descriptor, got {descriptor}")
    with _as_documented():
        pool = BorrowedPool(descriptor)
        return register(pool, device_at(pool.device).context)


@made_or_given(hipMemPoolPtrExportData)
@call
def hipMemPoolExportPointer(export_data: hipMemPoolPtrExportData, dev_ptr: int) -> None:
    """Store in `export_data` what names an allocation of a shareable pool in other processes.

    `hipMemPoolExportPointer(dev_ptr)` returns new data.
    OutOfMemory: no descriptor is left; InvalidValue: no such struct, not the start of memory of such a pool.
    """
    into = instance(export_data, hipMemPoolPtrExportData, "export_data")
    address = address_of(dev_ptr, "dev_ptr")
    allocation = find_device(current_board(), address, "dev_ptr")
    pool = None
    if allocation.device is not None and address == allocation.address:
        pools = current_board().context(allocation.device).known_pools()
        pool = next((each for each in pools if each in SHAREABLE and allocation in each), None)
    if pool is None:
        raise InvalidValue(f"dev_ptr must begin memory of a pool made with handleTypes {POSIX.name}, got {address:#x}")
    with _as_documented():
        into.reserved = export_from_pool(pool, allocation)


@call
def hipMemPoolImportPointer(mem_pool: int, export_data: hipMemPoolPtrExportData) -> DeviceArray:
    """Return a pointer to memory of an imported pool, to be freed by hipFree or hipFreeAsync.

    OutOfMemory: no descriptor is left; InvalidValue: not an imported pool, data that is forged, stale or of another
    pool.
    """
    pool, given = borrowed_pool(mem_pool), instance(export_data, hipMemPoolPtrExportData, "export_data")
    if pool is None:
        raise InvalidValue(f"mem_pool must be a pool of hipMemPoolImportFromShareableHandle, got {mem_pool!r}")
    context = device_at(pool.device).context
    with _as_documented():
        memory = pool.open(bytes(given.reserved), context)
    board = context.board
    others = [each for each in range(board.devices) if each != pool.device and pool.get_access(each) is not Access.none]
    with _OPENING:
        imported = _Imported(context, memory, [board.context(each) for each in others])
    return DeviceArray.of(imported.alias.address, memory.size)
