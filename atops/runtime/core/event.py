"""A point in a stream that can be awaited, waited for by other streams, and timed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Final

from atops.base.errors import AtopsError, InvalidHandle, InvalidType, InvalidValue, NotSupported
from atops.base.html_table import html_table
from atops.base.neighbours import answers, refuse_await, refuse_keywords
from atops.base.options import check_flag
from atops.base.waiting.current_loop import checkpoint
from atops.runtime.core.completion import Completion
from atops.runtime.core.future import AT_ONCE, FutureLike, Timeout, call_here, checked_callback, ends_a_wait
from atops.runtime.core.order import synchronised_with
from atops.runtime.core.thread_waits import Watch

if TYPE_CHECKING:
    from atops.runtime.board.context import DeviceContext
    from atops.runtime.device import Device
    from atops.runtime.driver import Driver
    from atops.runtime.ipc.event import SharedRecords

__all__ = ("EVENT_OPTIONS", "Event")

# What other libraries call the options of an event, and what to write.
EVENT_OPTIONS: Final = {
    "enable_timing": "timing, which is True unless told", "disable_timing": "timing=False",
    "timing_enabled": "timing", "blocking": "none: event.sync() blocks, `await event` does not",
    "busy_waited_sync": "none: event.sync() blocks, `await event` does not",
    "is_blocking_sync": "none: event.sync() blocks, `await event` does not",
    "options": "its fields: create_event(timing=False)", "flags": "its fields: create_event(timing=False)",
    "interprocess": "topsEventCreateWithFlags, which makes events for other processes",
    "external": "topsEventCreateWithFlags, which makes events for other processes", "name": "none: it has a number",
    "stream": "stream.record(event)", "device": "the create_event() of that device",
}  # fmt: skip
MADE_BY_DEVICE: Final = {name: f"device.create_event(); there: {instead}" for name, instead in EVENT_OPTIONS.items()}


@answers("Event")
class Event(FutureLike[None]):
    """Marks work: recorded by `Stream.record`, again and again if wanted.

    A wait, an await and a query use the record that is current when they are called; an event that was never recorded
    is complete. `end - start` is the time between two events in milliseconds. One that other processes may open
    (`interprocess`) keeps no time: InvalidValue with `timing`. The methods of a future go to the current record, which
    is `completion`, too.
    """

    __slots__ = (
        "_board", "_device_id", "_once", "_queryable", "_record", "_time", "_timing", "_watch", "driver", "flags",
        "interprocess", "launch", "number", "shared",
    )  # fmt: skip

    def __init__(
        self,
        context: DeviceContext | None = None,
        *,
        timing: bool = True,
        once: bool = False,
        queryable: bool = True,
        interprocess: bool = False,
        flags: int = 0,
        **foreign: object,
    ) -> None:
        if foreign:
            refuse_keywords("Event", foreign, MADE_BY_DEVICE)
            raise TypeError(f"Event() got unexpected keyword arguments: {', '.join(foreign)}")
        if context is None or not hasattr(context, "chip"):  # a call of the program's; the runtime gives a context
            raise InvalidType(f"Event({context!r}) makes no event; use device.create_event()")
        if not (timing is True and queryable is True and once is False):
            for name, value in (("timing", timing), ("once", once), ("queryable", queryable)):
                check_flag(name, value)
        if interprocess and timing:
            raise InvalidValue("an event between processes keeps no time; interprocess=True needs timing=False")
        self._device_id = context.ordinal
        self._board = context.board
        self.driver: Driver = context.board.driver
        self._timing = timing
        self._once = once
        self._queryable = queryable
        self.flags = flags  # as it was created with in C style
        self.interprocess = interprocess  # whether other processes may open it
        self.shared: SharedRecords | None = None  # the records of all processes, once others may know it (`ipc_event`)
        self.number: int = next(context.board.event_numbers)  # the same in each run with the same seed
        self.launch: Completion | None = None  # the launch that it is bound to, if any
        self._record: Completion | None = None
        self._time: int | None = None
        self._watch: Watch | None = None

    # ---- waiting

    def __await__(self) -> Generator[object, object, None]:
        self._check_queryable("awaited")
        record = self.completion
        if record is not None:
            yield from record.__await__()
            synchronised_with(record)
        else:
            yield from checkpoint().__await__()

    def sync(self, timeout: float | None = None) -> None:
        """Block until the current record is complete.

        `timeout` is in seconds. Raises TimeoutError, WouldDeadlock, or what the recorded work failed with.
        """
        refuse_await("`await event`")
        self._check_queryable("waited for")
        if (shared := self.shared) is not None and shared.block(timeout):
            return
        record = self.completion
        if record is not None:
            record.wait_sync(timeout)
            synchronised_with(record)

    # ---- as a future

    def done(self) -> bool:
        """Return whether the current record is complete, or there is none."""
        return self.is_done

    def running(self) -> bool:
        """Return whether the stream is carrying out the current record."""
        return self.completion is not None and self.completion.running()

    def cancelled(self) -> bool:
        """Return whether the current record was cancelled."""
        return self.completion is not None and self.completion.cancelled()

    def result(self, timeout: Timeout = AT_ONCE) -> None:
        """Return None, or raise what the recorded work failed with.

        Raises NotReady when the current record is not complete. With a `timeout` in seconds, or None for no limit, it
        blocks until then: it is `sync(timeout)`, with its errors.
        """
        if timeout is not AT_ONCE and not self.is_done:
            return self.sync(timeout)
        self._check_queryable("queried")
        if (record := self.completion) is not None:
            record.result()
        return None

    def exception(self, timeout: Timeout = AT_ONCE) -> AtopsError | None:
        """Return what the current record failed with, or None.

        Raises NotReady when it is not complete. With a `timeout` in seconds, or None for no limit, it blocks until
        then: TimeoutError, WouldDeadlock, as `sync`.
        """
        self._check_queryable("queried")
        if (record := self.completion) is None:
            return None
        error = record.exception(timeout)
        if timeout is not AT_ONCE:
            synchronised_with(record)
        return error

    def _watched(self) -> tuple[Watch, Completion | None]:
        if (watch := self._watch) is None:
            with self._board.lock:
                watch = self._watch = self._watch or Watch()
        record = self.completion
        return watch.look(record), record

    def add_done_callback(  # type: ignore[override]  # it gives the record, where there is one
        self, function: Callable[[Completion | Event], object], *, context: Context | None = None
    ) -> None:
        """Call `function(record)` once when the current record is over, as `Completion.add_done_callback` does.

        An event that has no record gives itself, soon or at once.
        """
        if (record := self.completion) is not None:
            record.add_done_callback(function, context=context)
        else:
            call_here(function, self, checked_callback(self, function, context))

    def remove_done_callback(  # type: ignore[override]  # as above
        self, function: Callable[[Completion | Event], object]
    ) -> int:
        """Forget a done callback of the current record. Returns how many times it had been added."""
        return 0 if (record := self.completion) is None else record.remove_done_callback(function)

    def cancel(self, msg: object = None) -> bool:
        """Cancel the current record, if it is of this process: the event fails. As `Completion.cancel`."""
        if ends_a_wait() or self._record is None or self.completion is not self._record:
            return False
        return self._record.cancel(msg)

    # ---- queries

    @property
    def device_id(self) -> int:
        """The ordinal of its device."""
        return self._device_id

    @property
    def timing(self) -> bool:
        """Whether it keeps the time of its record. Given when it is made, as the next two."""
        return self._timing

    @property
    def once(self) -> bool:
        """Whether it can be recorded only once."""
        return self._once

    @property
    def queryable(self) -> bool:
        """Whether it can be awaited and queried."""
        return self._queryable

    @property
    def device(self) -> Device:
        """Its device."""
        return self._board.device(self._device_id)

    @property
    def state(self) -> str:
        """One of "idle" (never recorded), "recording", "recorded", "failed"."""
        if (shared := self.shared) is not None:
            return str(shared.state)
        if self._record is None:
            return "idle"
        return {"pending": "recording", "running": "recording", "done": "recorded"}.get(self._record.state, "failed")

    @property
    def is_done(self) -> bool:
        """Whether the current record is complete, or there is none."""
        self._check_queryable("queried")
        if (shared := self.shared) is not None:
            return bool(shared.state != "recording")
        return self._record is None or self._record.is_done

    @property
    def completion(self) -> Completion[None] | None:
        """The current record, whatever becomes current later; None for an event that was never recorded.

        None also for a record of another process that is complete.
        """
        if (shared := self.shared) is not None:
            record: Completion[None] | None = shared.latest()
            return record
        return self._record

    def __sub__(self, start: Event) -> float:
        """Return the milliseconds from `start` to this event.

        Raises NotSupported when timing is off, InvalidHandle when either was not recorded or they belong to different
        devices or launches, NotReady (or the failure) when either is not complete.
        """
        if not isinstance(start, Event):
            return NotImplemented
        for event in (start, self):
            if not event.timing:
                raise NotSupported(f"{event!r} was made without timing; make it with timing=True")
            if event._record is None:
                raise InvalidHandle(f"{event!r} was never recorded; record it in a stream first")
        first, last = start._record, self._record
        assert first is not None and last is not None
        if start.driver is not self.driver or first.queue.context.ordinal != last.queue.context.ordinal:
            raise InvalidHandle(f"{start!r} and {self!r} were recorded on different devices")
        if start.launch is not self.launch:
            raise InvalidHandle(f"{start!r} and {self!r} are not bound to the same launch")
        first.result()
        last.result()
        self._board.executor.sees_order("the time between two events")
        assert self._time is not None and start._time is not None
        return (self._time - start._time) / 1e6

    def _check_queryable(self, verb: str) -> None:
        if not self._queryable:
            raise NotSupported(f"{self!r} was made without query and sync; it cannot be {verb}")

    # ---- for the stream

    def check_recordable(self) -> None:
        """Raise InvalidHandle for a second record of an event that takes only one."""
        if self._once and self._record is not None:
            raise InvalidHandle(f"{self!r} can be recorded only once")

    def recorded_by(self, record: Completion) -> None:
        """Make `record` current. Called in the order of submission."""
        self._record = record
        if (shared := self.shared) is not None:
            shared.recorded(record)

    def end_sharing(self) -> None:
        """Stop sharing records with other processes, and release their page. Waits under way go on."""
        shared, self.shared = self.shared, None
        if shared is not None:
            shared.end()

    def stamp(self, record: Completion, time: int) -> None:
        """Keep the time of a record that completes, if it is still the current one."""
        if record is self._record:
            self._time = time

    @property
    def _name(self) -> str:
        return f"Event {self.number}"

    def __repr__(self) -> str:
        return f"<{self._name}, {self.state}>"

    def _repr_html_(self) -> str:
        record = self._record
        place = None if record is None else f"command {record.seq} of {record.queue.label}, {record.state}"
        return html_table(self._name, (
            ("state", self.state),
            ("device", self._device_id),
            ("record", place),
            ("time", None if self._time is None else f"{self._time} ns of the driver's clock"),
            ("timing", "yes" if self._timing else "no"),
            ("bound to", None if self.launch is None else f"launch, command {self.launch.seq}"),
            ("between processes", "yes" if self.interprocess or self.shared is not None else None),
            ("failure", str(record.failure) if record is not None and record.failure is not None else None),
        ))  # fmt: skip
