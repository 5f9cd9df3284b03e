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

N = 64
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


async def half_of_it(device: atops.Device, stream: atops.Stream) -> object:
    x = device.empty(N)
    stream.fill(x[: N // 2], 1.0)
    return await stream.fetch(x)


async def copied_first(device: atops.Device, stream: atops.Stream) -> object:
    x, y = device.empty(N), device.zeros(N)
    stream.copy(y, x)
    return await stream.fetch(y)


async def loaded_by_a_kernel(device: atops.Device, stream: atops.Stream) -> object:
    return await stream.launch(double, (1, 1), device.zeros(N), device.empty(N))


async def stored_by_a_kernel_in_part(device: atops.Device, stream: atops.Stream) -> object:
    x = device.empty(N)
    stream.launch(store, (1, 1), x[: N // 4], 1)
    return await stream.fetch(x)


WRONG: dict[Program, tuple[int, int]] = {
    fetched: (0, 256), fetched_of_the_stream: (0, 256), freed_and_allocated_again: (0, 256), half_of_it: (128, 256),
    copied_first: (0, 256), loaded_by_a_kernel: (0, 256), stored_by_a_kernel_in_part: (64, 256),
}  # fmt: skip


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


RIGHT: list[Callable[[atops.Device, atops.Stream], Coroutine[Any, Any, None]]] = [
    stored_side_by_side, filled_in_parts, only_copied, stored_by_others, stored_and_loaded_by_one_kernel
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
    assert race.kind == "read of unwritten memory" and race.ranges == (WRONG[program],)
    assert race.first.site is not None and race.second.site is not None
    assert race.first.site.path == race.second.site.path == __file__


@pytest.mark.parametrize("program", RIGHT, ids=lambda each: each.__name__)
def test_what_was_stored_to_may_be_read(program: Program) -> None:
    """By fills, copies, launches, `zeros`, or where it cannot be known."""
    assert not report_of(program).races


def test_strict_mode_reports_it_and_goes_on() -> None:
    """It is no matter of order: nothing fails."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        async with device.create_stream() as stream:
            await stream.fetch(device.empty(N))
        return device.driver.report()

    assert atops.run(main, atops.EmulatorOptions(strict=True)).verdict == "race"


@pytest.mark.slow
def test_an_executable_writes_its_outputs() -> None:
    """It is no kernel whose threads tell: what it is given tells what it reads and writes."""
    program = Path(__file__).resolve().parents[3] / "examples" / "tops" / "run_an_onnx_model.py"
    environment = {**os.environ, "ATOPS_DETECT": "1"}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    assert not done.stderr, done.stderr
