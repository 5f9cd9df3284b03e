"""Streams, their callbacks, and words of memory that streams and hosts hand each other (001, stream management)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from atops.base.errors import AtopsError, InvalidType, InvalidValue, NotSupported
from atops.bridge.arguments import flags_in, index_in, listed, size_of, whole
from atops.bridge.handles import current_device, stream_of, usable_stream_of
from atops.bridge.pointers import known_address, reached_memory
from atops.device.arch import Architecture
from atops.device.memory.value_wait import Condition
from atops.hip.functions.api import CODES, call, derived
from atops.hip.functions.host import host_bytes_of
from atops.hip.header.constants import hipStreamNonBlocking, hipStreamWaitValueNor
from atops.hip.header.error_codes import hipError_t
from atops.hip.header.functions import FUNCTIONS
from atops.runtime.commands.call import is_async
from atops.runtime.core.completion import look_at
from atops.runtime.memory.buffer import Buffer
from atops.runtime.stream import Stream
from atops.tops.functions import stream as tops

__all__ = (
    "hipDeviceGetStreamPriorityRange", "hipExtStreamCreateWithCUMask", "hipExtStreamGetCUMask", "hipLaunchHostFunc",
    "hipStreamAddCallback", "hipStreamCreate", "hipStreamCreateWithFlags", "hipStreamCreateWithPriority",
    "hipStreamDestroy", "hipStreamGetDevice", "hipStreamGetFlags", "hipStreamGetPriority", "hipStreamQuery",
    "hipStreamSynchronize", "hipStreamWaitEvent", "hipStreamWaitValue32", "hipStreamWaitValue64",
    "hipStreamWriteValue32", "hipStreamWriteValue64",
)  # fmt: skip

hipStreamCreate = derived(tops.topsStreamCreate)
hipStreamDestroy = derived(tops.topsStreamDestroy)
hipStreamSynchronize = derived(tops.topsStreamSynchronize)
hipStreamWaitEvent = derived(tops.topsStreamWaitEvent)

# ---- streams


@call
def hipStreamCreateWithFlags(flags: int) -> int:
    """Return a new stream of the current device; hipStreamNonBlocking takes no part in null-stream order.

    InvalidValue: other bits.
    """
    return tops.new_stream(flags_in(flags, hipStreamNonBlocking))


@call
def hipStreamCreateWithPriority(flags: int, priority: int) -> int:
    """Return a new stream of the current device; a lower number is more urgent, one out of the range is clamped to it.

    `flags` as in hipStreamCreateWithFlags. InvalidValue: other bits, a priority that is no int.
    """
    least, greatest = Stream.priority_range()
    word = flags_in(flags, hipStreamNonBlocking)
    return tops.new_stream(word, min(max(whole(priority, "priority"), greatest), least))


@call
def hipDeviceGetStreamPriorityRange() -> tuple[int, int]:
    """Return the least and the greatest priority: 0 and -2, for lower numbers are more urgent."""
    return Stream.priority_range()


@call
def hipStreamQuery(stream: int | None) -> hipError_t | None:
    """Answer hipSuccess if nothing is left to do, NotReady if there is; the null stream stands for the blocking ones.

    InvalidHandle; the fault of a stream that failed.
    """
    return None if usable_stream_of(stream).is_done else hipError_t.hipErrorNotReady


@call
def hipStreamGetFlags(stream: int | None) -> int:
    """Return hipStreamNonBlocking or 0, which the null stream has. InvalidHandle."""
    return hipStreamNonBlocking if stream_of(stream).is_nonblocking else 0


@call
def hipStreamGetPriority(stream: int | None) -> int:
    """Return the priority that the stream has: that of its creation within the range. InvalidHandle."""
    return stream_of(stream).priority


@call
def hipStreamGetDevice(stream: int | None) -> int:
    """Return the device of a stream; the null stream is that of the current device. InvalidHandle."""
    return stream_of(stream).device_id


# ---- masks of compute units

BITS: Final = 32  # of a word of a mask


def _units(arch: Architecture) -> int:
    """Return how many compute units a device has: the SIPs of all its clusters."""
    return arch.clusters * arch.sips_per_cluster


@call
def hipExtStreamCreateWithCUMask(cuMaskSize: int, cuMask: object) -> int:
    """Return a new stream whose kernels use only some SIPs: bit `c * n + s` is SIP `s` of cluster `c`, which has n.

    `cuMask` is `cuMaskSize` words of 32 bits, the first for the first 32 SIPs; what is beyond the last SIP is ignored,
    words that are missing are 0, and a mask without any SIP is all of them. A block runs on one cluster, so every
    cluster of the mask must have the same SIPs. InvalidValue: null, no words, clusters with different SIPs.
    """
    device = current_device()
    arch, words = device.arch, size_of(cuMaskSize, "cuMaskSize", BITS)
    if not words:
        raise InvalidValue("cuMaskSize must be 1 or more words, got 0")
    mask = 0
    for position, word in enumerate(_words(cuMask, words)):
        mask |= word << position * BITS
        if (position + 1) * BITS >= _units(arch):
            break
    if not mask & (1 << _units(arch)) - 1:
        return tops.new_stream(0)
    each = arch.sips_per_cluster
    parts = [mask >> cluster * each & (1 << each) - 1 for cluster in range(arch.clusters)]
    sips = {part for part in parts if part}
    if len(sips) != 1:
        got = ", ".join(map(bin, parts))
        raise InvalidValue(f"cuMask must have the same SIPs in each cluster that it has, got {got}")
    clusters = sum(1 << cluster for cluster, part in enumerate(parts) if part)
    return tops.new_stream(0, 0, clusters, sips.pop())


@call
def hipExtStreamGetCUMask(stream: int | None, cuMaskSize: int, cuMask: object) -> None:
    """Store the mask of a stream's SIPs in `cuMask`, `cuMaskSize` words of 32 bits; all SIPs if it was made without.

    Words beyond the last SIP are 0. InvalidHandle; InvalidValue: null, fewer words than the SIPs need.
    """
    target = stream_of(stream)
    arch, words = target.device.arch, size_of(cuMaskSize, "cuMaskSize", BITS)
    need = -(-_units(arch) // BITS)
    if words < need:
        raise InvalidValue(f"cuMaskSize must be {need} or more for {_units(arch)} SIPs, got {words}")
    each = arch.sips_per_cluster
    sips = (1 << each) - 1 if target.sip_mask is None else target.sip_mask
    clusters = (1 << arch.clusters) - 1 if target.cluster_mask is None else target.cluster_mask
    mask = sum(sips << cluster * each for cluster in range(arch.clusters) if clusters >> cluster & 1)
    into = host_bytes_of(cuMask, words * 4, "cuMask", writable=True)
    into[:] = np.frombuffer(mask.to_bytes(words * 4, "little"), np.uint8)


def _words(mask: object, count: int) -> list[int]:
    """Return the words of a mask: a list of ints, or host memory."""
    if isinstance(mask, list | tuple):
        found = listed(mask, None, "cuMask")
        if len(found) < count:
            raise InvalidValue(f"cuMask must have {count} words, got {len(found)}")
        return [size_of(each, "a word of cuMask", BITS) for each in found[:count]]
    return [int(word) for word in host_bytes_of(mask, count * 4, "cuMask").view(np.uint32)]


# ---- callbacks


@call
def hipStreamAddCallback(
    stream: int | None, callback: Callable[[Any, hipError_t, Any], object], userData: object, flags: int
) -> None:
    """Call `callback(stream, status, userData)` exactly once, when everything enqueued so far is over, well or not.

    `stream` and `userData` are those given here; `status` is hipSuccess, or the stream's first failure, abort or reset
    included. Later work of the stream waits for it, and so does synchronising. A callback may enqueue; a call that
    would wait for its own stream or device answers IllegalState. What it raises fails the stream with LaunchFailure.

    InvalidHandle. InvalidValue: not a callable, flags other than 0. NotSupported: a coroutine function, which C does
    not have; the object API's `Stream.call` takes it.
    """
    target = stream_of(stream)
    flags_in(flags, 0)
    _check_callable(callback, "callback", "a function of stream, status and userData")

    def deliver(error: AtopsError | None) -> object:
        look_at(error)
        function = FUNCTIONS["hipStreamAddCallback"]
        status = hipError_t.hipSuccess if error is None else CODES.code_of(error, function, {})
        return callback(stream, status, userData)

    target.raise_error()
    target.add_callback(deliver, holds=True)


@call
def hipLaunchHostFunc(stream: int | None, fn: Callable[[Any], object], userData: object) -> None:
    """Call `fn(userData)` when everything enqueued so far has succeeded; later work of the stream waits for it.

    It is left out where the stream has failed. It must not wait for the stream or its device.
    InvalidHandle; InvalidValue: not a callable; NotSupported: a coroutine function.
    """
    target = usable_stream_of(stream)
    _check_callable(fn, "fn", "a function of userData")
    target.call(fn, userData)


def _check_callable(function: object, what: str, expected: str) -> None:
    if not callable(function):
        raise InvalidType(f"{what} must be {expected}, got {function!r}")
    if is_async(function):
        raise NotSupported(f"{what} must be a plain function, got {function!r}; Stream.call takes coroutines")


# ---- words of memory

CONDITIONS: Final = (Condition.GteUnsigned, Condition.Eq, Condition.And, Condition.Nor)  # by HIP's flags


@call
def hipStreamWaitValue32(stream: int | None, ptr: int, value: int, flags: int, mask: int = 0xFFFFFFFF) -> None:
    """Make later work of the stream wait until a word of 32 bits in memory satisfies a condition.

    `flags` says which: hipStreamWaitValueGte (`(word & mask) >= value`, without sign), Eq (`(word & mask) == value`),
    And (`(word & mask) & value` has a bit), Nor (`~((word & mask) | (value & mask))` has a bit, of all 32). Every way
    of writing is noticed; memory that is freed meanwhile fails the stream with IllegalAddress.
    InvalidValue: no live memory that the stream's device reaches, not aligned, other flags, numbers of more bits.
    """
    _wait(stream, ptr, value, flags, mask, 32)


@call
def hipStreamWaitValue64(
    stream: int | None, ptr: int, value: int, flags: int, mask: int = 0xFFFFFFFFFFFFFFFF
) -> None:
    """As hipStreamWaitValue32 for a word of 64 bits."""
    _wait(stream, ptr, value, flags, mask, 64)


@call
def hipStreamWriteValue32(stream: int | None, ptr: int, value: int, flags: int) -> None:
    """Store a word of 32 bits in stream order. `flags` are ignored.

    InvalidValue: no live memory that the stream's device reaches, not aligned, a value of more bits.
    """
    _write(stream, ptr, value, flags, 32)


@call
def hipStreamWriteValue64(stream: int | None, ptr: int, value: int, flags: int) -> None:
    """As hipStreamWriteValue32 for a word of 64 bits."""
    _write(stream, ptr, value, flags, 64)


def _wait(stream: object, ptr: object, value: object, flags: object, mask: object, bits: int) -> None:
    target = stream_of(stream)
    word = _word(target, ptr, bits)
    number, masked = _unsigned(value, bits, "value"), _unsigned(mask, bits, "mask")
    condition = CONDITIONS[index_in(flags, hipStreamWaitValueNor + 1, "flags")]
    target.raise_error()
    target.wait_value(word, number, condition, mask=masked, width=bits)


def _write(stream: object, ptr: object, value: object, flags: object, bits: int) -> None:
    target = stream_of(stream)
    word = _word(target, ptr, bits)
    number = _unsigned(value, bits, "value")
    whole(flags, "flags")
    target.raise_error()
    target.write_value(word, number, width=bits)


def _word(stream: Stream, ptr: object, bits: int) -> Buffer:
    """Return the word at a pointer. Raises CodeError InvalidDevicePointer, InvalidValue for one that is not aligned."""
    address = known_address(ptr, "ptr")
    word = reached_memory(address, bits // 8, "ptr", device=stream.device_id)
    if address % (bits // 8):
        raise InvalidValue(f"ptr must be aligned to {bits // 8} bytes, got {address:#x}")
    return word


def _unsigned(value: object, bits: int, what: str) -> int:
    """Return a number of so many bits; a negative one is what C makes of it."""
    number = whole(value, what)
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise InvalidValue(f"{what} must be in {bits} bits, got {number}")
    return number % (1 << bits)
