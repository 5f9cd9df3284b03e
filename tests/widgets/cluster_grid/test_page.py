"""The cluster grid in a browser: cells, steps by keys, pointer and slider, links with other widgets, live and saved."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import atops
from atops.base.trace.records import Kind, ThreadEvent, ThreadState, Trace
from atops_widgets import ClusterGrid, Dashboard, Feed, Timeline
from tests.widgets.cluster_grid_traces import deadlocked, summing, total
from tests.widgets.frames import BEST_DRAW_MS, FROZEN_MS
from tests.widgets.host import Host, Shown
from tests.widgets.pictures import keep

pytestmark = pytest.mark.slow

PICTURED = 171  # steps that the picture stands at
CELLS = "view.rects.filter((r) => r.thread !== undefined)"


def turns(shown: Shown) -> str:
    """Return the letters of all threads drawn, once what has come is drawn."""
    shown.until("!view.pending")
    return str(shown.get(f"{CELLS}.map((r) => view.scene.looks[r.turn][0]).join('')"))


def test_every_thread_is_a_cell(host: Host) -> None:
    """Cells stand in their blocks on clusters, inside the canvas; the step, the launch and the lines are told."""
    shown = host.show(ClusterGrid(summing()))
    shown.until(f"{CELLS}.length === 48")
    assert turns(shown) == "E" * 48
    inside = "r.x >= 0 && r.x + r.width <= view.width && r.y >= 0 && r.y + r.height <= view.height"
    assert shown.get(f"view.rects.every((r) => {inside})")
    assert shown.get("view.note.textContent") == "step 288 of 288 · ended"
    assert shown.get("[...view.choice.options].map((o) => o.textContent)") == ["5: total, 288 steps"]
    assert "total (number 5), step 288 of 288" in shown.get("view.say.textContent")
    assert shown.get("view.rects.filter((r) => r.sourceLine).length") == 12
    right = shown.get("Math.max(...view.cells.map((cell) => cell.x))")
    assert right < shown.get("view.rects.find((r) => r.sourceLine).x") < right + 60  # it has what blocks leave


def test_keys_go_through_the_steps(host: Host) -> None:
    """One step back and on, to the start, to the next barrier and back, to the end; the time cursor goes along."""
    widget = ClusterGrid(summing())
    shown = host.show(widget)
    shown.until("view.scene.step === 288")
    shown.press("ArrowLeft")
    shown.until("view.scene.step === 287")
    assert turns(shown).count("R") == 1
    shown.press("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowRight")
    shown.until("view.scene.step === 285")
    shown.press("Home")
    shown.until("view.scene.step === 0")
    assert turns(shown) == "·" * 48
    assert widget.feed.selection.cursor_ns == summing().steps[0].at_ns
    shown.press("b")
    shown.until("view.scene.step > 0")
    first = shown.get("view.scene.step")
    assert turns(shown).count("r") == 12
    assert shown.get("view.rects.filter((r) => r.sourceLine && r.count).map((r) => r.count)") == [1]
    shown.press("b")
    shown.until("view.scene.step > argument", first)
    shown.press("B")
    shown.until("view.scene.step === argument", first)
    shown.press("End")
    shown.until("view.scene.step === 288 && view.marks.cursor === null")


def test_buttons_and_slider_do_the_same(host: Host) -> None:
    """Everything that keys do can be clicked; playing stops at the end."""
    shown = host.show(ClusterGrid(deadlocked()))
    shown.until("view.scene.step === 8")
    shown.click(0, 0, "atops-start")
    shown.until("view.scene.step === 0")
    shown.click(0, 0, "atops-on")
    shown.until("view.scene.step === 1 && view.range.value === '1'")
    shown.get("(view.range.value = 5, view.range.dispatchEvent(new Event('input')))")
    shown.until("view.scene.step === 5")
    shown.click(0, 0, "atops-failure")
    shown.until("view.scene.step === 8")
    shown.press("ArrowRight")
    shown.until("view.scene.step === 9")
    assert "!" in turns(shown)
    shown.click(0, 0, "atops-play")
    shown.until("view.scene.step === 15 && !view.playing")


def test_a_deadlock_is_drawn(host: Host) -> None:
    """The launch opens where it failed; which thread waits for which is drawn and told in words."""
    shown = host.show(ClusterGrid(deadlocked()))
    shown.until("view.rects.some((r) => r.wait)")
    assert turns(shown) == "BBEB····"
    assert shown.get("view.rects.find((r) => r.wait).wait") == "block 0: threads 0-1, 3"
    assert "Deadlock: a barrier can never open" in shown.get("view.say.textContent")


def test_a_thread_and_its_line_are_marked(host: Host) -> None:
    """A chosen thread is outlined and told; a chosen line outlines the threads that stand there."""
    shown = host.show(ClusterGrid(deadlocked()))
    cell = shown.until(f"{CELLS}[1]")
    shown.click(cell["x"] + 9, cell["y"] + 9)
    shown.until("view.say.textContent.startsWith('Block 0 thread 1: at its block')")
    shown.press("ArrowDown")
    shown.until("view.say.textContent.startsWith('Block 0 thread 2: ended')")
    line = shown.until("view.rects.find((r) => r.sourceLine === 38)")
    shown.click(line["x"] + 200, line["y"] + 8)
    shown.until("view.cells.filter((cell) => cell.mark === 'before').length === 3")


def test_launches_are_linked_with_other_widgets(host: Host) -> None:
    """A launch selected in the timeline is shown, one chosen in the selector is selected there, cursors agree."""
    first, second = summing(2), deadlocked()
    moved = [step._replace(launch=99) for step in second.steps]
    launch = next(record for record in second.records if record.kind == Kind.LAUNCH)
    late = launch._replace(seq=99, started_ns=launch.started_ns + 900, finished_ns=launch.finished_ns + 999)
    feed = Feed(replace(first, records=(*first.records, late), steps=(*first.steps, *moved)))
    grid, timeline = host.show(ClusterGrid(feed)), host.show(Timeline(feed))
    grid.until("view.scene.launch === 99")
    timeline.until("view.rects.length > 0")
    timeline.get("view.select(5)")
    grid.until("view.scene.launch === 5")
    grid.get("(view.choice.value = '99', view.choice.dispatchEvent(new Event('change')))")
    timeline.until("view.marks.seq === 99")
    grid.until("view.scene.launch === 99")
    grid.press("Home")
    timeline.until("view.marks.cursor !== null")


def test_launches_are_reached_by_keys(host: Host) -> None:
    """`n` and `p` go through the launches that the selector has; without any launch there is nothing to press."""
    first, second = summing(2), deadlocked()
    moved = [step._replace(launch=99) for step in second.steps]
    records = [*first.records, *(each._replace(seq=99) for each in second.records if each.kind == Kind.LAUNCH)]
    shown = host.show(ClusterGrid(replace(first, records=tuple(records), steps=(*first.steps, *moved))))
    both = shown.until("view.scene.launches.length === 2 && view.scene.launches.map(([seq]) => seq)")
    now = shown.get("view.scene.launch")
    other = next(seq for seq in both if seq != now)
    shown.press("p" if both.index(other) else "n")
    shown.until("view.scene.launch === argument && view.marks.seq === argument", other)
    empty = host.show(ClusterGrid(Trace()))
    assert empty.until("view.frames && view.steps.every((each) => each.disabled || each.hidden)")


def test_many_blocks_are_drawn_by_the_page(host: Host) -> None:
    """A thousand blocks are drawn a page at a time; stepping turns to the page that moves."""
    runs = ThreadState.RUNS
    steps = [ThreadEvent(block, 7, block, thread, runs, cluster=0) for block in range(1000) for thread in range(8)]
    shown = host.show(ClusterGrid(Trace((), steps=tuple(steps))))
    shown.until(f"{CELLS}.length > 0")
    assert shown.get("view.scene.first") == 960
    shown.press("PageUp")
    shown.until("view.scene.first === 864")
    assert shown.get(f"{CELLS}.length") == 96 * 8
    assert shown.get(BEST_DRAW_MS) < FROZEN_MS
    shown.press("Home")
    shown.until("view.scene.first === 0")


def test_a_saved_page_goes_through_the_steps_alone(host: Host, tmp_path: Path) -> None:
    """Without Python the steps can be gone through, to barriers too, and the time cursor of other widgets followed."""
    widget = ClusterGrid(summing())
    letters = {}
    for position in (0, 100, 203, 287):
        widget.heard({"type": "step", "to": position})
        scene = widget.scene(widget.window)
        letters[position] = "".join(scene.told["looks"][turn][0] for turn in scene.columns["turn"].astype(int).tolist())
    meetings = widget._stage.history().meetings.all().tolist()
    widget.heard({"type": "step", "to": "newest"})
    Dashboard(widget.feed, [Timeline, ClusterGrid]).to_html(tmp_path / "page.html")
    host.open(tmp_path / "page.html")
    shown = host.shown("section.atops-cluster-grid")
    shown.until(f"{CELLS}.length === 48 && !view.answered")
    for position, expected in letters.items():
        shown.get("(view.range.value = argument, view.range.dispatchEvent(new Event('input')))", position)
        shown.until("view.now.step === argument", position)
        assert turns(shown) == expected
    shown.press("Home", "b")
    shown.until("view.now.step === argument", meetings[0])
    assert "12 let go by a barrier" in shown.get("view.say.textContent")


def test_threads_are_traced_when_asked_for(host: Host) -> None:
    """The button has a running driver record steps, says so, and ends it again; launches appear by themselves."""

    async def main() -> None:
        async with atops.Driver() as driver:
            widget = ClusterGrid(driver)
            shown = host.show(widget)
            await asyncio.to_thread(shown.until, "view.answered && !view.scene.tracing")
            assert "press “Trace threads”" in shown.get("view.say.textContent")
            await asyncio.to_thread(shown.click, 0, 0, "atops-threads")
            await asyncio.to_thread(shown.until, "view.scene.tracing")
            async with atops.Device(0).create_stream() as stream:
                x, sums = stream.zeros(2 * 12 * 64, np.float32), stream.zeros(2, np.float32)
                await stream.launch(total, (2, 12), x, sums)
                await asyncio.to_thread(shown.until, "view.scene.step > 100 && view.cells.length === 24")
                await asyncio.to_thread(shown.press, "t")
                await asyncio.to_thread(shown.until, "!view.scene.tracing")
                assert driver.tracer.thread_detail == 0

    asyncio.run(main())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str) -> None:
    """The picture of the documentation: some threads have ended, some wait at the barrier, some have not begun."""
    widget = ClusterGrid(summing())
    widget.heard({"type": "step", "to": PICTURED})
    shown = host.show(widget, theme)
    shown.until(f"view.scene.step === {PICTURED} && {CELLS}.length === 48")
    keep(shown, "cluster-grid", theme)
    assert set(turns(shown)) >= {"E", "B", "·"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture_of_a_deadlock(host: Host, theme: str) -> None:
    """The picture of a deadlock: which thread waits for which, and which will never come."""
    shown = host.show(ClusterGrid(deadlocked()), theme)
    shown.until("view.rects.some((r) => r.wait)")
    keep(shown, "cluster-grid-deadlock", theme)
    assert "never" in shown.get("view.scene.waits[0][3]")
