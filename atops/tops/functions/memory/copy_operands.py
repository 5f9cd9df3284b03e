"""Copies of the C-style functions: find the ends, check the kind against where they lie, enqueue, and wait or not."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

import numpy as np

from atops.base.errors import IllegalAddress, InvalidValue
from atops.base.result_codes import Result
from atops.base.trace.tracer import Kind
from atops.device.memory.allocation import Allocation
from atops.device.memory.host_memory import SLOT_SHIFT
from atops.runtime.commands.copy import DIRECT
from atops.runtime.core.completion import Completion
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.copy_ends import CAST_CODES
from atops.runtime.queues.direct_copy import copy_at_once
from atops.runtime.stream import Stream
from atops.tops.bridge.aliases import has_aliases
from atops.tops.bridge.arguments import member, whole
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.pointers import is_null, operand, pinned_at
from atops.tops.bridge.waiting import Wait, until
from atops.tops.types.enumerations import topsMemcpyKind

__all__ = ("Started", "pinned_or_pageable", "start_copy")

log = logging.getLogger("atops.tops")
HOST, DEVICE = 1, 2  # where an end may lie; mapped and managed memory lies in both
KINDS: Final[frozenset[type]] = frozenset({int, topsMemcpyKind})  # types that need no conversion
PLACES: Final[dict[int, tuple[int, int]]] = {
    topsMemcpyKind.topsMemcpyHostToHost: (HOST, HOST),
    topsMemcpyKind.topsMemcpyHostToDevice: (DEVICE, HOST),
    topsMemcpyKind.topsMemcpyDeviceToHost: (HOST, DEVICE),
    topsMemcpyKind.topsMemcpyDeviceToDevice: (DEVICE, DEVICE),
    topsMemcpyKind.topsMemcpyDefault: (HOST | DEVICE, HOST | DEVICE),
}
H2D, D2H = int(Kind.COPY_H2D), int(Kind.COPY_D2H)
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
        on_host = target.device is None or source.device is None
        at_once = target.device is None and source.device is None
        if not on_host and _unreachable(stream, target, source):
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
    driver, context, flags, dtype = stream.driver, stream.context, array.flags, array.dtype
    if context.resources is not None and context.resources.engines is not None:
        return None  # the stream gives it to the engines of the bundle
    if pointer >> SLOT_SHIFT != 2 * context.ordinal + 1 or has_aliases() or driver.host.host_used:
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
    return NOTHING if copy_at_once(stream, memory, offset, array.data.cast("B"), nbytes, up) else None


def pinned_or_pageable(pointer: object, nbytes: int, what: str, *, writable: bool = False) -> Buffer | memoryview:
    """As `operand`, without an element type; an array in pinned or registered memory gives its Buffer."""
    return _found(pointer, nbytes, what, writable)[0]


def _found(pointer: object, nbytes: int, what: str, writable: bool) -> tuple[Buffer | memoryview, int]:
    """As `pinned_or_pageable`, and the address in this process of the first byte: 0 where there is none."""
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


def _places(pointer: object, end: Buffer | memoryview) -> int:
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


def _unreachable(stream: Stream, target: Buffer, source: Buffer) -> bool:
    """Whether the ends lie on two devices, and the stream's has no access to the other one."""
    ends = {target.device, source.device}
    if None in ends or len(ends) == 1:
        return False
    return not ends - {stream.context.ordinal} <= stream.context.peers


def _stage(stream: Stream, target: Buffer, source: Buffer, nbytes: int) -> Completion:
    """Copy by way of pinned host memory, in two commands. Strict mode says so: some hardware refuses."""
    if stream.driver.options.strict:
        log.warning(
            "%s copies %d bytes from device %d to device %d by way of the host; elsewhere that may need "
            "topsDeviceEnablePeerAccess first", stream.label, nbytes, source.device, target.device,
        )  # fmt: skip
    buffer = Device(stream.context.ordinal, current_driver()).host_malloc(nbytes)
    staging = _untyped(buffer)
    try:
        stream.copy(staging, source)
        return stream.copy(target, staging)
    finally:
        buffer.release_in(stream)
