"""A Stream and the queue behind it: one Stream as long as it is held, a new one afterwards, and no cycle of the two."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import atops
from atops.base.errors import InvalidHandle, InvalidType, PriorLaunchFailure
from atops.runtime.stream import queue_of
from tests.runtime.boards import PATIENCE, Latch, board, device


def test_a_stream_is_the_same_as_long_as_it_is_held():
    """By its completions, its handle, its room, and as the current one."""
    with device() as here:
        stream = here.create_stream(capacity=4)
        item = stream.call(int)
        assert item.stream is stream and stream.room(1).stream is stream
        assert atops.Stream.from_handle(stream.__tops_stream__()[1]) is stream
        with stream:
            assert here.current_stream is stream
        assert here.null_stream is here.null_stream is here.null_stream.call(int).stream


def test_a_name_is_its_characters():
    """A str of the program's own class is written into labels and messages without calling any code of it."""

    class Own(str):
        def __format__(self, *spec: object) -> str:
            raise ZeroDivisionError

        __str__ = __repr__ = __hash__ = __format__  # type: ignore[assignment]  # what they take does not matter: each raises

    driver = atops.Driver(atops.EmulatorOptions(trace=100), name=Own("serving"))
    try:
        stream = atops.Device(0, driver).create_stream(name=Own("load"))
        stream.call(_divide)
        with pytest.raises(PriorLaunchFailure, match=r"^load skipped"):
            stream.call(int).wait_sync(PATIENCE)
        assert "serving" in repr(driver) and type(stream.label) is str
    finally:
        driver.close()


def _divide() -> float:
    return 1 / 0


def test_a_dropped_stream_does_its_work_and_is_there_again():
    """What was enqueued runs, and a completion gives a Stream in front of the same queue, with handle and memory."""
    with device() as here:
        stream, latch = here.create_stream(name="load"), Latch(here)
        handle = stream.__tops_stream__()[1]
        latch.hold(stream)
        x = stream.upload(np.arange(4))
        fetched, dropped = stream.fetch(x), weakref.ref(stream)
        del stream
        assert dropped() is None
        latch.open()
        assert list(fetched.wait_sync(PATIENCE)) == [0, 1, 2, 3]
        again = fetched.stream
        assert again is fetched.stream and again.label == "load" and again.__tops_stream__() == (0, handle)
        assert atops.Stream.from_handle(handle) is again
        assert list(again.fetch(x).wait_sync(PATIENCE)) == [0, 1, 2, 3]


def test_a_stream_and_its_memory_wait_for_no_collector():
    """When the last reference to a stream and to what it made goes, both are gone, and the memory is free."""
    with device() as here:
        stream = here.create_stream()
        x = stream.upload(np.arange(1000))
        stream.sync(PATIENCE)
        gone = weakref.ref(stream), weakref.ref(x), weakref.ref(queue_of(stream))
        gc.disable()
        try:
            del stream, x
            assert gone[0]() is None and gone[1]() is None
            here.sync(PATIENCE)
        finally:
            gc.enable()
        assert here.statistics().memory.live == 0 and gone[2]() is None


def test_a_handle_is_good_as_long_as_the_queue_lives():
    """What the stream made keeps the queue; without that the handle is dead, and says so."""
    with device() as here:
        handle = here.create_stream().__tops_stream__()[1]
        with pytest.raises(InvalidHandle, match="no handle of a stream"):
            atops.Stream.from_handle(handle)


def test_a_program_makes_no_stream_and_no_board():
    """The classes refuse what is behind other ones, with the cure."""
    with board() as driver:
        for wrong in (driver, atops.Device(0, driver), 0, None):
            with pytest.raises(InvalidType, match=r"use device.create_stream\(\)"):
                atops.Stream(wrong)
        assert driver.device(0).driver is driver
