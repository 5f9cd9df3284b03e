"""A short copy that its caller carries out: where it may, where it must not, and what is left behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from atops.device.memory.value_wait import Condition
from atops.runtime.device import Device
from atops.runtime.driver import board_of
from atops.runtime.queues.short_copies import copy_at_once
from atops.runtime.stream import queue_of
from tests.runtime.boards import PATIENCE, Latch, board, broken, device


def contents(here: Device, buffer) -> bytes:
    """Return what the device has."""
    return here.create_stream().fetch(buffer).wait_sync(PATIENCE).tobytes()


def at_once(stream, buffer, host: np.ndarray, upload: bool = True) -> bool:
    """Copy between all of a buffer and a host array, if that can be done at once."""
    size = buffer.nbytes
    return copy_at_once(queue_of(stream), buffer.allocation, buffer.offset, memoryview(host).cast("B"), size, upload)


def test_an_idle_device_copies_without_a_queue():
    """Both ways the bytes are there when the call returns; a part of an allocation is no other part."""
    free = threading.Event()
    with device() as here:
        stream, whole = here.null_stream, here.allocate(16)
        board_of(here.driver).executor.post(lambda: free.wait(PATIENCE))  # its thread can do nothing for a copy
        assert at_once(stream, whole, np.zeros(16, "uint8"))
        assert at_once(stream, whole[4:8], np.full(4, 7, "uint8"))
        back = np.empty(16, "uint8")
        assert at_once(stream, whole, back, upload=False)
        assert back.tobytes() == bytes(4) + b"\x07" * 4 + bytes(8)
        assert not here.context.active
        free.set()


def test_its_record_is_that_of_any_copy():
    """Kind, ends, stream and size are those of the same copy through the queue; its number is the next."""
    with board(trace=64) as driver:
        here = Device(0, driver)
        stream, buffer, host = here.create_stream(), here.allocate(32), np.zeros(8, "uint8")
        part = buffer[8:16]
        for upload in (True, False):
            queued = stream.copy(part, host) if upload else stream.copy(host, part)
            queued.wait_sync(PATIENCE)
            assert at_once(stream, part, host, upload)
            usual, quick = driver.tracer.records()[-2:]
            assert quick.seq == usual.seq + 1
            ends = ("dst_device", "dst_offset", "src_device", "src_offset")
            for name in ("kind", "device", "stream", "status", "bytes", *ends):
                assert getattr(quick, name) == getattr(usual, name), name
            assert quick.submitted_ns == quick.started_ns <= quick.finished_ns


@pytest.mark.parametrize("held", ["itself", "another stream"])
def test_work_on_the_device_refuses_it(held):
    """While any stream of the device has work, the copy is one for the queue, and nothing was moved."""
    with device() as here:
        latch, buffer, stream = Latch(here), here.allocate(4), here.create_stream()
        assert at_once(stream, buffer, np.full(4, 1, "uint8"))
        latch.hold(stream if held == "itself" else here.create_stream(nonblocking=True))
        assert not at_once(stream, buffer, np.full(4, 9, "uint8"))
        latch.open()
        here.sync(PATIENCE)
        assert contents(here, buffer) == b"\x01" * 4


def test_what_is_over_refuses_it():
    """A closed or failed stream, freed memory and a device that was reset have errors to tell, which the queue does."""
    with device() as here:
        buffer, host = here.allocate(4), np.zeros(4, "uint8")
        failed, closed, fine = (here.create_stream() for _ in range(3))
        with pytest.raises(Exception, match="broken"):
            failed.launch(broken, (1, 1)).wait_sync(PATIENCE)
        closed.close()
        assert not at_once(failed, buffer, host)
        assert not at_once(closed, buffer, host)
        assert at_once(fine, buffer, host)
        failed.clear_error()
        here.context.memory.free(buffer.allocation)
        assert not at_once(fine, buffer, host)
        other = here.allocate(4)
        here.reset_sync()
        assert not at_once(fine, other, host)


def test_at_once_it_satisfies_a_value_wait():
    """A wait of another device's stream is woken by what it stores."""
    with board(devices=2) as driver:
        here, there = Device(0, driver), Device(1, driver)
        word = here.empty(1, "uint32")
        assert at_once(here.create_stream(), word, np.zeros(1, "uint32"))
        there.enable_peer_access(here)
        waiting = there.create_stream().wait_value(word, 5, Condition.Eq)
        assert at_once(here.create_stream(), word, np.array([5], "uint32"))
        waiting.wait_sync(PATIENCE)


def test_details_come_from_the_queue():
    """While a viewer asks for details, each copy tells how it was enqueued and began."""
    with device() as here:
        stream, buffer, host = here.create_stream(), here.allocate(4), np.zeros(4, "uint8")
        with here.driver.tracer.detailed():
            assert not at_once(stream, buffer, host)
        assert at_once(stream, buffer, host)
