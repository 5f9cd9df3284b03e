"""An awaitable pipeline: chunks from an iterable through stages on several streams, results in order, n in flight."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import numpy.typing as npt

from atops.base.dtypes import Scalar
from atops.base.errors import InvalidType, PriorLaunchFailure
from atops.base.waiting.chunk_window import ChunkWindow, check_count
from atops.base.waiting.current_loop import current_loop_adapter
from atops.base.waiting.source_reader import SourceReader
from atops.device.call_site import Site, asked_at, caller
from atops.runtime.commands.call import is_async
from atops.runtime.core.completion import Completion, T_co
from atops.runtime.core.host_waits import standing
from atops.runtime.device import Device
from atops.runtime.executors.executor import Collectable
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.queues.abort import abort_and_wait
from atops.runtime.stream import Stream, queue_of

__all__ = ("Fetched", "Pipeline", "Stage", "check_stages", "pipeline", "through")

Stage = Callable[[Stream, Any], Any]
Outcome: TypeAlias = "Completion | tuple[Outcome, ...]"  # what a result is waited for by
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


def check_stages(stages: tuple[Stage, ...]) -> None:
    """Raise InvalidType for a stage that is no function, or a coroutine function."""
    for stage in stages:
        if not callable(stage):
            raise InvalidType(f"the stage {stage!r} is no function; expected stage(stream, array)")
        if is_async(stage):
            raise InvalidType(f"the stage {stage!r} is a coroutine function; a stage is a def, which enqueues")


class Pipeline(ChunkWindow[T_co, Outcome], Collectable):
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
        check_count("streams", streams)
        check_count("in_flight", in_flight)
        check_stages(stages)
        if not isinstance(device, Device):
            raise InvalidType(f"the device of a pipeline is {device!r}; expected a Device")
        super().__init__(source, in_flight)
        self._device = device
        self._site = caller()  # what it enqueues itself was asked for here
        self._stages = stages
        self._streams = [device.create_stream(name=f"pipeline {number}") for number in range(streams)]
        self._executor = device.context.board.executor
        self._executor.start()
        self.when_collected(self._executor, partial(_drop, self._streams, None))

    def __repr__(self) -> str:
        streams, stages = len(self._streams), len(self._stages)
        return f"<Pipeline of {stages} stages over {streams} streams on device {self._device.ordinal}, {self._state}>"

    def _begin(self, chunk: object) -> Outcome:
        """Enqueue everything that happens to a chunk."""
        return through(self._streams[self._started % len(self._streams)], self._stages, chunk, self._site)

    async def _arrived(self, outcome: Outcome) -> Any:
        """Return what was fetched. Raises what failed."""
        if isinstance(outcome, tuple):
            return tuple([await self._arrived(each) for each in outcome])
        try:
            return await outcome
        except PriorLaunchFailure:
            outcome.queue.raise_error()  # what failed, rather than that the fetch was skipped for it
            raise

    async def _over(self, outcome: Outcome) -> None:
        """Wait until it is fetched, or the fetch has failed."""
        for each in outcome if isinstance(outcome, tuple) else (outcome,):
            if isinstance(each, tuple):
                await self._over(each)
            else:
                with standing(each.queue.board.tracer, each.seq):
                    await current_loop_adapter().park(each)

    def _is_over(self, outcome: Outcome) -> bool:
        """Whether waiting for what `through` enqueued would take no time."""
        if isinstance(outcome, tuple):
            return all(map(self._is_over, outcome))
        return outcome.over

    def _drop(self) -> None:
        """Abort the streams, which frees what they have allocated."""
        self.settled()
        for stream in self._streams:
            stream.abort()
            stream.close()

    async def _dropped(self) -> None:
        """Wait until the streams are over."""
        await abort_and_wait([queue_of(stream) for stream in self._streams])

    def _reads_with(self, reader: SourceReader) -> None:
        """Have the reader's task end, too, where the pipeline is collected."""
        self.when_collected(self._executor, partial(_drop, self._streams, reader))


def through(
    stream: Stream, stages: Sequence[Stage], chunk: object, site: Site, ends: list[int] | None = None
) -> Outcome:
    """Enqueue on a stream all that happens to a chunk, frees too. Returns what its result is waited for by.

    `site` is where this was asked for. `ends` takes the number of the driver's newest command after the upload, and
    after each stage. Raises what a stage raises.
    """
    queue = queue_of(stream)
    before = queue.owned
    with asked_at(site):
        value: Any = stream.upload(chunk)
    if ends is not None:
        ends.append(queue.board.seq)
    for number, stage in enumerate(stages):
        try:
            value = stage(stream, value)
        except BaseException as error:
            error.add_note(f"in stage {number} of the pipeline, {getattr(stage, '__name__', stage)}")
            raise
        if ends is not None:
            ends.append(queue.board.seq)
    with asked_at(site):
        outcome = _fetched(stream, value)
        for allocation, buffer in queue.owned.items():
            if allocation not in before:
                buffer.release_in(queue)
    return outcome


def _fetched(stream: Stream, value: object) -> Outcome:
    """Enqueue fetching what the last stage returned."""
    if isinstance(value, tuple | list):
        return tuple(_fetched(stream, each) for each in value)
    if isinstance(value, Buffer):
        return stream.fetch(value)
    if isinstance(value, Completion):
        return value
    raise InvalidType(f"the last stage returned {value!r}; expected a DeviceArray, a Completion or a tuple of them")


def _drop(streams: list[Stream], reader: SourceReader | None) -> None:
    """End what a pipeline has that is never closed. A driver step."""
    for stream in streams:
        stream.abort()
        stream.close()
    if reader is not None:
        reader.cancel()
