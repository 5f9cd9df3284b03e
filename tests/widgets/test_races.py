"""Races in the widgets: both sides are marked with a line between them, and told to the pointer, keys and a reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.trace.records import Trace
from atops_widgets import ClusterGrid, Feed, MemoryMap, Queues, Timeline
from tests.widgets.host import Host

pytestmark = pytest.mark.slow


@k.kernel
async def spread(out: k.Span) -> None:
    """Read what thread 0 stores, without a barrier."""
    s, me = k.shared(12, np.int32), int(k.threadIdx.x)
    if me == 0:
        s[:] = 7
    out[me] = s[me]


async def racing() -> Trace:
    """Race a fill with a copy, and two threads of a kernel."""
    device = atops.Device(0)
    with atops.current_driver().tracer.detailed(threads=True):
        async with device.create_stream(name="load") as load, device.create_stream(name="work") as work:
            x = device.empty(1024)
            load.copy(x, np.ones(1024, np.float32))
            work.fill(x[16:128], 2.0)
            work.launch(spread, (1, 12), work.zeros(12, np.int32))
        return atops.current_driver().tracer.snapshot()


@pytest.fixture
def feed() -> Feed:
    """The feed of a run with two races."""
    return Feed(atops.run(racing, atops.EmulatorOptions(detect=True, clock="virtual")))


def sides(feed: Feed) -> list[int]:
    """Return the commands of the first race, and the launch."""
    return [*feed.races[0].seqs, feed.races[1].first.seq]


@pytest.mark.parametrize("kind", [Timeline, Queues])
def test_commands_that_raced_are_marked(host: Host, feed: Feed, kind: Any) -> None:
    """Each has a mark where it is drawn, inside the canvas, and the two of one race a line between them."""
    shown = host.show(kind(feed))
    shown.until("view.raceMarks && view.raceMarks.length === 3")
    assert sorted(shown.get("view.raceMarks.map((mark) => mark.side)")) == sorted(sides(feed))
    assert shown.get("view.raceLines") == 1
    inside = "mark.x >= 0 && mark.x <= view.width && mark.y >= 0 && mark.y <= view.height"
    assert shown.get(f"view.raceMarks.every((mark) => {inside})")
    assert shown.get("view.raceButton.textContent") == "Races (2)" and not shown.get("view.raceButton.hidden")


def test_keys_tell_each_side(host: Host, feed: Feed) -> None:
    """`r` goes from side to side, around the end, `R` back; each is told with its race, politely to a screen reader."""
    shown = host.show(Timeline(feed))
    shown.until("view.raceMarks && view.raceMarks.length === 3")
    for seq in [*sides(feed), sides(feed)[0]]:
        shown.press("r")
        shown.until("view.marks.seq === argument && view.marks.text", seq)
        assert "race" in shown.get("view.say.textContent") and shown.get("view.say.ariaLive") == "polite"
    assert "data race" in shown.get("view.say.textContent")
    shown.press("R")
    shown.until("view.marks.seq === argument && view.say.textContent.includes('race in shared memory')", sides(feed)[2])
    shown.press("Escape")
    shown.until("view.marks.seq === -1 && view.say.textContent.startsWith('2 races')")
    shown.click(0, 0, "atops-races")
    shown.until("view.marks.seq === argument", sides(feed)[0])


def test_what_is_out_of_sight_is_shown(host: Host, feed: Feed) -> None:
    """Stepping to a side that lies outside of the window shows everything."""
    shown = host.show(Timeline(feed))
    shown.until("view.raceMarks && view.raceMarks.length === 3")
    shown.press(*["+"] * 6)
    shown.until("view.raceMarks.length < 3 && view.scene.window[1] - view.scene.window[0] < 500")
    shown.press("r", "r")
    shown.until("view.raceMarks.length === 3")


def test_the_pointer_is_told_and_selects(host: Host, feed: Feed) -> None:
    """The mark under the pointer has the sentence as its title; a click selects that side."""
    shown = host.show(Timeline(feed))
    spot = shown.until("view.raceMarks && view.raceMarks.length === 3 && view.raceMarks[2]")
    shown.click(spot["x"], spot["y"])
    shown.until("view.marks.seq === argument", spot["side"])
    assert shown.get("view.canvas.title").startswith("race in shared memory")
    shown.drag((500, 120), (520, 120))
    assert "race" not in shown.get("view.canvas.title")


def test_threads_that_raced_are_marked(host: Host, feed: Feed) -> None:
    """The cluster grid marks both threads of the launch, and tells the one that is chosen."""
    shown = host.show(ClusterGrid(feed))
    shown.until("view.raceMarks && view.raceMarks.length === 2")
    assert shown.get("view.raceMarks.map((mark) => mark.side)") == ["0:0", "0:1"] and shown.get("view.raceLines") == 1
    assert "1 race between its threads" in shown.get("view.say.textContent")
    assert shown.get("view.raceButton.textContent") == "Races (1)"
    shown.press("r", "r")
    shown.until("view.chosen === '0:1' && view.say.textContent.includes('syncthreads()')")
    assert feed.selection.seq == sides(feed)[2]


def test_the_bytes_are_marked(host: Host, feed: Feed) -> None:
    """The memory map shows the bytes of a race while one of its commands is selected."""
    shown = host.show(MemoryMap(feed))
    feed.selection.select(sides(feed)[1])
    rect = shown.until("view.rects.find((rect) => rect.mark === 'race')")
    assert rect["touch"] == "raced over" and rect["size"] == 112 * 4
    feed.selection.select(sides(feed)[2])
    shown.until("view.marks.seq === argument && !view.rects.some((rect) => rect.mark === 'race')", sides(feed)[2])


def test_saved_pages_and_pictures_have_them(host: Host, feed: Feed, tmp_path: Path) -> None:
    """Without Python the marks are there and told, in SVG and text, too; no request goes anywhere."""
    for widget, marks in ((Timeline(feed), 3), (Queues(feed), 3), (ClusterGrid(feed), 2)):
        svg = widget.to_svg()
        assert svg.count('data-race="mark"') == marks and svg.count('data-race="line"') == 2  # with its edge
        widget.to_html(tmp_path / "page.html")
        host.open(tmp_path / "page.html")
        page = host.shown("section.atops")
        page.until("view.raceMarks && view.raceMarks.length === argument", marks)
        page.press("r")
        page.until("view.say.textContent.includes('nothing orders') || view.say.textContent.includes('syncthreads()')")
    assert "1. data race" in Timeline(feed).to_text()
    feed.selection.select(sides(feed)[0])
    assert "nothing orders them" in Timeline(feed).to_svg()
    assert host.requests == []


def test_a_running_driver_tells_races(host: Host) -> None:
    """A live feed gets races as they are found."""

    async def main() -> None:
        async with atops.Driver(atops.EmulatorOptions(detect=True)) as driver:
            shown = host.show(Timeline(driver))
            shown.until("view.frames > 0")
            assert shown.get("view.raceButton.hidden")
            device = driver.device(0)
            async with device.create_stream() as one, device.create_stream() as two:
                x = device.empty(16)
                one.fill(x, 1)
                two.fill(x, 2)
            shown.until("view.raceMarks && view.raceMarks.length === 2 && !view.raceButton.hidden")

    atops.run(main)
