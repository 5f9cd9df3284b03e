"""An awaitable pipeline: chunks from an iterable through stages on several streams, results in order, n in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from functools import partial
from types import GeneratorType, TracebackType
from typing import Any

import anyio

from atops.base.errors import IllegalState, InvalidType, InvalidValue, PriorLaunchFailure
from atops.runtime.buffer import Buffer
from atops.runtime.completion import Completion
from atops.runtime.device import Device
from atops.runtime.stream import Stream

__all__ = ("Pipeline", "Stage", "arrived", "drop", "fetched", "is_over", "pipeline")

Stage = Callable[[Stream, Any], Any]


def pipeline(
    source: Iterable[Any] | AsyncIterable[Any],
    *stages: Stage,
    device: Device | None = None,
    streams: int = 4,
    in_flight: int = 8,
) -> Pipeline:
    """Send each host array of `source` through `stages` and yield the results in order.

    A stage is `stage(stream, array) -> array`: it enqueues on the stream and returns at once; what it allocates on the
    stream is freed once its chunk is done. The first gets the uploaded chunk, the next what the one before returned;
    what the last returns is fetched (a DeviceArray becomes a numpy array, a Completion gives its result, a tuple gives
    a tuple). Chunk i runs on stream i modulo `streams`; at most `in_flight` chunks are between source and consumer, so
    a slow consumer holds back the source.

        async with atops.pipeline(chunks, stage) as results:
            async for result in results:
                ...

    Inside `async with` a task of its own reads the source, so that a slow source does not delay a result that is ready;
    a plain `async for` reads it in between. A plain iterable is advanced on the event loop: let it not block. When the
    block ends, by an error or a cancellation too, the streams' work is dropped and all they allocated is freed.

    Raises InvalidType for a source or a stage that is none, InvalidValue for numbers below 1.
    """
    return Pipeline(source, stages, Device() if device is None else device, streams, in_flight)


class Pipeline(AsyncIterator[Any]):
    """What `pipeline` returns: an async iterator and an async context manager."""

    def __init__(
        self, source: Any, stages: tuple[Stage, ...], device: Device, streams: int, in_flight: int
    ) -> None:
        for what, count in (("streams", streams), ("in_flight", in_flight)):
            if not isinstance(count, int) or count < 1:
                raise InvalidValue(f"{what} is {count!r}; at least 1 is right")
        for stage in stages:
            if not callable(stage):
                raise InvalidType(f"the stage {stage!r} is no function; stage(stream, array) is right")
        if not isinstance(source, Iterable | AsyncIterable):
            raise InvalidType(f"the source {source!r} is not iterable; an (async) iterable of arrays is right")
        self.in_flight = in_flight
        self._source: Any = aiter(source) if isinstance(source, AsyncIterable) else iter(source)
        self._stages = stages
        self._streams = [device.create_stream(name=f"pipeline {number}") for number in range(streams)]
        self._window: deque[Any] = deque()  # of what each chunk's stages returned, in order
        self._started = 0
        self._given = 0  # chunks that the consumer has taken
        self._exhausted = False
        self._closed = False
        self._failure: BaseException | None = None
        self._feeding = False  # a task of its own reads the source
        self._feeder = anyio.CancelScope()
        self._news = anyio.Event()  # the window, the room in it or the source's end changed
        self._tasks: Any = None

    # ---- lifecycle

    async def __aenter__(self) -> Pipeline:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._feeding = True
        self._tasks.start_soon(self._feed, name="pipeline source")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)  # the block's own error is not the feeder's: no group of one
        finally:
            self._feeding = False
            await self.aclose()

    async def aclose(self) -> None:
        """Drop what is in flight, free what was allocated, close the source. Idempotent, also when cancelled."""
        if not self._closed:
            self._closed = True
            for stream in self._streams:
                stream.abort()
                stream.close()
            self._window.clear()
            with anyio.CancelScope(shield=True):  # bounded: the work was aborted
                for stream in self._streams:
                    await stream.aclose()
        if self._feeding:
            self._feeder.cancel()  # it may be inside the source now; the end of the scope waits for it, then closes
        elif (close := getattr(self._source, "aclose", None)) is not None:
            with anyio.CancelScope(shield=True):
                await close()
        elif isinstance(self._source, GeneratorType):  # its `finally` is owed now; other iterators are their owner's
            self._source.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            for stream in self._streams:
                stream.driver.post(partial(drop, stream))  # never a lock in a finalizer

    # ---- the consumer's side

    def __aiter__(self) -> Pipeline:
        return self

    async def __anext__(self) -> Any:
        """Return the next result. Raises what its chunk, its stage or the source failed with; then all is closed."""
        if self._closed:
            if self._exhausted and not self._window:
                raise StopAsyncIteration
            raise IllegalState("the pipeline is closed")
        try:
            if not await self._fill():
                await self.aclose()
                raise StopAsyncIteration
            result = await arrived(self._window.popleft())
            self._given += 1
            self._notify()
            return result
        except BaseException:
            await self.aclose()
            raise

    async def _fill(self) -> bool:
        """Have a chunk at the head of the window. Returns False at the end of the source."""
        if self._feeding:
            while not self._window and not self._exhausted:
                await self._news.wait()
        else:
            while not self._exhausted and self._room() and not (self._window and is_over(self._window[0])):
                await self._start_one()
        if not self._window and self._failure is not None:
            raise self._failure
        return bool(self._window)

    # ---- the source's side

    async def _feed(self) -> None:
        with self._feeder:
            while not self._exhausted:
                while not self._room():
                    await self._news.wait()
                await self._start_one()

    def _room(self) -> bool:
        return self._started - self._given < self.in_flight

    async def _start_one(self) -> None:
        """Take a chunk from the source and enqueue everything that happens to it."""
        try:
            if isinstance(self._source, AsyncIterator):
                chunk = await anext(self._source)
            else:
                chunk = next(self._source)
            self._window.append(self._enqueue(chunk))
            self._started += 1
        except (StopIteration, StopAsyncIteration):
            self._exhausted = True
        except Exception as error:  # the source or a stage failed: the results before it are still given
            self._failure = error
            self._exhausted = True
        self._notify()

    def _enqueue(self, chunk: Any) -> Any:
        stream = self._streams[self._started % len(self._streams)]
        before = stream.owned
        value = stream.upload(chunk)
        for stage in self._stages:
            value = stage(stream, value)
        outcome = fetched(stream, value)
        for buffer in stream.owned:
            if buffer not in before:
                buffer.release_in(stream)
        return outcome

    def _notify(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()


def fetched(stream: Stream, value: Any) -> Any:
    """Enqueue fetching what the last stage returned."""
    if isinstance(value, tuple | list):
        return tuple(fetched(stream, each) for each in value)
    if isinstance(value, Buffer):
        return stream.fetch(value)
    if isinstance(value, Completion):
        return value
    raise InvalidType(f"the last stage returned {value!r}; a DeviceArray, a Completion or a tuple of them is right")


def drop(stream: Stream) -> None:
    """End a stream that nobody will close. A driver step."""
    stream.abort()
    stream.close()


async def arrived(outcome: Any) -> Any:
    """Wait for what `fetched` enqueued."""
    if isinstance(outcome, tuple):
        return tuple([await arrived(each) for each in outcome])
    try:
        return await outcome
    except PriorLaunchFailure:
        outcome.stream.raise_error()  # what failed, rather than that the fetch was skipped for it
        raise


def is_over(outcome: Any) -> bool:
    """Whether waiting for what `fetched` enqueued would take no time."""
    if isinstance(outcome, tuple):
        return all(is_over(each) for each in outcome)
    return bool(outcome.done)
