"""Drivers, devices and errors (TOPS Runtime API, 2.1 to 2.3), and notes for a profiler."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import ClassVar

import anyio
import numpy as np
import pytest
import trio

import atops.tops as tops
from atops.base import errors
from atops.base.errors import InvalidHandle
from atops.base.options import EmulatorOptions
from atops.base.result_codes import Result
from atops.bridge.handles import register, stream_of
from atops.runtime.board.current_device import enter, leave
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.tops import aio
from atops.tops.header.functions import FUNCTIONS
from tests.runtime.boards import PATIENCE, Latch, broken, waiters
from tests.tops.conformance import Case, Conformance, World

CLOCK = tops.topsDeviceAttributeClockRate
NO_ARGUMENT = "its only argument in C is an out-parameter, which Python does not have"
ORDINALS = {"topsSetDevice": (), "topsGetDeviceProperties": (), "topsDeviceGetAttribute": (CLOCK,)}


def busy(world: World) -> None:
    """Leave a command of device 0 unfinished."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    latch.hold(stream)
    world.keep += [latch, stream]


def board(count: int) -> Driver:
    """Return a board of `count` devices."""
    return Driver(EmulatorOptions(devices=count, trace=0))


class TestDevice(Conformance):
    """Every function of 2.2 but those between processes, by its rows."""

    functions = tuple(
        name for name, each in FUNCTIONS.items() if each.family == "Device" and not name.startswith("topsIpc")
    )
    good: ClassVar = {
        "topsDeviceSynchronize": (),
        "topsDeviceReset": (),
        "topsGetDevice": (),
        "topsGetDeviceCount": (),
        "topsDeviceGetLimit": (tops.topsLimitMallocHeapSize,),
        "topsGetDeviceFlags": (),
        "topsSetDeviceFlags": (tops.topsDeviceScheduleYield,),
        "topsChooseDevice": (tops.topsDeviceProp_t(),),
        **{name: (*more, 1) for name, more in ORDINALS.items()},
    }
    bad = (
        *(Case(name, "K2 device -1", (*more, -1), tops.topsErrorInvalidDevice) for name, more in ORDINALS.items()),
        *(Case(name, "K2 device 2 of 2", (*more, 2), tops.topsErrorInvalidDevice) for name, more in ORDINALS.items()),
        *(Case(name, "device 1.0", (*more, 1.0), tops.topsErrorInvalidValue) for name, more in ORDINALS.items()),
        *(Case(name, "device None", (*more, None), tops.topsErrorInvalidValue) for name, more in ORDINALS.items()),
        Case("topsDeviceGetAttribute", "no attribute", (9999, 0), tops.topsErrorInvalidValue),
        Case("topsDeviceGetAttribute", "a bound", (10000, 0), tops.topsErrorInvalidValue),
        Case("topsDeviceGetLimit", "K8 limit -1", (-1,), tops.topsErrorUnsupportedLimit),
        Case("topsDeviceGetLimit", "printf FIFO", (tops.topsLimitPrintfFifoSize,), tops.topsErrorUnsupportedLimit),
        Case("topsDeviceGetLimit", "no number", ("heap",), tops.topsErrorInvalidValue),
        Case("topsSetDeviceFlags", "two schedule bits", (3,), tops.topsErrorInvalidValue),
        Case("topsSetDeviceFlags", "Yield and BlockingSync", (6,), tops.topsErrorInvalidValue),
        Case("topsSetDeviceFlags", "an unknown bit", (0x40,), tops.topsErrorInvalidValue),
        Case("topsSetDeviceFlags", "negative", (-1,), tops.topsErrorInvalidValue),
        Case("topsSetDeviceFlags", "work unfinished", lambda w: busy(w) or (1,), tops.topsErrorSetOnActiveProcess),
        Case("topsChooseDevice", "no properties", ({"major": 3},), tops.topsErrorInvalidValue),
    )
    unreachable: ClassVar = {
        ("topsSetDevice", Result.DeviceAlreadyInUse): "only a reservation of SIP threads conflicts",
        ("topsGetDevice", Result.InvalidValue): NO_ARGUMENT,
        ("topsGetDevice", Result.InvalidDevice): "only a board without devices: test_no_device",
        ("topsGetDeviceCount", Result.NoDevice): "only a board without devices: test_no_device",
        ("topsGetDeviceFlags", Result.InvalidValue): NO_ARGUMENT,
        ("topsGetDeviceFlags", Result.InvalidDevice): "only a board without devices: test_no_device",
        ("topsSetDeviceFlags", Result.InvalidDevice): "only a board without devices: test_no_device",
    }


def test_no_device(world):
    """On a board without devices the count is NoDevice; others answer InvalidDevice where listed, else NoDevice."""
    driver = board(0)
    enter(driver, board_of(driver))
    try:
        assert tops.topsGetDeviceCount() == (tops.topsErrorNoDevice, None)
        assert tops.topsGetDevice() == tops.topsGetDeviceFlags() == (tops.topsErrorInvalidDevice, None)
        assert tops.topsSetDeviceFlags(0) == tops.topsSetDevice(0) == (tops.topsErrorInvalidDevice,)
        assert tops.topsDeviceSynchronize() == tops.topsDeviceReset() == (tops.topsErrorNoDevice,)
        assert tops.topsChooseDevice(tops.topsDeviceProp_t()) == (tops.topsErrorNoDevice, None)
    finally:
        leave(driver)
        driver.close()


def test_each_task_and_thread_has_its_device(world):
    """A set holds in the tasks made after it and in no other task or thread; the object API has the same device."""

    async def choose(before: int, ordinal: int) -> None:
        assert tops.topsGetDevice() == (tops.topsSuccess, before)
        assert tops.topsSetDevice(ordinal) == (tops.topsSuccess,)
        assert Device(None, world.driver).ordinal == ordinal

    def run():
        asyncio.run(choose(0, 1))
        found = tops.topsGetDevice()
        tops.topsSetDevice(1)
        asyncio.run(choose(1, 0))
        return found, tops.topsGetDevice()

    thread, seen = world.thread(run)
    thread.join(PATIENCE)
    assert seen == [((tops.topsSuccess, 0), (tops.topsSuccess, 1))]
    assert tops.topsGetDevice() == (tops.topsSuccess, 0)


def test_b24_synchronize_waits_for_every_stream(world):
    """B24: it returns when all streams are done, and with nothing to do at once; other devices' work goes on."""
    device = world.device
    streams = [device.create_stream(nonblocking=bool(number % 2)) for number in range(4)]
    array = device.empty(4, "int32")
    for number, stream in enumerate(streams):
        stream.fill(array[number : number + 1], number)
    latch = Latch(world.second)
    elsewhere = world.second.create_stream()
    latch.hold(elsewhere)
    assert tops.topsDeviceSynchronize() == (tops.topsSuccess,)
    assert all(stream.is_done for stream in streams)
    world.let_run()
    assert not elsewhere.is_done
    latch.open()


def test_synchronize_returns_a_kernels_fault_until_reset(world):
    """A fault poisons its stream: synchronising returns it again and again, and is well after a reset."""
    stream = world.device.create_stream()
    stream.launch(broken, (1, 1))
    for _ in range(2):
        assert tops.topsDeviceSynchronize() == (tops.topsErrorLaunchFailure,)
    assert tops.topsDeviceReset() == (tops.topsSuccess,)
    assert tops.topsDeviceSynchronize() == (tops.topsSuccess,)


def test_twin_leaves_the_loop_free(world, loop_guard):
    """Awaiting the device does not block the loop: another task of the loop lets the device go on."""
    latch = Latch(world.device)
    latch.hold(world.device.create_stream(nonblocking=True))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(opener)
            assert await aio.topsDeviceSynchronize() == (tops.topsSuccess,)

    async def opener() -> None:
        await anyio.to_thread.run_sync(latch.open)

    anyio.run(main)


def test_cancelling_a_twin_cancels_the_wait_alone(world):
    """The work goes on when the awaiting task is cancelled, and nothing is stored as an error."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    held = latch.hold(stream)

    async def main() -> None:
        with anyio.move_on_after(0) as scope:
            await aio.topsDeviceSynchronize()
        assert scope.cancelled_caught
        assert tops.topsPeekAtLastError() == (tops.topsSuccess,)

    for backend in ("asyncio", "trio"):
        anyio.run(main, backend=backend)
    assert not held.done()
    latch.open()
    held.wait_sync(PATIENCE)


def test_reset_kills_handles_streams_and_memory(world):
    """K11, B22: after a reset old handles are dead and memory is whole again; the per-thread stream works again."""
    device = world.device
    stream = device.create_stream()
    handle = register(stream, device.context)
    array = device.empty(1 << 20, "uint8")
    own = stream_of(2)
    own.fill(array, 1)
    assert tops.topsDeviceReset() == (tops.topsSuccess,)
    with pytest.raises(InvalidHandle, match="is dead"):
        stream_of(handle)
    assert stream_of(2) is not own
    stream_of(2).fill(device.empty(4, "uint8"), 0).wait_sync(PATIENCE)
    assert device.memory_info()[0] > world.driver.arch.l3_bytes - (1 << 20)


def test_reset_wakes_waiters(world):
    """A thread that synchronises while another resets gets an error, never a hang."""
    latch = Latch(world.device)
    latch.hold(world.device.create_stream(nonblocking=True))
    thread, answers = world.thread(tops.topsDeviceSynchronize)
    while not waiters(world.driver):  # until it waits
        time.sleep(0)
    assert tops.topsDeviceReset() == (tops.topsSuccess,)
    thread.join(PATIENCE)
    assert answers == [(tops.topsErrorContextIsDestroyed,)]


@pytest.mark.parametrize(
    ("given", "kept"), [(0, 0), (1, 1), (2, 2), (4, 4), (8, 0), (9, 1), (0x16, 0), (0x17, 1), (0x1E, 0)]
)
def test_flags(world, given, kept):
    """LmemResizeToMax goes as a whole, then MapHost; what is left is the schedule flag, until a reset."""
    assert tops.topsSetDeviceFlags(given) == (tops.topsSuccess,)
    assert tops.topsGetDeviceFlags() == (tops.topsSuccess, kept)
    tops.topsSetDevice(1)
    assert tops.topsGetDeviceFlags() == (tops.topsSuccess, 0)
    tops.topsSetDevice(0)
    tops.topsDeviceReset()
    assert tops.topsGetDeviceFlags() == (tops.topsSuccess, 0)


def test_same_flags_are_allowed_while_work_runs(world):
    """Only a change of the schedule flag is refused while a command is unfinished."""
    tops.check(tops.topsSetDeviceFlags(tops.topsDeviceScheduleSpin))
    busy(world)
    assert tops.topsSetDeviceFlags(tops.topsDeviceScheduleSpin | tops.topsDeviceMapHost) == (tops.topsSuccess,)
    assert tops.topsSetDeviceFlags(0) == (tops.topsErrorSetOnActiveProcess,)
    world.keep[0].open()


def test_spinning_waits(world):
    """With Spin a wait polls and ends as it does when it sleeps."""
    tops.check(tops.topsSetDeviceFlags(tops.topsDeviceScheduleSpin))
    array = world.device.empty(1 << 20, "uint8")
    stream = world.device.create_stream()
    for value in range(20):
        stream.fill(array, value)
    assert tops.topsDeviceSynchronize() == (tops.topsSuccess,)
    assert stream.is_done


@pytest.mark.parametrize("arch", ["gcu210", "gcu300"])
def test_properties_are_the_architectures(world, arch):
    """Properties, attributes and the architecture's table say the same; the struct survives its C form."""
    driver = Driver(EmulatorOptions(arch=arch, trace=0))
    enter(driver, board_of(driver))
    try:
        table = driver.arch
        found = tops.check(tops.topsGetDeviceProperties(0))
        assert (found.major, found.minor) == table.compute_capability
        assert found.gcuArchName == table.gcu_arch_name
        assert found.totalGlobalMem == table.l3_bytes == tops.check(tops.topsDeviceGetLimit(2))
        assert found.maxThreadsDim == tuple(table.max_block)
        assert tops.topsDeviceProp_t.from_bytes(found.to_bytes()) == found
        same = {
            tops.topsDeviceAttributeClockRate: found.clockRate,
            tops.topsDeviceAttributeComputeCapabilityMajor: found.major,
            tops.topsDeviceAttributeComputeCapabilityMinor: found.minor,
            tops.topsDeviceAttributeMaxBlockDimX: found.maxThreadsDim[0],
            tops.topsDeviceAttributeMaxBlockDimY: found.maxThreadsDim[1],
            tops.topsDeviceAttributeMaxBlockDimZ: found.maxThreadsDim[2],
            tops.topsDeviceAttributeMaxGridDimX: found.maxGridSize[0],
            tops.topsDeviceAttributeMaxGridDimY: found.maxGridSize[1],
            tops.topsDeviceAttributeMaxGridDimZ: found.maxGridSize[2],
            tops.topsDeviceAttributeMaxThreadsPerBlock: found.maxThreadsPerBlock,
            tops.topsDeviceAttributeMultiprocessorCount: found.multiProcessorCount,
            tops.topsDeviceAttributeMaxSharedMemoryPerBlock: found.sharedMemPerBlock,
            tops.topsDeviceAttributeEnflameMcChannel: found.mc_channel,
        }
        for attribute in tops.topsDeviceAttribute_t:
            if attribute is not tops.topsDeviceAttributeEnflameSpecificBegin:
                assert tops.topsDeviceGetAttribute(attribute, 0) == (tops.topsSuccess, same[attribute])
    finally:
        leave(driver)
        driver.close()


def test_choose_device(world):
    """Nothing asked for is device 0; what only one has is that one; what none has whole is the nearest."""
    choose = tops.topsChooseDevice
    assert choose(tops.topsDeviceProp_t()) == (tops.topsSuccess, 0)
    assert choose(tops.topsDeviceProp_t(pciBusID=2)) == (tops.topsSuccess, 1)
    assert choose(tops.topsDeviceProp_t(major=9, pciBusID=2, totalGlobalMem=1)) == (tops.topsSuccess, 1)
    assert choose(tops.check(tops.topsGetDeviceProperties(1))) == (tops.topsSuccess, 1)


DEVICE_CALLS = {
    "topsDeviceComputeCapability": (),
    "topsDeviceGet": (),
    "topsDeviceGetName": (64,),
    "topsDeviceGetPCIBusId": (13,),
    "topsDeviceTotalMem": (),
}


class TestDriver(Conformance):
    """Every function of 2.1, by its rows."""

    functions = tuple(name for name, function in FUNCTIONS.items() if function.family == "Driver")
    good: ClassVar = {
        "topsInit": (0,),
        "topsDriverGetVersion": (),
        "topsRuntimeGetVersion": (),
        "topsDeviceGetByPCIBusId": ("0000:02:00.0",),
        **{name: (*more, 1) for name, more in DEVICE_CALLS.items()},
    }
    bad = (
        Case("topsInit", "flags", (1,), tops.topsErrorInvalidValue),
        Case("topsInit", "negative flags", (-1,), tops.topsErrorInvalidValue),
        Case("topsDeviceGetName", "no room", (0, 0), tops.topsErrorInvalidValue),
        Case("topsDeviceGetPCIBusId", "12 characters of room", (12, 0), tops.topsErrorInvalidValue),
        Case("topsDeviceGetByPCIBusId", "no such form", ("bus 1",), tops.topsErrorInvalidValue),
        Case("topsDeviceGetByPCIBusId", "bytes that are no text", (b"\xff",), tops.topsErrorInvalidValue),
        Case("topsDeviceGetByPCIBusId", "nothing there", ("0000:03:00.0",), tops.topsErrorInvalidDevice),
        Case("topsDeviceGetByPCIBusId", "another domain", ("0001:01:00.0",), tops.topsErrorInvalidDevice),
        *(Case(name, "device 2 of 2", (*more, 2), tops.topsErrorInvalidDevice) for name, more in DEVICE_CALLS.items()),
        *(Case(name, "device -1", (*more, -1), tops.topsErrorInvalidDevice) for name, more in DEVICE_CALLS.items()),
        *(Case(name, "device 1.0", (*more, 1.0), tops.topsErrorInvalidValue) for name, more in DEVICE_CALLS.items()),
        *(Case(name, "device True", (*more, True), tops.topsErrorInvalidValue) for name, more in DEVICE_CALLS.items()),
    )
    unreachable: ClassVar = {
        ("topsDriverGetVersion", Result.InvalidValue): NO_ARGUMENT,
        ("topsRuntimeGetVersion", Result.InvalidValue): NO_ARGUMENT,
    }


def test_version(world):
    """2.2 is 2020, of driver and runtime alike."""
    assert tops.topsDriverGetVersion() == tops.topsRuntimeGetVersion() == (tops.topsSuccess, 2020)


def test_name_is_cut(world):
    """The name has at most len - 1 characters, the end of the text being the last."""
    whole = tops.check(tops.topsDeviceGetName(256, 0))
    assert whole.startswith("Enflame S60")
    assert tops.check(tops.topsDeviceGetName(8, 0)) == whole[:7]
    assert tops.check(tops.topsDeviceGetName(1, 0)) == ""


@pytest.mark.parametrize("ordinal", [0, 1])
def test_bus_id_round_trip(world, ordinal):
    """What topsDeviceGetPCIBusId returns, topsDeviceGetByPCIBusId takes; domain and function may be left out."""
    text = tops.check(tops.topsDeviceGetPCIBusId(13, ordinal))
    assert len(text) == 12
    for form in (text, text.encode(), text.upper(), text[5:], text[5:10]):
        assert tops.topsDeviceGetByPCIBusId(form) == (tops.topsSuccess, ordinal)


def test_figures(world):
    """Capability and memory are the architecture's."""
    assert tops.topsDeviceComputeCapability(0) == (tops.topsSuccess, 3, 0)
    assert tops.check(tops.topsDeviceTotalMem(1)) == world.driver.arch.l3_bytes


class TestError(Conformance):
    """Every function of 2.3, by its rows."""

    functions = tuple(name for name, function in FUNCTIONS.items() if function.family == "Error")
    good: ClassVar = {
        "topsGetLastError": (),
        "topsPeekAtLastError": (),
        "topsGetErrorName": (tops.topsErrorInvalidValue,),
        "topsGetErrorString": (tops.topsErrorInvalidValue,),
    }
    anything = frozenset({("topsGetErrorName", "tops_error"), ("topsGetErrorString", "topsError")})


def test_peek_keeps_and_get_resets(world):
    """Peeking keeps the last error, getting resets it."""
    tops.topsSetDevice(9)
    assert tops.topsPeekAtLastError() == tops.topsPeekAtLastError() == (tops.topsErrorInvalidDevice,)
    assert tops.topsGetLastError() == (tops.topsErrorInvalidDevice,)
    assert tops.topsGetLastError() == tops.topsPeekAtLastError() == (tops.topsSuccess,)


def test_k15_success_does_not_erase(world):
    """K15: a success between the failure and the question leaves the error; a later failure replaces it."""
    tops.topsSetDevice(9)
    tops.topsGetDevice()
    assert tops.topsPeekAtLastError() == (tops.topsErrorInvalidDevice,)
    tops.topsInit(1)
    assert tops.topsGetLastError() == (tops.topsErrorInvalidValue,)


def test_k14_threads_do_not_share(world):
    """K14: a thread does not see what another one failed with."""
    seen = []
    tops.topsSetDevice(9)
    thread = threading.Thread(target=lambda: seen.append(tops.topsGetLastError()))
    thread.start()
    thread.join()
    assert seen == [(tops.topsSuccess,)]
    assert tops.topsGetLastError() == (tops.topsErrorInvalidDevice,)


def test_tasks_do_not_share(world):
    """A task does not see what a task that still runs failed with, its parent included; its own it does."""

    async def failing(failed: asyncio.Event, seen: asyncio.Event) -> None:
        tops.topsSetDevice(9)
        failed.set()
        await seen.wait()
        assert tops.topsGetLastError() == (tops.topsErrorInvalidDevice,)

    async def main() -> None:
        failed, seen = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(failing(failed, seen))
        await failed.wait()
        assert tops.topsPeekAtLastError() == (tops.topsSuccess,)
        tops.topsInit(1)

        async def child() -> None:
            assert tops.topsPeekAtLastError() == (tops.topsSuccess,)

        await asyncio.create_task(child())
        seen.set()
        await task
        assert tops.topsGetLastError() == (tops.topsErrorInvalidValue,)

    asyncio.run(main())


def test_a_finished_task_leaves_its_error_to_the_thread(world):
    """What one notebook cell failed with, the next can ask for: on asyncio and on trio."""

    async def cell() -> None:
        tops.topsSetDevice(9)

    async def next_cell() -> tuple:
        return tops.topsGetLastError()

    asyncio.run(cell())
    assert asyncio.run(next_cell()) == (tops.topsErrorInvalidDevice,)
    trio.run(cell)
    assert trio.run(next_cell) == (tops.topsErrorInvalidDevice,)
    assert tops.topsGetLastError() == (tops.topsSuccess,)


def test_k19_every_code_has_its_name():
    """K19: each member's name is what topsGetErrorName and topsGetErrorString return; an alias has the first name."""
    for code in tops.topsError_t:
        for value in (code, int(code)):
            assert tops.topsGetErrorName(value) == tops.topsGetErrorString(value) == (tops.topsSuccess, code.name)
    assert tops.topsGetErrorName(tops.topsErrorMemoryAllocation) == (tops.topsSuccess, "topsErrorOutOfMemory")
    assert tops.topsGetErrorString(400) == (tops.topsSuccess, "topsErrorInvalidHandle")


@pytest.mark.parametrize("code", [-1, 10**9, None, "x", object()])
def test_k17_unknown_codes(code):
    """K17: what is no code is topsErrorUnknown."""
    assert tops.topsGetErrorName(code) == tops.topsGetErrorString(code) == (tops.topsSuccess, "topsErrorUnknown")


def test_check_returns_results_and_raises(world):
    """`check` gives nothing, a value or a tuple; a failure is raised as its class and says what the call said."""
    assert tops.check(tops.topsInit(0)) is None
    assert tops.check(tops.topsGetDeviceCount()) == 2
    assert tops.check(tops.topsDeviceComputeCapability(0)) == (3, 0)
    with pytest.raises(errors.InvalidDevice, match=r"topsErrorInvalidDevice: topsSetDevice: there is no device 9"):
        tops.check(tops.topsSetDevice(9))
    with pytest.raises(errors.OutOfMemory, match="topsErrorOutOfMemory: The memory has no free range"):
        tops.check(tops.topsErrorOutOfMemory)
    with pytest.raises(errors.AtopsError, match="TOPSRTC_ERROR_COMPILATION"):
        tops.check((tops.TOPSRTC_ERROR_COMPILATION, None))
    with pytest.raises(errors.InvalidType, match=r"check\(\) expects what a C-style function returned"):
        tops.check("x")


def test_every_failure_can_be_raised():
    """`check` raises an exception with the same code for each member but success."""
    for code in tops.topsError_t:
        if code:
            with pytest.raises(errors.AtopsError) as caught:
                tops.check(code)
            assert caught.value.code == code


INVALID = tops.topsErrorInvalidValue
SET = tops.topsExtSetProfileMeta


class TestProfileMeta(Conformance):
    """The one function, by its rows."""

    good: ClassVar = {"topsExtSetProfileMeta": (b"meta", 4, 1)}
    bad = tuple(
        Case("topsExtSetProfileMeta", *row)
        for row in (
            ("less than its size", (b"meta", 5, 1), INVALID),
            ("negative size", (b"meta", -1, 1), INVALID),
            ("33 bits of size", (b"meta", 1 << 32, 1), INVALID),
            ("65 bits of id", (b"meta", 4, 1 << 63), INVALID),
            ("device memory", lambda w: (tops.check(tops.topsMalloc(4)), 4, 1), INVALID),
        )
    )


def notes(world):
    """Return what the trace shows with records, by their names."""
    return dict(world.driver.tracer.snapshot().names.notes)


def test_the_last_one_wins_and_size_zero_removes(world):
    """Bytes are copied at the call, kept under the id, replaced and removed; text if UTF-8, else hexadecimal."""
    data = bytearray(b"first, and more")
    tops.check(SET(data, 5, -7))
    data[:] = bytes(len(data))
    assert notes(world) == {"compilation -7": "first"}
    tops.check(SET(np.array([255, 254], np.uint8), 2, -7))
    tops.check(SET("grün".encode(), 5, 8))
    assert notes(world) == {"compilation -7": "fffe", "compilation 8": "grün"}
    tops.check(SET(None, 0, -7))
    assert notes(world) == {"compilation 8": "grün"}


def test_pinned_host_memory(world):
    """A pointer of topsHostMalloc is host memory too."""
    address = tops.check(tops.topsHostMalloc(4, 0))
    tops.host_view(address, 4)[:] = list(b"pins")
    tops.check(SET(address, 4, 1))
    assert notes(world) == {"compilation 1": "pins"}
