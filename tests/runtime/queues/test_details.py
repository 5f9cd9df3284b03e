"""Details of commands and memory: every step of a command's life, why a head waits, what holds memory, late viewers."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import AtopsError, StreamAborted
from atops.base.options import EmulatorOptions
from atops.base.trace.records import (
    COPIES,
    AllocationEvent,
    Change,
    CommandEvent,
    Kind,
    Phase,
    Place,
    ThreadState,
    Trace,
)
from atops.base.trace.tracer import Tracer
from atops.device.copy_engine import CopyJob, Direction
from atops.runtime.commands.copy import DIRECT
from atops.runtime.stream import Stream
from atops.trace.file import load, save
from tests.runtime.boards import PATIENCE, add_one, device
from tests.runtime.latch import KernelLatch, StreamLatch

AT_ONCE = {Kind.RECORD, Kind.ALLOC, Kind.FREE, Kind.WRITE_VALUE}  # and short copies
LARGE = 1 << 20  # bytes; such a copy runs on an engine


@k.kernel
def nothing() -> None:
    """Be launched."""


def life(tracer: Tracer, item: atops.Completion) -> list[tuple[str, int]]:
    """Return what was told of a command: phases and causes."""
    told = [moment for moment in tracer.details_since().moments if moment.seq == item.seq]
    return [(moment.phase.name, moment.cause) for moment in told]


def held(changes: list[AllocationEvent]) -> dict[int, AllocationEvent]:
    """Return what is allocated after these changes, by generation."""
    live: dict[int, AllocationEvent] = {}
    for change in changes:
        if change.change is Change.FREED:
            live.pop(change.generation, None)
        else:
            live[change.generation] = change
    return live


# ---- commands


@pytest.mark.anyio
async def test_every_command_is_submitted_and_started() -> None:
    """Each verb leaves both moments, in that order and at the times of its record, with its kind, bytes and name."""
    with device(trace=1000) as chip:
        tracer = chip.driver.tracer
        stream = chip.create_stream()
        with tracer.detailed():
            array = stream.upload(np.arange(64, dtype=np.float32))
            large = stream.empty(LARGE, "uint8")
            stream.fill(large, 7)
            stream.launch(nothing, (1, 1))
            stream.record()
            word = stream.zeros(1, "uint32")
            stream.write_value(word, 1)
            stream.wait_value(word, 1)
            stream.call(lambda: None)
            stream.call(lambda: None, holds=False)
            await stream.fetch(large)
            await stream.fetch(array)
            await stream
        batch = tracer.details_since()
        by_seq: dict[int, list[CommandEvent]] = {}
        for moment in batch.moments:
            by_seq.setdefault(moment.seq, []).append(moment)
        records = {record.seq: record for record in tracer.records()}
        assert set(by_seq) == set(records)
        for seq, moments in by_seq.items():
            phases, record = [moment.phase for moment in moments], records[seq]
            assert phases[0] is Phase.SUBMITTED
            at_once = record.kind in AT_ONCE or (record.kind in COPIES and record.bytes <= DIRECT)
            started = phases[-1] is Phase.STARTED or record.kind is Kind.WAIT_VALUE
            assert len(phases) == 1 if at_once else started, record
            assert moments[0].at_ns == record.submitted_ns
            for moment in moments:
                same = (record.kind, record.device, record.stream, record.bytes, record.name)
                assert (moment.kind, moment.device, moment.stream, moment.bytes, moment.name) == same
        assert missing(records) == set()


def missing(records: dict[int, object]) -> set[Kind]:
    """Return the kinds that the records should have and lack."""
    kinds = {Kind.COPY_H2D, Kind.COPY_D2H, Kind.FILL, Kind.LAUNCH, Kind.RECORD, Kind.WRITE_VALUE, Kind.WAIT_VALUE,
             Kind.CALL, Kind.ALLOC}  # fmt: skip
    return kinds - {record.kind for record in records.values()}  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_a_submission_names_its_line() -> None:
    """The site of a moment is the program's line that enqueued the command."""
    with device(trace=100) as chip:
        tracer, stream = chip.driver.tracer, chip.create_stream()
        with tracer.detailed():
            line = sys._getframe().f_lineno + 1
            await stream.launch(nothing, (1, 1))
        (submitted,) = [moment for moment in tracer.details_since().moments if moment.phase is Phase.SUBMITTED]
        assert tracer.names().sites[submitted.site] == Place(__file__, line, "test_a_submission_names_its_line")


@pytest.mark.anyio
async def test_what_a_pipeline_enqueues_names_its_maker() -> None:
    """Its uploads, fetches and frees were asked for where it was made, and what a stage enqueues in the stage."""

    def twice(stream: Stream, array: atops.DeviceArray) -> atops.DeviceArray:
        stream.launch(nothing, (1, 1))
        return array

    with device(trace=1000) as chip:
        tracer = chip.driver.tracer
        with tracer.detailed():
            chunks = (np.zeros(8) for _ in range(3))
            async with atops.pipeline(chunks, twice, device=chip) as results:
                assert len([each async for each in results]) == 3
        sites = tracer.names().sites
        made = test_what_a_pipeline_enqueues_names_its_maker.__name__
        batch = tracer.details_since()
        told = {(moment.kind, sites[moment.site].function) for moment in batch.moments if moment.site >= 0}
        stage = f"{made}.<locals>.twice"
        assert told == {
            (Kind.LAUNCH, stage), *((kind, made) for kind in (Kind.ALLOC, Kind.COPY_H2D, Kind.COPY_D2H, Kind.FREE))
        }  # fmt: skip
        assert {sites[each.site].function for each in batch.changes if each.change is Change.ALLOCATED} == {made}


def ask(stream: Stream) -> atops.DeviceArray:
    """Have memory, for the function that calls."""
    return stream.empty(16)


def by_one(stream: Stream) -> atops.DeviceArray:
    """Call it one way."""
    return ask(stream)


def by_other(stream: Stream, depth: int = 20) -> atops.DeviceArray:
    """Call it another way, from far down."""
    return by_other(stream, depth - 1) if depth else ask(stream)


def test_an_allocation_has_the_stack_of_the_program(tmp_path: Path) -> None:
    """One line asked, called in two ways: at most 8 functions, the innermost first, none of them a library's; saved."""
    here = test_an_allocation_has_the_stack_of_the_program.__name__
    with device(trace=100) as chip:
        stream = chip.create_stream()
        with chip.driver.tracer.detailed():
            held = [by_one(stream), by_other(stream), by_one(stream)]
            trace = chip.driver.tracer.snapshot()
        del held
    save(tmp_path / "stacks.trace.gz", trace)
    for each in (trace, load(tmp_path / "stacks.trace.gz")):
        one, other, again = (change.site for change in each.changes if change.change is Change.ALLOCATED)
        assert one == again != other and each.names.sites[one] == each.names.sites[other]
        assert [place.function for place in each.names.stack(one)[:3]] == ["ask", "by_one", here]
        assert [place.function for place in each.names.stack(other)] == ["ask", *["by_other"] * 7]
        assert each.names.stack(-1) == ()


def test_a_stack_ends_with_the_task_that_it_is_in() -> None:
    """What runs the loop has called no place of the program: a notebook's kernel, say, wherever it is installed."""

    async def task(stream: atops.Stream) -> atops.Buffer:
        return by_one(stream)

    with device(trace=100) as chip, chip.driver.tracer.detailed():
        held = asyncio.run(task(chip.create_stream()))
        trace = chip.driver.tracer.snapshot()
        del held
    (site,) = (change.site for change in trace.changes if change.change is Change.ALLOCATED)
    assert [place.function.rpartition(".")[2] for place in trace.names.stack(site)] == ["ask", "by_one", "task"]


@pytest.mark.anyio
async def test_a_wait_for_an_event_names_the_record() -> None:
    """A stream that waits for another one's event is parked, and the cause is the record."""
    with device(trace=100) as chip:
        tracer = chip.driver.tracer
        ahead, behind, latch = chip.create_stream(), chip.create_stream(), StreamLatch(chip)
        with tracer.detailed():
            holding = latch.hold(ahead)
            event = ahead.record()
            waiting = behind.wait(event)
            await latch.passed()
            assert event.completion is not None
            assert life(tracer, waiting) == [("SUBMITTED", -1), ("STARTED", -1), ("PARKED", event.completion.seq)]
            assert life(tracer, holding) == [("SUBMITTED", -1), ("STARTED", -1), ("PARKED", -1)]
            assert life(tracer, event.completion) == [("SUBMITTED", -1)]
            latch.release()
            await behind


@pytest.mark.anyio
async def test_null_stream_order_names_what_comes_first() -> None:
    """A command of the null stream is parked behind the blocking stream's latest, and starts after it."""
    with device(trace=100) as chip:
        tracer = chip.driver.tracer
        stream, latch = chip.create_stream(), KernelLatch()
        with tracer.detailed():
            holding = latch.hold(stream)
            assert latch.started.wait(PATIENCE)
            behind = chip.null_stream.launch(nothing, (1, 1))
            await StreamLatch(chip).passed()
            assert life(tracer, behind) == [("SUBMITTED", -1), ("PARKED", holding.seq)]
            latch.release()
            await behind
            assert life(tracer, behind)[2:] == [("STARTED", -1)]


@pytest.mark.anyio
async def test_a_launch_without_a_cluster_is_parked() -> None:
    """A kernel that stands behind another one's is parked until it gets a cluster."""
    with device(trace=100) as chip:
        tracer = chip.driver.tracer
        latch = KernelLatch()
        with tracer.detailed():
            holding = latch.hold(chip.create_stream(), (2, 1))
            assert latch.started.wait(PATIENCE)
            waiting = chip.create_stream().launch(nothing, (2, 1))
            await StreamLatch(chip).passed()
            assert life(tracer, waiting) == [("SUBMITTED", -1), ("PARKED", -1)]
            latch.release()
            await waiting
            await holding
            assert life(tracer, waiting)[2:] == [("STARTED", -1)]
            assert life(tracer, holding) == [("SUBMITTED", -1), ("STARTED", -1)]


@pytest.mark.anyio
async def test_a_copy_without_an_engine_is_parked() -> None:
    """A large copy that the link holds up, because another goes the other way, is parked until it may go."""
    with device(trace=100) as chip:
        tracer, engines, stream = chip.driver.tracer, chip.context.engines, chip.create_stream()
        source, other_way = chip.empty(LARGE, "uint8"), CopyJob(-2, 0, Direction.HOST_TO_DEVICE)
        engines.request(other_way)
        with tracer.detailed():
            waiting = stream.fetch(source)
            await StreamLatch(chip).passed()
            assert life(tracer, waiting) == [("SUBMITTED", -1), ("PARKED", -1)]
            engines.release(other_way)
            await waiting
            assert life(tracer, waiting)[2:] == [("STARTED", -1)]
            (record,) = [each for each in tracer.records() if each.seq == waiting.seq]
            started = [each.at_ns for each in tracer.details_since().moments if each.seq == waiting.seq][-1]
            assert record.started_ns == started


@pytest.mark.anyio
async def test_a_wait_for_a_value_names_the_word() -> None:
    """Every moment of a wait for a value says at which device and offset it looks; those of others say nothing."""
    with device(trace=100) as chip:
        tracer, stream, word = chip.driver.tracer, chip.create_stream(), chip.allocate(4)
        word.allocation.data[:] = 0
        with tracer.detailed():
            waiting = stream.wait_value(word, 1)
            stream.launch(nothing, (1, 1))
            await StreamLatch(chip).passed()
            chip.create_stream(nonblocking=True).write_value(word, 1)
            await stream
        told = tracer.details_since().moments
        words = {(each.on_device, each.on_offset) for each in told if each.seq == waiting.seq}
        assert words == {(0, word.allocation.offset)}
        assert {each.on_offset for each in told if each.seq != waiting.seq} == {-1}


def test_the_capacity_of_a_stream_is_told() -> None:
    """Viewers learn how many commands a stream takes; of one without a limit they learn nothing."""
    with device(trace=100) as chip:
        limited, free = chip.create_stream(capacity=3), chip.create_stream()
        capacities = chip.driver.tracer.names().capacities
        assert capacities[0, limited.number] == 3
        assert (0, free.number) not in capacities


@pytest.mark.anyio
async def test_calls_in_line_name_the_one_before() -> None:
    """A call that does not hold its stream is parked behind the one before it, and starts when that is over."""
    with device(trace=100) as chip:
        tracer, stream, gate = chip.driver.tracer, chip.create_stream(), threading.Event()
        with tracer.detailed():
            first = stream.call(lambda: gate.wait(PATIENCE), holds=False)
            second = stream.call(lambda: None, holds=False)
            await StreamLatch(chip).passed()
            assert life(tracer, first) == [("SUBMITTED", -1), ("STARTED", -1)]
            assert life(tracer, second) == [("SUBMITTED", -1), ("PARKED", first.seq)]
            gate.set()
            await second
            assert life(tracer, second)[2:] == [("STARTED", -1)]


@pytest.mark.anyio
async def test_an_abort_ends_what_was_told() -> None:
    """Every command that was submitted has a record in the end, aborted or not, and what was dropped never started."""
    with device(trace=100) as chip:
        tracer, stream, latch = chip.driver.tracer, chip.create_stream(), StreamLatch(chip)
        with tracer.detailed():
            held_back = latch.hold(stream)
            dropped = [stream.launch(nothing, (1, 1)) for _ in range(3)]
            await latch.passed()
            assert stream.abort() >= 3
            for item in (held_back, *dropped):
                with pytest.raises(StreamAborted):
                    await item
            assert all(life(tracer, item) == [("SUBMITTED", -1)] for item in dropped)
        told = {moment.seq for moment in tracer.details_since().moments}
        assert told == {record.seq for record in tracer.records()}
        latch.release()


@pytest.mark.anyio
async def test_what_is_skipped_never_starts() -> None:
    """Commands behind a failure are submitted and end; nothing says that they ran."""
    with device(trace=100) as chip:
        tracer, stream = chip.driver.tracer, chip.create_stream()

        def fail() -> None:
            raise ValueError("on purpose")

        with tracer.detailed():
            stream.call(fail)
            behind = [stream.launch(nothing, (1, 1)), stream.call(fail), stream.record().completion]
            for item in behind:
                assert item is not None
                with pytest.raises(AtopsError):
                    await item
                assert life(tracer, item) == [("SUBMITTED", -1)]
        stream.clear_error()


def test_nothing_is_recorded_without_a_subscriber() -> None:
    """Without a wish there is no detail, with and without a trace; after it there are no more."""
    for capacity in (0, 100):
        with device(trace=capacity) as chip:
            tracer, stream = chip.driver.tracer, chip.create_stream()
            with tracer.detailed(threads=True):
                pass
            stream.upload(np.zeros(8))
            stream.launch(nothing, (1, 1)).wait_sync(PATIENCE)
            assert tracer.details_since()[:3] == ([], [], [])


def test_many_threads_submit() -> None:
    """What four threads enqueue at once is told once each, from each thread's own line."""
    with device(trace=10_000) as chip:
        tracer = chip.driver.tracer
        streams = [chip.create_stream() for _ in range(4)]
        arrays = []  # kept: the free of one is told, too

        def submit(stream: Stream) -> None:
            for _ in range(50):
                stream.launch(nothing, (1, 1))
                arrays.append(stream.upload(np.zeros(4)))
            stream.sync(PATIENCE)

        with tracer.detailed():
            threads = [threading.Thread(target=submit, args=(stream,)) for stream in streams]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        moments = tracer.details_since().moments
        submitted = [moment.seq for moment in moments if moment.phase is Phase.SUBMITTED]
        assert len(submitted) == len(set(submitted)) == len(tracer.records()) == 600
        assert {tracer.names().sites[each.site].function for each in moments if each.site >= 0} == {
            "test_many_threads_submit.<locals>.submit"
        }


# ---- memory


@pytest.mark.anyio
async def test_memory_changes_name_the_holders() -> None:
    """Allocations, frees and what a pool gives out again, with sizes, sites, streams and the bytes in use."""
    with device(trace=100) as chip:
        tracer, stream, latch = chip.driver.tracer, chip.create_stream(), KernelLatch()
        latch.hold(stream)  # a stream that came to rest would give the freed range back before it is used again
        with tracer.detailed():
            own = chip.context.memory.allocate(1000)
            first = stream.empty(4096, "uint8")
            first.close()
            again = stream.empty(4000, "uint8")
            chip.context.memory.free(own)
            latch.release()
            await stream
        changes = tracer.details_since().changes
        assert [(each.change.name, each.size, each.stream) for each in changes[:4]] == [
            ("ALLOCATED", 1000, -1), ("ALLOCATED", 4096, stream.number), ("REUSED", 4000, stream.number),
            ("FREED", 1000, -1),
        ]  # fmt: skip
        assert [each.used_bytes for each in changes[:4]] == [1024, 5120, 5120, 4096]
        assert changes[1].offset == changes[2].offset
        assert changes[1].generation < changes[2].generation
        assert {tracer.names().sites[each.site].file for each in changes[:4]} == {__file__}
        live = held(changes)
        assert [each.size for each in live.values()] == [4000]
        assert again.allocation.offset == next(iter(live.values())).offset


@pytest.mark.anyio
async def test_a_reset_frees_everything() -> None:
    """After a reset nothing is held, and the sample says 0."""
    with device(trace=100) as chip:
        tracer = chip.driver.tracer
        with tracer.detailed():
            kept = [chip.empty(1000, "uint8") for _ in range(3)]
            memory = chip.context.memory
            await chip.reset()
            assert memory.used == 0
        assert held(tracer.details_since().changes) == {}
        assert tracer.counters()[-1].used_bytes == 0
        assert len(kept) == 3


def test_an_ordinary_trace_has_memory_samples() -> None:
    """Without details too, each change of the bytes in use that a picture could show leaves a sample."""
    with device(trace=100) as chip:
        memory = chip.context.memory
        first, second = memory.allocate(4096), memory.allocate(1 << 20)
        third = memory.allocate(1)  # less than a 1024th of the peak
        for allocation in (first, third, second):
            memory.free(allocation)
        samples = [sample.used_bytes for sample in chip.driver.tracer.counters()]
        assert samples == [4096, 4096 + (1 << 20), 256 + (1 << 20), 0]
        assert memory.used == memory.statistics().used == 0


def test_no_trace_has_no_samples() -> None:
    """A tracer that is off is told nothing."""
    with device(trace=0) as chip:
        memory = chip.context.memory
        memory.free(memory.allocate(1))
        assert chip.driver.tracer.counters() == []


# ---- a viewer that comes late


@pytest.mark.anyio
async def test_a_late_viewer_sees_what_is_queued_and_allocated() -> None:
    """A late subscriber gets every command that is not over, with its state, and what is allocated."""
    with device(trace=100) as chip:
        tracer = chip.driver.tracer
        ahead, behind, other = (chip.create_stream() for _ in range(3))
        latch, kernel = StreamLatch(chip), KernelLatch()
        over = chip.empty(512, "uint8")
        over.close()
        kept = chip.empty(1024, "uint8")
        holding, event = latch.hold(ahead), ahead.record()
        waiting, last = behind.wait(event), behind.launch(nothing, (1, 1))
        running = kernel.hold(other, (2, 1))
        assert kernel.started.wait(PATIENCE)  # else both launches may stand in the lane where the first is to run
        queued = chip.create_stream().launch(nothing, (2, 1))
        await latch.passed()
        with tracer.detailed():
            assert event.completion is not None
            assert life(tracer, holding) == [("SUBMITTED", -1), ("PARKED", -1)]
            assert life(tracer, event.completion) == life(tracer, last) == [("SUBMITTED", -1)]
            assert life(tracer, waiting) == [("SUBMITTED", -1), ("PARKED", event.completion.seq)]
            assert life(tracer, running) == [("SUBMITTED", -1), ("STARTED", -1)]
            assert life(tracer, queued) == [("SUBMITTED", -1), ("PARKED", -1)]
            batch = tracer.details_since()
            assert [moment.seq for moment in batch.moments] == sorted(moment.seq for moment in batch.moments)
            assert kept.allocation.offset in {each.offset for each in held(batch.changes).values()}
            assert len(held(batch.changes)) == len(chip.context.memory.live())
            latch.release()
            kernel.release()
            await behind
            await queued


def test_a_late_viewer_among_allocating_threads() -> None:
    """A subscriber that comes while threads allocate and free ends up with what is allocated, no more and no less."""
    with device(trace=0) as chip:
        memory, tracer, stop = chip.context.memory, chip.driver.tracer, threading.Event()
        kept = [memory.allocate(300) for _ in range(5)]

        def churn() -> None:
            while not stop.is_set():
                memory.free(memory.allocate(700))

        threads = [threading.Thread(target=churn) for _ in range(2)]
        for thread in threads:
            thread.start()
        wishes = [tracer.detailed() for _ in range(20)]
        stop.set()
        for thread in threads:
            thread.join()
        batch = tracer.details_since()
        if not batch.missed:
            ended = {each.generation for each in batch.changes if each.change is Change.FREED}
            live = {each.generation for each in batch.changes} - ended
            assert len(live) == len(kept) == len(memory.live())
        for wish in wishes:
            wish.close()


# ---- replay


def replayed(seed: int | None) -> Trace:
    """Return the trace with details of one inline run."""

    async def main() -> Trace:
        chip = atops.Device(0)
        tracer = chip.driver.tracer
        with tracer.detailed(threads=True):
            async with chip.create_stream() as one, chip.create_stream() as two:
                array = one.zeros(48, "int32")
                one.launch(add_one, (2, 12), array)
                two.wait(one.record())
                two.launch(add_one, (1, 4), array)
                assert (await two.fetch(array) == 2).all()
        return tracer.snapshot()

    return atops.run(main, EmulatorOptions(seed=seed, clock="virtual"))


@pytest.mark.parametrize("seed", [None, 3])
def test_the_same_seed_leaves_the_same_details(seed: int | None) -> None:
    """Two inline runs in one process have the same trace, details and the numbers of their places included."""
    first, second = replayed(seed), replayed(seed)
    assert first.moments
    assert first.changes
    assert first.steps
    assert first == second


def test_steps_of_a_plain_kernel_tell_its_first_line() -> None:
    """It awaits nothing, so there is no line where a thread stands; a viewer shows the function all the same."""
    trace = replayed(None)
    begun = {trace.names.sites[step.site][1:] for step in trace.steps if step.turn is ThreadState.RUNS}
    assert begun == {(add_one.function.__code__.co_firstlineno, "add_one")}
