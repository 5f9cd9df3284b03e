"""Tables for notebooks: escaped, without colours, and rows without a value left out."""

from __future__ import annotations

from html.parser import HTMLParser

from atops.base.html_table import bar, columns, html_table


class Reader(HTMLParser):
    """Collects text and styles, and fails on tags that do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a tag."""
        self.open.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style"]

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that is open."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.text.append(data)


def read(markup: str) -> Reader:
    """Return what a browser would find."""
    reader = Reader()
    reader.feed(markup)
    assert reader.open == []
    return reader


def test_everything_is_escaped() -> None:
    """Names, values and titles are text, whatever they contain; markup is markup only where the table made it."""
    evil = "<script>alert('&')</script>"
    inner = columns([evil], [[evil]])
    found = read(html_table(evil, [(evil, evil), ("inside", inner), ("bar", bar(1, 2, evil))]))
    assert found.text.count(evil) == 6
    assert "script" not in " ".join(found.styles)


def test_no_colour_of_its_own() -> None:
    """Styles name no colour but the page's, so that the table can be read on light and dark."""
    for style in read(html_table("a", [("b", columns(["c"], [["d"]])), ("e", bar(1, 3, "f"))])).styles:
        for rule in filter(None, style.split(";")):
            name, value = rule.split(":")
            if "color" in name or "background" in name:
                assert value in ("inherit", "none", "currentColor")


def test_rows_without_a_value_are_left_out() -> None:
    """None leaves the row out; 0 and nothing at all are values."""
    assert read(html_table("t", [("gone", None), ("zero", 0), ("empty", "")])).text == ["t", "zero", "0", "empty"]


def test_a_bar_stays_in_its_frame() -> None:
    """More than the whole is full, and of nothing it is empty."""
    assert "width:100.0%" in bar(9, 3, "")
    assert "width:50.0%" in bar(1, 2, "")
    assert "width:0.0%" in bar(1, 0, "")
