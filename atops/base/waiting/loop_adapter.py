"""An event loop of the program: how it is woken from another thread, and how a coroutine is run on it.

Wake-ups are batched: many in a row cost one signal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any, Protocol, TypeAlias

__all__ = (
    "INSIDE", "CancelledElsewhere", "HostFunction", "HostTask", "LoopAdapter", "LoopWaiter", "Report", "WaitSource",
)  # fmt: skip

HostFunction: TypeAlias = Callable[[], Coroutine[object, None, object]]
# Takes an error, or None and a value. The error of what was cancelled is asyncio's CancelledError, on trio too.
Report: TypeAlias = Callable[[BaseException | None, Any], None]


class CancelledElsewhere(RuntimeError):
    """A coroutine ended by a cancellation that was not its own: of what it awaited, say."""


class WaitSource(Protocol):
    """Something that settles once and that waiters can be added to from any thread."""

    def add_waiter(self, waiter: LoopWaiter) -> bool:
        """Park the waiter; False when there is nothing left to wait for."""

    def discard_waiter(self, waiter: LoopWaiter) -> None:
        """Forget a waiter that was cancelled."""


class LoopWaiter(ABC):
    """One await on one loop. It changes on that loop only, so a wake-up and a cancellation cannot race."""

    __slots__ = ("adapter", "live")

    def __init__(self, adapter: LoopAdapter) -> None:
        self.adapter = adapter
        self.live = True

    @abstractmethod
    def resume(self) -> None:
        """Have the awaiting task go on. On the loop only, at most once."""

    def wake(self) -> None:
        """Ask the loop to resume the awaiting task. From any thread."""
        self.adapter.deliver(self.fire)

    def fire(self) -> None:
        """Resume the awaiting task, unless it was cancelled meanwhile. On the loop only."""
        if self.live:
            self.live = False
            self.resume()


INSIDE: ContextVar[HostTask | None] = ContextVar("atops coroutine in a stream", default=None)


class HostTask(ABC):
    """A coroutine of the host's, run in a task of the adapter's loop. Its outcome is reported exactly once."""

    on_wait: Callable[[WaitSource, bool], None] | None = None  # told what it begins to wait for (True), and the end
    named: Callable[[], str] | None = None  # asked for the name of the loop's task when that is made

    def __init__(self, adapter: LoopAdapter, function: HostFunction, context: Context, done: Report) -> None:
        self._adapter = adapter
        self._function = function
        self._context = context
        self._done = done

    async def _call(self) -> object:
        """Run the coroutine, known to the waits inside it."""
        token = INSIDE.set(self)
        try:
            return await self._function()
        finally:
            with suppress(ValueError):  # closed from another context: a loop that was left
                INSIDE.reset(token)

    def begins_to_wait(self, source: WaitSource) -> None:
        """Report that the running task waits for `source`, if this one cannot go on before that task does."""
        if self.on_wait is not None and self._waits_here():
            self.on_wait(source, True)

    def has_waited(self, source: WaitSource) -> None:
        """Report the end of a wait, which may not have been reported."""
        if self.on_wait is not None:
            self.on_wait(source, False)

    @abstractmethod
    def _waits_here(self) -> bool:
        """Whether it cannot go on before the running task does: it is that task, or waits for it. On the loop."""

    @abstractmethod
    def start(self) -> None:
        """Make the task. On the loop."""

    @abstractmethod
    def cancel(self) -> None:
        """Ask the loop to cancel it. From any thread, at most once."""

    @abstractmethod
    def forget(self) -> None:
        """Let a closed loop's coroutine go without a warning that it never ended. From any thread."""


class LoopAdapter(ABC):
    """One event loop, reached from any thread. A loop that closed meanwhile is dropped quietly."""

    host_task: type[HostTask]  # of this kind of loop

    def __init__(self) -> None:
        # Without a lock, for a finalizer or a signal handler may deliver while its thread does: the single operations
        # of a deque are atomic, with and without the GIL. A reader first says that the bell is silent, then looks.
        self._mail: deque[Callable[[], object]] = deque()
        self._ringing = False
        self.owed: dict[Any, None] = {}  # commands that end only while this loop runs, till they are over or soon after

    def deliver(self, call: Callable[[], object]) -> bool:
        """Run `call` on the loop, soon. Returns False when the loop is closed; the call is then dropped."""
        self._mail.append(call)
        if self._ringing:
            return True
        self._ringing = True  # two threads at once may both ring; one finds the mail, the other nothing
        try:
            rung = self.ring()
        except BaseException:  # Ctrl-C: the next one rings
            self._ringing = False
            raise
        if rung:
            return True
        self._mail.clear()  # the loop is closed: this mail will never be read
        self._ringing = False
        return False

    def _read_mail(self) -> None:
        self._ringing = False
        mail = self._mail
        left = len(mail)  # what comes meanwhile has the loop's next turn
        if left > 1:  # the first may run the loop itself, and wait in there for what the second brings
            self._ringing = self.ring()
        try:
            while left and mail:
                left -= 1
                mail.popleft()()
        finally:
            if left and mail and not self._ringing:
                # A task ended with what ends a loop (SystemExit, Ctrl-C): should it run again, none is forgotten.
                self._ringing = self.ring()

    @abstractmethod
    def ring(self) -> bool:
        """Have the loop call `_read_mail` soon. Returns False when it is closed."""

    @abstractmethod
    def closed(self) -> bool:
        """Return whether the loop will never run again."""

    @abstractmethod
    def park(self, source: WaitSource) -> Awaitable[None]:
        """Wait until `source` settles. Cancelling this wait changes nothing but the wait.

        A generator that can be awaited (`types.coroutine`): in an `__await__`, `yield from` goes through it with no
        coroutine between, which each await of a command would pay for.
        """

    @abstractmethod
    def call(self, function: Callable[[Any], object], argument: object, context: Context) -> None:
        """Call user code in `context`, as the loop calls what `call_soon` was given. On the loop only."""

    def spawn(
        self,
        function: HostFunction,
        context: Context,
        done: Report,
        on_wait: Callable[[WaitSource, bool], None] | None = None,
        named: Callable[[], str] | None = None,
        at_once: bool = False,
    ) -> HostTask:
        """Run `function()` as a task of the loop in `context`; call `done(error, value)` once, when it ended.

        `on_wait` and `named` are as in HostTask. From any thread, but on the loop itself where it is to start
        `at_once`: then the loop's next turn has its first step.
        When the loop is closed already, `done` is called at once with `RuntimeError`.
        """
        task = self.host_task(self, function, context, done)
        task.on_wait, task.named = on_wait, named
        if at_once:
            task.start()
        elif not self.deliver(task.start):
            done(RuntimeError("the event loop is closed"), None)
        return task
