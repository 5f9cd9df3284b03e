"""The timeline in a browser: what is drawn, selected and asked for, by pointer and by keys, live and saved."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import atops
from atops.base.trace.records import Kind, Status, Trace, TraceRecord
from atops_widgets import Dashboard, Feed, Queues, Timeline
from atops_widgets.drawing.scene import Window
from atops_widgets.drawing.theme import GAPS
from tests.widgets.frames import BEST_DRAW_MS, FROZEN_MS
from tests.widgets.host import Host, Shown
from tests.widgets.pictures import keep
from tests.widgets.traces import double_buffering, record, two_bursts

pytestmark = pytest.mark.slow

LENGTH = "(view.win.end - view.win.start)"


def test_every_record_is_a_rectangle(host: Host) -> None:
    """A small trace is drawn record by record, on its stream's row and on its engine's, inside the canvas."""
    shown = host.show(Timeline(double_buffering()))
    shown.until("view.rects.length > 0")
    assert shown.get("new Set(view.rects.map((r) => r.seq)).size") == 48
    assert shown.get("view.rects.filter((r) => r.name === 'scale').length") == 12
    inside = "r.x >= 0 && r.x + r.width <= view.width && r.y >= 0 && r.y + r.height <= view.height"
    assert shown.get(f"view.rects.every((r) => {inside})")
    assert shown.get("view.rects.filter((r) => r.failed).length") == 2
    assert shown.get("view.arrows.length") == 12
    assert shown.get("[...view.legend.children].map((li) => li.textContent.trim().slice(1).trim())") == [
        "copy host to device", "copy device to host", "kernel", "record event", "wait for event", "host call",
        "failed, skipped or aborted",
    ]  # fmt: skip


def test_thin_shapes_have_gaps(host: Host) -> None:
    """Where a shape is too thin for its hatch it has the gaps of its kind, on the page and in the saved picture."""
    widget = Timeline(double_buffering())
    shown = host.show(widget)
    shown.until("view.rects.length > 0")
    thin = shown.get("view.rects.filter((r) => r.width < 4).map((r) => [r.kind, r.gaps])")
    assert {kind for kind, _ in thin} == {Kind.RECORD} and all(gaps == list(GAPS["falling"]) for _, gaps in thin)
    assert shown.get("view.rects.filter((r) => r.width >= 4).every((r) => r.gaps.length === 0)")
    assert widget.to_svg().count("data-gap") == len(thin)


def test_what_failed_at_once_has_its_sign(host: Host) -> None:
    """A launch that failed within no time is seen: a sign in the colour of failures, and one for its neighbours."""
    widget = Timeline(Trace((
        record(1, Kind.COPY_H2D, 1, 0, 100),
        record(2, Kind.LAUNCH, 1, 100, 100, status=Status.FAILED, name="square"),
        record(3, Kind.COPY_D2H, 1, 100, 100, status=Status.SKIPPED),
        record(4, Kind.LAUNCH, 2, 500, 900, status=Status.FAILED, name="cube"),
        record(5, Kind.COPY_H2D, 2, 901, 1000),
    )))  # fmt: skip
    shown = host.show(widget)
    shown.until("view.rects.length > 0")
    failed = shown.get("view.rects.filter((r) => r.failed).map((r) => [r.x, r.width])")
    signs = shown.get("view.signed")
    assert min(width for _, width in failed) < 4 and len(signs) == 2
    assert all(any(x - 13 < at <= x for at, _ in signs) for x, _ in failed)
    seen = shown.get("""(({data, width}) => view.signed.map(([x, y]) => {
      const at = 4 * (Math.round((y + 1) * devicePixelRatio) * width + Math.round((x + 1) * devicePixelRatio));
      return `#${[...data.slice(at, at + 3)].map((each) => each.toString(16).padStart(2, "0")).join("")}`;
    }))(view.context.getImageData(0, 0, view.canvas.width, view.canvas.height))""")
    assert seen == [shown.get("view.colour('failed')")] * 2
    assert widget.to_svg().count('data-sign="failed"') == 2


def test_a_click_selects_in_all_widgets(host: Host) -> None:
    """What is clicked is marked with its neighbours in every widget of the feed, and told in words."""
    feed = Feed(double_buffering())
    shown, other = host.show(Timeline(feed)), host.show(Timeline(feed))
    other.until("view.rects.length > 0")
    rect = shown.until("view.rects.find((r) => r.seq === 11)")
    shown.click(rect["x"] + rect["width"] / 2, rect["y"] + 5)
    for view in (shown, other):
        view.until("view.marks.seq === 11 && view.rects.some((r) => r.mark === 'before')")
        marks = view.get("view.rects.filter((r) => r.mark).map((r) => [r.mark, r.seq])")
        assert ["select", 11] in marks and ["before", 8] in marks and ["after", 14] in marks
        assert "kernel scale" in view.get("view.say.textContent")
    shown.press("Escape")
    other.until("view.marks.seq === -1")
    assert feed.selection.seq == -1


def test_numbers_in_the_sentence_select(host: Host) -> None:
    """What was waited for is a button, by pointer and by keys; it reads as before, and keys go on in the picture."""
    shown = host.show(Timeline(double_buffering()))
    shown.until("view.rects.length > 0")
    for key in (None, "Enter", "Space"):
        shown.get("view.select(11)")
        shown.until("view.scene.marks.seq === 11 && view.say.textContent.includes('waited for 10, 4, 9, 3, 8;')")
        buttons = shown.get("[...view.say.querySelectorAll('button')].map((each) => each.textContent)")
        assert buttons[:5] == ["10", "4", "9", "3", "8"]
        if key is None:
            host.thread.call(host.page.locator(f"{shown.selector} .atops-say button").first.click)
        else:
            shown.press("Tab")
            host.thread.call(host.page.keyboard.press, key)
        shown.until("view.scene.marks.seq === 10 && view.say.textContent.includes('(number 10)')")
        assert shown.get("view.say.ariaLive") == "polite" and shown.get("document.activeElement === view.canvas")


def test_keys_reach_everything(host: Host) -> None:
    """Stepping, zooming, panning, showing everything, and the time cursor work from the keyboard."""
    widget = Timeline(double_buffering())
    shown = host.show(widget)
    shown.until("view.rects.length > 0")
    shown.press("n", "n")
    shown.until("view.marks.seq >= 0 && view.marks.text")
    whole = shown.get(LENGTH)
    shown.press("+", "+")
    shown.until(f"{LENGTH} < argument / 3.9 && view.scene.window[1] - view.scene.window[0] < argument / 3.9", whole)
    start = shown.get("view.win.start")
    shown.press("ArrowRight")
    assert shown.get("view.win.start") > start
    shown.press("Home")
    shown.until(f"{LENGTH} === argument", whole)
    shown.press("[")
    shown.until("view.scene.marks.cursor !== null")  # which is Python's answer
    assert widget.feed.selection.cursor_ns is not None
    shown.press("c")
    shown.until("view.marks.cursor === null")


def test_next_and_previous_go_by_time(host: Host, tmp_path: Path) -> None:
    """`n` goes through the commands in the order of their starts, then of their numbers, and `p` back, both around."""
    trace = double_buffering()
    shown = _saved(host, Timeline(trace), tmp_path)
    order = [each.seq for each in sorted(trace.records, key=lambda each: (each.started_ns, each.seq))]
    for key, wanted in (("n", [*order, order[0]]), ("p", [*order[:-6:-1]])):
        for seq in wanted:
            shown.press(key)
            assert shown.get("view.marks.seq") == seq


def test_names_are_found(host: Host) -> None:
    """What is typed is looked for in names of kernels, kinds and streams; Enter goes on, and it comes into view.

    Beside the count stands how many records could not be looked at.
    """
    shown = host.show(Timeline(replace(double_buffering(), dropped=7)))
    shown.until("view.rects.length > 0")
    shown.press("/")
    host.thread.call(host.page.keyboard.type, "SCAL")
    shown.until("view.marks.text.includes('kernel scale')")
    shown.until("view.found.textContent === '6 found; 7 of all records are missing'")
    assert " · 7 missed · " in shown.get("view.note.textContent")
    first = shown.get("view.marks.seq")
    host.thread.call(host.page.keyboard.press, "Enter")
    shown.until("view.marks.seq > argument", first)
    host.thread.call(host.page.keyboard.press, "Shift+Enter")
    shown.until("view.marks.seq === argument", first)


def test_a_range_is_measured_and_summed(host: Host) -> None:
    """Shift and drag, or a key at two moments, measure: how long, and what happened in between."""
    widget = Timeline(double_buffering())
    shown = host.show(widget)
    shown.until("view.rects.length > 0")
    widget.cursor = 0
    shown.until("view.marks.cursor === 0")
    shown.press("m")
    widget.cursor = 100_000
    shown.until("view.marks.cursor === 100000")
    shown.press("m")
    told = shown.until("view.scene.range?.[2].startsWith('100') && view.found.textContent")
    assert told == "100 µs: 11 records, kernels 55 µs, copies 90 µs, 2 MiB copied, 45 µs of both at once"
    shown.press("m")
    shown.until("view.scene.range === null && !view.range")
    host.thread.call(host.page.keyboard.down, "Shift")
    shown.drag((400, 60), (500, 60))
    host.thread.call(host.page.keyboard.up, "Shift")
    shown.until("view.scene.range && view.scene.range[1] > view.scene.range[0]")


def test_dragging_pans_and_scrubs(host: Host) -> None:
    """Dragging a row moves the window and selects nothing; dragging on the axis moves the time cursor."""
    widget = Timeline(double_buffering())
    shown = host.show(widget)
    shown.until("view.rects.length > 0")
    shown.press("+")
    start = shown.get("view.win.start")
    shown.drag((600, 60), (500, 60))
    assert shown.get("view.win.start") > start
    assert shown.get("view.marks.seq") == -1
    shown.drag((400, 10), (500, 10))
    shown.until("view.marks.cursor > 0")


def test_a_million_records_are_thinned_in_view(host: Host) -> None:
    """A million records become some thousand shapes, it is said so, and drawing does not hang."""
    count = 1_000_000
    begin = np.arange(count, dtype=np.int64) * 1000
    feed = Feed()
    feed.records.extend_columns({
        "seq": np.arange(count), "kind": np.arange(count) % 7, "device": np.zeros(count),
        "stream": np.arange(count) % 8,
        "submitted_ns": begin, "started_ns": begin, "finished_ns": begin + 900, "status": np.zeros(count),
        "name": np.zeros(count), "bytes": np.ones(count), "correlation": np.full(count, -1),
    })  # fmt: skip
    feed.version += 1
    shown = host.show(Timeline(feed))
    shown.until("view.rects.length > 0")
    assert "1,000,000 records, thinned to" in shown.get("view.note.textContent")
    assert shown.get("view.rects.reduce((sum, r) => sum + r.count, 0)") == count
    assert shown.get("view.rects.length") < 20_000 and shown.get(BEST_DRAW_MS) < FROZEN_MS
    shown.press(*["+"] * 14)
    shown.until("view.rects.some((r) => r.seq >= 0 && r.width > 3)")


def test_it_follows_a_running_driver(host: Host) -> None:
    """Records appear while the driver works; pausing stops them, and the end writes what a saved notebook shows."""

    async def main() -> None:
        async with atops.Driver() as driver:
            widget = Timeline(driver)
            shown = host.show(widget)
            async with atops.Device(0).create_stream(name="worker") as stream:
                x = stream.zeros(64, np.int32)
                await stream.fill(x, 1)
                await asyncio.to_thread(shown.until, "view.rects.length > 0 && view.scene.state === 'live'")
                assert "worker" in shown.get("view.scene.rows.map((r) => r[0])")
                await asyncio.to_thread(shown.click, 0, 0, "atops-pause")
                await asyncio.to_thread(shown.until, "view.scene.state === 'paused'")
                held = shown.get("view.scene.held")
                await stream.fill(x, 2)
                assert shown.get("view.scene.held") == held
                await asyncio.to_thread(shown.press, " ")
                await asyncio.to_thread(shown.until, "view.scene.held > argument", held)
        await asyncio.to_thread(shown.until, "view.scene.state === 'ended'")
        assert widget.snapshot

    asyncio.run(main())


def test_a_saved_page_works_alone(host: Host, tmp_path: Path) -> None:
    """An HTML page draws without Python, can be zoomed, and links its widgets; nothing is fetched."""
    feed = Feed(double_buffering())
    Dashboard(feed, [Timeline, Timeline]).to_html(tmp_path / "page.html")
    host.open(tmp_path / "page.html")
    shown, other = host.shown(".atops-part:nth-child(1) > section"), host.shown(".atops-part:nth-child(2) > section")
    shown.until("view.rects.length > 0")
    other.until("view.rects.length > 0")
    shown.get("view.select(11)")
    other.until("view.marks.seq === 11 && view.marks.before.includes(8) && view.marks.after.includes(14)")
    whole = shown.get(LENGTH)
    shown.press("+")
    assert shown.get(LENGTH) == pytest.approx(whole / 2)
    assert "kernel scale" in shown.get("view.pre.textContent")
    assert shown.get("view.note.textContent").endswith("saved")


def test_a_saved_notebook_shows_the_result(host: Host) -> None:
    """Where no kernel answers, the saved picture is drawn, and selecting still marks the neighbours."""
    widget = Timeline(double_buffering())
    widget.rest()
    shown = host.show(widget, dead=True)
    shown.until("view.rects.length > 0 && !view.answered")
    shown.get("view.select(11)")
    shown.until("view.marks.before.includes(8)")


def test_a_second_view_gets_the_picture(host: Host) -> None:
    """A view that comes later, or a page that is loaded again, gets everything from Python's memory."""
    widget = Timeline(double_buffering())
    host.show(widget).until("view.rects.length > 0")
    later = host.show(widget)
    later.until("view.answered && view.rects.some((r) => r.name === 'scale')")


def test_frames_wait_for_acknowledgements(host: Host) -> None:
    """Every frame is acknowledged on receipt; without changes no frame is sent."""
    widget = Timeline(double_buffering())
    shown = host.show(widget)
    shown.until("view.frame >= 1")
    frame = shown.get("view.frame")
    widget.redraw()
    shown.until("view.frame > argument", frame)
    assert set(widget._flow.views.values()) == {widget._flow.frame}


def test_a_long_idle_time_is_folded(host: Host) -> None:
    """Two runs 75 s apart are both seen; the gap is marked, a click opens it for all widgets, a key folds it."""
    board = Dashboard(two_bursts(), [Timeline, Queues])
    host.show(board, board=True)
    shown, queues = (host.shown(f"section.atops-{name}") for name in ("timeline", "queues"))
    gap = shown.until("view.rects.find((r) => r.gap !== undefined)")
    assert gap["text"].startswith("75 s idle")
    wide = "Math.max(...view.rects.filter((r) => r.seq >= argument).map((r) => r.width))"
    assert min(shown.get(wide, seq) for seq in (0, 100)) > 20
    at = shown.get("view.scene.gaps[0]")
    assert queues.until("view.rects.find((r) => r.gap !== undefined).gap") == gap["gap"] == at[0]
    shown.click(gap["x"] + gap["width"] / 2, gap["y"] + gap["height"] / 2)
    for view in (shown, queues):
        view.until("view.rects.length > 0 && view.rects.every((r) => r.gap === undefined)")
    shown.until(f"{wide} < 5", 0)
    shown.press("i")
    shown.until("view.rects.some((r) => r.gap === argument)", at[0])
    assert board.widgets[0].to_svg().count("data-idle") == 1


def test_zooming_goes_by_what_is_seen(host: Host) -> None:
    """Where a gap is folded, zooming keeps the moment under the pointer, and moving brings the other run into view."""
    shown = host.show(Timeline(two_bursts()))
    shown.until("view.rects.some((r) => r.gap !== undefined)")
    whole = shown.get("view.win")
    shown.press("+", "+", "+", "+", "ArrowLeft", "ArrowLeft", "ArrowLeft")
    shown.until("view.rects.filter((r) => r.seq >= 0 && r.seq < 100).length > 4")
    shown.press("-", "-", "-", "-", "-", "Home")
    shown.until("view.win.start === argument.start && view.win.end === argument.end", whole)
    cursor = shown.get("view.scene.gaps[0][1] + 10000")
    shown.get("view.look(argument)", cursor)
    shown.until("view.marks.cursor === argument", cursor)
    shown.press("]")
    assert shown.until("view.marks.cursor > argument && view.marks.cursor", cursor) < whole["end"]


@pytest.mark.parametrize("kind", [Timeline, Queues])
def test_the_cursor_goes_by_what_is_seen(host: Host, kind: type[Timeline | Queues], tmp_path: Path) -> None:
    """Keys move the time cursor by hundredths of the axis as it is drawn: through a folded gap as through all else."""
    shown = _saved(host, kind(two_bursts(5_000_000_000)), tmp_path)
    gap = shown.get("view.scene.gaps[0]")
    shown.get("view.look(view.scene.span[1])")
    shown.press(*["["] * 20)
    assert shown.get("view.marks.cursor") > gap[1]
    shown.press(*["["] * 60)
    assert 0 < shown.get("view.marks.cursor") < gap[0]
    shown.press(*["]"] * 60)
    assert shown.get("view.marks.cursor") > gap[1]


def test_rows_fold_and_stay_at_the_top(host: Host, tmp_path: Path) -> None:
    """The name of a device, or a key, folds its rows into one; that of a row keeps it at the top of any page."""
    widget = Timeline(double_buffering())
    shown = host.show(widget)
    heights = "[...new Set(view.rects.map((r) => Math.round(r.y / 22)))].length"
    rows = shown.until("view.rects.length > 0 && view.scene.rows.length")
    assert shown.until(heights) > 1
    shown.click(30, 37)
    shown.until(f"{heights} === 1 && view.rects.length > 0")
    shown.press("d")
    shown.until(f"{heights} > 1")
    last = shown.get("view.scene.rows.at(-1)[0]")
    shown.click(30, shown.get("view.heads.at(-1)[0]") + 10)
    shown.until("view.scene.rows[0][0] === argument && view.scene.rows[0][2] === 'kept at the top'", last)
    assert shown.get("view.scene.rows.length") == rows
    shown.get("view.page(1)")
    shown.until("view.scene.first > 0 && view.scene.rows[0][0] === argument", last)
    shown.press("o")
    shown.until("view.scene.rows.every((row) => row[2] !== 'kept at the top')")
    saved = _saved(host, widget, tmp_path)
    saved.press("d")
    saved.until(f"{heights} === 1")


def _saved(host: Host, widget: Timeline | Queues, folder: Path) -> Shown:
    widget.to_html(folder / "saved.html")
    host.open(folder / "saved.html")
    shown = host.shown("section.atops")
    shown.until("view.rects.length > 0")
    return shown


def test_a_kernel_that_cannot_be_reached_is_no_failure(host: Host) -> None:
    """A view asks a widget that was closed, and closes where nothing can be sent any more, without an error."""
    widget = Timeline(double_buffering())
    shown = host.show(widget)
    shown.until("view.rects.length > 0")
    widget.close()
    shown.get("view.ping()")
    shown.get("(view.model.send = () => { throw new Error('Cannot send'); }, view.ping(), view.close())")


def test_a_kernel_that_is_gone_is_told(host: Host) -> None:
    """A live picture says so when two questions in a row get no answer, and is live again with the next answer."""

    async def main() -> None:
        async with atops.Driver() as driver:
            widget = Timeline(driver)
            shown = host.show(widget)
            await asyncio.to_thread(shown.until, "view.answered && view.note.textContent.endsWith('live')")
            shown.get("view.ping()")
            await asyncio.to_thread(shown.until, "view.pinged === false && !view.silent")
            widget.comm.dead = True
            shown.get("(view.ping(), view.ping())")
            await asyncio.to_thread(shown.until, "view.note.textContent.endsWith('no answer: kernel gone or busy')")
            widget.comm.dead = False
            shown.get("view.ping()")
            await asyncio.to_thread(shown.until, "view.note.textContent.endsWith('live')")

    asyncio.run(main())


def test_what_cannot_be_drawn_is_told(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """An error in Python is shown in the widget and logged, not swallowed."""
    widget = Timeline(double_buffering())
    shown = host.show(widget)
    shown.until("view.rects.length > 0")
    widget._timetable.scene = lambda window: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    widget.redraw()
    shown.until("view.errors.length > 0")
    assert "Timeline cannot be drawn: ZeroDivisionError" in shown.get("view.say.textContent")
    assert "could not be drawn" in caplog.text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str) -> None:
    """The picture of the documentation: an operation is selected, the critical path is marked."""
    shown = host.show(Timeline(double_buffering()), theme)
    shown.until("view.rects.length > 0")
    shown.press("k")
    shown.until("view.pathDrawn && view.pathDrawn.length > 0")
    shown.get("view.select(19)")
    shown.until("view.marks.before.length > 0 && view.say.textContent.includes('scale')")
    shown.until("view.rects.some((r) => r.mark === 'select')")
    keep(shown, "timeline", theme)
    assert shown.get("getComputedStyle(view.root).backgroundColor") == {
        "light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)",
    }[theme]  # fmt: skip


def test_the_margin_of_labels_leaves_a_narrow_picture_its_room() -> None:
    """It takes 150 pixels of a wide picture, and at most three tenths of a narrow one."""
    assert 'x="150.0"' in Timeline(double_buffering()).to_svg()
    narrow = Timeline(double_buffering()).to_svg(width=400)
    assert min(float(x) for x in re.findall(r'<rect x="([\d.]+)"[^>]*var\(--band\)', narrow)) <= 120


def test_short_and_narrow_labels_say_what_is() -> None:
    """No time before 0 is on an axis, the length told is that of what ran, and one shape is no "shapes"."""
    short = Timeline(Trace((TraceRecord(0, Kind.FILL, 0, 1, 0, 0, 1, Status.DONE),))).to_svg()
    assert "1 record in 1 ns" in short and "-1 ns" not in short
    many = [TraceRecord(n, Kind.LAUNCH, 0, 1, n, n, n + 1, Status.DONE) for n in range(1000)]
    many.append(TraceRecord(1000, Kind.LAUNCH, 0, 1, 10**6, 10**6, 10**6, Status.DONE))
    note = Timeline(Trace(tuple(many))).scene(Window(start_ns=0, end_ns=500_000, width=100)).told["note"]
    assert note == "1,000 records, thinned to 1 shape"


def test_what_has_no_records_has_no_axis():
    """Its window is no time of any program's: it says that nothing was recorded."""
    drawn = Timeline(Trace()).to_svg()
    assert "no records" in drawn and " ns<" not in drawn
