"""Events: those of TOPS and of the object API, under HIP's names."""

from __future__ import annotations

from typing import Final

from atops.base.result_codes import Result
from atops.bridge.arguments import flags_in
from atops.bridge.handles import event_of, usable_stream_of
from atops.hip.functions.api import call, derived
from atops.hip.header.constants import (
    hipEventBlockingSync,
    hipEventDisableSystemFence,
    hipEventDisableTiming,
    hipEventInterprocess,
    hipEventReleaseToDevice,
    hipEventReleaseToSystem,
)
from atops.hip.header.error_codes import hipError_t
from atops.tops.functions import stream as tops

__all__ = (
    "hipEventCreate", "hipEventCreateWithFlags", "hipEventDestroy", "hipEventElapsedTime", "hipEventQuery",
    "hipEventRecord", "hipEventSynchronize",
)  # fmt: skip

FLAGS: Final = (
    hipEventBlockingSync
    | hipEventDisableTiming
    | hipEventInterprocess
    | hipEventDisableSystemFence
    | hipEventReleaseToDevice
    | hipEventReleaseToSystem
)

hipEventCreate = derived(tops.topsEventCreate)
hipEventDestroy = derived(tops.topsEventDestroy)
hipEventSynchronize = derived(tops.topsEventSynchronize)
hipEventElapsedTime = derived(
    tops.topsEventElapsedTime, call.instead({Result.NotSupported: Result.InvalidHandle})
)


@call
def hipEventCreateWithFlags(flags: int) -> int:
    """Return a new event of the current device.

    `flags`: hipEventBlockingSync lets hipEventSynchronize sleep where the device's flags say Spin;
    hipEventDisableTiming leaves elapsed time out; hipEventInterprocess, only beside that, lets the event be exported;
    hipEventDisableSystemFence and one of the two release flags have no effect.
    InvalidValue: other bits, both release flags, Interprocess without DisableTiming.
    """
    return tops.new_event(flags_in(flags, FLAGS) & ~hipEventDisableSystemFence)


@call
def hipEventRecord(event: int, stream: int | None = None) -> None:
    """Record all work that the stream has now; earlier waits for the event keep the record that they saw.

    InvalidHandle: dead, a stream of another device. The stream's failure.
    """
    marked, target = event_of(event), usable_stream_of(stream)
    target.record(marked)


@call
def hipEventQuery(event: int) -> hipError_t | None:
    """Answer hipSuccess if the event's record is complete, or there is none; NotReady if it is not.

    InvalidHandle; the first failure of the stream that it was recorded in.
    """
    asked = event_of(event)
    done = asked.is_done
    tops.raise_failure(asked)
    return None if done else hipError_t.hipErrorNotReady

