"""SVG by hand: text that is safe and fits, and moments of an axis that can be told apart."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from atops_widgets.drawing.svg import Drawing, moments_told, ticks


def test_text_is_what_xml_may_hold() -> None:
    """Markup, control characters, half letters and turns of direction stay text; white space is a space."""
    drawing = Drawing(100, "a\x00<b>")
    drawing.text(0, 8, "x\ud800\u202ey\n\tz & <i>")
    drawing.rect(0, 0, 5, 5, "ink", title="\x1b[31m")
    root = ElementTree.fromstring(drawing.finish(20, "\x07"))
    assert root.attrib["aria-label"] == "a?<b>"
    texts = [each.text for each in root.iter() if each.tag.endswith(("text", "title"))]
    assert "x??y  z & <i>" in texts and "?[31m" in texts


def test_lines_are_as_long_as_the_drawing_is_wide() -> None:
    """No word is lost, and what follows stands below."""
    drawing = Drawing(120, "words")
    below = drawing.lines(8, 10, "one two three four five six seven")
    words = [each.text for each in ElementTree.fromstring(drawing.finish(90)).iter() if each.tag.endswith("text")]
    assert " ".join(filter(None, words)) == "one two three four five six seven"
    assert below == 10 + 18 * len(words) > 28
    assert drawing.lines(8, below, "") == below


@pytest.mark.parametrize(
    ("start", "end"), [(0, 200_000), (12_345_600_000, 12_345_700_000), (999_000, 1_001_000), (-50_000, 50_000), (0, 3)]
)
def test_moments_of_an_axis_differ(start: int, end: int) -> None:
    """However far from the origin a window is, no two of its moments read the same."""
    moments = ticks(start, end, 900)
    assert len(set(moments_told(moments))) == len(moments) > 1


def test_a_lone_moment_is_short() -> None:
    """Where there is nothing to tell apart three digits do; the origin is 0."""
    assert [moments_told([at]) for at in (0, 1500, 20_000_000)] == [["0"], ["1.5 µs"], ["20 ms"]]
    assert moments_told([0, 250_000, 500_000]) == ["0", "250 µs", "500 µs"]
    behind_a_gap = [0, 2, 4, 10**9, 10**9 + 1]
    assert moments_told(behind_a_gap) == ["0", "2 ns", "4 ns", "1 s", "+1 ns"]
    assert moments_told([12_345_630_000, 12_345_630_020]) == ["12.34563 s", "+20 ns"]
