"""The adapter of an asyncio loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from asyncio import _get_running_loop
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from types import coroutine
from typing import Any

from atops.base.waiting.loop_adapter import INSIDE, CancelledElsewhere, HostTask, LoopAdapter, LoopWaiter, WaitSource

__all__ = ("OWN_CALLBACKS", "AsyncioHostTask", "AsyncioLoop", "ChosenTaskWaiter", "TaskWaiter")

MOST_SELECTED = 1024  # the descriptors that select() takes are below


class TaskWaiter(LoopWaiter):
    """What an asyncio task waits for in place of a future, by asyncio's protocol for such objects.

    A future resumes its task in the loop's next turn; this resumes it at once.
    """

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_failure", "_loop", "_source", "_wakeup")

    def __init__(self, adapter: LoopAdapter, loop: asyncio.AbstractEventLoop, source: WaitSource) -> None:
        self.adapter, self.live = adapter, True  # what its base does, without the frame: each await makes one
        self._loop = loop
        self._source = source
        self._asyncio_future_blocking = True
        self._cancelled: tuple[object, ...] | None = None
        self._failure: BaseException | None = None
        self._wakeup: Callable[[Any], object] | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the awaiting task, which asks for it."""
        return self._loop

    def add_done_callback(self, wakeup: Callable[[Any], object], *, context: Context) -> None:
        """Take what resumes the task; the task calls this when it suspends."""
        self._wakeup = wakeup
        self._context = context

    def resume(self) -> None:
        """Run the task's next step here and now, unless its cancellation is on the way.

        In debug mode the loop runs it, and so names the task where a step takes long.
        """
        if self._cancelled is None and self._wakeup is not None:
            if self._loop.get_debug():
                self._loop.call_soon(self._wakeup, self, context=self._context)
            else:
                self._context.run(self._wakeup, self)

    def cancel(self, msg: object = None) -> bool:
        """Have the task resumed with CancelledError. Returns False where it is being resumed already."""
        if not self.live or self._cancelled is not None or self._wakeup is None:
            return False
        self._cancelled = () if msg is None else (msg,)
        self._loop.call_soon(self._wakeup, self, context=self._context)
        return True

    def fail(self, error: BaseException) -> None:
        """Have the task resumed with an error, unless it is being resumed already. On the loop."""
        if self.cancel():
            self._failure = error

    def done(self) -> bool:
        """Return whether the task is about to go on; anyio looks at this."""
        return not self.live or self._cancelled is not None

    def result(self) -> None:
        """Raise CancelledError in the task that was cancelled, which asks for this when it is resumed."""
        if self._failure is not None:
            raise self._failure
        if self._cancelled is not None:
            raise asyncio.CancelledError(*self._cancelled)

    def __repr__(self) -> str:
        return repr(self._source)  # it stands in the task's: "wait_for=<Completion 7: copy on stream 2, pending>"


class ChosenTaskWaiter(TaskWaiter):
    """The same on a loop under a schedule: the task's next step waits to be chosen."""

    __slots__ = ()

    def resume(self) -> None:
        """Have the loop run the task's next step, unless its cancellation is on the way."""
        if self._cancelled is None and self._wakeup is not None:
            self._loop.call_soon(self._wakeup, self, context=self._context)


class AsyncioHostTask(HostTask):
    """A host coroutine on an asyncio loop."""

    _task: asyncio.Task[object] | None = None
    _cancelled = _told = False

    def start(self) -> None:
        """Make the task. On the loop."""
        if self._cancelled:
            self._done(asyncio.CancelledError(), None)
            return
        name = None if self.named is None else self.named()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name, context=self._context)
        # A task cancelled before its first step never enters `_run`: the callback sees every ending.
        self._task.add_done_callback(self._ended)

    async def _run(self) -> object:
        # What comes of it is told in its last step: so others are woken as soon as asyncio's own tasks wake them.
        try:
            value = await self._call()
        except GeneratorExit:  # its loop was left
            raise
        except asyncio.CancelledError:
            self._tell(self._cancellation(), None)
            raise
        except BaseException as error:
            self._tell(error, None)
            raise
        self._tell(None, value)
        return value

    def _cancellation(self) -> BaseException:
        assert self._task is not None, "it runs"
        if self._task.cancelling():
            return asyncio.CancelledError()
        # What it waited for was cancelled, say: a failure of its own.
        return CancelledElsewhere("CancelledError, though it was not cancelled")

    def _tell(self, error: BaseException | None, value: object) -> None:
        if not self._told:
            self._told = True
            self._done(error, value)

    def _waits_here(self) -> bool:
        own: Any = self._task
        here = asyncio.current_task()
        if here is own:
            return True
        waits_for = getattr(own, "_fut_waiter", None)
        return here is not None and (waits_for is here or here in getattr(waits_for, "_children", ()))

    def _ended(self, task: asyncio.Task[object]) -> None:
        error = self._cancellation() if task.cancelled() else task.exception()
        self._tell(error, None if error else task.result())

    def cancel(self) -> None:
        """Cancel the task on its loop: there at once, from another thread soon."""
        if self._task is not None and _get_running_loop() is self._task.get_loop():
            self._cancel()
        else:
            self._adapter.deliver(self._cancel)

    def forget(self) -> None:
        """Keep asyncio from warning of a task whose loop stopped before the task ended."""
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


def _hang_bell(loop: asyncio.AbstractEventLoop, answer: Callable[[], None]) -> int | None:
    """Return a descriptor: writing to it from any thread makes the loop call `answer`. None where there can be none.

    Waking the loop is much of the cost of a small command. `call_soon_threadsafe` makes a handle, copies the context,
    and sends a byte that is received twice. The descriptor lives as long as the loop, so that no
    other file gets its number while a thread may still write to it. On the loop's thread only.
    """
    if not hasattr(os, "eventfd"):  # it is Linux's
        return None
    try:
        bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError:  # no descriptor is left, or a sandbox has no such call
        return None
    try:
        if bell >= MOST_SELECTED:
            raise ValueError("a loop that calls select() watches no such file")
        Context().run(loop.add_reader, bell, answer)  # the handle keeps its context as long as the loop lives
    except Exception:  # a loop that watches no files, or no more of them
        os.close(bell)
        return None
    weakref.finalize(loop, os.close, bell).atexit = False
    return bell


class AsyncioLoop(LoopAdapter):
    """Wake tasks of one asyncio loop."""

    host_task = AsyncioHostTask

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = weakref.ref(loop)  # ADAPTERS is keyed by the loop: a strong reference would keep it for ever
        self._bell: int | None = None
        self._chooses = getattr(loop, "chooses", False)  # what comes next: then nothing is called here and now
        self._waiter = ChosenTaskWaiter if self._chooses else TaskWaiter
        self._answering = False  # a task that runs the loop itself in there cannot hear the bell: its handle is busy
        if self._chooses:
            return  # all that wakes its tasks does so in its own thread
        if _get_running_loop() is loop:
            self._hang_bell()
        else:
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(self._hang_bell)

    def _hang_bell(self) -> None:
        if (loop := self._loop()) is not None:
            self._bell = _hang_bell(loop, self._answer)

    @property
    def has_bell(self) -> bool:
        """Whether the loop watches a file of the adapter's."""
        return self._bell is not None

    def ring(self) -> bool:
        """Have the loop read its mail. Returns False when the loop is closed or gone."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            return False
        if _get_running_loop() is loop:
            loop.call_soon(self._read_mail)
        elif self._bell is not None and not self._answering:
            os.eventfd_write(self._bell, 1)
        else:
            try:
                loop.call_soon_threadsafe(self._read_mail)
            except RuntimeError:  # it was closed just now
                return False
        return True

    def _answer(self) -> None:
        try:  # noqa: SIM105  # suppress() is slow
            os.eventfd_read(self._bell)  # type: ignore[arg-type]  # there is one, or this would not be called
        except BlockingIOError:  # a forked child may have heard it
            pass
        self._answering = True
        try:
            self._read_mail()
        finally:
            self._answering = False

    def closed(self) -> bool:
        """Return whether the loop was closed or is gone."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    @coroutine
    def park(self, source: WaitSource) -> Generator[TaskWaiter, None, None]:
        """Suspend the running task until `source` settles. A cancelled task leaves the source in the `finally` here."""
        loop = self._loop()
        assert loop is not None, "it runs"
        waiter = self._waiter(self, loop, source)
        if not source.add_waiter(waiter):
            return
        host = INSIDE.get()
        try:
            if host is not None:
                host.begins_to_wait(source)
            yield waiter
        finally:
            if host is not None:
                host.has_waited(source)
            if waiter.live:  # cancelled, or the loop is going down
                waiter.live = False
                source.discard_waiter(waiter)

    def call(self, function: Callable[[Any], object], argument: object, context: Context) -> None:
        """Call it here and now; in debug mode the loop does, and so names it where it takes long."""
        loop = self._loop()
        assert loop is not None, "it runs"
        if self._chooses or loop.get_debug():
            loop.call_soon(function, argument, context=context)
        else:
            asyncio.Handle(function, (argument,), loop, context)._run()  # which reports to the loop's handler


# The callbacks that the adapter itself puts into its loop: no work of the program's.
OWN_CALLBACKS = (AsyncioLoop._read_mail, AsyncioLoop._answer, AsyncioLoop._hang_bell)
