"""Which memory commands are given, told with their submission: arguments of kernels, ends that no record tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import atops
from atops import executable
from atops import kernels as k
from atops.base.trace.records import MemoryUse
from atops.kernels.bound import BlockKernel, BlockKernels
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.commands.launch import PLAIN_LAUNCH, Launch
from atops.runtime.commands.reduce import Reduce
from atops.runtime.driver import board_of
from atops.runtime.memory.buffer import Buffer
from atops.runtime.stream import queue_of
from atops.trace.file import load, save
from tests.runtime.boards import PATIENCE, device
from tests.runtime.executable_models import SHAPE, fixed
from tests.runtime.latch import KernelLatch, StreamLatch
from tests.runtime.memory.test_scatter import halves


@k.kernel
def combine(result: k.Span[np.float32], one: k.Span[np.float32], other: k.Span[np.float32], factor: np.float32) -> None:
    """Take three buffers and a number."""


@k.kernel
def take(anything: object, number: int = 0) -> None:
    """Take what may be a buffer."""


@k.kernel
def nothing() -> None:
    """Take nothing."""


def told(driver: atops.Driver, item: atops.Completion) -> list[tuple[int, int, int]]:
    """Return the ranges that a command was told to use."""
    return [use[1:] for use in driver.tracer.details_since().uses if use.seq == item.seq]


def place(buffer: atops.Buffer) -> tuple[int, int, int]:
    """Return the range of a buffer in its device's memory."""
    allocation = buffer.allocation
    assert allocation.device is not None
    return allocation.device, allocation.offset + buffer.offset, buffer.nbytes


@pytest.mark.anyio
async def test_a_launch_tells_its_buffers() -> None:
    """Three buffers are three ranges in the order of the parameters; a number is none."""
    with device(trace=100) as chip:
        stream = chip.create_stream()
        arrays = [stream.zeros(size, "float32") for size in (64, 100, 3)]
        with chip.driver.tracer.detailed():
            item = stream.launch(combine, (2, 3), *arrays, 2.0)
            none = stream.launch(nothing, (1, 1))
            number = stream.launch(take, (1, 1), 7, 8)
            await stream
        assert told(chip.driver, item) == [place(array) for array in arrays]
        assert [size for *_, size in told(chip.driver, item)] == [256, 400, 12]
        assert told(chip.driver, none) == told(chip.driver, number) == []


@pytest.mark.anyio
async def test_parts_of_buffers_are_told_as_they_are() -> None:
    """A part of an allocation is that part; the same range twice is told once, another part beside it."""
    with device(trace=100) as chip:
        stream = chip.create_stream()
        array = stream.zeros(64, "float32")
        with chip.driver.tracer.detailed():
            item = stream.launch(combine, (1, 1), array[:16], array[16:20], array[:16], 1.0)
            whole = stream.launch(combine, (1, 1), array, array, array, 1.0)
            empty = stream.launch(take, (1, 1), array[:0])
            await stream
        start = array.allocation.offset
        assert told(chip.driver, item) == [(0, start, 64), (0, start + 64, 16)]
        assert told(chip.driver, whole) == [(0, start, 256)]
        assert told(chip.driver, empty) == []


@pytest.mark.anyio
async def test_host_memory_is_not_told() -> None:
    """A kernel may be given pinned host memory: that is no place of a device."""
    with device(trace=100) as chip:
        stream, pinned = chip.create_stream(), board_of(chip.driver).host.allocate(256)
        with chip.driver.tracer.detailed():
            item = stream.launch(take, (1, 1), Buffer(pinned))
            await stream
        assert told(chip.driver, item) == []


@pytest.mark.anyio
async def test_a_peer_is_told_by_its_ordinal() -> None:
    """Memory of another device is at its own device, not at that of the launch."""
    with device(trace=100, devices=2) as chip:
        other = atops.Device(1, chip.driver)
        chip.enable_peer_access(other)
        stream, buffer = chip.create_stream(), other.allocate(512)
        with chip.driver.tracer.detailed():
            item = stream.launch(take, (1, 1), buffer)
            await stream
        assert told(chip.driver, item) == [(1, buffer.allocation.offset, 512)]


@pytest.mark.anyio
async def test_a_reduction_tells_all_three_places() -> None:
    """Both operands and the result; the record knows of two. A result in place is one range less."""
    with device(trace=100) as chip:
        stream = chip.create_stream()
        one, other, result = (stream.zeros(10, "int32") for _ in range(3))
        ends = [(buffer.allocation, buffer.offset) for buffer in (one, other, result)]
        with chip.driver.tracer.detailed():
            item = queue_of(stream).submit(Reduce("sum", np.dtype("int32"), 10, *ends))
            within = queue_of(stream).submit(Reduce("sum", np.dtype("int32"), 10, ends[0], ends[1], ends[0]))
            await stream
        assert told(chip.driver, item) == [place(one), place(other), place(result)]
        assert told(chip.driver, within) == [place(one), place(other)]


@pytest.mark.anyio
async def test_scatter_memory_tells_its_parts() -> None:
    """A copy and a fill of scatter memory tell the parts that hold some of the bytes, and no others."""
    with device(trace=100) as chip:
        parent, left, right = halves(chip)
        stream, whole = chip.create_stream(), Buffer(parent)
        whole.driver = chip.driver
        plain = chip.allocate(96)
        with chip.driver.tracer.detailed():
            item = stream.copy(plain, whole)
            fill = stream.fill(whole, 9, 7)
            await stream
            parent.parts = (parent.parts[0]._replace(dims=(2, 6), anchor=(0, 0)),
                            parent.parts[1]._replace(dims=(2, 6), anchor=(2, 0), axes=(0, 1)))  # fmt: skip
            top = stream.copy(plain[:48], whole[:48])
            bottom = stream.copy(plain[:4], whole[48:52])
            await stream
        assert told(chip.driver, item) == [place(plain), place(left), place(right)]
        assert told(chip.driver, fill) == [place(left), place(right)]
        assert told(chip.driver, top) == [place(plain[:48]), place(left)]
        assert told(chip.driver, bottom) == [place(plain[:4]), place(right)]


@pytest.mark.anyio
async def test_commands_whose_records_tell_all_tell_no_more() -> None:
    """Plain copies, fills, allocations, writes and waits have their places in their records."""
    with device(trace=100) as chip:
        stream = chip.create_stream()
        with chip.driver.tracer.detailed():
            array = stream.upload(np.arange(64, dtype=np.float32))
            stream.fill(array, 1)
            word = stream.zeros(1, "uint32")
            stream.write_value(word, 1)
            stream.wait_value(word, 1)
            stream.call(lambda: None)
            await stream.fetch(array)
        assert chip.driver.tracer.details_since().uses == []


@pytest.mark.anyio
async def test_an_executable_tells_its_operands() -> None:
    """Inputs and outputs of a graph are what it uses, parts of allocations as they are."""
    exe = executable.build(fixed(), name="plain")
    with device(trace=64) as chip:
        stream = chip.create_stream()
        pair, ends = stream.zeros((2, *SHAPE)), [stream.zeros(SHAPE) for _ in range(2)]
        with chip.driver.tracer.detailed():
            item = exe.launch(stream, [pair[0], pair[1]], ends)
            await stream
        assert told(chip.driver, item) == [place(each) for each in (pair[0], pair[1], *ends)]


@pytest.mark.anyio
async def test_a_grid_of_several_kernels_tells_whole_allocations() -> None:
    """Each block has a kernel and arguments of its own: what any of them was given is told, as a whole."""
    with device(trace=64) as chip:
        stream = chip.create_stream()
        arrays = [stream.zeros(64) for _ in range(2)]
        entries = [BlockKernel(take.bind((array[:8],)), 0, None) for array in arrays]
        with chip.driver.tracer.detailed():
            item = queue_of(stream).submit(Launch(BlockKernels(entries), LaunchConfig(2, 1), PLAIN_LAUNCH))
            await stream
        assert told(chip.driver, item) == [place(Buffer(array.allocation)) for array in arrays]


@pytest.mark.anyio
async def test_a_late_viewer_is_told_of_what_is_queued_and_runs() -> None:
    """Launches that run or are queued tell their memory to a new subscriber; those that are over do not."""
    with device(trace=100) as chip:
        ahead, other = chip.create_stream(), chip.create_stream()
        latch, kernel = StreamLatch(chip), KernelLatch()
        array = ahead.zeros(64, "float32")
        over = ahead.launch(take, (1, 1), array)
        await over
        latch.hold(ahead)
        queued = ahead.launch(take, (1, 1), array[8:])
        running = kernel.hold(other)
        assert kernel.started.wait(PATIENCE)
        waits = other.launch(combine, (1, 1), array, array[1:], array, 1.0)
        with chip.driver.tracer.detailed():
            start = array.allocation.offset
            assert told(chip.driver, queued) == [(0, start + 32, 224)]
            assert told(chip.driver, waits) == [(0, start, 256), (0, start + 4, 252)]
            assert told(chip.driver, running) == told(chip.driver, over) == []
            latch.release()
            kernel.release()
            await ahead
            await other


@pytest.mark.anyio
async def test_nothing_is_recorded_without_a_subscriber() -> None:
    """Without a wish for details no range is told, with a trace or without."""
    for capacity in (0, 100):
        with device(trace=capacity) as chip:
            stream = chip.create_stream()
            array = stream.zeros(64, "float32")
            await stream.launch(take, (1, 1), array)
            with chip.driver.tracer.detailed():
                pass
            await stream.launch(take, (1, 1), array)
            assert chip.driver.tracer.details_since().uses == []


@pytest.mark.anyio
async def test_they_are_saved_with_a_trace(tmp_path: Path) -> None:
    """A snapshot holds them, and a file gives them back as they were."""
    with device(trace=100) as chip:
        stream = chip.create_stream()
        array = stream.zeros(64, "float32")
        with chip.driver.tracer.detailed():
            item = stream.launch(take, (1, 1), array)
            await stream
        trace = chip.driver.tracer.snapshot()
    assert trace.uses == (MemoryUse(item.seq, *place(array)),)
    save(tmp_path / "run.trace.gz", trace)
    assert load(tmp_path / "run.trace.gz") == trace
