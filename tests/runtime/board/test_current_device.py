"""The current device and the current stream: each task and thread has its own, and a block gives back what it found."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import permutations

import anyio.lowlevel
import pytest
import trio

import atops
from atops import tops
from atops.errors import InvalidHandle, NotInitialized
from atops.runtime.board.current_device import DEFAULT, enter, leave
from atops.runtime.driver import board_of
from tests.every import every
from tests.runtime.boards import PATIENCE, board


@pytest.fixture
def devices():
    """Have a board of four devices, which is the current one, and its devices."""
    with board(devices=4) as driver:
        enter(driver, board_of(driver))
        try:
            yield [atops.Device(ordinal) for ordinal in range(4)]
        finally:
            leave(driver)


def now() -> tuple[int, int]:
    """Return the current device, as both kinds of functions say it."""
    return atops.Device().ordinal, tops.check(tops.topsGetDevice())


@pytest.mark.anyio
async def test_two_tasks_that_share_devices(devices):
    """Each has its own, whatever the order in which they enter and leave blocks of the same Device objects."""
    seen: list[tuple[int, tuple[int, int]]] = []

    async def work(own: list[int], turns: list[int]):
        for turn in turns:
            for ordinal in own:
                devices[ordinal].__enter__()
                await waits(turn)
                seen.append((ordinal, now()))
            for ordinal in reversed(own):
                seen.append((ordinal, now()))
                await waits(turn)
                devices[ordinal].__exit__(None, None, None)
            seen.append((0, now()))

    await together(*(
        (work, own, turns) for own in ([1, 2], [2, 1], [3, 3], [1, 2, 3]) for turns in ([1, 2, 3], [3, 1, 2])
    ))  # fmt: skip
    assert len(seen) == 2 * 3 * (5 + 5 + 5 + 7) and now() == (0, 0)
    assert [ordinal for ordinal, _ in seen] == [found for _, (found, _) in seen] == [found for _, (_, found) in seen]


async def waits(turns: int) -> None:
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()


async def together(*calls) -> None:
    async with anyio.create_task_group() as group:
        for function, *arguments in calls:
            group.start_soon(function, *arguments)


@pytest.mark.anyio
async def test_what_a_task_chooses_is_no_others(devices):
    """Not its parent's, nor its thread's in later tasks; a task begins with its parent's choice."""

    async def choose():
        assert now() == (2, 2)
        tops.check(tops.topsSetDevice(3))
        assert now() == (3, 3)

    with devices[2]:
        await together((choose,), (choose,))
        assert now() == (2, 2)
    assert now() == (0, 0)


def test_a_loop_leaves_nothing_behind(devices):
    """What the tasks of one run chose is unknown to the thread and to the next run, which knows the thread's choice."""

    async def choose(before: int, ordinal: int):
        assert now() == (before, before)
        devices[ordinal].set_current()

    for run in (asyncio.run, lambda main: trio.run(lambda: main)):
        run(choose(0, 1))
        assert now() == (0, 0)
    copy_context().run(lambda: (devices[2].set_current(), asyncio.run(choose(2, 1))))
    assert now() == (0, 0)


def test_threads_have_their_own(devices):
    """A thread begins with device 0 and keeps its choice; `to_thread` takes the task's along and brings none back."""
    with devices[1], ThreadPoolExecutor(1) as pool:
        assert pool.submit(now).result(PATIENCE) == (0, 0)
        pool.submit(devices[2].set_current).result(PATIENCE)
        assert pool.submit(atops.Device, None, devices[0].driver).result(PATIENCE) == devices[2]
        assert now() == (1, 1)

        async def main():
            def there():
                found = now()
                devices[3].set_current()
                return found

            loop = asyncio.get_running_loop()
            found = await asyncio.to_thread(there), await loop.run_in_executor(None, now)
            return *found, now()

        assert asyncio.run(main()) == ((1, 1), (0, 0), (1, 1))
        found = []
        thread = threading.Thread(target=copy_context().run, args=(lambda: found.append(now()),))
        thread.start()
        thread.join(PATIENCE)
        assert found == [(1, 1)] and now() == (1, 1)


def test_host_calls_know_the_device_of_their_submitter(devices):
    """A function and a coroutine function that a stream calls, and nothing that they choose comes back."""
    stream = devices[0].create_stream()

    def there():
        found = now()
        devices[3].set_current()
        return found

    async def coroutine():
        return there()

    async def main():
        with devices[2]:
            items = stream.call(there), stream.call(coroutine)
        return [await item for item in items]

    assert asyncio.run(main()) == [(2, 2), (2, 2)] and now() == (0, 0)


def test_blocks_left_in_any_order(devices):
    """What was entered last and is not left yet is current, in all orders; and after an exception as without."""
    for order in permutations(range(4)):
        blocks = [devices[1], devices[2], devices[1], atops.Device(3)]
        for block in blocks:
            block.__enter__()
        left = list(enumerate(blocks))
        for place in order:
            last = next(each for each in reversed(left) if each[1] == blocks[place])  # equal blocks are alike
            left.remove(last)
            blocks[place].__exit__(None, None, None)
            assert atops.Device() == (left[-1][1] if left else devices[0])
    with pytest.raises(KeyError), devices[1], devices[1], devices[2]:
        raise KeyError
    devices[1].__exit__(None, None, None)  # never entered: nothing happens
    assert now() == (0, 0)


def test_a_choice_in_a_block_ends_with_it(devices):
    """`set_current`, `use` and topsSetDevice change the innermost block's device; outside of blocks they last."""

    def program():
        devices[1].use()
        with devices[2]:
            devices[3].set_current()
            with devices[2] as entered:
                assert entered is devices[2] and now() == (2, 2)
                tops.check(tops.topsSetDevice(0))
                assert now() == (0, 0)
            assert now() == (3, 3)
        assert now() == (1, 1)
        tops.check(tops.topsSetDevice(2))
        return now()

    assert copy_context().run(program) == (2, 2) and now() == (0, 0)


def test_generators_and_boards(devices):
    """A fixture's block holds for its test, one that is left in another context is left there; a board has its own."""

    def fixture():
        with devices[1]:
            yield

    with board(devices=2) as other:
        made = fixture()
        next(made)
        with atops.Device(1, other):
            assert (now(), atops.Device(None, other).ordinal) == ((1, 1), 1)
        assert atops.Device(None, other).ordinal == 0
        elsewhere = copy_context()
        assert elsewhere.run(lambda: (next(made, None), now())) == (None, (0, 0))
        assert now() == (1, 1)
        devices[1].__exit__(None, None, None)
    assert now() == (0, 0)


def test_a_stream_brings_its_device(devices):
    """In `with stream:` and after `stream.use()` its device is current with it, and each device keeps its stream."""
    streams = [device.create_stream() for device in devices]

    def program():
        with streams[1]:
            assert now() == (1, 1) and atops.Device().current_stream is streams[1]
            with devices[2]:
                assert atops.Device().current_stream is devices[2].null_stream
                streams[3].use()
                assert now() == (3, 3) and devices[3].current_stream is streams[3]
            assert now() == (1, 1) and devices[3].current_stream is devices[3].null_stream
            assert devices[1].current_stream is streams[1]
        assert now() == (0, 0)
        streams[2].use()
        devices[1].use()
        return now(), devices[2].current_stream

    assert copy_context().run(program) == ((1, 1), streams[2]) and now() == (0, 0)
    streams[0].close()
    with pytest.raises(InvalidHandle, match=f"cannot use {streams[0].label}: it is closed"):
        streams[0].use()


def test_a_device_can_be_referenced_weakly(devices):
    """It lives as long as its driver. So can a launch configuration."""
    config = atops.LaunchConfig(1, 1)
    assert weakref.ref(config)() is config
    driver = atops.Driver(atops.EmulatorOptions(devices=2))
    seen = weakref.ref(atops.Device(1, driver))
    gc.collect()
    assert seen() is driver.device(1)
    driver.close()


def test_parts_of_a_device_say_which(devices):
    """Streams, events, buffers and pools have a Device and its ordinal; host memory has none; a closed board still."""
    second = devices[1]
    stream = second.create_stream()
    event = second.create_event()
    array = stream.zeros((4, 2))
    parts = (
        stream, event, stream.record(), array, array[1], array.view(), second.allocate(8), second.default_pool,
        second.create_pool(), second.null_stream, second.buffer_at(array.address, 4), atops.ExternalStream(stream),
    )  # fmt: skip
    for part in parts:
        assert part.device == second and type(part.device) is atops.Device and part.device_id == 1 == int(part.device)
    host = second.host_malloc(4)
    assert host.device is host.device_id is None
    assert atops.Device.all() == devices and [each.id for each in devices] == list(range(4))
    assert atops.Device.all(second.driver) == devices and {second: 1}[stream.device] == 1
    stream.sync(PATIENCE)
    second.reset_sync()
    assert stream.device == second == event.device
    second.driver.close()
    assert "closed" in repr(second.driver) and stream.device == second == array.device


def test_what_a_device_makes_is_made_by_no_constructor(devices):
    """Stream, Event and MemoryPool called by a program name the cure."""
    for wrong in (atops.MemoryPool, lambda: atops.MemoryPool(devices[0]), lambda: atops.MemoryPool(0, max_size=1)):
        with pytest.raises(TypeError, match=r"makes no pool; use device\.create_pool\(\)"):
            wrong()
    for wrong in (atops.Stream, lambda: atops.Stream(devices[0]), lambda: atops.Stream(0), lambda: atops.Stream(None)):
        with pytest.raises(TypeError, match=r"makes no stream; use device\.create_stream\(\)"):
            wrong()
    for wrong in (atops.Event, lambda: atops.Event(devices[0]), lambda: atops.Event(0, timing=False)):
        with pytest.raises(TypeError, match=r"makes no event; use device\.create_event\(\)"):
            wrong()


@every(
    "make, names",
    [
        (lambda device: device, "ordinal id driver arch name properties context"),
        (lambda device: device.create_stream(capacity=3), "capacity priority label number device device_id"),
        (lambda device: device.create_stream(), "cluster_mask sip_mask is_done error"),
        (lambda device: device.empty(4), "shape dtype size ndim device device_id"),
        (lambda device: device.create_event(), "timing once queryable device device_id state completion is_done"),
        (lambda device: device.create_pool(max_size=1 << 20), "max_size name device device_id is_destroyed"),
    ],
)  # fmt: skip
def test_what_was_given_at_the_start_stays(devices, make, names):
    """Setting it is refused, by the name of the attribute, and changes nothing."""
    thing = make(devices[1])
    for name in names.split():
        before = getattr(thing, name)
        with pytest.raises(AttributeError, match=f"'{name}' of '{type(thing).__name__}' object has no setter"):
            setattr(thing, name, 2)
        assert getattr(thing, name) == before


def test_drivers_are_told_apart():
    """By number, and by the name if one was given; a name is a str."""
    with board() as one, board() as other:
        assert repr(one) == f"<Driver {board_of(one).serial}: gcu300 x 1, threaded>" != repr(other)
    named = atops.Driver(name="serving")
    assert repr(named) == f"<Driver {board_of(named).serial} 'serving': gcu300 x 1, threaded>"
    named.close()
    with pytest.raises(TypeError, match="the name of a driver is 7; expected a str"):
        atops.Driver(name=7)


def test_drivers_left_in_any_order():
    """What was entered last and is not left yet is current; at the end what was current before."""

    async def main(order):
        before = atops.current_driver()
        drivers = [atops.Driver(atops.EmulatorOptions(devices=1)) for _ in order]
        for driver in drivers:
            assert await driver.__aenter__() is driver is atops.current_driver()
        left = list(drivers)
        for place in order:
            left.remove(drivers[place])
            await drivers[place].__aexit__(None, None, None)
            assert atops.current_driver() is (left[-1] if left else before)

    for order in permutations(range(3)):
        asyncio.run(main(order))
        atops.run(main, None, order)


def there(driver, ordinal: int, stream=None) -> None:
    """Find that what names no driver means this one: both kinds of functions, and what they make."""
    device = atops.Device()
    assert (device.driver, device.ordinal, atops.current_driver()) == (driver, ordinal, driver)
    assert now() == (ordinal, ordinal)
    assert tops.check(tops.topsGetDeviceCount()) == atops.Device.count() == driver.devices
    assert atops.Stream.legacy_default() is atops.Stream.from_handle(0) is driver.device(ordinal).null_stream
    assert device.current_stream is (stream or device.null_stream)
    before = board_of(driver).context(ordinal).memory.statistics().live
    pointer = tops.check(tops.topsMalloc(64))
    assert board_of(driver).context(ordinal).memory.statistics().live == before + 1
    tops.check(tops.topsFree(pointer))


@pytest.mark.anyio
async def test_a_device_and_a_stream_bring_their_driver(devices):
    """In a coroutine, in tasks, in threads and host calls that begin there; and each block gives back what it found."""
    ours = devices[0].driver
    with board(devices=2) as other:
        stream = atops.Device(1, other).create_stream()

        async def task():
            there(other, 1, stream)
            with devices[3]:
                await anyio.lowlevel.checkpoint()
                there(ours, 3)
            there(other, 1, stream)

        with atops.Device(1, other):
            there(other, 1)
            with devices[2]:
                there(ours, 2)
                with stream:
                    await together((task,), (task,))
                    await anyio.to_thread.run_sync(there, other, 1, stream)
                    await devices[0].create_stream().call(there, other, 1, stream)
                    with ThreadPoolExecutor(1) as pool:
                        assert pool.submit(atops.current_driver).result(PATIENCE) not in (ours, other)
                there(ours, 2)
            tops.check(tops.topsSetDevice(0))
            there(other, 0)
            async with atops.Driver(atops.EmulatorOptions(devices=1)) as third:
                there(third, 0)
                stream.use()
                there(other, 1, stream)
            there(other, 0)
        there(ours, 0)


def test_a_choice_outside_of_blocks_brings_its_driver():
    """`use`, `set_current`: for this thread, or this run, alone, until another choice or until the driver is closed."""

    def program():
        default = atops.Device(0)
        default.use()
        with board(devices=2) as one, board(devices=2) as other:
            for choose in (atops.Device.use, atops.Device.set_current):
                choose(atops.Device(1, one))
                there(one, 1)
            stream = atops.Device(1, other).create_stream()
            stream.use()
            there(other, 1, stream)
            copy_context().run(lambda: (atops.Device(0, one).use(), there(one, 0)))
            there(other, 1, stream)
            assert atops.run(inner) is None
            other.close()
            assert atops.Device() == default and tops.topsGetDevice() == (tops.topsSuccess, 0)
            atops.Device(0, one).use()
            default.use()
            there(default.driver, 0)
            return default, atops.Device(1, one).use()

    async def inner():
        there(atops.current_driver(), 0)
        with board(devices=1) as other, atops.Device(0, other):
            there(other, 0)

    default, _ = copy_context().run(program)
    assert atops.Device() == default


def test_the_process_wide_driver_stays_the_newest():
    """A choice of its device outside of blocks says which device, and holds on to no driver that was replaced."""

    def program():
        atops.Device(0).use()
        kept, DEFAULT[:] = DEFAULT[:], []
        try:
            fresh = atops.default_driver()
            assert atops.current_driver() is fresh is not kept[0]
            fresh.close()
        finally:
            DEFAULT[:] = kept

    copy_context().run(program)


def test_a_block_of_a_closed_driver_says_so():
    """It does not pass on to another board in silence."""
    with board() as driver, atops.Device(0, driver):
        driver.close()
        with pytest.raises(NotInitialized, match=f"<Driver {board_of(driver).serial}: .* is closed"):
            atops.Device()
        assert tops.topsGetDevice()[0] is not tops.topsSuccess
    assert atops.current_driver() is not driver
