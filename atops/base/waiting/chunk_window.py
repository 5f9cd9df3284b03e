"""A window of chunks between a source and a consumer: so many in flight, results in order, cancelled at any await."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from types import GeneratorType, TracebackType
from typing import Generic, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from atops.base.errors import IllegalState, InvalidType, InvalidValue, StreamAborted
from atops.base.log_fields import said_of
from atops.base.options import whole
from atops.base.waiting.current_loop import checkpoint, running_loop_adapter
from atops.base.waiting.source_reader import SourceReader

__all__ = ("ChunkWindow", "check_count")

T_co = TypeVar("T_co", covariant=True)
Outcome = TypeVar("Outcome")  # what stands for a result


def check_count(what: str, count: object) -> None:
    """Raise InvalidValue for what is no whole number from 1 on."""
    if not whole(count):
        raise InvalidValue(f"{what} is {count!r}; expected an int, at least 1")
    if count < 1:
        raise InvalidValue(f"{what} is {count!r}; expected at least 1")


class ChunkWindow(AsyncIterator[T_co], Generic[T_co, Outcome]):
    """Takes chunks from a source, has work begun for each, and gives the results in order.

    Inside `async with` a task takes chunks while the consumer is busy; without it they are taken while a result is
    waited for. What the work is, a subclass says: `_begin` starts it and returns what stands for its result.
    """

    def __init__(self, source: object, in_flight: int) -> None:
        """Take an iterable or an async one, and how many chunks are between it and the consumer.

        Raises InvalidType for a source that is none, InvalidValue for a number below 1, IllegalState where no loop
        runs.
        """
        check_count("in_flight", in_flight)
        if not isinstance(source, Iterable | AsyncIterable):
            raise InvalidType(f"the source {source!r} is not iterable; expected an (async) iterable of arrays")
        if running_loop_adapter() is None:
            raise IllegalState("a pipeline belongs to the loop that runs where it is made, and none runs here")
        self.in_flight = in_flight
        self._source = aiter(source) if isinstance(source, AsyncIterable) else iter(source)
        self._reader: SourceReader | None = None  # of an async source, where no task of a block reads it
        self._window: deque[Outcome] = deque()  # of the results, in order
        self._started = 0
        self._given = 0  # chunks that the consumer has taken
        self._arriving = 0  # results that tasks wait for: as many as there are consumers, mostly one
        self._exhausted = False
        self._closed = False
        self._failure: BaseException | None = None
        self._feeding = False  # a task of its own reads the source
        self._feeder = anyio.CancelScope()
        self._news = anyio.Event()  # the window, the room in it or the source's end changed
        self._tasks: TaskGroup | None = None  # while inside `async with`

    # ---- what a subclass has

    @abstractmethod
    def _begin(self, chunk: object) -> Outcome:
        """Start what happens to a chunk, without waiting. Returns what stands for its result."""

    @abstractmethod
    async def _arrived(self, outcome: Outcome) -> T_co:
        """Return a result. Raises what it failed with."""

    @abstractmethod
    async def _over(self, outcome: Outcome) -> None:
        """Wait until a result is there, or will never be."""

    @abstractmethod
    def _is_over(self, outcome: Outcome) -> bool:
        """Whether waiting for a result would take no time."""

    @abstractmethod
    def _drop(self) -> None:
        """Drop the work that is not over, without waiting."""

    @abstractmethod
    async def _dropped(self) -> None:
        """Wait until nothing is left of it."""

    def _reads_with(self, reader: SourceReader) -> None:
        """Take note of the task that reads the source."""

    @property
    def _state(self) -> str:
        """How many chunks are in flight, in words."""
        return "closed" if self._closed else f"{len(self._window)} of {self.in_flight} chunks in flight"

    # ---- lifecycle

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._feeding = True
        if isinstance(self._source, AsyncIterator) and self._reader is None:
            # In a task of its own: a cancelled scope would cut short what the source awaits as it cleans up.
            self._reader = SourceReader(self._source, self._feed_alone)
            self._reads_with(self._reader)
            self._reader.ask()
        else:
            self._tasks.start_soon(self._feed, name="pipeline source")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._tasks is not None, "inside `async with`"
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)  # the block's own error is not the feeder's: no group of one
        finally:
            self._feeding = False
            await self._end()
        if kind is None:
            await checkpoint()

    async def aclose(self) -> None:
        """Drop what is in flight, free what was allocated, close the source. Idempotent, also when cancelled."""
        await self._end()
        await checkpoint()

    async def _end(self) -> None:
        try:
            await self._drop_work()
        except GeneratorExit:
            raise
        except BaseException:
            await self._end_source()
            raise
        await self._end_source()

    async def _drop_work(self) -> None:
        if not self._closed:
            self._closed = True
            self._drop()
            self._window.clear()
            self._notify()  # waits for a result in other tasks
            await self._dropped()

    async def _end_source(self) -> None:
        if self._feeding:
            if self._reader is None or self._reader.feed is None:
                self._feeder.cancel()
            if self._reader is None:  # it may be inside the source now; the end of the scope waits for it, then closes
                return
        with anyio.CancelScope(shield=True):
            await self._close_source()

    async def _close_source(self) -> None:
        if self._reader is not None:
            await self._reader.aclose()
        elif (close := getattr(self._source, "aclose", None)) is not None:
            await close()
        elif isinstance(self._source, GeneratorType):  # its `finally` is owed now; other iterators are their owner's
            self._source.close()

    # ---- the consumer's side

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T_co:
        """Return the next result. Raises what its chunk, its stage or the source failed with; then all is closed."""
        if self._closed:
            if self._exhausted and not self._window:
                await checkpoint()
                raise StopAsyncIteration
            raise IllegalState("the pipeline is closed")
        try:
            if await self._fill():
                return await self._take()
        except StreamAborted:
            if not self._closed:
                await self._end()
                raise
            raise IllegalState("the pipeline was closed while a result was waited for") from None
        except BaseException:
            await self._end()
            raise
        if not self._arriving:  # else another task waits for one of the last results, which closing would drop
            await self._end()
        await checkpoint()
        raise StopAsyncIteration

    async def _take(self) -> T_co:
        self._arriving += 1
        try:
            result = await self._arrived(self._window.popleft())
        finally:
            self._arriving -= 1
        self._given += 1
        self._notify()
        return result

    async def _fill(self) -> bool:
        """Have a chunk at the head of the window. Returns False at the end of the source."""
        if self._feeding:
            while not (self._window or self._exhausted or self._closed):
                await self._news.wait()
        else:
            while not (self._exhausted or self._closed) and self._room() and not self._head_is_over():
                await self._advance()
        if self._closed and not self._exhausted:
            raise IllegalState("the pipeline was closed while a result was waited for")
        if not self._window and self._failure is not None:
            raise self._failure
        return bool(self._window)

    def _head_is_over(self) -> bool:
        return bool(self._window) and self._is_over(self._window[0])

    async def _advance(self) -> None:
        """Start the source's next chunk, or return when the head's result is there before it."""
        if isinstance(self._source, AsyncIterator):
            if self._reader is None:
                self._reader = SourceReader(self._source)
                self._reads_with(self._reader)
            self._reader.ask()
            if self._window:
                async with anyio.create_task_group() as race:
                    for wait in (self._reader.ready, partial(self._over, self._window[0])):
                        race.start_soon(_first, wait, race.cancel_scope)
            else:
                await self._reader.ready()
            if self._closed or not self._reader.has_answer:
                return
        await self._start_one()

    # ---- the source's side

    async def _feed(self) -> None:
        with self._feeder:
            while not (self._exhausted or self._closed):
                while not self._room():
                    await self._news.wait()
                await self._start_one()

    async def _feed_alone(self) -> None:
        """Feed in the task that reads the source; whatever ends that task early, consumers are told."""
        try:
            await self._feed()
        except BaseException as error:
            if not self._closed:
                failure = IllegalState(f"the task that reads {said_of(self._source)} has ended: {said_of(error)}")
                failure.__cause__ = error
                self._fail(failure)
                self._notify()
            raise

    def _room(self) -> bool:
        return self._started - self._given < self.in_flight

    async def _start_one(self) -> None:
        """Take a chunk from the source and enqueue everything that happens to it."""
        try:
            chunk = await self._next_chunk()
        except StopAsyncIteration:
            self._exhausted = True
        except Exception as error:
            self._fail(error)
        except anyio.get_cancelled_exc_class() as error:
            if self._closed or anyio.current_effective_deadline() == -math.inf:  # of this task, from anywhere
                raise
            # What the source waited for was cancelled: a failure of the source, and no wish to end the consumer.
            said = said_of(error)
            failure = RuntimeError(f"the source {said_of(self._source)} raised {said}, though it was not cancelled")
            failure.__cause__ = error
            self._fail(failure)
        else:
            if self._closed:  # by the source itself, or while it would not end
                return
            try:
                self._window.append(self._begin(chunk))
                self._started += 1
            except Exception as error:
                self._fail(error)
        self._notify()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, StopIteration | StopAsyncIteration):  # to an iteration that would be its good end
            cause, error = error, RuntimeError(f"a stage of the pipeline raised {said_of(error)}")
            error.__cause__ = cause
        self._failure = error
        self._exhausted = True

    async def _next_chunk(self) -> object:
        """Return the source's next chunk. Raises StopAsyncIteration at its end, and what the source raises."""
        if self._reader is not None and self._reader.feed is None:
            while not self._reader.has_answer:  # another task may have come for it first
                if self._exhausted:
                    raise StopAsyncIteration
                self._reader.ask()
                await self._reader.ready()
            return self._reader.take()
        if isinstance(self._source, AsyncIterator):
            return await anext(self._source)
        try:
            return next(self._source)
        except StopIteration:  # which no coroutine may raise
            raise StopAsyncIteration from None
        except StopAsyncIteration as error:  # of a plain source it ends nothing
            raise RuntimeError(f"the source {said_of(self._source)} raised {said_of(error)}") from error

    def _notify(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()


async def _first(wait: Callable[[], Awaitable[None]], race: anyio.CancelScope) -> None:
    """Wait, then end the wait of the others in the race."""
    await wait()
    race.cancel()
