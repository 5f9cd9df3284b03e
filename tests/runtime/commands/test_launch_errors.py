"""Launches that are wrong, and kernels that go wrong: said at the call where it can be, else by the launch, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import (
    AtopsError,
    CooperativeLaunchTooLarge,
    IllegalAddress,
    IllegalState,
    InvalidConfiguration,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    KernelDeadlock,
    LaunchFailure,
    LaunchOutOfResources,
    MissingAwait,
    PriorLaunchFailure,
)
from atops.base.options import EmulatorOptions
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.stream import Stream, queue_of
from tests.every import every
from tests.runtime.boards import PATIENCE, Latch, add_one, board, leftovers, works


@pytest.fixture(params=["gcu300", "gcu210"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A board of either architecture, which works after each test and has nothing left."""
    with board(arch=request.param) as made:
        yield made
        assert works(made)
        assert leftovers(made) == {}


@pytest.fixture
def stream(driver: Driver) -> Iterator[Stream]:
    """A stream of it."""
    made = Device(0, driver).create_stream()
    yield made
    made.clear_error()
    made.close()


@k.kernel
def plain(x: Any, count: np.int32 = 3, *, scale: np.float32 = 1.0) -> None:
    """Do nothing with arguments of several kinds."""


@k.kernel
def tiny(count: np.int8) -> None:
    """Take a small integer."""


@k.kernel(cooperative=True)
async def together() -> None:
    """Meet once."""
    await k.syncblocks()


@k.kernel
def greedy(x: Any) -> None:
    """Ask for more L1 than there is."""
    k.local(1 << 30, np.uint8)


@k.kernel
def dynamic(x: Any) -> None:
    """Use the shared memory that the launch gives."""
    k.dynamic_shared(np.float32)[0] = 1


Launch = Callable[[Stream, Any], Any]

AT_THE_CALL: dict[str, tuple[Launch, type[Exception] | tuple[type[Exception], ...], str]] = {
    "a plain function": (lambda s, x: s.launch(print, (1, 1), x), InvalidType, "print"),
    "no kernel at all": (lambda s, x: s.launch(None, (1, 1)), InvalidType, "None"),
    "a bound kernel": (lambda s, x: s.launch(plain.bind((x,)), (1, 1)), InvalidType, "kernel"),
    "no geometry": (lambda s, x: s.launch(plain, None, x), (InvalidType, InvalidValue), "None"),
    "half a geometry": (lambda s, x: s.launch(plain, (2,), x), (InvalidType, InvalidValue), "2"),
    "one number": (lambda s, x: s.launch(plain, 2, x), (InvalidType, InvalidValue), "2"),
    "a fraction of a block": (lambda s, x: s.launch(plain, (1.5, 1), x), (InvalidType, InvalidValue), "1.5"),
    "no block": (lambda s, x: s.launch(plain, (0, 1), x), InvalidValue, "0"),
    "no thread": (lambda s, x: s.launch(plain, (1, 0), x), InvalidValue, "0"),
    "less than a thread": (lambda s, x: s.launch(plain, (1, (2, -1)), x), InvalidValue, "-1"),
    "four dimensions": (lambda s, x: s.launch(plain, ((1, 1, 1, 1), 1), x), InvalidValue, "4 dimensions"),
    "more threads than SIPs": (lambda s, x: s.launch(plain, (1, 13), x), (InvalidValue, LaunchOutOfResources), "13"),
    "a deep block": (lambda s, x: s.launch(plain, (1, (4, 4, 4)), x), (InvalidValue, LaunchOutOfResources), "64"),
    "a grid without end": (lambda s, x: s.launch(plain, (1 << 32, 2), x), (InvalidValue, LaunchOutOfResources), ""),
    "too many cooperative blocks": (lambda s, x: s.launch(together, (1000, 1)), CooperativeLaunchTooLarge, "1000"),
    "a plain kernel made cooperative": (
        lambda s, x: s.launch(plain, (1000, 1), x, cooperative=True), CooperativeLaunchTooLarge, "1000",
    ),
    "a shared size that is none": (lambda s, x: s.launch(dynamic, (1, 1), x, shared="1K"), InvalidType, "1K"),
    "less than no shared memory": (lambda s, x: s.launch(dynamic, (1, 1), x, shared=-1), InvalidValue, "-1"),
    "too much shared memory": (lambda s, x: s.launch(dynamic, (1, 1), x, shared=1 << 34), LaunchOutOfResources, ""),
    "no shared memory": (lambda s, x: s.launch(dynamic, (1, 1), x), InvalidValue, "shared"),
    "too few arguments": (lambda s, x: s.launch(plain, (1, 1)), InvalidType, "plain"),
    "too many arguments": (lambda s, x: s.launch(plain, (1, 1), x, 1, 2, 3), InvalidType, "plain"),
    "an unknown name": (lambda s, x: s.launch(plain, (1, 1), x, speed=3), InvalidType, "speed"),
    "an argument twice": (lambda s, x: s.launch(plain, (1, 1), x, x=x), InvalidType, "x"),
    "a word for a number": (lambda s, x: s.launch(plain, (1, 1), x, "three"), InvalidType, "count"),
    "a number that does not fit": (lambda s, x: s.launch(tiny, (1, 1), 200), InvalidValue, "200"),
    "a host array": (lambda s, x: s.launch(plain, (1, 1), np.zeros(5)), InvalidType, "x"),
    "a list": (lambda s, x: s.launch(plain, (1, 1), [1, 2]), InvalidType, "x"),
    "an event that is none": (lambda s, x: s.launch(plain, (1, 1), x, start="now"), InvalidType, "now"),
}


@every("case", AT_THE_CALL)
def test_a_bad_launch_is_refused_at_the_call(stream: Stream, case: str) -> None:
    """The message names what is wrong; nothing was enqueued."""
    launch, error, why = AT_THE_CALL[case]
    array = stream.zeros(24, "int32")
    before = board_of(stream.driver).seq
    with pytest.raises(error, match=why or None):
        launch(stream, array)
    assert board_of(stream.driver).seq == before


def test_a_mask_leaves_too_little(driver: Driver) -> None:
    """More threads than the stream's SIPs, and a cooperative grid beyond its clusters, are refused at the call."""
    device = Device(0, driver)
    few = device.create_stream(sip_mask=0b111)
    few.launch(add_one, (1, 3), few.zeros(3, "int32")).wait_sync(PATIENCE)
    four = few.zeros(4, "int32")
    before = board_of(driver).seq
    for launch in (
        lambda: few.launch(add_one, (1, 4), four),
        lambda: launch_together([(few, together, (1, 4))], cooperative=True)[0],
    ):
        with pytest.raises(LaunchOutOfResources, match="SIP"):
            launch()
    one = device.create_stream(cluster_mask=0b1)
    with pytest.raises(CooperativeLaunchTooLarge, match="2 blocks"):
        one.launch(together, (2, 1))
    assert board_of(driver).seq == before
    one.launch(together, (1, 1)).wait_sync(PATIENCE)
    assert few.fetch(four).wait_sync(PATIENCE).tolist() == [0] * 4
    one.close()
    few.close()


def test_grids_of_all_shapes(stream: Stream) -> None:
    """Every legal geometry runs each thread exactly once, also far more blocks than there are clusters."""

    @k.kernel
    def mark(x: Any) -> None:
        with k.dte_scope() as dte:
            one = k.local(1, np.int32)
            one[0] = 1
            where = k.thread_id()
            k.memcpy(dte, x[where : where + 1], one)

    most = queue_of(stream).context.arch.sips_per_cluster
    for grid, block in ((1, 1), (1, most), (100, 1), (7, (2, 2)), ((2, 3, 2), (1, 2, 1)), ((1, 1, 9), (most, 1, 1))):
        config = LaunchConfig(grid, block)
        threads = config.grid.volume * config.block.volume
        array = stream.zeros(threads, "int32")
        stream.launch(mark, config, array)
        assert stream.fetch(array).wait_sync(PATIENCE).sum() == threads
        assert math.prod(config.grid) * math.prod(config.block) == threads


# ---- kernels that go wrong


@k.kernel
def raises() -> None:
    """Raise in one thread."""
    if k.thread_id() == 5:
        raise KeyError("a key of the kernel's")


@k.kernel
async def raises_late() -> None:
    """Raise in one thread while the others wait for it."""
    await k.syncthreads()
    if k.threadIdx.x == 2:
        raise ZeroDivisionError("late")
    await k.syncthreads()


@k.kernel
def outside(x: Any) -> None:
    """Write behind the end of an array."""
    with k.dte_scope() as dte:
        k.memcpy(dte, x[20:28], k.local(8, np.int32))


@k.kernel
async def leaves_early() -> None:
    """Leave while the others stand at a barrier."""
    if k.threadIdx.x:
        await k.syncthreads()


@k.kernel
async def forgets() -> None:
    """Make a request and never await it."""
    k.syncthreads()


@k.kernel
async def sleeps() -> None:
    """Await what is no kernel request."""
    import asyncio

    await asyncio.sleep(1)


@k.kernel
async def returns():
    """Return a value."""
    return 7


@k.kernel
def exits() -> None:
    """Ask the interpreter to end."""
    raise SystemExit(3)


@k.kernel
def interrupts() -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


@k.kernel
async def meets_alone() -> None:
    """Use the grid's barrier in a grid that is not cooperative."""
    await k.syncblocks()


@k.kernel
def calls_another() -> None:
    """Call a kernel from a kernel."""
    raises()


@k.kernel
def recurses() -> None:
    """Recurse without end."""

    def deeper() -> None:
        deeper()

    deeper()


FAULTS: dict[str, tuple[Any, tuple[int, int], type[Exception], str]] = {
    "raises": (raises, (2, 4), LaunchFailure, r"thread \(1,0,0\) of block \(1,0,0\).*a key of the kernel's"),
    "raises late": (raises_late, (1, 4), LaunchFailure, r"thread \(2,0,0\).*late"),
    "leaves early": (leaves_early, (1, 4), KernelDeadlock, "syncthreads"),
    "forgets": (forgets, (1, 2), MissingAwait, "forgets"),
    "sleeps": (sleeps, (1, 1), LaunchFailure, "sleep"),
    "returns": (returns, (1, 1), LaunchFailure, "returned 7"),
    "exits": (exits, (1, 1), LaunchFailure, "SystemExit"),
    "interrupts": (interrupts, (1, 1), LaunchFailure, "KeyboardInterrupt"),
    "meets alone": (meets_alone, (2, 2), AtopsError, "cooperative"),
    "calls another": (calls_another, (1, 1), LaunchFailure, "raises"),
    "recurses": (recurses, (1, 1), LaunchFailure, "RecursionError"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_kernel_that_goes_wrong(stream: Stream, fault: str) -> None:
    """Its launch fails naming kernel and thread, later work is skipped, other streams go on; cleared, all is well."""
    kernel, config, error, why = FAULTS[fault]
    launched = stream.launch(kernel, config)
    skipped = stream.record()
    other = Device(0, stream.driver).create_stream()
    fine = other.fetch(other.zeros(5))
    with pytest.raises(error, match=why) as failure:
        launched.wait_sync(PATIENCE)
    assert kernel.name in str(failure.value)
    with pytest.raises(PriorLaunchFailure):
        skipped.sync(PATIENCE)
    with pytest.raises(error):
        stream.sync(PATIENCE)
    assert (fine.wait_sync(PATIENCE) == 0).all()
    assert stream.statistics().error is not None
    stream.clear_error()
    stream.launch(add_one, (1, 4), stream.zeros(8, "int32")).wait_sync(PATIENCE)
    other.close()


def test_the_traceback_of_a_kernel(stream: Stream) -> None:
    """The cause is the kernel's own exception with the kernel's own lines; block and thread are attributes."""
    with pytest.raises(LaunchFailure) as failure:
        stream.launch(raises, (2, 4)).wait_sync(PATIENCE)
    errors = [failure.value]
    while errors[-1].__cause__ is not None:
        errors.append(errors[-1].__cause__)
    assert isinstance(errors[-1], KeyError)
    lines, traceback = [], errors[-1].__traceback__
    while traceback is not None:
        lines.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert lines[-1] == "raises"
    assert (failure.value.block, failure.value.thread) == ((1, 0, 0), (1, 0, 0))


def test_an_access_outside(stream: Stream) -> None:
    """A transfer beyond an array's end fails the launch; the memory behind the array is untouched."""
    both = stream.zeros(48, "int32")
    with pytest.raises(AtopsError, match=r"outside|20"):
        stream.launch(outside, (1, 1), both[:24]).wait_sync(PATIENCE)
    stream.clear_error()
    assert (stream.fetch(both[24:]).wait_sync(PATIENCE) == 0).all()


def test_too_much_local_memory(stream: Stream) -> None:
    """More L1 than a thread has is named with the thread."""
    with pytest.raises((LaunchOutOfResources, LaunchFailure), match="greedy"):
        stream.launch(greedy, (1, 1), stream.zeros(1)).wait_sync(PATIENCE)


def test_an_argument_that_was_freed(stream: Stream) -> None:
    """Freed before the call it is refused or fails, freed between call and run it fails; both say what freed it."""
    device = Device(0, stream.driver)
    array = stream.zeros(24, "int32")
    stream.free(array)
    stream.sync(PATIENCE)
    with pytest.raises((IllegalAddress, InvalidHandle), match="freed"):
        stream.launch(add_one, (1, 1), array).wait_sync(PATIENCE)
    stream.clear_error()
    late = stream.zeros(24, "int32")
    stream.sync(PATIENCE)
    latch, other = Latch(device), device.create_stream()
    latch.hold(stream)
    launched = stream.launch(add_one, (1, 1), late)
    other.free(late)
    other.sync(PATIENCE)
    latch.open()
    with pytest.raises(IllegalAddress, match="freed"):
        launched.wait_sync(PATIENCE)
    latch.close()
    other.close()


def test_many_failures_in_a_row(stream: Stream) -> None:
    """Two hundred kernels fail, each cleared: no cluster is lost, no memory is kept."""
    for number in range(200):
        kernel, config, error, _ = FAULTS[("raises", "raises late", "leaves early", "forgets")[number % 4]]
        with pytest.raises(error):
            stream.launch(kernel, config).wait_sync(PATIENCE)
        stream.clear_error()
    stream.launch(together, (queue_of(stream).context.arch.clusters, 4)).wait_sync(PATIENCE)


def test_a_kernel_that_says_it_returns() -> None:
    """An annotated result is refused when the kernel is made."""

    def result() -> int:
        return 7

    with pytest.raises(InvalidType, match="returns nothing"):
        k.kernel(result)


def test_a_launch_config_that_is_none() -> None:
    """A configuration checks itself when it is made."""
    for arguments, error in (
        ((0, 1), InvalidValue), ((1, 0), InvalidValue), (("two", 1), InvalidType), ((1, 1, -5), InvalidValue),
        ((1, 1, 0.5), InvalidType), (((1, 2, 3, 4), 1), InvalidValue),
    ):  # fmt: skip
        with pytest.raises(error):
            LaunchConfig(*arguments)
    assert issubclass(InvalidConfiguration, InvalidValue)


def test_a_kernel_is_launched_and_not_called() -> None:
    """Calling a kernel on the host says how it is launched."""
    with pytest.raises(IllegalState, match="launch"):
        add_one(None)


@k.kernel
async def awaits(number: np.int32) -> None:
    """Await something that the host made; a list holds it, as kernels take no objects."""
    await HELD[number]


HELD: list[Any] = []


def hosts_work(stream: Stream) -> list[tuple[Any, str]]:
    """Return what the host may await and a kernel may not, and its name."""
    other = Device(0, stream.driver).create_stream(name="other")
    word = other.zeros(1, "uint32")
    held = other.wait_value(word, 1, "Eq")
    return [(held, "<Completion"), (other, "<Stream"), (other.record(), "<Event")]


def test_a_kernel_awaits_no_work_of_the_host(stream: Stream) -> None:
    """Awaiting a completion, a stream or an event says what it was and what is expected, and not to block."""
    HELD[:] = [each for each, _ in hosts_work(stream)]
    for number, name in enumerate(("<Completion", "<Stream|other", "<Event")):
        said = rf"thread \(0,0,0\).* awaited .*({name}).*; kernels may only await kernel requests: .*k.signal_wait"
        with pytest.raises(LaunchFailure, match=said) as caught:
            stream.launch(awaits, (1, 1), number).wait_sync(PATIENCE)
        assert "wait_sync" not in str(caught.value)
        code = awaits.function.__code__
        assert f"({code.co_filename}:{code.co_firstlineno + 3})" in str(caught.value)
        stream.clear_error()
    HELD[1].abort()
    HELD[1].close()
    HELD.clear()


def test_a_kernel_awaits_no_work_of_the_host_inline() -> None:
    """The same inline, where the kernel runs in the very loop that could wait."""

    async def main() -> str:
        stream = Device(0).create_stream()
        HELD[:] = [each for each, _ in hosts_work(stream)]
        with pytest.raises(LaunchFailure) as caught:
            await stream.launch(awaits, (1, 1), 0)
        HELD.clear()
        return str(caught.value)

    said = atops.run(main, EmulatorOptions())
    assert "awaited <Completion" in said and "kernels may only await kernel requests: " in said
    assert said.count("thread (0,0,0)") == 1
