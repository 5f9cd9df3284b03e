"""The view of device memory that a kernel thread works with: an mdspan that checks and reports each access.

The tables of numpy's functions stand in numpy_functions.py.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from types import EllipsisType, GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, overload

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.mixins import NDArrayOperatorsMixin

from atops.base.dtypes import DType, DTypeLike, as_dtype, element_name, kernel_dtype
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.device.call_site import caller
from atops.device.cost import ThreadCost
from atops.device.exec.thread import KernelThread, current_thread, get_slot, maybe_current_thread
from atops.device.geometry import Array, Key, Shaped, Space, is_basic
from atops.device.memory.allocation import Allocation
from atops.device.span.numpy_functions import SHAPE_ONLY, STORES_FIRST, add_array_methods, out_of

__all__ = ("FREE_THREADED", "ElementType", "Operand", "Span", "SpanAccess", "check_bounds")

# With the interpreter lock nothing reorders a store and the look at `watches`; without it `wrote` has the fence.
FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()
_new_span = object.__new__
GLOBAL, LOCAL = Space.GLOBAL, Space.LOCAL  # an enumeration's member takes long to find

# The element type that `Span[np.float32]` tells to a type checker. With its default `Span` alone is complete, too.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ElementType = TypeVar("ElementType", default=Any)
else:
    from typing import TypeVar

    ElementType = TypeVar("ElementType")


class SpanAccess(NamedTuple):
    """What an observer is told of one access: bytes from `offset` of a device's memory, or of a thread's L1 or L2."""

    space: Space
    device: int | None  # None where the memory is the host's
    offset: int
    size: int


class Operand:
    """What stands in a kernel for the elements of memory: a span, or a declared variable."""

    __slots__ = ()

    def as_span(self) -> Span:
        """Return the span of the running thread's device."""
        raise NotImplementedError  # each of the two has it; as an abstract class this would slow every `isinstance`


class Span(Operand, NDArrayOperatorsMixin, Generic[ElementType]):
    """A typed, shaped view of device memory: `tops::mdspan` (TOPS C++, 8.7). Immutable; its bytes are not.

    Slicing, reshaping and viewing touch no byte and are allowed everywhere. Reading or storing an element, numpy
    functions and `np.asarray` are accesses: by a kernel thread only, and to global memory only on chips with direct
    access (gcu300). A slice beyond the extents raises IllegalAddress where it is written, unlike numpy's, which is
    cut short: a pointer into C++ memory would have reached the neighbour. Negative positions count from the end; strict
    mode refuses them, and slices that end before they begin.
    `allocation` is None for L1 and L2; `offset` is that of the first element, in bytes of the allocation or memory.
    """

    __slots__ = ("allocation", "array", "contiguous", "offset", "space")

    def __init__(self, allocation: Allocation | None, array: Array, offset: int, space: Space = Space.GLOBAL) -> None:
        """Make a view. `Span.over` is the way to make one of an allocation."""
        self.allocation = allocation
        self.array = array
        self.contiguous = array.flags.c_contiguous  # kept, as each transfer asks; of a part of x maybe False for True
        self.offset = offset
        self.space = space

    @classmethod
    def over(cls, allocation: Allocation, offset: int, dtype: DTypeLike, shape: tuple[int, ...]) -> Span:
        """Make a span of global memory: `shape` elements of `dtype` from byte `offset` of `allocation`.

        Raises IllegalAddress when these bytes are not inside the live allocation.
        """
        element = as_dtype(dtype)
        data = allocation.data  # taken before the check: it stays mapped, even if the allocation is freed meanwhile
        allocation.check(offset, element.itemsize * math.prod(shape), maybe_current_thread() or "a span")
        return cls(allocation, np.ndarray(shape, element, data, offset), offset)

    def __class_getitem__(cls, dtype: DTypeLike) -> GenericAlias:
        """Return the annotation of a parameter that takes memory of `dtype` only: `x: k.Span[np.float32]`."""
        return GenericAlias(cls, (dtype if isinstance(dtype, TypeVar) else kernel_dtype(dtype),))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled: it is memory of a device. Raises InvalidType."""
        raise InvalidType(f"{self!r} cannot be pickled, it is memory of a device; x.copy() is an array of its elements")

    def as_span(self) -> Span:
        """Return itself."""
        return self

    # Other views: no access.

    def reshape(self, *shape: int | tuple[int, ...]) -> Span[ElementType]:
        """Return the same elements in another shape. Raises InvalidValue where the sizes differ or it had to copy."""
        try:
            return self._like(self.array.reshape(*shape, copy=False))  # type: ignore[arg-type]  # numbers or one tuple
        except (TypeError, ValueError) as error:
            raise InvalidValue(f"{self!r} cannot have shape {shape}: {error}") from None

    def view(self, dtype: DTypeLike) -> Span:
        """Return the same bytes as elements of another type, as a pointer cast does. Raises InvalidValue if unfit."""
        try:
            return self._like(self.array.view(kernel_dtype(dtype)))
        except ValueError as error:
            raise InvalidValue(f"{self!r} cannot be viewed as {element_name(dtype)}: {error}") from None

    def transpose(self, *axes: int) -> Span:
        """Return the same elements with the dimensions permuted, by default reversed."""
        return self._like(self.array.transpose(*axes))

    @overload
    def __getitem__(self, key: slice | EllipsisType) -> Span[ElementType]: ...
    @overload
    def __getitem__(self, key: Key) -> Any: ...
    def __getitem__(self, key: Key) -> Any:
        """Return a Span for slices; read and return an element for integers, and a copy for masks and index arrays."""
        if type(key) is slice and key.step is None:  # the case of every tile
            array = self.array
            try:
                if type(start := key.start) is int and 0 <= start <= key.stop <= len(array):
                    part = _new_span(Span)  # filled in here: a constructor's frame would cost half as much again
                    part.array = array[key]
                    part.allocation = self.allocation
                    part.contiguous = self.contiguous
                    part.offset = self.offset + start * array.strides[0]
                    part.space = self.space
                    return part
            except (TypeError, ValueError):  # of no dimension, an open end, no integer, an array: told below
                pass
        elif type(key) is int and (array := self.array).ndim == 1 and 0 <= key < array.size:
            return self.touch("load", key)[key]
        if not is_basic(key):
            return self._indexed("load", key)
        start_of = self._start(key if type(key) is tuple else (key,))
        if start_of is None:  # what is no plain index, or not inside
            check_bounds(self, key)
        found = self.array[key]
        if isinstance(found, np.ndarray):
            return self._like(found) if start_of is None else Span(self.allocation, found, start_of, self.space)
        self.touch("load", key)
        return found

    def _start(self, keys: tuple[object, ...]) -> int | None:
        """Return where the part at these indices begins, in bytes; None unless they are plain, positive and inside."""
        start, array = self.offset, self.array
        if len(keys) > array.ndim:
            return None
        for key, extent, stride in zip(keys, array.shape, array.strides, strict=False):
            if type(key) is int:
                first, last = key, key + 1
            elif type(key) is slice and key.step is None:
                first, last = 0 if key.start is None else key.start, extent if key.stop is None else key.stop
            else:
                return None
            if type(first) is not int or type(last) is not int or not 0 <= first <= last <= extent:
                return None
            start += first * stride
        return start

    # Access.

    def touch(self, kind: str, key: Key = ..., timed: bool = True, value: object = None) -> Array:
        """Make sure that the running thread may access this span, report it, and return the array.

        `kind` is "load", "store" or "escape"; `key` says which part, `value` what is stored if that is known. Under a
        virtual clock it takes time unless `timed` is False or the array escapes.

        Raises IllegalAddress naming the thread where the allocation is dead, the chip has no direct access to global
        memory, a store goes where kernels only read (constant memory), or it is local memory of another thread, which
        is noticed where accesses are looked at; IllegalState on the host.
        """
        cell = get_slot()
        thread = cell.thread if cell is not None and cell.thread is not None else current_thread()
        allocation, grid = self.allocation, thread.grid
        if allocation is not None:
            if not allocation.alive:
                raise allocation.violation(self.offset, self.array.nbytes, thread)
            if not grid.arch.direct_global_access and self.space is GLOBAL:
                raise IllegalAddress(
                    f"{thread} at {caller()}: {self!r} was indexed; {grid.arch.name} cannot reach global memory "
                    "directly, move it by DTE into k.local or k.shared memory"
                )
        if kind == "store" and not self.array.flags.writeable:
            raise IllegalAddress(
                f"{thread} at {caller()}: a store into {self!r}; this {self.space} memory is read-only in kernels"
            )
        if grid.looked_at:
            self._tell(kind, thread, key, timed, value)
        return self.array

    def _tell(self, kind: str, thread: KernelThread, key: Key, timed: bool, value: object) -> None:
        """Report an access to the clock, the observer and the detector of races, as far as there are any."""
        if thread.cost is not None and timed and kind != "escape":
            self._take_time(thread.cost, key)
        if (observer := thread.grid.observer) is not None:
            observer(kind, thread, self._access(key))
        if (race := thread.race) is not None:
            if self.space is LOCAL and ((pieces := thread.pieces) is None or not pieces.holds(self.array)):
                self.refuse_local(thread)
            race.access(kind, self, key, value)

    def refuse_local(self, thread: KernelThread) -> None:
        """Raise IllegalAddress, if it has any bytes: they lie in an L1, and are not the thread's."""
        if self.array.nbytes:
            raise IllegalAddress(
                f"{thread} at {caller()}: {self!r} is k.local memory of another thread, or of one that has ended; only "
                "the thread that took it may use it"
            )

    def _take_time(self, cost: ThreadCost, key: Key) -> None:
        """Move the thread's clock on by an access to the part at `key`."""
        array, allocation = self.array, self.allocation
        part = array.itemsize if type(key) is int and array.ndim == 1 else array.nbytes if key is ... else None
        nbytes: int = array[key].nbytes if part is None else part
        if allocation is None:  # of L1 or L2; a segment of constants is kept there, too
            cost.access(nbytes)
        else:
            cost.access_global(nbytes, allocation.device)

    def stored(self, key: Key = ...) -> None:
        """Test the waits for a value in the part at `key`, which has been stored."""
        allocation = self.allocation
        if allocation is not None and (allocation.watches is not None or FREE_THREADED):
            array = self.array
            if type(key) is int and array.ndim == 1:
                stride = array.strides[0]
                allocation.wrote(self.offset + (key if key >= 0 else key + len(array)) * stride, array.itemsize)
            else:
                allocation.wrote(*self.extent(key))

    def __setitem__(self, key: Key, value: object) -> None:
        """Store into elements. Raises IllegalAddress beyond the extents, on dead memory, and on gcu210."""
        if isinstance(value, Operand):
            value = value.as_span().touch("load")
        if type(key) is int and (array := self.array).ndim == 1 and 0 <= key < array.size:
            self.touch("store", key, True, value)[key] = value
        elif is_basic(key):
            check_bounds(self, key)
            self.touch("store", key, True, value)[key] = value
        else:
            self._indexed("store", key, value)
        self.stored(key)

    if TYPE_CHECKING:  # the mixin says Any; numpy's promotion decides the element type of the array

        def __add__(self, other: object) -> Array: ...
        def __radd__(self, other: object) -> Array: ...
        def __sub__(self, other: object) -> Array: ...
        def __rsub__(self, other: object) -> Array: ...
        def __mul__(self, other: object) -> Array: ...
        def __rmul__(self, other: object) -> Array: ...
        def __matmul__(self, other: object) -> Array: ...
        def __rmatmul__(self, other: object) -> Array: ...
        def __truediv__(self, other: object) -> Array: ...
        def __rtruediv__(self, other: object) -> Array: ...
        def __floordiv__(self, other: object) -> Array: ...
        def __rfloordiv__(self, other: object) -> Array: ...
        def __mod__(self, other: object) -> Array: ...
        def __rmod__(self, other: object) -> Array: ...
        def __pow__(self, other: object) -> Array: ...
        def __rpow__(self, other: object) -> Array: ...
        def __lshift__(self, other: object) -> Array: ...
        def __rlshift__(self, other: object) -> Array: ...
        def __rshift__(self, other: object) -> Array: ...
        def __rrshift__(self, other: object) -> Array: ...
        def __and__(self, other: object) -> Array: ...
        def __rand__(self, other: object) -> Array: ...
        def __xor__(self, other: object) -> Array: ...
        def __rxor__(self, other: object) -> Array: ...
        def __or__(self, other: object) -> Array: ...
        def __ror__(self, other: object) -> Array: ...
        def __lt__(self, other: object) -> Array: ...
        def __le__(self, other: object) -> Array: ...
        def __gt__(self, other: object) -> Array: ...
        def __ge__(self, other: object) -> Array: ...
        def __neg__(self) -> Array: ...
        def __pos__(self) -> Array: ...
        def __abs__(self) -> Array: ...
        def __invert__(self) -> Array: ...

        def __getattr__(self, name: str) -> Any:
            """Return one of the array's methods, which are put in below."""

    def fill(self, value: object) -> None:
        """Store `value` in every element."""
        self[...] = value

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Give out the plain array. What is done through it afterwards is neither checked nor observed.

        The allocation counts as visible to the host from then on; strict mode notes it among the grid's warnings.
        """
        objects = isinstance(dtype, np.dtype) and dtype.kind == "O"  # of np.vectorize: no element type of a device
        element = dtype if objects else self.array.dtype if dtype is None else as_dtype(dtype)
        if copy or element != self.array.dtype:
            if copy is False:
                raise InvalidValue(f"{self!r} cannot be an array of {dtype} without a copy")
            return self.touch("load").astype(element)
        array = self.touch("escape")
        if self.allocation is not None:
            self.allocation.expose()
        grid = current_thread().grid
        if grid.options.strict:
            warning = f"np.asarray of a span at {caller()}: what is done through the array is not observed"
            if warning not in grid.warnings:
                grid.warnings.append(warning)
        return array

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: object) -> object:
        """Run a numpy ufunc on the spans' elements; `out` may be spans."""
        if method == "__call__" and not kwargs and out is not None and len(out) == 1 and type(out[0]) is Span:
            into: Span = out[0]  # the usual case, with as few steps as it can have
            if len(inputs) == 2:
                left, right = inputs
                left = left.touch("load") if type(left) is Span else _loaded(left)
                right = right.touch("load") if type(right) is Span else _loaded(right)
                ufunc(left, right, out=into.touch("store"))
            else:
                ufunc(*_loaded(list(inputs)), out=into.touch("store"))
            into.stored()
            return into
        kwargs = {name: _loaded(value) for name, value in kwargs.items()}
        operands = [_loaded(value) for value in inputs]
        if out is None:
            target = inputs[0] if method == "at" else None
            if isinstance(target, Span):
                target.touch("store")  # before the call: numpy itself stores into read-only arrays here
            result = getattr(ufunc, method)(*operands, **kwargs)
            if isinstance(target, Span):
                target.stored()
            return result
        targets = tuple(each.touch("store") if isinstance(each, Span) else each for each in out)
        result = getattr(ufunc, method)(*operands, out=targets, **kwargs)
        for each in out:
            if isinstance(each, Span):
                each.stored()
        return out[0] if len(out) == 1 else tuple(
            given if given is not None else new for given, new in zip(out, result, strict=True)
        )  # fmt: skip

    def __array_function__(
        self, function: Callable[..., object], types: object, args: tuple[Any, ...], kwargs: dict[str, object]
    ) -> object:
        """Run any other numpy function on the spans' elements; views come back as spans."""
        unwrap = _bare if function in SHAPE_ONLY else _loaded
        out = out_of(function, args, kwargs)
        targets = [each for each in (out if isinstance(out, tuple) else (out,)) if isinstance(each, Span)]
        if (name := STORES_FIRST.get(function)) and isinstance(first := args[0] if args else kwargs.get(name), Span):
            targets.append(first)
        for each in targets:
            each.touch("store")
        result = function(*unwrap(args), **unwrap(kwargs))
        for each in targets:
            each.stored()
        return out if out is not None else self._wrapped(result)

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __float__(self) -> float:
        return float(self.touch("load").item())

    def __int__(self) -> int:
        return int(self.touch("load").item())

    def __bool__(self) -> bool:
        return bool(self.touch("load"))

    # What it is.

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents, outermost first."""
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def dtype(self) -> DType:
        """Return the element type."""
        return self.array.dtype

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return self.array.size

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return self.array.ndim

    @property
    def nbytes(self) -> int:
        """Return the bytes that the elements have."""
        return self.array.nbytes

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element."""
        return self.array.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the bytes from one element to the next, in each dimension."""
        return tuple(self.array.strides)

    @property
    def flags(self) -> Any:
        """Return numpy's flags of the memory's layout; to set one changes nothing."""
        return self.array.view().flags

    @property
    def T(self) -> Span:
        """Return the span with its dimensions reversed."""
        return self.transpose()

    @property
    def address(self) -> int:
        """Return the device address of the first element; in L1 and L2 its offset."""
        return self.offset if self.allocation is None else self.allocation.address + self.offset

    def extent(self, key: Key = ...) -> tuple[int, int]:
        """Return offset and size of the smallest run of bytes that holds the part at `key`."""
        array = self.array
        if key is not ... and is_basic(key):
            array = array[(*key, ...) if isinstance(key, tuple) else (key, ...)]
        if array is self.array and array.flags.c_contiguous:
            return self.offset, array.nbytes
        if not array.size:
            return self.offset, 0
        low, high = byte_bounds(array)
        return self._place(low), high - low

    def __len__(self) -> int:
        if not self.array.ndim:
            raise InvalidValue(f"{self!r} has no dimensions and so no length")
        return len(self.array)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.array.shape))
        owner = f" of {self.allocation!r}" if self.allocation is not None else ""
        return f"<Span {element_name(self.array.dtype)}[{shape}] {self.space} +{self.offset:#x}{owner}>"

    def _indexed(self, kind: str, key: Key, value: object = None) -> Any:
        """Read or store at a mask or index arrays."""
        key = _loaded(key)
        if _is_strict():
            self._check_indexes(key)
        try:
            array = self.touch(kind, key, timed=False)
            if (cost := current_thread().cost) is not None:
                self._take_time(cost, key)
            if kind == "load":
                return array[key]
            array[key] = value
        except IndexError as error:
            raise IllegalAddress(f"{current_thread()} at {caller()}: {self!r}: {error}") from None

    def _check_indexes(self, key: Key) -> None:
        """Raise IllegalAddress where an index array, or an index beside one, counts from the end."""
        for axis, each in enumerate(key if type(key) is tuple else (key,)):
            if isinstance(each, slice | type(None) | type(...) | str):
                continue
            indexes = np.asarray(each)
            if indexes.dtype.kind == "i" and indexes.size and indexes.min() < 0:
                raise _suspect(self, f"index {indexes.min()}", axis, self.shape[min(axis, len(self.shape) - 1)])

    def _like(self, array: Array) -> Span[ElementType]:
        """Return a span of `array`, which is another view of the same bytes."""
        offset = self._place(array.__array_interface__["data"][0]) if array.size else self.offset
        return Span(self.allocation, array, offset, self.space)

    def _place(self, pointer: int) -> int:
        """Return the offset of a real address inside this span's memory."""
        return int(pointer - self.array.__array_interface__["data"][0] + self.offset)

    def _wrapped(self, result: Any) -> Any:
        """Return views of this span's memory as spans, and everything else as it is."""
        if isinstance(result, list | tuple) and type(result) in (list, tuple):
            return type(result)(self._wrapped(each) for each in result)
        base, array = getattr(result, "base", None), self.array
        return self._like(result) if base is not None and (base is array or base is array.base) else result

    def _access(self, key: Key) -> SpanAccess:
        offset, size = self.extent(key)
        if self.allocation is None:
            return SpanAccess(self.space, current_thread().grid.chip.ordinal, offset, size)
        return SpanAccess(self.space, self.allocation.device, self.allocation.offset + offset, size)


add_array_methods(Span)


def _loaded(value: object) -> Any:
    """Return `value` with each span in it replaced by its array, which is an access."""
    return _replaced(value, lambda span: span.touch("load"))


def _bare(value: object) -> Any:
    """Return `value` with each span in it replaced by its array, which is none."""
    return _replaced(value, lambda span: span.array)


def _replaced(value: Any, unwrap: Callable[[Span], Array]) -> Any:
    if isinstance(value, Operand):
        return unwrap(value.as_span())
    if type(value) in (list, tuple):
        return type(value)(_replaced(each, unwrap) for each in value)
    if type(value) is dict:
        return {name: _replaced(each, unwrap) for name, each in value.items()}
    return value


def check_bounds(array: Shaped, key: Key) -> None:
    """Raise IllegalAddress, naming dimension, index and extent, where a basic `key` leaves the extents of `array`.

    Unlike numpy's, a slice must begin and end inside; negative positions count from the end, or are refused in strict
    mode as backward slices are.
    """
    keys = key if type(key) is tuple else (key,)
    shape = array.shape
    used = sum(each is not None and each is not ... and type(each) is not str for each in keys)
    if used > len(shape):
        raise _outside(array, f"{used} indices, but it has {len(shape)} dimensions")
    axis = 0
    for each in keys:
        if each is None or type(each) is str:
            continue
        if each is ...:
            axis += len(shape) - used
            continue
        extent = shape[axis]
        if isinstance(each, slice):
            for position in (each.start, each.stop):
                if position is not None and not -extent <= operator.index(position) <= extent:
                    raise _outside(array, f"slice {_text(each)} of dimension {axis}, whose extent is {extent}")
            if _is_suspect(each, extent) and _is_strict():
                raise _suspect(array, f"slice {_text(each)}", axis, extent)
        elif not -extent <= each < extent:
            raise _outside(array, f"index {each} of dimension {axis}, whose extent is {extent}")
        elif each < 0 and _is_strict():
            raise _suspect(array, f"index {each}", axis, extent)
        axis += 1


def _is_strict() -> bool:
    thread = maybe_current_thread()
    return thread is not None and thread.grid.options.strict


def _is_suspect(part: slice, extent: int) -> bool:
    """Tell whether a slice counts from the end, or runs against its step: what `x[i - 1 : i + 1]` does at 0."""
    if any(edge is not None and edge < 0 for edge in (part.start, part.stop)):
        return True
    start, stop, step = part.indices(extent)
    if step < 0:
        return part.start is not None and part.stop is not None and part.start < part.stop
    return start > stop


def _suspect(array: Shaped, what: str, axis: int, extent: int) -> IllegalAddress:
    return _outside(
        array, f"{what} of dimension {axis} lies before the start or runs backward, which strict mode refuses: guard "
               f"the first elements; from the end, count from the extent, as {extent} - 1"
    )  # fmt: skip


def _outside(array: Shaped, what: str) -> IllegalAddress:
    thread = maybe_current_thread()
    place = "" if thread is None else f"{thread} at {caller()}: "
    return IllegalAddress(f"{place}{what}, in {array!r}")


def _text(part: slice) -> str:
    edges = [part.start, part.stop] if part.step is None else [part.start, part.stop, part.step]
    return ":".join("" if edge is None else str(edge) for edge in edges)
