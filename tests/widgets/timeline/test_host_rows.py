"""The host's rows of the timeline in a browser: calls and waits beside the commands, selected, folded, live."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import atops
from atops_widgets import Dashboard, Timeline
from atops_widgets.drawing.scene import Window
from atops_widgets.feed.host import HOST, PROGRAM_WAITS
from tests.widgets.host import Host
from tests.widgets.pictures import keep
from tests.widgets.traces import with_host

pytestmark = pytest.mark.slow

ROWS = "view.scene.rows.map((row) => [row[0], row[2]])"
MARKED = "view.rects.filter((r) => r.mark).map((r) => [r.mark, r.seq])"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_host_stands_above_its_devices(host: Host, theme: str) -> None:
    """Calls once, and not on a row of their device; a click on a wait marks its command, which marks the wait."""
    shown = host.show(Timeline(with_host()), theme)
    shown.until("view.rects.length > 0")
    assert shown.get(ROWS)[:4] == [["API calls", "host"], ["waits", "host"], ["waits +1", "host"], ["load", "device 0"]]
    assert not any("outside" in label for label, _ in shown.get(ROWS))
    rect = shown.get("view.rects.find((r) => r.seq === argument)", HOST + 4)
    assert rect["kind"] == PROGRAM_WAITS and rect["name"] == "main.py:7 in main"
    shown.click(rect["x"] + rect["width"] / 2, rect["y"] + 5)
    shown.until("view.rects.some((r) => r.mark === 'before' && r.seq === 3)")
    assert ["select", HOST + 4] in shown.get(MARKED)
    assert shown.get("view.say.textContent") == (
        "the program waits at main.py:7 in main, at 20 µs for 66 µs; for number 3"
    )
    shown.press("Escape")
    shown.until("view.marks.seq === -1")
    shown.get("view.select(8)")
    shown.until("view.rects.some((r) => r.mark === 'before' && r.seq === argument)", HOST + 1)
    said = shown.until("view.say.textContent.includes('topsMemcpyAsync') && view.say.textContent")
    assert str(HOST)[:6] not in said
    shown.until("view.arrows.some((a) => a.from === argument && a.to === 8)", HOST + 1)
    shown.get("view.select(3)")
    shown.until("view.arrows.some((a) => a.from === 3 && a.to === argument)", HOST + 4)
    assert "the program waits" in shown.get("view.legend.textContent")
    keep(shown, "host", theme)


def test_many_lanes_are_folded(host: Host) -> None:
    """Where many tasks wait at once there is one row until `h` opens them, and folds them again."""
    shown = host.show(Timeline(with_host(more_waits=5)))
    shown.until("view.rects.length > 0")
    assert [label for label, _ in shown.get(ROWS)[:3]] == ["API calls", "waits (5 at once)", "load"]
    shown.press("h")
    shown.until("view.scene.rows[2][0] === 'waits +1'")
    assert len({rect["y"] for rect in shown.get("view.rects") if rect["kind"] == PROGRAM_WAITS}) == 5
    shown.press("h")
    shown.until("view.scene.rows[2][0] === 'load'")


def test_a_saved_page_joins_them_too(host: Host, tmp_path: Path) -> None:
    """Without Python: a call marks its command, and a command the wait for it, in all pictures."""
    Dashboard(with_host()).to_html(tmp_path / "page.html")
    host.open(tmp_path / "page.html")
    shown = host.shown("section.atops-timeline")
    shown.until("view.rects.length > 0")
    shown.get("view.select(argument)", HOST)
    assert shown.get("view.marks.after") == [0]
    shown.until("view.rects.some((r) => r.mark === 'after' && r.seq === 0)")
    shown.get("view.select(3)")
    assert HOST + 4 in shown.get("view.marks.after")
    assert str(HOST)[:6] not in shown.get("view.say.textContent")
    assert "the program waits" in shown.get("view.legend.textContent")


def test_waits_come_live(host: Host) -> None:
    """A program that waits while it is watched has its waits drawn as they end."""

    async def main() -> None:
        shown = host.show(Timeline())
        stream = atops.Device(0).create_stream(name="work")
        x = stream.upload(np.arange(4, dtype=np.int32))
        await stream.fill(x, 1)
        shown.until("view.scene && view.scene.rows.some((row) => row[0] === 'waits')")

    atops.run(main, atops.EmulatorOptions(clock="virtual"))


def test_a_page_of_rows_goes_on_below_folded_lanes() -> None:
    """What is folded takes no room of a page, and stands on no row where its first lane is on another page."""
    scene = Timeline(with_host(more_waits=5)).scene(Window(options={"first": 2}))
    assert [row[0] for row in scene.told["rows"]][:2] == ["load", "compute"]
    assert PROGRAM_WAITS not in scene.columns["kind"]
