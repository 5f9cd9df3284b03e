"""The verbs of a stream that move bytes and hold memory: copy, fill, upload, fetch, allocate, free."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from atops.base.dtypes import DType, DTypeLike, Scalar, Typed, as_dtype
from atops.base.errors import IllegalAddress, InvalidHandle, InvalidType, InvalidValue
from atops.base.neighbours import refuse_await
from atops.base.trace.records import Kind
from atops.device.memory.allocation import Allocation
from atops.runtime.commands.copy import DIRECT, CopyCompletion, ScatteredCopy, checksum
from atops.runtime.commands.fill import Fill
from atops.runtime.core.completion import Completion, prepare
from atops.runtime.core.future import InProcess
from atops.runtime.memory.buffer import Buffer, DeviceArray, End, extents_of, shape_and_dtype
from atops.runtime.memory.copy_ends import check_shapes, copy_kind, end_of, fill_pattern, host_array, mismatch
from atops.runtime.memory.scatter import Scattered
from atops.runtime.owning_queue import OwningQueue
from atops.runtime.pools.pool import MemoryPool

if TYPE_CHECKING:
    from atops.device.topology import Link

__all__ = ("MemoryVerbs", "Shape", "aligned_empty", "taken")

Host = TypeVar("Host")  # what a copy to the host gives back
Shape = int | tuple[int, ...]
new_tuple = tuple.__new__
new_object = object.__new__
ALIGNED_FROM, ALIGNED_TO, LINE = 4 << 10, 1 << 20, 64
D2D, PEER = int(Kind.COPY_D2D), int(Kind.COPY_PEER)
TAKEN_AT_CALL = DIRECT  # host sources up to here are copied when the copy is enqueued


class MemoryVerbs(InProcess):
    """The verbs of a stream that move bytes and hold memory. What they share is the queue behind the stream."""

    __slots__ = ("__weakref__", "_queue")

    _queue: OwningQueue

    # ---- moving bytes

    @overload
    def copy(
        self, dst: Buffer, src: object, nbytes: int | None = None, *, link: Link | None = None
    ) -> Completion[None]: ...
    @overload
    def copy(self, dst: Host, src: object, nbytes: int | None = None) -> Completion[Host]: ...
    def copy(self, dst: Any, src: Any, nbytes: int | None = None, *, link: Any = None) -> Completion:  # noqa: C901  # fast
        """Enqueue a copy of `src` to `dst`: each a Buffer, a DeviceArray or host memory (numpy, a buffer, DLPack).

        Between two devices it takes the fastest link there is, or `link`, one of `driver.topology.links(i, j)`.

        Sizes and shapes are equal, leading extents of 1 apart, unless `nbytes` says how much; typed ends have equal
        dtypes. Host memory is touched when the copy runs: leave it alone until the completion (sources up to 64 KiB are
        taken at the call). Raises InvalidValue, InvalidType or IllegalAddress at the call; the completion fails with
        IllegalAddress when memory was freed before the copy ran (TOPS Runtime API, 2.6 topsMemcpyAsync).
        """
        queue = self._queue
        driver = queue.board.driver
        if isinstance(dst, Buffer):
            if dst.driver is not driver:
                queue.check_ours(dst)
            into, dst_offset, room, dtype, shape, device = dst._end or dst.end
        else:
            into, dst_offset, room, dtype, shape, device = end_of(dst, "destination", True)
        if isinstance(src, Buffer):
            if src.driver is not driver:
                queue.check_ours(src)
            source, src_offset, size, other, form, origin = src._end or src.end
        else:
            source, src_offset, size, other, form, origin = taken(src) or end_of(src, "source", False)
        if nbytes is not None or room != size:
            size = _copy_size(room, size, nbytes, (dtype, other), origin)
        elif shape != form and shape is not None and form is not None:
            check_shapes(shape, form)
        if dtype is not other and dtype is not None and other is not None and dtype != other:
            raise mismatch(dtype, other, origin == -1)
        if into is source and -size < dst_offset - src_offset < size:
            raise InvalidValue(f"source and destination of a copy of {size} bytes overlap")
        result = check = foreign = None  # `foreign`: whether another stream's verbs made some of the memory
        if device == -1:
            result = dst
        elif into.freed_by is not None:  # type: ignore[union-attr]  # only host bytes have device -1
            raise IllegalAddress(into.freed_message(f"the destination {dst!r}"))  # type: ignore[union-attr]  # so
        elif (owner := into.owner) is not None and owner.home is not queue:  # type: ignore[union-attr]  # so
            foreign = True
        if origin == -1:
            if type(source) is not bytes:  # those nothing changes
                source, check = _host_source(queue, source, src_offset, size)  # type: ignore[arg-type]  # as above
        elif source.freed_by is not None:  # type: ignore[union-attr]  # as above
            raise IllegalAddress(source.freed_message(f"the source {src!r}"))  # type: ignore[union-attr]  # so
        elif (owner := source.owner) is not None and owner.home is not queue:  # type: ignore[union-attr]  # so
            foreign = True
        if origin == device >= 0 and link is None:
            kind = D2D
        elif (kind := copy_kind(device, origin)) == PEER or link is not None:
            link = _link(queue, origin, device, link)
        if into.__class__ is Scattered or source.__class__ is Scattered:
            return _copy_scattered(queue, (into, dst_offset, source, src_offset, size, kind, link), result)
        item = new_object(CopyCompletion)  # without what it takes to have a constructor called
        prepare(item, queue)
        item.dst = into
        item.dst_offset = dst_offset
        item.src = source
        item.src_offset = src_offset
        item.size = size
        item.kind = kind
        item.checksum = check
        item.link = link
        if result is not None:
            item.give(result)
        if (resources := queue.context.resources) is not None:
            item.share = resources.engines
        queue.submit_item(item)
        return queue.keep(item, (into, source)) if foreign else item

    def fill(self, dst: Buffer, value: object, count: int | None = None) -> Completion[None]:
        """Enqueue a fill of `dst` with `value`: of an array's dtype, else a byte, a numpy scalar or 1, 2, 4 bytes.

        `count` is in elements of the pattern; all of `dst` unless told. Raises InvalidValue when the value or the count
        does not fit, InvalidType for what is no number (TOPS Runtime API, 2.6 topsMemsetD8/D16/D32Async).
        """
        queue = self._queue
        queue.check_ours(dst)
        memory, offset, nbytes, dtype, _, _ = end_of(dst, "destination", True)
        pattern = fill_pattern(value, dtype)
        whole, rest = divmod(nbytes, len(pattern))
        if count is None and rest:
            raise InvalidValue(f"{dst!r} is no multiple of the fill pattern's {len(pattern)} bytes")
        count = whole if count is None else _index_of(count, f"a fill of {count!r} elements")
        if not 0 <= count <= whole:
            raise InvalidValue(f"a fill of {count} x {len(pattern)} bytes in {nbytes} bytes; expected 0 to {whole}")
        if not isinstance(memory, Allocation):
            raise InvalidType(f"a fill of {type(dst).__name__}; expected device memory or pinned host memory")
        if isinstance(memory, Scattered):
            data = pattern * count
            return queue.submit(ScatteredCopy(memory, offset, data, 0, len(data), int(Kind.FILL)))
        item = queue.submit(Fill(memory, offset, pattern, count))
        owner = memory.owner
        return item if owner is None or owner.home is queue else queue.keep(item, (memory,))

    @overload
    def upload(self, host: npt.NDArray[Scalar] | Scalar) -> DeviceArray[Scalar]: ...
    @overload
    def upload(self, host: bytes | bytearray) -> DeviceArray[np.uint8]: ...
    @overload
    def upload(self, host: object) -> DeviceArray: ...
    def upload(self, host: object) -> DeviceArray:
        """Allocate an array for `host`, enqueue the copy, and return the array.

        `host` is anything np.asarray takes, a buffer, bytes (as uint8) or an array of another library in host memory
        (DLPack). Raises InvalidType for a masked array, for another byte order than the machine's, and for what device
        memory cannot hold.
        """
        refuse_await("upload() alone: the array is there at once, and is filled in stream order")
        array = host_array(host)
        self._queue.check_room(2)
        target = self.empty(array.shape, array.dtype)
        self._or_release(target, lambda: self.copy(target, array))
        return target

    @overload
    def fetch(  # type: ignore[overload-overlap]  # an array is a Buffer with a type
        self, source: DeviceArray[Scalar]
    ) -> Completion[npt.NDArray[Scalar]]: ...
    @overload
    def fetch(self, source: Buffer) -> Completion[npt.NDArray[np.uint8]]: ...
    def fetch(self, source: Buffer) -> Completion:
        """Enqueue a copy to a new host array; the completion's result is the array (uint8 for a plain Buffer)."""
        if not isinstance(source, Buffer):
            raise InvalidType(f"fetch of {type(source).__name__}; expected a Buffer or a DeviceArray")
        typed = source if isinstance(source, DeviceArray) else source.view(np.uint8)
        return self.copy(aligned_empty(typed.shape, typed.dtype, typed.nbytes), typed)

    # ---- memory

    def allocate(self, nbytes: int, pool: MemoryPool | None = None) -> Buffer:
        """Allocate bytes in stream order, from `pool` or the device's current one.

        The stream frees them when the last reference goes, in its order, or when it is closed. Raises OutOfMemory with
        the free, largest-free and fragmentation figures (TOPS Runtime API, 2.6 topsMallocAsync).
        """
        queue = self._queue
        chosen, allocation = queue.take_memory(nbytes, pool)
        try:
            buffer = Buffer(allocation, 0, nbytes, None, queue.board)
            queue.own(buffer, chosen)
        except BaseException:  # Ctrl-C: it would never be freed
            queue.disown(allocation, chosen)
            raise
        return buffer

    @overload
    def empty(self, shape: Shape, *, pool: MemoryPool | None = None) -> DeviceArray[np.float32]: ...
    @overload
    def empty(self, shape: Shape, dtype: Typed[Scalar], pool: MemoryPool | None = None) -> DeviceArray[Scalar]: ...
    @overload
    def empty(self, shape: Shape, dtype: DTypeLike, pool: MemoryPool | None = None) -> DeviceArray: ...
    def empty(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, pool: MemoryPool | None = None
    ) -> DeviceArray:
        """Allocate an array in stream order; its contents are whatever was there."""
        dtype = as_dtype(dtype)
        shape = extents_of(shape)
        nbytes = math.prod(shape) * dtype.itemsize
        queue = self._queue
        chosen, allocation = queue.take_memory(nbytes, pool)
        try:
            array = DeviceArray(allocation, 0, dtype, shape, None, queue.board)
            queue.own(array, chosen)
        except BaseException:  # as above
            queue.disown(allocation, chosen)
            raise
        return array

    @overload
    def empty_like(self, other: DeviceArray[Scalar] | npt.NDArray[Scalar]) -> DeviceArray[Scalar]: ...
    @overload
    def empty_like(self, other: object) -> DeviceArray: ...
    def empty_like(self, other: object) -> DeviceArray:
        """Allocate an array of another's shape and dtype."""
        return self.empty(*shape_and_dtype(other))

    @overload
    def zeros(self, shape: Shape) -> DeviceArray[np.float32]: ...
    @overload
    def zeros(self, shape: Shape, dtype: Typed[Scalar]) -> DeviceArray[Scalar]: ...
    @overload
    def zeros(self, shape: Shape, dtype: DTypeLike) -> DeviceArray: ...
    def zeros(self, shape: Shape, dtype: DTypeLike = np.float32) -> DeviceArray:
        """Allocate an array and enqueue a fill with zero bytes: strings in it are empty, as those of np.zeros."""
        self._queue.check_room(2)
        array = self.empty(shape, dtype)
        self._or_release(array, lambda: self._queue.submit(Fill(array.allocation, 0, b"\0", array.nbytes)))
        return array

    def _or_release(self, buffer: Buffer, enqueue: Callable[[], object]) -> None:
        """Enqueue what a new buffer is for; give it back where that is refused, so that nothing has happened."""
        try:
            enqueue()
        except BaseException:
            buffer.release_in(self._queue)
            raise

    def free(self, buffer: Buffer | int) -> None:
        """Enqueue giving a buffer back, after everything enqueued here so far. It runs even if the stream fails.

        One that this stream's verbs made may be named by its address. Raises InvalidHandle when the buffer owns nothing
        or was freed, or none has this address; NotInitialized in a forked child (TOPS Runtime API, 2.6 topsFreeAsync).
        """
        refuse_await("free() alone: it is freed in stream order")
        queue = self._queue
        if isinstance(buffer, (int, np.integer)) and not isinstance(buffer, bool):
            buffer = queue.made_at(int(buffer))
        if not isinstance(buffer, Buffer):
            raise InvalidType(f"free of {type(buffer).__name__}; expected a Buffer or its address")
        queue.check_ours(buffer)
        if queue.board.forked:
            queue.context.check_alive()
        if not buffer.release_in(queue):
            raise InvalidHandle(f"{buffer!r} owns no memory, or was freed already")


def _link(queue: OwningQueue, source: int, target: int, link: Link | None) -> Link | None:
    """Return the link of a copy between two devices, which are negative for the host: the fastest unless told."""
    if link is None:
        return queue.board.topology.route(source, target)
    links = () if min(source, target) < 0 else queue.board.topology.links(source, target)
    if link not in links:
        ends = " to ".join("the host" if end < 0 else f"device {end}" for end in (source, target))
        there = ", ".join(each.name for each in links) or "none"
        raise InvalidValue(f"a copy from {ends} over {getattr(link, 'name', link)!r}; the links there: {there}")
    return link


def _copy_scattered(queue: OwningQueue, copy: tuple[object, ...], result: object) -> Completion:
    return queue.keep(queue.submit(new_tuple(ScatteredCopy, copy), result), (copy[0], copy[2]))


def _copy_size(room: int, size: int, nbytes: int | None, types: tuple[DType | None, DType | None], origin: int) -> int:
    if nbytes is None:
        dtype, other = types
        if dtype is not None and other is not None and dtype != other:
            raise mismatch(dtype, other, origin == -1)  # what made the sizes differ
        raise InvalidValue(f"the source has {size} bytes and the destination {room}; equal sizes, or nbytes=")
    nbytes = _index_of(nbytes, f"a copy of {nbytes!r} bytes")
    if not 0 <= nbytes <= min(room, size):
        raise InvalidValue(f"a copy of {nbytes} bytes from {size} to {room} bytes; expected 0 to {min(room, size)}")
    return nbytes


def _host_source(
    queue: OwningQueue, source: memoryview | bytes, offset: int, size: int
) -> tuple[memoryview | bytes, tuple[int, ...] | None]:
    """Take a short source now; note the checksum of a long one in strict mode."""
    if size <= TAKEN_AT_CALL:
        return bytes(source[offset : offset + size]), None  # host ends have no offset of their own
    return source, checksum(source) if queue.board.options.strict else None


def _index_of(value: object, what: str) -> int:
    """Return what counts something as an int. Raises InvalidType for what is none, such as True."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]  # caught
    except TypeError:
        raise InvalidType(f"{what}; expected an int") from None


def taken(source: object) -> End | None:
    """Return the bytes of a short numpy array, copied now: the commonest source, and the one where speed matters."""
    if type(source) is not np.ndarray or source.nbytes > TAKEN_AT_CALL or not source.flags.c_contiguous:
        return None
    dtype = source.dtype
    return None if dtype.hasobject else (source.tobytes(), 0, source.nbytes, dtype, source.shape, -1)


def aligned_empty(shape: tuple[int, ...], dtype: DType, nbytes: int) -> object:
    """Return a new array that begins as device memory does, on a line of the cache.

    numpy's own begin 16 bytes after a page, and some processors copy to there from a page's start at a tenth of their
    speed. Small arrays, and those so large that it no longer shows, are numpy's.
    """
    if not ALIGNED_FROM <= nbytes <= ALIGNED_TO:
        return np.empty(shape, dtype)
    room = np.empty(nbytes + LINE, np.uint8)
    start = -room.__array_interface__["data"][0] % LINE
    return room[start : start + nbytes].view(dtype).reshape(shape)
