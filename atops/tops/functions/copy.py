"""Copies and fills (TOPS Runtime API, 2.6), and reductions (2.11), of host and device memory of any kind.

The current device copies, or that of the stream. Plain forms use the null stream and return when the copy is over if
host memory takes part; between device memory they return at once, as fills do, and later work is ordered after them.
Asynchronous forms return at once unless host memory that is neither pinned nor registered takes part, or host memory
alone. Between devices without access (topsDeviceEnablePeerAccess) a copy goes by way of the host, in two steps.

Values of a fill are cut to the width of an element, as C does; counts are in elements, at any alignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from atops.base.dtypes import DType, as_dtype
from atops.base.errors import IllegalAddress, InvalidValue
from atops.base.log_fields import get_logger
from atops.base.result_codes import Result
from atops.bridge.arguments import member, size_of, whole
from atops.bridge.call import Wait, until
from atops.bridge.codes import CodeError
from atops.bridge.handles import usable_stream_of
from atops.bridge.pointers import bad_pointer, device_memory, has_aliases, is_null, operand, pinned_at
from atops.device.memory.allocation import Allocation
from atops.device.memory.host_memory import SLOT_SHIFT
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.copy import DIRECT
from atops.runtime.commands.reduce import Reduce
from atops.runtime.core.completion import Completion, fields_of
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.copy_ends import CAST_CODES
from atops.runtime.queues.short_copies import copy_at_once
from atops.runtime.stream import Stream, queue_of
from atops.tops.functions.api import call
from atops.tops.header.enumerations import topsMemcpyKind, topsReduceDataType, topsReduceOpType

__all__ = (
    "Started", "is_everywhere", "start_copy", "topsMemcpy", "topsMemcpyAsync", "topsMemcpyDtoD", "topsMemcpyDtoDAsync",
    "topsMemcpyDtoH", "topsMemcpyDtoHAsync", "topsMemcpyHtoD", "topsMemcpyHtoDAsync", "topsMemcpyWithStream",
    "topsMemoryReduceAsync", "topsMemset", "topsMemsetAsync", "topsMemsetD8", "topsMemsetD8Async", "topsMemsetD16",
    "topsMemsetD16Async", "topsMemsetD32", "topsMemsetD32Async",
)  # fmt: skip

# ---- copies

H2D: Final = topsMemcpyKind.topsMemcpyHostToDevice
D2H: Final = topsMemcpyKind.topsMemcpyDeviceToHost
D2D: Final = topsMemcpyKind.topsMemcpyDeviceToDevice


@call
def topsMemcpy(dst: object, src: object, sizeBytes: int, kind: topsMemcpyKind) -> Wait | None:
    """Copy `sizeBytes`. The ends are pointers, arrays or buffers.

    InvalidValue: null, unknown, overlapping or too short memory; InvalidMemcpyDirection: not a kind, or not that
    of the pointers (mapped and managed memory may be called host or device).
    """
    return start_copy(usable_stream_of(None), dst, src, size_of(sizeBytes, "sizeBytes"), kind, waits=True).plain_wait()


@call
def topsMemcpyWithStream(
    dst: object, src: object, sizeBytes: int, kind: topsMemcpyKind, stream: int | None
) -> Wait | None:
    """As topsMemcpy, in the order of a stream; returns when the copy is over, whatever the memory. InvalidHandle."""
    return start_copy(usable_stream_of(stream), dst, src, size_of(sizeBytes, "sizeBytes"), kind, waits=True).wait()


@call
def topsMemcpyAsync(
    dst: object, src: object, sizeBytes: int, kind: topsMemcpyKind, stream: int | None = 0
) -> Wait | None:
    """Enqueue a copy; pageable host memory is copied before the call returns. As topsMemcpy; InvalidHandle."""
    return start_copy(usable_stream_of(stream), dst, src, size_of(sizeBytes, "sizeBytes"), kind).async_wait()


@call
def topsMemcpyHtoD(dst: int, src: object, sizeBytes: int) -> Wait | None:
    """Copy from host to device memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    return _start(None, dst, src, sizeBytes, H2D, waits=True).wait()


@call
def topsMemcpyDtoH(dst: object, src: int, sizeBytes: int) -> Wait | None:
    """Copy from device to host memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    return _start(None, dst, src, sizeBytes, D2H, waits=True).wait()


@call
def topsMemcpyDtoD(dst: int, src: int, sizeBytes: int) -> Wait | None:
    """Copy from device to device memory. InvalidValue: bad, overlapping or too short memory, or of the other kind."""
    return _start(None, dst, src, sizeBytes, D2D, waits=True).plain_wait()


@call
def topsMemcpyHtoDAsync(dst: int, src: object, sizeBytes: int, stream: int | None) -> Wait | None:
    """As topsMemcpyHtoD, enqueued; pageable memory is read before the call returns. InvalidHandle."""
    return _start(stream, dst, src, sizeBytes, H2D).async_wait()


@call
def topsMemcpyDtoHAsync(dst: object, src: int, sizeBytes: int, stream: int | None) -> Wait | None:
    """As topsMemcpyDtoH, enqueued; pageable memory is written before the call returns. InvalidHandle."""
    return _start(stream, dst, src, sizeBytes, D2H).async_wait()


@call
def topsMemcpyDtoDAsync(dst: int, src: int, sizeBytes: int, stream: int | None) -> None:
    """As topsMemcpyDtoD, enqueued on a stream. InvalidHandle."""
    _start(stream, dst, src, sizeBytes, D2D)


def _start(
    stream: int | None, dst: object, src: object, nbytes: int, kind: topsMemcpyKind, *, waits: bool = False
) -> Started:
    """Enqueue a copy whose kind the function's name says: other memory is a wrong value."""
    size = size_of(nbytes, "sizeBytes")
    return start_copy(usable_stream_of(stream), dst, src, size, kind, Result.InvalidValue, waits=waits)


# ---- their ends

log = get_logger("atops.tops")
HOST, DEVICE = 1, 2  # where an end may lie; mapped and managed memory lies in both
KINDS: Final[frozenset[type]] = frozenset({int, topsMemcpyKind})  # types that need no conversion
PLACES: Final[dict[int, tuple[int, int]]] = {
    topsMemcpyKind.topsMemcpyHostToHost: (HOST, HOST),
    topsMemcpyKind.topsMemcpyHostToDevice: (DEVICE, HOST),
    topsMemcpyKind.topsMemcpyDeviceToHost: (HOST, DEVICE),
    topsMemcpyKind.topsMemcpyDeviceToDevice: (DEVICE, DEVICE),
    topsMemcpyKind.topsMemcpyDefault: (HOST | DEVICE, HOST | DEVICE),
}
NAMES: Final = {HOST: "host", DEVICE: "device"}


class Started(NamedTuple):
    """A copy or a fill that was enqueued, and the kinds of host memory that it touches."""

    completion: Completion | None  # None: there is nothing to wait for
    on_host: bool = False  # host memory of any kind
    at_once: bool = False  # pageable host memory, or host memory alone

    def wait(self) -> Wait | None:
        """Return the wait of a function that returns when its work is over."""
        return until(self.completion) if self.completion is not None else None

    def plain_wait(self) -> Wait | None:
        """Return the wait of a plain function, which waits where host memory takes part."""
        return until(self.completion) if self.on_host and self.completion is not None else None

    def async_wait(self) -> Wait | None:
        """Return the wait of an asynchronous function, which waits where the host may touch its memory at once."""
        return until(self.completion) if self.at_once and self.completion is not None else None


NOTHING: Final = Started(None)


def start_copy(
    stream: Stream, dst: object, src: object, nbytes: int, kind: object, code: Result = Result.InvalidMemcpyDirection,
    *, waits: bool = False,
) -> Started:
    """Enqueue a copy of `nbytes` on a stream; `waits` tells that the caller then waits for it at once.

    Raises CodeError `code` when `kind` is not a kind, or not that of the pointers; InvalidValue for overlapping or too
    short memory, and unknown pointers; InvalidType. A copy of 0 bytes takes null.
    """
    if kind.__class__ not in KINDS or kind not in PLACES:
        kind = member(topsMemcpyKind, kind, "kind", Result.InvalidMemcpyDirection)
    to, back = PLACES[kind]
    if waits and (done := _short_copy(stream, dst, src, nbytes, to, back)) is not None:
        return done
    to_end = _end(dst, nbytes, "dst", to, code)
    back_end = _end(src, nbytes, "src", back, code)
    if nbytes == 0 or to_end is None or back_end is None:
        return NOTHING
    (target, into), (source, out) = to_end, back_end
    if into and out and -nbytes < into - out < nbytes:
        raise InvalidValue(f"dst and src must not overlap in a copy of {nbytes} bytes, got {target!r} and {source!r}")
    if isinstance(target, Buffer) and isinstance(source, Buffer):
        here, there = target.device_id, source.device_id
        on_host, at_once = here is None or there is None, here is None and there is None
        if here != there and not on_host and _unreachable(queue_of(stream).context, {here, there}):
            return Started(_stage(stream, target, source, nbytes))
    else:
        on_host = at_once = True
    return Started(stream.copy(target, source), on_host, at_once)


def _short_copy(stream: Stream, dst: object, src: object, nbytes: int, to: int, back: int) -> Started | None:
    """Copy at once between an array and plain device memory, the commonest copy; return None for every other one.

    It checks nothing that the general way does not check too: what it cannot take raises there.
    """
    up = type(src) is np.ndarray
    array, pointer = (src, dst) if up else (dst, src)
    if type(array) is not np.ndarray or type(pointer) is not int or not 0 < nbytes <= min(DIRECT, array.nbytes):
        return None
    context, flags, dtype = queue_of(stream).context, array.flags, array.dtype
    board = context.board
    if context.resources is not None and context.resources.engines is not None:
        return None  # the stream gives it to the engines of the bundle
    if pointer >> SLOT_SHIFT != 2 * context.ordinal + 1 or has_aliases() or board.host.host_used:
        return None  # on another device, or perhaps a second name or pinned memory
    if not (to & (DEVICE if up else HOST) and back & (HOST if up else DEVICE)):
        return None
    if not flags.c_contiguous or not (up or flags.writeable) or not array.ndim:
        return None
    if dtype.char not in CAST_CODES or not dtype.isnative:
        return None
    try:
        memory = context.memory.find(pointer)
    except IllegalAddress:
        return None
    offset = pointer - memory.address
    if offset + nbytes > memory.size or type(memory) is not Allocation:
        return None
    return NOTHING if copy_at_once(queue_of(stream), memory, offset, array.data.cast("B"), nbytes, up) else None


def _found(pointer: object, nbytes: int, what: str, writable: bool) -> tuple[Buffer | memoryview, int]:
    """Return one end as `operand` does, without an element type, and the address of its first byte in this process.

    The address is 0 where there is none. An array in pinned or registered memory gives its Buffer.
    """
    end = operand(pointer, nbytes, what, writable=writable)
    if isinstance(end, Buffer):
        start = end.allocation.host_address
        return _untyped(end), start + end.offset if start else 0
    if not nbytes:
        return end, 0
    address = int(np.frombuffer(end, np.uint8).__array_interface__["data"][0])
    host = pinned_at(address)
    if host is None or (offset := address - host.host_address) + nbytes > host.size:
        return end, address
    return Buffer(host, offset, nbytes), address


def _end(pointer: object, nbytes: int, what: str, place: int, code: Result) -> tuple[Buffer | memoryview, int] | None:
    """Return one end of a copy, which must lie where the kind says, and its address in this process.

    None for the null of a copy of 0 bytes.
    """
    if nbytes == 0 and is_null(pointer):
        return None
    found = _found(pointer, nbytes, what, what == "dst")
    if not place & _places(pointer, found[0]):
        where = repr(found[0]) if isinstance(found[0], Buffer) else "pageable host memory"
        raise CodeError(code, f"{what} must be {NAMES[place]} memory for this kind of copy, got {where}")
    return found


def is_everywhere(pointer: object, nbytes: int) -> bool:
    """Tell whether an end of a copy lies in host and in device memory: mapped or managed. Raises as `operand` does."""
    return _places(pointer, _found(pointer, nbytes, "the end", False)[0]) == HOST | DEVICE


def _places(pointer: object, end: Buffer | memoryview) -> int:
    if not isinstance(end, Buffer):
        return HOST
    if end.device_id is not None:
        return DEVICE
    if end.allocation.managed or isinstance(pointer, Buffer):
        return HOST | DEVICE
    if isinstance(pointer, np.ndarray) or not hasattr(pointer, "__index__"):
        return HOST
    return HOST if whole(pointer, "the pointer") == end.allocation.host_address + end.offset else HOST | DEVICE


def _untyped(end: Buffer) -> Buffer:
    if type(end) is Buffer:
        return end
    bare = Buffer(end.allocation, end.offset, end.nbytes)
    bare.driver = end.driver
    return bare


def _unreachable(context: DeviceContext, ends: set[int | None]) -> bool:
    """Return whether the stream's device has no access to the other one of a copy's two ends."""
    return not ends - {context.ordinal} <= context.peers


def _stage(stream: Stream, target: Buffer, source: Buffer, nbytes: int) -> Completion:
    """Copy by way of pinned host memory, in two commands. Strict mode says so: some hardware refuses."""
    queue = queue_of(stream)
    if queue.board.options.strict:
        log.warning(
            "%s copies %d bytes from device %d to device %d by way of the host; elsewhere that may need "
            "topsDeviceEnablePeerAccess first", stream.label, nbytes, source.device_id, target.device_id,
            extra=fields_of(queue),
        )  # fmt: skip
    buffer = Device(stream.device_id).host_malloc(nbytes)
    staging = _untyped(buffer)
    try:
        stream.copy(staging, source)
        return stream.copy(target, staging)
    finally:
        buffer.release_in(queue)


# ---- fills


@call
def topsMemset(dst: object, value: int, sizeBytes: int) -> Wait | None:
    """Fill `sizeBytes` bytes with the low 8 bits of a value. InvalidValue: null, unknown, pageable or short memory."""
    return _fill(None, dst, value, 1, sizeBytes, "sizeBytes").plain_wait()


@call
def topsMemsetAsync(dst: object, value: int, sizeBytes: int, stream: int | None = 0) -> None:
    """As topsMemset, enqueued on a stream. InvalidHandle."""
    _fill(stream, dst, value, 1, sizeBytes, "sizeBytes")


@call
def topsMemsetD8(dest: object, value: int, count: int) -> Wait | None:
    """Fill `count` bytes. InvalidValue: null, unknown, pageable or short memory."""
    return _fill(None, dest, value, 1, count, "count").plain_wait()


@call
def topsMemsetD8Async(dest: object, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD8, enqueued on a stream. InvalidHandle."""
    _fill(stream, dest, value, 1, count, "count")


@call
def topsMemsetD16(dest: object, value: int, count: int) -> Wait | None:
    """Fill `count` elements of 2 bytes. InvalidValue: null, unknown, pageable or short memory."""
    return _fill(None, dest, value, 2, count, "count").plain_wait()


@call
def topsMemsetD16Async(dest: object, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD16, enqueued on a stream. InvalidHandle."""
    _fill(stream, dest, value, 2, count, "count")


@call
def topsMemsetD32(dest: object, value: int, count: int) -> Wait | None:
    """Fill `count` elements of 4 bytes. InvalidValue: null, unknown, pageable or short memory."""
    return _fill(None, dest, value, 4, count, "count").plain_wait()


@call
def topsMemsetD32Async(dst: object, value: int, count: int, stream: int | None = 0) -> None:
    """As topsMemsetD32, enqueued on a stream. InvalidHandle."""
    _fill(stream, dst, value, 4, count, "count")


def _fill(stream: int | None, pointer: object, value: int, width: int, count: int, what: str) -> Started:
    """Enqueue a fill of `count` elements of `width` bytes. A fill of 0 bytes takes null."""
    target = usable_stream_of(stream)
    elements = size_of(count, what)
    pattern = (whole(value, "value") & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    if elements == 0 and is_null(pointer):
        return NOTHING
    memory, _ = _found(pointer, elements * width, "the destination", True)
    if not isinstance(memory, Buffer):
        raise bad_pointer("the destination must be device, pinned or registered memory, got pageable host memory")
    if elements == 0:
        return NOTHING
    return Started(target.fill(memory, pattern), memory.device_id is None)


# ---- reductions (2.11)

OPERATION: Final[Mapping[topsReduceOpType, str]] = MappingProxyType({
    topsReduceOpType.REDUCE_SUM: "sum",
    topsReduceOpType.REDUCE_PROD: "product",
    topsReduceOpType.REDUCE_MAX: "maximum",
    topsReduceOpType.REDUCE_MIN: "minimum",
})
DTYPE: Final[Mapping[topsReduceDataType, DType]] = MappingProxyType({
    topsReduceDataType.INT8: as_dtype("int8"),
    topsReduceDataType.UINT8: as_dtype("uint8"),
    topsReduceDataType.INT32: as_dtype("int32"),
    topsReduceDataType.UINT32: as_dtype("uint32"),
    topsReduceDataType.INT64: as_dtype("int64"),
    topsReduceDataType.UINT64: as_dtype("uint64"),
    topsReduceDataType.FLOAT16: as_dtype("float16"),
    topsReduceDataType.FLOAT32: as_dtype("float32"),
    topsReduceDataType.LFLOAT64: as_dtype("float64"),
    topsReduceDataType.BFLOAT16: as_dtype("bfloat16"),
})


@call
def topsMemoryReduceAsync(
    lhs: int, rhs: int, result: int, op: topsReduceOpType, dtype: topsReduceDataType, element_cnt: int,
    stream: int | None,
) -> None:  # fmt: skip
    """Store `op(lhs[i], rhs[i])` in `result[i]`, in the order of a stream, all on its device.

    `result` may be `lhs` or `rhs` itself. Integers wrap; half and bfloat16 are computed in float32 and rounded once;
    MAX and MIN propagate NaN. InvalidValue: a pointer that is not on the stream's device, a range that leaves its
    allocation, a result that overlaps an operand otherwise, UNKNOW or not a member, a count of more than 32 bits.
    """
    queue = queue_of(usable_stream_of(stream))
    operation = OPERATION.get(member(topsReduceOpType, op, "op"))
    element = DTYPE.get(member(topsReduceDataType, dtype, "dtype"))
    if operation is None or element is None:
        raise InvalidValue(f"op and dtype must be known, got {op!r} and {dtype!r}")
    count = size_of(element_cnt, "element_cnt", 32)
    nbytes = count * element.itemsize
    one, other, target = (
        device_memory(pointer, nbytes, what, device=queue.context.ordinal, plain=False)
        for pointer, what in ((lhs, "lhs"), (rhs, "rhs"), (result, "result"))
    )
    for source, what in ((one, "lhs"), (other, "rhs")):
        _check_overlap(target, source, what)
    ends = [(buffer.allocation, buffer.offset) for buffer in (one, other, target)]
    queue.keep(queue.submit(Reduce(operation, element, count, *ends)), (memory for memory, _ in ends))


def _check_overlap(target: Buffer, source: Buffer, what: str) -> None:
    apart = target.offset - source.offset
    if target.allocation is source.allocation and 0 < abs(apart) < target.nbytes:
        shared = target.nbytes - abs(apart)
        raise InvalidValue(f"result must be {what} itself or lie apart from it, but {shared} of their bytes are shared")
