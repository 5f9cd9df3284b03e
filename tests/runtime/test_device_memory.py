"""Memory that a device holds for all its streams, outside any stream's order: uploads that outlive streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import numpy as np
import pytest

from atops.base.errors import IllegalAddress, InvalidType, OutOfMemory
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from tests.runtime.boards import add_one, board, leftovers

pytestmark = pytest.mark.anyio


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A board on which nothing may be left."""
    with board(devices=2) as made:
        yield made
        assert leftovers(made) == {}


@pytest.mark.parametrize("host", [np.arange(24, dtype=np.int32), 7, [[1, 2], [3, 4]], np.zeros((0, 3)), b"bytes"])
async def test_an_upload_is_there_when_it_is_awaited(driver: Driver, host: Any) -> None:
    """It has the shape and type that numpy gives it, bytes are uint8, and every stream sees it without an event."""
    device, bare = Device(1, driver), host
    array = await device.upload(host)
    host = np.frombuffer(bare, np.uint8) if isinstance(bare, bytes) else np.asarray(bare)
    assert (array.device_id, array.shape, array.dtype) == (1, host.shape, host.dtype)
    for options in ({}, {"nonblocking": True}):
        async with device.create_stream(**options) as stream:
            assert np.array_equal(await stream.fetch(array), host)
    array.close()


async def test_an_upload_outlives_streams(driver: Driver) -> None:
    """No stream owns it: what one changes, the next one finds, until it is closed."""
    device = Device(0, driver)
    array = await device.upload(np.zeros((2, 12), np.int32))
    for _ in range(3):
        async with device.create_stream() as stream:
            stream.launch(add_one, (2, 12), array.reshape(24))
    async with device.create_stream() as stream:
        assert (await stream.fetch(array) == 3).all()
    array.close()
    await device.wait()
    assert not array.is_live


async def test_an_upload_waits_for_no_stream(driver: Driver) -> None:
    """Work that stands on a blocking stream, or on the null stream, does not hold it up."""
    device = Device(0, driver)
    word = device.host_malloc(1, "uint32")
    held = [stream.wait_value(word, 1, "Eq") for stream in (device.create_stream(), device.null_stream)]
    array = await device.upload(np.arange(5))
    assert not any(wait.done() for wait in held)
    device.create_stream(nonblocking=True).write_value(word, 1)
    for wait in held:
        await wait
    array.close()
    word.close()


async def test_an_upload_that_does_not_happen(driver: Driver) -> None:
    """Refused or cancelled, it leaves nothing allocated."""
    device = Device(0, driver)
    with pytest.raises(InvalidType, match="Python objects"):
        await device.upload([None, "x"])
    full = device.allocate(device.memory_info()[0])
    with pytest.raises(OutOfMemory, match="in one piece"):
        await device.upload(np.zeros(4))
    full.close()
    uploads = 0
    while True:
        with anyio.CancelScope() as scope:
            scope.cancel()
            array = await device.upload(np.zeros(1 << 20, np.uint8))
        if scope.cancelled_caught:
            break
        array.close()  # it was over before anybody could wait for it
        uploads += 1
        assert uploads < 100


async def test_what_a_reset_has_freed(driver: Driver) -> None:
    """Memory from before a reset is refused, and the message says that a reset has freed it."""
    device = Device(0, driver)
    array = await device.upload(np.zeros(4))
    await device.reset()
    with pytest.raises(IllegalAddress, match="was freed by a reset of its device"):
        device.create_stream().fill(array, 0)
    array.close()
