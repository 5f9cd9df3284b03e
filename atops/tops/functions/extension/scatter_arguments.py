"""Scatter memory as the C-style functions have it: the parent behind a pointer, its parts, and who owns them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from atops.base.errors import IllegalState, InvalidValue
from atops.base.result_codes import Result
from atops.runtime.board.context import DeviceContext
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.scatter import Part, Scattered, covers
from atops.tops.bridge.aliases import Alias, alias_at, remove_alias
from atops.tops.bridge.arguments import numbers
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.pointers import address_of
from atops.tops.functions.extension.dim_arguments import DIMS
from atops.tops.types.enumerations import topsMemoryType

__all__ = ("ScatterMemory", "allocate_part", "part_of", "scatter_at")


class ScatterMemory:
    """What the pointer of topsMallocScatter stands for. It keeps no device alive; owned parts belong to the device."""

    __slots__ = ("memory",)

    memory_type = topsMemoryType.topsMemoryTypeScatter

    def __init__(self, memory: Scattered) -> None:
        self.memory = memory

    def resolve(self, offset: int, nbytes: int) -> Buffer:
        """Return bytes of the parent. Raises InvalidValue while it is not complete, or beyond its end."""
        if nbytes < 0 or offset + nbytes > self.memory.size:
            raise InvalidValue(f"{nbytes} bytes at offset {offset} are not inside {self.memory!r}")
        if nbytes:
            self.memory.check_complete()
        return Buffer(self.memory, offset, nbytes)

    def clear(self) -> None:
        """Detach all parts, and free the owned ones once nothing uses them."""
        parts, self.memory.parts = self.memory.parts, ()
        _free_parts(self.memory, parts)

    def replace(self, parts: Sequence[Part]) -> None:
        """Let other owned parts hold what these did. Raises InvalidValue unless the new ones cover the parent."""
        if not covers(self.memory.dims, tuple(parts)):
            raise InvalidValue(f"{len(parts)} parts do not cover {self.memory.dims} without gap or overlap")
        contents = self.memory.read(0, self.memory.size)
        old, self.memory.parts = self.memory.parts, tuple(parts)
        self.memory.write(0, contents)
        _free_parts(self.memory, old)

    def free_name(self, alias: Alias) -> None:
        """Free the parent and its owned parts: what topsFree does. Raises CodeError when that was done before."""
        if not remove_alias(current_driver(), alias):
            raise CodeError(Result.InvalidDevicePointer, f"{alias.address:#x} was freed by another thread")
        self.clear()
        self.memory.end("topsFree")


def scatter_at(pointer: Any) -> ScatterMemory:
    """Return the parent of a pointer. Raises CodeError, InvalidValue for what topsMallocScatter did not return."""
    address = address_of(pointer, "dev_ptr")
    alias = alias_at(current_driver(), address)
    if alias is None or not isinstance(alias.owner, ScatterMemory) or alias.address != address:
        raise InvalidValue(f"dev_ptr {address:#x} is no scatter memory; what topsMallocScatter returned is right")
    return alias.owner


def part_of(
    parent: Scattered, memory: Buffer | None, dims: tuple[int, ...], anchor: Any, axes: Any, count: Any
) -> Part:
    """Return a part of checked geometry; memory None is for the caller to allocate.

    Raises IllegalState for a parent without dimensions, InvalidType, and InvalidValue where ranks differ, `axes` is no
    permutation, or the window leaves the parent.
    """
    if not parent.dims:
        raise IllegalState(f"{parent!r} has no dimensions; topsMemorySetDims gives it some")
    rank = len(parent.dims)
    at, order = numbers(anchor, count, "win_pos"), numbers(axes, count, "map_ctrl")
    if len(dims) != rank or len(at) != rank or sorted(order) != list(range(rank)):
        raise InvalidValue(
            f"dims {dims}, win_pos {at} and map_ctrl {order} of a part of {parent.dims}; {rank} numbers each, and a "
            f"permutation of 0 to {rank - 1}, are right"
        )
    part = Part(memory if memory is not None else Buffer(parent), dims, at, order, memory is None)
    for start, extent, whole in zip(at, part.extent, parent.dims, strict=True):
        if start < 0 or start + extent > whole:
            raise InvalidValue(f"the window at {at} of {part.extent} elements leaves the parent's {parent.dims}")
    return part


def allocate_part(context: DeviceContext, parent: Scattered, part: Part, bank: int) -> Part:
    """Return the part with memory of its own on a bank, which the device keeps for the parent. Raises OutOfMemory."""
    nbytes = math.prod(part.dims) * parent.itemsize
    made = Device(context.ordinal, current_driver()).allocate(nbytes, bank=bank)
    context.scattered[made.allocation.serial] = made
    DIMS[made.allocation] = part.dims
    plain = Buffer(made.allocation, 0, nbytes)
    return part._replace(memory=plain, owned=True)


def _free_parts(parent: Scattered, parts: Iterable[Part]) -> None:
    """Give owned parts back."""
    assert parent.device is not None
    kept = current_driver().context(parent.device).scattered
    for part in parts:
        if part.owned and (made := kept.pop(part.memory.allocation.serial, None)) is not None:
            made.close()
