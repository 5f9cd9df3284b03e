"""Two runs beside each other in a notebook: both timelines with the first difference marked, a table, and text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidValue
from atops.base.trace.records import Trace
from atops.trace.file import save
from atops_widgets import Compare
from tests.widgets.host import Host
from tests.widgets.pictures import keep
from tests.widgets.scheduler_programs import late


async def ordered(event: bool) -> Trace:
    """Fill what another stream copies, with an event between them or without."""
    device = atops.Device(0)
    async with device.create_stream(name="load") as load, device.create_stream(name="work") as work:
        row = device.zeros(4096, np.int32)
        load.copy(row, np.full(4096, 7, np.int32))
        if event:
            work.wait(load.record())
        work.fill(row[:1000], 3)
        await work.fetch(row)
    return atops.current_driver().tracer.snapshot()


def traced(event: bool) -> Trace:
    """Run it on the virtual clock."""
    return atops.run(ordered, atops.EmulatorOptions(clock="virtual"), event)


def test_traces_and_files(tmp_path: Path) -> None:
    """The first difference is marked once in the table and outlined in the timelines; files are read."""
    save(tmp_path / "before.gz", traced(False))
    view = Compare(tmp_path / "before.gz", traced(True), ("before", "<after>"))
    page = view.to_html(tmp_path / "both.html")
    assert page.count("<tr data-first") == 1 and 'data-mark="select"' in page and "<script" not in page
    assert "&lt;after&gt;" in page and "<after>" not in page and page.count("<svg") >= 2
    assert "only here" in page and page in (tmp_path / "both.html").read_text("utf-8")
    assert "they differ from command" in view.to_text() and "wait for event" in view.to_text()
    with pytest.raises(InvalidValue, match="expected a trace"):
        Compare(5, traced(True))  # type: ignore[arg-type]


def test_runs_that_are_alike() -> None:
    """Of runs that are alike there is no table, and nothing is outlined."""
    view = Compare(traced(True), traced(True))
    assert "in the same time" in view.to_html() and "<table" not in view.to_html()
    assert "data-mark" not in view.to_html() and view.choices == ()


def test_two_schedules_of_a_program() -> None:
    """Commands and choices of both are compared: the failing one with the plain one, and seeds."""
    report = atops.check(late)
    assert report.schedule is not None
    view = Compare.of(late, "plain", report.schedule)
    assert view.choices[0] == "the first choice of both runs is the same; then"
    assert "plain (passed)" in view.choices[1] and "failed: assertion" in view.choices[2]
    assert view.choices[2] in view.to_text()
    assert Compare.of(late, 3, 3).choices == () and "seed 3" in Compare.of(late, 3, 4).to_text()

    view = Compare.of(late, report.schedule, report.schedule)
    assert view.to_text().startswith("the first schedule and the second schedule: both run the same")

    async def cell() -> str:
        return Compare.of(late, "plain", "plain").comparison.verdict

    assert asyncio.run(cell()).startswith("both run the same")


def test_a_passing_and_a_failing_run_are_never_told_to_be_the_same() -> None:
    """Where a schedule decides what two commands of one moment do, their order is the first difference."""

    async def program() -> None:
        device = atops.Device(0)
        async with device.create_stream(name="red") as red, device.create_stream(name="blue") as blue:
            row = device.zeros(1, np.int32)
            red.fill(row, 1)
            blue.fill(row, 3)
            await red
            await blue
            got = await red.fetch(row)
        assert got[0] == 3, got

    said: dict[bool, list[str]] = {True: [], False: []}
    for seed in range(8):
        view = Compare.of(program, 0, seed)
        alike = len({"passed" in line for line in view.choices[1:]}) < 2
        said[alike].append(view.to_text())
    assert said[True] and said[False]
    assert all("they differ from command 1 on: 1 earlier in the second" in text for text in said[False])


def test_threads_of_a_kernel_in_another_order_are_told() -> None:
    """Where only threads of a kernel come in another order, the commands alone are not said to tell all."""

    @k.kernel
    async def last(row: k.Span) -> None:
        row[0] = int(k.threadIdx.x)

    async def program() -> None:
        async with atops.Device(0).create_stream(name="work") as work:
            row = work.zeros(1, np.int32)
            work.launch(last, (1, 2), row)
            got = await work.fetch(row)
        assert got[0] == 1, got

    report = atops.check(program)
    assert report.schedule is not None
    view = Compare.of(program, "plain", report.schedule)
    assert view.comparison.first is None and "passed" in view.choices[1] and "failed" in view.choices[2]
    for text in (view.to_text().splitlines()[0], view.to_html(), repr(view)):
        assert "the choices differ: something else came in another order, such as tasks or threads of a kernel" in text


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str, tmp_path: Path) -> None:
    """The picture of the documentation; it is no wider than the page."""
    view = Compare(traced(False), traced(True), ("before", "after"))
    view.to_html(tmp_path / "both.html", "light" if theme == "light" else "dark")
    host.open(tmp_path / "both.html")
    assert host.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    keep(host.shown("section.atops"), "compare", theme)
