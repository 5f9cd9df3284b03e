"""Every widget without a browser: SVG, page, text and the notebook's bundle, for full, empty and hostile traces."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from atops.base.trace.records import Kind, Status, Trace, TraceNames, TraceRecord
from atops_widgets import WIDGETS, Dashboard, Feed, Queues, Timeline, TraceWidget, watch
from atops_widgets.drawing.scene import Window
from tests.every import every
from tests.runtime.trace_records import traces
from tests.widgets.queue_traces import LOAD, Story, standing
from tests.widgets.traces import double_buffering, record
from tests.widgets.unpacking import unpack_snapshot

SELECTED = 12  # a command of `standing` that is queued, behind one and before another
EVERY = pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
HOSTILE = '</script><b onload="x">&\n\x1b[31m\x00\ud800\u202e'


class Elements(HTMLParser):
    """Counts the elements of a page and keeps their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("theme", [None, "light", "dark"])
def test_the_svg_is_sound(kind: type[TraceWidget], theme: str | None) -> None:
    """It is well-formed, says what it shows, fits its box, and refers to nothing outside."""
    text = kind(double_buffering()).to_svg(theme=theme)  # type: ignore[arg-type]
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg") and root.attrib["role"] == "img" and root.attrib["aria-label"]
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width + 1 and 0 <= y <= y + h <= height + 1
    assert not re.search(r"href|@import|url\((?!#)", text)


@EVERY
def test_the_svg_shows_the_selection(kind: type[TraceWidget]) -> None:
    """What is selected is told with its neighbours; where operations are drawn, all of them are outlined."""
    widget = kind(Feed(standing(20).trace()))
    assert "data-mark" not in widget.to_svg() and "selected:" not in widget.to_svg()
    widget.feed.selection.select(SELECTED)
    text = widget.to_svg()
    root = ElementTree.fromstring(text)
    words = " ".join("".join(root.itertext()).split())
    assert f"selected: number {SELECTED}" in words and "enqueued at pipeline.py:11" in words
    if kind is Queues:  # nothing of it has ended, so that the timeline has not drawn it yet
        marks = [each.attrib["data-mark"] for each in root.iter() if "data-mark" in each.attrib]
        assert sorted(set(marks)) == ["after", "before", "select"]
    if kind is Timeline:
        widget.feed.selection.select(5)
        root = ElementTree.fromstring(widget.to_svg())
        assert "kernel scale" in "".join(root.itertext())
        assert {"select", "before"} <= {each.attrib.get("data-mark") for each in root.iter()}


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("width", [1, 120, 320])
def test_a_narrow_svg_is_a_picture_too(kind: type[TraceWidget], width: int) -> None:
    """However little room there is, there is a drawing, and it is as wide as asked for."""
    widget = kind(standing(20).trace())
    widget.feed.selection.select(SELECTED)
    assert float(ElementTree.fromstring(widget.to_svg(width=width)).attrib["width"]) == width


@EVERY
def test_the_page_is_one_file(kind: type[TraceWidget], tmp_path: Path) -> None:
    """It holds script, picture and text, and no element that would fetch anything; so does the returned text."""
    widget = kind(double_buffering())
    text = widget.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == text
    found = Elements(text).found
    assert {"main", "svg", "pre", "script"} <= {tag for tag, _ in found}
    assert not [one for one in found if one[0] in ("link", "img", "iframe") or {"src", "href"} & set(one[1])]


@pytest.mark.slow
@EVERY
def test_names_cannot_break_out(kind: type[TraceWidget], tmp_path: Path) -> None:
    """A kernel or a stream with markup, control characters or half letters in its name stays text everywhere."""
    record = TraceRecord(0, Kind.LAUNCH, 0, 1, 0, 0, 1000, Status.DONE, name=HOSTILE, engine=0)
    widget = kind(Trace((record,), names=TraceNames({0: HOSTILE}, {(0, 1): HOSTILE}, {HOSTILE: HOSTILE})))
    widget.feed.selection.select(0)
    ElementTree.fromstring(widget.to_svg())
    assert "</script><b" in widget.to_html(tmp_path / "page.html").replace("&lt;", "<").replace("&gt;", ">")
    assert not [tag for tag, _ in Elements(widget.to_html()).found if tag == "b"]
    assert widget.to_html().count("</script>") == 1
    assert "\x1b" not in widget.to_text()


@pytest.mark.slow
@EVERY
@settings(max_examples=20)
@given(trace=traces())
def test_any_trace_is_shown(kind: type[TraceWidget], trace: Trace) -> None:
    """Whatever records say, there is an SVG, a text, a scene and a saved picture of it."""
    widget = kind(Feed(trace))
    for each in trace.records[:1]:
        widget.feed.selection.select(each.seq)
    assert "<svg" in widget.to_svg()
    assert widget.to_text()
    scene = widget.scene(Window(0, 7, 33))
    assert scene.told["say"]
    told, columns = unpack_snapshot(widget.packed())
    assert told["held"] == len(trace.records) and "link_before" in columns
    widget.close()


@pytest.mark.slow
@EVERY
def test_what_is_over_is_plain_html_in_a_notebook(kind: type[TraceWidget]) -> None:
    """The bundle has an image, which is seen where no script runs, the script, and text; no type of widgets."""
    widget = kind(double_buffering())
    data, _ = widget._repr_mimebundle_()
    assert set(data) == {"text/html", "text/plain"} and data["text/plain"] == widget.to_text()
    found = Elements(data["text/html"]).found
    assert [one["alt"] for tag, one in found if tag == "img"] == [widget.label]
    assert "script" in {tag for tag, _ in found}
    assert "http" not in re.sub(r"https?://www.w3.org/", "", data["text/html"])


@EVERY
@every("message", [
    None, 7, [], {}, {"type": "none"}, {"type": "select", "seq": "x"}, {"type": "cursor", "at": "x"},
    {"type": "window", "start": "a", "end": None, "width": "w", "options": 3},
    {"type": "window", "start": 9, "end": 3, "width": -5, "options": {"first": "x", "length": [], "follow": 1}},
    {"type": "window", "start": 1e300, "end": 1e301, "width": 1e9, "options": {"first": 1e99, "length": -3}},
])  # fmt: skip
def test_a_page_may_say_anything(kind: type[TraceWidget], message: object) -> None:
    """A message that is not understood is ignored, or the picture is made all the same."""
    widget = kind(double_buffering())
    widget._receive(message)
    assert widget.scene(widget.window).told["say"]


@pytest.mark.slow
def test_the_dashboard_has_all_widgets() -> None:
    """`watch` shows every widget of one feed; its text, SVG and page hold each of them."""
    board = watch(double_buffering())
    assert all(isinstance(one, kind) for one, kind in zip(board.widgets, WIDGETS, strict=True))
    assert {id(widget.feed) for widget in board.widgets} == {id(board.feed)}
    assert all(widget.label in board.to_text() for widget in board.widgets)
    assert board.to_svg().count("<svg ") == len(WIDGETS)
    assert board.to_html().count("</script>") == 1
    data, _ = board._repr_mimebundle_()
    assert set(data) == {"text/html", "text/plain"}
    assert data["text/html"].count("<img ") == len(WIDGETS)
    assert isinstance(board, Dashboard)
    board.stop()


def test_the_text_counts_time_as_the_pictures_do() -> None:
    """The timeline's text and the other pictures call the same moment 0, which may be before the first record."""
    story = Story()
    story.submit(5, Kind.FILL, LOAD)
    copy = story.submit(6, Kind.COPY_H2D, LOAD, size=64)
    story.end(90, copy, 40)
    text = Timeline(story.trace()).to_text()
    assert ", at 35 µs for 50 µs (number 2)" in text
    assert text.count("1 record in 50 µs") == 1


@pytest.mark.slow
def test_the_note_tells_what_is_drawn_together() -> None:
    """Fewer shapes than records: thinned to so many, without those of the engines; else nothing."""
    def note(records: list[TraceRecord], width: int) -> str:
        return str(Timeline(Trace(tuple(records))).scene(Window(width=width)).told["note"]).partition(" · ")[0]

    apart = [record(number, Kind.FILL, 1, 100 * number, 100 * number + 90) for number in range(12)]
    assert note(apart, 960) == "12 records"
    assert note(apart[:1], 960) == "1 record"
    close = [record(20 + number, Kind.COPY_H2D, 2, 2 * number, 2 * number + 1, engine=0) for number in range(3)]
    assert note([*apart, *close], 960) == "15 records, thinned to 14 shapes"
    dense = [record(number, Kind.FILL, 1, number, number + 1) for number in range(5000)]
    assert note(dense, 100).endswith(" to 1 shape")
