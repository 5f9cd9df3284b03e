"""The dimensions that a program gives its device memory (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import Any

from atops.base.errors import IllegalState, InvalidValue
from atops.device.memory.allocation import Allocation
from atops.runtime.current_driver import current_driver
from atops.runtime.memory.scatter import Scattered
from atops.tops.bridge.aliases import alias_at
from atops.tops.bridge.call import call
from atops.tops.bridge.pointers import address_of, find_device, owned
from atops.tops.functions.extension.dim_arguments import DIMS, dims_in
from atops.tops.functions.extension.scatter_arguments import ScatterMemory

__all__ = ("topsMemoryGetDims", "topsMemorySetDims")


@call
def topsMemorySetDims(devPtr: int, dims: Any, dims_count: int | None) -> None:
    """Give memory of topsMalloc and its like one to eight dimensions, outermost first.

    InvalidValue: other memory, an interior pointer, extents that make no whole elements of its size. IllegalState:
    scatter memory that has parts already.
    """
    memory = _allocation(devPtr)
    found = dims_in(dims, dims_count, memory.size)
    if isinstance(memory, Scattered):
        if memory.parts:
            raise IllegalState(f"{memory!r} has {len(memory.parts)} parts; clear them before its dimensions change")
        memory.dims = found
    DIMS[memory] = found


@call
def topsMemoryGetDims(devPtr: int) -> tuple[list[int], int]:
    """Return the dimensions of memory, or of an owned part of scatter memory, and how many there are.

    InvalidValue: other memory, or an interior pointer. IllegalState: nobody gave it any.
    """
    memory = _allocation(devPtr, parts=True)
    dims = DIMS.get(memory)
    if dims is None:
        raise IllegalState(f"{memory!r} has no dimensions; topsMemorySetDims gives it some")
    return list(dims), len(dims)


def _allocation(pointer: Any, *, parts: bool = False) -> Allocation:
    """Return what a pointer of topsMalloc or topsMallocScatter, or of its owned `parts`, stands for.

    Raises CodeError, InvalidValue.
    """
    driver = current_driver()
    address = address_of(pointer, "devPtr")
    alias = alias_at(driver, address)
    if alias is not None and isinstance(alias.owner, ScatterMemory) and alias.address == address:
        return alias.owner.memory
    allocation = None if alias is not None else find_device(driver, address, "devPtr")
    known = allocation is not None and (owned(allocation) is not None or (parts and _is_part(allocation)))
    if allocation is None or allocation.address != address or not known:
        raise InvalidValue(f"devPtr {address:#x} was not returned by topsMalloc or one of its kind")
    return allocation


def _is_part(allocation: Allocation) -> bool:
    """Tell whether scatter memory owns an allocation."""
    device = allocation.device
    return device is not None and allocation.serial in current_driver().context(device).scattered
