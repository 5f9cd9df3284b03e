"""When a record says that a command began: when it got what it needs, not when it reached the head of its stream."""

from __future__ import annotations

import anyio.to_thread
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.trace.records import Kind, TraceRecord
from atops.device.copy_engine import CopyJob, Direction
from atops.runtime.driver import board_of
from atops.runtime.queues import drain
from tests.runtime.boards import device
from tests.runtime.latch import KernelLatch, StreamLatch

LARGE = 4 << 20  # bytes; such a copy runs on an engine


@k.kernel
def nothing() -> None:
    """Be launched."""


@k.cooperative
async def pair() -> None:
    """Need a cluster for each block at once."""
    await k.syncblocks()


@k.kernel
def wrong() -> None:
    """Fail."""
    k.assert_(False)


def record_of(completion: atops.Completion) -> TraceRecord:
    """Return the record of a command that is over."""
    (found,) = [each for each in completion.stream.driver.tracer.records() if each.seq == completion.seq]
    return found


@pytest.mark.anyio
async def test_a_kernel_begins_when_it_gets_a_cluster() -> None:
    """A launch that stands behind another stream's kernel is queued, and runs from when that one is over."""
    with device(trace=100) as chip:
        ahead, behind, latch = chip.create_stream(), chip.create_stream(), KernelLatch()
        holding = latch.hold(ahead, (2, 1))  # every cluster
        assert await anyio.to_thread.run_sync(latch.started.wait, 60)  # on the kernels' lane, which no stream waits for
        waiting = behind.launch(nothing, (2, 1))
        await StreamLatch(chip).passed()
        freed = board_of(chip.driver).now()
        latch.release()
        await waiting
        await holding
        assert record_of(holding).started_ns < freed < record_of(waiting).started_ns
        assert record_of(waiting).submitted_ns < freed


@pytest.mark.anyio
async def test_a_copy_begins_when_it_gets_an_engine() -> None:
    """A large copy that the link holds up, because another goes the other way, is queued and runs from then on."""
    with device(trace=100) as chip:
        engines, stream = chip.context.engines, chip.create_stream()
        source = chip.empty(LARGE, np.uint8)
        other_way = CopyJob(-2, 0, Direction.HOST_TO_DEVICE)
        engines.request(other_way)
        waiting = stream.fetch(source)
        await StreamLatch(chip).passed()
        freed = board_of(chip.driver).now()
        engines.release(other_way)
        await waiting
        record = record_of(waiting)
        assert record.submitted_ns < freed < record.started_ns < record.finished_ns


@pytest.mark.parametrize("seed", [None, 3])
def test_slow_commands_do_not_change_an_inline_run(seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inline a drain gives others a turn by count alone: by time, a busy machine would replay another order."""

    async def main() -> list[int]:
        device = atops.Device(0)
        streams = [device.create_stream() for _ in range(3)]
        word = device.empty(64, np.uint32)
        for _ in range(40):
            for stream in streams:
                stream.fill(word, 1)
        await device.wait()
        return [record.seq for record in device.driver.tracer.records()]

    usual = atops.run(main, atops.EmulatorOptions(seed=seed))
    monkeypatch.setattr(drain, "DRAIN_NS", -1)  # everything has taken too long
    assert atops.run(main, atops.EmulatorOptions(seed=seed)) == usual


@pytest.mark.anyio
async def test_streams_are_known_by_their_names() -> None:
    """A stream's name reaches the trace, the null stream's too; one without a name has none."""
    with device(trace=100) as chip:
        named, plain = chip.create_stream(name="loader"), chip.create_stream()
        await named.record()
        await plain.record()
        await chip.null_stream.record()
        labels = chip.driver.tracer.snapshot().names.streams
        assert labels[0, named.number] == "loader"
        assert labels[0, 0] == "null stream"
        assert (0, plain.number) not in labels


@pytest.mark.anyio
async def test_a_launch_names_its_cluster() -> None:
    """One that ran on one cluster has its ordinal; one that needed several has none, as one that never ran."""
    with device(trace=100) as chip:
        stream, second = chip.create_stream(), chip.create_stream(cluster_mask=0b10)
        one, other = stream.launch(nothing, (1, 1)), second.launch(nothing, (3, 1))
        await stream
        both = stream.launch(pair, (2, 1))
        await both
        await other
        assert [record_of(each).engine for each in (one, other, both)] == [0, 1, -1]
        stream.launch(wrong, (1, 1))
        skipped = stream.launch(nothing, (1, 1))
        with pytest.raises(atops.errors.LaunchFailure):
            await stream
        assert (record_of(skipped).status, record_of(skipped).engine) == (atops.Status.SKIPPED, -1)


def test_a_record_names_its_event() -> None:
    """The correlation of a record is the number that its event shows; each record of one event has the same."""
    with device(trace=100) as chip:
        stream, first, second = chip.create_stream(), chip.create_event(), chip.create_event()
        for event in (first, second, first):
            stream.record(event)
        stream.sync()
        found = [each.correlation for each in chip.driver.tracer.records() if each.kind is Kind.RECORD]
        assert found == [first.number, second.number, first.number]
        assert f"Event {second.number}," in repr(second)
