"""Ctrl-C at every point of an inline run: KeyboardInterrupt comes out, the handler is back, and the next run works."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import atops
from atops import kernels as k
from tests.interruption import Points, every_point


@pytest.fixture(autouse=True)
def _default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # garbage of other tests has points, too
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


@k.kernel
async def ones(x: k.Span) -> None:
    """Store ones, after some barriers."""
    for _ in range(3):
        await k.syncthreads()
    x[k.threadIdx.x] = 1


async def program() -> float:
    """Let two streams do some of everything, awaited and blocking."""
    device = atops.Device(0)
    async with device.create_stream() as s, device.create_stream() as t:
        x = s.upload(np.zeros(4, np.float32))
        s.launch(ones, (1, 4), x)
        t.wait(s.record())
        called = t.call(sum, range(100))
        fetched = await s.fetch(x)
        assert called.wait_sync() == 4950
        return float(fetched.sum())


def press_at(points: Points) -> None:
    """Run the program with a signal at the chosen point. Fails unless KeyboardInterrupt comes out.

    After a run that was broken off, 3.13 traces less of the next: then the point is not reached, and tried again.
    """
    for _ in range(3):
        points.passed = 0
        try:
            points.run(lambda: atops.run(program))
        except KeyboardInterrupt:
            return
        assert points.passed < points.chosen, f"what came at point {points.chosen} did not come out"
    raise AssertionError(f"the run has no point {points.chosen}")


@pytest.mark.parametrize("most", [25, pytest.param(150, marks=pytest.mark.slow)])
def test_ctrl_c_at_every_point(most: int) -> None:
    """Wherever it comes, nothing hangs or is lost: the run ends by KeyboardInterrupt, and the next one works."""
    for points in every_point(lambda: atops.run(program), most):
        press_at(points)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, points.chosen
        assert atops.run(program) == 4, points.chosen


@pytest.mark.parametrize("most", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_ctrl_c_in_a_signal_handler_that_comes_anywhere(most: int) -> None:
    """A handler of another signal may be called in the middle of the runtime: what it raises would break that off."""

    def press(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, press)
    try:
        for points in every_point(lambda: atops.run(program), most):
            points.number = signal.SIGALRM
            press_at(points)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, points.chosen
    finally:
        signal.signal(signal.SIGALRM, before)


def _query(stream: atops.Stream) -> None:
    """Be in a call of the runtime nearly all the time, for ever."""
    while True:
        stream.is_done  # noqa: B018


def _barriers() -> Callable[..., object]:
    @k.kernel
    async def endless() -> None:
        signal.raise_signal(signal.SIGINT)
        while True:
            await k.syncthreads()

    return endless


@pytest.mark.parametrize("how", ["calls the runtime", "blocks", "blocks in a call"])
def test_ctrl_c_ends_what_never_would(how: str) -> None:
    """Code in a host call that only calls the runtime, and blocking waits for what does not end; its line is told."""

    async def main() -> None:
        s, t = atops.Device(0).create_stream(), atops.Device(0).create_stream()
        if how == "calls the runtime":
            asyncio.get_running_loop()
            points = Points(400)
            s.call(lambda: points.run(lambda: _query(t)))
            await s
        s.launch(_barriers(), (1, 2))
        if how == "blocks":
            s.sync()
        await t.call(s.sync)

    place = r"\.py:\d+ in (_query|_barriers\.<locals>\.endless)$"
    with pytest.raises(KeyboardInterrupt, match=place):
        atops.run(main)
    assert atops.run(program) == 4


def test_a_program_may_catch_its_cancellation() -> None:
    """As under asyncio's runner: what it returns then is the result."""

    async def main() -> int:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return 7
        return 0

    assert atops.run(main) == 7


def test_ctrl_c_at_the_last_step() -> None:
    """Pressed when the program has nothing more to wait for, it comes out all the same."""

    async def main() -> int:
        signal.raise_signal(signal.SIGINT)
        return 7

    with pytest.raises(KeyboardInterrupt):
        atops.run(main)


@pytest.mark.parametrize("where", ["the program", "a stream's coroutine"])
def test_the_second_ctrl_c_ends_a_program_that_refuses(where: str) -> None:
    """Pressed again, it is raised in code of the program that holds the thread."""
    went_on = False

    async def refusing() -> None:
        nonlocal went_on
        signal.raise_signal(signal.SIGINT)
        for turn in range(1_000_000):
            if turn == 1000:
                signal.raise_signal(signal.SIGINT)
        went_on = True

    async def main() -> None:
        await (refusing() if where == "the program" else atops.Device(0).create_stream().call(refusing))

    with pytest.raises(KeyboardInterrupt):
        atops.run(main)
    assert not went_on


class Stop(Exception):
    """What a program's own handler raises."""


@pytest.fixture
def own_handler() -> Iterator[Callable[..., None]]:
    """A handler of the program's own, for SIGALRM; the fixture of the module does the same for SIGINT."""

    def handler(*_: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGINT, handler)
    yield handler
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM])
@pytest.mark.parametrize("where", ["a kernel", "a skipped command", "a call", "a blocking wait", "the program"])
def test_what_an_own_handler_raises_comes_out(own_handler: Callable[..., None], where: str, number: int) -> None:
    """Not the failure that it has become where a kernel or a host call was running; the handler stays."""

    def press() -> None:
        signal.raise_signal(number)

    @k.kernel
    def pressing() -> None:
        press()

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        if where == "the program":
            press()
        if "call" in where or "wait" in where:
            called = stream.call(press)
            stream.sync() if "wait" in where else await called
        launched = stream.launch(pressing, (1, 1))
        await (stream.fetch(stream.zeros(4)) if "skipped" in where else launched)

    with pytest.raises(Stop):
        atops.run(main)
    assert signal.getsignal(number) is own_handler
    assert atops.run(program) == 4


def test_a_program_may_handle_what_its_handler_raised(own_handler: Callable[..., None]) -> None:
    """It is the cause of the failure. Where a kernel itself raises, the failure comes out."""

    @k.kernel
    def pressing() -> None:
        signal.raise_signal(signal.SIGINT)

    @k.kernel
    def failing() -> None:
        raise Stop

    async def main(kernel: k.Kernel) -> BaseException | None:
        launched = atops.Device(0).create_stream().launch(kernel, (1, 1))
        try:
            await launched
        except atops.errors.LaunchFailure as error:
            if kernel is failing:
                raise
            return error.__cause__
        return None

    assert isinstance(atops.run(main, None, pressing), Stop)
    with pytest.raises(atops.errors.LaunchFailure):
        atops.run(main, None, failing)
