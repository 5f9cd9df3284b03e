"""Pools of memory, and allocations and frees in stream order (001, stream-ordered allocation)."""

from __future__ import annotations

from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from atops.base.errors import InvalidDevice, InvalidHandle, InvalidValue, NotSupported
from atops.base.result_codes import Result
from atops.bridge.arguments import instance, listed, member, size_of
from atops.bridge.handles import current_board, device_at, live, register, stream_of, take, usable_stream_of
from atops.bridge.pointers import address_of, bad_pointer, disown, find_device, own
from atops.device.memory.allocation import Allocation
from atops.hip.functions.api import call
from atops.hip.functions.host import value_from, value_into
from atops.hip.functions.shared_pools import SHAREABLE, borrowed_pool, imported_at
from atops.hip.header.enumerations import (
    hipMemAccessFlags,
    hipMemAllocationHandleType,
    hipMemAllocationType,
    hipMemLocationType,
    hipMemPoolAttr,
)
from atops.hip.header.pointers import DeviceArray
from atops.hip.header.structs import hipMemAccessDesc, hipMemLocation, hipMemPoolProps
from atops.runtime.commands.memory import Free
from atops.runtime.ipc.pool import BorrowedPool
from atops.runtime.memory.buffer import Buffer
from atops.runtime.owning_queue import OwningQueue
from atops.runtime.pools.pool import Access, MemoryPool
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.stream import Stream, queue_of

__all__ = (
    "hipDeviceGetDefaultMemPool", "hipDeviceGetMemPool", "hipDeviceSetMemPool", "hipFreeAsync", "hipMallocAsync",
    "hipMallocFromPoolAsync", "hipMemPoolCreate", "hipMemPoolDestroy", "hipMemPoolGetAccess",
    "hipMemPoolGetAttribute", "hipMemPoolSetAccess", "hipMemPoolSetAttribute", "hipMemPoolTrimTo",
)  # fmt: skip

# ---- allocations in stream order


@call
def hipMallocAsync(size: int, stream: int | None) -> DeviceArray:
    """Return a pointer to memory of the current pool of the stream's device, which the stream has in its order.

    It stays allocated when the stream is destroyed. Size 0 is null. OutOfMemory; InvalidValue: not a size;
    InvalidHandle.
    """
    return _allocate(usable_stream_of(stream), size, None)


@call
def hipMallocFromPoolAsync(size: int, mem_pool: int, stream: int | None) -> DeviceArray:
    """As hipMallocAsync from a pool, also of another device: kernels of the stream's need hipMemPoolSetAccess for it.

    OutOfMemory: the device or the pool's `maxSize` is exhausted. InvalidValue: not a live pool.
    """
    return _allocate(usable_stream_of(stream), size, _pool_of(mem_pool))


@call
def hipFreeAsync(dev_ptr: int, stream: int | None) -> None:
    """Give memory of hipMallocAsync, hipMallocFromPoolAsync or hipMalloc back, in the order of a stream.

    Memory of hipMemPoolImportPointer is let go of.

    It runs even if the stream has failed. InvalidValue: null, interior, dead or other pointers; InvalidHandle.
    """
    target = stream_of(stream)
    address = address_of(dev_ptr, "dev_ptr")
    if (imported := imported_at(address)) is not None:
        target.call(imported.close)
        return
    allocation = find_device(current_board(), address, "dev_ptr")
    buffer = disown(allocation) if address == allocation.address and allocation.device is not None else None
    if buffer is None:
        raise bad_pointer(f"dev_ptr must be a pointer of hipMallocAsync that was not freed, got {address:#x}")
    try:
        buffer.release_in(queue_of(target))
    except BaseException:
        own(buffer)
        raise


def _allocate(stream: Stream, size: object, pool: MemoryPool | None) -> DeviceArray:
    nbytes = size_of(size)
    if not nbytes:
        return DeviceArray(0)
    queue = queue_of(stream)
    try:
        if pool is not None and pool.get_access(stream.device_id) is Access.none:  # its own device gives it out
            home = device_at(pool.device_id).null_stream
            chosen, allocation = queue_of(home).take_memory(nbytes, pool)
            stream.wait(home)
        else:
            chosen, allocation = queue.take_memory(nbytes, pool)
    except InvalidHandle as error:
        raise InvalidValue(str(error)) from error
    try:
        buffer = own(Buffer(allocation, 0, nbytes, partial(_free, chosen), queue.board))
    except BaseException:  # Ctrl-C: it would never be freed
        chosen.cancel(allocation)
        raise
    return DeviceArray.of(buffer.address, nbytes)


def _free(pool: MemoryPool, allocation: Allocation, stream: StreamQueue | None = None) -> None:
    """Enqueue the free of memory of a pool, in the order of a stream: of the null stream of its device for None."""
    if pool.context.board.closed is not None or not allocation.alive:
        return
    if stream is None:
        stream = queue_of(device_at(pool.context.ordinal).null_stream)
    assert isinstance(stream, OwningQueue)
    item = stream.submit(Free(allocation, pool), duty=True)
    pool.give(allocation, stream, item)


# ---- pools

HANDLES: Final[WeakKeyDictionary[MemoryPool, int]] = WeakKeyDictionary()
NOT_SHARED: Final = hipMemAllocationHandleType.hipMemHandleTypeNone
BY_DESCRIPTOR: Final = hipMemAllocationHandleType.hipMemHandleTypePosixFileDescriptor


def _pool_of(handle: object) -> MemoryPool:
    """Return the pool of a handle. Raises InvalidValue for anything else, a destroyed pool too."""
    try:
        pool = live(handle, MemoryPool)
    except InvalidHandle as error:
        raise InvalidValue(str(error)) from None
    if pool.is_destroyed:
        raise InvalidValue(f"{pool!r} is destroyed")
    return pool


def _handle_of(pool: MemoryPool) -> int:
    """Return the handle of a pool: the same each time, also of one that the object API made."""
    if pool not in HANDLES:
        HANDLES[pool] = register(pool, pool.context)
    return HANDLES[pool]


@call
def hipDeviceGetDefaultMemPool(device: int) -> int:
    """Return the pool that the device always has. InvalidDevice."""
    return _handle_of(device_at(device).default_pool)


@call.instead({Result.InvalidDevice: Result.InvalidValue})
def hipDeviceGetMemPool(device: int) -> int:
    """Return the pool of hipMallocAsync: the default one until another was set. InvalidValue: no such device."""
    return _handle_of(device_at(device).current_pool)


@call.instead({Result.InvalidDevice: Result.InvalidValue})
def hipDeviceSetMemPool(device: int, mem_pool: int) -> None:
    """Let hipMallocAsync of the device's streams take from this pool. InvalidValue: no device, no live pool of it."""
    target, pool = device_at(device), _pool_of(mem_pool)
    try:
        target.current_pool = pool
    except InvalidHandle as error:
        raise InvalidValue(str(error)) from None


@call
def hipMemPoolCreate(pool_props: hipMemPoolProps) -> int:
    """Return a new pool of the device `location.id`, of at most `maxSize` bytes; 0 is as much as the device has.

    InvalidValue: not a struct of the kind, `allocType` other than Pinned, `location` other than a device.
    `handleTypes` may be hipMemHandleTypePosixFileDescriptor: then other processes can open it
    (hipMemPoolExportToShareableHandle). NotSupported: other `handleTypes`.
    """
    props = instance(pool_props, hipMemPoolProps, "pool_props")
    if props.allocType != hipMemAllocationType.hipMemAllocationTypePinned:
        raise InvalidValue(f"allocType must be hipMemAllocationTypePinned, got {props.allocType!r}")
    device = _device_of(props.location)
    shared = member(hipMemAllocationHandleType, props.handleTypes, "handleTypes")
    if shared not in (NOT_SHARED, BY_DESCRIPTOR):
        raise NotSupported(f"handleTypes must be {NOT_SHARED.name} or {BY_DESCRIPTOR.name}, got {shared.name}")
    most = size_of(props.maxSize, "maxSize")
    pool = device_at(device).create_pool(max_size=most or None)
    if shared is BY_DESCRIPTOR:
        SHAREABLE.add(pool)
    return _handle_of(pool)


@call
def hipMemPoolDestroy(mem_pool: int) -> None:
    """End a pool: what is allocated stays valid and goes back to the device when it is freed. Never waits.

    One of another process is let go of; what was imported from it stays.

    If it was its device's current pool, the default one is again. InvalidValue: a default pool, not a live pool.
    """
    if (borrowed := borrowed_pool(mem_pool)) is not None:
        take(mem_pool, BorrowedPool)
        borrowed.close()
        return
    pool = _pool_of(mem_pool)
    pool.destroy()
    HANDLES.pop(pool, None)
    try:
        take(mem_pool, MemoryPool)
    except InvalidHandle as error:
        raise InvalidValue(str(error)) from None


@call
def hipMemPoolTrimTo(mem_pool: int, min_bytes_to_hold: int) -> None:
    """Give idle memory back to the device; at least so many bytes stay reserved. InvalidValue."""
    _pool_of(mem_pool).trim(size_of(min_bytes_to_hold, "min_bytes_to_hold"))


# ---- attributes

SWITCHES: Final = {
    hipMemPoolAttr.hipMemPoolReuseFollowEventDependencies: "reuse_follow_event_dependencies",
    hipMemPoolAttr.hipMemPoolReuseAllowOpportunistic: "reuse_allow_opportunistic",
    hipMemPoolAttr.hipMemPoolReuseAllowInternalDependencies: "reuse_allow_internal_dependencies",
}  # an int in C
SIZES: Final = {
    hipMemPoolAttr.hipMemPoolAttrReleaseThreshold: "release_threshold",
    hipMemPoolAttr.hipMemPoolAttrReservedMemCurrent: "reserved_current",
    hipMemPoolAttr.hipMemPoolAttrReservedMemHigh: "reserved_high",
    hipMemPoolAttr.hipMemPoolAttrUsedMemCurrent: "used_current",
    hipMemPoolAttr.hipMemPoolAttrUsedMemHigh: "used_high",
}  # of 64 bits
INT, SIZE = 4, 8


@call
def hipMemPoolSetAttribute(mem_pool: int, attr: hipMemPoolAttr, value: object) -> None:
    """Set an attribute to what `value` points to: a ctypes object, an array, a buffer.

    The three that begin with hipMemPoolReuse are ints, the others 64 bits without sign. The peaks can be set to 0, and
    the release threshold: more bytes than it are given back when a stream, an event or the device is synchronised.
    InvalidValue: not a live pool, not such an attribute, one that is only read, null, a peak that is not 0.
    """
    pool, which = _pool_of(mem_pool), member(hipMemPoolAttr, attr, "attr")
    if which in SWITCHES:
        setattr(pool, SWITCHES[which], bool(value_from(value, INT, "value")))
        return
    name = SIZES[which]
    if name in ("reserved_current", "used_current"):
        raise InvalidValue(f"{which.name} can only be read")
    setattr(pool, name, value_from(value, SIZE, "value"))


@call
def hipMemPoolGetAttribute(mem_pool: int, attr: hipMemPoolAttr, value: object) -> None:
    """Store an attribute where `value` points to: an int for the three switches, 64 bits for the others.

    InvalidValue: not a live pool, not such an attribute, null, too little room.
    """
    pool, which = _pool_of(mem_pool), member(hipMemPoolAttr, attr, "attr")
    if which in SWITCHES:
        value_into(value, int(getattr(pool, SWITCHES[which])), INT, "value")
    else:
        value_into(value, min(getattr(pool, SIZES[which]), (1 << 64) - 1), SIZE, "value")


# ---- access

RIGHTS: Final = {
    hipMemAccessFlags.hipMemAccessFlagsProtNone: Access.none,
    hipMemAccessFlags.hipMemAccessFlagsProtRead: Access.read,
    hipMemAccessFlags.hipMemAccessFlagsProtReadWrite: Access.readwrite,
}


@call.instead({Result.InvalidDevice: Result.InvalidDevice})  # HIP's answer, beside the text's InvalidValue
def hipMemPoolSetAccess(mem_pool: int, desc_list: object, count: int) -> None:
    """Let devices use the pool's memory, or no longer: `desc_list` is one hipMemAccessDesc, or a list of `count`.

    All get what they are to have, or none does. InvalidValue: not a live pool, not such a list, no kind of location or
    of access. InvalidDevice: no such device, more descriptors than devices, less than ReadWrite for the pool's own.
    """
    pool = _pool_of(mem_pool)
    if size_of(count, "count") > (devices := current_board().devices):
        raise InvalidDevice(f"count must be at most {devices}, the number of devices, got {count}")
    given = [desc_list] if isinstance(desc_list, hipMemAccessDesc) else listed(desc_list, None, "desc_list")
    if count != len(given) or not given:
        raise InvalidValue(f"count must be {len(given)}, the number of descriptors, 1 or more, got {count}")
    wanted: dict[int, Access] = {}
    for each in given:
        desc = instance(each, hipMemAccessDesc, "a descriptor")
        access = RIGHTS[member(hipMemAccessFlags, desc.flags, "flags")]
        wanted[device_at(_located(desc.location)).ordinal] = access
    own_device = pool.device_id
    if wanted.get(own_device, Access.readwrite) is not Access.readwrite:
        raise InvalidDevice(f"device {own_device} has the pool and keeps hipMemAccessFlagsProtReadWrite")
    for device, access in wanted.items():
        pool.set_access(device, access)


@call.instead({Result.InvalidHandle: Result.InvalidValue})
def hipMemPoolGetAccess(mem_pool: int, location: hipMemLocation) -> hipMemAccessFlags:
    """Return what a location may do with the pool's memory. InvalidValue: not a live pool, no device.

    An imported pool has the access that its process had set when it was imported.
    """
    pool = borrowed_pool(mem_pool) or _pool_of(mem_pool)
    access = pool.get_access(_device_of(location))
    return next(flags for flags, each in RIGHTS.items() if each is access)


def _located(location: object) -> int:
    """Return the number of a location. Raises InvalidType, InvalidValue for one that is no device's."""
    location = instance(location, hipMemLocation, "location")
    if location.type != hipMemLocationType.hipMemLocationTypeDevice:
        raise InvalidValue(f"the location's type must be hipMemLocationTypeDevice, got {location.type!r}")
    return location.id


def _device_of(location: object) -> int:
    """Return the device of a location. Raises InvalidType, InvalidValue for other types of it, and for no device."""
    number, count = _located(location), current_board().devices
    if not isinstance(number, int) or not 0 <= number < count:
        raise InvalidValue(f"the location's id must be a device, 0 to {count - 1}, got {number!r}")
    return number
