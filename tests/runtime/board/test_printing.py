"""What kernels print on the host: where, when, in which order, and what a sink can and cannot do to a run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidType, LaunchFailure, StreamAborted, WouldDeadlock
from atops.base.options import EmulatorOptions
from atops.kernels.output import printf
from atops.runtime.board.printing import to_stdout
from atops.runtime.driver import board_of
from tests.runtime.boards import PATIENCE
from tests.runtime.hosts import board, on_every_host

caller: ContextVar[str] = ContextVar("caller", default="none")


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver, whose kernels' text goes to this test only."""
    with board() as made:
        yield made


@k.kernel
async def greet(number):
    """Print twice in each thread."""
    printf("%d: hello from %d\n", number, k.threadIdx.x)
    await k.syncthreads()
    printf("%d: bye from %d\n", number, k.threadIdx.x)


@k.kernel
def fails():
    """Print, then raise."""
    printf("before\n")
    raise RuntimeError("the kernel's")


@k.kernel
async def prints_forever(x):
    """Print, tell the host, and be suspended until the end."""
    printf("running\n")
    x[0] = 1
    while True:
        await k.syncthreads()


@k.kernel
def prints_nothing(x):
    """Store."""
    x[0] = 1


def words(number: int, threads: int) -> list[str]:
    """Return the lines of `greet`, in the order of one worker."""
    return [f"{number}: {word} from {thread}" for word in ("hello", "bye") for thread in range(threads)]


class Gate:
    """A sink that holds its text until it is opened."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, text: str) -> None:
        self.entered.set()
        assert self.open.wait(PATIENCE)
        self.texts.append(text)


@on_every_host
async def test_the_text_is_there_before_the_awaiter_goes_on(device: atops.Device):
    """After `await done` and after `await stream`; launch by launch, in the order in which its threads printed."""
    texts: list[str] = []
    device.printing.sink = texts.append
    shuffled = device.driver.options.seed is not None

    def check(lines: list[str], number: int, threads: int) -> None:
        expected = words(number, threads)
        assert sorted(lines) == sorted(expected) and (shuffled or lines == expected)
        assert set(lines[:threads]) == set(expected[:threads])  # what the barrier between them keeps apart

    async with device.create_stream() as stream:
        for number in range(3):
            await stream.launch(greet, (1, 3), number)
            check("".join(texts).splitlines()[6 * number :], number, 3)
        stream.launch(greet, (1, 2), 3)
        stream.launch(greet, (1, 2), 4)
        await stream
        lines = "".join(texts).splitlines()[18:]
        check(lines[:4], 3, 2)
        check(lines[4:], 4, 2)


@pytest.mark.parametrize("workers", [2, "sip"])
def test_with_more_workers_nothing_is_lost(workers: Any):
    """Every line is there once, a thread's own in its order."""
    texts: list[str] = []
    with board(workers=workers) as device:
        device.printing.sink = texts.append
        stream = device.create_stream()
        for number in range(5):
            stream.launch(greet, (2, 12), number)
        stream.sync(PATIENCE)
    lines = "".join(texts).splitlines()
    assert sorted(lines) == sorted(2 * [line for number in range(5) for line in words(number, 12)])
    assert lines.index("2: hello from 3") < lines.index("2: bye from 3")


def test_stdout_is_what_it_is_at_the_time(device: atops.Device, capsys: pytest.CaptureFixture[str]):
    """The default sink; it is flushed, and a `sys.stdout` that is None is no fault."""
    stream = device.create_stream()
    stream.launch(greet, (1, 1), 1).wait_sync(PATIENCE)
    assert capsys.readouterr().out.splitlines() == words(1, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", None)
        stream.launch(greet, (1, 1), 2).wait_sync(PATIENCE)
    stream.launch(greet, (1, 1), 3)
    device.sync(PATIENCE)
    assert capsys.readouterr().out.splitlines() == words(3, 1)
    assert device.printing.sink is to_stdout


@on_every_host
async def test_what_was_printed_before_a_fault_is_shown(device: atops.Device):
    """And the next launch prints again."""
    texts: list[str] = []
    device.printing.sink = texts.append
    stream = device.create_stream()
    with pytest.raises(LaunchFailure, match="the kernel's"):
        await stream.launch(fails, (1, 1))
    assert texts == ["before\n"]
    stream.clear_error()
    await stream.launch(greet, (1, 1), 0)
    assert "".join(texts[1:]).splitlines() == words(0, 1)
    await stream.aclose()


def test_what_was_printed_before_an_abort_is_shown(device: atops.Device):
    """The aborted launch is over when its text is there."""
    texts: list[str] = []
    device.printing.sink = texts.append
    stream, other = device.create_stream(), device.create_stream(nonblocking=True)
    word = device.host_malloc(1, "int32")
    done = stream.launch(prints_forever, (1, 1), word)
    other.wait_value(word, 1).wait_sync(PATIENCE)
    assert not texts
    stream.abort()
    with pytest.raises(StreamAborted):
        done.wait_sync(PATIENCE)
    assert texts == ["running\n"]


def test_a_close_loses_nothing():
    """What a running kernel has printed is shown before the driver's end is."""
    texts: list[str] = []
    with board() as device:
        device.printing.sink = texts.append
        stream, other = device.create_stream(), device.create_stream(nonblocking=True)
        word = device.host_malloc(1, "int32")
        stream.launch(prints_forever, (1, 1), word)
        other.wait_value(word, 1).wait_sync(PATIENCE)
        closing = device.driver.close()
        assert board_of(device.driver).executor.block(closing, PATIENCE)
    assert texts == ["running\n"]


def test_an_abort_does_not_take_a_stuck_sink_for_a_kernel(caplog: pytest.LogCaptureFixture):
    """While a sink does not return, an abort ends the launch after its grace, and gives up no thread and no memory."""
    with board(abort_grace=0) as device:
        shown, release = threading.Event(), threading.Event()
        device.printing.sink = lambda text: (shown.set(), release.wait(PATIENCE))
        stream = device.create_stream()
        x = stream.zeros(1)
        launch = stream.launch(greet, (1, 2), 1)
        try:
            assert shown.wait(PATIENCE)
            lane = {each for each in threading.enumerate() if "kernel" in each.name}
            stream.abort()
            with pytest.raises(StreamAborted, match="printed was not shown within 0 s of its abort"):
                launch.wait_sync(PATIENCE)
        finally:
            release.set()
        stream.launch(prints_nothing, (1, 1), x).wait_sync(PATIENCE)
        assert lane <= set(threading.enumerate()) and device.statistics().memory.quarantined == 0
        assert "abandoned" not in caplog.text


def test_a_slow_sink_holds_no_kernel(device: atops.Device):
    """While it stands, others of the device run and end, print or not; those that print are over in their turn."""
    gate = device.printing.sink = Gate()
    slow, quick = device.create_stream(), device.create_stream()
    first = slow.launch(greet, (1, 1), 1)
    assert gate.entered.wait(PATIENCE)
    array = quick.zeros(4)
    assert (quick.fetch(array).wait_sync(PATIENCE) == 0).all()
    quick.launch(k.kernel(_quiet), (1, 1), array).wait_sync(PATIENCE)
    assert (quick.fetch(array).wait_sync(PATIENCE) == 5).all()
    second = quick.launch(greet, (1, 1), 2)
    with pytest.raises(TimeoutError):
        second.wait_sync(0)
    assert not first.done() and not gate.texts
    gate.open.set()
    second.wait_sync(PATIENCE)
    assert first.done()
    assert "".join(gate.texts).splitlines() == words(1, 1) + words(2, 1)


def _quiet(x):
    """Print nothing."""
    x[:] = 5


def test_a_full_fifo_is_told(device: atops.Device, caplog: pytest.LogCaptureFixture):
    """The newest texts are shown, and how many are not."""

    @k.kernel
    def much():
        for line in range(50):
            printf("%02d\n", line)

    texts: list[str] = []
    device.printing.sink = texts.append
    device.printing.fifo.size = 10 * (16 + 3)
    with caplog.at_level(logging.WARNING, "atops.kernel"):
        device.create_stream().launch(much, (1, 1)).wait_sync(PATIENCE)
    assert texts == ["".join(f"{line:02d}\n" for line in range(40, 50))]
    assert "device 0 lost 40 of the texts" in caplog.text and "FIFO of 190 bytes" in caplog.text


def wait_for_the_device(device: atops.Device) -> Callable[[str], None]:
    """Return a sink that waits for a launch of its own device."""
    return lambda text: device.create_stream(nonblocking=True).launch(greet, (1, 1), 9).wait_sync(PATIENCE)


def give_up(text: str) -> None:
    """Raise what ends programs."""
    raise SystemExit(f"no more of {text!r}")


@pytest.mark.parametrize("case", ["a fault", "an exit", "a wait"])
@pytest.mark.parametrize("inline", [False, True])
def test_a_sink_that_raises_breaks_nothing(case: str, inline: bool, caplog: pytest.LogCaptureFixture):
    """It is logged, whatever it raises; a wait inside it is refused; later texts are given to it again."""
    seen: list[str] = []

    def use(device: atops.Device) -> atops.Stream:
        sinks = {"a fault": lambda text: 1 // 0, "an exit": give_up, "a wait": wait_for_the_device(device)}

        def sink(text: str) -> None:
            seen.append(text)
            if len(seen) == 1:
                sinks[case](text)

        device.printing.sink = sink
        stream = device.create_stream()
        stream.launch(greet, (1, 1), 1)
        return stream

    async def main() -> None:
        stream = use(atops.Device(0))
        await stream
        await stream.launch(greet, (1, 1), 2)
        await stream.aclose()

    if inline:
        atops.run(main, EmulatorOptions())
    else:
        with board() as device:
            stream = use(device)
            stream.sync(PATIENCE)
            stream.launch(greet, (1, 1), 2).wait_sync(PATIENCE)
    shown = "".join(seen).splitlines()
    assert shown[:2] == words(1, 1) and shown[-2:] == words(2, 1)
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    kind = {"a fault": ZeroDivisionError, "an exit": SystemExit, "a wait": WouldDeadlock}[case]
    assert record.exc_info[0] is kind and "kernels of device 0 print" in record.getMessage()


def test_a_text_is_written_in_the_context_of_its_launch(device: atops.Device):
    """So that an output which follows context variables, as a notebook's, finds the cell that launched."""
    texts: list[tuple[str, str]] = []
    device.printing.sink = lambda text: texts.append((caller.get(), text.splitlines()[0]))
    stream = device.create_stream()
    for name in ("anna", "ben"):
        token = caller.set(name)
        stream.launch(greet, (1, 1), len(name))
        caller.reset(token)
    stream.sync(PATIENCE)
    assert texts == [("anna", "4: hello from 0"), ("ben", "3: hello from 0")]


def test_the_text_of_an_abandoned_kernel_is_not_lost():
    """What a kernel that never suspends has printed is shown when it is given up, at the latest by the driver's end."""
    texts: list[str] = []
    printed, release = threading.Event(), threading.Event()

    @k.kernel
    def stuck():
        printf("stuck\n")
        printed.set()
        release.wait(PATIENCE)

    with board(abort_grace=0.02) as device:
        device.printing.sink = texts.append
        stream = device.create_stream()
        launched = stream.launch(stuck, (1, 1))
        assert printed.wait(PATIENCE)
        stream.abort()
        with pytest.raises(StreamAborted, match="abandoned"):
            launched.wait_sync(PATIENCE)
        closing = device.driver.close()
        assert board_of(device.driver).executor.block(closing, PATIENCE)
        assert texts == ["stuck\n"]
        release.set()


def test_a_sink_can_be_called(device: atops.Device):
    """What cannot is refused when it is set."""
    with pytest.raises(InvalidType, match="sink for printed output is None"):
        device.printing.sink = None  # type: ignore[assignment]
    assert "Printing of device 0" in repr(device.printing)


def test_a_reset_device_shows_what_was_printed(device: atops.Device):
    """The old device's text is shown where it went; the fresh one starts with an empty FIFO and standard output."""
    texts: list[str] = []
    device.printing.sink = texts.append
    stream, other = device.create_stream(), device.create_stream(nonblocking=True)
    word = device.host_malloc(1, "int32")
    stream.launch(prints_forever, (1, 1), word)
    other.wait_value(word, 1).wait_sync(PATIENCE)
    device.reset_sync()
    assert texts == ["running\n"]
    assert device.printing.sink is to_stdout and device.printing.fifo.quiet
