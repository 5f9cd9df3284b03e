"""Scatter memory: one pointer for bytes that lie in several allocations, maybe on several banks (Runtime API, 2.11)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from atops.base.errors import InvalidType, InvalidValue
from atops.runtime.current_driver import current_driver
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.scatter import Part, Scattered
from atops.tops.bridge.aliases import add_alias
from atops.tops.bridge.arguments import size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device, device_at
from atops.tops.bridge.pointers import address_of, bad_pointer, find_device, owned
from atops.tops.bridge.waiting import until
from atops.tops.functions.extension.dim_arguments import DIMS, extents_in
from atops.tops.functions.extension.scatter_arguments import ScatterMemory, allocate_part, part_of, scatter_at

__all__ = (
    "topsMallocScatter",
    "topsScatterClearSubMemory",
    "topsScatterGetSubMem",
    "topsScatterInplace",
    "topsScatterMemoryGetInfo",
    "topsScatterMemoryGetSubNum",
    "topsScatterPopulateSub",
    "topsScatterSetSubMem",
)


@call
def topsMallocScatter(size: int) -> int:
    """Return a pointer for `size` bytes of the current device that own no memory until parts hold them.

    topsMemorySetDims gives it dimensions; once the windows of its parts cover them, copies, fills, reductions, words
    and executables take it as one row-major buffer, and kernels its parts. topsFree frees it and the parts that it
    owns. OutOfMemory: no addresses. InvalidValue: no size.
    """
    device, nbytes = current_device(), size_of(size)
    memory = Scattered(nbytes, device.ordinal)
    owner = ScatterMemory(memory)
    memory.address = memory.host_address = add_alias(device.context, nbytes, owner.resolve, owner).address
    return memory.address


@call
def topsScatterSetSubMem(
    dev_ptr: int, sub_dptr: int, win_pos: Any, win_size: int | None, map_ctrl: Any, map_size: int | None
) -> None:
    """Attach the user's memory, whose dimensions are set, as the window at `win_pos`; it stays the user's.

    Axis j of it is axis `map_ctrl[j]` of the parent. Freeing it makes the parent incomplete. InvalidValue: no scatter
    memory, no memory of topsMalloc on the same device, bytes that are not the window's, another rank, no permutation,
    a window that leaves the parent. IllegalState: dimensions that nobody set.
    """
    parent = scatter_at(dev_ptr).memory
    address = address_of(sub_dptr, "sub_dptr")
    allocation = find_device(current_driver(), address, "sub_dptr")
    if allocation.address != address or owned(allocation) is None or allocation.device != parent.device:
        raise InvalidValue(f"sub_dptr {address:#x} was not returned by topsMalloc on device {parent.device}")
    dims = DIMS.get(allocation, ())
    if map_size is not None and whole(map_size, "map_size") != len(map_ctrl):
        raise InvalidValue(f"map_size is {map_size} and map_ctrl has {len(map_ctrl)} elements; None or that is right")
    part = part_of(parent, Buffer(allocation), dims, win_pos, map_ctrl, win_size)
    nbytes = math.prod(dims) * parent.itemsize
    if nbytes != allocation.size:
        raise InvalidValue(f"{dims} elements of {parent.itemsize} bytes are {nbytes} bytes, not all of {allocation!r}")
    _attach(parent, part)


@call
def topsScatterPopulateSub(
    dev_ptr: int, bpe: int, bank: int, dims: Any, win_pos: Any, map_ctrl: Any, rank_size: int | None
) -> None:
    """Allocate a part of `dims` elements on a physical bank and attach it; the parent owns it.

    OutOfMemory: the bank is too full. InvalidValue: no scatter memory, a `bpe` that is not the parent's element size,
    no such bank, another rank, no permutation, a window that leaves the parent. IllegalState: no dimensions.
    """
    parent = scatter_at(dev_ptr).memory
    part = _described(parent, bpe, dims, win_pos, map_ctrl, rank_size)
    _attach(parent, allocate_part(_context(parent), parent, part, whole(bank, "bank")))


@call
async def topsScatterInplace(
    dev_ptr: int, sub_count: int | None, bpe: int, bank_list: Sequence[int], dims_list: Sequence[Any],
    win_pos_list: Sequence[Any], map_ctrl_list: Sequence[Any], rank_size: int | None,
) -> None:  # fmt: skip
    """Let other owned parts hold the parent under the same pointer, after its device's work; contents are kept.

    What no part held before is 0. A failure leaves the old parts. OutOfMemory: a bank is too full for the new part
    beside the old ones. InvalidValue: parts of the user's, windows that do not cover the parent, and as
    topsScatterPopulateSub.
    """
    owner = scatter_at(dev_ptr)
    parent = owner.memory
    lists = [_listed(each, sub_count) for each in (bank_list, dims_list, win_pos_list, map_ctrl_list)]
    banks = [whole(bank, "bank_list") for bank in lists[0]]
    parts = [_described(parent, bpe, *each, rank_size) for each in zip(lists[1], lists[2], lists[3], strict=True)]
    context = _context(parent)
    await until(device_at(parent.device))
    if not all(part.owned for part in parent.parts):
        raise InvalidValue(f"{parent!r} has parts of the user's; topsScatterInplace takes only its own")
    made: list[Part] = []
    try:
        for part, bank in zip(parts, banks, strict=True):
            made.append(allocate_part(context, parent, part, bank))
        owner.replace(made)
    except BaseException:
        for part in made:
            context.scattered.pop(part.memory.allocation.serial).close()
        raise


@call
async def topsScatterClearSubMemory(dev_ptr: int) -> None:
    """Detach all parts, and free the owned ones, after all work of the device. InvalidValue: no scatter memory."""
    owner = scatter_at(dev_ptr)
    await until(device_at(owner.memory.device))
    owner.clear()


# ---- asking


@call
def topsScatterMemoryGetSubNum(dev_ptr: int) -> int:
    """Return how many parts are attached. InvalidValue: no scatter memory."""
    return len(scatter_at(dev_ptr).memory.parts)


@call
def topsScatterGetSubMem(dev_ptr: int, index: int) -> int:
    """Return the pointer of a part, in the order of attachment; kernels take it. It is not retained.

    InvalidValue: no scatter memory, no such part, or one that was freed.
    """
    part = _part(dev_ptr, index)
    if not part.memory.is_live:
        raise bad_pointer(f"part {index} was freed by {part.memory.allocation.freed_by}")
    return part.memory.address


@call
def topsScatterMemoryGetInfo(dev_ptr: int, index: int) -> tuple[list[int], int, list[int], int]:
    """Return a part's window position and its length, and its axes' map and its length. InvalidValue: no such part."""
    part = _part(dev_ptr, index)
    return list(part.anchor), len(part.anchor), list(part.axes), len(part.axes)


def _part(pointer: Any, index: Any) -> Part:
    parts = scatter_at(pointer).memory.parts
    at = whole(index, "index")
    if not 0 <= at < len(parts):
        raise InvalidValue(f"index is {at}; there are {len(parts)} parts")
    return parts[at]


def _described(parent: Scattered, bpe: Any, dims: Any, win_pos: Any, map_ctrl: Any, rank: Any) -> Part:
    """Return a part without memory. Raises InvalidValue where `bpe` is not the parent's element size."""
    extents = extents_in(dims, rank, "dims")
    part = part_of(parent, None, extents, win_pos, map_ctrl, rank)
    if whole(bpe, "bpe") != parent.itemsize:
        raise InvalidValue(f"bpe is {bpe}; the parent's elements have {parent.itemsize} bytes")
    return part


def _listed(values: Any, count: Any) -> Sequence[Any]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidType(f"{values!r} is no sequence with an entry for each part")
    if count is not None and whole(count, "sub_count") != len(values):
        raise InvalidValue(f"sub_count is {count} and a list has {len(values)} entries; None or that many is right")
    return values


def _attach(parent: Scattered, part: Part) -> None:
    with current_driver().lock:
        parent.parts += (part,)


def _context(parent: Scattered) -> Any:
    return device_at(parent.device).context
