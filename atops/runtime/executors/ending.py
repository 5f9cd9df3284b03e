"""The end of the tasks that a run leaves: they are cancelled, and abandoned where they then wait without an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeAlias

from atops.base.errors import StepLimit, WouldDeadlock
from atops.base.log_fields import get_logger
from atops.runtime.executors.inline import InlineExecutor
from atops.runtime.executors.standing import told_waits

__all__ = ("EndingTasks",)

log = get_logger("atops.stall")

Task: TypeAlias = asyncio.Task[Any]
ROUNDS: Final = 8  # how often a task is cancelled that waits again each time


class EndingTasks:
    """Behind the block, cancel the tasks that are left, as `asyncio.Runner` does, and end them within bounds.

    Only where the executor sees that nothing is left to run: with detectors, or under a schedule. Tasks that then wait
    on are cancelled again, and abandoned after so many times; `close()` is then awaited, which closes the driver.

    Those tasks are named in a note of what ended the block. Raises WouldDeadlock where nothing did.
    """

    def __init__(
        self, executor: InlineExecutor, close: Callable[[], Coroutine[object, None, object]] | None = None
    ) -> None:
        self._executor, self._close = executor, close

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not self._executor.sees_rest or not (text := _end_tasks(self._executor, self._close)):
            return
        if error is None:
            raise WouldDeadlock(text)
        error.add_note(text)


def _end_tasks(executor: InlineExecutor, close: Callable[[], Coroutine[object, None, object]] | None) -> str:
    """End the tasks of the executor's loop. Returns what is to be said of those that had to be cancelled again."""
    loop, stood, seen = executor.loop, list[str](), set[Task]()
    if not loop.left_tasks():
        return ""
    executor.program_over()
    executor.ending = 1
    for _ in range(ROUNDS):
        if not (tasks := asyncio.all_tasks(loop)):
            break
        seen |= tasks
        try:
            _cancel(loop, tasks)
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        except WouldDeadlock:
            stood = stood or told_waits(asyncio.all_tasks(loop))
        except StepLimit:
            stood = stood or told_waits(asyncio.all_tasks(loop))
            break
    left = asyncio.all_tasks(loop)
    for task in left:  # all of them first: one that is closed may let another one go on
        _forget(task)
    for task in left:
        _close(task)
    if left and close is not None:
        with suppress(WouldDeadlock, StepLimit):
            loop.run_until_complete(close())
    _tell_errors(loop, seen - left)
    if not stood:
        return ""
    text = f"tasks wait again while they are cancelled, and were {'abandoned' if left else 'cancelled again'}: "
    text += "; ".join(stood)
    log.warning("%s", text)
    return text


def _cancel(loop: asyncio.AbstractEventLoop, tasks: Iterable[Task]) -> None:
    """Cancel tasks. Those that wait for other tasks come first, and get their CancelledError at once.

    `Task.cancel` passes it on to the task that is waited for, which comes to no end where tasks wait for each other.
    """
    direct = [(task, wake) for task in tasks if _waits_for_tasks(task) and (wake := _detached(task)) is not None]
    if direct:
        cancelled = loop.create_future()
        cancelled.cancel()
        told = loop.create_future()

        def throw() -> None:
            told.set_result(None)
            for _, wake in direct:
                wake(cancelled)

        loop.call_soon(throw)
        loop.run_until_complete(told)
    for task in set(tasks).difference(task for task, _ in direct):
        task.cancel()


def _waits_for_tasks(task: Task) -> bool:
    waiter = getattr(task, "_fut_waiter", None)
    return isinstance(waiter, asyncio.Task) or hasattr(waiter, "_children")  # of asyncio.gather


def _detached(task: Task) -> Callable[[asyncio.Future[object]], object] | None:
    """Return what goes on with a task once the future that it awaits is over, and have that future forget it."""
    waiter: Any = getattr(task, "_fut_waiter", None)
    for wake, _ in getattr(waiter, "_callbacks", None) or ():
        if getattr(wake, "__self__", None) is task:
            waiter.remove_done_callback(wake)
            waiter.add_done_callback(_look_at)
            found: Callable[[asyncio.Future[object]], object] = wake
            return found
    return None


def _forget(task: Task) -> None:
    """Have asyncio forget a task that is not over."""
    _detached(task)
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # that it is not over is said already
    task.add_done_callback(_look_at)


def _close(task: Task) -> None:
    """Close the coroutine of a task, which may await again each time."""
    for _ in range(ROUNDS):
        try:
            task.get_coro().close()
        except RuntimeError:  # it awaits again
            continue
        except Exception:  # its own: no task waits for this one any more
            pass
        return


def _look_at(future: asyncio.Future[object]) -> None:
    """Have asyncio not log an exception that nothing waits for any more."""
    if not future.cancelled():
        future.exception()


def _tell_errors(loop: asyncio.AbstractEventLoop, tasks: Iterable[Task]) -> None:
    """Have the loop's handler told what cancelled tasks have raised, as `asyncio.run` does."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            message = "unhandled exception during asyncio.run() shutdown"
            loop.call_exception_handler({"message": message, "exception": error, "task": task})
