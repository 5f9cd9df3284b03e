"""Events: creation, recording, waiting and timing (2.5)."""

from __future__ import annotations

from typing import Final

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.runtime.core.event import Event
from atops.tops.bridge.arguments import flags_in
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.bridge.handles import event_of, register, stream_of, take
from atops.tops.bridge.waiting import until
from atops.tops.types.constants import (
    topsEventBlockingSync,
    topsEventDisableQueryAndSync,
    topsEventDisableTiming,
    topsEventInterprocess,
    topsEventRecordOnce,
    topsEventReleaseToDevice,
    topsEventReleaseToSystem,
    topsEventStrongOrder,
)
from atops.tops.types.error_codes import topsError_t

__all__ = (
    "topsEventCreate", "topsEventCreateWithFlags", "topsEventDestroy", "topsEventElapsedTime", "topsEventQuery",
    "topsEventRecord", "topsEventSynchronize",
)  # fmt: skip

RELEASES: Final = topsEventReleaseToDevice | topsEventReleaseToSystem
CREATION: Final = (
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
    return _create(flags_in(flags, CREATION))


@call
def topsEventCreate() -> int:
    """Return a new event of the current device that times and can be recorded again. NotInitialized: a closed board."""
    return _create(0)


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
    """End the handle. Never waits: a record under way completes, and so do the waits for it. InvalidHandle."""
    take(event, Event)


@call
async def topsEventSynchronize(event: int) -> None:
    """Wait until the event's record of now is complete; without one there is nothing to wait for.

    InvalidHandle; NotSupported: made without query and sync; the first failure of the stream that it was recorded in.
    """
    awaited = event_of(event)
    await until(awaited)
    _raise_failure(awaited)


@call.instead({Result.NotSupported: Result.InvalidHandle})
def topsEventElapsedTime(start: int, stop: int) -> float:
    """Return the milliseconds from `start` to `stop`; negative when that is their order.

    InvalidHandle: dead, never recorded, made without timing, recorded on different devices, or bound to other than one
    and the same launch. NotReady: not both are complete. The first failure of the streams that they were recorded in.
    """
    first, last = event_of(start), event_of(stop)
    milliseconds = last - first
    _raise_failure(first)
    _raise_failure(last)
    return milliseconds


@call
def topsEventQuery(event: int) -> topsError_t | None:
    """Answer topsSuccess if the event's record is complete, or there is none; NotReady if it is not.

    InvalidHandle; NotSupported: made without query and sync; the first failure of the stream that it was recorded in.
    """
    asked = event_of(event)
    done = asked.is_done
    _raise_failure(asked)
    return None if done else topsError_t.topsErrorNotReady


def _create(flags: int) -> int:
    """Return a handle of a new event. Raises InvalidValue for flags that exclude each other."""
    if flags & RELEASES == RELEASES:
        raise InvalidValue(f"flags must have at most one of ReleaseToDevice and ReleaseToSystem, got {flags:#x}")
    if flags & topsEventInterprocess and not flags & topsEventDisableTiming:
        raise InvalidValue(f"flags must have DisableTiming beside Interprocess, got {flags:#x}")
    context = current_device().context
    event = Event(
        context.ordinal,
        timing=not flags & topsEventDisableTiming,
        once=bool(flags & topsEventRecordOnce),
        queryable=not flags & topsEventDisableQueryAndSync,
        interprocess=bool(flags & topsEventInterprocess),
        flags=flags,
    )
    event.belong_to(context.driver)
    return register(event, context)


def _raise_failure(event: Event) -> None:
    """Raise the failure of the stream that the event was recorded in, or of the record itself (2.5, failures)."""
    record = event.record
    if record is None:
        return
    record.stream.raise_error()
    if record.done:
        record.result()
