"""Pipelines on a cluster: chunks on its workers, results in order."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections import deque
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from traceback import clear_frames
from types import GeneratorType, TracebackType
from typing import Any, Self

import dask
from distributed import Client, Future
from distributed.comm import CommClosedError

from atops.base.errors import ClusterError, IllegalState, InvalidType, InvalidValue
from atops.base.options import EmulatorOptions, whole
from atops.base.waiting.chunk_window import ChunkWindow, check_count
from atops.distributed.cluster import check_client, losses, open_boards, reaching, result_of, sendable
from atops.distributed.worker import Job, abort_job, run_chunk, versions
from atops.runtime.pipeline import Stage, check_stages

__all__ = ("ClusterPipeline", "PlainPipeline", "pipeline")

LARGEST = "1 TiB"  # of a chunk: below it Dask does not warn of large graphs
MOST_SECONDS = 60.0  # to wait for the workers to end what they had
CLOSED = ("closing", "closed")  # a client
AHEAD = 2  # chunks in flight for each thread of the workers, unless told otherwise


def pipeline(
    source: Iterable[object] | AsyncIterable[object],
    stages: Stage | Sequence[Stage],
    client: Client,
    *,
    devices: Sequence[int] | None = None,
    in_flight: int | None = None,
    options: EmulatorOptions | None = None,
) -> ClusterPipeline | PlainPipeline:
    """Send each host array of `source` through `stages` on the workers of a cluster, and yield the results in order.

    The contract is that of `atops.pipeline`: a stage is `stage(stream, array) -> array`, what the last one returns is
    fetched, at most `in_flight` chunks are between source and consumer (unless told otherwise two for each thread of
    the workers), the first failure is raised and names chunk and worker. Each worker has a driver with a board of its
    own, which is opened with `options`, or as the worker's environment says, by the first pipeline that comes; chunk
    i runs on device i modulo `devices`, which are all of the board unless told otherwise.

    With `Client(asynchronous=True)`:

        async with atops.distributed.pipeline(chunks, stage, client) as results:
            async for result in results:
                ...

    With a plain client the same without `async`; then chunks are taken from the source in `next`, on this thread.

    A chunk whose worker dies is run again on another one: a stage may run more than once for a chunk, and has to be a
    function of its chunk alone. Stages and what they refer to are sent by cloudpickle; kernels are, too.

    Raises InvalidType for a source, stages or a client that are none, and for stages that cannot be sent; InvalidValue
    for other arguments; IllegalState for a client that is closed; NotSupported in trio, and while it runs where a
    worker has other versions; ClusterError, now and while it runs, where the scheduler is lost, and where a chunk took
    several workers with it.
    """
    client = check_client(client)
    chain = (stages,) if callable(stages) else tuple(stages)
    check_stages(chain)
    if devices is not None and not isinstance(devices, Sequence):
        raise InvalidType(f"devices are {devices!r}; expected ordinals of devices of the boards: [0, 1], range(2)")
    if devices is not None and (not devices or not all(whole(each) and each >= 0 for each in devices)):
        raise InvalidValue(f"devices are {devices!r}; expected ordinals of devices of the workers' boards")
    if options is not None and not isinstance(options, EmulatorOptions):
        raise InvalidType(f"the options are {options!r}; expected EmulatorOptions")
    names = tuple(str(getattr(each, "__name__", None) or type(each).__name__) for each in chain)
    parts = (part for number, each in enumerate(chain) for part in _parts(f"stage {number}, {names[number]}", each))
    what = f"the stage{'s' if len(chain) > 1 else ''} {', '.join(names)}"
    job = Job(
        secrets.token_hex(4), "|".join(names) or "copy", sendable(what, chain, parts), names,
        None if devices is None else tuple(devices), options, versions(),
    )  # fmt: skip
    if in_flight is not None:
        check_count("in_flight", in_flight)
    kind = ClusterPipeline if client.asynchronous else PlainPipeline
    return kind(source, job, client, in_flight)


class _Work:
    """What both kinds of pipelines ask of a cluster."""

    def __init__(self, client: Client, job: Job) -> None:
        self.client, self.job = client, job

    async def open(self) -> int:
        """Have a board on each worker. Returns how many chunks keep them busy."""
        with reaching(self.client, f"the pipeline {self.job.name}"):
            await open_boards(self.client, self.job.options)
            threads: dict[str, int] = await self.client.nthreads()
        return max(2, AHEAD * sum(threads.values()))

    def submit(self, index: int, chunk: object) -> Future:
        """Have a chunk run on some worker. Dask has it run again where that worker dies: the task has the chunk.

        Raises InvalidType for a chunk that cannot be sent.
        """
        key = f"{self.job.name}-{self.job.id}-{index}"  # the dashboard groups by what stands before the number
        try:
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGEST}):
                return self.client.submit(run_chunk, self.job, index, chunk, key=key, pure=False)
        except TypeError as error:
            clear_frames(error.__traceback__)  # they hold Dask's future for the chunk
            cause = error.__cause__ or error
            raise InvalidType(f"chunk {index} of {self.job.name} cannot be sent to a worker: {cause}") from cause

    @contextmanager
    def result(self, index: int) -> Iterator[None]:
        """Turn Dask's losses into ours, around the wait for a chunk."""
        try:
            with losses(f"chunk {index} of {self.job.name}"):
                yield
        except ClusterError:
            self.check_open()
            raise

    def check_open(self) -> None:
        """Raise IllegalState where the client was closed."""
        if self.client.status in CLOSED:
            raise IllegalState(f"{self.client!r} was closed before its pipeline {self.job.name} was over")

    async def abort(self) -> None:
        """End what runs of the job, on all workers that there are."""
        if self.client.status == "running":
            with suppress(OSError, CommClosedError, TimeoutError):  # no scheduler: its workers end what they have
                run = self.client.run(abort_job, self.job.id, on_error="return")
                await asyncio.wait_for(run, MOST_SECONDS)


class ClusterPipeline(ChunkWindow[Any, tuple[int, Future]]):
    """What `pipeline` returns for an asynchronous client: an async iterator and an async context manager."""

    def __init__(self, source: object, job: Job, client: Client, in_flight: int | None) -> None:
        super().__init__(source, 1 if in_flight is None else in_flight)
        self._work = _Work(client, job)
        self._as_many = in_flight is None
        self._opening: asyncio.Task[int] | None = None
        self._ending: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<ClusterPipeline {self._work.job.name} over {self._work.client!r}, {self._state}>"

    async def _next_chunk(self) -> object:
        """Return the source's next chunk, once there are boards. Raises as the source, and as `open_boards`."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._work.open())
        most = await asyncio.shield(self._opening)
        if self._as_many:
            self.in_flight = most
        return await super()._next_chunk()

    def _begin(self, chunk: object) -> tuple[int, Future]:
        """Submit a chunk."""
        return self._started, self._work.submit(self._started, chunk)

    async def _arrived(self, outcome: tuple[int, Future]) -> object:
        """Return a result."""
        index, future = outcome
        try:
            with self._work.result(index):
                return await result_of(future)
        finally:
            future.release()

    async def _over(self, outcome: tuple[int, Future]) -> None:
        """Wait until a chunk is done, or has failed."""
        with suppress(CancelledError):  # which the result tells
            await outcome[1].exception()

    def _is_over(self, outcome: tuple[int, Future]) -> bool:
        """Whether a chunk is done, or has failed."""
        return bool(outcome[1].done())

    def _drop(self) -> None:
        """Let go of the chunks: those that no worker has begun are forgotten."""
        for _, future in self._window:
            future.release()

    async def _dropped(self) -> None:
        """Wait until the workers have ended what they had of it. A cancellation is raised once they have."""
        if self._opening is None:
            return
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_work(self._opening))
        cancelled: BaseException | None = None
        while not self._ending.done():
            try:
                await asyncio.shield(self._ending)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _end_work(self, opening: asyncio.Task[int]) -> None:
        with suppress(Exception):  # told to who waits for chunks
            await opening
        await self._work.abort()


class PlainPipeline(Iterator[Any]):
    """What `pipeline` returns for a plain client: an iterator and a context manager. Not for several threads."""

    def __init__(self, source: object, job: Job, client: Client, in_flight: int | None) -> None:
        if not isinstance(source, Iterable):
            cure = "an async source needs Client(asynchronous=True)" if isinstance(source, AsyncIterable) else ""
            raise InvalidType(f"the source {source!r} is not iterable; {cure or 'expected an iterable of arrays'}")
        self._source = iter(source)
        self._work = _Work(client, job)
        self.in_flight = in_flight
        self._window: deque[tuple[int, Future]] = deque()
        self._started = 0
        self._opened = self._exhausted = self._closed = False
        self._failure: Exception | None = None

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._window)} of {self.in_flight} chunks in flight"
        return f"<PlainPipeline {self._work.job.name} over {self._work.client!r}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        """Refuse. Raises InvalidType."""
        raise InvalidType("`async for` needs Client(asynchronous=True); this client is a plain one: use `for`")

    def __next__(self) -> Any:
        """Return the next result. Raises what its chunk, its stage or the source failed with; then all is closed."""
        if self._closed:
            if self._exhausted and not self._window:
                raise StopIteration
            raise IllegalState("the pipeline is closed")
        try:
            self._work.check_open()
            self._fill()
            if self._window:
                index, future = self._window.popleft()
                try:
                    with self._work.result(index):
                        return future.result()
                finally:
                    future.release()
            if self._failure is not None:
                raise self._failure
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopIteration

    def _fill(self) -> None:
        """Take chunks while there is room, and no more than one where a result is there already."""
        client = self._work.client
        if not self._opened:
            most = client.sync(self._work.open)
            self.in_flight = most if self.in_flight is None else self.in_flight
            self._opened = True
        assert self.in_flight is not None, "opened"
        while not self._exhausted and len(self._window) < self.in_flight:
            try:
                chunk = next(self._source)
            except StopIteration:
                self._exhausted = True
                return
            except Exception as error:  # comes after the results of the chunks before it
                self._failure, self._exhausted = error, True
                return
            try:
                self._window.append((self._started, self._work.submit(self._started, chunk)))
                self._started += 1
            except Exception as error:
                self._failure, self._exhausted = error, True
                return
            if self._window[0][1].done():
                return

    def close(self) -> None:
        """Drop what is in flight and close the source. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            for _, future in self._window:
                future.release()
            self._window.clear()
            if self._opened and self._work.client.status not in CLOSED:
                self._work.client.sync(self._work.abort)
        finally:
            if isinstance(self._source, GeneratorType):
                self._source.close()


def _parts(name: str, stage: Stage) -> Iterator[tuple[str, object]]:
    """Return what a stage refers to, for a message: the names that it has from outside, then itself."""
    function = inspect.unwrap(getattr(stage, "func", stage))  # of a partial
    if inspect.isfunction(function):
        found = inspect.getclosurevars(function)
        for each, value in {**found.globals, **found.nonlocals}.items():
            yield f"{each!r} of {name}", value
    yield name, stage
