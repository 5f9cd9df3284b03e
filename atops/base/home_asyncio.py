"""A Home on an asyncio loop."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from atops.base.home import Home, LoopWaiter, Source

__all__ = ("AsyncioHome", "AsyncioHostTask")


class AsyncioHome(Home):
    """Wake tasks of one asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = weakref.ref(loop)  # the table of homes is keyed by the loop: a strong one would keep it for ever

    def ring(self) -> bool:
        """Have the loop read its mail. Returns False when the loop is closed or gone."""
        loop = self._loop()
        if loop is None:
            return False
        try:
            loop.call_soon_threadsafe(self._read_mail)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def closed(self) -> bool:
        """Return whether the loop was closed or is gone."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    async def park(self, source: Source) -> None:
        """Wait on a future of the running loop until `source` settles."""
        future = asyncio.get_running_loop().create_future()

        def resume() -> None:
            if not future.done():
                future.set_result(None)

        waiter = LoopWaiter(self, resume)
        if not source.add_waiter(waiter):
            return
        try:
            await future
        finally:
            if waiter.live:  # cancelled, or the loop is going down
                waiter.live = False
                source.discard_waiter(waiter)

    def spawn(
        self,
        function: Callable[[], Coroutine[Any, Any, Any]],
        context: Context,
        done: Callable[[BaseException | None, Any], None],
    ) -> AsyncioHostTask:
        """Run `function()` as a task of this loop. As `Home.spawn`."""
        task = AsyncioHostTask(self, function, context, done)
        if not self.deliver(task.start):
            done(RuntimeError("the event loop is closed"), None)
        return task


class AsyncioHostTask:
    """A host coroutine on an asyncio loop. Its outcome is reported exactly once."""

    def __init__(
        self,
        home: AsyncioHome,
        function: Callable[[], Coroutine[Any, Any, Any]],
        context: Context,
        done: Callable[[BaseException | None, Any], None],
    ) -> None:
        self._home = home
        self._function = function
        self._context = context
        self._done = done
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def start(self) -> None:
        """Make the task. On the loop."""
        if self._cancelled:
            self._done(asyncio.CancelledError(), None)
            return
        self._task = asyncio.get_running_loop().create_task(self._run(), context=self._context)
        # A task cancelled before its first step never enters `_run`: the callback sees every ending.
        self._task.add_done_callback(self._ended)

    async def _run(self) -> Any:
        return await self._function()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._done(error, None if error else task.result())

    def cancel(self) -> None:
        """Cancel the task on its loop. From any thread."""
        self._home.deliver(self._cancel)

    def forget(self) -> None:
        """Keep asyncio from complaining of a task that its loop took in its last turn and never ran to its end."""
        task = self._task
        if task is not None and not task.done():
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio does for the tasks it drops
            coroutine: Any = task.get_coro()
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()
