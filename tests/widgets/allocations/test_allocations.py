"""Allocations as bands: what a program held is drawn once each, with its line, in both themes and as text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import atops
from atops.base.errors import InvalidValue
from atops.base.trace.records import Trace
from atops.trace.file import save
from atops_widgets import Allocations
from tests.widgets.host import Host
from tests.widgets.pictures import keep


async def rounds() -> Trace:
    """Keep one array, and take two others in each of some rounds."""
    device = atops.Device(0)
    with atops.current_driver().tracer.detailed():
        async with device.create_stream() as stream:
            kept = stream.zeros(50_000, np.float32)  # kept
            for number in range(5):
                x = stream.upload(np.ones(20_000 + 5_000 * number, np.float32))
                y = stream.empty_like(x)  # <twin>
                stream.copy(y, x)
                await stream
                del x, y
            await stream.fetch(kept)
    return atops.current_driver().tracer.snapshot()


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Run it on the virtual clock."""
    return atops.run(rounds, atops.EmulatorOptions(clock="virtual"))


def test_each_allocation_is_a_band_of_its_line(trace: Trace, tmp_path: Path) -> None:
    """With what hovering says; a file tells the same as its trace."""
    view = Allocations(trace)
    page = view.to_html(tmp_path / "page.html")
    bands = re.findall(r"<title>([^<]*allocated at[^<]*)</title>", page)
    assert len(bands) == len(view.lives) == 11
    assert sum("test_allocations.py" in each for each in bands) == 11
    assert "&lt;twin&gt;" in page and "<twin>" not in page and "<script" not in page
    said = view.to_text().splitlines()
    assert said[0] == "11 allocations by 3 lines of the program"
    assert "A  device 0, test_allocations.py:" in said[1] and "at most 195.3 KiB at once" in said[1]
    assert said[2].strip().endswith("# kept")
    save(tmp_path / "trace.gz", trace)
    assert Allocations(tmp_path / "trace.gz").to_text() == view.to_text()
    assert page in (tmp_path / "page.html").read_text("utf-8")


def test_what_has_no_allocations_says_so() -> None:
    """As a trace without details; what is no trace is refused."""
    assert "record it inside" in Allocations(Trace()).to_text() and "record it inside" in Allocations(Trace()).to_svg()
    with pytest.raises(InvalidValue, match="expected a trace"):
        Allocations(5)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str, trace: Trace, tmp_path: Path) -> None:
    """The picture of the documentation; it is no wider than the page."""
    Allocations(trace).to_html(tmp_path / "page.html", "light" if theme == "light" else "dark")
    host.open(tmp_path / "page.html")
    assert host.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    keep(host.shown("section.atops"), "allocations", theme)
