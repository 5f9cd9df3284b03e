"""The adapter of a trio run. Imported only where trio is loaded already."""

from __future__ import annotations

import weakref
from asyncio import CancelledError
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from types import coroutine
from typing import Any

import trio

from atops.base.log_fields import get_logger
from atops.base.waiting.loop_adapter import INSIDE, HostFunction, HostTask, LoopAdapter, LoopWaiter, Report, WaitSource

__all__ = ("TrioHostTask", "TrioLoop", "TrioWaiter")

log = get_logger("atops.driver")


class TrioWaiter(LoopWaiter):
    """One await of a trio task."""

    __slots__ = ("_task",)

    def __init__(self, adapter: LoopAdapter, task: trio.lowlevel.Task) -> None:
        super().__init__(adapter)
        self._task = task

    def resume(self) -> None:
        """Have the run resume the task."""
        trio.lowlevel.reschedule(self._task)


class TrioHostTask(HostTask):
    """A host coroutine in a trio system task: no nursery of the program's owns it."""

    def __init__(self, adapter: LoopAdapter, function: HostFunction, context: Context, done: Report) -> None:
        super().__init__(adapter, function, context, done)
        self._scope = trio.CancelScope()
        self._task: trio.lowlevel.Task | None = None

    def start(self) -> None:
        """Make the system task. In the run."""
        # A run that is ending refuses system tasks, and would crash. That the task never ran shows in `closed`.
        with suppress(RuntimeError):
            name = None if self.named is None else self.named()
            trio.lowlevel.spawn_system_task(self._run, name=name, context=self._context)

    async def _run(self) -> None:
        error: BaseException | None = CancelledError()  # by its scope
        value = None
        try:
            with self._scope:
                self._task = trio.lowlevel.current_task()
                value = await self._call()
                error = None
        except BaseException as raised:  # a system task that raises would crash the whole run
            error = CancelledError() if _is_cancellation(raised) else raised
            if isinstance(raised, trio.Cancelled):
                raise
        finally:
            self._done(error, value)

    def _waits_here(self) -> bool:
        task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        while task is not None and task is not self._task:  # a nursery's block waits for the tasks in it
            nursery = task.parent_nursery
            task = None if nursery is None else nursery.parent_task
        return task is not None

    def cancel(self) -> None:
        """Cancel the task on its run. From any thread."""
        self._adapter.deliver(self._scope.cancel)

    def forget(self) -> None:
        """Do nothing: a run ends every task that it has started."""


class TrioLoop(LoopAdapter):
    """Wake tasks of one trio run."""

    host_task = TrioHostTask

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        super().__init__()
        self._token = weakref.ref(token)  # ADAPTERS is keyed by the token: a strong reference would keep it for ever

    def ring(self) -> bool:
        """Have the run read its mail. Returns False when it has finished."""
        token = self._token()
        if token is None:
            return False
        try:
            token.run_sync_soon(self._read_mail)
        except trio.RunFinishedError:
            return False
        return True

    def closed(self) -> bool:
        """Return whether the run has finished."""
        token = self._token()
        if token is None:
            return True
        try:
            token.run_sync_soon(_nothing, idempotent=True)
        except trio.RunFinishedError:
            return True
        return False

    @coroutine
    def park(self, source: WaitSource) -> Generator[Any, Any, None]:
        """Suspend the running task until `source` settles."""
        yield from self._parked(source).__await__()

    async def _parked(self, source: WaitSource) -> None:
        """Suspend the running task. A cancelled one leaves the source in `give_up`."""
        waiter = TrioWaiter(self, trio.lowlevel.current_task())
        if not source.add_waiter(waiter):
            await trio.lowlevel.checkpoint()
            return

        def give_up(_: object) -> trio.lowlevel.Abort:
            waiter.live = False
            source.discard_waiter(waiter)
            return trio.lowlevel.Abort.SUCCEEDED

        host = INSIDE.get()
        if host is None:
            await trio.lowlevel.wait_task_rescheduled(give_up)
            return
        try:
            host.begins_to_wait(source)
            await trio.lowlevel.wait_task_rescheduled(give_up)
        finally:
            host.has_waited(source)

    def call(self, function: Callable[[object], object], argument: object, context: Context) -> None:
        """Call it here and now, and log what it raises: it would crash the whole run."""
        try:
            context.run(function, argument)
        except BaseException:
            log.exception("a callback raised: %r", function)


def _is_cancellation(raised: BaseException) -> bool:
    """Whether a task ended by a cancellation and nothing else: of a nursery in it, trio makes a group."""
    rest = raised.split(trio.Cancelled)[1] if isinstance(raised, BaseExceptionGroup) else raised
    return rest is None or isinstance(rest, trio.Cancelled)


def _nothing() -> None:
    """Do nothing: sent to a run to learn whether it still takes calls."""
