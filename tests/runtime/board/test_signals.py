"""Kernel signals on the host: handed out and taken back, and kernels that wait for the host."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    AtopsError,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    LaunchOutOfResources,
    StreamAborted,
    WouldDeadlock,
)
from atops.kernels.sync import signal_wait, signal_write
from tests.every import every
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


@k.kernel
async def counts(handle, last):
    """Count a signal up and give each value a turn of its own."""
    for value in range(1, last + 1):
        signal_write(handle, value)
        await k.syncthreads()


@on_every_host
async def test_the_host_waits_for_a_kernel(device: atops.Device):
    """It has the value that met its condition, though later ones came; two hosts and a kernel may wait at once."""
    signals = device.signals
    question, answer = signals.allocate(), signals.allocate()
    found = []

    async def wait(*condition):
        found.append(await signals.wait(*condition))

    async with device.create_stream() as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(wait, answer, 5, "eq")
        tasks.start_soon(wait, answer, 5)
        await anyio.wait_all_tasks_blocked()
        stream.launch(counts, (1, 1), answer, 9)
        stream.launch(answers, (1, 1), question, question)
        signals.write(question, 7)
        assert await signals.wait(question, 8) == 8
    assert found == [5, 5] and signals.read(answer) == 9
    assert await signals.wait(answer, 8, atops.Condition.And) == 9  # met already
    assert await signals.wait(answer, -1, "GTE") == 9  # cyclic
    assert repr(signals) == "<Signals: 2 of 64 allocated>" and "0 waiting" in repr(device.context.chip.signals)


@pytest.mark.slow
@on_every_host
async def test_blocking_waits_for_a_kernel(device: atops.Device):
    """The same in plain code, where it needs no loop; a timeout ends it, and nothing else changes."""
    signals = device.signals
    handle = signals.allocate()
    stream = device.create_stream()
    if device.driver.inline:
        stream.launch(counts, (1, 1), handle, 9)
        assert signals.wait_sync(handle, 4, "eq", timeout=PATIENCE) == 4
        with pytest.raises(WouldDeadlock, match=f"wait for signal {handle}, Eq 77 .now 9"):
            signals.wait_sync(handle, 77, "eq")
    else:

        def plain():
            stream.launch(counts, (1, 1), handle, 9)
            found = signals.wait_sync(handle, 4, "eq", timeout=PATIENCE)
            stream.sync(PATIENCE)
            with pytest.raises(TimeoutError, match=f"wait for signal {handle}, Eq 77 .now 9.*within 0 s"):
                signals.wait_sync(handle, 77, "eq", timeout=0)
            return found

        assert await anyio.to_thread.run_sync(plain) == 4
    await stream.aclose()
    assert "0 waiting" in repr(device.context.chip.signals) and not signals._waits


@on_every_host
async def test_what_ends_a_wait_for_a_signal(device: atops.Device):
    """A cancellation leaves nothing; freeing the signal, a reset and the driver's close each end it with an error."""
    signals = device.signals
    handle = signals.allocate()
    errors: list[BaseException] = []

    async def wait(handle):
        try:
            await device.signals.wait(handle, 1)
        except AtopsError as error:
            errors.append(error)

    async def ended_by(end):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(wait, handle)
            await anyio.wait_all_tasks_blocked()
            end(tasks)

    await ended_by(lambda tasks: tasks.cancel_scope.cancel())
    assert not errors and not signals._waits and "0 waiting" in repr(device.context.chip.signals)
    await ended_by(lambda tasks: signals.free(handle))
    assert [type(error) for error in errors] == [InvalidHandle] * 2 and f"signal {handle} was freed" in str(errors[0])
    assert signals.allocate() == handle
    await ended_by(lambda tasks: tasks.start_soon(device.reset))
    assert [type(error) for error in errors[2:]] == [StreamAborted] * 2 and "reset" in str(errors[2])
    with pytest.raises(StreamAborted, match="reset"):
        await signals.wait(handle, 0)
    assert device.signals.allocate() == handle
    await ended_by(lambda tasks: device.driver.close())
    assert [type(error) for error in errors[4:]] == [StreamAborted] * 2 and "closed" in str(errors[4])


@every(
    "arguments, error",
    [
        ((0, 1, "Above"), InvalidValue), ((0, 1, 9), InvalidValue), ((1, 1), InvalidHandle), ((0, "x"), InvalidType),
        ((1.0, 1), InvalidType),
    ],
)  # fmt: skip
def test_a_wait_that_is_refused(device: atops.Device, arguments, error):
    """Another condition, a handle that is not allocated, what is no number; in both forms."""
    if not device.signals.available < 64:
        device.signals.allocate()
    with pytest.raises(error):
        device.signals.wait_sync(*arguments)
    with pytest.raises(error):
        anyio.run(device.signals.wait, *arguments)


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
