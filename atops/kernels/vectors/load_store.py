"""Loads and stores of vectors in local, shared and global memory, with the checks of address, type and bounds.

The address of a vector is a multiple of the chip's vector alignment.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from atops.base.dtypes import element_name
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.device.exec.thread import THREAD_SLOT, KernelThread
from atops.device.geometry import Array
from atops.device.span.span import Span
from atops.kernels.memory.device_variables import Variable
from atops.kernels.memory.pointer import Pointer
from atops.kernels.memory.spaces import AnySpace, LanguageSpace, space_in
from atops.kernels.vectors.lanes import here, vector_thread

if TYPE_CHECKING:
    from atops.kernels.vectors.vector_type import VectorType

__all__ = ("load", "store")

# The key, among a thread's `sites`, of the arrays that it has loaded from: numpy takes a microsecond to tell where an
# array lies, three times as long as the load itself.
_ROWS = "rows of vectors"
_MOST_ROWS = 64


@dataclass(frozen=True, slots=True)
class _Row:
    """Memory as one row of elements, the first at byte `start` of its memory space. Holds `memory`: its id is a key.

    For the quick test of an access, `plain` is the element type where vectors of it can lie here, else None; the row
    begins `first` elements after an aligned address, and every `step`-th element has an aligned address.
    """

    memory: object
    flat: Array | Span
    element: np.dtype[np.generic]
    size: int
    start: int
    space: AnySpace
    alignment: int
    plain: np.dtype[np.generic] | None
    first: int
    step: int


def load(kind: VectorType, memory: object, index: SupportsIndex, count: SupportsIndex | None) -> Array:
    """Return a copy of the lanes from element `index` of `memory` on, of `count` vectors in rows or of one alone.

    Raises what `VectorType.load` says.
    """
    row = _row(kind, memory)
    elements = kind.lanes
    if count is not None:
        count = _integer(count, "count of a load")
        if count < 1:
            raise InvalidValue(f"{here()}count of a load is {count}; expected 1 or more")
        elements *= count
    if (
        type(index) is not int or row.plain is not kind.element or not 0 <= index <= row.size - elements
        or (row.first + index) % row.step
    ):  # fmt: skip
        index = _checked(row, kind, index, elements, "load")
    flat = row.flat
    if type(flat) is Span:
        flat = flat.touch("load", slice(index, index + elements))
    lanes: Array = flat[index : index + elements].copy()
    return lanes if count is None else lanes.reshape(count, kind.lanes)


def store(kind: VectorType, values: Array, memory: object, index: SupportsIndex) -> None:
    """Store lanes into `memory` from its element `index` on. Raises what `Vector.store` says."""
    row, elements = _row(kind, memory), values.size
    if (
        type(index) is not int or row.plain is not kind.element or not 0 <= index <= row.size - elements
        or (row.first + index) % row.step
    ):  # fmt: skip
        index = _checked(row, kind, index, elements, "store")
    flat = row.flat
    if type(flat) is Span:
        if row.space is LanguageSpace.CONSTANT:
            raise IllegalAddress(f"{here()}store of a {kind.name} into constant memory; kernels only read it")
        part = slice(index, index + elements)
        flat.touch("store", part)[part] = values.reshape(-1)
        flat.stored(part)
    else:
        flat[index : index + elements] = values if elements == kind.lanes else values.reshape(-1)


def _checked(row: _Row, kind: VectorType, index: SupportsIndex, elements: int, what: str) -> int:
    """Return `index` as an int: an aligned element from which `elements` of the vector's type lie inside the memory."""
    begin = _integer(index, f"index of a {what}")
    element = kind.element
    if kind.is_mask or row.element != element:
        form = "masks have no form in memory" if kind.is_mask else f"expected {element_name(element)}"
        raise InvalidType(f"{here()}{what} of a {kind.name} in memory of {element_name(row.element)}; {form}")
    if begin < 0 or begin + elements > row.size:
        raise IllegalAddress(
            f"{here()}{what} of a {kind.name} reaches elements {begin} to {begin + elements - 1} of {row.space} "
            f"memory that has {row.size}"
        )
    address = row.start + begin * row.element.itemsize
    if address % row.alignment:
        raise IllegalAddress(
            f"{here()}{what} of a {kind.name} at {row.space} address {address:#x} (element {begin}); expected a "
            f"multiple of {row.alignment} bytes"
        )
    return begin


def _row(kind: VectorType, memory: object) -> _Row:
    """Return memory as a row, cached for the running thread. Raises as `vector_thread` does."""
    try:
        known: _Row | None = THREAD_SLOT.get().thread.sites[_ROWS].get(id(memory))  # type: ignore[union-attr, index]  # caught
    except (AttributeError, TypeError, KeyError):  # on the host, before the thread's first vector access
        known = None
    return _new_row(vector_thread(kind.name), memory) if known is None else known


def _new_row(thread: KernelThread, memory: object) -> _Row:
    """Return memory as a row. Raises InvalidType and IllegalAddress for what is no memory, InvalidValue for gaps."""
    if isinstance(memory, Variable):
        memory = memory.span()
    elif isinstance(memory, Pointer):
        memory = memory.memory()
    space = space_in(thread, memory, "a vector access")
    array: Array = memory.array if isinstance(memory, Span) else memory  # type: ignore[assignment]  # `space_in` tells
    if not array.flags.c_contiguous:
        raise InvalidValue(f"{here()}a vector access to memory of shape {array.shape} with gaps; copy it by DTE first")
    if thread.sites is None:
        thread.sites = {}
    rows = thread.sites.setdefault(_ROWS, {})
    if isinstance(memory, Span):  # tells where it lies at once, and is usually a new one
        return _made(thread, memory, memory.reshape(array.size), array, memory.address, space)
    root = array if array.base is None else array.base
    row = _made(thread, memory, array.reshape(-1), array, _pointer(array) - _pointer(root), space)
    if len(rows) == _MOST_ROWS:
        rows.clear()  # for a kernel that makes a new view for every access
    rows[id(memory)] = row
    return row


def _made(thread: KernelThread, memory: object, flat: Array | Span, array: Array, start: int, space: AnySpace) -> _Row:
    """Return the row of memory that begins at byte `start` of its space."""
    element, alignment = array.dtype, thread.grid.arch.vector_alignment
    first, rest = divmod(start, array.itemsize or 1)
    plain = None if rest or element.kind == "b" else element  # masks have no form in memory
    step = max(1, alignment // (array.itemsize or 1))
    return _Row(memory, flat, element, array.size, start, space, alignment, plain, first, step)


def _pointer(array: Array) -> int:
    """Return where the first element lies in the machine's memory."""
    pointer: int = array.__array_interface__["data"][0]
    return pointer


def _integer(value: SupportsIndex, role: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidType(f"{here()}{role} expects an integer, got {value!r}") from None
