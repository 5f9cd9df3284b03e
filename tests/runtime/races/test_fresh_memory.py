"""Reads of device memory that nothing has stored to are named; what was stored to, by whatever way, is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.runtime.races.fresh_memory import UNWRITTEN

N = 64
ROOT = Path(__file__).resolve().parents[3]
OPTIONS = atops.EmulatorOptions(detect=True, devices=2)
Program = Callable[[atops.Device, atops.Stream], Coroutine[Any, Any, object]]


@k.kernel
def store(x: k.Span[np.float32], value: int) -> None:
    x[:] = value


@k.kernel
def double(y: k.Span[np.float32], x: k.Span[np.float32]) -> None:
    y[:] = x * 2


async def fetched(device: atops.Device, stream: atops.Stream) -> object:
    return await stream.fetch(device.empty(N))


async def fetched_of_the_stream(device: atops.Device, stream: atops.Stream) -> object:
    return await stream.fetch(stream.empty(N))


async def freed_and_allocated_again(device: atops.Device, stream: atops.Stream) -> object:
    x = stream.upload(np.ones(N, np.float32))
    stream.free(x)
    return await stream.fetch(stream.empty(N))


async def the_half_that_nothing_has_filled(device: atops.Device, stream: atops.Stream) -> object:
    x = device.empty(N)
    stream.fill(x[: N // 2], 1.0)
    await stream.fetch(x)
    return await stream.fetch(x[N // 2 :])


async def copied_first(device: atops.Device, stream: atops.Stream) -> object:
    x, y = device.empty(N), device.zeros(N)
    stream.copy(y, x)
    return await stream.fetch(y)


async def copied_to_pinned_memory(device: atops.Device, stream: atops.Stream) -> object:
    return await stream.copy(device.host_malloc(N, np.float32), device.empty(N))


async def copied_to_managed_memory(device: atops.Device, stream: atops.Stream) -> object:
    return await stream.copy(device.malloc_managed(N, np.float32), device.empty(N))


async def fetched_from_another_device(device: atops.Device, stream: atops.Stream) -> object:
    x, y = device.empty(N), atops.Device(1, device.driver).zeros(N)
    await stream.copy(y, x)
    return await stream.fetch(y)


async def loaded_by_a_kernel(device: atops.Device, stream: atops.Stream) -> object:
    return await stream.launch(double, (1, 1), device.zeros(N), device.empty(N))


async def filled_in_part_and_loaded_whole(device: atops.Device, stream: atops.Stream) -> object:
    x, y = device.empty(N), device.empty(N)
    stream.launch(store, (1, 1), x[: N // 4], 1)
    stream.copy(y, x)
    await stream.fetch(y)
    return await stream.launch(double, (1, 1), device.zeros(N), y)


@k.kernel
def add_one(x: k.Span[np.float32]) -> None:
    x[k.threadIdx.x] += 1


@k.kernel
async def sum_by_dte(x: k.Span[np.float32]) -> None:
    mine = k.local(N, np.float32)
    with k.dte_scope() as ctx:
        await k.memcpy_async(ctx, mine, x)
        mine += 1
        await k.memcpy_async(ctx, x, mine)


async def added_to(device: atops.Device, stream: atops.Stream) -> object:
    return await stream.launch(add_one, (1, 8), device.empty(N))


async def added_to_by_transfers(device: atops.Device, stream: atops.Stream) -> object:
    return await stream.launch(sum_by_dte, (1, 1), device.empty(N))


async def loaded_by_a_kernel_from_a_copy_of_it(device: atops.Device, stream: atops.Stream) -> object:
    x, y = device.empty(N), device.zeros(N)
    stream.copy(y, x)
    return await stream.launch(double, (1, 1), device.zeros(N), y)


WRONG: dict[Program, tuple[int, int]] = {
    loaded_by_a_kernel: (0, 256), filled_in_part_and_loaded_whole: (64, 256),
    loaded_by_a_kernel_from_a_copy_of_it: (0, 256), added_to: (0, 32), added_to_by_transfers: (0, 256),
}  # fmt: skip
SHOWN: list[Program] = [
    fetched, fetched_of_the_stream, freed_and_allocated_again, copied_first, the_half_that_nothing_has_filled,
    copied_to_pinned_memory, copied_to_managed_memory, fetched_from_another_device,
]  # fmt: skip


async def stored_side_by_side(device: atops.Device, stream: atops.Stream) -> None:
    """Two memories with no byte between them, which one line stores to."""
    both = device.empty(N), device.empty(N)
    for x in both:
        stream.launch(store, (1, 1), x, 1)
    result = device.empty(N)
    stream.launch(double, (1, 1), result, both[1])
    await stream.fetch(result)


async def filled_in_parts(device: atops.Device, stream: atops.Stream) -> None:
    x, y = device.empty((4, N)), device.empty((4, N))
    for row in range(4):
        stream.fill(x[row], 1.0)
    stream.copy(y, x)
    await stream.fetch(y)


async def only_copied(device: atops.Device, stream: atops.Stream) -> None:
    """What nothing looks at may be copied: a buffer with room to spare."""
    x, y = device.empty(N), atops.Device(1, device.driver).empty(N)
    stream.fill(x[:4], 1.0)
    stream.copy(y, x)
    await stream.fetch(y[:4])


async def fetched_with_room_to_spare(device: atops.Device, stream: atops.Stream) -> None:
    x = device.empty(N)
    stream.launch(store, (1, 1), x[: N // 4], 1)
    await stream.fetch(x)


async def copied_to_pinned_memory_with_room_to_spare(device: atops.Device, stream: atops.Stream) -> None:
    x, pinned = device.empty(N), device.host_malloc(N, np.float32)
    stream.fill(x[:4], 1.0)
    await stream.copy(pinned, x)
    await stream.copy(device.empty(N), pinned)


async def parts_that_were_replaced(device: atops.Device, stream: atops.Stream) -> None:
    """They have what was there before."""
    from atops import tops

    pointer = tops.check(tops.topsMallocScatter(4 * N))
    tops.check(tops.topsMemorySetDims(pointer, [N], 1))
    tops.check(tops.topsScatterPopulateSub(pointer, 4, 0, [N], [0], [0], 1))
    tops.check(await tops.aio.topsMemcpyHtoD(pointer, np.ones(N, np.float32), 4 * N))
    tops.check(await tops.aio.topsScatterInplace(pointer, 1, 4, [1], [[N]], [[0]], [[0]], 1))
    tops.check(await tops.aio.topsMemcpyDtoH(np.zeros(N, np.float32), pointer, 4 * N))
    tops.check(tops.topsFree(pointer))


async def rows_with_padding(device: atops.Device, stream: atops.Stream) -> None:
    x = device.empty((4, N))
    for row in range(4):
        stream.copy(x[row][: N - 3], np.ones(N - 3, np.float32))
    await stream.fetch(x)


async def copied_as_filler(device: atops.Device, stream: atops.Stream) -> None:
    x, y = device.empty(N), device.zeros(N)
    stream.copy(y, x)
    stream.fill(y, 1.0)
    await stream.fetch(y)


async def copied_while_its_kernel_runs(device: atops.Device, stream: atops.Stream) -> None:
    """What the kernel has stored by then is not known before its end."""
    x, y, ready, go = device.empty(N), device.zeros(N), device.signals.allocate(), device.signals.allocate()

    @k.kernel
    async def store_and_wait(x: k.Span[np.float32], ready: int, go: int) -> None:
        x[:] = 1
        k.signal_write(ready, 1)
        await k.signal_wait(go, 1)

    running = stream.launch(store_and_wait, (1, 1), x, ready, go)
    await device.signals.wait(ready, 1)
    async with device.create_stream() as other:
        other.copy(y, x)
        await other.fetch(y)
    device.signals.write(go, 1)
    await running


async def stored_by_others(device: atops.Device, stream: atops.Stream) -> None:
    pinned, managed = device.host_malloc(N, np.float32), device.malloc_managed(N, np.float32)
    await stream.fetch(pinned)
    await stream.fetch(managed)


async def stored_and_loaded_by_one_kernel(device: atops.Device, stream: atops.Stream) -> None:
    @k.kernel
    def both(x: k.Span[np.float32]) -> None:
        x[k.threadIdx.x] = 1
        x[k.threadIdx.x] += 1

    x = device.empty(4)
    await stream.launch(both, (1, 4), x)
    await stream.fetch(x)


async def stored_by_another_stream_while_its_kernel_runs(device: atops.Device, stream: atops.Stream) -> None:
    """What comes in the middle of a launch is written, too."""

    @k.kernel
    async def load_then_store(x: k.Span[np.float32], signal: int) -> None:
        await k.signal_wait(signal, 1)
        x[0] += 1

    x, signal = device.empty(N), device.signals.allocate()
    running = stream.launch(load_then_store, (1, 1), x, signal)
    async with device.create_stream() as other:
        await other.fill(x, 1.0)
    device.signals.write(signal, 1)
    await running


async def stored_before_a_barrier_and_added_to(device: atops.Device, stream: atops.Stream) -> None:
    @k.kernel
    async def two_phases(x: k.Span[np.float32]) -> None:
        x[k.threadIdx.x] = 1
        await k.syncthreads()
        x[3 - k.threadIdx.x] += 1

    await stream.launch(two_phases, (1, 4), device.empty(4))


RIGHT: list[Callable[[atops.Device, atops.Stream], Coroutine[Any, Any, None]]] = [
    stored_side_by_side, filled_in_parts, only_copied, stored_by_others, stored_and_loaded_by_one_kernel,
    fetched_with_room_to_spare, rows_with_padding, copied_as_filler, copied_to_pinned_memory_with_room_to_spare,
    parts_that_were_replaced, stored_by_another_stream_while_its_kernel_runs, stored_before_a_barrier_and_added_to,
]  # fmt: skip


def report_of(program: Program) -> atops.Report:
    async def main() -> atops.Report:
        device = atops.Device(0)
        async with device.create_stream() as stream:
            await program(device, stream)
            await program(device, stream)
        return device.driver.report()

    return atops.run(main, OPTIONS)


@pytest.mark.parametrize("program", WRONG, ids=lambda each: each.__name__)
def test_a_read_of_what_nothing_has_stored_to_is_named(program: Program) -> None:
    """With the bytes, and where the memory came from, once for each pair of lines."""
    (race,) = report_of(program).races
    assert race.kind == UNWRITTEN and race.ranges == (WRONG[program],)
    assert race.first.site is not None and race.second.site is not None
    assert race.first.site.path == race.second.site.path == __file__


@pytest.mark.parametrize("program", SHOWN, ids=lambda each: each.__name__)
def test_what_the_host_is_shown_of_it_is_no_accusation(program: Program) -> None:
    """Whether it uses the bytes is not seen: so the verdict says, with both lines."""
    report = report_of(program)
    assert report.verdict == "inconclusive" and not report.races
    (said,) = (each for each in report.escapes if "nothing has stored to any of them" in each)
    assert said.count("test_fresh_memory.py:") == 2 and program.__name__ in said
    assert report.observed["unwritten bytes fetched"] == 2 * 4 * N


@pytest.mark.parametrize("program", RIGHT, ids=lambda each: each.__name__)
def test_what_was_stored_to_may_be_read(program: Program) -> None:
    """By fills, copies, launches, `zeros`, or where it cannot be known."""
    assert not report_of(program).races


def test_what_is_copied_while_its_kernel_runs_is_not_called_unwritten() -> None:
    """Whatever else is said of a copy that meets a kernel."""
    assert UNWRITTEN not in [race.kind for race in report_of(copied_while_its_kernel_runs).races]


def test_padding_is_counted() -> None:
    """A report that is clean says that some of what was fetched was never written."""
    report = report_of(fetched_with_room_to_spare)
    assert report.verdict == "clean"
    assert report.observed["unwritten bytes fetched"] == 2 * 3 * N


def test_strict_mode_reports_a_use_and_goes_on() -> None:
    """It is no matter of order: nothing fails."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        async with device.create_stream() as stream:
            await loaded_by_a_kernel(device, stream)
        return device.driver.report()

    assert atops.run(main, atops.EmulatorOptions(strict=True)).verdict == "race"


@pytest.mark.slow
def test_an_executable_writes_its_outputs() -> None:
    """It is no kernel whose threads tell: what it is given tells what it reads and writes."""
    program = ROOT / "examples" / "tops" / "run_an_onnx_model.py"
    environment = {**os.environ, "ATOPS_DETECT": "1"}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr


UNCLOSED = """
import atops
device = atops.Device(0)
stream = device.create_stream()
x = device.empty(8)
if {filled}:
    stream.fill(x, 1)
stream.fetch(x).result(None)
"""


@pytest.mark.slow
def test_what_is_inconclusive_is_told_where_nobody_can_ask() -> None:
    """At the end of a process whose driver nothing closes; a clean one says nothing."""
    said = []
    for filled in (False, True):
        command = [sys.executable, "-c", UNCLOSED.format(filled=filled)]
        environment = {**os.environ, "ATOPS_DETECT": "1"}
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        said.append(done.stderr)
    assert said[0].startswith("inconclusive: ") and "nothing has stored to any of them" in said[0]
    assert said[1] == ""
