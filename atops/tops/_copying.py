"""Copies as the C-style functions ask for them: ends found, kinds checked against real places, enqueued.

It knows no function: who calls it says which stream, and waits where the text wants that.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from atops.base.errors import InvalidValue
from atops.base.results import Result
from atops.runtime.buffer import Buffer
from atops.runtime.completion import Completion
from atops.runtime.device import Device
from atops.runtime.drivers import current_driver
from atops.runtime.stream import Stream
from atops.tops._arguments import member, whole
from atops.tops._codes import CodeError
from atops.tops._pointers import find_host, is_null, operand
from atops.tops.enumerations import topsMemcpyKind

__all__ = ("Started", "pinned_or_pageable", "start_copy")

HOST, DEVICE = 1, 2  # where an end may be said to lie; mapped and managed memory may be said to lie in both
PLACES: Final = {
    topsMemcpyKind.topsMemcpyHostToHost: (HOST, HOST),
    topsMemcpyKind.topsMemcpyHostToDevice: (DEVICE, HOST),
    topsMemcpyKind.topsMemcpyDeviceToHost: (HOST, DEVICE),
    topsMemcpyKind.topsMemcpyDeviceToDevice: (DEVICE, DEVICE),
    topsMemcpyKind.topsMemcpyDefault: (HOST | DEVICE, HOST | DEVICE),
}
NAMES: Final = {HOST: "host", DEVICE: "device"}


class Started(NamedTuple):
    """A copy or a fill that was enqueued, and which of the host's memory it touches."""

    completion: Completion | None  # None: nothing to do
    on_host: bool = False  # host memory of any kind: the plain functions return when it is over
    at_once: bool = False  # pageable memory, or host to host: so do the asynchronous ones


NOTHING: Final = Started(None)


def start_copy(
    stream: Stream, dst: Any, src: Any, nbytes: int, kind: Any, code: Result = Result.InvalidMemcpyDirection
) -> Started:
    """Enqueue a copy of `nbytes` on a stream.

    Raises CodeError `code` when the kind is none, or not that of the pointers; InvalidValue for overlapping or too
    short memory, and unknown pointers; InvalidType. Null is fine for a copy of nothing.
    """
    to, back = PLACES[member(topsMemcpyKind, kind, "kind", Result.InvalidMemcpyDirection)]
    target = _end(dst, nbytes, "dst", to, code)
    source = _end(src, nbytes, "src", back, code)
    if nbytes == 0 or target is None or source is None:
        return NOTHING
    _check_apart(target, source, nbytes)
    pageable = not (isinstance(target, Buffer) and isinstance(source, Buffer))
    in_host = [not isinstance(end, Buffer) or end.device is None for end in (target, source)]
    if isinstance(target, Buffer) and isinstance(source, Buffer) and _unreachable(stream, target, source):
        completion = _stage(stream, target, source, nbytes)
    else:
        completion = stream.copy(target, source)
    return Started(completion, any(in_host), pageable or all(in_host))


def pinned_or_pageable(pointer: Any, nbytes: int, what: str, *, writable: bool = False) -> Buffer | memoryview:
    """As `operand`, without a type; an array in pinned or registered memory is found to be that."""
    end = operand(pointer, nbytes, what, writable=writable)
    if isinstance(end, Buffer):
        return _untyped(end)
    address = _real_address(end) if nbytes else 0
    try:
        host = find_host(address)
    except InvalidValue:
        return end
    offset = address - host.host_address
    return end if offset + nbytes > host.size else Buffer(host, offset, nbytes)


def _end(pointer: Any, nbytes: int, what: str, place: int, code: Result) -> Buffer | memoryview | None:
    """Return one end of a copy, which must lie where the kind says; None for the null of a copy of nothing."""
    if nbytes == 0 and is_null(pointer):
        return None
    end = pinned_or_pageable(pointer, nbytes, what, writable=what == "dst")
    if not place & _places(pointer, end):
        where = repr(end) if isinstance(end, Buffer) else "pageable host memory"
        raise CodeError(code, f"{what} is {where}; the kind of the copy says {NAMES[place]} memory")
    return end


def _places(pointer: Any, end: Buffer | memoryview) -> int:
    if not isinstance(end, Buffer):
        return HOST
    if end.device is not None:
        return DEVICE
    if end.allocation.managed or isinstance(pointer, Buffer):
        return HOST | DEVICE
    if isinstance(pointer, np.ndarray) or not hasattr(pointer, "__index__"):
        return HOST
    return HOST if whole(pointer, "the pointer") == end.allocation.host_address + end.offset else HOST | DEVICE


def _untyped(end: Buffer) -> Buffer:
    if type(end) is Buffer:
        return end
    plain = Buffer(end.allocation, end.offset, end.nbytes)
    plain.driver = end.driver
    return plain


def _check_apart(target: Buffer | memoryview, source: Buffer | memoryview, nbytes: int) -> None:
    """Raise InvalidValue when both ends share bytes, whatever their names for them."""
    to, back = _real_address(target), _real_address(source)
    if to and back and -nbytes < to - back < nbytes:
        raise InvalidValue(f"dst and src of a copy of {nbytes} bytes overlap: {target!r} and {source!r}")


def _real_address(end: Buffer | memoryview) -> int:
    """Return the address in this process of an end's first byte: device memory has one too; 0 for scatter memory."""
    if isinstance(end, Buffer):
        start = end.allocation.host_address
        return start + end.offset if start else 0
    return int(np.frombuffer(end, np.uint8).__array_interface__["data"][0])


def _unreachable(stream: Stream, target: Buffer, source: Buffer) -> bool:
    """Whether the ends lie on two devices, and the stream's has no access to the other one."""
    ends = {target.device, source.device}
    if None in ends or len(ends) == 1:
        return False
    return not ends - {stream.context.ordinal} <= stream.context.peers


def _stage(stream: Stream, target: Buffer, source: Buffer, nbytes: int) -> Completion:
    """Copy by way of pinned host memory, in two commands."""
    buffer = Device(stream.context.ordinal, current_driver()).host_malloc(nbytes)
    staging = _untyped(buffer)
    try:
        stream.copy(staging, source)
        return stream.copy(target, staging)
    finally:
        buffer.release_in(stream)
