"""A small table for notebooks: escaped, without colours of its own, for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

__all__ = ("Cell", "Markup", "bar", "columns", "html_table")

CELL = "text-align:left;vertical-align:top;padding:1px 10px 1px 0;background:none;color:inherit"
FRAME = "border-collapse:collapse;background:none;color:inherit;font-size:inherit"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Cell: TypeAlias = object  # Markup as it is; anything else as its text, escaped; None leaves its row out


def html_table(title: str, rows: Iterable[tuple[str, Cell]]) -> str:
    """Return a table of two columns under `title`, a row for each (name, value) whose value is not None."""
    lines = [
        f'<tr><th scope="row" style="{CELL};font-weight:normal;opacity:.7">{_escape(name)}</th>{_cell(value)}</tr>'
        for name, value in rows
        if value is not None
    ]
    caption = f'<caption style="text-align:left;color:inherit;padding:0"><b>{_escape(title)}</b></caption>'
    return Markup(f'<table style="{FRAME}">{caption}<tbody>{"".join(lines)}</tbody></table>')


def columns(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Markup:
    """Return a table with a head, to stand in a cell of another one or alone."""
    style = f"{CELL};font-weight:normal;opacity:.7"
    head = "".join(f'<th scope="col" style="{style}">{_escape(each)}</th>' for each in heads)
    lines = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return Markup(f'<table style="{FRAME}"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>')


def bar(part: int, whole: int, label: str) -> Markup:
    """Return a bar that shows `part` of `whole`, and `label`, which says the same in words."""
    share = min(100.0, max(0.0, 100 * part / whole)) if whole else 0.0
    inside = f'<div style="width:{share:.1f}%;height:100%;background:currentColor;opacity:.55"></div>'
    frame = "width:12em;height:.7em;border:1px solid currentColor;box-sizing:border-box"
    return Markup(f'<div aria-hidden="true" style="{frame}">{inside}</div>{_escape(label)}')


def _escape(text: str) -> str:
    from html import escape  # with its table of a thousand entities, which a program outside notebooks never needs

    return escape(text)


def _cell(value: Cell) -> str:
    return f'<td style="{CELL}">{value if isinstance(value, Markup) else _escape(str(value))}</td>'
