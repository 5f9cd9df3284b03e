"""Runs of one check share nothing that a program could see, and leave nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.device import chip

KEPT: list[Any] = []


@k.kernel
async def reads_before_it_stores(y: Any, size: int) -> None:
    """Tell what is in scratchpads that nothing has stored to, and leave something there."""
    mine, ours, more = k.local(size, np.int32), k.shared(size, np.int32), k.dynamic_shared(np.int32)
    y[k.threadIdx.x] = np.sum(mine) + np.sum(ours) + np.sum(more)
    await k.syncthreads()
    for memory in (mine, ours, more):
        memory[:] = 7


@pytest.mark.parametrize("size", [64, 100_000])
def test_scratchpads_of_each_run_are_as_new(size: int) -> None:
    """Zeros, whatever the run before has left there; larger memory is not kept."""

    async def main() -> list[int]:
        async with atops.Device(0).create_stream() as stream:
            y = stream.zeros(4, np.int32)
            stream.launch(reads_before_it_stores, (1, 4, 256), y, size)
            found: list[int] = (await stream.fetch(y)).tolist()
            return found

    report = atops.check(main, 12, same_result=True)
    report.raise_if_failed()
    assert atops.run(main) == [0] * 4
    assert not chip._kept and not chip._keepers[0]


@k.kernel
async def keeps_its_memory(y: Any) -> None:
    """Give a part of L1 to the program, which no kernel should."""
    mine = k.local(16, np.int32)
    mine[:] = len(KEPT)
    KEPT.append(mine[2:4])
    y[0] = mine[0]


def test_memory_that_a_program_has_kept_stays_its_own() -> None:
    """It is not cleared, and no later run gets it."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            y = stream.zeros(1, np.int32)
            await stream.launch(keeps_its_memory, (1, 1), y)

    KEPT.clear()
    atops.check(main, 6).raise_if_failed()
    runs = [part.tolist() for part in KEPT]
    assert runs == [[number] * 2 for number in range(len(KEPT))]
    KEPT.clear()


@pytest.mark.slow
def test_runs_leave_nothing() -> None:
    """No object, no descriptor, no logger that keeps silent; tasks and generators that are left are ended."""
    ended = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append("numbers")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            await stream.fill(stream.device.empty(4), 1)
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        generator = numbers()
        assert await anext(generator) == 1
        assert not task.done()

    def held() -> tuple[int, int, int]:
        gc.collect()
        filters = sum(len(logging.getLogger(name).filters) for name in logging.root.manager.loggerDict)
        return len(gc.get_objects()), len(os.listdir("/proc/self/fd")), filters

    assert atops.check(main, 20)
    objects, files, filters = held()
    ended.clear()
    assert atops.check(main, 40)
    assert sorted(ended) == ["numbers"] * 40 + ["waits"] * 40
    ended.clear()
    later = held()
    assert later[1:] == (files, filters)
    assert later[0] - objects < 40
