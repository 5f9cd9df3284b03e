"""The dashboard: all pictures of one feed in one layout, with one legend, linked."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comm.base_comm import BaseComm
from ipywidgets import Widget

import atops
from atops_widgets import ClusterGrid, Dashboard, Timeline, watch
from atops_widgets.dashboard import PartComm
from atops_widgets.drawing.base import TraceWidget
from atops_widgets.drawing.scene import Window
from tests.widgets.cluster_grid_traces import total
from tests.widgets.dashboard_traces import LAUNCH, moment, pipeline
from tests.widgets.host import BrowserThread, Host, Shown
from tests.widgets.pictures import keep
from tests.widgets.traces import double_buffering
from tests.widgets.unpacking import unpack_snapshot

pytestmark = pytest.mark.slow

NAMES = ("timeline", "queues", "memory", "cluster-grid")


def opened(host: Host, path: Path, theme: str = "light") -> dict[str, Shown]:
    """Open the page of a dashboard; return its widgets by name, when each has drawn."""
    trace = pipeline()
    board = watch(trace)
    board.feed.selection.look_at(moment(trace))
    board.feed.selection.select(LAUNCH)
    board.to_html(path / "page.html")
    host.open(path / "page.html")
    host.evaluate("(dark) => { document.body.dataset.jpThemeLight = String(!dark); }", theme == "dark")
    found = {name: host.shown(f"section.atops-{name}") for name in NAMES}
    for shown in found.values():
        shown.until("view.frames > 0 && view.drawMs !== undefined")
    return found


@pytest.fixture
def wide(browser: BrowserThread) -> Iterator[Host]:
    """A page wide enough for two widgets beside each other."""
    page = Host(browser, 1320, 1000)
    yield page
    page.close()
    assert (page.requests, page.log) == ([], [])


def boxes(host: Host) -> dict[str, dict[str, float]]:
    """Return where the widgets stand on the page."""
    script = "(names) => names.map((name) => document.querySelector(`section.atops-${name}`).getBoundingClientRect())"
    return dict(zip(NAMES, host.evaluate(script, list(NAMES)), strict=True))


def test_timeline_on_top_queues_and_memory_beside(wide: Host, tmp_path: Path) -> None:
    """Where there is room, queues and memory share a row; timeline and cluster grid have the whole width."""
    opened(wide, tmp_path)
    place = boxes(wide)
    assert place["timeline"]["bottom"] <= place["queues"]["top"] == place["memory"]["top"]
    assert place["queues"]["right"] <= place["memory"]["left"]
    assert place["cluster-grid"]["top"] >= max(place["queues"]["bottom"], place["memory"]["bottom"])
    assert place["timeline"]["width"] == place["cluster-grid"]["width"] > 1.9 * place["queues"]["width"]


def test_all_stand_below_each_other_on_a_narrow_page(host: Host, tmp_path: Path) -> None:
    """Where there is less room each has the whole width, and nothing is wider than the page."""
    opened(host, tmp_path)
    host.thread.call(host.page.set_viewport_size, {"width": 800, "height": 900})
    box = "document.querySelector(`section.atops-${%s}`).getBoundingClientRect()"
    below = f"argument.slice(1).every((name, at) => {box % 'argument[at]'}.bottom <= {box % 'name'}.top)"
    host.shown("section.atops-timeline").until(f"view.width < 800 && {below}", list(NAMES))
    assert host.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_one_legend_explains_all_kinds(wide: Host, tmp_path: Path) -> None:
    """The first picture explains the kinds that any of them shows, the others none again; the memory map its looks."""
    shown = opened(wide, tmp_path)
    legends = {name: view.get("view.legend.children.length") for name, view in shown.items()}
    trace = pipeline()
    kinds = {record.kind for record in trace.records} | {each.kind for each in trace.moments}
    assert legends == {"timeline": len(kinds), "queues": 0, "memory": 2, "cluster-grid": 0}
    shown["timeline"].press("k")  # what marks the critical path is explained where it is drawn
    assert shown["timeline"].get("view.legend.lastChild.textContent") == "critical path"
    shown["timeline"].press("k")
    assert shown["timeline"].get("view.legend.children.length") == len(kinds)
    texts = shown["memory"].get("[...view.legend.children].map((each) => each.textContent)")
    assert texts == ["live", "freed just before"]
    cut = "[...view.legend.children].some((each) => each.scrollWidth > each.clientWidth)"
    assert not any(view.get(cut) for view in shown.values())


def test_stepping_moves_the_cursor_of_all(wide: Host, tmp_path: Path) -> None:
    """A step of the cluster grid puts the time cursor of every picture there; a selected kernel is marked in all."""
    shown = opened(wide, tmp_path)
    for view in shown.values():
        view.until("view.marks.seq === argument", LAUNCH)
    before = shown["timeline"].get("view.marks.cursor")
    shown["cluster-grid"].press("ArrowRight", "ArrowRight")
    for view in shown.values():
        view.until("view.marks.cursor > argument", before)


def test_a_selection_tells_its_line_in_all_pictures(wide: Host, tmp_path: Path) -> None:
    """On a page without Python, what is selected in one is told in all: in words, from which line, and by whom."""
    shown = opened(wide, tmp_path)
    shown["timeline"].get("view.select(7)")
    for view in shown.values():
        said = view.until("view.marks.seq === 7 && view.say.textContent")
        assert "kernel total" in said and "(number 7)" in said
        assert "enqueued at pipeline.py:12 in main; waited for 6, 3, 5; awaited by" in said


def test_only_the_picture_in_use_speaks(wide: Host, tmp_path: Path) -> None:
    """Screen readers are told by the picture that the user acts on, and not by all at once."""
    shown = opened(wide, tmp_path)
    shown["timeline"].press("n")
    shown["queues"].until("view.marks.seq !== argument", LAUNCH)
    spoken = {name: view.get("view.say.getAttribute('aria-live')") for name, view in shown.items()}
    assert spoken == {"timeline": "polite", "queues": "off", "memory": "off", "cluster-grid": "off"}


def test_pictures_of_other_traces_are_not_marked(host: Host) -> None:
    """Saved pictures of another trace in the same page keep their own selection: numbers mean something else there."""
    first, other = double_buffering(), double_buffering()
    later = tuple(
        each._replace(started_ns=each.started_ns + 7, finished_ns=each.finished_ns + 7) for each in other.records
    )
    widgets = [Timeline(first), Timeline(first), Timeline(replace(other, records=later))]
    for widget in widgets:
        widget.rest()
    one, same, another = (host.show(widget, dead=True) for widget in widgets)
    for view in (one, same, another):
        view.until("view.rects.length > 0 && !view.answered")
    one.get("view.select(11)")
    same.until("view.marks.seq === 11")
    assert another.get("view.marks.seq") == -1


def test_threads_are_traced_if_asked_for() -> None:
    """`watch(threads=True)` and `ClusterGrid(threads=True)` have the driver record steps; without it there are none."""

    async def main() -> None:
        async with atops.Driver() as driver:
            board = watch(driver)
            assert driver.tracer.thread_detail == 0
            board = watch(driver, threads=True)
            assert driver.tracer.thread_detail == 1
            ClusterGrid(driver, threads=True)
            assert driver.tracer.thread_detail == 1
            async with atops.Device(0).create_stream() as stream:
                x, sums = stream.zeros(12 * 64, np.float32), stream.zeros(1, np.float32)
                await stream.launch(total, (1, 12), x, sums)
            board.feed.poll()
            assert isinstance(board.widgets[-1], ClusterGrid)
            assert "total (number" in board.widgets[-1].to_text()
            board.stop()
            assert driver.tracer.thread_detail == 0

    asyncio.run(main())


def test_a_board_of_one_widget_has_its_own_legend() -> None:
    """Fewer widgets are laid out the same way."""
    board = Dashboard(pipeline(), [ClusterGrid])
    assert board.widgets[0].legend is None
    assert [part["label"] for part in board.parts] == ["Cluster grid"]


@pytest.mark.parametrize("width", [1280, 1500, 1920])
def test_a_live_board_uses_the_width(browser: BrowserThread, width: int) -> None:
    """One widget holds all pictures, live: the timeline has the whole width, queues and memory share a row below it."""
    page = Host(browser, width, 1000)
    try:
        page.show(watch(pipeline()), board=True)
        page.shown("section.atops-timeline").until("view.answered && view.rects.length > 0")
        place = boxes(page)
        assert place["timeline"]["width"] == place["cluster-grid"]["width"] >= width - 20
        assert place["queues"]["top"] == place["memory"]["top"] >= place["timeline"]["bottom"]
        assert place["queues"]["width"] + place["memory"]["width"] >= width - 30
    finally:
        page.close()
    assert (page.requests, page.log) == ([], [])


def test_before_anything_runs_each_says_so_in_a_line(host: Host) -> None:
    """An empty board is no taller than its bars and sentences: no axis, no empty boxes, and no sentence twice."""
    with closing(atops.Driver()) as driver:
        board = watch(driver)
        host.show(board, board=True)
        for name in NAMES:
            shown = host.shown(f"section.atops-{name}")
            shown.until("view.answered && view.say.textContent.endsWith('.') && view.height <= 1")
            assert shown.get("view.rects.length") == 0
        board.close()


def test_all_pictures_have_one_axis_of_time(host: Host) -> None:
    """Timeline, queues and memory show the same time, folded in the same way, from the first to the last of all."""
    with closing(atops.Driver()) as driver:
        board = watch(driver)
        with atops.Device(0, driver).create_stream() as stream:
            stream.fill(stream.zeros(64, np.int32), 1)
        board.stop()
        told = [widget.scene(Window()).told for widget in board.widgets[:3]]
        axis, origin = board.feed.axis(), board.feed.origin_ns
        assert told[1]["strip"] == told[2]["window"] == [axis.first - origin, axis.last - origin]
        margin = max(1, (axis.last - axis.first) // 100)
        assert told[0]["window"] == [axis.first - origin - margin, axis.last - origin + margin]
        board.close()


def test_a_part_of_the_time_is_shown_by_all(host: Host) -> None:
    """Where the timeline shows a part of the time, the curves of queues and memory do, too; not in what is saved."""
    board = watch(pipeline())
    host.show(board, board=True)
    shown = {name: host.shown(f"section.atops-{name}") for name in NAMES}
    for view in shown.values():
        view.until("view.answered && view.scene.columns")
    whole = shown["queues"].get("view.scene.strip")
    board.span = [60_000, 120_000]
    shown["queues"].until("view.scene.strip.join() === '60000,120000'")
    shown["memory"].until("view.scene.window.join() === '60000,120000'")
    edges = shown["queues"].get("[...view.scene.columns.edges]")
    assert (edges[0], edges[-1]) == (60_000, 120_000)
    assert unpack_snapshot(board.widgets[1].packed())[0]["strip"] == whole
    board.span = []
    shown["memory"].until("view.scene.window.join() === argument.join()", whole)


def test_what_is_chosen_are_traits(host: Host) -> None:
    """`selected`, `cursor` and `span` go both ways: set in Python they are shown, chosen on the page they are told."""
    board = watch(pipeline())
    host.show(board, board=True)
    shown = host.shown("section.atops-timeline")
    shown.until("view.answered && view.rects.length > 0")
    told: queue.SimpleQueue[object] = queue.SimpleQueue()
    board.observe(lambda change: told.put((change["name"], change["new"])), ["selected", "cursor", "span"])
    board.selected = LAUNCH
    assert told.get(timeout=20) == ("selected", LAUNCH)
    shown.until("view.marks.seq === argument", LAUNCH)
    board.cursor = 90_000
    assert told.get(timeout=20) == ("cursor", 90_000)
    shown.until("view.marks.cursor === 90000")
    board.span = [10_000, 60_000]
    assert told.get(timeout=20) == ("span", [10_000, 60_000])
    shown.until("view.win.start === 10000 && view.win.end === 60000")
    shown.get("view.select(3)")
    assert told.get(timeout=20) == ("selected", 3)
    shown.press("c")
    assert told.get(timeout=20) == ("cursor", None)
    shown.press("+")
    assert told.get(timeout=20) == ("span", [22_500, 47_500])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(wide: Host, tmp_path: Path, theme: str) -> None:
    """The picture of the documentation: a pipeline under way, and the threads of the kernel that is selected."""
    opened(wide, tmp_path, theme)["timeline"].until("view.rects.some((r) => r.mark)")
    keep(wide.shown("main"), "dashboard", theme)


def test_a_turn_is_one_message_of_what_changed() -> None:
    """All pictures of a turn travel together; one that shows nothing new is told the time alone, for a second."""
    with closing(atops.Driver()) as driver, closing(watch(driver)) as board:
        board.feed.unwatch(board)  # the turns are this test's
        sent: list[dict[str, Any]] = []
        board.send = lambda content, buffers=None: sent.append(content)
        with atops.Device(0, driver).create_stream() as stream:
            x = stream.zeros(64, np.int32)
            stream.sync()
            for widget in board.widgets:
                asked = {"generation": -1, "first": 0, "zoom": None}  # as a page says that nothing is chosen
                widget._receive({"type": "hello", "view": "page", "frame": 0, "width": 960, "options": asked})
            frames = []
            for now in (1.0, 2.0, 2.5, 4.0):
                stream.fill(x, 1)
                stream.sync()
                board.feed.poll()
                board.tick(now)
                [message] = sent
                sent.clear()
                frames.append([content for _, content, _ in message["parts"]])
                parts = [[part, {"type": "ack", "view": "page", "frame": len(frames)}] for part in range(4)]
                for part, said in parts:
                    board.widgets[part]._receive(said)
    assert [[content["type"] for content in turn] for turn in frames] == [["frame"] * 4] * 4
    drawn = [["columns" in content for content in turn] for turn in frames]
    assert drawn == [[True] * 4, [True] * 4, [True, True, False, False], [True] * 4]
    assert all(turn[3]["span"] == turn[0]["span"] for turn in frames)


class SilentComm(BaseComm):
    """A comm that ends nowhere."""

    def publish_msg(self, *_: object, **__: object) -> None:
        """Send nothing."""


def test_parts_keep_their_way_to_the_page() -> None:
    """Where each widget that is made is given a comm of its own, as in marimo, those of parts are still the board's."""
    given: list[Widget] = []

    def give(widget: Widget) -> None:
        given.append(widget)
        widget.comm = SilentComm(comm_id=f"given{len(given)}")

    Widget.on_widget_constructed(give)
    try:
        board = watch(double_buffering())
    finally:
        Widget.on_widget_constructed(None)
    assert [*board.widgets, board] == [widget for widget in given if isinstance(widget, Dashboard | TraceWidget)]
    assert all(isinstance(widget.comm, PartComm) for widget in board.widgets)
    board.close()
