"""The queues in a browser: what is drawn, selected and asked for, by pointer and by keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from atops_widgets import Queues, Timeline
from tests.widgets.host import Host
from tests.widgets.pictures import keep
from tests.widgets.queue_traces import LOAD, standing

pytestmark = pytest.mark.slow


def test_every_stream_is_a_row_of_tokens(host: Host) -> None:
    """What is held is drawn from head to tail with what it does; what has no room is counted."""
    shown = host.show(Queues(standing().trace()))
    shown.until("view.rects.length > 0")
    assert shown.get("view.scene.rows.map((r) => r.label)") == [
        "load", "compute", "store", "wait for host", "normalise", "debug", "backlog",
    ]  # fmt: skip
    heads = shown.get("view.rects.filter((r) => r.position === 0).map((r) => r.state)")
    assert heads == [1, 2, 2, 2, 2, 1]
    (gap,) = shown.get("view.gaps.map((g) => g.text)")
    drawn = shown.get("view.rects.filter((r) => r.row === 6 && r.position >= 0).length")
    assert gap == f"+ {10_000 - drawn:,} more"
    assert shown.get("view.rects.every((r) => r.x + r.width <= view.width)")
    assert shown.get("view.rects.filter((r) => r.status > 0).length") == 3


def test_arrows_lead_from_heads_to_what_they_wait_for(host: Host) -> None:
    """An event's record, deep in its queue too, and what has the cluster; a value has no arrow but words."""
    shown = host.show(Queues(standing().trace()))
    shown.until("view.arrows && view.arrows.length > 0")
    arrows = shown.get("view.arrows.map((a) => [a.from, a.to])")
    kinds = dict(shown.get("view.rects.map((r) => [String(r.seq), r.kind])"))
    assert [(kinds[str(one)], kinds[str(other)]) for one, other in arrows] == [(8, 7), (8, 7), (6, 6)]
    assert "0x1040 of device 0" in shown.get("view.scene.rows[3].reason")


def test_a_selection_shows_its_line_and_its_neighbours(host: Host) -> None:
    """A queued command can be selected: its enqueuing line is told, what is before and behind it marked."""
    widget = Queues(standing().trace())
    shown = host.show(widget)
    shown.until("view.rects.length > 0")
    shown.get("view.select(12)")
    shown.until("view.say.textContent.includes('pipeline.py') && view.rects.filter((r) => r.mark).length > 1")
    assert "record event, is queued in load" in shown.get("view.say.textContent")
    marks = dict(shown.get("view.rects.filter((r) => r.mark).map((r) => [String(r.seq), r.mark])"))
    assert marks == {"11": "before", "12": "select", "13": "after", "21": "after"}
    assert widget.feed.selection.seq == 12


def test_the_cursor_goes_back_in_time(host: Host) -> None:
    """The strip, the keys and another widget move the cursor; the rows show that moment, and c comes back."""
    widget = Queues(standing().trace())
    shown, other = host.show(widget), host.show(Timeline(widget.feed))
    shown.until("view.rects.length > 0")
    shown.click(300, 30)
    shown.until("view.marks.cursor !== null && view.scene.when !== 'now'")
    held = shown.get("view.scene.rows.map((r) => r.open).join()")
    other.until("view.marks.cursor !== null")
    before = widget.feed.selection.cursor_ns
    shown.press("[")
    shown.until("view.scene.when !== 'now' && view.marks.cursor < ARG".replace("ARG", str(before)))
    shown.press("c")
    shown.until("view.marks.cursor === null && view.scene.when === 'now'")
    assert shown.get("view.scene.rows.map((r) => r.open).join()") != held


def test_without_details_it_says_so(host: Host) -> None:
    """Records alone give the state of a past moment, and the note says what is not known."""
    widget = Queues(standing(9).trace(details=False))
    widget.feed.selection.look_at(30_000)
    shown = host.show(widget)
    shown.until("view.rects.length > 0 && view.note.textContent.includes('only commands that ended are known')")
    assert shown.get("view.rects.filter((r) => r.state === 1).length") == 2


def test_more_streams_than_rows(host: Host) -> None:
    """Of many streams those with work come first; the keys turn the page."""
    from tests.widgets.queues.test_scene import many_streams

    shown = host.show(Queues(many_streams(500)))
    shown.until("view.scene.streams === 500 && view.rects.length > 0")
    first = shown.get("view.scene.rows[0].label")
    assert "16 of 500 streams" in shown.get("view.note.textContent")
    shown.press("PageDown")
    shown.until("view.scene.first === 16")
    assert shown.get("view.scene.rows[0].label") != first


def test_a_saved_page(host: Host, tmp_path: Path) -> None:
    """The page without Python shows the queues, and its commands can be selected."""
    path = tmp_path / "queues.html"
    Queues(standing().trace()).to_html(path)
    host.open(path)
    shown = host.shown("section.atops-queues")
    shown.until("view.rects.length > 0")
    shown.press("n")
    shown.until("view.rects.some((r) => r.mark === 'select')")
    assert "saved" in shown.get("view.note.textContent")
    shown.get("view.look(view.scene.frames[10].at + 1)")
    shown.until("view.scene.when === view.scene.frames[10].when && view.scene.rows.length === 2")
    shown.press("c")
    shown.until("view.scene.when === 'now' && view.scene.rows.length === 7")


def test_a_narrow_page_shows_heads_and_words(host: Host) -> None:
    """With little room every head is drawn, no word is lost, and tokens stay in their row."""
    widget = Queues(standing().trace())
    widget.feed.selection.select(5000)
    shown = host.show(widget)
    host.thread.call(host.page.set_viewport_size, {"width": 560, "height": 900})
    shown.until("view.width < 560 && view.size?.endsWith(`,${view.width}`) && view.rects.some((r) => r.seq === 5000)")
    assert shown.get("view.rects.filter((r) => r.position === 0).length") == 6
    assert shown.get("view.rects.every((r) => r.x + r.width <= view.width)")
    assert shown.get("view.gaps.every((g) => g.x + g.width <= view.width)")
    shown.until("view.say.textContent.startsWith('kernel matmul, is queued in backlog')")
    wide = shown.get("view.height")
    host.thread.call(host.page.set_viewport_size, {"width": 400, "height": 900})
    shown.until("view.width < 400 && view.size?.endsWith(`,${view.width}`)")
    assert shown.get("view.height") < 1.25 * wide  # words have the whole width there, not a column of some letters


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(host: Host, theme: str) -> None:
    """The picture of the documentation: a queued command is selected."""
    shown = host.show(Queues(standing().trace()), theme)
    shown.until("view.rects.length > 0")
    record = shown.get("view.arrows[0].to")
    shown.get(f"view.select({record})")
    shown.until(f"view.marks.seq === {record} && view.marks.after.length > 0 && view.say.textContent.includes('.py')")
    keep(shown, "queues", theme)
    assert shown.get("view.scene.rows.length") == LOAD + 6
