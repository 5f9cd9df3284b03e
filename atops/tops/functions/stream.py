"""Streams, their callbacks, and words of memory that streams and hosts hand each other (2.4); events (2.5)."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Final

from atops.base.errors import AtopsError, InvalidHandle, InvalidType, InvalidValue, NotSupported
from atops.base.result_codes import Result
from atops.base.waiting.current_loop import current_loop_adapter
from atops.base.waiting.parking_lot import Ending
from atops.bridge.arguments import flags_in, member, whole
from atops.bridge.call import Wait, spins, until
from atops.bridge.handles import current_board, current_device, event_of, register, stream_of, take, usable_stream_of
from atops.bridge.pointers import bad_pointer, is_null, known_address, reached_memory
from atops.device.memory.allocation import fill
from atops.device.memory.value_wait import Condition, Watch
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.call import is_async
from atops.runtime.core.completion import look_at
from atops.runtime.core.event import Event
from atops.runtime.executors.executor import HERE
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.scatter import Scattered
from atops.runtime.owning_queue import OwningQueue
from atops.runtime.stream import Stream
from atops.tops.functions.api import CODES, call
from atops.tops.header.constants import (
    topsEventBlockingSync,
    topsEventDisableQueryAndSync,
    topsEventDisableTiming,
    topsEventInterprocess,
    topsEventRecordOnce,
    topsEventReleaseToDevice,
    topsEventReleaseToSystem,
    topsEventStrongOrder,
    topsStreamCallbackBlocking,
    topsStreamNonBlocking,
    topsStreamNonMerging,
    topsStreamPerThread,
    topsStreamWaitValueNor,
)
from atops.tops.header.error_codes import topsError_t
from atops.tops.header.functions import FUNCTIONS

__all__ = (
    "new_event", "new_stream", "raise_failure", "topsEventCreate", "topsEventCreateWithFlags", "topsEventDestroy",
    "topsEventElapsedTime", "topsEventQuery", "topsEventRecord", "topsEventSynchronize", "topsStreamAddCallback",
    "topsStreamCreate", "topsStreamCreateWithFlags", "topsStreamDestroy", "topsStreamQuery", "topsStreamSynchronize",
    "topsStreamWaitEvent", "topsStreamWaitValue32", "topsStreamWaitValue32Async", "topsStreamWriteValue32",
    "topsStreamWriteValue32Async",
)  # fmt: skip

# ---- streams (2.4)

STREAM_FLAGS: Final = topsStreamNonBlocking | topsStreamCallbackBlocking | topsStreamNonMerging
WORD: Final = 4  # bytes


@call
def topsStreamCreate() -> int:
    """Return a new stream of the current device, which takes part in null-stream order."""
    return new_stream(0)


@call
def topsStreamCreateWithFlags(flags: int) -> int:
    """Return a new stream of the current device.

    `flags`: topsStreamNonBlocking takes no part in null-stream order; topsStreamCallbackBlocking lets each of its
    callbacks hold the stream; topsStreamNonMerging is true of every stream here: each command stays one of its own.
    InvalidValue: other bits.
    """
    return new_stream(flags_in(flags, STREAM_FLAGS))


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
        function = FUNCTIONS["topsStreamAddCallback"]
        status = topsError_t.topsSuccess if error is None else CODES.code_of(error, function, {})
        return callback(stream, status, userData)

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
    if (detector := current_board().detector) is not None:
        detector.host_wrote(word.allocation, word.offset, WORD)
    fill(word.allocation, word.offset, (number % (1 << 32)).to_bytes(WORD, "little"), 1, "topsStreamWriteValue32")


@call
def topsStreamWriteValue32Async(dst: int, value: int, flags: int, stream: int | None = 0) -> None:
    """Write a word of the stream's device, or of mapped host memory, in stream order.

    InvalidHandle; the rest as for topsStreamWriteValue32.
    """
    target = stream_of(stream)
    word = _word(dst, target.device_id)
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
    await _WordWait(context, _word(dst, context.ordinal), _value(value), _condition(flags))


@call
def topsStreamWaitValue32Async(dst: int, value: int, flags: int, stream: int | None = 0) -> None:
    """Make later work of the stream wait until a word satisfies a condition, as topsStreamWaitValue32 has them.

    InvalidHandle; the rest as for topsStreamWaitValue32, IllegalAddress as a failure of the stream.
    """
    target = stream_of(stream)
    word = _word(dst, target.device_id)
    number, condition = _value(value), _condition(flags)
    target.raise_error()
    target.wait_value(word, number, condition)


def new_stream(flags: int, priority: int = 0, cluster_mask: int | None = None, sip_mask: int | None = None) -> int:
    """Return the handle of a new stream of the current device."""
    context = current_device().context
    nonblocking = bool(flags & topsStreamNonBlocking)
    queue = OwningQueue(
        context, nonblocking=nonblocking, flags=flags, priority=priority, cluster_mask=cluster_mask, sip_mask=sip_mask
    )
    queue.handle = register(queue.stream, context)
    return queue.handle


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
    word.driver = current_board().driver
    return word


def _value(value: object) -> int:
    """Return a 32-bit value, with or without sign."""
    number = whole(value, "value")
    if not -(1 << 31) <= number < 1 << 32:
        raise InvalidValue(f"value must be in 32 bits, got {number}")
    return number


def _condition(flags: object) -> Condition:
    condition = member(Condition, flags, "flags")
    if condition > topsStreamWaitValueNor:
        raise InvalidValue(f"flags must be topsStreamWaitValueGte, Eq, And or Nor (0 to 3), got {flags}")
    return condition


# ---- the host's wait for a word


class _WordWait(Ending, Wait):
    """A wait until the 32-bit word at the start of a buffer satisfies a condition against `value`.

    It ends when such a value is stored, when the memory is freed (IllegalAddress), when the device is reset, wherever
    the memory is (StreamAborted), or when its waiter gives up. No stream and no device waits for it.
    """

    def __init__(self, context: DeviceContext, word: Buffer, value: int, condition: Condition) -> None:
        super().__init__("a word in memory")
        self._context = context
        self._error: AtopsError | None = None
        poll = context.board.poller.add
        self._watch = Watch(word.allocation, word.offset, 32, value, condition, None, self._end, self._end, poll)

    def blocking(self) -> None:
        """Block, polling where the device's flags ask for it. Raises WouldDeadlock on the runtime's own threads."""
        board = self._context.board
        self._begin()
        try:
            if spins(self._context) and not board.inline and HERE.role in (None, "callback"):
                self._spin()
            board.executor.block(self, None)
        finally:
            self._give_up()
        self._raise_error()

    def _spin(self) -> None:
        """Poll. In a frame of its own, for a `try` around a loop may miss a Ctrl-C at its end: see `OwnedLock`."""
        while not self.is_done:
            time.sleep(0)  # gives up the interpreter lock, not the processor

    async def awaiting(self) -> None:
        """Wait on the caller's loop."""
        self._begin()
        try:
            await current_loop_adapter().park(self)
        finally:
            self._give_up()
        self._raise_error()

    def fail(self, error: AtopsError) -> None:
        """End with an error, unless it is over."""
        if self._watch.cancel():
            self._end(error)

    def _begin(self) -> None:
        """Arm the watch, which may end the wait here and now."""
        context = self._context
        with context.board.lock:
            context.check_survived()  # a reset that comes later finds the wait
            context.word_waits[self] = None
        self._watch.arm()

    def _give_up(self) -> None:
        self._watch.cancel()
        with self._context.board.lock:
            self._context.word_waits.pop(self, None)

    def _end(self, error: AtopsError | None = None) -> None:
        """Wake the waiter, once, in the thread that stored the word, freed the memory or reset the device."""
        self._error = error
        self.end()

    def _raise_error(self) -> None:
        if self._error is not None:
            self._context.check_survived()
            raise self._error.fresh()
        if (detector := self._context.board.detector) is not None:
            detector.saw_word(self._watch)


# ---- events (2.5)

RELEASES: Final = topsEventReleaseToDevice | topsEventReleaseToSystem
EVENT_FLAGS: Final = (
    topsEventBlockingSync
    | topsEventDisableTiming
    | topsEventInterprocess
    | topsEventRecordOnce
    | topsEventStrongOrder
    | topsEventDisableQueryAndSync
    | RELEASES
)


@call
def topsEventCreateWithFlags(flags: int) -> int:
    """Return a new event of the current device.

    `flags`: topsEventBlockingSync lets topsEventSynchronize sleep where the device's flags say Spin;
    topsEventDisableTiming leaves elapsed time out; topsEventInterprocess, only beside that, lets the event be exported;
    topsEventRecordOnce makes a second record InvalidHandle; topsEventDisableQueryAndSync makes query and synchronise
    NotSupported; topsEventStrongOrder is true of every event; one of the two release flags has no effect.
    InvalidValue: other bits, both release flags, Interprocess without DisableTiming. NotInitialized: a closed board.
    """
    return new_event(flags_in(flags, EVENT_FLAGS))


@call
def topsEventCreate() -> int:
    """Return a new event of the current device that times and can be recorded again. NotInitialized: a closed board."""
    return new_event(0)


@call
def topsEventRecord(event: int, stream: int | None) -> None:
    """Record all work that the stream has now; earlier waits for the event keep the record that they saw.

    InvalidHandle: dead, a stream of another device, a second record of an event with topsEventRecordOnce. The stream's
    failure.
    """
    marked, target = event_of(event), stream_of(stream)
    target.raise_error()
    target.record(marked)


@call
def topsEventDestroy(event: int) -> None:
    """End the handle. Never waits: a record under way completes, and so do the waits for it.

    InvalidHandle; InvalidValue: null.
    """
    take(event, Event).end_sharing()


@call
async def topsEventSynchronize(event: int) -> None:
    """Wait until the event's record of now is complete; without one there is nothing to wait for.

    InvalidHandle; NotSupported: made without query and sync; the first failure of the stream that it was recorded in.
    """
    awaited = event_of(event)
    await until(awaited)
    raise_failure(awaited)


@call.instead({Result.NotSupported: Result.InvalidHandle})
def topsEventElapsedTime(start: int, stop: int) -> float:
    """Return the milliseconds from `start` to `stop`; negative when that is their order.

    InvalidHandle: dead, never recorded, made without timing, recorded on different devices, or bound to other than one
    and the same launch. NotReady: not both are complete. The first failure of the streams that they were recorded in.
    """
    first, last = event_of(start), event_of(stop)
    milliseconds = last - first
    raise_failure(first)
    raise_failure(last)
    return milliseconds


@call
def topsEventQuery(event: int) -> topsError_t | None:
    """Answer topsSuccess if the event's record is complete, or there is none; NotReady if it is not.

    InvalidHandle; NotSupported: made without query and sync; the first failure of the stream that it was recorded in.
    """
    asked = event_of(event)
    done = asked.is_done
    raise_failure(asked)
    return None if done else topsError_t.topsErrorNotReady


def new_event(flags: int) -> int:
    """Return the handle of a new event of the current device. Raises InvalidValue for flags that exclude each other."""
    if flags & RELEASES == RELEASES:
        raise InvalidValue(f"flags must have at most one of ReleaseToDevice and ReleaseToSystem, got {flags:#x}")
    if flags & topsEventInterprocess and not flags & topsEventDisableTiming:
        raise InvalidValue(f"flags must have DisableTiming beside Interprocess, got {flags:#x}")
    context = current_device().context
    event = Event(
        context,
        timing=not flags & topsEventDisableTiming,
        once=bool(flags & topsEventRecordOnce),
        queryable=not flags & topsEventDisableQueryAndSync,
        interprocess=bool(flags & topsEventInterprocess),
        flags=flags,
    )
    return register(event, context)


def raise_failure(event: Event) -> None:
    """Raise the failure of the stream that the event was recorded in, or of the record itself (2.5, failures)."""
    record = event.completion
    if record is None:
        return
    record.queue.raise_error()
    if record.is_done:
        record.result()
