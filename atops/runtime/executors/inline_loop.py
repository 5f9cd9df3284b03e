"""The asyncio loop of an inline run: its next step is chosen by the executor, and its time may be virtual."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from atops.base.clock import VirtualClock
from atops.base.locks import fork_safe
from atops.base.waiting.asyncio_loop import AsyncioLoop
from atops.base.waiting.current_loop import ADAPTERS
from atops.runtime.executors.cycle_collector import COLLECT

if TYPE_CHECKING:
    from atops.runtime.executors.inline import InlineExecutor

__all__ = ("POLLING", "ChoosingDeque", "InlineLoop", "PatientSelector", "keeping_selectors")

# Turns of the loop with nothing but the program's own steps, and questions in a row whether one thing is over, after
# which that counts as waiting.
POLLING = 1000

# Kept: selectors that have nothing but the pipe by which a loop is woken, which is empty, and both ends of that.
_SELECTORS: list[tuple[PatientSelector, socket.socket, socket.socket]] = []
_KEEPERS = [0]  # blocks of `keeping_selectors` that go on
MOST_KEPT = 4
_SELECTORS_LOCK = fork_safe(threading.Lock())


@contextmanager
def keeping_selectors() -> Iterator[None]:
    """For the block, have loops take the selectors and pipes of closed ones: to make them takes long."""
    with _SELECTORS_LOCK:
        _KEEPERS[0] += 1
    try:
        yield
    finally:
        with _SELECTORS_LOCK:
            _KEEPERS[0] -= 1
            left = [] if _KEEPERS[0] else _SELECTORS[:]
            del _SELECTORS[: len(left)]
        for selector, one, other in left:
            selector.close()
            one.close()
            other.close()


class InlineLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose next step a policy chooses, and whose time may be virtual."""

    if TYPE_CHECKING:  # what asyncio's loops have in every Python from 3.4 on, and typeshed leaves out
        _internal_fds: int
        _scheduled: list[asyncio.TimerHandle]  # a heap
        _selector: PatientSelector
        _signal_handlers: dict[int, object]

        def _add_reader(self, fd: int, callback: Callable[[], object]) -> object: ...
        def _read_from_self(self) -> None: ...

    _ssock: socket.socket | None
    _csock: socket.socket | None

    def __init__(self, executor: InlineExecutor) -> None:
        self._pipe: tuple[socket.socket, socket.socket] | None = None  # one that was kept
        try:
            selector, *ends = _SELECTORS.pop()
        except IndexError:
            selector = PatientSelector(executor)
        else:
            self._pipe = ends[0], ends[1]
            selector.begin(executor)
        super().__init__(selector)
        self._executor = executor
        # BaseEventLoop pops its next handle from this deque; a choosing deque is all that a policy needs.
        self._ready: Any = ChoosingDeque(executor.choose, executor.collect)

    def has_steps(self) -> bool:
        """Say whether a step is ready."""
        return bool(self._ready)

    def may_go_on(self) -> bool:
        """Say whether a step is ready, or a timer or a file may make one so."""
        timers = self._scheduled
        return self.has_steps() or self.watches or any(not timer.cancelled() for timer in timers)

    @property
    def watches(self) -> bool:
        """Whether the program waits for files or signals."""
        adapter = ADAPTERS.get(self)
        own = 1 + (isinstance(adapter, AsyncioLoop) and adapter.has_bell)  # its pipe, and the bell
        return self.hears_signals or len(self._selector.get_map()) > own

    @property
    def hears_signals(self) -> bool:
        """Whether the program has set handlers of signals with `add_signal_handler`."""
        return bool(self._signal_handlers)

    def _make_self_pipe(self) -> None:
        """As asyncio's selector loops, with a pipe that was kept if there is one."""
        if self._pipe is None:
            super()._make_self_pipe()  # type: ignore[misc]  # of BaseSelectorEventLoop
            return
        self._ssock, self._csock = self._pipe
        self._internal_fds += 1
        self._add_reader(self._ssock.fileno(), self._read_from_self)

    def _close_self_pipe(self) -> None:
        """As asyncio's selector loops, but the pipe may be kept, empty, and the selector with it."""
        selector, ours, other = self._selector, self._ssock, self._csock
        keeping = _KEEPERS[0] and len(_SELECTORS) < MOST_KEPT and len(selector.get_map()) == 1
        if ours is None or other is None or not keeping:
            super()._close_self_pipe()  # type: ignore[misc]  # of BaseSelectorEventLoop
            return
        with suppress(BlockingIOError):
            while ours.recv(4096):
                pass
        selector.modify(ours, selectors.EVENT_READ, (None, None))  # what was called is the loop's
        selector.keep = ours, other
        self._ssock = self._csock = None
        self._internal_fds -= 1

    def left_tasks(self) -> set[asyncio.Task[Any]]:
        """Return the tasks that are not over. Python goes through those of all loops, which may be thousands."""
        return asyncio.all_tasks(self)

    def only(self, call: Callable[[], object]) -> bool:
        """Say whether every step that is ready is this one."""
        return all(handle._callback == call for handle in self._ready)

    def next_timer(self) -> int | None:
        """Return the time, later than now, at which asyncio's next timer is due; None without one."""
        timers = self._scheduled
        return max(round(timers[0].when() * 1e9), self._executor.now() + 1) if timers else None

    def time(self) -> float:
        """Return the executor's time in seconds, so that asyncio's timers follow its clock."""
        return self._executor.now() / 1e9


class ChoosingDeque(deque[Any]):
    """A deque whose `popleft` takes the item that a policy chooses."""

    def __init__(self, choose: Callable[[int], int], collect: Callable[[], object]) -> None:
        super().__init__()
        self._choose, self._collect = choose, collect
        self._left = COLLECT

    def popleft(self) -> object:
        """Take the handle that the policy chooses. After so many the collector runs first."""
        self._left -= 1
        if self._left <= 0:
            self._left = COLLECT
            self._collect()
        index = self._choose(len(self)) if len(self) > 1 else 0
        if index == 0:
            return super().popleft()
        self.rotate(-index)
        item = super().popleft()
        self.rotate(index)
        return item


class PatientSelector(selectors.DefaultSelector):
    """A selector that, under a virtual clock, lets time jump to the next timer instead of waiting for it."""

    def __init__(self, executor: InlineExecutor) -> None:
        super().__init__()
        self.begin(executor)

    def begin(self, executor: InlineExecutor) -> None:
        """Be the selector of this executor's loop from now on."""
        self._executor = executor
        self._turns = 0  # of the program alone, one after another, while a command takes time
        self.keep: tuple[socket.socket, socket.socket] | None = None  # the pipe that it is kept with, once closed

    def close(self) -> None:
        """Close it, unless it is kept for another loop."""
        if (pipe := self.keep) is None:
            super().close()
            return
        self.keep = None
        del self._executor
        with _SELECTORS_LOCK:
            if _KEEPERS[0]:
                _SELECTORS.append((self, *pipe))
                return
        super().close()
        for end in pipe:
            end.close()

    def select(self, timeout: float | None = None) -> Any:
        """Run the driver's timers and poll the files; under a virtual clock let time jump instead of waiting.

        The timers run here, between two steps, and not as steps that the policy chooses among: when the wall's time
        comes is chance, and must not change what a seed picks.
        """
        executor, clock = self._executor, self._executor.clock
        executor.questions = {}
        if executor.ending:
            executor.ends()
        executor.in_vain = 0
        due = executor.run_timers()
        if executor.loop.has_steps():
            timeout = 0  # a timer has just posted them
        if clock is not None and not (timeout is None and due is None):
            if timeout != 0 or self._moves(due):
                return self._jump(clock, due)
        elif due is not None:
            left = max(0, due - executor.now()) / 1e9
            timeout = left if timeout is None else min(timeout, left)
        if timeout is None and not executor.loop.may_go_on():
            timeout = executor.at_rest()
        return self._poll() if timeout == 0 else super().select(timeout)

    def _poll(self) -> object:
        """Return the files that are ready; without a call of the system where there is only the loop's own pipe.

        What comes by that is a step already, but for signals that the program has handlers of.
        """
        return [] if len(self.get_map()) == 1 and not self._executor.loop.hears_signals else super().select(0)

    def _moves(self, due: int | None) -> bool:
        """Whether the clock goes to the next timer although steps are ready.

        So it is where the program polls; where kernels go on for ever; and where the kernels that go on, and nothing
        else does, have come to that time themselves: they are not to hold up what ends before.
        """
        executor, polling = self._executor, self._polling()
        if not (ends := self._ends(due)):
            return False
        if executor.kernels_ahead(min(ends)) and executor.alone:
            return True
        return polling or executor.held_up_for_ever

    def _polling(self) -> bool:
        """Whether the program has had so many turns in which only it did anything that it must be polling.

        For it the clock would stand still: a command that it polls for would never be over.
        """
        self._turns = self._turns + 1 if self._executor.held_up or self._executor.kernels_only else 0
        return self._turns > POLLING

    def _jump(self, clock: VirtualClock, due: int | None) -> object:
        """Go to the next timer, of the driver's or of asyncio's, unless a file is ready.

        The driver's are met to the nanosecond: at them commands end.
        """
        self._turns = 0
        ready = self._poll()
        if not ready:
            clock.advance_to(min(self._ends(due)))
            self._executor.run_timers()
        return ready

    def _ends(self, due: int | None) -> list[int]:
        """Return when the driver's next timer is due and when asyncio's is, as far as there are any."""
        return [time for time in (due, self._executor.loop.next_timer()) if time is not None]
