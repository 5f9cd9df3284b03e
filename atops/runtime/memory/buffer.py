"""Device memory in a program's hands: bytes (Buffer) and typed arrays (DeviceArray).

A buffer holds a release callable, not its pool or its stream; it knows where its bytes are and nothing of commands.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from types import MethodType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from atops.base.dtypes import DType, DTypeLike, Scalar, Scalar_co, Typed, as_dtype
from atops.base.errors import InvalidHandle, InvalidType, InvalidValue, NotExportable, OutOfBounds
from atops.base.html_table import html_table
from atops.base.neighbours import answers
from atops.base.waiting.current_loop import checkpoint
from atops.device.memory.allocation import Allocation
from atops.runtime.executors.executor import NOTHING, Collectable
from atops.trace.words import format_bytes

if TYPE_CHECKING:
    from atops.kernels.arguments import Arriving
    from atops.runtime.device import Device
    from atops.runtime.driver import Driver
    from atops.runtime.driver_board import Board
    from atops.runtime.queues.queue import StreamQueue

__all__ = (
    "Buffer", "DeviceArray", "End", "Release", "alive", "array_html", "bounds", "extents_of", "first_values",
    "shape_and_dtype",
)  # fmt: skip

# Called with the memory and the stream in whose order it is released. None: the one that made it, or the whole device.
Release: TypeAlias = Callable[..., object]
# One end of a copy: where its bytes are, from which offset, how many, of which type and shape if they are known, and
# the ordinal of the device: -2 for mapped host memory, -1 for host bytes without an address. A copy takes it apart at
# once, which is faster without names.
End: TypeAlias = tuple[Allocation | memoryview | bytes, int, int, DType | None, tuple[int, ...] | None, int]
SHOWN = 8  # values of an array in a notebook

Part = TypeVar("Part", bound="Buffer")


@answers("Buffer")
class Buffer(Collectable):
    """A range of device (or mapped host) memory, in bytes.

    Slicing gives a buffer on part of it, which owns nothing and keeps this one. `close` gives the memory back, and so
    does the last reference that goes; neither waits, nor takes memory away from work that was enqueued before. An
    address alone (`address`) keeps nothing: keep the buffer as long as it is used.
    """

    __slots__ = ("__weakref__", "_base", "_end", "_release", "allocation", "driver", "nbytes", "offset")

    def __init__(
        self,
        allocation: Allocation | None = None,
        offset: int = 0,
        nbytes: int | None = None,
        release: Release | None = None,
        board: Board | None = None,
    ) -> None:
        if not isinstance(allocation, Allocation):  # a call of the program's; the runtime gives one
            raise InvalidType(f"Buffer({allocation!r}) makes no memory; use device.allocate(nbytes)")
        self.allocation = allocation
        self.offset = offset
        self.nbytes = allocation.size - offset if nbytes is None else nbytes
        self._end: End | None = None
        self.driver: Driver | None = None if board is None else board.driver  # where that is known
        owner = allocation.owner
        self._base: Buffer | None = None if owner is None else owner()  # a part keeps what owns the memory
        # Two methods, and not partials: those bring a tuple and a dictionary each, which every `close` would pay for.
        self._release = None if release is None else MethodType(release, allocation)
        if self._release is None or board is None:
            self.__del__ = NOTHING
        else:
            self.__del__ = MethodType(board.executor.post_in_finalizer, self._release)

    # ---- lifecycle

    def close(self) -> None:
        """Give the memory back once the work enqueued so far no longer needs it. Idempotent; a slice owns nothing."""
        self.release_in(None)

    def release_in(self, stream: StreamQueue | None) -> bool:
        """Give the memory back in the order of `stream` (None: of the stream it was made by, or of the whole device).

        Returns False when there was nothing to give back: a slice, or a buffer that was closed before.
        """
        release, finalizer = self._release, self.__del__
        if release is None:
            return False
        allocation = self.allocation
        self._release, self.__del__ = None, NOTHING
        try:
            if allocation.freed_by is None:  # from now on every call that names it is refused
                allocation.freed_by = "its close()" if stream is None else f"a free enqueued in {stream.label}"
            release(stream)
        except BaseException:  # Ctrl-C: it is still to be given back, by another call or by the collector
            self._release, self.__del__ = release, finalizer
            if allocation.alive:
                allocation.freed_by = None
            raise
        return True

    def take_over(self, other: Buffer) -> None:
        """Take the ownership of the memory from another buffer."""
        self._release, other._release = other._release, None
        self.__del__, other.__del__ = other.__del__, NOTHING

    def lend(self, release: MethodType, post: Callable[[Callable[[], object]], object]) -> None:
        """Own the memory: `release` gives it back, and is posted when this is collected before."""
        self._release = release
        self.__del__ = MethodType(post, release)

    async def aclose(self) -> None:
        """As `close`."""
        self.close()
        await checkpoint()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            await checkpoint()

    # ---- views

    @overload
    def view(self, dtype: Typed[Scalar], shape: int | tuple[int, ...] | None = None) -> DeviceArray[Scalar]: ...
    @overload
    def view(self, *, shape: int | tuple[int, ...] | None = None) -> DeviceArray[np.uint8]: ...
    @overload
    def view(self, dtype: DTypeLike, shape: int | tuple[int, ...] | None = None) -> DeviceArray: ...
    def view(self, dtype: DTypeLike = np.uint8, shape: int | tuple[int, ...] | None = None) -> DeviceArray:
        """Return these bytes as an array of `dtype` and `shape`, owning nothing.

        Without a shape, an array keeps its shape, with the last extent counted in the new type, as in numpy; a Buffer
        has one dimension. Raises InvalidValue when the bytes do not make whole elements, or the shape has another size.
        """
        dtype = as_dtype(dtype)
        if shape is None:
            return self._view(self.offset, dtype, self._extents_as(dtype))
        count, rest = divmod(self.nbytes, dtype.itemsize)
        if rest:
            raise InvalidValue(f"{self!r} has {self.nbytes} bytes; that is no whole number of {dtype}")
        return self._view(self.offset, dtype, extents_of(shape, count))

    def _extents_as(self, dtype: DType) -> tuple[int, ...]:
        """Return the shape of these bytes as elements of another type. Raises InvalidValue where there is none."""
        count, rest = divmod(self.nbytes, dtype.itemsize)
        if rest:
            raise InvalidValue(f"{self!r} has {self.nbytes} bytes; that is no whole number of {dtype}")
        return (count,)

    def _view(self, offset: int, dtype: DType, shape: tuple[int, ...]) -> DeviceArray:
        """Return an array on a part of this memory, which owns nothing."""
        return self._part(DeviceArray(self.allocation, offset, dtype, shape))

    def __getitem__(self, index: slice) -> Buffer:
        """Return the bytes `start:stop`, clipped to the buffer as any slice is. Raises InvalidValue for a step."""
        start, stop = bounds(index, self.nbytes, self)
        return self._part(Buffer(self.allocation, self.offset + start, stop - start))

    def __setitem__(self, index: object, value: object) -> None:
        """Refuse: a store is a command of a stream. Raises InvalidType."""
        raise InvalidType(
            f"{self!r} is device memory, no item of which is assigned; stream.copy(x[start:stop], values) stores there "
            "in stream order, stream.fill(x, value) everywhere"
        )

    def _part(self, part: Part) -> Part:
        part.driver = self.driver
        if part._base is None:
            part._base = self if self._base is None else self._base
        return part

    # ---- queries

    @property
    def end(self) -> End:
        """This buffer as one end of a copy; made when first asked for."""
        if self._end is None:
            allocation, device = self.allocation, self.allocation.device
            dtype, shape = (self._dtype, self._shape) if isinstance(self, DeviceArray) else (None, None)
            self._end = (allocation, self.offset, self.nbytes, dtype, shape, -2 if device is None else device)
        return self._end

    @property
    def address(self) -> int:
        """The device address of the first byte."""
        return self.allocation.address + self.offset

    @property
    def device(self) -> Device | None:
        """The device it lies on, None for host memory."""
        ordinal = self.allocation.device
        return None if ordinal is None or self.driver is None else self.driver.device(ordinal)

    @property
    def device_id(self) -> int | None:
        """The ordinal of the device it lies on, None for host memory."""
        return self.allocation.device

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can read and write it: pinned, registered and managed memory, not a device's."""
        return self.allocation.device is None

    @property
    def is_device_accessible(self) -> bool:
        """True: kernels can reach it, from other devices with peer access."""
        return True

    @property
    def is_live(self) -> bool:
        """Whether the memory has not been given back."""
        return self.allocation.alive

    def __kernel_argument__(self) -> tuple[Allocation, int, DType, tuple[int, ...]]:
        return self.allocation, self.offset, np.dtype(np.uint8), (self.nbytes,)

    if TYPE_CHECKING:  # what a kernel and a pipeline make of it

        def __kernel_parameter__(self) -> Arriving[np.uint8]: ...
        def __fetched__(self) -> npt.NDArray[np.uint8]: ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Refuse: numpy would read it element by element. Raises InvalidType."""
        raise InvalidType(f"{self!r} is device memory, no array; await stream.fetch(...) gives one")

    def __dlpack__(self, **_options: object) -> Any:
        """Refuse: no other library could read the memory of an emulated device. Raises NotExportable, a BufferError."""
        raise NotExportable(f"{self!r} is device memory, which no other library reads; stream.fetch(x) gives an array")

    def __dlpack_device__(self) -> tuple[int, int]:
        """Refuse, as `__dlpack__` does."""
        return self.__dlpack__()  # type: ignore[no-any-return]  # it returns nothing

    __iter__: Any = None  # bytes of a device are not read one by one

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be copied or pickled: two owners would free the memory twice. Raises InvalidType."""
        raise InvalidType(f"{self!r} cannot be copied or pickled, it owns memory; stream.copy copies the bytes")

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        fate = "" if self.allocation.alive else ", freed"
        return f"<Buffer {self.nbytes} bytes at {self.address:#x} on {self.allocation.where}{fate}>"

    def _repr_html_(self) -> str:
        return array_html(self)


@answers("DeviceArray")
class DeviceArray(Buffer, Generic[Scalar_co]):
    """A typed, contiguous array in device memory: `shape` (outermost first) and `dtype`, as numpy has them.

    To a type checker it is a `DeviceArray[np.float32]`, say, as a numpy array is an `NDArray[np.float32]`.
    """

    __slots__ = ("_dtype", "_shape")

    def __init__(
        self,
        allocation: Allocation | None = None,
        offset: int = 0,
        dtype: DType | None = None,
        shape: tuple[int, ...] = (),
        release: Release | None = None,
        board: Board | None = None,
    ) -> None:
        if dtype is None or not isinstance(allocation, Allocation):  # a call of the program's
            raise InvalidType(f"DeviceArray({allocation!r}, ...) makes no memory; use device.empty(shape, dtype)")
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        super().__init__(allocation, offset, size, release, board)
        self._dtype: np.dtype[Scalar_co] = dtype
        self._shape = shape

    @property
    def dtype(self) -> np.dtype[Scalar_co]:
        """The type of its elements. `view` gives another."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, outermost first. `reshape` gives others."""
        return self._shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.nbytes // self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def reshape(self, *shape: int | tuple[int, ...]) -> DeviceArray[Scalar_co]:
        """Return the same bytes in another shape: ints, or one tuple; one may be -1.

        Raises InvalidValue when the sizes differ, InvalidType for what is no shape.
        """
        extents = extents_of(shape[0] if len(shape) == 1 else shape, self.size)
        return self._view(self.offset, self.dtype, extents)

    def _extents_as(self, dtype: DType) -> tuple[int, ...]:
        if dtype.itemsize == self.dtype.itemsize:
            return self.shape
        if not self.shape:
            raise InvalidValue(f"{self!r} has no dimension, and {dtype} another size; .reshape(1) it first")
        last, rest = divmod(self.shape[-1] * self.dtype.itemsize, dtype.itemsize)
        if rest:
            raise InvalidValue(
                f"the last dimension of {self!r} has {self.shape[-1] * self.dtype.itemsize} bytes; that is no whole "
                f"number of {dtype}. .reshape(-1) it first where the whole is"
            )
        return *self.shape[:-1], last

    def __getitem__(self, index: int | slice) -> DeviceArray[Scalar_co]:
        """Return a part along the outermost dimension, which stays contiguous; a slice is clipped, as numpy's are.

        Raises OutOfBounds, an IndexError, for an index outside, InvalidValue for a step, InvalidType for any other
        index.
        """
        if not self.shape:
            raise OutOfBounds(f"{self!r} has no dimension to index")
        extent = self.shape[0]
        row = self.nbytes // extent if extent else 0
        if isinstance(index, slice):
            start, stop = bounds(index, extent, self)
            shape = (stop - start, *self.shape[1:])
            return self._view(self.offset + start * row, self.dtype, shape)
        if not isinstance(index, int | np.integer) or isinstance(index, bool):
            raise InvalidType(f"{self!r} is indexed with {index!r}; expected an int or a slice of the first dimension")
        at = int(index) + extent if index < 0 else int(index)
        if not 0 <= at < extent:
            inside = f"{-extent} to {extent - 1}" if extent else "none, it is empty"
            raise OutOfBounds(f"index {index} is outside {self!r}; expected {inside}")
        return self._view(self.offset + at * row, self.dtype, self.shape[1:])

    def __kernel_argument__(self) -> tuple[Allocation, int, DType, tuple[int, ...]]:
        return self.allocation, self.offset, self._dtype, self._shape

    if TYPE_CHECKING:

        def __kernel_parameter__(self) -> Arriving[Scalar_co]: ...  # type: ignore[override]  # a Buffer has no type
        def __fetched__(self) -> npt.NDArray[Scalar_co]: ...  # type: ignore[override]  # as above

    def __iter__(self) -> Iterator[DeviceArray[Scalar_co]]:
        """Yield the parts along the outermost dimension, which own nothing."""
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidType(f"{self!r} has no dimension, so no length")
        return self.shape[0]

    def __repr__(self) -> str:
        fate = "" if self.allocation.alive else ", freed"
        return f"<DeviceArray {self.shape} {self.dtype} at {self.address:#x} on {self.allocation.where}{fate}>"


def shape_and_dtype(other: Any) -> tuple[tuple[int, ...], object]:
    """Return the shape and element type of an array of any library. Raises InvalidType for what has none."""
    try:
        return tuple(other.shape), other.dtype
    except AttributeError:
        raise InvalidType(f"{type(other).__name__} is no array; expected one with a shape and a dtype") from None


def extents_of(shape: object, size: int | None = None) -> tuple[int, ...]:
    """Return a shape as a tuple of extents; one of them may be -1 where `size` elements are to be shaped.

    Raises InvalidType for what is no int or sequence of ints, InvalidValue for a negative extent or another size.
    """
    parts = shape if isinstance(shape, tuple | list) else (shape,)
    try:
        if any(isinstance(part, bool) for part in parts):
            raise TypeError
        extents = [operator.index(part) for part in parts]
    except TypeError:
        raise InvalidType(f"the shape is {shape!r}; expected an int or a tuple of ints") from None
    if size is not None and extents.count(-1) == 1:
        rest = math.prod(extent for extent in extents if extent != -1)
        extents[extents.index(-1)] = size // rest if rest else 0
    negative = any(extent < 0 for extent in extents)
    if size is not None and (negative or math.prod(extents) != size):
        raise InvalidValue(f"{size} elements do not make the shape {shape!r}")
    if negative:
        raise InvalidValue(f"the shape is {shape!r}; extents are not negative")
    return tuple(extents)


def bounds(index: slice, extent: int, what: Buffer) -> tuple[int, int]:
    """Return start and stop of a slice, clipped to what there is. Raises InvalidType, InvalidValue for a step."""
    if not isinstance(index, slice):
        raise InvalidType(f"{what!r} is indexed with {index!r}; expected a slice")
    try:
        start, stop, step = index.indices(extent)
    except TypeError:
        raise InvalidType(f"{what!r} is sliced with {index!r}; expected ints") from None
    if step != 1:
        raise InvalidValue(f"{what!r} is sliced with step {step}; only contiguous parts can be named, step 1")
    return start, max(start, stop)


def alive(buffer: Buffer) -> Buffer:
    """Return the buffer. Raises InvalidHandle when its memory was given back, or will be in a stream's order."""
    if buffer.allocation.freed_by is not None:
        raise InvalidHandle(buffer.allocation.freed_message(repr(buffer)))
    return buffer


def array_html(array: Buffer) -> str:
    """Return a table for a buffer or an array: its address, its size, where it was made, its first values now."""
    allocation = array.allocation
    dtype, shape = getattr(array, "dtype", None), getattr(array, "shape", None)
    title = type(array).__name__ if shape is None else f"{type(array).__name__} {shape} {dtype}"
    return html_table(title, (
        ("size", format_bytes(array.nbytes)),
        ("address", f"{array.address:#x}, offset {allocation.offset + array.offset:#x} of {allocation.where}"),
        ("bank", allocation.bank if allocation.device is not None else None),
        ("label", allocation.label or None),
        ("allocated at", allocation.site),
        ("freed by", None if allocation.alive else allocation.freed_by),
        ("first values", first_values(array) if shape is not None else None),
    ))  # fmt: skip


def first_values(array: Any) -> str | None:
    """Return the first values as they are now, whatever is still queued; None of an array that has none or is freed."""
    count, allocation = min(array.size, SHOWN), array.allocation
    data = allocation.data  # taken before its life is asked: what is held stays mapped
    if not count or not allocation.alive:
        return None
    values = np.frombuffer(data, array.dtype, count, array.offset)
    return ", ".join(map(str, values.tolist())) + (", ..." if array.size > count else "")
