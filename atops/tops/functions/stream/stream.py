"""Streams: creation, waiting, callbacks, and words of memory that streams and hosts hand each other (2.4)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from atops.base.errors import AtopsError, InvalidHandle, InvalidType, InvalidValue, NotSupported
from atops.device.memory.allocation import fill
from atops.device.memory.value_wait import Condition
from atops.runtime.commands.call import is_async
from atops.runtime.core.failures import look_at
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.scatter import Scattered
from atops.runtime.stream import Stream
from atops.tops.bridge.arguments import flags_in, member, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import code_of
from atops.tops.bridge.context import current_device, current_driver
from atops.tops.bridge.handles import event_of, register, stream_of, take, usable_stream_of
from atops.tops.bridge.pointers import bad_pointer, is_null, known_address, reached_memory
from atops.tops.bridge.waiting import Wait, until
from atops.tops.functions.stream.word_wait import WordWait
from atops.tops.tables.all_functions import FUNCTIONS
from atops.tops.types.constants import (
    topsStreamCallbackBlocking,
    topsStreamNonBlocking,
    topsStreamNonMerging,
    topsStreamPerThread,
    topsStreamWaitValueNor,
)
from atops.tops.types.error_codes import topsError_t

__all__ = (
    "topsStreamAddCallback", "topsStreamCreate", "topsStreamCreateWithFlags", "topsStreamDestroy", "topsStreamQuery",
    "topsStreamSynchronize", "topsStreamWaitEvent", "topsStreamWaitValue32", "topsStreamWaitValue32Async",
    "topsStreamWriteValue32", "topsStreamWriteValue32Async",
)  # fmt: skip

CREATION: Final = topsStreamNonBlocking | topsStreamCallbackBlocking | topsStreamNonMerging
WORD: Final = 4  # bytes


@call
def topsStreamCreate() -> int:
    """Return a new stream of the current device, which takes part in null-stream order."""
    return _create(0)


@call
def topsStreamCreateWithFlags(flags: int) -> int:
    """Return a new stream of the current device.

    `flags`: topsStreamNonBlocking takes no part in null-stream order; topsStreamCallbackBlocking lets each of its
    callbacks hold the stream; topsStreamNonMerging is true of every stream here: each command stays one of its own.
    InvalidValue: other bits.
    """
    return _create(flags_in(flags, CREATION))


@call
def topsStreamDestroy(stream: int) -> None:
    """End a stream: its handle is dead at once, what is enqueued still runs. Never waits; a failed stream ends too.

    InvalidHandle: a dead handle, the null stream, the per-thread stream.
    """
    if is_null(stream) or (isinstance(stream, int) and stream == topsStreamPerThread):
        which = "the null stream" if is_null(stream) else "the thread's own stream"
        raise InvalidHandle(f"cannot destroy {which}, {stream!r}; pass a stream that was created")
    take(stream, Stream).close()


@call
def topsStreamQuery(stream: int | None) -> topsError_t | None:
    """Answer topsSuccess if nothing is left to do, NotReady if there is; the null stream stands for the blocking ones.

    InvalidHandle; the fault of a stream that failed.
    """
    return None if usable_stream_of(stream).is_done else topsError_t.topsErrorNotReady


@call
def topsStreamSynchronize(stream: int | None) -> Wait:
    """Wait until the stream is empty, callbacks included; the null stream waits for all blocking streams of its device.

    InvalidHandle; the fault of a stream that failed; IllegalState: in a callback that the stream waits for.
    """
    return until(stream_of(stream))


@call
def topsStreamWaitEvent(stream: int | None, event: int, flags: int) -> None:
    """Make later work of the stream wait for the event's present record; without one there is nothing to wait for.

    The event may be of another device. The wait does not wait for the null stream, but later commands of the null
    stream wait for it; in the null stream it is a command as others. InvalidHandle: dead stream or event.
    InvalidValue: flags other than 0.
    """
    target, awaited = stream_of(stream), event_of(event)
    flags_in(flags, 0)
    target.raise_error()
    target.wait(awaited)


@call
def topsStreamAddCallback(
    stream: int | None, callback: Callable[[Any, topsError_t, Any], object], userData: object, flags: int
) -> None:
    """Call `callback(stream, status, userData)` exactly once, when everything enqueued so far is over, well or not.

    `stream` and `userData` are those given here; `status` is topsSuccess, or the stream's first failure, abort or reset
    included. With flags 0 later work does not wait for it; with topsStreamCallbackBlocking, or in a stream created so,
    it does. Callbacks of one stream run in order, and synchronising waits for them. A callback may enqueue; a call that
    would wait for its own stream or device answers IllegalState. What it raises fails the stream with LaunchFailure.

    InvalidHandle. InvalidValue: not a callable, other flags. NotSupported: a coroutine function, which C does not have;
    the object API's `Stream.call` takes it.
    """
    target = stream_of(stream)
    word = flags_in(flags, topsStreamCallbackBlocking)
    if not callable(callback):
        raise InvalidType(f"callback must be a function of stream, status and userData, got {callback!r}")
    if is_async(callback):
        raise NotSupported(f"callback must be a plain function, got {callback!r}; Stream.call takes coroutines")

    @functools.wraps(callback)  # for messages
    def deliver(error: AtopsError | None) -> object:
        look_at(error)
        return callback(stream, _status(error), userData)

    target.raise_error()
    target.add_callback(deliver, holds=bool((word | target.flags) & topsStreamCallbackBlocking))


@call
def topsStreamWriteValue32(dst: int, value: int, flags: int) -> None:
    """Write a word of the current device's memory, or of mapped host memory, at once, in no stream's order.

    `dst` is a device pointer, a host pointer that the runtime knows, or a registered array, whose first word it is.
    Waits for the word see it. InvalidDevicePointer: no live memory of this device, or not aligned to 4 bytes.
    InvalidValue: flags other than 0, a value of more than 32 bits.
    """
    word = _word(dst, current_device().ordinal)
    number = _value(value)
    flags_in(flags, 0)
    fill(word.allocation, word.offset, (number % (1 << 32)).to_bytes(WORD, "little"), 1, "topsStreamWriteValue32")


@call
def topsStreamWriteValue32Async(dst: int, value: int, flags: int, stream: int | None = 0) -> None:
    """Write a word of the stream's device, or of mapped host memory, in stream order.

    InvalidHandle; the rest as for topsStreamWriteValue32.
    """
    target = stream_of(stream)
    word = _word(dst, target.device)
    number = _value(value)
    flags_in(flags, 0)
    target.raise_error()
    target.write_value(word, number)


@call
async def topsStreamWaitValue32(dst: int, value: int, flags: int) -> None:
    """Wait, in no stream's order, until a word of the current device's memory, or of mapped host memory, satisfies it.

    `flags` says how: topsStreamWaitValueGte (cyclic: the 32-bit difference is not negative), Eq, And (a common bit),
    Nor (a bit that neither has). Every way of writing is noticed. Cancelling the awaitable form ends the wait.
    InvalidDevicePointer: no live memory of this device, or not aligned to 4 bytes. InvalidValue: other flags, a value
    of more than 32 bits. IllegalAddress: freed meanwhile. ContextIsDestroyed: reset meanwhile.
    """
    context = current_device().context
    await WordWait(context, _word(dst, context.ordinal), _value(value), _condition(flags))


@call
def topsStreamWaitValue32Async(dst: int, value: int, flags: int, stream: int | None = 0) -> None:
    """Make later work of the stream wait until a word satisfies a condition, as topsStreamWaitValue32 has them.

    InvalidHandle; the rest as for topsStreamWaitValue32, IllegalAddress as a failure of the stream.
    """
    target = stream_of(stream)
    word = _word(dst, target.device)
    number, condition = _value(value), _condition(flags)
    target.raise_error()
    target.wait_value(word, number, condition)


def _create(flags: int) -> int:
    context = current_device().context
    stream = Stream(context, nonblocking=bool(flags & topsStreamNonBlocking), flags=flags)
    handle = stream._handle = register(stream, context)
    return handle


def _status(error: AtopsError | None) -> topsError_t:
    """Return what a callback is told: the code that a call on the stream would answer."""
    if error is None:
        return topsError_t.topsSuccess
    return code_of(error, FUNCTIONS["topsStreamAddCallback"], {})


def _word(dst: object, device: int) -> Buffer:
    """Return the word at a pointer. Raises CodeError InvalidDevicePointer."""
    address = known_address(dst, "dst")
    try:
        word = reached_memory(address, WORD, "dst", device=device)
        if isinstance(word.allocation, Scattered):
            word = _plain(word.allocation, word.offset)
    except InvalidValue as error:  # the entries have one code for all
        raise bad_pointer(str(error)) from None
    if address % WORD:
        raise bad_pointer(f"dst must be aligned to {WORD} bytes, got {address:#x}")
    return word


def _plain(parent: Scattered, offset: int) -> Buffer:
    """Return the word in the part that holds it. Raises InvalidValue where it is in several parts, or not aligned."""
    word = parent.plain(offset, WORD)
    if word is None or word.address % WORD:
        raise InvalidValue(f"the word at offset {offset} of {parent!r} must be aligned within one part")
    word.driver = current_driver()
    return word


def _value(value: object) -> int:
    """Return a 32-bit value, with or without sign. Raises InvalidType, InvalidValue."""
    number = whole(value, "value")
    if not -(1 << 31) <= number < 1 << 32:
        raise InvalidValue(f"value must be in 32 bits, got {number}")
    return number


def _condition(flags: object) -> Condition:
    """Return how a word is compared. Raises CodeError InvalidValue for other flags than the four."""
    condition = member(Condition, flags, "flags")
    if condition > topsStreamWaitValueNor:
        raise InvalidValue(f"flags must be topsStreamWaitValueGte, Eq, And or Nor (0 to 3), got {flags}")
    return condition
