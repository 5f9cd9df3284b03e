"""Kernel signals as C-style calls (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import ClassVar

import atops.tops as tops
from atops import kernels as k
from tests.runtime.boards import PATIENCE
from tests.tops.conformance import Case, Conformance

NOT_ALLOCATED = ("topsKernelSignalFree", ()), ("topsKernelSignalRead", ()), ("topsKernelSignalWrite", (1,))


def signal(*more):
    """Return arguments that begin with a new signal's handle."""
    return lambda world: (world.device.signals.allocate(), *more)


def exhaust(world):
    """Take every signal of device 0."""
    while world.device.signals.available:
        world.device.signals.allocate()
    return ()


class TestKernelSignals(Conformance):
    """Every function of kernel signals, by its rows."""

    good: ClassVar = {
        "topsKernelSignalMaxNumGet": (),
        "topsKernelSignalAvailableNumGet": (),
        "topsKernelSignalAlloc": (),
        "topsKernelSignalFree": signal(),
        "topsKernelSignalRead": signal(),
        "topsKernelSignalWrite": signal(7),
    }
    bad = (
        *(Case(name, "never allocated", (0, *more), tops.topsErrorInvalidHandle) for name, more in NOT_ALLOCATED),
        *(Case(name, "handle -1", (-1, *more), tops.topsErrorInvalidHandle) for name, more in NOT_ALLOCATED),
        *(Case(name, "handle None", (None, *more), tops.topsErrorInvalidValue) for name, more in NOT_ALLOCATED),
        Case("topsKernelSignalAlloc", "all taken", exhaust, tops.topsErrorLaunchOutOfResources),
        Case("topsKernelSignalWrite", "negative", signal(-1), tops.topsErrorInvalidValue),
        Case("topsKernelSignalWrite", "33 bits", signal(1 << 32), tops.topsErrorInvalidValue),
    )


@k.kernel
async def answer(asked: int, answered: int):
    """Wait until one signal is 5, then store 6 in another."""
    await k.signal_wait(asked, 5)
    k.signal_write(answered, 6)


def test_counts_values_and_lives(world):
    """Available goes down and up; a new signal is 0; what is written is read; a freed handle is dead."""
    most = tops.check(tops.topsKernelSignalMaxNumGet())
    assert most == world.driver.arch.kernel_signals
    handle = tops.check(tops.topsKernelSignalAlloc())
    assert tops.check(tops.topsKernelSignalAvailableNumGet()) == most - 1
    assert tops.check(tops.topsKernelSignalRead(handle)) == 0
    tops.check(tops.topsKernelSignalWrite(handle, 0xFFFFFFFF))
    assert tops.check(tops.topsKernelSignalRead(handle)) == 0xFFFFFFFF
    tops.check(tops.topsKernelSignalFree(handle))
    assert tops.check(tops.topsKernelSignalAvailableNumGet()) == most
    assert tops.topsKernelSignalFree(handle) == (tops.topsErrorInvalidHandle,)
    assert tops.check(tops.topsKernelSignalRead(tops.check(tops.topsKernelSignalAlloc()))) == 0


def test_signals_are_the_current_devices(world):
    """A handle of one device is none on another, and is dead after a reset."""
    handle = tops.check(tops.topsKernelSignalAlloc())
    tops.check(tops.topsSetDevice(1))
    assert tops.topsKernelSignalRead(handle) == (tops.topsErrorInvalidHandle, None)
    tops.check(tops.topsSetDevice(0))
    tops.check(tops.topsDeviceReset())
    assert tops.topsKernelSignalRead(handle) == (tops.topsErrorInvalidHandle, None)


def test_host_and_kernel_speak_through_them(world):
    """A write of the host lets a waiting kernel go on, and the host reads what the kernel stored."""
    asked, answered = (tops.check(tops.topsKernelSignalAlloc()) for _ in range(2))
    done = world.device.create_stream().launch(answer, (1, 1), asked, answered)
    tops.check(tops.topsKernelSignalWrite(asked, 5))
    done.wait_sync(PATIENCE)
    assert tops.check(tops.topsKernelSignalRead(answered)) == 6
