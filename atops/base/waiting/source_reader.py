"""Reading an async source in a task of its own: a task that waits for a chunk may turn to something else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import copy_context

import anyio

from atops.base.errors import IllegalState
from atops.base.log_fields import said_of
from atops.base.waiting.current_loop import current_loop_adapter
from atops.base.waiting.loop_adapter import HostTask

__all__ = ("SourceReader",)


class SourceReader:
    """Takes one chunk from an async iterator whenever it is asked.

    A task that has asked may turn to something else, or be cancelled: the source does not notice. It is always the same
    task that is inside the source, which may hold cancel scopes open from one chunk to the next. It belongs to the
    loop, starts with the first `ask` and ends with the source or `aclose`. One loop only.
    """

    def __init__(self, source: AsyncIterator[object], feed: Callable[[], Awaitable[None]] | None = None) -> None:
        """Take a source, and what its task runs in place of waiting to be asked, if that takes the chunks itself."""
        self._source = source
        self.feed = feed
        self._task: HostTask | None = None
        self._task_id: int | None = None
        self._busy = False  # from an `ask` to its `take`
        self._asked = anyio.Event()
        self._answered = anyio.Event()
        self._answer: tuple[Exception | None, object] | None = None
        self._over = anyio.Event()
        self._closing = False
        self._closed = False

    # ---- for tasks that want chunks

    def ask(self) -> None:
        """Have the next chunk taken, unless it is being taken already, or is taken and still here."""
        if self._task is None:
            self._task = current_loop_adapter().spawn(self._run, copy_context(), self._ended, at_once=True)
        if not self._busy:
            self._busy = True
            self._asked.set()

    async def ready(self) -> None:
        """Wait until the chunk that was asked for is there, or it is known that none will come."""
        await self._answered.wait()

    @property
    def has_answer(self) -> bool:
        """Whether `take` has something to give or to raise."""
        return self._answer is not None

    def take(self) -> object:
        """Return the chunk. Raises what the source raised: StopAsyncIteration at its end."""
        assert self._answer is not None
        error, chunk = self._answer
        self._answer, self._answered, self._busy = None, anyio.Event(), False
        if error is not None:
            raise error
        return chunk

    # ---- the end

    async def aclose(self) -> None:
        """Cancel what waits in the source, wait until it has left there, and close the source. Idempotent.

        Called by the source itself it returns at once; the source is closed when it gives its next chunk.
        """
        if self._task is not None and not self._over.is_set():
            if anyio.get_current_task().id == self._task_id:
                self._closing = True
                return
            self.cancel()
            if self._task_id is not None:  # a task that has not begun never enters the source; a loop may not begin it
                await self._left()
        await self._close_source()

    async def _left(self) -> None:
        """Wait until the task has ended. What cancels this wait cancels the task again, and is raised in the end.

        As if the source ran in the waiting task: no cancellation leaves it behind, unfinished.
        """
        cancelled: BaseException | None = None
        while not self._over.is_set():
            try:
                await self._over.wait()
            except GeneratorExit:
                raise
            except BaseException as error:
                cancelled = error
                if self._task is not None:
                    self._task.cancel()
        if cancelled is not None:
            raise cancelled

    def cancel(self) -> None:
        """Have the task end, without waiting. From any thread."""
        task = self._task
        if task is not None and not self._closing:
            self._closing = True
            task.cancel()

    # ---- the task

    async def _run(self) -> None:
        self._task_id = anyio.get_current_task().id
        try:
            if self.feed is not None:
                await self.feed()
                return
            while not self._closing:
                await self._asked.wait()
                self._asked = anyio.Event()
                try:
                    chunk = await anext(self._source)
                except Exception as error:
                    self._give(error, None)
                    break
                self._give(None, chunk)
        finally:
            with anyio.CancelScope(shield=True):
                await self._close_source()

    def _give(self, error: Exception | None, chunk: object) -> None:
        self._answer = error, chunk
        self._answered.set()

    def _ended(self, error: BaseException | None, value: object) -> None:
        """Take note of the task's end. Waits for a chunk that will not come are ended."""
        if self._answer is None:
            self._give(IllegalState(f"the task that reads {said_of(self._source)} has ended: {said_of(error)}"), None)
        self._over.set()

    async def _close_source(self) -> None:
        if not self._closed:
            self._closed = True
            if (close := getattr(self._source, "aclose", None)) is not None:
                await close()
