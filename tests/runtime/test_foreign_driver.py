"""What belongs to another driver, or cannot be: refused at the call, and nothing has happened."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import HostCallFailure, IllegalState, InvalidHandle, InvalidType, InvalidValue, StreamFull
from atops.runtime.stream import queue_of


@k.kernel
def touch(x: k.Span) -> None:
    """Store one element."""
    x[0] = 1


@pytest.fixture
def drivers() -> Iterator[tuple[atops.Driver, atops.Driver]]:
    """Two boards whose addresses look alike."""
    ours, theirs = atops.Driver(), atops.Driver()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_memory_of_another_driver(drivers: tuple[atops.Driver, atops.Driver]) -> None:
    """A copy, a fill, a value, a free and a launch refuse it, slices and views of it too, and name both drivers."""
    ours, theirs = (atops.Device(0, driver) for driver in drivers)
    stream = ours.create_stream()
    mine = stream.zeros(16, np.int32)
    made = (theirs.empty(16, np.int32), theirs.create_stream().zeros(16, np.int32), theirs.host_malloc(16, "int32"))
    for foreign in made:
        for value in (foreign, foreign[:], foreign.reshape(4, 4).reshape(16)):
            for refused in (
                lambda value=value: stream.copy(mine, value),
                lambda value=value: stream.copy(value, mine),
                lambda value=value: stream.fill(value, 1),
                lambda value=value: stream.write_value(value, 1),
                lambda value=value: stream.wait_value(value, 1),
                lambda value=value: stream.launch(touch, (1, 1), value),
                lambda value=value: stream.launch(touch, (1, 1), x=value),
                lambda value=value: stream.free(value),
            ):
                with pytest.raises(InvalidHandle, match="is of <Driver"):
                    refused()
    stream.sync()
    assert not queue_of(stream).pending()


def test_events_of_another_driver(drivers: tuple[atops.Driver, atops.Driver]) -> None:
    """A record, a wait and a launch refuse them, recorded or not; both boards' events give no time together."""
    ours, theirs = (atops.Device(0, driver) for driver in drivers)
    stream, other = ours.create_stream(), theirs.create_stream()
    foreign = (theirs.create_event(), other.record())
    x = ours.empty(1, np.int32)
    for event in foreign:
        for refused in (
            lambda event=event: stream.record(event),
            lambda event=event: stream.wait(event),
            lambda event=event: stream.launch(touch, (1, 1), x, start=event),
            lambda event=event: stream.launch(touch, (1, 1), x, stop=event),
        ):
            with pytest.raises(InvalidHandle, match=r"Event .* is of <Driver.* is of <Driver"):
                refused()
    stream.sync()
    other.sync()
    assert not queue_of(stream).pending()
    mine = stream.record()
    stream.sync()
    with pytest.raises(InvalidHandle, match="different devices"):
        mine - foreign[1]
    stream.wait(mine).wait_sync()


@pytest.mark.parametrize(("mask", "error"), [("q", InvalidType), (1 << 40, InvalidValue), (-1, InvalidValue)])
def test_mask_of_a_value_wait(drivers: tuple[atops.Driver, atops.Driver], mask: object, error: type) -> None:
    """A mask that is no int, or has bits that the word has not, is refused at the call; the stream stays usable."""
    stream = atops.Device(0, drivers[0]).create_stream()
    word = stream.zeros(1, np.int32)
    with pytest.raises(error, match="mask"):
        stream.wait_value(word, 1, "Eq", mask=mask)
    stream.sync()


@pytest.mark.parametrize("verb", ["upload", "zeros"])
def test_a_full_stream_keeps_nothing(drivers: tuple[atops.Driver, atops.Driver], verb: str) -> None:
    """Where the second command of an upload finds no room, the memory of the first goes back."""
    device = atops.Device(0, drivers[0])
    stream, gate = device.create_stream(capacity=3), device.create_stream(nonblocking=True)
    word = gate.zeros(1, np.int32)
    gate.sync()
    stream.wait_value(word, 1)
    stream.record()
    with pytest.raises(StreamFull):
        stream.upload(np.zeros(8)) if verb == "upload" else stream.zeros(8)
    assert not queue_of(stream).owned
    gate.write_value(word, 1)
    stream.sync()


@pytest.mark.anyio
async def test_a_driver_entered_twice() -> None:
    """The second entry is refused; the first goes on, and ends as ever."""
    async with atops.Driver() as driver:
        with pytest.raises(IllegalState, match="entered already"):
            async with driver:
                pass
        assert driver.closed is None
        assert atops.current_driver() is driver
    assert driver.closed is not None


@pytest.mark.anyio
async def test_a_driver_left_in_another_task() -> None:
    """Fixtures enter in one task and leave in another: the driver closes all the same."""
    driver = atops.Driver()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driver.__aenter__)
    await driver.__aexit__(None, None, None)
    assert driver.closed is not None


@pytest.mark.anyio
async def test_a_pipeline_closes_its_generator() -> None:
    """Leaving early runs the `finally` of a plain generator."""
    ended = []

    def chunks() -> Iterator[np.ndarray]:
        try:
            for _ in range(100):
                yield np.zeros(8, np.uint8)
        finally:
            ended.append(True)

    async with atops.pipeline(chunks(), lambda stream, x: x) as results:
        async for _ in results:
            break
    assert ended == [True]


@pytest.mark.parametrize(
    "change",
    [{"warm_bytes": -5}, {"slice": 1.5}, {"esl": "y"}, {"trace": "x"}, {"abort_grace": "a"}],
)
def test_options_that_cannot_be(change: dict[str, object]) -> None:
    """Each is refused where it is made, by its name."""
    with pytest.raises(InvalidValue, match=next(iter(change))):
        atops.EmulatorOptions(**change)  # type: ignore[arg-type]  # the point


def test_a_call_that_makes_a_coroutine() -> None:
    """A plain function that returns a coroutine fails its call: what it made would never run."""
    stream = atops.Device(0).create_stream()

    async def work() -> None:
        """Never run."""

    with pytest.raises(HostCallFailure, match="returned a coroutine"):
        stream.call(lambda: work()).wait_sync()
    stream.clear_error()


def test_a_peer_of_another_driver(drivers: tuple[atops.Driver, atops.Driver]) -> None:
    """Access between devices is of one board; a device of another one, or what is no device, is refused by name."""
    ours, theirs = (atops.Device(0, driver) for driver in drivers)
    for verb in (ours.can_access_peer, ours.enable_peer_access, ours.disable_peer_access):
        with pytest.raises(InvalidHandle, match="is of <Driver"):
            verb(theirs)
        with pytest.raises(InvalidType, match="expected a Device"):
            verb(1)  # type: ignore[arg-type]  # the point
