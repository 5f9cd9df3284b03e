"""A short copy that its caller carries out: where it may, where it must not, and what is left behind."""

from __future__ import annotations

import numpy as np
import pytest

from atops.base.errors import IllegalAddress
from atops.base.trace.tracer import Kind
from atops.device.memory.value_wait import Condition
from atops.runtime.core.commands import Copy
from atops.runtime.device import Device
from atops.runtime.executors.executor import HERE
from atops.runtime.queues.direct_copy import copy_and_wait, copy_at_once
from tests.runtime.boards import PATIENCE, Latch, board, broken, device, leftovers


def up(array: np.ndarray, buffer) -> Copy:
    """Return the command of a copy from the host."""
    return Copy(buffer.allocation, buffer.offset, array.tobytes(), 0, array.nbytes, int(Kind.COPY_H2D))


def contents(here: Device, buffer) -> bytes:
    """Return what the device has."""
    return here.create_stream().fetch(buffer).wait_sync(PATIENCE).tobytes()


def test_an_idle_stream_copies_at_once():
    """The copy is over when the call returns, on no other thread, and the stream is idle again."""
    with device() as here:
        stream, buffer = here.null_stream, here.allocate(16)
        assert copy_and_wait(stream, up(np.arange(16, dtype="uint8"), buffer)).state == "done"
        assert here.driver.executor._thread is None
        assert not stream.outstanding() and not here.context.active
        assert contents(here, buffer) == bytes(range(16))
        buffer.close()
        assert not leftovers(here.driver)


@pytest.mark.parametrize("held", ["itself", "null stream"])
def test_what_comes_before_is_waited_for(held):
    """Behind other work, of its own stream or of the null stream's order, the copy is enqueued as usual."""
    with device() as here:
        latch, buffer = Latch(here), here.allocate(4)
        stream = here.create_stream()
        here.create_stream(nonblocking=True).fill(buffer, 1).wait_sync(PATIENCE)
        first = stream if held == "itself" else here.null_stream
        latch.hold(first)
        copy = copy_and_wait(stream, up(np.full(4, 9, "uint8"), buffer))
        assert not copy.done
        latch.open()
        copy.wait_sync(PATIENCE)
        assert contents(here, buffer) == b"\x09" * 4


def test_a_failed_stream_skips_it():
    """Behind a failure it is skipped, as any command."""
    with device() as here:
        stream, buffer = here.create_stream(), here.allocate(4)
        failed = stream.launch(broken, (1, 1))
        with pytest.raises(Exception, match="broken"):
            failed.wait_sync(PATIENCE)
        copy = copy_and_wait(stream, up(np.zeros(4, "uint8"), buffer))
        with pytest.raises(Exception, match="skipped"):
            copy.wait_sync(PATIENCE)
        stream.clear_error()


def test_freed_memory_fails_it_and_the_stream():
    """Memory that is gone by then fails the copy, and its stream with it; both are idle afterwards."""
    with device() as here:
        stream, buffer = here.create_stream(), here.allocate(4)
        command = up(np.zeros(4, "uint8"), buffer)
        here.context.memory.free(buffer.allocation)
        copy = copy_and_wait(stream, command)
        with pytest.raises(IllegalAddress):
            copy.result()
        assert isinstance(stream.clear_error(), IllegalAddress)
        assert not here.context.active


def test_it_satisfies_a_value_wait():
    """What it stores is seen by a stream that waits for the value."""
    with device() as here:
        word = here.empty(1, "uint32")
        here.create_stream().fill(word, 0).wait_sync(PATIENCE)
        waiting = here.create_stream(nonblocking=True).wait_value(word, 5, Condition.Eq)
        copy_and_wait(here.create_stream(nonblocking=True), up(np.array([5], "uint32"), word))
        waiting.wait_sync(PATIENCE)


def test_it_is_traced():
    """Its record has its number, kind, size and stream, and says that it went well."""
    with board(trace=64) as driver:
        here = Device(0, driver)
        stream, buffer = here.create_stream(), here.allocate(8)
        copy = copy_and_wait(stream, up(np.zeros(8, "uint8"), buffer))
        record, = (each for each in driver.tracer.records() if each.seq == copy.seq)
        assert (record.kind, record.bytes, record.stream) == (Kind.COPY_H2D, 8, stream.number)
        assert record.submitted_ns <= record.started_ns <= record.finished_ns


def test_the_runtimes_own_threads_carry_none_out(monkeypatch):
    """There a blocking wait is refused; a copy must not make it look like one that works."""
    with device() as here:
        stream, buffer = here.create_stream(), here.allocate(4)
        with monkeypatch.context() as patched:
            patched.setattr(HERE, "role", "executor")
            copy = copy_and_wait(stream, up(np.zeros(4, "uint8"), buffer))
        assert here.driver.executor._thread is not None
        copy.wait_sync(PATIENCE)


def test_ctrl_c_leaves_it_to_the_drain(monkeypatch):
    """Interrupted before its bytes moved, it is carried out by the driver, and later commands with it."""
    with device() as here:
        stream, buffer = here.create_stream(), here.allocate(4)

        def interrupted(run):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("atops.runtime.queues.direct_copy.carry_out_run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                copy_and_wait(stream, up(np.full(4, 3, "uint8"), buffer))
        stream.sync(PATIENCE)
        assert contents(here, buffer) == b"\x03" * 4


# ---- at once, in no queue


def at_once(stream, buffer, host: np.ndarray, upload: bool = True) -> bool:
    """Copy between all of a buffer and a host array, if that can be done at once."""
    size = buffer.nbytes
    return copy_at_once(stream, buffer.allocation, buffer.offset, memoryview(host).cast("B"), size, upload)


def test_an_idle_device_copies_without_a_queue():
    """Both ways the bytes are there when the call returns; a part of an allocation is no other part."""
    with device() as here:
        stream, whole = here.null_stream, here.allocate(16)
        assert at_once(stream, whole, np.zeros(16, "uint8"))
        assert at_once(stream, whole[4:8], np.full(4, 7, "uint8"))
        back = np.empty(16, "uint8")
        assert at_once(stream, whole, back, upload=False)
        assert back.tobytes() == bytes(4) + b"\x07" * 4 + bytes(8)
        assert here.driver.executor._thread is None
        assert not here.context.active


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


def test_whoever_wants_details_gets_them_from_the_queue():
    """While somebody asks for details, each copy tells how it was enqueued and began."""
    with device() as here:
        stream, buffer, host = here.create_stream(), here.allocate(4), np.zeros(4, "uint8")
        with here.driver.tracer.detailed():
            assert not at_once(stream, buffer, host)
        assert at_once(stream, buffer, host)
