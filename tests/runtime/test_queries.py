"""Asking whether something is over: a program that only asks gets its answer inline, too, and what asyncio may ask."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import atops
from atops import EmulatorOptions
from atops.base.errors import InvalidDevice, InvalidHandle, InvalidType, StreamFull
from atops.runtime.device import Device
from atops.runtime.driver import board_of
from atops.runtime.stream import queue_of
from tests.runtime.boards import PATIENCE, Latch, board, device, leftovers

MOST = 100_000  # questions


def questions(name: str, stream: Any) -> Callable[[], bool]:
    """Return what asks whether the stream's work is over."""
    array = stream.empty(16)
    done = stream.fill(array, 1)
    event = stream.record()
    return {"completion": lambda: done.done(), "event": lambda: event.is_done, "stream": lambda: stream.is_done}[name]


@pytest.mark.parametrize("clock", ["wall", "virtual"])
@pytest.mark.parametrize("name", ["completion", "event", "stream"])
def test_a_program_that_only_asks_gets_there(name: str, clock: str) -> None:
    """Inline, only the questions let the driver go on: after a while they do, and the same each time."""

    async def main() -> int:
        asks = questions(name, atops.Device().create_stream())
        return next(count for count in range(MOST) if asks())

    options = EmulatorOptions(clock=clock, seed=3)
    first = atops.run(main, options)
    assert 0 < first < MOST
    assert atops.run(main, options) == first


def test_one_look_at_many_things_changes_nothing() -> None:
    """Only asking for the same thing again and again waits for it: the clock stays before asyncio's timers."""

    async def main() -> None:
        device = atops.Device()
        stream = device.create_stream()
        word = stream.zeros(1, "uint32")
        await stream
        stream.wait_value(word, 1, "Eq")
        held = [stream.write_value(word, 2) for _ in range(3000)]
        await asyncio.sleep(0)
        before = board_of(device.driver).now()
        assert not any([each.done() for each in held])
        assert board_of(device.driver).now() == before
        stream.abort()

    atops.run(main, atops.EmulatorOptions(clock="virtual"))


def test_a_few_questions_change_nothing() -> None:
    """Looking now and then runs nothing: work that was enqueued begins when the program waits."""

    async def main() -> None:
        stream = atops.Device().create_stream()
        done = stream.fill(stream.empty(16), 1)
        for _ in range(100):
            assert not done.done() and not stream.is_done
        assert done.state == "pending"
        await done

    atops.run(main)


@pytest.mark.slow
def test_a_question_that_nothing_answers_returns() -> None:
    """What waits for the program itself is not over, however often it asks, until the program does it."""

    async def main() -> None:
        one = atops.Device()
        stream, other = one.create_stream(nonblocking=True), one.create_stream(nonblocking=True)
        word = one.empty(1, "uint32")
        await stream.fill(word, 0)
        waited = stream.wait_value(word, 1, "Eq")
        assert not any(waited.done() for _ in range(3000))
        other.write_value(word, 1)
        assert any(waited.done() for _ in range(MOST))

    atops.run(main)


def test_a_callback_is_a_function() -> None:
    """What cannot be called is refused where it is given, not logged when it is due."""
    with device() as one:
        stream = one.create_stream()
        done = stream.fill(stream.empty(16), 1)
        with pytest.raises(InvalidType, match=r"add_done_callback\(\) of .* expects a function, got 3"):
            done.add_done_callback(3)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(InvalidType, match="subscriber"):
            one.driver.tracer.subscribe(3)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("verb", [lambda stream: stream.upload(b"12345678"), lambda stream: stream.zeros(4)])
def test_a_verb_of_two_commands_needs_room_for_both(verb: Callable[[Any], object]) -> None:
    """Where only one of its commands has a place, nothing happens: no command, no memory, and the place stays free."""
    with board(devices=1) as driver:
        one = Device(0, driver)
        latch, stream = Latch(one), one.create_stream(capacity=3)
        latch.hold(stream)
        word = one.empty(1, "uint32")
        stream.fill(word, 0)
        before = one.context.memory.statistics()
        with pytest.raises(StreamFull, match="2 more are wanted"):
            verb(stream)
        now = stream.statistics()
        assert now.pending + now.running == 2 and not queue_of(stream).owned  # the first may have begun
        assert one.context.memory.statistics() == before
        last = stream.fill(word, 7)
        with pytest.raises(StreamFull, match="one more is wanted"):
            stream.fill(word, 8)
        latch.open()
        last.wait_sync(PATIENCE)
        for each in (word, latch):
            each.close()
        stream.close()
        assert leftovers(driver) == {}


def test_a_choice_of_device_is_a_boards_own() -> None:
    """What is current on one board says nothing of another's, in the same task and thread."""
    with board(devices=3) as large, board(devices=1) as small:
        Device(2, large).set_current()
        assert Device(driver=large).ordinal == 2
        assert Device(driver=small).ordinal == 0

        async def main() -> int:
            return atops.Device().ordinal

        assert atops.run(main, EmulatorOptions(devices=2)) == 0
        with pytest.raises(InvalidDevice, match=r"EmulatorOptions\.devices"):
            Device(1, small)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_lives_in_a_driver_has_no_copy(way: Callable[[Any], object]) -> None:
    """A second stream on one queue, or a second event, would be another's mistake: copying and pickling refuse."""
    with device() as one:
        stream = one.create_stream()
        for thing in (stream, stream.record(), stream.fill(stream.empty(1), 0), one.driver, one.default_pool):
            with pytest.raises(InvalidType, match="cannot be copied or pickled"):
                way(thing)
        assert copy.copy(one) == one
        with pytest.raises(InvalidType, match=r"<Device 0.*cannot be copied or pickled"):
            pickle.dumps(one)


def test_the_current_pool() -> None:
    """It is the default one until another is set, and again when that is destroyed; no foreign or dead one can be."""
    with board(devices=2) as driver:
        one, other = Device(0, driver), Device(1, driver)
        assert one.current_pool is one.default_pool
        pool = one.create_pool()
        assert one.current_pool is one.default_pool
        one.current_pool = pool
        stream = one.create_stream()
        with stream.allocate(1000):
            assert pool.statistics().used_current >= 1000 and one.default_pool.statistics().used_current == 0
        with pytest.raises(InvalidHandle, match="device 0"):
            other.current_pool = pool
        with pytest.raises(InvalidType, match="MemoryPool"):
            one.current_pool = 3  # type: ignore[assignment]  # the mistake
        pool.destroy()
        assert one.current_pool is one.default_pool
        with pytest.raises(InvalidHandle, match="destroyed"):
            one.current_pool = pool
        one.current_pool = one.default_pool
