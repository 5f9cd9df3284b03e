"""Drivers come and go: boards of every size, bad environments, closing with work in flight, nothing left of them."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import (
    AtopsError,
    HostCallFailure,
    IllegalState,
    InvalidDevice,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    NotInitialized,
    StreamAborted,
)
from atops.base.options import EmulatorOptions
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of, current_driver, default_driver
from atops.runtime.driver_board import Closing
from atops.runtime.stream import Stream
from tests.every import every
from tests.runtime.boards import (
    PATIENCE,
    Latch,
    add_one,
    board,
    broken,
    leftovers,
    suspended_forever,
    waiters,
    works,
)

anyio_test = pytest.mark.anyio


# ---- which driver, which device


def test_the_last_device_of_a_full_board() -> None:
    """A board of eight has devices 0 to 7, all of which work; device 8 and device -1 are refused, naming the range."""
    with board(devices=8) as driver:
        assert Device.count(driver) == 8
        stream = Device(7, driver).create_stream()
        array = stream.zeros(24, "int32")
        stream.launch(add_one, (2, 12), array)
        assert (stream.fetch(array).wait_sync(PATIENCE) == 1).all()
        for ordinal in (8, -1, 1 << 40):
            with pytest.raises(InvalidDevice, match="devices 0 to 7"):
                Device(ordinal, driver)


@pytest.mark.parametrize(("devices", "has"), [(0, "none"), (1, "only device 0")])
def test_a_device_that_the_board_has_not(devices: int, has: str) -> None:
    """The refusal says what the board has."""
    with board(devices=devices) as driver, pytest.raises(InvalidDevice, match=has):
        Device(devices, driver)


def test_the_environment_makes_the_board() -> None:
    """ATOPS_DEVICES and ATOPS_ARCH are read; an empty value counts as none."""
    options = EmulatorOptions.from_environment({"ATOPS_DEVICES": "0", "ATOPS_ARCH": "gcu210"})
    assert (options.devices, options.arch) == (0, "gcu210")
    assert EmulatorOptions.from_environment({"ATOPS_DEVICES": "", "ATOPS_ARCH": ""}) == EmulatorOptions()


def test_a_board_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver without options reads the environment when it is made: a board of nothing, then one that cannot be."""
    monkeypatch.setenv("ATOPS_DEVICES", "0")
    driver = Driver()
    assert Device.count(driver) == 0
    with pytest.raises(InvalidDevice, match="none"):
        Device(0, driver)
    driver.close()
    monkeypatch.setenv("ATOPS_DEVICES", "eleven")
    with pytest.raises(InvalidValue, match="ATOPS_DEVICES is 'eleven'"):
        Driver()


@pytest.mark.parametrize("value", ["9", "-1", "many", "1.5", "0x2", " ", "99999999999999999999"])
def test_a_bad_number_of_devices(value: str) -> None:
    """What no board can be is refused, naming the value and the range."""
    with pytest.raises(InvalidValue, match="0 to 8"):
        EmulatorOptions.from_environment({"ATOPS_DEVICES": value})


def test_a_bad_architecture() -> None:
    """An unknown chip is refused, naming those that exist."""
    with pytest.raises(InvalidValue, match=r"gcu210.*gcu300"):
        EmulatorOptions.from_environment({"ATOPS_ARCH": "gcu999"})


@every(
    "change",
    [
        {"workers": 0}, {"workers": "all"}, {"workers": 257}, {"dte": "late"}, {"clock": "sundial"}, {"trace": -1},
        {"slice": 0}, {"abort_grace": -1.0}, {"devices": 9}, {"devices": "2"}, {"arch": "GCU300"}, {"devices": True},
        {"workers": True}, {"seed": True}, {"esl": 1}, {"abort_grace": float("nan")},
        {"abort_grace": float("inf")},
    ],
)  # fmt: skip
def test_bad_options(change: dict[str, Any]) -> None:
    """Every field is checked when the options are made, and the message names it."""
    with pytest.raises(InvalidValue, match=next(iter(change))):
        EmulatorOptions(**change)


@pytest.mark.parametrize("options", [{"devices": 2}, 2, "gcu300"])
def test_options_that_are_none(options: Any) -> None:
    """A driver refuses what is no EmulatorOptions and says so, and a device what is no driver."""
    with pytest.raises(InvalidType, match=r"EmulatorOptions\(\.\.\.\)"):
        Driver(options)
    with pytest.raises(InvalidType, match="a Driver, or None"):
        Device(0, options)


def test_a_virtual_clock_needs_an_inline_run() -> None:
    """A threaded driver cannot have a virtual clock."""
    with pytest.raises(IllegalState, match=r"atops\.run"):
        Driver(EmulatorOptions(clock="virtual"))


@anyio_test
async def test_the_innermost_driver_is_current() -> None:
    """`async with Driver()` makes it the current one inside the block, for new tasks too; then the one before again."""
    async with Driver(EmulatorOptions(devices=3)) as outer:
        assert (current_driver(), Device.count()) == (outer, 3)
        async with Driver(EmulatorOptions(devices=2)) as inner:
            assert (Device(1).driver, Device.count()) == (inner, 2)
            seen: list[Driver] = []

            async def task() -> None:
                seen.append(current_driver())

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(task)
            assert seen == [inner]
        assert current_driver() is outer


def test_the_default_driver_starts_anew() -> None:
    """Closing the default driver is allowed; the next use makes another, and what belonged to the old one is dead."""
    stream = Device(0).create_stream()
    old = default_driver()
    old.close()
    with pytest.raises(NotInitialized):
        stream.record()
    assert default_driver() is not old
    assert works(default_driver())
    default_driver().close()


# ---- closing


def use(stream: Stream) -> dict[str, Callable[[], Any]]:
    """Return every verb of a stream, ready to be called."""
    array = stream.device.zeros(24, "int32")  # outlives the stream
    event = stream.record()
    stream.sync(PATIENCE)
    return {
        "copy": lambda: stream.copy(array, np.zeros(24, np.int32)),
        "fill": lambda: stream.fill(array, 1),
        "upload": lambda: stream.upload(np.zeros(5)),
        "fetch": lambda: stream.fetch(array),
        "allocate": lambda: stream.allocate(100),
        "empty": lambda: stream.empty(100),
        "free": lambda: stream.free(array),
        "launch": lambda: stream.launch(add_one, (2, 12), array),
        "record": lambda: stream.record(),
        "wait": lambda: stream.wait(event),
        "wait_value": lambda: stream.wait_value(array, 0),
        "write_value": lambda: stream.write_value(array, 0),
        "call": lambda: stream.call(print),
        "add_callback": lambda: stream.add_callback(print),
    }


@every("verb", [
    "copy", "fill", "upload", "fetch", "allocate", "empty", "launch", "record", "wait",
    "wait_value", "write_value", "call", "add_callback",
])  # fmt: skip
def test_a_verb_after_the_end(verb: str) -> None:
    """Every verb is refused at the call on a closed stream, after a reset, and after the driver's close."""
    for end, error in (
        (lambda device, stream: stream.close(), InvalidHandle),
        (lambda device, stream: device.reset_sync(), AtopsError),
        (lambda device, stream: device.driver.close(), AtopsError),
    ):
        with board() as driver:
            device = Device(0, driver)
            stream = device.create_stream()
            calls = use(stream)
            end(device, stream)
            with pytest.raises(error):
                calls[verb]()


def in_flight(device: Device) -> list[Any]:
    """Leave work of every kind in flight and return its completions."""
    completions: list[Any] = []
    latch = Latch(device)
    for _ in range(3):
        stream = device.create_stream()
        array = stream.upload(np.zeros(1 << 20, np.int32))
        completions += [stream.launch(add_one, (2, 12), array[:24]) for _ in range(3)]
        completions += [stream.fetch(array)]
        completions += [latch.hold(stream), stream.launch(suspended_forever, (1, 12)), stream.fetch(array)]
    busy = device.create_stream()
    completions += [busy.launch(suspended_forever, (2, 12)), busy.record()._record, busy.call(print)]
    return completions


@anyio_test
async def test_closing_with_work_in_flight() -> None:
    """All completions end, well or with StreamAborted; closing again, from anywhere, does nothing."""
    with board() as driver:
        completions = in_flight(Device(0, driver))
        with anyio.fail_after(PATIENCE):
            await driver.aclose()
            await driver.aclose()
            driver.close()
            outcomes = set()
            for completion in completions:
                try:
                    await completion
                    outcomes.add(None)
                except StreamAborted:
                    outcomes.add(StreamAborted)
        assert StreamAborted in outcomes


@anyio_test
async def test_waiters_when_the_driver_closes() -> None:
    """Every kind of wait ends with an error when the driver closes."""
    with board() as driver:
        device = Device(0, driver)
        stream = device.create_stream(capacity=3)
        latch = Latch(device)
        held = latch.hold(stream)
        event = stream.record()
        stream.record()
        told: list[str] = []

        async def wait(name: str, what: Callable[[], Any]) -> None:
            try:
                await what()
            except (StreamAborted, NotInitialized):
                told.append(name)

        async def room() -> None:
            async with stream.room(3):
                stream.record()

        async def awaiting(thing: Any) -> None:
            await thing

        async def blocking(call: Callable[[float], Any]) -> None:
            await anyio.to_thread.run_sync(call, PATIENCE)

        waits: dict[str, Callable[[], Any]] = {
            "completion": lambda: awaiting(held),
            "event": lambda: awaiting(event),
            "stream": lambda: awaiting(stream),
            "device": device.wait,
            "room": room,
            "completion.wait_sync": lambda: blocking(held.wait_sync),
            "event.sync": lambda: blocking(event.sync),
            "stream.sync": lambda: blocking(stream.sync),
            "device.sync": lambda: blocking(device.sync),
        }
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for name, what in waits.items():
                    tasks.start_soon(wait, name, what)
                await anyio.wait_all_tasks_blocked()
                while waiters(driver) < len(waits) - 1:  # a wait for room is no wait for a command
                    await anyio.lowlevel.checkpoint()
                driver.close()
        assert sorted(told) == sorted(waits)


def test_closing_under_a_kernel_that_never_suspends(caplog: pytest.LogCaptureFixture) -> None:
    """Its completion fails after the grace, it is named in the log, and its thread is left behind."""
    with board(abort_grace=0.05) as driver:
        completion = Device(0, driver).create_stream().launch(stubborn(), (1, 1))
        assert STARTED.wait(PATIENCE)
        driver.close()
        with pytest.raises(StreamAborted):
            completion.wait_sync(PATIENCE)
    assert "stubborn" in caplog.text
    RELEASE.set()


STARTED, RELEASE = threading.Event(), threading.Event()


def stubborn() -> Any:
    """Return a kernel that blocks its thread until the test releases it: it cannot be ended."""
    STARTED.clear()
    RELEASE.clear()

    @k.kernel(name="stubborn")
    def kernel() -> None:
        STARTED.set()
        RELEASE.wait(PATIENCE)

    return kernel


def test_closing_while_callbacks_run() -> None:
    """The callback that runs comes to its end, those behind it still run once, with the reason, and nothing hangs."""
    with board() as driver:
        stream = Device(0, driver).create_stream()
        began, go, seen = threading.Event(), threading.Event(), []

        def slow() -> None:
            began.set()
            go.wait(PATIENCE)

        called = stream.call(slow)
        after = [stream.add_callback(lambda error, n=n: seen.append((n, type(error)))) for n in range(3)]
        never = stream.call(seen.append)
        assert began.wait(PATIENCE)
        driver.close()
        go.set()
        for completion in (called, *after):
            completion.wait_sync(PATIENCE)
        assert [number for number, _ in seen] == [0, 1, 2]
        with pytest.raises(StreamAborted):
            never.wait_sync(PATIENCE)


# ---- observers


def test_observers_that_raise(caplog: pytest.LogCaptureFixture) -> None:
    """A subscriber that raises is logged and removed, the others go on, and the run never notices."""
    with board(trace=100) as driver:
        seen: list[Any] = []

        def bad(records: Any) -> None:
            raise RuntimeError("a bad observer")

        driver.tracer.subscribe(bad)
        good = driver.tracer.subscribe(seen.extend)
        stream = Device(0, driver).create_stream()
        for _ in range(10):
            stream.record()
            stream.sync(PATIENCE)
        stream.call(lambda: None).wait_sync(PATIENCE)
        assert driver.tracer.deliver(PATIENCE)
        good.close()
        assert len(seen) >= 11
        assert sum(record.exc_info is not None for record in caplog.records) == 1
        assert "a bad observer" in caplog.text
        assert driver.tracer.statistics().subscribers == 0


def test_done_callbacks_that_raise(caplog: pytest.LogCaptureFixture) -> None:
    """What a done-callback raises is logged; the other callbacks, the waiters and the stream do not notice."""
    with board() as driver:
        device = Device(0, driver)
        latch, stream = Latch(device), device.create_stream()
        held = latch.hold(stream)
        over = threading.Event()

        def bad(completion: Any) -> None:
            raise RuntimeError("a bad callback")

        held.add_done_callback(bad)
        held.add_done_callback(lambda completion: over.set())
        latch.open()
        assert over.wait(PATIENCE)
        held.wait_sync(PATIENCE)
        stream.call(lambda: None).wait_sync(PATIENCE)
        assert works(driver)
    assert "a bad callback" in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_observers_that_would_end_their_thread(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    """Done callbacks and subscribers that raise what ends a thread are logged: no callback thread is ever lost."""

    def broken(argument: object) -> None:
        raise error

    with caplog.at_level(logging.CRITICAL), board(trace=100) as driver:
        device = Device(0, driver)
        stream, latch = device.create_stream(), Latch(device)
        held = latch.hold(stream)
        for _ in range(6):  # more than there are callback threads
            held.add_done_callback(broken)
        latch.open()
        stream.sync(PATIENCE)
        for _ in range(6):
            driver.tracer.subscribe(broken)
            assert stream.call(int).wait_sync(PATIENCE) == 0
        assert works(driver)
    closing = driver.close()
    assert closing is not None and board_of(driver).executor.block(closing, PATIENCE)


def test_a_callback_that_exits() -> None:
    """SystemExit in a host call fails the call; the callback thread goes on."""
    with board() as driver:
        stream = Device(0, driver).create_stream()
        for _ in range(6):
            with pytest.raises(HostCallFailure, match="SystemExit"):
                stream.call(exit_now).wait_sync(PATIENCE)
            stream.clear_error()
        assert works(driver)


def exit_now() -> None:
    """Ask the interpreter to end, as a library might."""
    raise SystemExit(3)


# ---- many of them


def open_files() -> int:
    """Return how many file descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


def mappings() -> int:
    """Return how many memory mappings this process has."""
    with open("/proc/self/maps") as maps:
        return sum(1 for _ in maps)


def resident() -> int:
    """Return how many MiB of memory this process occupies."""
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def growth(make: Callable[[], None], times: int) -> Iterator[tuple[str, int]]:
    """Run `make` so often; yield what there is more at the end than after a tenth: name and how many."""
    figures: list[dict[str, int]] = []
    for number in range(times):
        make()
        if number + 1 in (max(1, times // 10), times):
            gc.collect()
            for thread in threading.enumerate():
                if thread.name.startswith("atops-"):
                    thread.join(1.0)  # it is ending; one that an earlier test abandoned is not, and does not count
            gc.collect()
            figures.append(
                {"threads": threading.active_count(), "files": open_files(), "mappings": mappings(), "MiB": resident()}
            )
    for name, before in figures[0].items():
        yield name, figures[-1][name] - before


def opened() -> None:
    """Open a driver, look at it, and close it."""
    with board(devices=2) as driver:
        repr(driver)


def used() -> None:
    """Open a driver, use its device in all ways, and close it."""
    with board(devices=1) as driver:
        assert works(driver)
        device = Device(0, driver)
        device.host_malloc(100).close()
        stream = device.create_stream()
        stream.add_callback(lambda error: None)
        stream.copy(stream.empty(1 << 20, "uint8"), np.zeros(1 << 20, np.uint8))
    closing = driver.close()
    assert closing is not None
    assert board_of(driver).executor.block(closing, PATIENCE)  # so that ends do not pile up behind beginnings


@pytest.mark.slow
def test_a_closed_driver_is_let_go() -> None:
    """A timer that is far from due when the driver closes, such as the stall watch's, keeps nothing of it alive."""
    driver = Driver(EmulatorOptions(abort_grace=0.2, trace=0))
    latch = Latch(Device(0, driver))
    with pytest.raises(TimeoutError):
        latch.hold(Device(0, driver).create_stream()).wait_sync(0)
    board_of(driver).executor.later(3_600_000_000_000, board_of(driver).stall.look_later)
    closing, executor, kept = driver.close(), board_of(driver).executor, weakref.ref(driver)
    assert closing is not None and executor.block(closing, PATIENCE)
    del driver, latch, closing, executor
    until = time.monotonic() + PATIENCE
    while kept() is not None and time.monotonic() < until:  # its threads are ending
        time.sleep(0)
        gc.collect()
    assert kept() is None


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts what only Linux lists")
@pytest.mark.parametrize(("make", "times"), [(opened, 3000), (used, 100)])
def test_drivers_opened_and_closed(make: Callable[[], None], times: int) -> None:
    """Drivers leave no thread, file, mapping or memory behind."""
    # The C library maps an arena or a stack now and then, and keeps what was freed.
    allowed = {"threads": 4, "files": 4, "mappings": times // 5, "MiB": 150}
    for name, more in growth(make, times):
        assert more <= allowed[name], f"{more} {name} more after {times} drivers than after {times // 10}"


@pytest.mark.soak
@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts what only Linux lists")
def test_three_thousand_used_drivers() -> None:
    """As above, with three thousand that were used."""
    test_drivers_opened_and_closed(used, 3000)


@pytest.mark.slow
def test_a_forgotten_driver() -> None:
    """One that is never closed ends its threads and lets its memory go when it is collected."""
    before = set(threading.enumerate())
    assert works(Driver(EmulatorOptions(trace=0)))
    started = set(threading.enumerate()) - before
    assert started
    deadline = time.monotonic() + PATIENCE
    while any(thread.is_alive() for thread in started) and time.monotonic() < deadline:
        gc.collect()  # a timer of its own may hold it for a second
        for thread in started:
            thread.join(0.05)
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.slow
@anyio_test
async def test_closing_from_within() -> None:
    """A callback, a kernel and a coroutine in stream order may close their own driver without a deadlock."""
    with board() as driver:
        stream = Device(0, driver).create_stream()
        await stream.call(driver.close)
        with anyio.fail_after(PATIENCE):
            await driver.aclose()
    with board() as driver:

        @k.kernel
        def closes() -> None:
            driver.close()

        with pytest.raises(StreamAborted):
            await Device(0, driver).create_stream().launch(closes, (1, 1))
        with anyio.fail_after(PATIENCE):
            await driver.aclose()
    with board() as driver:

        async def host() -> None:
            await driver.aclose()

        with anyio.fail_after(PATIENCE), pytest.raises(StreamAborted):
            await Device(0, driver).create_stream().call(host)
        with anyio.fail_after(PATIENCE):
            await driver.aclose()


def test_an_unseen_failure(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged when the stream's scope ends, once; one that the program has seen is not."""
    async def main(look: bool) -> None:
        with board() as driver:
            async with Device(0, driver).create_stream(name="quiet one") as stream:
                completion = stream.launch(broken, (1, 1))
                if look:
                    assert isinstance(await wait_for(completion), AtopsError)
            assert leftovers(driver) == {}

    async def wait_for(completion: Any) -> BaseException | None:
        try:
            await completion
        except AtopsError as error:
            return error
        return None

    anyio.run(main, True)
    assert "quiet one" not in caplog.text
    anyio.run(main, False)
    assert sum("quiet one" in record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR) == 1


@pytest.mark.anyio
async def test_closing_says_how_far_it_is() -> None:
    """What `close` returns, which a notebook shows below a cell, tells whose end it is and whether it has come."""
    with board() as driver:
        under_way = f"<Closing of {driver!r}: ending what runs; `await driver.aclose()` waits for it>"
        assert repr(Closing(board_of(driver))) == under_way
        await driver.aclose()
        assert repr(driver.close()) == f"<Closing of {driver!r}: all has ended>"


def test_the_close_ends_what_a_reset_left_and_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that do not come back, one on a device that was reset meanwhile: both fail when the close gives up."""
    monkeypatch.setattr("atops.runtime.driver_board.MARGIN", 0.0)
    gate, begun = threading.Event(), threading.Semaphore(0)

    def stays() -> None:
        begun.release()
        gate.wait(PATIENCE)

    with board(devices=2, abort_grace=0.05) as driver:
        devices = [Device(ordinal, driver) for ordinal in range(2)]
        items = [device.create_stream().call(stays) for device in devices]
        assert all(begun.acquire(timeout=PATIENCE) for _ in items)
        thread = threading.Thread(target=devices[0].reset_sync, daemon=True)
        thread.start()
        while not board_of(driver).retired:
            time.sleep(0.001)
        driver.close()
        for item in items:
            with pytest.raises(StreamAborted, match="was closed while"):
                item.wait_sync(PATIENCE)
        gate.set()
        thread.join(PATIENCE)


def test_kernels_reach_what_a_pool_opens_to_their_device() -> None:
    """A pool opens what it has given out to the devices that have access, and to no other."""

    @k.kernel
    def store(x: Any) -> None:
        x[0] = 7

    with board(devices=3) as driver:
        devices = [Device(ordinal, driver) for ordinal in range(3)]
        pool = devices[0].create_pool()
        pool.set_access(1, "readwrite")
        owner = devices[0].create_stream()
        memory = owner.allocate(64, pool)
        owner.sync(PATIENCE)
        devices[1].create_stream().launch(store, (1, 1), memory).wait_sync(PATIENCE)
        assert memory.allocation.data[0] == 7
        with pytest.raises(AtopsError, match="device 0"):
            devices[2].create_stream().launch(store, (1, 1), memory).wait_sync(PATIENCE)


def test_a_driver_knows_its_devices() -> None:
    """The same object each time, of a closed driver too; a stream says whether it is closed."""
    driver = Driver()
    device = Device(0, driver)
    stream = device.create_stream()
    assert driver.device(0) is driver.device(0) is stream.device and driver.device(0).ordinal == 0
    with pytest.raises(InvalidDevice, match=f"devices 0 to {driver.devices - 1}|only device 0"):
        driver.device(driver.devices)
    assert not stream.closed
    stream.close()
    assert stream.closed
    found = driver.device(0)
    asyncio.run(driver.aclose())
    assert driver.device(0) is found
