"""Profiles: what every thread's boards do in a block is in it, and its file is written however the block ends."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import EmulatorOptions, Kind
from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, InvalidValue
from atops.trace.file import load
from tests.every import every

VIRTUAL = EmulatorOptions(clock="virtual")


async def copies(count: int, name: str = "load") -> None:
    """Upload and fetch `count` times in a stream of the current driver."""
    async with atops.Device(0).create_stream(name=name) as stream:
        for _ in range(count):
            await stream.fetch(stream.upload(np.ones(8, np.float32)))


def kinds(records: object) -> list[Kind]:
    """Return the kinds of what moved bytes."""
    return [record.kind for record in records if record.bytes and record.name == "" and "COPY" in record.kind.name]


def test_a_run_inside() -> None:
    """The board of `atops.run` is part of the block around it; names and idle share are in the figures."""
    with atops.profile() as p:
        atops.run(copies, VIRTUAL, 3)
    figures = p.summary()
    assert figures.counts[Kind.COPY_H2D] == figures.counts[Kind.COPY_D2H] == 3
    assert "load" in figures.streams.values()
    assert 0 <= figures.idle <= 1 and figures.idle == figures.idle_ns / figures.span_ns
    text = str(p)
    assert "load" in text and "idle" in text and "copy host to device" in str(figures)


@pytest.mark.parametrize("threads", [False, True])
def test_details_where_asked(threads: bool, tmp_path: Path) -> None:
    """Memory and, where asked, threads of the block alone, in its file too; without, nothing; and they end with it."""

    @k.kernel
    async def meet() -> None:
        await k.syncthreads()

    async def work() -> None:
        async with atops.Device(0).create_stream() as stream:
            stream.empty(8, np.float32)
            await stream.launch(meet, (1, 2))

    async def main() -> tuple[atops.Profile, atops.Profile, int]:
        tracer = atops.current_driver().tracer
        with tracer.detailed(threads=True):
            await work()
            detailed = atops.profile(tmp_path / "run.trace", details=True, threads=threads)
            with detailed, atops.profile() as bare:
                await work()
            await work()
        return detailed, bare, tracer.statistics().detailing

    detailed, bare, left = atops.run(main)
    assert len(detailed.trace.changes) == 2 and load(tmp_path / "run.trace").changes, "allocated, freed"
    assert detailed.trace.moments and detailed.trace.steps
    assert not (bare.trace.changes or bare.trace.moments or bare.trace.steps) and left == 0
    alone = atops.profile(details=True, threads=threads)
    with alone:
        atops.run(work, VIRTUAL)
    assert bool(alone.trace.steps) == threads and alone.trace.changes


def test_only_what_ended_in_the_block() -> None:
    """Records of before and after are left out; inside, the profile shows what there is so far."""

    async def main() -> tuple[int, int, atops.Profile]:
        await copies(2)
        async with atops.profile() as p:
            await copies(1)
            inside = len(kinds(p.records))
            await copies(1)
        before = len(kinds(p.records))
        await copies(4)
        return inside, before, p

    inside, before, p = atops.run(main)
    assert (inside, before, len(kinds(p.records))) == (2, 4, 4)


def test_the_same_seed_gives_the_same_trace() -> None:
    """Two runs from one seed under the virtual clock leave equal profiles."""

    def run() -> atops.Trace:
        with atops.profile() as p:
            atops.run(copies, EmulatorOptions(seed=5, clock="virtual"), 4)
        return p.trace

    assert run().records == run().records


def test_several_boards() -> None:
    """Boards are told apart by device, in the records and by name; causes and numbers of commands stay unique."""
    with atops.profile() as p:
        atops.run(copies, VIRTUAL, 2, "first")
        atops.run(copies, VIRTUAL, 2, "second")
    assert {record.device for record in p.records if record.stream >= 0} == {0, 1}
    assert sorted(p.names.streams.values()) == ["first", "second"]
    assert all(name.startswith("board ") for name in p.names.devices.values())
    numbers = [record.seq for record in p.records if record.seq >= 0]
    assert len(set(numbers)) == len(numbers)
    first, second = ([r for r in p.records if r.device == device] for device in (0, 1))
    assert first[-1].finished_ns <= second[0].started_ns


def test_a_board_without_tracing() -> None:
    """A board that holds no records holds them while a profile wants them, and none afterwards; profiles overlap."""

    async def main() -> tuple[int, int, int]:
        tracer = atops.current_driver().tracer
        with atops.profile() as outer:
            with atops.profile(records=100_000) as inner:
                await copies(1)
            assert tracer.active
            await copies(1)
        return len(kinds(inner.records)), len(kinds(outer.records)), tracer.capacity

    assert atops.run(main, EmulatorOptions(trace=0)) == (2, 4, 0)


def test_more_than_it_holds() -> None:
    """The newest records are kept, and what is lost is counted and told."""

    async def main() -> atops.Profile:
        with atops.profile(records=4) as p:
            await copies(5)
        return p

    p = atops.run(main, EmulatorOptions(trace=0))
    assert len(p.records) == 4 and p.trace.dropped > 4
    assert f"{p.trace.dropped:,} earlier records" in str(p)


def test_other_threads() -> None:
    """Boards that other threads make in the block are in it."""
    with atops.profile() as p:
        threads = [threading.Thread(target=atops.run, args=(copies, VIRTUAL, 1)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(kinds(p.records)) == 6


@pytest.mark.parametrize("name", ["run.json", "run.json.gz", "run.trace", "run.gz", "run"])
def test_the_file(name: str, tmp_path: Path) -> None:
    """A file of any form that holds a trace gives the same trace back."""
    with atops.profile(tmp_path / name) as p:
        atops.run(copies, VIRTUAL, 2)
    assert load(tmp_path / name) == p.trace
    assert os.listdir(tmp_path) == [name]


def test_a_program_that_fails(tmp_path: Path) -> None:
    """The trace is written, and the block's error comes out."""
    with pytest.raises(ZeroDivisionError), atops.profile(tmp_path / "run.json") as p:
        atops.run(copies, VIRTUAL, 1)
        raise ZeroDivisionError
    assert load(tmp_path / "run.json") == p.trace and p.trace.records


def test_a_full_disk() -> None:
    """That the trace is lost is an OSError, or a note to the error that left the block; the profile still has it."""
    with pytest.raises(OSError, match="No space left"), atops.profile("/dev/full") as p:
        atops.run(copies, VIRTUAL, 1)
    assert kinds(p.records)
    with pytest.raises(ZeroDivisionError) as failure, atops.profile("/dev/full"):
        raise ZeroDivisionError
    assert "No space left" in failure.value.__notes__[0]


@every("file, error", [
    (7, InvalidType), (b"run.json", InvalidType), ("", IsADirectoryError), (".", IsADirectoryError),
    ("no/such/run.json", FileNotFoundError),
])  # fmt: skip
def test_a_file_that_cannot_be(file: object, error: type[Exception]) -> None:
    """It is refused before anything runs."""
    with pytest.raises(error):
        atops.profile(file)  # type: ignore[arg-type]  # the point


def test_misuse() -> None:
    """A profile is entered once, and holds a number of records."""
    with atops.profile() as p:
        pass
    assert str(p).startswith("no records") and "over" in repr(p)
    with pytest.raises(IllegalState, match="entered already"):
        p.__enter__()
    for records in (0, -1, True, 1.5, "7"):
        with pytest.raises(InvalidValue, match="expected a number"):
            atops.profile(records=records)  # type: ignore[arg-type]  # the point


def test_with_threads(tmp_path: Path) -> None:
    """`async with` beside a threaded board writes off the loop, and the file is there when the block has been left."""

    async def main() -> None:
        async with atops.Driver(), atops.profile(tmp_path / "run.json") as p:
            await copies(2)
        assert load(tmp_path / "run.json") == p.trace
        assert len(kinds(p.records)) == 4

    asyncio.run(main())


@pytest.mark.slow
def test_a_cancelled_task_writes_its_file(tmp_path: Path) -> None:
    """A cancellation leaves the block as any exception does."""

    async def body(copied: asyncio.Event) -> None:
        async with atops.profile(tmp_path / "run.json"):
            await copies(1)
            copied.set()
            await asyncio.Event().wait()

    async def main() -> None:
        async with atops.Driver():
            copied = asyncio.Event()
            task = asyncio.create_task(body(copied))
            await copied.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(main())
    assert len(kinds(load(tmp_path / "run.json").records)) == 2
