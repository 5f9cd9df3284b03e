"""Under trio every await of what is over is a checkpoint: others run, and the task can be cancelled there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

import atops
from atops import tops
from atops.tops import aio
from tests.runtime.hosts import board


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


async def done_completion(device: atops.Device) -> Callable[[], Awaitable[Any]]:
    """A command that is over."""
    call = device.create_stream().call(int)
    await call
    return lambda: waits(call)


async def waits(thing: Awaitable[Any]) -> Any:
    """Await it, as a coroutine."""
    return await thing


async def leave(scope: Any) -> Callable[[], Awaitable[Any]]:
    """The exit of a scope."""
    await scope.__aenter__()
    return lambda: scope.__aexit__(None, None, None)


async def through(scope: Any) -> None:
    """Enter a scope, and leave it."""
    async with scope:
        pass


async def closed(thing: Any) -> Callable[[], Awaitable[Any]]:
    """The second close."""
    await thing.aclose()
    return thing.aclose


async def ready_result(device: atops.Device) -> Callable[[], Awaitable[Any]]:
    """A pipeline whose next result is over."""
    results = atops.pipeline(iter([np.zeros(4)] * 3), lambda stream, x: x, device=device, in_flight=2, streams=1)
    await anext(results)
    await device.wait()
    return lambda: anext(results)


async def recorded(device: atops.Device) -> atops.Event:
    """An event whose record is over."""
    event = device.create_stream().record()
    await event
    return event


async def ended(device: atops.Device) -> Callable[[], Awaitable[Any]]:
    """A pipeline that has given all."""
    results = atops.pipeline(iter([np.zeros(4)]), lambda stream, x: x, device=device)
    assert [each.size async for each in results] == [4]

    async def rest() -> list[Any]:
        return [each async for each in results]

    return rest


def within(device: atops.Device, program: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
    """A C-style call with this device's driver."""

    async def call() -> None:
        with device:
            assert (await program())[0] == tops.topsSuccess

    return call


async def give(value: Any) -> Any:
    """Return the value."""
    return value


ROOM = {"capacity": 2}
FORMS: dict[str, Callable[[atops.Device], Awaitable[Callable[[], Awaitable[Any]]]]] = {
    "a done completion": done_completion,
    "a completion's wait()": lambda device: give(device.create_stream().call(int).wait),
    "an event without a record": lambda device: give(lambda: waits(device.create_event())),
    "an event's wait()": lambda device: give(device.create_event().wait),
    "an idle stream": lambda device: give(lambda: waits(device.create_stream())),
    "the null stream": lambda device: give(lambda: waits(device.null_stream)),
    "an idle device": lambda device: give(device.wait),
    "a reset of an idle device": lambda device: give(device.reset),
    "an upload": lambda device: give(lambda: device.upload(np.zeros(4))),
    "the exit of a stream": lambda device: leave(device.create_stream()),
    "the exit of a buffer": lambda device: leave(device.empty(4)),
    "the exit of a stream's buffer": lambda device: leave(device.create_stream().empty(4)),
    "the exit of a pool": lambda device: leave(device.create_pool()),
    "room in a stream": lambda device: give(device.create_stream(**ROOM).room().__aenter__),
    "the exit of room": lambda device: leave(device.create_stream(**ROOM).room()),
    "the exit of a driver": lambda device: leave(atops.Driver()),
    "a pipeline's scope": lambda device: give(lambda: through(atops.pipeline(iter([]), int, device=device))),
    "the first close of a stream": lambda device: give(device.create_stream().aclose),
    "the second close of a stream": lambda device: closed(device.create_stream()),
    "the second close of a buffer": lambda device: closed(device.empty(4)),
    "the second close of a pool": lambda device: closed(device.create_pool()),
    "the second close of a driver": lambda device: closed(atops.Driver()),
    "the second close of a pipeline": lambda device: closed(atops.pipeline(iter([]), int, device=device)),
    "a ready result of a pipeline": ready_result,
    "the end of a pipeline": ended,
    "topsDeviceSynchronize": lambda device: give(within(device, aio.topsDeviceSynchronize)),
    "topsStreamSynchronize": lambda device: give(within(device, lambda: aio.topsStreamSynchronize(None))),
    "topsDeviceReset": lambda device: give(within(device, aio.topsDeviceReset)),
    "topsFree of nothing": lambda device: give(within(device, lambda: aio.topsFree(None))),
}


async def recorded_event(device: atops.Device) -> Callable[[], Awaitable[Any]]:
    """The wait for an event that is recorded."""
    event = await recorded(device)
    return lambda: waits(event)


async def synchronized_event(device: atops.Device) -> Callable[[], Awaitable[Any]]:
    """The C-style wait for an event without a record."""
    with device:
        event = tops.check(tops.topsEventCreate())
    return within(device, lambda: aio.topsEventSynchronize(event))


FORMS["a recorded event"] = recorded_event
FORMS["topsEventSynchronize"] = synchronized_event


@pytest.mark.parametrize("form", FORMS)
def test_an_await_of_what_is_over_is_a_checkpoint(device: atops.Device, form: str) -> None:
    """Each form yields to the run once, and a cancelled task is told there."""

    async def main() -> None:
        act = await FORMS[form](device)
        with trio.testing.assert_checkpoints():
            await act()
        again = await FORMS[form](device)
        with trio.CancelScope() as scope:
            scope.cancel()
            await again()
        assert scope.cancelled_caught

    trio.run(main)
    device.driver.close()
