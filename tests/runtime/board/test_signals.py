"""Kernel signals on the host: handed out and taken back, and kernels that wait for the host."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidHandle, InvalidType, LaunchOutOfResources, StreamAborted
from atops.kernels.sync import signal_wait, signal_write
from tests.runtime.boards import PATIENCE
from tests.runtime.hosts import board, on_every_host


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as made:
        yield made


def test_signals_are_handed_out_and_taken_back(device: atops.Device):
    """The lowest free one each time, with the value 0; when all are taken it says so."""
    signals = device.signals
    assert (len(signals), signals.available) == (64, 64)
    first, second = signals.allocate(), signals.allocate()
    assert (first, second, signals.available) == (0, 1, 62)
    signals.write(first, -1)
    assert (signals.read(first), signals.read(second)) == (0xFFFFFFFF, 0)
    signals.free(first)
    assert signals.allocate() == first and signals.read(first) == 0
    for _ in range(signals.available):
        signals.allocate()
    with pytest.raises(LaunchOutOfResources, match="all 64 kernel signals"):
        signals.allocate()
    assert repr(signals) == "<Signals: 64 of 64 allocated>"


def test_an_unknown_handle(device: atops.Device):
    """Reading, writing and freeing name it; twice freed is such a handle; what is no integer is another error."""
    signals = device.signals
    handle = signals.allocate()
    signals.free(handle)
    kept = signals.allocate(), signals.allocate()
    for call in (lambda: signals.read(5), lambda: signals.write(5, 1), lambda: signals.free(5)):
        with pytest.raises(InvalidHandle, match="signal 5 is not allocated; 0, 1 of the device's 64 is"):
            call()
    signals.free(kept[0])
    with pytest.raises(InvalidHandle, match="signal 0"):
        signals.free(kept[0])
    with pytest.raises(InvalidType, match=r"handle is float 1\.0"):
        signals.read(1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="value is str 'on'"):
        signals.write(kept[1], "on")  # type: ignore[arg-type]


@k.kernel
async def answers(question, answer):
    """Wait for the host, and answer it."""
    await signal_wait(question, 7, "eq")
    signal_write(answer, 8)


@on_every_host
async def test_the_host_lets_a_kernel_go_on(device: atops.Device):
    """A kernel that stands at a signal goes on when the host sets it, under every executor."""
    signals = device.signals
    question, answer = signals.allocate(), signals.allocate()
    async with device.create_stream() as stream:
        done = stream.launch(answers, (1, 1), question, answer)
        signals.write(question, 6)
        await anyio.lowlevel.checkpoint()
        assert not done.done()
        signals.write(question, 7)
        await done
    assert signals.read(answer) == 8


def test_an_abort_ends_the_wait(device: atops.Device):
    """And so does a reset, after which the device has all its signals again."""
    stream = device.create_stream()
    handle = device.signals.allocate()
    done = stream.launch(answers, (1, 1), handle, handle)
    stream.abort()
    with pytest.raises(StreamAborted):
        done.wait_sync(PATIENCE)
    device.reset_sync()
    assert device.signals.available == 64
