"""Pipelines: results in order, sources held back, errors from every place told, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import numpy as np
import pytest
import sniffio
from anyio.lowlevel import checkpoint

from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, InvalidValue, LaunchFailure
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.pipeline import pipeline
from tests.runtime.boards import PATIENCE, Latch, add_one, board, broken, leftovers, settled

anyio_test = pytest.mark.anyio
pytestmark = anyio_test


def chunk(number: int) -> Any:
    """Return the chunk of this number: all its elements are the number."""
    return np.full(24, number, np.int32)


class Source:
    """An async source that counts what was taken from it and can be held at any chunk."""

    def __init__(self, chunks: int, hold_at: int = -1) -> None:
        self.taken = 0
        self.closed = False
        self.gate = anyio.Event()
        self.reached = anyio.Event()
        self._chunks = chunks
        self._hold_at = hold_at

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            while self.taken < self._chunks:
                if self.taken == self._hold_at:
                    self.reached.set()
                    await self.gate.wait()
                await checkpoint()
                self.taken += 1
                yield chunk(self.taken - 1)
        finally:
            self.closed = True


def plus_one(stream: Any, array: Any) -> Any:
    """Add one to every element, in place."""
    stream.launch(add_one, (2, 12), array)
    return array


def doubled(stream: Any, array: Any) -> Any:
    """Return a new array with the double of every element."""
    result = stream.empty_like(array)
    stream.launch(double, (1, 1), result, array)
    return result


@k.kernel
def double(y: Any, x: Any) -> None:
    """Store the double of x in y."""
    for index in range(x.size):
        y[index] = 2 * x[index]


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A board on which, at the end of the test, nothing may be left."""
    with board() as made:
        yield made
        assert leftovers(made) == {}


@pytest.fixture
def device(driver: Driver) -> Device:
    """Its device 0."""
    return Device(0, driver)


async def collect(results: Any) -> list[int]:
    """Consume results whose elements are all alike, and return one element of each."""
    found = []
    async for result in results:
        assert (result == result[0]).all()
        found.append(int(result[0]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("streams", [1, 3, 8])
@pytest.mark.parametrize("in_flight", [1, 2, 16])
async def test_results_come_in_order(device: Device, streams: int, in_flight: int) -> None:
    """Whatever the number of streams and of chunks in flight: all results, each once, in the source's order."""
    async with pipeline(Source(25), plus_one, plus_one, device=device, streams=streams, in_flight=in_flight) as results:
        assert await collect(results) == [number + 2 for number in range(25)]


async def test_results_without_a_scope(device: Device) -> None:
    """A plain `async for` over plain and async iterables; an empty source ends at once."""
    for source in ([chunk(number) for number in range(10)], Source(10)):
        results = pipeline(source, plus_one, device=device)
        assert await collect(results) == list(range(1, 11))
        with pytest.raises(StopAsyncIteration):
            await anext(results)
    assert await collect(pipeline([], plus_one, device=device)) == []


@pytest.mark.slow
async def test_late_work_keeps_the_order(device: Device) -> None:
    """A chunk that is held up holds back the results behind it, though they are ready."""
    latch = Latch(device)
    seen = []

    def stage(stream: Any, array: Any) -> Any:
        if not seen:
            latch.hold(stream)
        seen.append(array)
        return plus_one(stream, array)

    got: list[int] = []
    async with pipeline(Source(6), stage, device=device, streams=3, in_flight=3) as results:

        async def consume() -> None:
            got.extend(await collect(results))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            await anyio.wait_all_tasks_blocked()
            assert (got, len(seen)) == ([], 3)
            latch.open()
    assert got == [1, 2, 3, 4, 5, 6]
    latch.close()


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [1, 2, 5])
@pytest.mark.parametrize("scoped", [True, False])
async def test_the_source_is_never_far_ahead(device: Device, in_flight: int, scoped: bool) -> None:
    """At most `in_flight` chunks are between the source and a consumer that takes its time."""
    source = Source(20)
    results = pipeline(source, plus_one, device=device, in_flight=in_flight)
    if scoped:
        await results.__aenter__()
    for given in range(20):
        await anyio.wait_all_tasks_blocked()
        assert source.taken <= given + in_flight
        if scoped and given + in_flight <= 20:
            assert source.taken == given + in_flight
        assert (await anext(results) == given + 1).all()
    with pytest.raises(StopAsyncIteration):
        await anext(results)
    if scoped:
        await results.__aexit__(None, None, None)


async def test_a_slow_source_does_not_delay_what_is_ready(device: Device) -> None:
    """Inside `async with`, results that are ready are given while the source is still busy with the next chunk."""
    source = Source(5, hold_at=3)
    async with pipeline(source, plus_one, device=device) as results:
        with anyio.fail_after(PATIENCE):
            for number in range(3):
                assert (await anext(results) == number + 1).all()
            await source.reached.wait()
            source.gate.set()
            assert await collect(results) == [4, 5]


@pytest.mark.parametrize("scoped", [True, False])
async def test_a_result_that_gets_ready_does_not_wait_for_the_source(device: Device, scoped: bool) -> None:
    """A result that is ready only after the source was asked is given while the source still works on its chunk."""
    source, latch = Source(3, hold_at=1), Latch(device)

    def stage(stream: Any, array: Any) -> Any:
        latch.hold(stream)
        return plus_one(stream, array)

    results = pipeline(source, stage, device=device)
    if scoped:
        await results.__aenter__()

    async def open_later() -> None:
        await source.reached.wait()
        await anyio.wait_all_tasks_blocked()
        latch.open()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_later)
            assert (await anext(results) == 1).all()
        assert source.taken == 1
        source.gate.set()
        assert await collect(results) == [2, 3]
    if scoped:
        await results.__aexit__(None, None, None)
    latch.close()


async def test_a_source_may_hold_a_scope_open(device: Device) -> None:
    """An async source is always entered by the same task: what it holds open between two chunks stays sound."""

    async def source() -> AsyncIterator[Any]:
        async with anyio.create_task_group():
            for number in range(5):
                await checkpoint()
                yield chunk(number)

    assert await collect(pipeline(source(), plus_one, device=device)) == [1, 2, 3, 4, 5]


async def test_a_plain_pipeline_may_be_entered_later(device: Device) -> None:
    """The block goes on where the plain iteration stopped, though the source is in the middle of a chunk."""
    source = Source(6, hold_at=2)
    results = pipeline(source, plus_one, device=device, in_flight=3)
    with anyio.fail_after(PATIENCE):
        assert [(await anext(results))[0] for _ in range(2)] == [1, 2]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(entered, results, [3, 4, 5, 6])
            await source.reached.wait()
            source.gate.set()
    assert source.closed


async def entered(results: Any, expected: list[int]) -> None:
    """Consume what is left of a pipeline in its block."""
    async with results:
        assert await collect(results) == expected


async def test_stages_of_all_kinds(device: Device) -> None:
    """New arrays, host work, tuples, and a last stage that gives a completion."""

    def both(stream: Any, array: Any) -> Any:
        return array, doubled(stream, array), stream.call(lambda: "host")

    found = []
    async with pipeline([chunk(n) for n in range(5)], plus_one, both, device=device, streams=2) as results:
        async for same, twice, said in results:
            found.append((int(same[0]), int(twice[-1]), said))
    assert found == [(n + 1, 2 * n + 2, "host") for n in range(5)]


# ---- errors


class Trouble(Exception):
    """What sources and stages raise here."""


async def take_firsts(results: Any, taken: list[int], scoped: bool) -> None:
    """Append the first element of each result, inside the pipeline's scope or without one."""
    async with results if scoped else contextlib.nullcontext():
        async for result in results:
            taken.append(int(result[0]))


@pytest.mark.slow
async def test_an_error_in_the_source(device: Device) -> None:
    """The results before it are still given, then it is raised, and the pipeline is closed."""

    async def source() -> AsyncIterator[Any]:
        yield chunk(0)
        yield chunk(1)
        raise Trouble("in the source")

    def plain() -> Iterator[Any]:
        yield chunk(0)
        yield chunk(1)
        raise Trouble("in the source")

    for make in (source, plain):
        for scoped in (True, False):
            got: list[int] = []
            results = pipeline(make(), plus_one, device=device)
            with pytest.raises(Trouble, match="in the source"):
                await take_firsts(results, got, scoped)
            assert got == [1, 2]
            with pytest.raises(StopAsyncIteration):
                await anext(results)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("scoped", [True, False])
async def test_a_source_whose_wait_was_cancelled(device: Device, scoped: bool) -> None:
    """It is a failure of the source, told to the consumer in its turn: the consumer was not cancelled."""

    async def source() -> AsyncIterator[Any]:
        yield chunk(0)
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    got: list[int] = []
    results = pipeline(source(), plus_one, device=device)
    with pytest.raises((RuntimeError, IllegalState), match="CancelledError"):
        await take_firsts(results, got, scoped)
    assert got == [1]


async def test_an_error_in_a_stage(device: Device) -> None:
    """A stage that raises half-way leaves nothing of its chunk; the results before it are given."""
    calls = []

    def stage(stream: Any, array: Any) -> Any:
        calls.append(stream.zeros(1000))
        if len(calls) == 3:
            raise Trouble("in a stage")
        return plus_one(stream, array)

    got: list[int] = []
    with pytest.raises(Trouble, match="in a stage"):
        async with pipeline(Source(10), stage, device=device, in_flight=2) as results:
            async for result in results:
                got.append(int(result[0]))
    assert got == [1, 2]
    calls.clear()


@pytest.mark.slow
@pytest.mark.parametrize("slow", [False, True])
async def test_an_error_in_a_kernel(device: Device, slow: bool) -> None:
    """A kernel that fails is raised at its result, with its own error, also while the source is still busy."""
    calls = []

    def stage(stream: Any, array: Any) -> Any:
        calls.append(1)
        stream.launch(broken if len(calls) == 3 else add_one, (2, 12), *([] if len(calls) == 3 else [array]))
        return array

    source = Source(10, hold_at=4 if slow else -1)
    got: list[int] = []
    with anyio.fail_after(PATIENCE), pytest.raises(LaunchFailure, match="a kernel that fails"):
        async with pipeline(source, stage, device=device, streams=2, in_flight=8) as results:
            if slow:
                await source.reached.wait()
            async for result in results:
                got.append(int(result[0]))
    assert got == [1, 2]
    assert source.closed


async def test_a_bad_last_stage(device: Device) -> None:
    """What the last stage returns must be something that can be fetched; the message shows what it was."""
    with pytest.raises(InvalidType, match="'nothing useful'"):
        await collect(pipeline([chunk(1)], lambda stream, array: "nothing useful", device=device))
    with pytest.raises(InvalidType, match="None"):
        await collect(pipeline([chunk(1)], lambda stream, array: None, device=device))


async def test_bad_arguments(device: Device) -> None:
    """Sources, stages and numbers are checked when the pipeline is made."""
    for wrong, error in (
        (lambda: pipeline(7, plus_one, device=device), InvalidType),  # type: ignore[arg-type]
        (lambda: pipeline([], "stage", device=device), InvalidType),  # type: ignore[arg-type]
        (lambda: pipeline([], plus_one, device=device, streams=0), InvalidValue),
        (lambda: pipeline([], plus_one, device=device, in_flight=0), InvalidValue),
        (lambda: pipeline([], plus_one, device=device, in_flight=1.5), InvalidValue),  # type: ignore[arg-type]
    ):
        with pytest.raises(error):
            wrong()


# ---- leaving early


async def test_an_early_break(device: Device) -> None:
    """Leaving the loop and the scope drops what is in flight, closes the source and frees everything."""
    source = Source(100)
    async with pipeline(source, plus_one, doubled, device=device, in_flight=6) as results:
        async for result in results:
            if result[0] >= 6:
                break
    assert source.closed
    assert source.taken < 20


@pytest.mark.slow
async def test_an_early_break_without_a_scope(device: Device) -> None:
    """`aclose` does the same; it may be called twice, and no results can be taken afterwards."""
    source = Source(100)
    results = pipeline(source, plus_one, device=device)
    async for _ in results:
        break
    await results.aclose()
    await results.aclose()
    assert source.closed
    with pytest.raises(IllegalState):
        await anext(results)


async def test_a_forgotten_pipeline(device: Device) -> None:
    """One that is never closed gives its memory back when it is collected."""
    results = pipeline([chunk(number) for number in range(100)], plus_one, device=device)
    assert (await anext(results) == 1).all()
    del results
    gc.collect()
    await settled(device.driver)


async def test_an_error_of_the_consumer(device: Device) -> None:
    """What the consumer raises inside the scope comes out as it is, and all is dropped."""
    source = Source(100)
    with pytest.raises(Trouble, match="of the consumer"):
        async with pipeline(source, plus_one, device=device) as results:
            async for _ in results:
                raise Trouble("of the consumer")
    assert source.closed


@pytest.mark.slow
@pytest.mark.parametrize("scoped", [True, False])
async def test_cancelled_at_every_await(device: Device, scoped: bool) -> None:
    """Cancelling the consumer after 0, 1, 2 ... turns of the loop ends it, closes the source, and frees everything."""
    for turns in range(40):
        source = Source(12)

        async def consume(source: Source = source) -> None:
            results = pipeline(source, plus_one, doubled, device=device, streams=2, in_flight=3)
            if scoped:
                async with results:
                    await collect(results)
            else:
                try:
                    await collect(results)
                finally:
                    with anyio.CancelScope(shield=True):
                        await results.aclose()

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consume)
                for _ in range(turns):
                    await checkpoint()
                tasks.cancel_scope.cancel()
        assert source.closed or not source.taken
        await settled(device.driver)


async def test_cancelled_while_the_source_is_busy(device: Device) -> None:
    """A source that is in the middle of something is cancelled there, and may clean up with an await."""
    cleaned = []

    async def source() -> AsyncIterator[Any]:
        try:
            yield chunk(0)
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await checkpoint()
            cleaned.append(True)

    async with pipeline(source(), plus_one, device=device) as results:
        assert (await anext(results) == 1).all()
        await anyio.wait_all_tasks_blocked()
    assert cleaned == [True]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("busy", [True, False])
async def test_a_source_cleans_up_as_its_loop_lets_it(device: Device, busy: bool, closed: bool) -> None:
    """In asyncio a cancellation ends one await: those of `finally` and `async with` go on, in a block too."""
    cleaned = []

    async def source() -> AsyncIterator[Any]:
        try:
            for number in range(9):
                yield chunk(number)
                await (anyio.sleep_forever() if busy else checkpoint())
        finally:
            with anyio.CancelScope(shield=sniffio.current_async_library() == "trio"):
                await checkpoint()
                await checkpoint()
            cleaned.append(True)

    async with pipeline(source(), plus_one, device=device, in_flight=3) as results:
        await anext(results)
        await anyio.wait_all_tasks_blocked()
        if closed:
            await results.aclose()
            assert cleaned == [True], "at once, and not at the end of the block"
    assert cleaned == [True]


async def test_a_source_that_ends_its_task_is_told_of(device: Device) -> None:
    """By what no pipeline can keep for later: consumers hear of it, and why, and do not wait for ever."""

    class Odd(BaseException):
        pass

    async def source() -> AsyncIterator[Any]:
        yield chunk(0)
        raise Odd

    with anyio.fail_after(PATIENCE):
        async with pipeline(source(), plus_one, device=device) as results:
            with pytest.raises(IllegalState, match="has ended: Odd") as caught:
                async for _ in results:
                    pass
    assert isinstance(caught.value.__cause__, Odd)


@pytest.mark.parametrize("scoped", [True, False])
@pytest.mark.parametrize("ready", [0, 1])
async def test_closed_while_another_task_waits(device: Device, scoped: bool, ready: int) -> None:
    """`aclose` ends the wait inside the source, lets it clean up, closes it, and the waiting task is told."""
    cleaned, told = [], []
    waiting, started = anyio.Event(), anyio.Event()

    async def source() -> AsyncIterator[Any]:
        try:
            for _ in range(ready):
                yield chunk(0)
            started.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await checkpoint()
            cleaned.append(True)

    results = pipeline(source(), plus_one, device=device)

    async def consume() -> None:
        for _ in range(ready):
            await anext(results)
        waiting.set()
        with pytest.raises(IllegalState, match="closed while") as caught:
            await anext(results)
        told.append(caught.value)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            if scoped:
                await results.__aenter__()
            tasks.start_soon(consume)
            await waiting.wait()
            await started.wait()
            await results.aclose()
            if scoped:
                await results.__aexit__(None, None, None)
            assert cleaned == [True]
    assert len(told) == 1


async def test_closed_while_a_result_is_waited_for(device: Device) -> None:
    """A task that waits for a chunk in flight gets the same answer when the pipeline is closed."""
    latch = Latch(device)

    def stage(stream: Any, array: Any) -> Any:
        latch.hold(stream)
        return array

    results = pipeline(Source(1), stage, device=device)

    async def consume() -> None:
        with pytest.raises(IllegalState, match="closed while a result was waited for"):
            await anext(results)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            await anyio.wait_all_tasks_blocked()
            await results.aclose()
    latch.close()


async def test_a_source_that_closes_its_pipeline(device: Device) -> None:
    """It does not wait for itself; the pipeline is closed and the consumer told."""
    made: list[Any] = []

    async def source() -> AsyncIterator[Any]:
        await made[0].aclose()
        yield chunk(0)

    made.append(pipeline(source(), plus_one, device=device))
    with anyio.fail_after(PATIENCE), pytest.raises(IllegalState, match="closed while"):
        await anext(made[0])


async def test_cancelled_while_the_source_is_slow(device: Device) -> None:
    """A consumer of a plain pipeline that is cancelled closes it, and the source is left in order."""
    source = Source(3, hold_at=1)
    results = pipeline(source, plus_one, device=device)
    with anyio.fail_after(PATIENCE):
        assert (await anext(results) == 1).all()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anext, results)
            await source.reached.wait()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert source.closed
    with pytest.raises(IllegalState):
        await anext(results)


@pytest.mark.slow
async def test_a_forgotten_pipeline_with_an_async_source(device: Device) -> None:
    """Its reader is cancelled too, where it waits, and the source cleans up."""
    source = Source(3, hold_at=1)
    results = pipeline(source, plus_one, device=device)
    assert (await anext(results) == 1).all()
    del results
    gc.collect()
    with anyio.fail_after(PATIENCE):
        while not source.closed:
            await checkpoint()
    await settled(device.driver)


async def test_two_pipelines_share_a_device(device: Device) -> None:
    """One pipeline can be the source of another, and both can run beside a third."""
    inner = pipeline(Source(20), plus_one, device=device, in_flight=2)
    got: dict[str, list[int]] = {}

    async def run(name: str, results: Any) -> None:
        async with results:
            got[name] = await collect(results)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "outer", pipeline(inner, plus_one, device=device, in_flight=3))
            tasks.start_soon(run, "beside", pipeline(Source(15), doubled, device=device))
    assert got["outer"] == [number + 2 for number in range(20)]
    assert got["beside"] == [2 * number for number in range(15)]


@pytest.mark.slow
async def test_memory_stays_within_the_window(device: Device) -> None:
    """However many chunks go through, the device holds those in flight and no more."""
    big = np.zeros(1 << 16, np.uint8)
    async with pipeline((big for _ in range(200)), plus_one_byte, device=device, streams=2, in_flight=4) as results:
        async for result in results:
            assert (result[:24] == 1).all()
    assert device.context.default_pool.statistics().reserved_high <= 8 * big.nbytes


def plus_one_byte(stream: Any, array: Any) -> Any:
    """Add one to the first bytes."""
    stream.launch(first_bytes, (1, 1), array)
    return array


@k.kernel
def first_bytes(x: Any) -> None:
    """Add one to the first 24 elements."""
    for index in range(24):
        x[index] += 1


@pytest.mark.parametrize("source", [lambda: [chunk(number) for number in range(30)], lambda: aiter(Source(30))])
async def test_several_consumers(driver: Driver, source: Any) -> None:
    """Each result goes to one of the tasks that ask, none is lost at the end, and all of them end."""
    device = Device(0, driver)
    for scoped in (True, False):
        taken: list[int] = []
        results = pipeline(source(), device=device)

        async def consume(results: Any = results, taken: list[int] = taken) -> None:
            async for result in results:
                taken.append(int(result[0]))

        async with anyio.create_task_group() as tasks:
            if scoped:
                await tasks.start(in_scope, results, consume)
            else:
                for _ in range(3):
                    tasks.start_soon(consume)
        assert sorted(taken) == list(range(30))
        await results.aclose()


async def in_scope(results: Any, consume: Any, *, task_status: Any) -> None:
    """Run three consumers inside the block of a pipeline."""
    task_status.started()
    async with results, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(consume)


@pytest.mark.parametrize("end", [StopIteration, StopAsyncIteration])
@pytest.mark.parametrize("where", ["stage", "source"])
async def test_a_failure_that_looks_like_an_end(driver: Driver, end: type[Exception], where: str) -> None:
    """What a stage or a plain source raises is a failure, and never taken for the end of the results."""
    if where == "source" and end is StopIteration:
        return  # there it is the end

    class Chunks:
        """A plain iterator that fails at its fourth chunk."""

        taken = 0

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            self.taken += 1
            if where == "source" and self.taken == 4:
                raise end
            if self.taken > 9:
                raise StopIteration
            return chunk(self.taken)

    chunks = Chunks()

    def stage(stream: Any, array: Any) -> Any:
        if where == "stage" and chunks.taken == 4:
            raise end
        return array

    seen = []
    with pytest.raises(RuntimeError, match=end.__name__):
        async for result in pipeline(iter(chunks), stage, device=Device(0, driver)):
            seen.append(int(result[0]))
    assert seen == [1, 2, 3]


async def test_a_stage_that_is_a_coroutine_function(driver: Driver) -> None:
    """It is refused where the pipeline is made: a stage enqueues, and has nothing to wait for."""

    async def stage(stream: Any, array: Any) -> Any:
        return array

    with pytest.raises(InvalidType, match="is a coroutine function; a stage is a def"):
        pipeline([chunk(0)], stage, device=Device(0, driver))
    with pytest.raises(InvalidType, match="the device of a pipeline is 0"):
        pipeline([chunk(0)], device=0)  # type: ignore[arg-type]  # the point


def test_a_pipeline_where_no_loop_runs(driver: Driver) -> None:
    """It is refused at the call, in plain words, and no stream is made for it."""
    before = board_of(driver).next_stream_number()
    with pytest.raises(IllegalState, match="the loop that runs where it is made"):
        pipeline([chunk(0)], device=Device(0, driver))
    assert board_of(driver).next_stream_number() == before + 1


async def test_a_pipeline_says_what_it_is():
    """Its stages and streams, the chunks under way, and whether it is over."""
    async with pipeline([chunk(1), chunk(2)], plus_one, plus_one, streams=3, in_flight=5) as pipe:
        await anext(pipe)
        said = repr(pipe)
        assert said.startswith("<Pipeline of 2 stages over 3 streams on device 0, ") and "of 5 chunks in flight" in said
    assert repr(pipe) == "<Pipeline of 2 stages over 3 streams on device 0, closed>"
