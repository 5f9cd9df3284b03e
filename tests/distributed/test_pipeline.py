"""Pipelines on a cluster: what comes, in which order, how far ahead, and what is left when they end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import anyio
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    ClusterError,
    IllegalState,
    InvalidDevice,
    InvalidType,
    InvalidValue,
    LaunchFailure,
    NotSupported,
    OutOfMemory,
)
from tests.every import every

distributed = pytest.importorskip("distributed", exc_type=ImportError)
pytestmark = pytest.mark.slow
SIZE = 100
LOCK = threading.Lock()


@k.kernel
def add_one(x: k.Span[np.float32], n: np.int32):
    """Add 1 to each element."""
    for place in range(k.threadIdx.x, n, 12):
        x[place] = x[place] + 1


def plus(stream: Any, array: Any) -> Any:
    """Launch on a chunk."""
    stream.launch(add_one, (1, 12), array, array.size)
    return array


def both(stream: Any, array: Any) -> Any:
    """Return a chunk twice."""
    return array, stream.fetch(array)


def chunks(count: int) -> Iterator[Any]:
    """Return arrays that say which they are."""
    return (np.full(SIZE, number, np.float32) for number in range(count))


async def achunks(count: int) -> AsyncIterator[Any]:
    """Return the same from an async source."""
    for each in chunks(count):
        await asyncio.sleep(0)
        yield each


def numbers(results: list[Any]) -> list[int]:
    """Return which chunks were given."""
    return [int(each[0]) for each in results]


async def live(client: Any) -> list[tuple[int, int, int]]:
    """Return the allocations, the bytes in use and the busy streams of each worker."""
    found = await atops.distributed.board(client).statistics()
    devices = [each for worker in found.workers for each in worker.devices]
    return [(each.memory.live, each.memory.used, each.active_streams) for each in devices]


def on_a_loop(cluster: Any, main: Callable[[Any], Awaitable[None]]) -> None:
    """Run a coroutine function with an asynchronous client; nothing of it may be left on the workers."""

    async def run() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True, set_as_default=False) as client:
            before = await live(client)
            await main(client)
            assert sorted(await live(client)) == sorted(before)

    asyncio.run(run())


@every("source", [chunks, achunks])
@every("stages, wanted", [(plus, 1), ([plus, plus], 2), ([], 0)])
def test_results_come_in_order(cluster: Any, source: Any, stages: Any, wanted: int) -> None:
    """Whatever the source and the stages are, inside a block and without one."""

    async def main(client: Any) -> None:
        async with atops.distributed.pipeline(source(12), stages, client) as results:
            inside = [each async for each in results]
        outside = [each async for each in atops.distributed.pipeline(source(12), stages, client, in_flight=3)]
        assert numbers(inside) == numbers(outside) == [number + wanted for number in range(12)]
        assert all(each.shape == (SIZE,) and (each == each[0]).all() for each in inside)

    on_a_loop(cluster, main)


def test_a_plain_client_gives_the_same(client: Any) -> None:
    """With `with` and `for`, on the caller's thread, and no further ahead than was said."""
    taken = []
    with atops.distributed.pipeline((taken.append(n) or n for n in map(np.float32, range(9))), both, client,
                                    in_flight=3) as results:  # fmt: skip
        for place, (one, other) in enumerate(results):
            assert one == other == place and len(taken) <= place + 4
    assert len(taken) == 9
    with pytest.raises(StopIteration):
        next(results)
    with pytest.raises(InvalidType, match="`async for` needs Client"):
        aiter(results)
    with pytest.raises(InvalidType, match="an async source needs Client"):
        atops.distributed.pipeline(achunks(1), plus, client)


@every("in_flight", [1, 2, 5])
def test_the_source_is_never_further_ahead(cluster: Any, in_flight: int) -> None:
    """Chunks between the source and the consumer are at most `in_flight`, however slow the consumer is."""

    async def main(client: Any) -> None:
        given, most = 0, 0

        def source() -> Iterator[Any]:
            nonlocal most
            for number, chunk in enumerate(chunks(12)):
                most = max(most, number + 1 - given)
                yield chunk

        async with atops.distributed.pipeline(source(), plus, client, in_flight=in_flight) as results:
            async for _ in results:
                given += 1
                await anyio.lowlevel.checkpoint()
        assert most == in_flight

    on_a_loop(cluster, main)


def raises(stream: Any, array: Any) -> Any:
    """Raise for no chunk that was not there."""
    raise KeyError("five")


@k.kernel
def beyond(x: k.Span[np.float32]):
    """Store where nothing is."""
    x[10_000] = 1


def faulty(stream: Any, array: Any) -> Any:
    """Launch what fails."""
    stream.launch(beyond, (1, 1), array)
    return array


@k.kernel
def beyond_with_a_lock():
    """Fail with what cannot be pickled."""
    raise KeyError(threading.Lock())


def faulty_with_a_lock(stream: Any, array: Any) -> Any:
    """Launch what fails so."""
    stream.launch(beyond_with_a_lock, (1, 1))
    return array


def raising_a_lock(stream: Any, array: Any) -> Any:
    """Raise what cannot be pickled."""
    raise KeyError(threading.Lock())


def raising(error: BaseException) -> Any:
    """Return a stage that raises this."""

    def stage(stream: Any, array: Any) -> Any:
        raise error

    return stage


STAGE_0 = ["in stage 0 of the pipeline, ", "chunk 0 of "]


@every("stages, error, said", [
    ([plus, raises], KeyError, ["in stage 1 of the pipeline, raises", "chunk 0 of plus|raises, on worker tcp://"]),
    ([plus, faulty, plus], LaunchFailure,
     ["in stage 1 of the pipeline, faulty", "chunk 0 of plus|faulty|plus, on worker tcp://"]),
    (lambda stream, array: 5, InvalidType, ["chunk 0 of <lambda>, on worker tcp://"]),
    (lambda stream, array: stream.empty(1 << 60, np.uint8), OutOfMemory, STAGE_0),
    (raising(StopIteration()), RuntimeError, STAGE_0),
    (raising(StopAsyncIteration()), RuntimeError, STAGE_0),
    (raising(SystemExit(3)), RuntimeError, STAGE_0),
    (raising(asyncio.CancelledError()), RuntimeError, STAGE_0),
    (raising(CancelledError()), CancelledError, STAGE_0),
    (raising(ValueError("long " * 5000)), RuntimeError, STAGE_0),
    (raising_a_lock, RuntimeError, STAGE_0),
    (faulty_with_a_lock, LaunchFailure, STAGE_0),
])  # fmt: skip
def test_the_first_failure_is_raised_and_says_where(cluster: Any, stages: Any, error: Any, said: list[str]) -> None:
    """Then the pipeline is closed; the workers are as before, whatever was raised there."""

    async def main(client: Any) -> None:
        results = atops.distributed.pipeline(chunks(6), stages, client)
        with pytest.raises(error) as failed:
            await anext(results)
        for wanted, note in zip(said, failed.value.__notes__, strict=True):
            assert note.startswith(wanted)
        assert type(failed.value) is error
        assert ("IllegalAddress" in str(failed.value)) == (isinstance(stages, list) and faulty in stages)
        with pytest.raises(IllegalState, match="closed"):
            await anext(results)

    on_a_loop(cluster, main)


def test_a_failing_source_comes_after_what_it_gave(cluster: Any) -> None:
    """As in one process."""

    def source() -> Iterator[Any]:
        yield from chunks(3)
        raise OSError("no more")

    async def main(client: Any) -> None:
        results = atops.distributed.pipeline(source(), plus, client)
        assert numbers([await anext(results) for _ in range(3)]) == [1, 2, 3]
        with pytest.raises(OSError, match="no more"):
            await anext(results)

    on_a_loop(cluster, main)


def test_a_chunk_that_cannot_be_sent_comes_after_those_before_it(client: Any) -> None:
    """It is named, and nothing is left with the client."""
    results = atops.distributed.pipeline([*chunks(2), LOCK, *chunks(1)], plus, client)
    assert numbers([next(results), next(results)]) == [1, 2]
    with pytest.raises(InvalidType, match=r"chunk 2 of plus cannot be sent to a worker: cannot pickle"):
        next(results)
    client.sync(asyncio.sleep, 0)  # what is released by callbacks of the loop
    assert not client.futures


def test_a_result_that_is_there_waits_for_one_chunk_at_most(client: Any) -> None:
    """With a plain client the source is advanced in `next`."""
    taken = []

    def source() -> Iterator[Any]:
        for number, chunk in enumerate(chunks(20)):
            taken.append(number)
            yield chunk
            distributed.wait([distributed.Future(key, client) for key in list(client.futures)])

    results = atops.distributed.pipeline(source(), plus, client, in_flight=8)
    assert numbers([next(results)]) == [1] and len(taken) <= 2
    results.close()


def cancelled(cluster: Any, seed: int) -> None:
    """Leave a pipeline at some point, by a break or a cancellation."""
    rng = random.Random(seed)
    turns, by_break = rng.randrange(40), rng.random() < 0.5

    async def main(client: Any) -> None:
        started = asyncio.Event()

        async def consume() -> None:
            async with atops.distributed.pipeline(achunks(30), [plus, plus], client, in_flight=6) as results:
                started.set()
                async for place in results:
                    if by_break and int(place[0]) > turns:
                        break

        task = asyncio.ensure_future(consume())
        await started.wait()
        for _ in range(turns * 20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    on_a_loop(cluster, main)


@every("seed", range(6))
def test_a_pipeline_may_be_left_anywhere(cluster: Any, seed: int) -> None:
    """Nothing is left on the workers."""
    cancelled(cluster, seed)


@pytest.mark.soak
@every("seed", range(6, 106))
def test_a_pipeline_may_be_left_anywhere_many_times(cluster: Any, seed: int) -> None:
    """As above."""
    cancelled(cluster, seed)


def lose_a_worker(seed: int) -> None:
    """Kill a worker at some point. The cluster is its own: a nanny gives up a worker that is killed as it starts."""
    rng = random.Random(seed)
    when, which = rng.randrange(1, 25), rng.randrange(2)

    async def run() -> None:
        how = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "asynchronous": True, "silence_logs": 60}
        async with (
            distributed.LocalCluster(n_workers=2, **how) as cluster,
            distributed.Client(cluster, asynchronous=True, set_as_default=False) as client,
        ):
            processes = sorted((await client.run(os.getpid)).values())
            found = []
            async with atops.distributed.pipeline(chunks(30), plus, client, in_flight=6) as results:
                async for each in results:
                    found.append(each)
                    if len(found) == when:
                        os.kill(processes[which], signal.SIGKILL)
            assert numbers(found) == list(range(1, 31))

    asyncio.run(run())


def test_a_lost_worker_loses_no_chunk() -> None:
    """What it had is run again elsewhere; results are whole and in order."""
    lose_a_worker(0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 102))
def test_a_lost_worker_loses_no_chunk_many_times(seed: int) -> None:
    """As above."""
    lose_a_worker(seed)


def deadly(stream: Any, array: Any) -> Any:
    """Take the worker along."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.soak
def test_a_chunk_that_kills_its_workers_is_given_up(cluster: Any) -> None:
    """After as many as Dask allows."""

    async def run() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True, set_as_default=False) as client:
            with pytest.raises(ClusterError, match="chunk 0 of deadly was given up: several workers that had it died"):
                await anext(atops.distributed.pipeline(chunks(1), deadly, client))
            await client.wait_for_workers(2)

    asyncio.run(run())


SCHEDULER = """
import os, sys
from distributed import LocalCluster
if __name__ == "__main__":
    how = {"processes": False, "protocol": "tcp", "dashboard_address": "127.0.0.1:0"}
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, **how)
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


def test_a_lost_scheduler_is_told() -> None:
    """As a ClusterError, at once, by a pipeline that has begun and by one that has not."""

    async def run() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SCHEDULER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        how = {"asynchronous": True, "set_as_default": False, "timeout": 5}
        async with distributed.Client(address, **how) as client:
            later = atops.distributed.pipeline(chunks(5), plus, client)
            with pytest.raises(ClusterError, match="lost"):
                async with atops.distributed.pipeline(achunks(1000), plus, client, in_flight=4) as results:
                    async for each in results:
                        if int(each[0]) == 3:
                            process.kill()
                            await process.wait()
            with pytest.raises(ClusterError, match="lost"):
                await anext(atops.distributed.pipeline(chunks(5), plus, client))
            with pytest.raises(ClusterError, match="lost"):
                await anext(later)
        process.stdin.close()

    asyncio.run(run())


@every("how, error, said", [
    (dict(source=5), InvalidType, "the source 5 is not iterable"),
    (dict(stages=5), TypeError, "not iterable"),
    (dict(stages=[5]), InvalidType, "the stage 5 is no function"),
    (dict(client=5), InvalidType, "the client is 5; expected a distributed.Client"),
    (dict(in_flight=0), InvalidValue, "in_flight is 0; expected at least 1"),
    (dict(devices=[]), InvalidValue, r"devices are \[\]; expected ordinals"),
    (dict(devices=[-1]), InvalidValue, r"devices are \[-1\]; expected ordinals"),
    (dict(devices=2), InvalidType, r"devices are 2; expected ordinals .*: \[0, 1\], range\(2\)"),
    (dict(options=5), InvalidType, "the options are 5; expected EmulatorOptions"),
    (dict(stages=[plus, lambda stream, array: (LOCK, array)[1]]), InvalidType,
     "cannot be sent to a worker: 'LOCK' of stage 1, <lambda> cannot be pickled: cannot pickle '_thread.lock'"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_at_once(client: Any, how: dict[str, Any], error: Any, said: str) -> None:
    """The message names the argument."""
    given = {"source": chunks(1), "stages": plus, "client": client, **how}
    with pytest.raises(error, match=said):
        atops.distributed.pipeline(**given)


def test_a_closed_client_and_trio_are_refused(cluster: Any) -> None:
    """With the cure."""
    client = distributed.Client(cluster, set_as_default=False)

    async def main() -> None:
        with pytest.raises(NotSupported, match="trio runs here"):
            atops.distributed.pipeline(chunks(1), plus, client)

    anyio.run(main, backend="trio")
    begun = atops.distributed.pipeline(chunks(9), plus, client, in_flight=2)
    next(begun)
    client.close()
    with pytest.raises(IllegalState, match="was closed before its pipeline plus was over"):
        next(begun)
    begun.close()
    with pytest.raises(IllegalState, match="is closed; one that runs is needed"):
        atops.distributed.pipeline(chunks(1), plus, client)

    async def close_between() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True, set_as_default=False) as client:
            results = atops.distributed.pipeline(chunks(9), plus, client, in_flight=2)
            await anext(results)
            await client.close()
            with pytest.raises(IllegalState, match="was closed before its pipeline plus was over"):
                await anext(results)

    asyncio.run(close_between())


def test_workers_with_other_versions_are_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything runs there."""
    monkeypatch.setattr(atops, "__version__", "99.0")
    with pytest.raises(NotSupported, match=r"worker tcp://.* has atops .*, the client atops 99\.0; install the same"):
        next(atops.distributed.pipeline(chunks(1), plus, client))


def test_a_board_has_the_devices_that_it_has(client: Any) -> None:
    """Others are refused by the worker; so are other options than those it was opened with."""
    with pytest.raises(InvalidDevice, match=r"has \d devices; the pipeline wants \[7\]"):
        next(atops.distributed.pipeline(chunks(1), plus, client, devices=[7]))
    next(atops.distributed.pipeline(chunks(1), plus, client))
    with pytest.raises(IllegalState, match="was opened with other options already"):
        next(atops.distributed.pipeline(chunks(1), plus, client, options=atops.EmulatorOptions(devices=3)))


def test_pipelines_side_by_side_do_not_disturb_each_other(cluster: Any) -> None:
    """Each has its own chunks; one that is left does not end the other."""

    async def main(client: Any) -> None:
        async def whole() -> list[int]:
            return numbers([each async for each in atops.distributed.pipeline(chunks(20), plus, client)])

        async def left() -> None:
            async with atops.distributed.pipeline(chunks(20), plus, client) as results:
                await anext(results)

        ends = await asyncio.gather(whole(), left(), whole(), left())
        assert ends[0] == ends[2] == list(range(1, 21))

    on_a_loop(cluster, main)


def test_a_wait_that_is_cancelled_cancels_no_other(cluster: Any) -> None:
    """Dask has one task gather the results that several wait for."""
    from atops.distributed.cluster import result_of  # which is not there without the extra

    async def main(client: Any) -> None:
        for turns in range(12):
            futures = client.map(np.full, [turns, turns], [1, 2], pure=False)
            assert [await each.exception() for each in futures] == [None, None]
            first, second = (asyncio.ensure_future(result_of(each)) for each in futures)
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            assert (await second).size == turns
            await asyncio.gather(first, return_exceptions=True)

    on_a_loop(cluster, main)


def test_kernels_in_cxx_go_to_the_workers(client: Any, compiler: None) -> None:
    """As the image of their text, which the worker compiles."""
    twice = k.compile("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }", "twice.tops").twice

    def stage(stream: Any, array: Any) -> Any:
        stream.launch(twice, (1, 12), array)
        return array

    with atops.distributed.pipeline([np.arange(12, dtype=np.float32)], stage, client) as results:
        assert np.array_equal(next(results), np.arange(12) * 2)


def test_a_board_shows_all_workers_on_one_axis(client: Any) -> None:
    """Statistics and traces of all, each device named by its worker; the widgets' data are the same trace."""
    together = atops.distributed.board(client)
    before = {(each.device, each.seq) for each in together.trace().records}
    assert len(list(atops.distributed.pipeline(chunks(8), plus, client))) == 8
    trace = together.trace()
    new = [each for each in trace.records if (each.device, each.seq) not in before]
    assert sum(each.name == "add_one" for each in trace.records) >= 8 and {each.device for each in new} == {0, 1}
    assert all(name.startswith("worker tcp://") for name in trace.names.devices.values())
    assert trace.anchor_ns is not None
    text = str(together.statistics())
    assert text.splitlines()[0].split()[:2] == ["worker", "device"] and text.count("tcp://") == 2
    assert "<table" in together.statistics()._repr_html_()


def test_many_threads_of_a_program_have_pipelines(client: Any) -> None:
    """A plain client serves them all."""
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: numbers(list(atops.distributed.pipeline(chunks(6), plus, client))), range(4))
        assert list(found) == [list(range(1, 7))] * 4
