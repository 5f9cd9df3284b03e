"""No right program is said to race: inline under seeds, with threads under asyncio and trio, in plain code."""

from __future__ import annotations

from contextlib import closing

import anyio
import numpy as np
import pytest

import atops
from tests.runtime.races.right_programs import CODE_STYLE, RIGHT, THREADED

OPTIONS = atops.EmulatorOptions(detect=True, devices=2)


@pytest.mark.parametrize("name", sorted(set(RIGHT) - THREADED))
def test_inline_no_order_of_a_right_program_is_a_race(name: str) -> None:
    """First come, first served, by seeds and under schedules."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        await RIGHT[name](device)
        return device.driver.report()

    for seed in (None, 1, 2):
        report = atops.run(main, atops.EmulatorOptions(detect=True, devices=2, seed=seed))
        assert not report.races, f"seed {seed}: {report}"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", RIGHT)
def test_with_threads_a_right_program_is_no_race(name: str, backend: str) -> None:
    """A driver's own threads, under both loops."""
    if backend == "trio" and name.startswith("asyncio_"):
        return

    async def found() -> atops.Report:
        async with atops.Driver(OPTIONS) as driver:
            await RIGHT[name](atops.Device(0))
            return driver.report()

    report = anyio.run(found, backend=backend)
    assert not report.races, report


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("name", CODE_STYLE)
def test_a_right_program_of_c_style_functions_is_no_race(name: str, inline: bool) -> None:
    """Their blocking calls and queries are waits of the host."""
    if inline and name == "c_queries":
        return
    if inline:

        async def main() -> atops.Report:
            CODE_STYLE[name]()
            return atops.report()

        report = atops.run(main, OPTIONS)
    else:
        with closing(atops.Driver(OPTIONS)) as driver, atops.Device(0, driver):
            CODE_STYLE[name]()
            report = driver.report()
    assert not report.races, report


@pytest.mark.parametrize("ordered", (True, False))
@pytest.mark.parametrize("registered", (True, False))
def test_pinned_sources_are_looked_at(ordered: bool, registered: bool) -> None:
    """A source in pinned or registered memory that numpy changes under its copy is a race, however small."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        host = device.register(np.ones(4, np.float32)) if registered else device.host_malloc(4, np.float32)
        host.array[:] = 1
        async with device.create_stream() as stream:
            await stream.copy(host, device.zeros(4))
            done = stream.copy(device.empty(4), host)
            if ordered:
                await done
            host.array[:] = 2
        return device.driver.report()

    report = atops.run(main, OPTIONS)
    assert [race.kind for race in report.races] == ([] if ordered else ["host memory changed in flight"])
    assert report.verdict == ("clean" if ordered else "race")


def test_what_numpy_shares_is_no_clean_run() -> None:
    """Where the host works in the order of streams its stores to pinned memory are not seen, and the run says so."""

    async def main() -> atops.Report:
        device = atops.Device(0)
        host = device.host_malloc(4, np.float32)
        host.array[:] = 1
        async with device.create_stream() as stream:
            stream.call(host.array.fill, 2)
            stream.copy(device.empty(4), host)
            stream.copy(device.empty(4), host)
        return device.driver.report()

    report = atops.run(main, OPTIONS)
    assert report.verdict == "inconclusive"
    assert len(report.escapes) == 1 and "numpy" in report.escapes[0] and "test_right_programs" in report.escapes[0]
