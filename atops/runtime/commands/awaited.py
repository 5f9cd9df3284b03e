"""Waits of streams for awaitables outside of the board: futures of loops and of threads, tasks, coroutines.

A future belongs to its loop, which may run in another thread; one of concurrent.futures belongs to no loop. Anything
else is awaited by a task that the call starts on the caller's loop. If the wait ends early, that task is cancelled; a
future or task of the program is not.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from atops.base.errors import AtopsError, AwaitableCancelled, HostCallFailure, IllegalState, InvalidType, LoopClosed
from atops.base.log_fields import said_of
from atops.base.trace.records import Kind
from atops.base.waiting.asyncio_loop import TaskWaiter
from atops.base.waiting.current_loop import adapter_of, running_loop_adapter
from atops.base.waiting.loop_adapter import CancelledElsewhere, HostTask, LoopAdapter
from atops.base.waiting.parking_lot import Waiter, wake
from atops.runtime.commands.call import HostCoroutine, note_wait, owe
from atops.runtime.core import command_trace
from atops.runtime.core.commands import NOWHERE, Ended, always, define, nothing
from atops.runtime.core.completion import Completion

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("Awaited", "WaitAwaited")

CANCELLATIONS = (asyncio.CancelledError, CancelledError, CancelledElsewhere)


class WaitAwaited(NamedTuple):
    """Wait for what is awaited outside of the board."""

    awaited: Awaited

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.awaited.name

    @property
    def adapter(self) -> LoopAdapter | None:
        """The loop that must run before the wait can end, if there is one."""
        self.awaited.look()
        return None if self.awaited.is_done else self.awaited.adapter


class Awaited:
    """What a stream waits for, and how that ended. It is also a waiter of its own command, which may end first.

    Raises InvalidType for what cannot be awaited, IllegalState where no loop runs that could.
    """

    def __init__(self, stream: StreamQueue, thing: object) -> None:
        self.thing = thing
        self.name = _name_of(thing)
        self.adapter: LoopAdapter | None = None
        self.error: AtopsError | None = None
        self.is_done = False
        self._label, self._driver = stream.label, stream.board
        self._maker = threading.get_ident()
        self._task: HostTask | None = None  # of the caller's loop, where it is no future
        # Without a lock, for a finalizer or a signal handler may end it: an operation of a list is one step.
        self._open = [True]
        self._waiters: list[Waiter] = []
        self._home = running_loop_adapter()
        if asyncio.isfuture(thing):
            self.adapter = adapter_of(thing.get_loop())
        elif isinstance(thing, Future):
            self.adapter = self._home if self._driver.inline else None
        elif not inspect.isawaitable(thing):
            raise InvalidType(f"wait() expects an Event, a Stream or an awaitable, got {thing!r}{_cure(thing)}")
        elif self._home is None:
            self.close_unstarted()
            raise IllegalState(f"{self._label} cannot wait for {self.name} where no loop runs; call wait() in one")
        else:
            self.adapter = self._home
        self._owed = None if self.adapter is None else HostCoroutine(self.adapter, self._lost)

    def begin(self, item: Completion) -> None:
        """Begin to wait, once the command has its place in the stream."""
        thing = self.thing
        if not self._open:  # the wait is over already
            return
        try:
            if isinstance(thing, asyncio.Future | Future) and thing.done():
                self._settled(thing)
                return
            if self._owed is not None and self.adapter is not None:
                owe(self.adapter, item)
                self._driver.host_tasks.add(self._owed)
            if isinstance(thing, Future):
                thing.add_done_callback(self._settled)
            elif not asyncio.isfuture(thing):
                assert self.adapter is not None, "it was asked for"
                self._task = self.adapter.spawn(self._await, copy_context(), self._ended, partial(note_wait, item))
            elif self.adapter is None or self.adapter is self._home:
                thing.add_done_callback(self._settled)
            elif not self.adapter.deliver(lambda: thing.add_done_callback(self._settled)):
                self._lost()
        except BaseException as failure:  # a future of the program's own may raise anything
            self._finish(self._failure(failure))
            raise
        if not self._open:  # it was over before, or the wait was
            self._let_go()

    async def _await(self) -> object:
        awaitable: Any = self.thing
        return await awaitable

    # ---- its end

    def look(self) -> None:
        """End the wait for a future that is done, on its loop: before the loop calls the future's callbacks."""
        thing = self.thing
        if isinstance(thing, asyncio.Future) and thing.done() and self.adapter is running_loop_adapter():
            self._settled(thing)

    def _settled(self, future: asyncio.Future[Any] | Future[Any]) -> None:
        """Take the outcome of a future. On its loop, or in any thread; inline goes on in its own."""
        try:
            failure = future.exception()
        except BaseException as raised:  # CancelledError; a future of the program's own may raise anything
            failure = raised
        error = None if failure is None else self._failure(failure)
        if not self._driver.inline or threading.get_ident() == self._maker:
            self._finish(error)
        elif self._home is not None:
            self._home.deliver(partial(self._finish, error))

    def _ended(self, failure: BaseException | None, value: object) -> None:
        """Take the outcome of the task."""
        assert self.adapter is not None, "it ran there"
        if failure is None:
            self._finish(None)
        elif self.adapter.closed() or isinstance(failure, asyncio.CancelledError):  # mostly by the end of its loop
            self._lost()
        else:
            self._finish(self._failure(failure))

    def _lost(self) -> None:
        if self._task is not None and self._open:
            self._task.forget()
        self._finish(LoopClosed(
            f"{self._label} waited for {self.name}, whose event loop closed before it ended; keep the loop until the "
            "stream is done"
        ))  # fmt: skip

    def _failure(self, failure: BaseException) -> AtopsError:
        if isinstance(failure, CANCELLATIONS):
            return AwaitableCancelled(f"{self._label} waited for {self.name}, which was cancelled")
        error = HostCallFailure(f"{self._label} waited for {self.name}, which raised {said_of(failure)}")
        error.__cause__ = failure
        return error

    def _finish(self, error: AtopsError | None) -> None:
        """Be over, and let the stream go on. The first call counts."""
        self.close_unstarted()
        if not self._close():
            return
        self.error = error
        self.is_done = True
        self._let_go()
        wake(self._take())

    def wake(self) -> None:
        """Give up: the command ended before the awaitable, because it was skipped, dropped or cancelled."""
        if self._close():
            self._let_go()

    def _close(self) -> bool:
        """Return whether this is the first end."""
        try:
            return self._open.pop()
        except IndexError:
            return False

    def _let_go(self) -> None:
        """Stop watching the loop, and remove the callback from an awaitable that goes on."""
        if self._owed is not None:
            self._driver.host_tasks.remove(self._owed)
        if self.is_done:
            return
        if self._task is not None:
            self._task.cancel()
        elif asyncio.isfuture(self.thing) and self.adapter is not None:
            self.adapter.deliver(partial(self.thing.remove_done_callback, self._settled))
        else:
            self.close_unstarted()

    def close_unstarted(self) -> None:
        """Close a coroutine that was never awaited, and will not be."""
        if inspect.iscoroutine(self.thing) and inspect.getcoroutinestate(self.thing) == inspect.CORO_CREATED:
            self.thing.close()

    # ---- for the stream

    def add_waiter(self, waiter: Waiter) -> bool:
        """Park the stream's waiter. Returns False when there is nothing left to wait for."""
        self._waiters.append(waiter)
        return not self.is_done or waiter not in self._take()  # who takes it out wakes it

    def _take(self) -> list[Waiter]:
        taken: list[Waiter] = []
        with suppress(IndexError):
            while True:  # one by one: what is added meanwhile is taken, or is left to the one that added it
                taken.append(self._waiters.pop())
        return taken

    @property
    def stands(self) -> bool:
        """Whether it is a task that itself waits for a stream, so that only streams can let it go on."""
        seen: set[object] = set()
        wait = self.thing
        while isinstance(wait, asyncio.Task) and wait not in seen:
            seen.add(wait)
            wait = getattr(wait, "_fut_waiter", None)
        return wait in seen or isinstance(wait, TaskWaiter)

    def __repr__(self) -> str:
        return said_of(self.thing)


class _AwaitedOver:
    """Ends a stream's wait when what it waits for is over."""

    __slots__ = ("_awaited", "_item")

    def __init__(self, awaited: Awaited, item: Completion) -> None:
        self._awaited, self._item = awaited, item

    def wake(self) -> None:
        """End the wait, well or not."""
        if (detector := self._item.queue.board.detector) is not None:
            detector.host_did(self._item)
        self._item.finish(self._awaited.error)


def _name_of(thing: object) -> str:
    """Return its name for messages and traces: the same in each run, unlike a repr."""
    if isinstance(thing, asyncio.Task):
        thing = thing.get_coro()
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def _cure(thing: object) -> str:
    """Return what to pass instead, where that is known."""
    if inspect.iscoroutinefunction(thing):
        return "; call the coroutine function: wait(function())"
    return "; give its wait()" if inspect.iscoroutinefunction(getattr(thing, "wait", None)) else ""


def _run(command: WaitAwaited, item: Completion) -> bool:
    """Go on at once if it is over, else park until it is. Its failure is the command's."""
    awaited = command.awaited
    item.parked, item.stop = awaited, item.finish
    if awaited.add_waiter(_AwaitedOver(awaited, item)):
        if item.queue.board.tracer.detail and not item.over:
            command_trace.park(item)
        return False
    item.parked = item.stop = None
    if (detector := item.queue.board.detector) is not None:
        detector.host_did(item)
    if awaited.error is not None:
        raise awaited.error
    return True


define(
    WaitAwaited,
    words=lambda _: "wait",
    run=_run,
    run_timed=_run,
    describe=lambda command, item: (Kind.WAIT_EVENT, 0, *NOWHERE, *NOWHERE, -1, command.name),
    uses=nothing,
    reads=nothing,
    touches=nothing,
    effect=always,
    waits=always,
    silent=False,
    ended=Ended("wait"),
)
