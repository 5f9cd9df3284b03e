"""An awaitable pipeline: chunks from an iterable through stages on several streams, results in order, n in flight."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from types import GeneratorType, TracebackType
from typing import Any, Protocol, TypeVar, overload

import anyio
import numpy.typing as npt

from atops.base.dtypes import Scalar
from atops.base.errors import IllegalState, InvalidType, InvalidValue, PriorLaunchFailure, StreamAborted
from atops.base.options import whole
from atops.base.waiting.current_loop import checkpoint, current_loop_adapter, running_loop_adapter
from atops.base.waiting.loop_adapter import HostTask
from atops.device.call_site import asked_at, caller
from atops.runtime.commands.call import is_async
from atops.runtime.core.completion import Completion, T_co
from atops.runtime.device import Device
from atops.runtime.executors.executor import Collectable
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.queues.abort import abort_and_wait
from atops.runtime.stream import Stream, queue_of

__all__ = ("Fetched", "Pipeline", "Stage", "pipeline")

Stage = Callable[[Stream, Any], Any]
T = TypeVar("T")
U = TypeVar("U")
A = TypeVar("A")
B = TypeVar("B")


class Fetched(Protocol[T_co]):
    """What a last stage returns and a pipeline yields as a `T_co`, for type checkers: a DeviceArray, a Completion."""

    def __fetched__(self) -> T_co:
        """Say what is yielded. Nothing calls it."""


@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[npt.NDArray[Scalar]]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    stage: Callable[[Stream, DeviceArray[Scalar]], Fetched[T]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[T]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    first: Callable[[Stream, DeviceArray[Scalar]], A],
    last: Callable[[Stream, A], Fetched[T]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[T]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    first: Callable[[Stream, DeviceArray[Scalar]], A],
    second: Callable[[Stream, A], B],
    last: Callable[[Stream, B], Fetched[T]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[T]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    stage: Callable[[Stream, DeviceArray[Scalar]], tuple[Fetched[T], Fetched[U]]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[tuple[T, U]]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    first: Callable[[Stream, DeviceArray[Scalar]], A],
    last: Callable[[Stream, A], tuple[Fetched[T], Fetched[U]]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[tuple[T, U]]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    first: Callable[[Stream, DeviceArray[Scalar]], A],
    second: Callable[[Stream, A], B],
    last: Callable[[Stream, B], tuple[Fetched[T], Fetched[U]]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[tuple[T, U]]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    stage: Callable[[Stream, DeviceArray[Scalar]], Sequence[Fetched[T]]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[tuple[T, ...]]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    first: Callable[[Stream, DeviceArray[Scalar]], A],
    last: Callable[[Stream, A], Sequence[Fetched[T]]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[tuple[T, ...]]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[npt.NDArray[Scalar]] | AsyncIterable[npt.NDArray[Scalar]],
    first: Callable[[Stream, DeviceArray[Scalar]], A],
    second: Callable[[Stream, A], B],
    last: Callable[[Stream, B], Sequence[Fetched[T]]],
    /, *, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline[tuple[T, ...]]: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[Sequence[object]] | AsyncIterable[Sequence[object]], /, *stages: Stage,
    device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline: ...  # fmt: skip
@overload
def pipeline(
    source: Iterable[object] | AsyncIterable[object], first: Stage, second: Stage, third: Stage, fourth: Stage, /,
    *more: Stage, device: Device | None = None, streams: int = 4, in_flight: int = 8,
) -> Pipeline: ...  # fmt: skip
def pipeline(
    source: Iterable[object] | AsyncIterable[object],
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

    Inside `async with` chunks are taken and started while the consumer is busy; a plain `async for` does so only while
    it waits for a result. Either way a slow source does not delay a result that is ready. A plain iterable is advanced
    on the event loop: let it not block. When the block ends, by an error or a cancellation too, the streams' work is
    dropped and all they allocated is freed; without a block `aclose` does that.

    Raises InvalidType for a source or a stage that is none, InvalidValue for numbers below 1, and IllegalState where no
    loop runs.
    """
    return Pipeline(source, stages, Device() if device is None else device, streams, in_flight)


def _check_stages(stages: tuple[Stage, ...], streams: int, in_flight: int) -> None:
    for what, count in (("streams", streams), ("in_flight", in_flight)):
        if not whole(count) or count < 1:
            raise InvalidValue(f"{what} is {count!r}; expected at least 1")
    for stage in stages:
        if not callable(stage):
            raise InvalidType(f"the stage {stage!r} is no function; expected stage(stream, array)")
        if is_async(stage):
            raise InvalidType(f"the stage {stage!r} is a coroutine function; a stage is a def, which enqueues")


class Pipeline(AsyncIterator[T_co], Collectable):
    """What `pipeline` returns: an async iterator and an async context manager."""

    def __init__(
        self,
        source: object = None,
        stages: tuple[Stage, ...] = (),
        device: Device | None = None,
        streams: int = 1,
        in_flight: int = 1,
    ) -> None:
        if source is None and device is None:  # a call of the program's; `pipeline` gives both
            raise InvalidType("Pipeline() makes no pipeline; use atops.pipeline(source, *stages)")
        _check_stages(stages, streams, in_flight)
        if not isinstance(device, Device):
            raise InvalidType(f"the device of a pipeline is {device!r}; expected a Device")
        if not isinstance(source, Iterable | AsyncIterable):
            raise InvalidType(f"the source {source!r} is not iterable; expected an (async) iterable of arrays")
        if running_loop_adapter() is None:
            raise IllegalState("a pipeline belongs to the loop that runs where it is made, and none runs here")
        self.in_flight = in_flight
        self._device = device
        self._site = caller()  # what it enqueues itself was asked for here
        self._source: Any = aiter(source) if isinstance(source, AsyncIterable) else iter(source)
        self._reader: _SourceReader | None = None  # of an async source, where no task of a block reads it
        self._stages = stages
        self._streams = [device.create_stream(name=f"pipeline {number}") for number in range(streams)]
        self._window: deque[object] = deque()  # of what each chunk's stages returned, in order
        self._started = 0
        self._given = 0  # chunks that the consumer has taken
        self._arriving = 0  # results that tasks wait for: as many as there are consumers, mostly one
        self._exhausted = False
        self._closed = False
        self._failure: BaseException | None = None
        self._feeding = False  # a task of its own reads the source
        self._feeder = anyio.CancelScope()
        self._news = anyio.Event()  # the window, the room in it or the source's end changed
        self._tasks: Any = None
        self._executor = device.context.board.executor
        self._executor.start()
        self.when_collected(self._executor, partial(_drop, self._streams, None))

    def __repr__(self) -> str:
        streams, stages, chunks = len(self._streams), len(self._stages), len(self._window)
        state = "closed" if self._closed else f"{chunks} of {self.in_flight} chunks in flight"
        return f"<Pipeline of {stages} stages over {streams} streams on device {self._device.ordinal}, {state}>"

    # ---- lifecycle

    async def __aenter__(self) -> Pipeline[T_co]:
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
            self.settled()
            for stream in self._streams:
                stream.abort()
                stream.close()
            self._window.clear()
            self._notify()  # waits for a result in other tasks
            await abort_and_wait([queue_of(stream) for stream in self._streams])

    async def _end_source(self) -> None:
        if self._feeding:
            self._feeder.cancel()  # it may be inside the source now; the end of the scope waits for it, then closes
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

    def __aiter__(self) -> Pipeline[T_co]:
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
                return await self._take()  # type: ignore[no-any-return]  # what the stages said
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

    async def _take(self) -> Any:
        self._arriving += 1
        try:
            result = await _arrived(self._window.popleft())
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
        return bool(self._window) and _is_over(self._window[0])

    async def _advance(self) -> None:
        """Start the source's next chunk, or return when the head's result is there before it."""
        if isinstance(self._source, AsyncIterator):
            if self._reader is None:
                self._reader = _SourceReader(self._source)
                self.when_collected(self._executor, partial(_drop, self._streams, self._reader))
            self._reader.ask()
            if self._window:
                async with anyio.create_task_group() as race:
                    for wait in (self._reader.ready, partial(_over, self._window[0])):
                        race.start_soon(_first, wait, race.cancel_scope)
            else:
                await self._reader.ready()
            if self._closed or not self._reader.has_answer:
                return
        await self._start_one()

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
            chunk = await self._next_chunk()
        except StopAsyncIteration:
            self._exhausted = True
        except Exception as error:
            self._fail(error)
        except anyio.get_cancelled_exc_class() as error:
            if anyio.current_effective_deadline() == -math.inf:  # of this task, from anywhere
                raise
            # What the source waited for was cancelled: a failure of the source, and no wish to end the consumer.
            failure = RuntimeError(f"the source {self._source!r} raised {error!r}, though it was not cancelled")
            failure.__cause__ = error
            self._fail(failure)
        else:
            try:
                self._window.append(self._enqueue(chunk))
                self._started += 1
            except Exception as error:
                self._fail(error)
        self._notify()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, StopIteration | StopAsyncIteration):  # to an iteration that would be its good end
            cause, error = error, RuntimeError(f"a stage of the pipeline raised {error!r}")
            error.__cause__ = cause
        self._failure = error
        self._exhausted = True

    async def _next_chunk(self) -> object:
        if self._reader is not None:
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
            raise RuntimeError(f"the source {self._source!r} raised {error!r}") from error

    def _enqueue(self, chunk: object) -> object:
        stream = self._streams[self._started % len(self._streams)]
        queue = queue_of(stream)
        before = queue.owned
        with asked_at(self._site):
            value = stream.upload(chunk)
        for stage in self._stages:
            value = stage(stream, value)
        with asked_at(self._site):
            outcome = _fetched(stream, value)
            for allocation, buffer in queue.owned.items():
                if allocation not in before:
                    buffer.release_in(queue)
        return outcome

    def _notify(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()


def _fetched(stream: Stream, value: object) -> object:
    """Enqueue fetching what the last stage returned."""
    if isinstance(value, tuple | list):
        return tuple(_fetched(stream, each) for each in value)
    if isinstance(value, Buffer):
        return stream.fetch(value)
    if isinstance(value, Completion):
        return value
    raise InvalidType(f"the last stage returned {value!r}; expected a DeviceArray, a Completion or a tuple of them")


def _drop(streams: list[Stream], reader: _SourceReader | None) -> None:
    """End what a pipeline has that is never closed. A driver step."""
    for stream in streams:
        stream.abort()
        stream.close()
    if reader is not None:
        reader.cancel()


async def _arrived(outcome: Any) -> object:
    if isinstance(outcome, tuple):
        return tuple([await _arrived(each) for each in outcome])
    try:
        return await outcome
    except PriorLaunchFailure:
        outcome.queue.raise_error()  # what failed, rather than that the fetch was skipped for it
        raise


async def _over(outcome: object) -> None:
    """Wait until what `_fetched` enqueued is over, well or not."""
    for each in outcome if isinstance(outcome, tuple) else (outcome,):
        if isinstance(each, tuple):
            await _over(each)
        else:
            await current_loop_adapter().park(each)


async def _first(wait: Callable[[], Awaitable[None]], race: anyio.CancelScope) -> None:
    """Wait, then end the wait of the others in the race."""
    await wait()
    race.cancel()


def _is_over(outcome: Any) -> bool:
    """Whether waiting for what `_fetched` enqueued would take no time."""
    if isinstance(outcome, tuple):
        return all(_is_over(each) for each in outcome)
    return bool(outcome.over)


# ---- an async source


class _SourceReader:
    """Takes one chunk from an async iterator whenever it is asked.

    A task that has asked may turn to something else, or be cancelled: the source does not notice. It is always the same
    task that is inside the source, which may hold cancel scopes open from one chunk to the next. It belongs to the
    loop, starts with the first `ask` and ends with the source or `aclose`. One loop only.
    """

    def __init__(self, source: AsyncIterator[object]) -> None:
        self._source = source
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
            self._task = current_loop_adapter().spawn(self._run, copy_context(), self._ended)
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
            self._give(IllegalState(f"the task that reads {self._source!r} has ended: {error!r}"), None)
        self._over.set()

    async def _close_source(self) -> None:
        if not self._closed:
            self._closed = True
            if (close := getattr(self._source, "aclose", None)) is not None:
                await close()
