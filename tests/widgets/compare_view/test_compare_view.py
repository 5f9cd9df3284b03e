"""Two runs beside each other in a notebook: both timelines with the first difference marked, a table, and text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

import atops
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
    assert "of both runs are the same; then" in view.choices[0]
    assert "plain (passed)" in view.choices[1] and "failed: assertion" in view.choices[2]
    assert view.choices[2] in view.to_text()
    assert Compare.of(late, 3, 3).choices == () and "seed 3" in Compare.of(late, 3, 4).to_text()

    async def cell() -> str:
        return Compare.of(late, "plain", "plain").comparison.verdict

    assert asyncio.run(cell()).startswith("both run the same")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str, tmp_path: Path) -> None:
    """The picture of the documentation; it is no wider than the page."""
    view = Compare(traced(False), traced(True), ("before", "after"))
    view.to_html(tmp_path / "both.html", "light" if theme == "light" else "dark")
    host.open(tmp_path / "both.html")
    assert host.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    keep(host.shown("section.atops"), "compare", theme)
