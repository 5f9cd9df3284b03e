"""A short copy that its caller carries out: where it may, where it must not, and what is left behind."""

from __future__ import annotations

import numpy as np
import pytest

from atops.base.errors import IllegalAddress
from atops.base.tracing import Kind
from atops.device.watch import Condition
from atops.runtime.commands import Copy
from atops.runtime.device import Device
from atops.runtime.direct_copy import copy_and_wait
from atops.runtime.executor import HERE
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
            patched.setattr("atops.runtime.direct_copy.carry_out_run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                copy_and_wait(stream, up(np.full(4, 3, "uint8"), buffer))
        stream.sync(PATIENCE)
        assert contents(here, buffer) == b"\x03" * 4
