"""Faulting launches one after the other, watched and not: nothing is left behind, and the next one is right."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.errors import AtopsError
from tests.kernels.cxx.test_faults import DEEP, WRONG
from tests.kernels.cxx.test_strict import BOUNDS, HEAD, ME, RACES

BODIES = {name: body for name, (body, *_) in WRONG.items()} | {
    f"watched_{name}": ME + body for name, (body, *_) in (BOUNDS | RACES).items()
}


def _source() -> str:
    kernels = (f"__global__ void {name}(float *x, float *y) {{ {body} }}\n" for name, body in BODIES.items())
    return "".join([HEAD, DEEP, "\n", *kernels, "__global__ void right(float *x) { x[threadIdx.x] += 1; }\n"])


def _held() -> tuple[int, int, int]:
    """Return the pages of memory, the mappings and the files that the process has."""
    gc.collect()
    with open("/proc/self/statm") as file, open("/proc/self/maps") as maps:
        return int(file.read().split()[1]), sum(1 for _ in maps), len(os.listdir("/proc/self/fd"))


async def _faults(module: Any, count: int) -> int:
    """Launch so many, each on a stream of its own. Returns how many failed."""
    device = atops.Device(0)
    x, y = device.zeros(64, np.float32), device.zeros(64, np.float32)
    failed = 0
    for place in range(count):
        name = list(BODIES)[place % len(BODIES)]
        stream = device.create_stream()
        try:
            await stream.launch(module.function(name), (1, 12, 64 * ("dynamic" in name)), x, y)
        except AtopsError:
            failed += 1
    async with device.create_stream() as good:
        z = good.zeros(64, np.float32)
        good.launch(module.function("right"), (1, 12), z)
        assert (await good.fetch(z))[:12].tolist() == [1.0] * 12
    x.close()
    y.close()
    return failed


def _storm(threads: bool, count: int, **options: Any) -> None:
    """Run all of them until nothing is loaded for the first time any more, then `count`."""
    module = k.compile_source(_source(), "storm.tops").module()

    async def all_of_them() -> None:
        await _faults(module, 3 * len(BODIES))
        before = _held()
        failed = await _faults(module, count)
        assert failed >= count * len(WRONG) // len(BODIES) - len(WRONG), failed
        pages, mappings, files = (after - held for after, held in zip(_held(), before, strict=True))
        assert pages < 1500 and mappings < 40 and files <= 1, (pages, mappings, files)

    async def on_threads() -> None:
        async with atops.Driver(EmulatorOptions(**options)):
            await all_of_them()

    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(on_threads()) if threads else atops.run(all_of_them, EmulatorOptions(**options))
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_a_shower_leaves_nothing(threads: bool, strict: bool) -> None:
    """Some hundred: of memory, mappings and files."""
    _storm(threads, 300, strict=strict)


@pytest.mark.soak
@pytest.mark.parametrize("strict", [False, True])
def test_a_storm_leaves_nothing(strict: bool) -> None:
    """Ten thousand."""
    _storm(False, 10_000, strict=strict)


@pytest.mark.slow
@pytest.mark.parametrize("body", ["while (true) *z += 1", "while (*z < 1) __syncthreads()", "for (;;) put(x, *z)"])
def test_a_watched_kernel_that_never_ends_is_ended(body: str) -> None:
    """By an abort, again and again; and then the same module runs."""
    spin = f"__global__ void spin(volatile float *z, float *x) {{ {body}; }}\n"
    right = "__global__ void right(float *x) { x[0] = 7; }"
    module = k.compile_source(HEAD + spin + right, "spin.tops").module()

    async def main() -> Any:
        async with atops.Driver(EmulatorOptions(detect=True)):
            for _ in range(5):
                stream = atops.Device(0).create_stream()
                x = stream.upload(np.zeros(12, np.float32))
                await stream
                item = stream.launch(module.function("spin"), (2, 12), x, x)
                while item.state != "running":
                    await asyncio.to_thread(bool)
                stream.abort()
                with pytest.raises(AtopsError):
                    await item
            async with atops.Device(0).create_stream() as other:
                y = other.zeros(1, np.float32)
                other.launch(module.function("right"), (1, 1), y)
                return (await other.fetch(y)).tolist()

    assert asyncio.run(main()) == [7.0]
