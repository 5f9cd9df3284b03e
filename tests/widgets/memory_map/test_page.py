"""The memory map in a browser: ranges, breaks, the cursor's moment, operations, zooming and contents."""

from __future__ import annotations

from pathlib import Path

import pytest

from atops.runtime.driver import board_of
from atops_widgets import MemoryMap, Timeline
from atops_widgets.feed.feed import feed_of
from tests.runtime.boards import board
from tests.widgets.frames import BEST_DRAW_MS, FROZEN_MS
from tests.widgets.host import Host
from tests.widgets.memory_map_traces import crowded, given, training
from tests.widgets.pictures import keep
from tests.widgets.traces import US

pytestmark = pytest.mark.slow

LIVE = "view.rects.filter((r) => r.state >= 2)"
MIDDLE = "(() => {{ const r = view.rects.find(({}) => {}); return [r.x + Math.min(r.width / 2, 90), r.y + 9]; }})()"


def test_live_ranges_are_rectangles_and_gaps_are_breaks(host: Host) -> None:
    """At the end eight allocations live in two banks; what is free between them is a break that says how much."""
    shown = host.show(MemoryMap(training()))
    shown.until("view.rects.length > 0")
    assert shown.get(f"{LIVE}.length") == 8
    assert shown.get("new Set(view.rects.filter((r) => r.generation >= 0).map((r) => r.lane)).size") == 2
    texts = shown.get("view.rects.filter((r) => r.text && r.text.includes('not drawn to scale')).map((r) => r.text)")
    assert any(text.startswith("2.8 GiB free") for text in texts)
    assert shown.get("view.rects.some((r) => r.state === 0) && view.rects.some((r) => r.state === 1)")
    assert shown.get("view.rects.every((r) => r.x >= 0 && r.x + r.width <= view.width)")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str) -> None:
    """The picture of the documentation: a copy is selected while a kernel's L1 and L2 are known."""
    widget = MemoryMap(training())
    shown = host.show(widget, theme)
    shown.until("view.rects.length > 0")
    widget.feed.selection.look_at(195 * US)
    widget.feed.selection.select(3)
    shown.until("view.rects.filter((r) => r.touch).length === 2")
    shown.click(*shown.get(MIDDLE.format("r", "r.state === 3")))
    shown.until("view.scene.chosen && !view.panel.hidden && view.rects.some((r) => r.mark === 'select' && !r.touch)")
    assert "model.py:140" in shown.get("view.about.textContent")
    keep(shown, "memory-map", theme)


def test_operations_and_ranges_are_linked_both_ways(host: Host) -> None:
    """Selecting a copy in the timeline marks its bytes here; a range's button selects its operation there."""
    widget = MemoryMap(training())
    shown, other = host.show(widget), host.show(Timeline(widget.feed))
    other.until("view.rects.length > 0")
    other.get("view.select(3)")
    shown.until("view.rects.filter((r) => r.touch).map((r) => r.touch).sort().join() === 'read,wrote'")
    shown.click(*shown.get(MIDDLE.format("r", "r.state === 3")))
    shown.until("view.about.querySelector('[data-testid=atops-operation-2]')")
    shown.click(0, 0, button="atops-operation-2")
    other.until("view.marks.seq === 2 && view.rects.some((r) => r.seq === 2 && r.mark === 'select')")
    shown.until("view.rects.filter((r) => r.touch).length === 1")


def test_a_kernel_selected_elsewhere_marks_its_memory(host: Host) -> None:
    """Selecting a launch in the timeline marks each range that it was given, and says so; a range leads back to it."""
    widget = MemoryMap(given())
    shown, other = host.show(widget), host.show(Timeline(widget.feed))
    other.until("view.rects.length > 0")
    other.get("view.select(1)")
    shown.until("view.rects.filter((r) => r.touch === 'uses' && r.mark === 'select').length === 3")
    assert shown.get("view.rects.filter((r) => r.touch).map((r) => r.lane).join()") == "0,0,1"
    weights = "view.rects.find((r) => r.generation === 0)"
    marked = "view.rects.find((r) => r.touch && r.size === 40 * 2 ** 20)"
    assert abs(shown.get(f"{weights}.x - {marked}.x")) < 1 and abs(shown.get(f"{weights}.width - {marked}.width")) < 2
    assert "kernel attention uses 3 ranges, 148 MiB" in shown.get("view.about.textContent")
    other.until("view.say.textContent.includes('; uses 3 ranges, 148 MiB')")
    shown.click(*shown.get(MIDDLE.format("r", "r.generation === 0")))
    shown.until("view.about.querySelector('[data-testid=atops-operation-1]')")
    other.get("view.select(3)")
    shown.until("view.rects.filter((r) => r.touch).map((r) => r.touch).sort().join() === 'read,wrote'")


def test_the_cursor_moves_with_curve_keys_and_other_widgets(host: Host) -> None:
    """Clicking on the curve looks at that moment everywhere; the keys move on, c comes back to the newest."""
    widget = MemoryMap(training())
    shown, other = host.show(widget), host.show(Timeline(widget.feed))
    shown.until("view.rects.length > 0")
    x, y = shown.get(MIDDLE.format("r", "r.curve >= 0"))
    shown.click(x, y)
    shown.until("view.marks.cursor !== null && view.scene.marks.cursor !== null")
    other.until("view.marks.cursor !== null")
    before = shown.get("view.marks.cursor")
    shown.press("]")
    shown.until("view.marks.cursor > argument", before)
    widget.feed.selection.look_at(100 * US)
    shown.until(f"{LIVE}.length === 9")
    shown.press("c")
    shown.until(f"{LIVE}.length === 8 && view.scene.marks.cursor === null")


def test_zooming_by_keys_and_by_double_click(host: Host) -> None:
    """+ shows a part of the active bank with the scale said, arrows move, Home shows all; a range fills its lane."""
    shown = host.show(MemoryMap(training()))
    shown.until("view.rects.length > 0")
    shown.press("ArrowDown", "+")
    shown.until("view.scene.lanes[1].zoomed && !view.scene.lanes[0].zoomed")
    before = shown.get("view.zoom.from")
    shown.press("ArrowRight")
    shown.until("view.zoom.from > argument", before)
    shown.press("Home")
    shown.until("!view.scene.lanes.some((lane) => lane.zoomed)")
    shown.press("+", "-")
    shown.until("!view.asking && !view.scene.lanes.some((lane) => lane.zoomed)")
    x, y = shown.get(MIDDLE.format("r", "r.generation === 0"))
    canvas = host.page.locator(f"{shown.selector} canvas")
    host.thread.call(canvas.dblclick, position={"x": x, "y": y})
    shown.until("view.scene.lanes[0].zoomed && view.rects.some((r) => r.generation === 0 && r.width > 400)")


def test_every_step_of_zooming_counts_however_fast(host: Host) -> None:
    """Three steps in at once are what three steps are with a picture between them, and three out again show all."""
    shown = host.show(MemoryMap(training()))
    shown.until("view.rects.length > 0")
    at_once = "[...'{}'].forEach((key) => view.canvas.dispatchEvent(new KeyboardEvent('keydown', {{key}})))"
    for _ in range(3):
        frames = shown.get("view.frames")
        shown.press("+")
        shown.until("view.frames > argument && view.scene.lanes[0].zoomed", frames)
    seen = shown.get("view.zoom")
    shown.press("Home")
    shown.until("!view.asking && !view.scene.lanes[0].zoomed")
    shown.get(at_once.format("+++"))
    assert shown.get("view.zoom") == seen
    shown.until("view.scene.lanes[0].zoomed")
    shown.get(at_once.format("---"))
    assert shown.get("view.zoom") is None
    shown.until("!view.scene.lanes[0].zoomed")


def test_ranges_are_reached_by_keys(host: Host) -> None:
    """The keys n and p step through the ranges; each is told in a sentence with the line that allocated it."""
    shown = host.show(MemoryMap(training()))
    shown.until("view.rects.length > 0")
    shown.press("n")
    shown.until("view.generation >= 0 && view.scene.chosen && view.scene.chosen.generation === view.generation")
    first = shown.get("view.generation")
    assert "allocated at" in shown.get("view.say.textContent") and ".py:" in shown.get("view.say.textContent")
    shown.press("n", "p")
    shown.until("view.scene.chosen && view.scene.chosen.generation === argument", first)


def test_a_crowd_is_thinned_visibly(host: Host) -> None:
    """100,000 ranges draw quickly, as shapes of many; clicking one of them zooms in."""
    shown = host.show(MemoryMap(crowded()))
    shown.until("view.rects.length > 0")
    assert "100,000 ranges, thinned to" in shown.get("view.note.textContent")
    assert shown.get("view.rects.length") < 6_000 and shown.get(BEST_DRAW_MS) < FROZEN_MS
    shown.click(*shown.get(MIDDLE.format("r", "r.count > 20 && r.lane === 1")))
    shown.until("view.scene.lanes[1].zoomed")


def test_contents_of_a_live_driver(host: Host) -> None:
    """Looked at on demand, typed as the page wants, marked where they changed; refused when the range was freed."""
    with board(trace=1000) as driver:
        widget = MemoryMap(driver)
        memory = board_of(driver).context(0).memory
        held = memory.allocate(64)
        held.data[:] = 0
        widget.feed.poll()
        shown = host.show(widget)
        shown.until("view.rects.some((r) => r.generation >= 0)")
        shown.press("n")
        shown.until("view.scene.chosen && view.tools.style.display === ''")
        shown.click(0, 0, button="atops-look")
        shown.until("view.scene.contents && view.scene.contents.text.startsWith('bytes 0 to 64 of 64 as uint8')")
        held.data[4:8] = (0, 0, 0x80, 0x3F)
        select = host.page.locator(f"{shown.selector} [data-testid=atops-dtype]")
        host.thread.call(select.select_option, "float32")
        shown.press("v")
        shown.until("view.values.textContent.includes('1 values changed') && view.values.querySelector('b')")
        assert shown.get("view.values.querySelector('b').textContent").split() == ["*1"]
        memory.free(held)
        shown.press("v")
        shown.until("view.values.textContent.includes('freed by')")
        widget.feed.stop()


def test_kernel_threads_are_told_only_when_asked(host: Host) -> None:
    """Steps of kernel threads cost much: the widget wants them when its button is pressed, and says what they cost."""
    with board(trace=100) as driver:
        shown = host.show(MemoryMap(driver))
        shown.until("view.threads && !view.threads.hidden")
        assert driver.tracer.thread_detail == 0
        assert "slower" in shown.get("view.threads.title")
        shown.click(0, 0, button="atops-threads")
        while driver.tracer.thread_detail == 0:  # the button's message is on its way
            shown.get("new Promise((done) => setTimeout(done, 5))")
        feed_of(driver).stop()
    assert driver.tracer.thread_detail == 0


def test_a_saved_page_works_without_a_kernel(host: Host, tmp_path: Path) -> None:
    """One HTML file shows the lanes, tells a range's line, and marks what any operation wrote or was given."""
    widget = MemoryMap(given())
    widget.to_html(tmp_path / "map.html")
    widget.close()
    host.open(tmp_path / "map.html")
    shown = host.shown("section.atops-memory")
    shown.until(f"{LIVE}.length === 8")
    shown.press("n")
    assert ".py:" in shown.get("view.say.textContent")
    shown.get("view.select(2)")
    shown.until("view.rects.filter((r) => r.touch === 'wrote').length === 1")
    shown.get("view.select(1)")
    shown.until("view.rects.filter((r) => r.touch === 'uses').length === 3")
