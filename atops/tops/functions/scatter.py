"""Scatter memory, one pointer for bytes in several allocations, and the dimensions of memory (Runtime API, 2.11)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from atops.base.errors import IllegalState, InvalidValue
from atops.base.result_codes import Result
from atops.bridge.arguments import index_in, listed, numbers, size_of, whole
from atops.bridge.call import until
from atops.bridge.codes import CodeError
from atops.bridge.handles import current_board, current_device, device_at
from atops.bridge.pointers import (
    Alias,
    add_alias,
    address_of,
    alias_at,
    bad_pointer,
    check_range,
    find_device,
    owned,
    remove_alias,
)
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.scatter import MOST_DIMS, Part, Scattered, covers
from atops.tops.functions.api import call
from atops.tops.header.enumerations import topsMemoryType

__all__ = (
    "ScatterMemory", "topsMallocScatter", "topsMemoryGetDims", "topsMemorySetDims", "topsScatterClearSubMemory",
    "topsScatterGetSubMem", "topsScatterInplace", "topsScatterMemoryGetInfo", "topsScatterMemoryGetSubNum",
    "topsScatterPopulateSub", "topsScatterSetSubMem",
)  # fmt: skip

@call
def topsMallocScatter(size: int) -> int:
    """Return a pointer for `size` bytes of the current device that own no memory until parts hold them.

    topsMemorySetDims gives it dimensions; once the windows of its parts cover them, copies, fills, reductions, words
    and executables take it as one row-major buffer, and kernels its parts. topsFree frees it and the parts that it
    owns. OutOfMemory: no addresses. InvalidValue: not a size.
    """
    device, nbytes = current_device(), size_of(size)
    memory = Scattered(nbytes, device.ordinal)
    owner = ScatterMemory(memory)
    memory.address = memory.host_address = add_alias(device.context, nbytes, owner.resolve, owner).address
    return memory.address


@call
def topsScatterSetSubMem(
    dev_ptr: int, sub_dptr: int, win_pos: object, win_size: int | None, map_ctrl: object, map_size: int | None
) -> None:
    """Attach the user's memory, whose dimensions are set, as the window at `win_pos`; it stays the user's.

    Axis j of it is axis `map_ctrl[j]` of the parent. Freeing it makes the parent incomplete. InvalidValue: not scatter
    memory, not memory of topsMalloc on the same device, bytes that are not the window's, another rank, not a
    permutation, a window that leaves the parent. IllegalState: dimensions that were not set.
    """
    parent = _scatter_at(dev_ptr).memory
    address = address_of(sub_dptr, "sub_dptr")
    allocation = find_device(current_board(), address, "sub_dptr")
    if allocation.address != address or owned(allocation) is None or allocation.device != parent.device:
        raise InvalidValue(f"sub_dptr must be a pointer of topsMalloc on device {parent.device}, got {address:#x}")
    dims = _DIMS.get(allocation, ())
    axes = numbers(map_ctrl, map_size, "map_ctrl", MOST_DIMS)
    part = _part_of(parent, Buffer(allocation), dims, win_pos, axes, win_size)
    nbytes = math.prod(dims) * parent.itemsize
    if nbytes != allocation.size:
        raise InvalidValue(f"dims {dims} of {parent.itemsize} bytes each must fill {allocation!r}, got {nbytes} bytes")
    _attach(parent, part)


@call
def topsScatterPopulateSub(
    dev_ptr: int, bpe: int, bank: int, dims: object, win_pos: object, map_ctrl: object, rank_size: int | None
) -> None:
    """Allocate a part of `dims` elements on a physical bank and attach it; the parent owns it.

    OutOfMemory: the bank is too full. InvalidValue: not scatter memory, a `bpe` that is not the parent's element size,
    no such bank, another rank, not a permutation, a window that leaves the parent. IllegalState: no dimensions.
    """
    parent = _scatter_at(dev_ptr).memory
    part = _described(parent, bpe, dims, win_pos, map_ctrl, rank_size)
    _attach(parent, _allocate_part(_context(parent), parent, part, whole(bank, "bank")))


@call
async def topsScatterInplace(
    dev_ptr: int, sub_count: int | None, bpe: int, bank_list: Sequence[int], dims_list: Sequence[object],
    win_pos_list: Sequence[object], map_ctrl_list: Sequence[object], rank_size: int | None,
) -> None:  # fmt: skip
    """Replace the owned parts of the parent under the same pointer, after its device's work; contents are kept.

    Bytes that no part held before are 0. A failure leaves the old parts. OutOfMemory: a bank is too full for the new
    part beside the old ones. InvalidValue: parts of the user's, windows that do not cover the parent, and as
    topsScatterPopulateSub.
    """
    owner = _scatter_at(dev_ptr)
    parent = owner.memory
    banks = numbers(bank_list, sub_count, "bank_list")
    named = (("dims_list", dims_list), ("win_pos_list", win_pos_list), ("map_ctrl_list", map_ctrl_list))
    lists = [listed(each, len(banks), what) for what, each in named]
    parts = [_described(parent, bpe, *each, rank_size) for each in zip(lists[0], lists[1], lists[2], strict=True)]
    context = _context(parent)
    await until(device_at(parent.device))
    if not all(part.owned for part in parent.parts):
        raise InvalidValue(f"{parent!r} has parts of the user's; topsScatterInplace replaces only parts that it owns")
    made: list[Part] = []
    try:
        for part, bank in zip(parts, banks, strict=True):
            made.append(_allocate_part(context, parent, part, bank))
        owner.replace(made)
        if (detector := context.board.detector) is not None:
            for part in made:
                detector.cleared(part.memory.allocation)  # it has what the old parts had, and 0 elsewhere
    except BaseException:
        for part in made:
            context.scattered.pop(part.memory.allocation.serial).close()
        raise


@call
async def topsScatterClearSubMemory(dev_ptr: int) -> None:
    """Detach all parts, and free the owned ones, after all work of the device. InvalidValue: not scatter memory."""
    owner = _scatter_at(dev_ptr)
    await until(device_at(owner.memory.device))
    owner.clear()


# ---- asking


@call
def topsScatterMemoryGetSubNum(dev_ptr: int) -> int:
    """Return how many parts are attached. InvalidValue: not scatter memory."""
    return len(_scatter_at(dev_ptr).memory.parts)


@call
def topsScatterGetSubMem(dev_ptr: int, index: int) -> int:
    """Return the pointer of a part, in the order of attachment; kernels take it. It is not retained.

    InvalidValue: not scatter memory, no such part, or one that was freed.
    """
    part = _part(dev_ptr, index)
    if not part.memory.is_live:
        raise bad_pointer(part.memory.allocation.freed_message(f"part {index}"))
    return part.memory.address


@call
def topsScatterMemoryGetInfo(dev_ptr: int, index: int) -> tuple[list[int], int, list[int], int]:
    """Return a part's window position and its length, and its axes' map and its length. InvalidValue: no such part."""
    part = _part(dev_ptr, index)
    return list(part.anchor), len(part.anchor), list(part.axes), len(part.axes)


def _part(pointer: object, index: object) -> Part:
    parts = _scatter_at(pointer).memory.parts
    return parts[index_in(index, len(parts), "the index of parts")]


def _described(parent: Scattered, bpe: object, dims: object, win_pos: object, map_ctrl: object, rank: object) -> Part:
    """Return a part without memory. Raises InvalidValue where `bpe` is not the parent's element size."""
    extents = _extents_in(dims, rank, "dims")
    part = _part_of(parent, None, extents, win_pos, map_ctrl, rank)
    if whole(bpe, "bpe") != parent.itemsize:
        raise InvalidValue(f"bpe must be {parent.itemsize}, the bytes of the parent's elements, got {bpe}")
    return part


def _attach(parent: Scattered, part: Part) -> None:
    with current_board().lock:
        parent.parts += (part,)


def _context(parent: Scattered) -> DeviceContext:
    return device_at(parent.device).context


class ScatterMemory:
    """The scatter memory behind a pointer. It keeps no device alive; the parts that it owns belong to the device."""

    __slots__ = ("memory",)

    memory_type = topsMemoryType.topsMemoryTypeScatter

    def __init__(self, memory: Scattered) -> None:
        self.memory = memory

    def resolve(self, offset: int, nbytes: int) -> Buffer:
        """Return bytes of the parent. Raises InvalidValue while it is not complete, or beyond its end."""
        check_range(self.memory, offset, nbytes, "scatter memory")
        if nbytes:
            self.memory.check_complete()
        return Buffer(self.memory, offset, nbytes)

    def clear(self) -> None:
        """Detach all parts, and free the owned ones once nothing uses them."""
        parts, self.memory.parts = self.memory.parts, ()
        _free_parts(self.memory, parts)

    def replace(self, parts: Sequence[Part]) -> None:
        """Move the contents to other owned parts. Raises InvalidValue unless the new ones cover the parent."""
        if not covers(self.memory.dims, tuple(parts)):
            raise InvalidValue(f"{len(parts)} parts do not cover {self.memory.dims} without gap or overlap")
        contents = self.memory.read(0, self.memory.size)
        old, self.memory.parts = self.memory.parts, tuple(parts)
        self.memory.write(0, contents)
        _free_parts(self.memory, old)

    def free_name(self, alias: Alias) -> None:
        """Free the parent and its owned parts: what topsFree does. Raises CodeError when that was done before."""
        if not remove_alias(current_board(), alias):
            raise CodeError(Result.InvalidDevicePointer, f"{alias.address:#x} was freed by another thread")
        self.clear()
        self.memory.end("topsFree")


def _scatter_at(pointer: object) -> ScatterMemory:
    """Return the parent of a pointer. Raises InvalidValue for pointers of other functions."""
    address = address_of(pointer, "dev_ptr")
    alias = alias_at(current_board(), address)
    if alias is None or not isinstance(alias.owner, ScatterMemory) or alias.address != address:
        raise InvalidValue(f"dev_ptr must be a pointer of topsMallocScatter, got {address:#x}")
    return alias.owner


def _part_of(
    parent: Scattered, memory: Buffer | None, dims: tuple[int, ...], anchor: object, axes: object, count: object
) -> Part:
    """Return a part of checked geometry; memory None is for the caller to allocate.

    Raises IllegalState for a parent without dimensions, InvalidType, and InvalidValue where ranks differ, `axes` is no
    permutation, or the window leaves the parent.
    """
    if not parent.dims:
        raise IllegalState(f"{parent!r} has no dimensions; topsMemorySetDims sets them")
    rank = len(parent.dims)
    at, order = (numbers(*each, MOST_DIMS) for each in ((anchor, count, "win_pos"), (axes, count, "map_ctrl")))
    if len(dims) != rank or len(at) != rank or sorted(order) != list(range(rank)):
        raise InvalidValue(
            f"a part of {parent.dims} needs {rank} numbers each, and as map_ctrl a permutation of 0 to {rank - 1}, got "
            f"dims {dims}, win_pos {at} and map_ctrl {order}"
        )
    part = Part(memory if memory is not None else Buffer(parent), dims, at, order, memory is None)
    for start, extent, room in zip(at, part.extent, parent.dims, strict=True):
        if start < 0 or start + extent > room:
            raise InvalidValue(f"the window at {at} of {part.extent} elements leaves the parent's {parent.dims}")
    return part


def _allocate_part(context: DeviceContext, parent: Scattered, part: Part, bank: int) -> Part:
    """Return the part with memory of its own on a bank, which the device keeps for the parent. Raises OutOfMemory."""
    nbytes = math.prod(part.dims) * parent.itemsize
    made = Device(context.ordinal).allocate(nbytes, bank=bank)
    context.scattered[made.allocation.serial] = made
    _DIMS[made.allocation] = part.dims
    plain = Buffer(made.allocation, 0, nbytes)
    return part._replace(memory=plain, owned=True)


def _free_parts(parent: Scattered, parts: Iterable[Part]) -> None:
    assert parent.device is not None
    kept = current_board().context(parent.device).scattered
    for part in parts:
        if part.owned and (made := kept.pop(part.memory.allocation.serial, None)) is not None:
            made.close()


_DIMS: Final[WeakKeyDictionary[Allocation, tuple[int, ...]]] = WeakKeyDictionary()


def _extents_in(dims: object, count: object, what: str) -> tuple[int, ...]:
    found = numbers(dims, count, what, MOST_DIMS)
    if not 1 <= len(found) <= MOST_DIMS or min(found) < 1:
        raise InvalidValue(f"{what} must have 1 to {MOST_DIMS} extents of 1 or more, got {found}")
    return found


@call
def topsMemorySetDims(devPtr: int, dims: object, dims_count: int | None) -> None:
    """Set one to eight dimensions of memory of topsMalloc and the like, outermost first.

    InvalidValue: other memory, an interior pointer, extents that do not make whole elements of its size. IllegalState:
    scatter memory that has parts already.
    """
    memory = _allocation(devPtr)
    found = _extents_in(dims, dims_count, "dims")
    if not memory.size or memory.size % math.prod(found):
        raise InvalidValue(f"dims must make whole elements of {memory.size} bytes, got {found}")
    if isinstance(memory, Scattered):
        if memory.parts:
            raise IllegalState(f"{memory!r} has {len(memory.parts)} parts; clear them before its dimensions change")
        memory.dims = found
    _DIMS[memory] = found


@call
def topsMemoryGetDims(devPtr: int) -> tuple[list[int], int]:
    """Return the dimensions of memory, or of an owned part of scatter memory, and how many there are.

    InvalidValue: other memory, or an interior pointer. IllegalState: it has none.
    """
    memory = _allocation(devPtr, parts=True)
    dims = _DIMS.get(memory)
    if dims is None:
        raise IllegalState(f"{memory!r} has no dimensions; topsMemorySetDims sets them")
    return list(dims), len(dims)


def _allocation(pointer: object, *, parts: bool = False) -> Allocation:
    """Return the allocation of a pointer of topsMalloc or topsMallocScatter, or of its owned `parts`.

    Raises CodeError, InvalidValue.
    """
    board = current_board()
    address = address_of(pointer, "devPtr")
    alias = alias_at(board, address)
    if alias is not None and isinstance(alias.owner, ScatterMemory) and alias.address == address:
        return alias.owner.memory
    allocation = None if alias is not None else find_device(board, address, "devPtr")
    known = allocation is not None and owned(allocation) is not None
    if parts and allocation is not None and allocation.device is not None:  # scatter memory may own it
        known = known or allocation.serial in board.context(allocation.device).scattered
    if allocation is None or allocation.address != address or not known:
        raise InvalidValue(f"devPtr must be a pointer of topsMalloc or the like, got {address:#x}")
    return allocation
