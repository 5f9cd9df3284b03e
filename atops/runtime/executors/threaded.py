"""The threaded host: one driver thread that runs steps, and lanes of worker threads beside it. All are daemons.

The driver thread is a queue of steps and a heap of timers, not an event loop of asyncio: it has nothing to select on,
and waking a C queue costs a third of waking a loop through its self-pipe.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from atops.base.errors import WouldDeadlock
from atops.base.log_fields import get_logger
from atops.base.waiting.parking_lot import ThreadWaiter
from atops.runtime.executors.executor import HERE, Executor, Lane, LaterStep, Step
from atops.runtime.executors.ready import Ready

__all__ = ("GrowingLane", "ThreadedExecutor", "WorkerLane")

log = get_logger("atops.driver")
SERIAL = itertools.count()
IDLE = 10.0  # seconds after which a thread ends that came with need


class ThreadedExecutor(Executor):
    """Run steps on a daemon thread. Threads start on first use and end with `close`.

    What needs a thread that the system does not give raises RuntimeError, and is not queued.
    """

    inline = False
    now = staticmethod(time.monotonic_ns)

    def __init__(self, name: str = "") -> None:
        self.name = name or f"atops-{next(SERIAL)}"
        self._steps: SimpleQueue[Step | None] = SimpleQueue()
        self.post_in_finalizer = self._steps.put
        self._ready: Ready[Step] = Ready()  # for each there is a `_run_ready` among the steps
        self._levels = self._ready.levels
        self._timers: list[tuple[int, int, LaterStep]] = []
        self._lock = threading.RLock()
        self._lanes: dict[str, WorkerLane] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether nothing waits for the driver's thread: no step, and no timer."""
        return self._steps.empty() and not any(timer.live for *_, timer in self._timers)

    def post(self, step: Step) -> None:
        """Queue a step for the driver thread, which starts with the first one."""
        if self._thread is None:
            self._start()
        self._steps.put(step)

    def offer(self, step: Step, priority: int) -> None:
        """Queue a step by urgency. Which one runs is known when its turn among all steps has come."""
        if self._thread is None:
            self._start()
        self._levels[priority].append(step)  # as `Ready` does, but without its frames; so is the usual case below
        self._steps.put(self._run_ready)

    def _run_ready(self) -> None:
        last, first, second = self._levels
        step = last.popleft() if last and not first and not second else self._ready.take()
        if step is not None:
            step()
        if (last or first or second) and self._steps.empty():  # Ctrl-C came into `offer`
            self.post(self._run_ready)

    def start(self) -> None:
        """Start the driver thread, unless it is there."""
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        thread = _Server(self._drive, f"{self.name}-driver")
        with self._lock:
            if self._thread is not None or self._closed:
                return
            self._thread = thread  # before it starts: a finalizer that posts in between finds it there
            started = False
            try:
                started = thread.begin()
            finally:
                if not started and not thread.serves():
                    self._thread = None

    def later(self, delay: int, step: Step) -> LaterStep:
        """Queue a step on the driver thread's timers."""
        timer = LaterStep(step)
        due = time.monotonic_ns() + delay
        self.post(lambda: heapq.heappush(self._timers, (due, next(SERIAL), timer)))
        return timer

    def run(self, lane: Lane, work: Step, priority: int = 0) -> None:
        """Queue work on a lane, whose thread starts when work finds none idle."""
        if self._thread is None:  # while it can: Python 3.12 starts no thread any more for what its end aborts
            self._start()
        (self._lanes.get(lane) or self._lane(lane)).put(work, priority)

    def go_on(self, lane: Lane, work: Step, priority: int = 0, ahead: int = 0) -> None:
        """Queue the kernel's next turn."""
        self._lane(lane).put_back(work, priority)

    def backlog(self, lane: Lane) -> Callable[[], bool]:
        """Return what tells whether no work waits for a thread of the lane: the queue's own, which takes no frame."""
        return self._lane(lane).empty

    def widen(self, lane: Lane, threads: int) -> None:
        """Set how many threads a lane may have."""
        self._lane(lane).width = threads

    def grow(self, lane: Lane, threads: int) -> None:
        """Have a lane of at most so many threads, which come with need and go when they are idle. Before its use."""
        self._lanes[lane] = GrowingLane(self._name_of(lane), threads)

    def crowd(self, lane: Lane) -> tuple[int, int]:
        """Return how much work waits while each thread that a growing lane may have is busy, and how much has begun."""
        found = self._lane(lane)
        return found.crowd() if isinstance(found, GrowingLane) else (0, 0)

    def abandon(self, lane: Lane) -> None:
        """Let another thread take the place of one that never comes back."""
        self._lane(lane).abandon()

    def _lane(self, name: Lane) -> WorkerLane:
        lane = self._lanes.get(name)
        if lane is None:
            made = WorkerLane(self._name_of(name))  # not with the lock held: what is made may set off a finalizer
            with self._lock:
                lane = self._lanes.setdefault(name, made)
        return lane

    def _name_of(self, lane: Lane) -> str:
        return f"{self.name}-{lane.replace(' ', '-')}"

    def block(self, source: Any, timeout: float | None) -> bool:
        """Block the calling thread. Raises WouldDeadlock on the threads of the runtime itself."""
        if HERE.role is not None and HERE.role != "callback":
            raise WouldDeadlock(f"a blocking wait on the runtime's own {HERE.role} thread would never end")
        waiter = ThreadWaiter()
        if not source.add_waiter(waiter):
            return True
        try:
            if waiter.wait(timeout):
                return True
        except BaseException:  # Ctrl-C ends the wait, never the work
            source.discard_waiter(waiter)
            raise
        source.discard_waiter(waiter)
        return False

    def check_caller(self) -> None:
        """Any thread may use a threaded driver."""

    def close(self) -> None:
        """Have all threads end once they come back. Idempotent, waits for none."""
        with self._lock:
            self._closed = True
            lanes = list(self._lanes.values())
        self._steps.put(None)
        for lane in lanes:
            lane.close()

    def let_go(self) -> None:
        """Close for a driver that was never closed. Called by a finalizer, which must not wait for a lock here."""
        if self._thread is not None:
            self._steps.put(self.close)
        else:
            for lane in self._lanes.values():
                lane.close()

    def _drive(self) -> None:
        HERE.role = "driver"
        get = self._steps.get
        timers = self._timers
        while True:
            try:
                step = get() if not timers else get(timeout=max(0, timers[0][0] - time.monotonic_ns()) / 1e9)
            except Empty:
                step = self._run_timers
            if step is None:
                return
            try:
                step()
                if timers and timers[0][0] <= time.monotonic_ns():
                    self._run_timers()
            except BaseException:  # SystemExit of a step would end the thread, and with it all progress
                log.exception("a driver step failed; this is a bug in atops")
            step = None  # an idle driver keeps nothing alive

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic_ns():
            heapq.heappop(self._timers)[2].fire()


class WorkerLane:
    """A queue of work with up to `width` daemon threads; each piece of work starts one until there are so many."""

    def __init__(self, name: str, width: int = 1) -> None:
        self.name = name
        self.width = width
        # True for each piece, None for each thread to end, False for an idle one that is to ask whether it may end
        self._work: SimpleQueue[bool | None] = SimpleQueue()
        self._ready: Ready[Step] = Ready()
        self._levels = self._ready.levels
        self.empty = self._work.empty
        self._lock = threading.RLock()  # a signal handler or a finalizer may put work in the middle of a `put`
        self._threads = 0
        self._newest: threading.Thread | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether no work waits for a thread."""
        return self.empty() and not any(self._levels)

    def put(self, work: Step, priority: int = 0) -> None:
        """Queue work. The lock is for starting threads: once they are all there, queueing is the queue's own."""
        if self._threads < self.width:
            self._start()
        self._levels[priority].append(work)
        self._work.put(True)

    def put_back(self, work: Step, priority: int = 0) -> None:
        """Queue more of a kernel that has had a turn here."""
        self._ready.put_back(work, priority)
        self._work.put(True)

    def abandon(self) -> None:
        """Count out a thread that never comes back, and let another take its place."""
        with self._lock:
            self._threads -= 1
        self._start()

    def close(self) -> None:
        """Let idle threads end, and busy ones once they come back."""
        with self._lock:
            self._closed = True
            threads = self._threads
        for _ in range(threads):
            self._work.put(None)

    def _start(self) -> None:
        thread = _Server(self._serve, f"{self.name}-{next(SERIAL)}")
        with self._lock:
            if self._closed or self._threads >= self.width:
                return
            self._threads += 1
            before, self._newest = self._newest, thread
        started = False
        try:
            started = thread.begin()
        except RuntimeError:
            if self._threads == 1:
                raise
            log.warning("the system has no thread for %s; those it has do the work", thread.name)
        finally:
            if not started and not thread.serves():
                with self._lock:
                    self._threads -= 1
                    if self._newest is thread:
                        self._newest = before

    def _serve(self) -> None:
        HERE.role = "executor"
        get, me = self._work.get, threading.current_thread()
        while get() is not None:
            self._run_one()
            if self.width == 1 and me is not self._newest:
                return  # it was abandoned and came back after all: a lane of one has its one already

    def _run_one(self) -> None:
        """Run the work that has the turn, once what stands for a piece of it has been taken."""
        work = self._ready.take()
        try:
            if work is not None:
                work()
        except BaseException:
            log.exception("work on lane %s failed; this is a bug in atops", self.name)
        last, first, second = self._levels
        if (last or first or second) and self.empty():  # Ctrl-C came into `put`
            self._work.put(True)


class GrowingLane(WorkerLane):
    """A queue of work for which there is always a thread, up to `width` of them; idle ones end after `IDLE` seconds.

    For work that may block until other work of the lane has run. A thread that takes a piece of work, and leaves none
    idle, starts another one first: so the callers of `put`, the driver's thread above all, start the first one only.
    """

    def __init__(self, name: str, width: int) -> None:
        super().__init__(name, width)
        self._busy = 0
        self._begun = 0

    def put(self, work: Step, priority: int = 0) -> None:
        """Queue work.

        No thread is started with the lock held: that may set off a finalizer, which may wait for what needs the lock.
        """
        if self._threads == 0:
            self._start()
        with self._lock:
            self._levels[priority].append(work)
            self._work.put(True)
            none = self._threads == 0  # the last one has ended in between, and finds no work; none ends from here on
        if none:
            self._start()

    def crowd(self) -> tuple[int, int]:
        """Return how much work waits for a thread though there are all that may be, and how much has begun."""
        with self._lock:
            waits, begun = self._work.qsize() if self._busy >= self.width else 0, self._begun
        return waits, begun

    def _serve(self) -> None:
        HERE.role = "callback"
        while True:
            try:
                piece = self._work.get(timeout=IDLE)
            except Empty:
                piece = False
            if piece is None:
                return
            if not piece:
                if self._leave():
                    return
                continue
            with self._lock:
                self._busy += 1
                self._begun += 1
                last = self._busy == self._threads
            if last:
                self._start()
            self._run_one()
            with self._lock:
                self._busy -= 1

    def _leave(self) -> bool:
        """Count out an idle thread, unless it is the one that waits for work while others are busy.

        It has the next idle one look, too: CPython's SimpleQueue forgets the timeout of a thread that was woken for
        work which another one took, when the time is up by then.
        """
        with self._lock:
            if not self._work.empty() or (self._busy and self._threads - self._busy == 1):
                return False
            self._threads -= 1
            if self._threads > self._busy:
                self._work.put(False)
            return True


class _Server(threading.Thread):
    """A daemon thread that serves, or was never there: Ctrl-C may come in the middle of its start, too."""

    def __init__(self, serve: Step, name: str) -> None:
        super().__init__(target=serve, name=name, daemon=True)
        self._fate: dict[str, bool] = {}  # set once: by the thread, or by the caller that gives up on it

    def begin(self) -> bool:
        """Start. Returns False at the interpreter's end, which allows none: its work is not needed any more.

        Raises RuntimeError where the system has no more threads to give.
        """
        try:
            self.start()
        except RuntimeError as error:
            if "shutdown" in str(error):
                return False
            raise
        return True

    def serves(self) -> bool:
        """Give up on a thread whose start failed. Returns whether it has begun to serve all the same."""
        return self._fate.setdefault("serves", False)

    def run(self) -> None:
        """Serve, unless given up on."""
        if self._fate.setdefault("serves", True):
            super().run()
