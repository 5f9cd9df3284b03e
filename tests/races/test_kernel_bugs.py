"""Each seeded bug of a kernel is named at its first run, with both lines; its correct twin is silent in every mode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import LaunchFailure
from tests.kernel_bench import Bench, benches
from tests.races.kernel_bugs import BUGS, UNWRITTEN, Bug

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "eager": {"dte": "eager"},
    "seeded": {"dte": "seeded", "seed": 5},
    "a thread each": {"workers": "sip"},
}


@pytest.fixture(name="make")
def _make() -> Iterator[Callable[..., Bench]]:
    yield from benches()


def races(make: Callable[..., Bench], bug: Bug, right: int, **options: Any) -> list[Any]:
    """Run a bug, or its twin, once. Return what was found."""
    bench = make(detect=True, **options)
    out = bench.upload(np.zeros(bug.size, np.int32))
    config = (*bug.config, 64) if bug.name == "dynamic" else bug.config
    grid = bench.launch(bug.kernel, config, out, right)
    assert grid.detector is not None
    return list(grid.detector.races)


@pytest.mark.parametrize("name", BUGS)
@pytest.mark.parametrize("mode", MODES)
def test_a_twin_is_silent(make: Callable[..., Bench], name: str, mode: str) -> None:
    """What is ordered is not accused."""
    found = races(make, BUGS[name], 1, **MODES[mode])
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("name", BUGS)
@pytest.mark.parametrize("mode", MODES)
def test_a_bug_is_named(make: Callable[..., Bench], name: str, mode: str) -> None:
    """The first run names it: its kind, both lines, bytes, and what would order them."""
    bug = BUGS[name]
    found = races(make, bug, 0, **MODES[mode])
    if bug.kind != UNWRITTEN:  # what comes too early may come before anything is stored: told of beside the race
        found = [race for race in found if race.kind != UNWRITTEN]
    assert found
    for race in found:
        assert race.kind.startswith(bug.kind), race
        assert {race.first.site.line, race.second.site.line} <= bug.lines(), race
        assert race.first.write or race.second.write or bug.kind == UNWRITTEN
        assert not race.kind.startswith("race in") or race.first.site.line <= race.second.site.line, race
        assert race.kind == "one DTE context, no order" or race.ranges
    assert {site.line for race in found for site in (race.first.site, race.second.site)} == bug.lines()
    assert any(bug.advised() in race.advice for race in found), found


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("destroyed", [False, True])
@pytest.mark.parametrize("right", [0, 1])
def test_a_transfer_that_is_never_waited_for_is_reported(right: int, destroyed: bool, strict: bool) -> None:
    """With its line, beside the error where there is one, once for all threads; its awaited twin is silent."""

    @k.kernel
    async def load(out: Any, right: int) -> None:
        tile = k.local(4, np.int32)
        dte = k.tops_dte_ctx_t()
        dte.init()
        event = k.memcpy_async(dte, tile, out[4 * k.threadIdx.x : 4 * k.threadIdx.x + 4])
        if right:
            await event
        if right or destroyed:
            dte.destroy()

    async def main() -> atops.Report:
        async with atops.Driver(atops.EmulatorOptions(detect=True, strict=strict)) as driver:
            async with atops.Device(0).create_stream() as stream:
                item = stream.launch(load, (1, 12), stream.zeros(48, np.int32), right)
                fails = not right and (strict or destroyed)
                with pytest.raises(atops.errors.DteError) if fails else nullcontext():
                    await item
                stream.clear_error()
            return driver.report()

    report = asyncio.run(main())
    assert report.verdict == ("clean" if right else "race"), report
    for race in report.races:
        assert race.kind == "transfer never waited for" and "await" in race.advice
        assert race.first.site is not None and race.first.site.function.endswith("load")
    assert len(report.races) == 1 - right


def test_relaxed_accesses_may_meet_each_other_only(make: Callable[..., Bench]) -> None:
    """Two inside such blocks are no race and are counted; one inside and one outside are a race."""

    @k.kernel
    async def count(out: Any, right: int) -> None:
        if right or k.threadIdx.x:
            with k.relaxed("a count that may lag"):
                out[0] += 1
        else:
            out[0] += 1

    for right, kinds in ((1, []), (0, ["race in global memory"])):
        bench = make(detect=True)
        grid = bench.launch(count, (1, 12), bench.upload(np.zeros(1, np.int32)), right)
        assert sorted({race.kind for race in grid.detector.races}) == kinds
        assert grid.detector.take_counts()[1] > 0


def test_relaxed_takes_a_reason_and_no_memory(make: Callable[..., Bench]) -> None:
    """Without the detectors it changes nothing, and what is no text is refused."""

    @k.kernel
    async def wrong(out: Any) -> None:
        with k.relaxed("why"):
            out[0] = 1
        with k.relaxed(out):  # type: ignore[arg-type]  # this is what is refused
            out[0] = 2

    bench = make()
    out = bench.upload(np.zeros(1, np.int32))
    with pytest.raises(LaunchFailure, match="relaxed expects a reason"):
        bench.launch(wrong, (1, 1), out)
    assert out.host[0] == 1


def test_stores_of_one_value_are_told_apart(make: Callable[..., Bench]) -> None:
    """All threads may raise one flag; of two values one is lost."""

    @k.kernel
    async def flag(out: Any, right: int) -> None:
        s = k.shared(4, np.int32)
        s[0] = 7 if right else k.threadIdx.x
        out[1] = 1
        await k.syncthreads()

    for right, kinds in ((1, []), (0, ["race in shared memory"])):
        bench = make(detect=True)
        grid = bench.launch(flag, (1, 12), bench.upload(np.zeros(4, np.int32)), right)
        assert [race.kind for race in grid.detector.races] == kinds
        assert grid.detector.take_counts()[2] > 0


def test_of_a_kernel_that_fails_not_all_was_seen() -> None:
    """A barrier that counts more threads than the block has fails the launch at once; that is not "clean"."""

    @k.kernel
    async def wait(right: int) -> None:
        await k.barrier(k.BarrierScope.SIP, 4 if right else 5).arrive_and_wait()

    async def main(right: int) -> None:
        async with atops.Device(0).create_stream() as stream:
            await stream.launch(wait, (1, 4), right)

    with pytest.raises(LaunchFailure, match="barrier count is 5"):
        atops.run(main, atops.EmulatorOptions(detect=True), 0)
    assert atops.report().verdict == "inconclusive" and "kernel wait" in atops.report().escapes[0]
    atops.run(main, atops.EmulatorOptions(detect=True), 1)
    assert atops.report().verdict == "clean"


def test_threads_of_two_devices_are_told_apart() -> None:
    """A thread of the one and the same thread of the other: both sides name their device."""

    @k.cooperative
    async def swap(mine: Any, other: Any, right: int) -> None:
        mine[0] = 3
        if right:
            await k.syncblocks()
        mine[1] = other[0]

    async def main(right: int) -> None:
        one, two = atops.Device(0), atops.Device(1)
        one.enable_peer_access(two)
        two.enable_peer_access(one)
        async with one.create_stream() as first, two.create_stream() as second:
            x, y = one.zeros(2, np.int32), two.zeros(2, np.int32)
            await one.wait()
            await two.wait()
            atops.launch_together(
                [(first, swap, (1, 1), x, y, right), (second, swap, (1, 1), y, x, right)], cooperative=True
            )
            await first
            await second

    options = atops.EmulatorOptions(detect=True, devices=2)
    atops.run(main, options, 0)
    for race in atops.report().races:
        assert {race.first.actor[-8:], race.second.actor[-8:]} == {"device 0", "device 1"}
        assert "`await k.syncblocks()` between them" in race.advice
    assert atops.report().verdict == "race"
    atops.run(main, options, 1)
    assert atops.report().verdict == "clean"
