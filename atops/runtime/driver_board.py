"""A board: its devices, every stream on it, the lock that orders their submissions, and the end of it all.

It talks to the world through one seam, the executor, and makes progress without anybody's event loop.
"""

from __future__ import annotations

import atexit
import itertools
import math
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from atops.base.clock import Clock, WallClock
from atops.base.errors import (
    AtopsError,
    IllegalState,
    InvalidDevice,
    InvalidHandle,
    NotInitialized,
    StreamAborted,
)
from atops.base.locks import fork_safe, make_lock
from atops.base.log_fields import get_logger
from atops.base.options import EmulatorOptions
from atops.base.trace.tracer import Tracer
from atops.base.waiting.parking_lot import Ending, seconds
from atops.device.arch import architecture
from atops.device.memory.host_memory import AddressSpace, HostMemory
from atops.device.memory.value_wait import Watch
from atops.device.topology import Topology
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.current_device import DEFAULT
from atops.runtime.board.deferred_free import BoardWork, Lost, newest
from atops.runtime.board.handles import bury
from atops.runtime.commands.call import CALLBACKS, OBSERVERS, HostCoroutine
from atops.runtime.commands.copy import COPIES, HALVES, Copy
from atops.runtime.commands.events import Cancelled
from atops.runtime.core.capacity import Room
from atops.runtime.core.command_trace import in_context, teller, trace_tuple
from atops.runtime.core.commands import Run, how_to_run
from atops.runtime.core.completion import Completion, as_failure, driver_fields
from atops.runtime.core.future import InProcess
from atops.runtime.core.host_waits import standing
from atops.runtime.core.poller import Poller
from atops.runtime.executors.executor import HERE, Executor, Step
from atops.runtime.executors.inline import InlineExecutor
from atops.runtime.executors.threaded import ThreadedExecutor
from atops.runtime.pools.pool import MemoryPool
from atops.runtime.queues.deadlock import StallWatch, check_awaiting, check_blocking
from atops.runtime.queues.host_functions import WAITS, warn_in_host_function
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.races.report import CLOSED

if TYPE_CHECKING:
    from atops.runtime.device import Device
    from atops.runtime.driver import Driver
    from atops.runtime.races.command_detector import CommandDetector

__all__ = ("BOARDS", "DEFAULT_LOCK", "STARTS", "STARTS_LOCK", "Board", "Closing")

LOG = get_logger("atops.driver")
BOARDS: weakref.WeakSet[Board] = weakref.WeakSet()
STARTS: list[Callable[[Board], object]] = []  # told of each new driver
STARTS_LOCK = fork_safe(threading.RLock())  # guards both
SERIALS = itertools.count(1)  # of drivers
COPY_THREADS = 2  # more do not copy faster: two saturate the memory of a small machine
STORES_NS = 500_000  # between two looks for stores that nothing reports: they are found a millisecond late at most
LOOPS_NS = 20_000_000  # between two looks whether an event loop has closed
LOOK_NS = 2_000_000  # between two looks at what a close waits for
MARGIN = 1.0  # seconds beyond the abort grace before what is left is given up
DEFAULT_LOCK = fork_safe(threading.Lock())


def _detecting(board: Board, runs: Mapping[type, Run]) -> tuple[CommandDetector | None, Mapping[type, Run]]:
    """Return the detector of a board, loaded only if its options ask for one, and how its commands run."""
    if not (board.options.detect or board.options.strict):
        return None, runs
    detector = import_module("atops.runtime.races.command_detector").CommandDetector(board)
    return detector, detector.watching(runs)


def _threads(options: EmulatorOptions) -> ThreadedExecutor:
    """Return the host that a driver has by default. Raises IllegalState for options that need an inline run."""
    if options.clock == "virtual":
        raise IllegalState("a virtual clock needs an inline run: use atops.run(main, options)")
    if options.schedule is not None:
        raise IllegalState(
            "a schedule needs an inline run: use atops.run(main, options); the system schedules its threads"
        )
    return ThreadedExecutor()


class Board(InProcess):
    """All that a driver is behind its public methods: one board of 0 to 8 devices, and everything that runs on it."""

    # Of which command number, and the commands while a stream has lost them.
    _newest_work: tuple[int, Callable[[], BoardWork | None]] = -1, lambda: None
    device_type: ClassVar[type[Device]]  # set by runtime/device.py, which stands above
    _flush_posted = False  # whether the tracer is about to tell its subscribers
    frees = False  # whether a stream has freed memory: from then on pools need to know what comes before what
    unseen: AtopsError | None = None  # the first failure of a stream that the program never looked at

    def __init__(self, driver: Driver, options: EmulatorOptions, name: str, executor: Executor | None):
        self.driver = driver  # what programs hold
        self.options, self.name, self.devices = options, name, options.devices  # how many devices the board has
        self.clock: Clock = WallClock()
        if executor is None:
            executor = _threads(options)
        elif isinstance(executor, InlineExecutor) and executor.clock is not None:
            self.clock = executor.clock
        self.executor = executor
        self.inline, self.checked = executor.inline, executor.inline or self.options.strict  # when enqueueing
        self.chooses = executor.agenda is not None  # a schedule, what comes next
        self.post: Callable[[Step], None] = executor.post
        self.now, self.offer = self.clock.now, executor.offer
        self.detector, self.execute = _detecting(self, how_to_run(self.options.clock == "virtual", self.options.strict))
        self.lock = make_lock()  # it orders every submission, and guards every queue
        self.serial, self.seq = next(SERIALS), 0  # seq: the number of the newest command
        self.closed: AtopsError | None = None  # what to raise once it is closed
        self.forked = False
        self.closing: Closing | None = None
        self.tracer = Tracer(self.clock, self.options.trace)
        self.tracer.on_detailed = teller(self)
        self.arch = architecture(self.options.arch)
        self.topology = Topology.of(self.arch, self.options.devices, self.options.esl)
        self.host = HostMemory(options.native_process)
        self.poller = Poller(self.lock, executor, STORES_NS, Watch.test)
        self.stall = StallWatch(self)
        # Under a schedule there is one loop, that of the run, which closes behind the driver.
        self.host_tasks = Poller(self.lock, executor, LOOPS_NS, HostCoroutine.look, never=self.chooses)
        self._contexts: dict[int, DeviceContext] = {}
        self._devices: dict[int, Device] = {}  # the Device objects that its parts answer with
        self.retired: dict[DeviceContext, None] = {}  # replaced by a reset, until what ran there is over
        self._stream_numbers, self.event_numbers = itertools.count(1), itertools.count(1)
        executor.grow(CALLBACKS, self.options.callback_threads)
        executor.grow(OBSERVERS, self.options.callback_threads)
        executor.widen(COPIES, COPY_THREADS)
        executor.widen(HALVES, COPY_THREADS)
        self._letting_go: weakref.finalize[..., Board] | None = None
        if isinstance(executor, ThreadedExecutor):
            self._letting_go = weakref.finalize(self, executor.let_go)  # for a driver that is never closed
            self._letting_go.atexit = False

    def announce(self) -> None:
        """Call what `STARTS` has with this new board."""
        if self.executor.touches is not None:
            self.executor.touches.begin_board(self)
        with STARTS_LOCK:
            for tell in tuple(STARTS):
                tell(self)
            BOARDS.add(self)

    # ---- lifecycle

    def close(self) -> Closing | None:
        """Carry out `Driver.close`."""
        fresh, refusal = Closing(self), NotInitialized(f"{self!r} is closed")
        with self.lock:
            if self.closed is None:
                self.closing, self.closed = fresh, refusal
            closing, contexts = self.closing, list(self._contexts.values())
        if closing is None or closing.begun:
            return closing
        if self._letting_go is not None:
            self._letting_go.detach()  # it holds the executor, whose timers may hold this driver: for ever
        for context in contexts:
            context.shut_down(refusal)
        if contexts or self.inline:
            self.executor.post(closing.look)
        else:
            closing.look()  # nothing was ever started: start nothing to end it
        closing.begun = True  # when Ctrl-C came before, the next call does it all again
        return closing

    def disown(self, error: NotInitialized) -> None:
        """In a forked child: be closed, for the threads, and the holders of the locks, stayed with the parent."""
        self.lock = make_lock()
        self.closed = error
        self.forked = True
        self.host.disown()
        for context in (*self._contexts.values(), *self.retired):
            context.dead = error
            context.memory.disown()
            context.signals.disown(error)
            for item in [item for stream in context.active for item in stream.pending()]:
                item.settle(error)  # nothing here will run it, so nothing may wait for it
            context.active.clear()

    # ---- parts

    def context(self, ordinal: int) -> DeviceContext:
        """Return device `ordinal` of this driver. Raises InvalidDevice, or NotInitialized when closed."""
        context = self._contexts.get(ordinal)
        if context is not None and self.closed is None:
            return context
        if self.closed is not None:
            raise self.closed.fresh()
        self._check_ordinal(ordinal)
        with self.lock:
            if ordinal not in self._contexts:
                self._contexts[ordinal] = self._make_context(ordinal)
            return self._contexts[ordinal]

    def _check_ordinal(self, ordinal: int) -> None:
        if not isinstance(ordinal, int) or not 0 <= ordinal < self.options.devices:
            count = self.options.devices
            has = "none" if count == 0 else "only device 0" if count == 1 else f"devices 0 to {count - 1}"
            raise InvalidDevice(
                f"there is no device {ordinal!r}: the board has {has} (EmulatorOptions.devices or ATOPS_DEVICES)"
            )

    def device(self, ordinal: int) -> Device:
        """Return device `ordinal`, the same object each time; of a closed driver, too. Raises InvalidDevice."""
        found = self._devices.get(ordinal)
        if found is None:
            self._check_ordinal(ordinal)
            found = self._devices.setdefault(ordinal, self.device_type._of(self, ordinal))
        return found

    def _make_context(self, ordinal: int) -> DeviceContext:
        context = DeviceContext(self, ordinal)
        context.default_pool = MemoryPool(context, name=f"default pool of device {ordinal}", default=True)
        return context

    def replace_context(self, ordinal: int) -> DeviceContext:
        """Put a fresh device in the place of `ordinal`, and return the old one. Streams of the old one are dead."""
        old = self.context(ordinal)
        fresh = self._make_context(ordinal)
        fresh.replaced = weakref.ref(old)
        with self.lock:
            self._contexts[ordinal] = fresh
            self.retired[old] = None
            old.dead = InvalidHandle(f"device {ordinal} was reset; what was made on it before is dead")
        return old

    @property
    def contexts(self) -> tuple[DeviceContext, ...]:
        """The devices that have been used, by ordinal."""
        with self.lock:
            return tuple(self._contexts[ordinal] for ordinal in sorted(self._contexts))

    @property
    def space(self) -> AddressSpace:
        """Every address of the board: each device's memory, and the host memory that is mapped."""
        return AddressSpace([self.context(ordinal).memory for ordinal in range(self.devices)], self.host)

    def active_streams(self) -> list[StreamQueue]:
        """Return every stream that has work, those of devices in reset too. With the lock held."""
        streams: list[StreamQueue] = []
        for context in (*self._contexts.values(), *self.retired):
            streams += context.active
        return streams

    def newest_work(self) -> Lost | None:
        """Return the newest command of every stream that has work; None if none has any. With the lock held."""
        seq, known = self._newest_work
        found = known()
        if found is None or seq != self.seq:  # else it was made for another stream that is aborted, too
            work = newest(item for stream in self.active_streams() for item in stream.ends())
            if not work:
                return None
            found = BoardWork(list(work.values()))
            self._newest_work = self.seq, weakref.ref(found)
        return Lost(board=found)

    def next_stream_number(self) -> int:
        """Return a number that no stream of this driver has had."""
        return next(self._stream_numbers)

    # ---- for streams

    def called_amid(self) -> bool:
        """Tell whether this is a finalizer or a signal handler, in the middle of a call that holds the lock.

        Raises IllegalState in a thread that may not use an inline driver.
        """
        if self.inline:
            self.executor.check_caller()
        return self.lock.is_owned()

    def holds_a_lock(self) -> bool:
        """Tell whether this thread holds any lock of the board: it is in a finalizer or a signal handler then."""
        if self.lock.is_owned():
            return True
        for context in list(self._contexts.values()):
            for lock in context.locks:
                if lock.is_owned():
                    return True
        return False

    def asked_in_vain(self, thing: object) -> None:
        """Note that the program asked whether something is over, and it is not."""
        if not self.lock.is_owned():  # else it is a finalizer or a signal handler, which may only look
            self.executor.asked_in_vain(thing)

    def guard_blocking(
        self, items: Sequence[Completion], timeout: float | None = None, room: Room | None = None
    ) -> None:
        """Raise WouldDeadlock if blocking here until all of `items` are over, or there is `room`, could never end.

        `timeout` is that of the wait, in seconds. Raises NotInitialized after a fork, and as `seconds`.
        """
        if self.forked and self.closed is not None:
            raise self.closed.fresh()
        limit = seconds(timeout)
        if limit is None or self.inline:  # inline, what is found must not depend on how fast the machine is
            limit = math.inf
        check_blocking(room or items, self.holds_a_lock(), limit, self.stall.rooms.copy())
        if (room or items) and HERE.callback is not None:
            warn_in_host_function(self, WAITS, repr(room or items[0]))

    def guard_awaiting(self, item: Completion, awaited: Completion | Room) -> None:
        """Name the cycle that a coroutine in a stream closes by awaiting a command, or room, that waits for it.

        Inline raises WouldDeadlock; where threads run it is logged, for one of them may still cancel a part of it.
        """
        check_awaiting(item, awaited, self.inline, self.stall.rooms.copy())

    def wait_all(self, items: list[Completion], timeout: float | None = None) -> None:
        """Block until every one of `items` is over, well or not. Raises TimeoutError, WouldDeadlock, as `seconds`."""
        limit = seconds(timeout)
        deadline = None if limit is None else self.now() + int(limit * 1e9)
        if HERE.callback is not None:
            warn_in_host_function(self, WAITS, repr(items[0]) if items else "a stream")
        given, items = items, [item for each in items if not (item := each.instead or each).over]
        self.guard_blocking(items, limit)  # of all, before the first blocks what the last needs
        for item in items:
            each: Completion | None = item
            while each is not None:
                left = None if deadline is None else max(0, deadline - self.now()) / 1e9
                with standing(self.tracer, each.seq):
                    in_time = self.executor.block(each, left)
                if not in_time:
                    raise TimeoutError(f"{each!r} was not done within {timeout} s")
                each = each.instead  # what has the place of a cancelled command
        if self.detector is not None:
            self.detector.saw_all(given)

    def run_callback(self, function: Callable[..., object], *arguments: object) -> None:
        """Call user code on a thread for done callbacks and observers (a step of its own, inline). Logs what it raises.

        Host calls have other threads: whatever they wait for, this begins.
        """
        self.executor.run(OBSERVERS, lambda: self.call_apart(function, *arguments))

    def call_apart(self, function: Callable[..., object], *arguments: object) -> None:
        """Call user code on a thread of the runtime. Whatever it raises is logged: it must not end the thread."""
        try:
            self.call_here(function, *arguments)
        except BaseException:  # SystemExit, KeyboardInterrupt, CancelledError
            LOG.exception("a callback raised: %r", _named(function, arguments), extra=driver_fields(self))

    def call_here(self, function: Callable[..., object], *arguments: object) -> None:
        """Call user code here and now. What it raises is logged."""
        try:
            function(*arguments)
        except Exception:
            LOG.exception("a callback raised: %r", _named(function, arguments), extra=driver_fields(self))

    def trace(self, item: Completion, error: AtopsError | None) -> AtopsError | None:
        """Emit the record of a command that settles with `error`; post the step that hands it to subscribers.

        Returns what the command fails with: `error`, or else what went wrong while its record was made. Never raises.
        """
        tracer = self.tracer
        if item.command.__class__ is Cancelled:  # its command has a record
            return error
        try:
            if item.untold is not None:
                raise item.untold
            record = trace_tuple(item, error, self.now(), tracer)
            if tracer.contexts and item.context is not None:
                record = in_context(record, item, error)
            tracer.emit(record)
        except Exception as failure:
            return error or as_failure(failure, item, "making a trace record of ")
        if tracer.subscriptions:
            self.tell_subscribers()
        return error

    def tell_subscribers(self) -> None:
        """Post the step that hands new records to subscribers, unless it is posted or there are none."""
        if self.tracer.pending and not self._flush_posted:
            self._flush_posted = True
            self.post(self._flush)

    def trace_part(self, item: Completion, part: Copy) -> AtopsError | None:
        """Emit the record of one step of a command that takes several. Returns as `trace`."""
        if not self.tracer.active:
            return None
        step = Completion(item.queue, part)
        step.seq, step.submitted_ns, step.started_ns = item.seq, item.submitted_ns, item.started_ns
        step.context = item.context
        error = self.trace(step, None)
        item.started_ns = self.now()
        return error

    def _flush(self) -> None:
        self._flush_posted = False
        self.run_callback(self.tracer.flush)  # subscribers are user code: never on the driver

    @property
    def title(self) -> str:
        """Its number and name, for messages; empty of the process-wide one."""
        if DEFAULT and DEFAULT[0] is self:
            return ""
        return f"Driver {self.serial}" + (f" {self.name!r}" if self.name else "")

    def __repr__(self) -> str:
        state = "closed" if self.closed is not None else "inline" if self.inline else "threaded"
        name = f" {self.name!r}" if self.name else ""
        return f"<Driver {self.serial}{name}: {self.options.arch} x {self.options.devices}, {state}>"


def _named(function: object, arguments: tuple[object, ...]) -> object:
    """Return the program's function, where what was called is the `run` of a context."""
    return arguments[0] if isinstance(getattr(function, "__self__", None), Context) else function


class Closing(Ending):
    """The end of one driver, as something that can be waited for: work is dropped, what runs has its grace."""

    def __init__(self, board: Board) -> None:
        super().__init__("the end of a driver")
        self.begun = False  # whether its steps are posted
        self._driver = board
        self._until = board.executor.now() + int((board.options.abort_grace + MARGIN) * 1e9)

    def look(self) -> None:
        """Stop the driver if nothing is left to end; else look again soon. A driver step."""
        board = self._driver
        if self.is_done:
            return
        with board.lock:
            left = board.active_streams()
        shown = all([context.printing.idle() for context in board.contexts])  # each has what is left shown
        if (left or not shown) and board.executor.now() < self._until:
            board.executor.later(LOOK_NS, self.look)
            return
        for stream in left:
            for item in stream.pending():
                stream.finish(item, StreamAborted(f"{board!r} was closed while {item!r} did not end"))
        for context in (*board.contexts, *board.retired):
            context.close_memory("the driver's close")
        board.retired.clear()
        board.host.close("the driver's close")
        bury(board.contexts)
        if board.detector is not None:
            board.detector.close()
            CLOSED.append(board.detector.findings.report())
        board.call_apart(board.tracer.flush)
        self.end()
        board.executor.close()

    def __repr__(self) -> str:
        state = "all has ended" if self.is_done else "ending what runs; `await driver.aclose()` waits for it"
        return f"<Closing of {self._driver!r}: {state}>"


def _forked() -> None:
    """In a forked child: no driver thread came along, so every driver of the parent is dead here.

    The other hooks of a fork are listed in `base/locks.py`.
    """
    DEFAULT.clear()
    for board in list(BOARDS):
        board.disown(NotInitialized("this driver belongs to the parent of this forked process; make a new one"))


def _exit() -> None:
    """At interpreter exit: ask every driver to stop, wait for none."""
    for board in list(BOARDS):
        if board.detector is not None and board.closed is None:
            board.detector.findings.tell_at_exit()
        if not board.executor.foreign:  # an inline run of another thread, which goes on until the process is gone
            board.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
