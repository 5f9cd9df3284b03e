"""Everything that can be awaited, under a device that is reset and a driver that is closed: neither leaves a wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import atops
from atops.base.errors import AtopsError
from atops.runtime.driver import Driver
from tests.every import every
from tests.runtime.boards import PATIENCE, board, leftovers, settled, waiters, works
from tests.runtime.failures.test_matrix import OPENED, THREADED, UNTOLD, WAITS, Bench, Wait, c_device, flat


async def reset(driver: Driver) -> None:
    """Reset the device."""
    await driver.device(0).reset()


async def close(driver: Driver) -> None:
    """Close the driver."""
    await driver.aclose()


async def close_without_waiting(driver: Driver) -> None:
    """Close the driver, as plain code does."""
    driver.close()


ENDS = (reset, close, close_without_waiting)


End = Callable[[Driver], Awaitable[None]]


async def ended(driver: Driver, wait: Wait, end: End, turn: int) -> list[BaseException]:
    """Wait for what nothing but `end` ends, which comes in a turn of the loop. Returns what the wait raised."""
    bench = Bench.of(atops.Device(0, driver))
    told: list[BaseException] = []

    async def run() -> None:
        try:
            await wait(bench)
        except Exception as error:
            told.append(error)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for _ in range(turn):
                await checkpoint()
            await end(driver)
    return told


@pytest.mark.slow
@every("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("loop", THREADED, ids=lambda loop: loop.__name__)
def test_every_wait_ends_with_its_board(loop: Any, end: End) -> None:
    """The wait fails by an error of this library, nothing is left, and a device that was reset works."""
    for wait in WAITS:
        for turn in range(2, OPENED):
            with board(devices=1) as driver:

                async def main(wait: Wait = wait, driver: Driver = driver, turn: int = turn) -> None:
                    with atops.Device(0, driver):
                        told = await ended(driver, wait, end, turn)
                    late = wait is c_device and turn == 2  # trio may begin it after the reset: nothing to wait for
                    assert told or late or wait in UNTOLD, f"{wait.__name__} ended by itself, turn {turn}"
                    assert all(isinstance(each, AtopsError | RuntimeError) for each in flat(told)), (wait, turn, told)
                    if end is reset:
                        await settled(driver)
                        assert waiters(driver) == 0, (wait, turn)
                        assert leftovers(driver) == {}, (wait, turn)

                loop(main)
                if end is reset:
                    assert works(driver), (wait, turn)
