"""The loop on which somebody awaits: how it is woken from another thread, and how a coroutine is run on it.

A Home knows one loop and nothing of streams or devices. Wake-ups are batched: many in a row cost one signal.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol, TypeAlias

__all__ = ("Home", "HostFunction", "HostTask", "LoopWaiter", "Report", "Source")

HostFunction: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
Report: TypeAlias = Callable[[BaseException | None, Any], None]  # takes an error, or None and a value


class Source(Protocol):
    """Something that settles once and that waiters can be added to from any thread."""

    def add_waiter(self, waiter: LoopWaiter) -> bool:
        """Park the waiter; False when there is nothing left to wait for."""

    def discard_waiter(self, waiter: LoopWaiter) -> None:
        """Forget a waiter that was cancelled."""


class LoopWaiter(ABC):
    """One await on one loop. It changes on that loop only, so a wake-up and a cancellation cannot race."""

    __slots__ = ("home", "live")

    def __init__(self, home: Home) -> None:
        self.home = home
        self.live = True

    @abstractmethod
    def resume(self) -> None:
        """Have the awaiting task go on. On the loop only, at most once."""

    def wake(self) -> None:
        """Ask the loop to resume the awaiting task. From any thread."""
        self.home.deliver(self.fire)

    def fire(self) -> None:
        """Resume the awaiting task, unless it was cancelled meanwhile. On the loop only."""
        if self.live:
            self.live = False
            self.resume()


class HostTask(ABC):
    """A coroutine of the host's, run in a task of a home loop. Its outcome is reported exactly once."""

    def __init__(self, home: Home, function: HostFunction, context: Context, done: Report) -> None:
        self._home = home
        self._function = function
        self._context = context
        self._done = done

    @abstractmethod
    def start(self) -> None:
        """Make the task. On the loop."""

    @abstractmethod
    def cancel(self) -> None:
        """Ask the loop to cancel it. From any thread, at most once."""

    @abstractmethod
    def forget(self) -> None:
        """Let a closed loop's coroutine go without a complaint that nobody ended it. From any thread."""


class Home(ABC):
    """One event loop, reached from any thread. A loop that closed meanwhile is dropped quietly."""

    host_task: type[HostTask]  # of this kind of loop

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mail: deque[Callable[[], object]] = deque()
        self._ringing = False

    def deliver(self, call: Callable[[], object]) -> bool:
        """Run `call` on the loop, soon. Returns False when the loop is closed; the call is then dropped."""
        with self._lock:
            self._mail.append(call)
            if self._ringing:
                return True
            self._ringing = True
        if self.ring():
            return True
        with self._lock:  # the loop is closed: nobody will ever read this mail
            self._mail.clear()
            self._ringing = False
        return False

    def _read_mail(self) -> None:
        with self._lock:
            mail, self._mail = self._mail, deque()
            self._ringing = False
        try:
            while mail:
                mail.popleft()()
        finally:
            if mail:  # a task ended with what ends a loop (SystemExit, Ctrl-C): should it run again, none is forgotten
                for call in mail:
                    self.deliver(call)

    @abstractmethod
    def ring(self) -> bool:
        """Have the loop call `_read_mail` soon. Returns False when it is closed."""

    @abstractmethod
    def closed(self) -> bool:
        """Return whether the loop will never run again."""

    @abstractmethod
    async def park(self, source: Source) -> None:
        """Wait until `source` settles. Cancelling this wait changes nothing but the wait."""

    def spawn(self, function: HostFunction, context: Context, done: Report) -> HostTask:
        """Run `function()` as a task of the loop in `context`; call `done(error, value)` once, when it ended.

        From any thread. When the loop is closed already, `done` is called at once with `RuntimeError`.
        """
        task = self.host_task(self, function, context, done)
        if not self.deliver(task.start):
            done(RuntimeError("the event loop is closed"), None)
        return task
