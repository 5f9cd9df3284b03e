"""Many of everything: ten thousand streams, a hundred thousand commands, and nothing that grows with them."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import numpy as np
import pytest

from atops.runtime.device import Device
from tests.runtime.boards import PATIENCE, Latch, add_one, board, device, leftovers, works

pytestmark = pytest.mark.slow

anyio_test = pytest.mark.anyio
STREAMS = 10_000
KIB = 1024


@contextmanager
def traced() -> Iterator[None]:
    """Count the memory that Python objects take inside the block."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def used() -> int:
    """Return the bytes that Python objects take now, garbage excluded."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_ten_thousand_streams(record_property: Any) -> None:
    """They are made in well under the time that anybody would notice, and an idle one takes at most 2 KiB."""
    with device() as one:
        streams = [one.create_stream() for _ in range(100)]  # what the first ones make is not theirs
        started = time.perf_counter()
        streams += [one.create_stream() for _ in range(STREAMS)]
        seconds = time.perf_counter() - started
        record_property("seconds for 10,000 streams", round(seconds, 3))
        print(f"{STREAMS} streams in {seconds:.3f} s")
        assert seconds < 5.0  # ten times the budget: this machine is shared
        with traced():
            before = used()
            streams += [one.create_stream() for _ in range(STREAMS)]
            each = (used() - before) / STREAMS
        print(f"{each:.0f} bytes each")
        assert each <= 2 * KIB


def test_ten_thousand_streams_that_were_used() -> None:
    """An idle stream that has worked keeps nothing: 2 KiB are enough for it as well, and none counts as active."""
    with device() as one, traced():
        array = one.empty(16)
        streams = [one.create_stream() for _ in range(STREAMS)]
        for stream in streams[:100]:
            stream.fill(array, 0)
        one.sync(PATIENCE)
        before = used()
        for stream in streams[100:]:
            stream.fill(array, 1)
            stream.record()
        one.sync(PATIENCE)
        each = (used() - before) / (STREAMS - 100)
        print(f"{each:.0f} bytes more each")
        assert each <= 1 * KIB
        assert one.statistics().active_streams == 0


@anyio_test
async def test_ten_thousand_streams_at_work() -> None:
    """All of them have work at once and all of it is done, each in its own order."""
    with device() as one:
        streams = [one.create_stream(nonblocking=True) for _ in range(STREAMS)]
        array = one.empty(STREAMS, "int32")
        for number, stream in enumerate(streams):
            stream.fill(array[number : number + 1], 0)
            stream.write_value(array[number : number + 1], number)
        with anyio.fail_after(3 * PATIENCE):
            await one.wait()
            result = await streams[0].fetch(array)
        assert (result == np.arange(STREAMS)).all()
        assert one.statistics().active_streams == 0


def run_commands(one: Device, total: int) -> None:
    """Run so many commands in eight streams, never more than a few thousand at once."""
    streams = [one.create_stream(nonblocking=number % 2 == 1) for number in range(8)]
    small, other = one.empty(1024), one.empty(1024)
    batch = 2000
    for start in range(0, total, batch):
        stream = streams[start // batch % len(streams)]
        for _ in range(batch // 4):
            stream.copy(other, small)
            stream.fill(small, 1.0)
            event = stream.record()
            stream.wait(event)
        if start // batch % 4 == 3:
            one.sync(3 * PATIENCE)
        stream.launch(add_one, (2, 12), small)
    one.sync(3 * PATIENCE)


def commands_without_growth(total: int) -> None:
    """Run a tenth, then the rest, and compare the memory at both points."""
    with device(trace=0) as one, traced():
        run_commands(one, total // 10)
        before = used()
        run_commands(one, total)
        more = used() - before
        print(f"{more} bytes more after {total} commands")
        assert more < 64 * KIB
        assert works(one.driver)


def test_forty_thousand_commands() -> None:
    """Commands leave nothing behind once they are over."""
    commands_without_growth(40_000)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_million_commands() -> None:
    """As above, and 25 times as many."""
    commands_without_growth(1_000_000)


def test_a_deep_queue_costs_what_it_holds() -> None:
    """Fifty thousand commands behind a latch: a command takes at most 1 KiB, and all of it comes back."""
    with device() as one:
        latch, stream = Latch(one), one.create_stream()
        array = one.empty(16)
        with traced():
            before = used()
            latch.hold(stream)
            for _ in range(50_000):
                stream.write_value(array, 1)
            each = (used() - before) / 50_000
            print(f"{each:.0f} bytes each")
            assert each <= 1 * KIB
            latch.open()
            stream.sync(3 * PATIENCE)
            assert used() - before < 256 * KIB


def test_aborting_a_deep_queue() -> None:
    """A hundred thousand commands are dropped at once; each is told, and the stream goes on."""
    with device() as one:
        latch, stream = Latch(one), one.create_stream()
        array = one.empty(16)
        latch.hold(stream)
        completions = [stream.write_value(array, 1) for _ in range(100_000)]
        assert stream.abort() == 100_000
        assert all(completion.done() for completion in completions)
        stream.write_value(array, 2)
        stream.sync(PATIENCE)
        assert stream.is_done


@anyio_test
async def test_five_thousand_waiters() -> None:
    """Five thousand tasks await one event, and five thousand an event each."""
    with device() as one:
        latch, stream = Latch(one), one.create_stream()
        latch.hold(stream)
        event, woken = stream.record(), []

        async def wait(what: Any) -> None:
            await what
            woken.append(1)

        with anyio.fail_after(3 * PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(5000):
                    tasks.start_soon(wait, event)
                    tasks.start_soon(wait, stream.record())
                await anyio.wait_all_tasks_blocked()
                assert not woken
                latch.open()
        assert len(woken) == 10_000


def test_many_threads_submit_at_once() -> None:
    """Eight threads share streams: every command runs exactly once, and the memory of all comes back."""
    with board(trace=0) as driver:
        one = Device(0, driver)
        shared = one.create_stream()
        counts, errors = [0] * 8, []

        def submit(number: int) -> None:
            try:
                own = one.create_stream(nonblocking=number % 2 == 0)
                for turn in range(200):
                    array = (shared if turn % 3 else own).zeros(24, "int32")
                    own.wait(shared.record())
                    shared.wait(own.record())
                    own.launch(add_one, (2, 12), array)
                    shared.call(count, number)
                    if turn % 20 == 0:
                        assert (own.fetch(array).wait_sync(PATIENCE) == 1).all()
                        own.sync(PATIENCE)
                own.close()
            except BaseException as error:
                errors.append(error)

        def count(number: int) -> None:
            counts[number] += 1

        threads = [threading.Thread(target=submit, args=(number,), daemon=True) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3 * PATIENCE)
        assert not errors
        assert not any(thread.is_alive() for thread in threads)
        shared.close()
        assert leftovers(driver) == {}
        assert counts == [200] * 8


def test_allocations_come_back() -> None:
    """Twenty thousand allocations of many sizes, freed in another order, leave the device as empty as before."""
    with board(trace=0) as driver:
        one = Device(0, driver)
        choose = np.random.default_rng(5)
        stream = one.create_stream()
        held: list[Any] = []
        for size in choose.integers(1, 1 << 16, 20_000):
            held.append(stream.allocate(int(size)) if size % 2 else one.allocate(int(size)))
            if len(held) > 500:
                held.pop(int(choose.integers(len(held)))).close()
        while held:
            held.pop().close()
        stream.close()
        assert leftovers(driver) == {}
