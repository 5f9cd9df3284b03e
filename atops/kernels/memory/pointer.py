"""Pointers into the memory spaces: arithmetic, access, and the conversions of TOPS C++, 8.2.

A pointer reaches the bytes of the memory that it was made of, and no others.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, SupportsIndex

import numpy as np

from atops.base.dtypes import DTypeLike, element_name, kernel_dtype
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.device.call_site import caller
from atops.device.exec.thread import current_thread
from atops.device.geometry import Array, Space
from atops.device.span.span import Span
from atops.kernels.memory.device_variables import Variable
from atops.kernels.memory.spaces import AnySpace, LanguageSpace, common_space, is_below, located, space_in

__all__ = ("Pointer", "generic", "pointer")


@functools.total_ordering
class Pointer:
    """A pointer to elements of `dtype` in memory space `space`; immutable. `pointer(x)` makes one.

    `p + n`, `n + p`, `p - n` and `p - q` count elements; `p[i]` reads, `p[i] = v` stores, `p[i:j]` and `memory()` give
    the elements as a span or an array; pointers into the same memory compare by address. In a difference or comparison
    one pointer converts to the other's space if that is a parent space; otherwise InvalidType names both
    (TOPS C++, 8.2).
    """

    __slots__ = ("_bytes", "_offset", "_origin", "dtype", "space")

    def __init__(
        self, space: AnySpace, dtype: np.dtype[np.generic], memory: Array | Span, origin: tuple[int, int],
        offset: int = 0,
    ) -> None:
        """Point at byte `offset` of `memory`, a row of bytes; `origin` is that row's memory and place in it."""
        self.space = space
        self.dtype = dtype
        self._bytes = memory
        self._origin = origin
        self._offset = offset

    # Conversions.

    def cast(self, dtype: DTypeLike | None = None, space: AnySpace | None = None) -> Pointer:
        """Convert as written: to another element type, `p.cast(np.int8)`, another space, `p.cast(space=k.Local)`.

        A generic pointer converts to the space that its bytes lie in, any but a constant one to the generic space.
        Raises InvalidValue naming both spaces where the bytes lie elsewhere, InvalidType naming both where no
        conversion exists (TOPS C++, 8.2).
        """
        element = self.dtype if dtype is None else kernel_dtype(dtype)
        if space is None or is_below(self.space, space):
            return self._like(element, self._offset, space)
        thread = current_thread()
        if not isinstance(space, Space | LanguageSpace):
            raise InvalidType(f"{thread} at {caller()}: space expects k.Local or another memory space, got {space!r}")
        if self.space is not LanguageSpace.GENERIC or space is LanguageSpace.CONSTANT:
            raise InvalidType(f"{thread} at {caller()}: a {self.space} pointer never becomes a {space} pointer")
        lies = space_in(thread, self._bytes, "a pointer")
        if lies is not space:
            raise InvalidValue(
                f"{thread} at {caller()}: a {self.space} pointer into {lies} memory was cast to a {space} pointer"
            )
        return self._like(element, self._offset, space)

    # Arithmetic and order.

    def __add__(self, count: SupportsIndex) -> Pointer:
        return self._like(self.dtype, self._offset + self._count(count) * self.dtype.itemsize)

    __radd__ = __add__

    def __sub__(self, other: Pointer | SupportsIndex) -> Any:
        """Return the pointer `other` elements before, or the elements between two pointers."""
        if not isinstance(other, Pointer):
            return self + -self._count(other)
        self._check_related(other, "the difference of")
        if self.dtype != other.dtype:
            raise InvalidType(f"the difference expects pointers to one element type, got {self!r} and {other!r}")
        elements, rest = divmod(self.place[1] - other.place[1], self.dtype.itemsize)
        if rest:
            raise InvalidValue(f"{self!r} and {other!r} are no whole number of elements apart")
        return elements

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pointer):
            return NotImplemented
        self._check_spaces(other, "the comparison of")
        return self.place == other.place

    def __lt__(self, other: Pointer) -> bool:
        if not isinstance(other, Pointer):
            raise InvalidType(f"the order expects two pointers, got {self!r} and {other!r}")
        self._check_related(other, "the order of")
        return self.place < other.place

    def __hash__(self) -> int:
        return hash(self.place)

    # Access.

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        """Read element `key`, or give elements `start:stop` as a span or an array.

        Raises IllegalAddress outside the memory that the pointer was made of, and on gcu210 for an element of a
        kernel's argument.
        """
        if isinstance(key, slice):
            return self._elements(0 if key.start is None else self._count(key.start), key)
        cell = self._cell(self._count(key), 1)
        return cell[0]

    def __setitem__(self, key: SupportsIndex, value: object) -> None:
        """Store into element `key`. Raises IllegalAddress as reading does, and in constant memory."""
        cell = self._cell(self._count(key), 1)
        if self.space is LanguageSpace.CONSTANT:
            raise IllegalAddress(f"{current_thread()} at {caller()}: store through {self!r}; constants are only read")
        cell[0] = value

    def memory(self) -> Any:
        """Return the whole elements from the pointer to the end of its memory, as a span or an array."""
        return self._cell(0, max(0, (self._bytes.nbytes - self._offset) // self.dtype.itemsize))

    @property
    def place(self) -> tuple[int, int]:
        """Return which memory it points into and at which byte: device memory has its address there."""
        return self._origin[0], self._origin[1] + self._offset

    def __repr__(self) -> str:
        return f"<{self.space} pointer to {element_name(self.dtype)} at {self.place[1]:#x}>"

    def _elements(self, start: int, key: slice) -> Any:
        if key.step is not None or key.stop is None:
            raise InvalidValue(f"a slice of {self!r} expects [start:stop], as a pointer has no end, got [{key}]")
        return self._cell(start, max(0, self._count(key.stop) - start))

    def _cell(self, index: int, count: int) -> Any:
        """Return elements from `index` on. Raises IllegalAddress where they are not all in the pointer's memory."""
        thread = current_thread()
        width = self.dtype.itemsize
        low = self._offset + index * width
        if low < 0 or low + count * width > self._bytes.nbytes:
            raise IllegalAddress(
                f"{thread} at {caller()}: element {index} of {self!r} has bytes {low} to {low + count * width - 1} of "
                f"{self._bytes.nbytes}"
            )
        space_in(thread, self._bytes, "a pointer's access")  # another thread's local memory is out of reach
        found: Array | Span = self._bytes[low : low + count * width].view(self.dtype)
        return found

    def _count(self, value: SupportsIndex) -> int:
        try:
            return operator.index(value)
        except TypeError:
            raise InvalidType(f"{self!r} expects a whole number of elements, got {value!r}") from None

    def _check_spaces(self, other: Pointer, what: str) -> None:
        if common_space(self.space, other.space) is None:
            raise InvalidType(f"{what} a {self.space} and a {other.space} pointer; neither converts to the other")

    def _check_related(self, other: Pointer, what: str) -> None:
        self._check_spaces(other, what)
        if self._origin[0] != other._origin[0]:
            raise InvalidValue(f"{what} {self!r} and {other!r}, which point into different memories")

    def _like(self, dtype: np.dtype[np.generic], offset: int, space: AnySpace | None = None) -> Pointer:
        return Pointer(self.space if space is None else space, dtype, self._bytes, self._origin, offset)


def pointer(memory: Any) -> Pointer:
    """Return a pointer to the first element of `memory`: a span, a variable, or an array of local, shared or private.

    Its space is that of the memory; a kernel's argument has the generic one, as a parameter of a function has (TOPS
    C++, 8.2). Raises InvalidType for anything else, InvalidValue for memory with gaps, IllegalAddress for an array
    outside the thread's memories.
    """
    if isinstance(memory, Pointer):
        return memory
    thread = current_thread()
    if isinstance(memory, Variable):
        memory = memory.span()
    space = space_in(thread, memory, "a pointer")
    array = memory.array if isinstance(memory, Span) else memory
    if not array.flags.c_contiguous:
        raise InvalidValue(f"{thread} at {caller()}: a pointer to memory of shape {memory.shape} with gaps")
    if space is Space.GLOBAL and memory.space is Space.GLOBAL:
        space = LanguageSpace.GENERIC
    return Pointer(space, memory.dtype, memory.reshape(-1).view(np.uint8), _origin(memory))


def generic(memory: object) -> Pointer:
    """Return a generic pointer to memory, or a pointer converted to one, as C++ does implicitly (TOPS C++, 8.2).

    Raises InvalidType for constant memory, and as `pointer` does.
    """
    return pointer(memory).cast(space=LanguageSpace.GENERIC)


def _origin(memory: Array | Span) -> tuple[int, int]:
    """Return which memory a span or array is a part of, and where in it: its address on a device."""
    if isinstance(memory, Span):
        if memory.allocation is not None:
            return memory.allocation.serial, memory.address
        memory = memory.array
    root, offset = located(memory)
    return id(root), offset
