"""Cancelling an await when its end is on the way, twice, by timeouts, and where closing and resetting wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import numpy as np
import pytest
from anyio.lowlevel import checkpoint

from atops.base.errors import AtopsError
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from tests.runtime.boards import PATIENCE, Latch, board, leftovers, settled, suspended_forever, waiters, works

Work = Callable[[], Awaitable[object]]

anyio_test = pytest.mark.anyio


async def cancelled(turns: int, work: Work, first: Callable[[], object], twice: bool) -> None:
    """Start work; when the loop has turned so often, do something and cancel it in the same turn, or `twice`."""
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            inner = anyio.CancelScope()

            async def run() -> None:
                with inner:
                    await work()

            tasks.start_soon(run)
            for _ in range(turns):
                await checkpoint()
            first()
            inner.cancel()
            if twice:
                await checkpoint()
                tasks.cancel_scope.cancel()


@anyio_test
@pytest.mark.parametrize("twice", [False, True])
async def test_cancelled_in_the_turn_in_which_it_ends(twice: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Whichever of the two the loop sees first: the wait ends once, the work is done, and nothing is said of it."""
    with board(devices=1) as driver:
        device = Device(0, driver)
        for turns in range(1, 8):
            latch = Latch(device)
            stream = device.create_stream()
            latch.hold(stream)
            fetched = stream.fetch(stream.upload(np.arange(8)))
            event = stream.record()

            async def work(fetched=fetched, event=event, stream=stream) -> None:
                await fetched
                await event
                await stream
                await device.wait()

            await cancelled(turns, work, latch.open, twice)
            await settled(driver)
            assert (fetched.result() == np.arange(8)).all()
            assert waiters(driver) == 0
            stream.close()
            latch.close()
        assert leftovers(driver) == {}
        assert works(driver)
    assert not caplog.records


@anyio_test
async def test_timeouts_end_waits_and_nothing_else() -> None:
    """A scope of no time at all, a sibling that fails: the waits behind them find the work where it was."""
    with board(devices=1) as driver:
        device = Device(0, driver)
        latch, stream = Latch(device), device.create_stream(capacity=8)
        held = latch.hold(stream)
        event = stream.record()
        for wait in (lambda: held, lambda: event, lambda: stream, device.wait, stream.room(8).__aenter__):
            with anyio.move_on_after(0) as scope:
                await wait()
            assert scope.cancelled_caught

        async def failing() -> None:
            await checkpoint()
            raise ZeroDivisionError

        with suppress(BaseExceptionGroup):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(failing)
                await held
        assert not held.done()
        assert waiters(driver) == 0
        latch.open()
        with anyio.CancelScope(shield=True):
            await event
        stream.close()
        latch.close()
        await settled(driver)
        assert leftovers(driver) == {}


@pytest.mark.asyncio
async def test_asyncios_own_timeouts() -> None:
    """`wait_for`, `timeout` and `gather` take a completion as any awaitable, and let go of it alone."""
    with board(devices=1) as driver:
        device = Device(0, driver)
        latch, stream = Latch(device), device.create_stream()
        held = latch.hold(stream)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(held, 0.001)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await held
        both = asyncio.gather(held, held)
        await asyncio.sleep(0)
        both.cancel()
        with pytest.raises(asyncio.CancelledError):
            await both
        assert waiters(driver) == 0
        latch.open()
        await asyncio.wait_for(held, PATIENCE)
        stream.close()
        latch.close()
        assert leftovers(driver) == {}


async def close_a_driver(driver: Driver) -> None:
    """Wait for the end of a board on which a kernel runs that only an abort ends."""
    Device(0, driver).create_stream().launch(suspended_forever, (1, 1))
    await driver.aclose()


async def reset_a_device(driver: Driver) -> None:
    """Wait for a device to be fresh."""
    Device(0, driver).create_stream().launch(suspended_forever, (1, 1))
    await Device(0, driver).reset()


async def upload_apart(driver: Driver) -> None:
    """Upload what no stream owns."""
    (await Device(0, driver).upload(np.ones(1 << 18))).close()


@pytest.mark.slow
@anyio_test
@pytest.mark.parametrize("wait", [close_a_driver, reset_a_device, upload_apart])
async def test_what_closes_and_resets_can_be_cancelled(wait: Callable[[Driver], Awaitable[None]]) -> None:
    """At each turn, twice: it goes on without its waiter, and doing it again comes to its end."""
    for turns in range(1, 6):
        with board(devices=1) as driver:
            await cancelled(turns, lambda driver=driver: wait(driver), lambda: None, twice=True)
            with anyio.fail_after(PATIENCE):
                if wait is reset_a_device:
                    await Device(0, driver).reset()
                if wait is not close_a_driver:
                    await settled(driver)
                    assert leftovers(driver) == {}
                    assert works(driver)
                await driver.aclose()
            with pytest.raises(AtopsError):
                Device(0, driver)
