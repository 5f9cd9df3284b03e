"""The built-in variables: a thread's place, and its share of the work. TOPS C++, 8.5."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn, SupportsIndex, TypeAlias

from atops.base.errors import InvalidType, InvalidValue
from atops.device.exec.thread import KernelThread, current_thread

__all__ = ("BuiltIn", "blockDim", "blockIdx", "gridDim", "threadIdx", "thread_count", "thread_id", "tiles")

if TYPE_CHECKING:
    Part: TypeAlias = slice[int, int, None]
else:
    Part = slice


class BuiltIn:
    """A built-in variable: three numbers x, y and z that are known inside a kernel (TOPS C++, 8.5).

    Reading one elsewhere raises IllegalState. The three together have no operator: `threadIdx == 0` raises InvalidType,
    `tuple(threadIdx)` can be compared.
    """

    __slots__ = ("_name", "_read")

    __hash__ = object.__hash__  # by identity; == is refused

    def __init__(self, name: str, read: Callable[[KernelThread], tuple[int, int, int]]) -> None:
        self._name = name
        self._read = read

    @property
    def x(self) -> int:
        """Return the number in the fastest dimension."""
        return self._read(current_thread())[0]

    @property
    def y(self) -> int:
        """Return the number in the second dimension."""
        return self._read(current_thread())[1]

    @property
    def z(self) -> int:
        """Return the number in the slowest dimension."""
        return self._read(current_thread())[2]

    def __iter__(self) -> Iterator[int]:
        return iter(self._read(current_thread()))

    def __index__(self) -> NoReturn:
        """Refuse to be one number, as in a slice or a range. Raises InvalidType."""
        raise InvalidType(f"{self._name} is three numbers; use {self._name}.x where one is expected")

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Refuse to be an array, as for an index or in arithmetic. Raises InvalidType."""
        self.__index__()

    def __bool__(self) -> NoReturn:
        """Refuse to be true or false, as C++ does. Raises InvalidType."""
        self.__index__()

    def _operator(self, other: object) -> NoReturn:
        """Refuse every operator: C++ has none on the three together. Raises InvalidType."""
        self.__index__()

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _operator
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __divmod__ = __pow__ = _operator
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rdivmod__ = __rpow__ = _operator
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __matmul__ = _operator
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __rmatmul__ = _operator
    __neg__ = __pos__ = __invert__ = __abs__ = __bool__

    def __repr__(self) -> str:
        return f"<built-in variable {self._name} of kernels>"


threadIdx = BuiltIn("threadIdx", lambda thread: thread.index)
blockIdx = BuiltIn("blockIdx", lambda thread: thread.block.index)
blockDim = BuiltIn("blockDim", lambda thread: thread.grid.block_dim)
gridDim = BuiltIn("gridDim", lambda thread: thread.grid.grid_dim)


def thread_id() -> int:
    """Return the running thread's number in the whole grid, by block, then by thread, x fastest (8.5).

    Raises IllegalState on the host.
    """
    thread = current_thread()
    return thread.block.linear * thread.grid.threads_per_block + thread.linear


def thread_count() -> int:
    """Return how many threads the whole grid has, by gridDim and blockDim (8.5). Raises IllegalState on the host."""
    grid = current_thread().grid
    return grid.total_blocks * grid.threads_per_block


def tiles(total: SupportsIndex, tile: SupportsIndex) -> Iterator[Part]:
    """Yield the running thread's share of `total` elements as slices of `tile` elements, the last perhaps shorter.

    The grid's threads take tiles in turn: offset = id * tile, step = tile * threads. Raises InvalidValue where `total`
    is negative or `tile` is below 1, InvalidType where either is no int, IllegalState on the host.
    """
    try:
        whole, step = operator.index(total), operator.index(tile)
    except TypeError:
        raise InvalidType(f"tiles expects two numbers of elements, got {total!r} and {tile!r}") from None
    if whole < 0 or step < 1:
        raise InvalidValue(f"tiles expects 0 elements or more by 1 or more, got {whole} by {step}")
    thread = current_thread()
    grid = thread.grid
    width = grid.threads_per_block
    starts = range((thread.block.linear * width + thread.linear) * step, whole, grid.total_blocks * width * step)
    return (slice(start, start + step if start + step < whole else whole) for start in starts)
