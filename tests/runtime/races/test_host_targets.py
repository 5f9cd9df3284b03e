"""Targets of copies to the host: where the program can read one before its copy is over, the verdict says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

import atops
from atops import tops

N = 1024
ONES = np.ones(N, np.float32)
Program = Callable[[atops.Stream, atops.DeviceArray, Any], Coroutine[Any, Any, object]]


async def read_early(stream: atops.Stream, x: atops.DeviceArray, host: Any) -> object:
    copied = stream.copy(host, x)
    total = host.sum()  # what was there, or what comes: nobody sees it
    await copied
    return total


async def read_early_and_never_waited_for(stream: atops.Stream, x: atops.DeviceArray, host: Any) -> object:
    stream.copy(host, x)
    return host.sum()


async def awaited_later(stream: atops.Stream, x: atops.DeviceArray, host: Any) -> object:
    """It is right, and looks no different from the first one: so it is no accusation."""
    copied = stream.copy(host, x)
    await copied
    return host.sum()


async def awaited_at_once(stream: atops.Stream, x: atops.DeviceArray, host: Any) -> object:
    await stream.copy(host, x)
    return host.sum()


async def waited_for_at_once(stream: atops.Stream, x: atops.DeviceArray, host: Any) -> object:
    stream.copy(host, x).wait_sync()
    return host.sum()


async def copied_by_a_call_that_blocks(stream: atops.Stream, x: atops.DeviceArray, host: Any) -> object:
    await stream
    tops.check(tops.topsMemcpy(host, x, x.nbytes, tops.topsMemcpyDeviceToHost))
    return host.sum()


async def fetched(stream: atops.Stream, x: atops.DeviceArray, host: Any) -> object:
    """Its array comes with its end."""
    array = stream.fetch(x)
    await asyncio.sleep(0)
    return (await array).sum()


SEEN: list[Program] = [awaited_at_once, waited_for_at_once, copied_by_a_call_that_blocks, fetched]
NOT_SEEN: list[Program] = [read_early, read_early_and_never_waited_for, awaited_later]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("program", [*SEEN, *NOT_SEEN], ids=lambda each: each.__name__)
def test_what_cannot_be_seen_of_a_target_is_said(program: Program, strict: bool) -> None:
    """With the line of the copy. Where the program waits in that line there is nothing in between."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        async with device.create_stream() as stream:
            await program(stream, stream.upload(ONES), np.zeros(N, np.float32))
        return device.driver.report()

    report = atops.run(main, atops.EmulatorOptions(detect=True, strict=strict))
    assert not report.races
    assert report.verdict == ("clean" if program in SEEN else "inconclusive")
    if program in NOT_SEEN:
        (said,) = report.escapes
        line = program.__code__.co_firstlineno + (2 if program.__doc__ else 1)
        assert f"the target of the copy at test_host_targets.py:{line} " in said


@pytest.mark.parametrize("strict", [False, True])
def test_in_strict_mode_what_is_read_early_does_not_look_right(strict: bool) -> None:
    """It is 0xA5 in each byte until the copy is over."""

    async def main() -> float:
        async with atops.Device(0).create_stream() as stream:
            x, host = stream.upload(ONES), np.ones(N, np.float32)
            await stream
            copied = stream.copy(host, x)
            early = float(host[0])
            await copied
            assert (host == 1).all()
            return early

    assert (atops.run(main, atops.EmulatorOptions(strict=strict)) == 1) is not strict
