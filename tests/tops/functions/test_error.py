"""Error handling (TOPS Runtime API, 2.3)."""

from __future__ import annotations

import asyncio
import threading
from typing import ClassVar

import pytest
import trio

import atops.tops as tops
from atops.base import errors
from atops.tops.header.functions import FUNCTIONS
from tests.tops.conformance import Conformance


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
