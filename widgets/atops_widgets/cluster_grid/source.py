"""The text of the kernels that a launch ran: the functions in which threads stood, if this machine has the files."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from atops.base.python_ast import module_tree
from atops.base.trace.records import Place
from atops.device.call_site import file_shown

__all__ = ("Section", "printable", "sections")

MOST_SECTIONS: Final = 4
MOST_LINES: Final = 60  # of one section
AROUND: Final = 3  # lines kept about those where threads stand, where not all fit
WIDEST: Final = 160  # letters of a line


@dataclass(frozen=True, slots=True)
class Section:
    """A function: what it is called, its lines with their numbers, and the places that lie in it."""

    title: str
    rows: tuple[tuple[int, str], ...]
    sites: tuple[int, ...]


def sections(sites: Iterable[int], places: Mapping[int, Place]) -> list[Section]:
    """Return a section for each function that has one of these places, the one with most of them first."""
    found: dict[tuple[str, str], list[int]] = {}
    for site in sorted(sites):
        if site in places:
            found.setdefault((places[site].file, places[site].function), []).append(site)
    largest = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_SECTIONS]
    return [_section(file, function, tuple(own), places) for (file, function), own in largest]


def printable(text: str) -> str:
    """Return text in one line that cannot move a cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text.expandtabs(4))


def _section(file: str, function: str, sites: tuple[int, ...], places: Mapping[int, Place]) -> Section:
    used = [places[site].line for site in sites]
    text, title = _text(file), printable(f"{function or 'kernel'}, {file_shown(file)}")
    if not all(0 < line <= len(text) for line in used):  # no such file here, or it is another one by now
        return Section(f"{title}: its text is not on this machine", tuple((at, "") for at in sorted({*used})), sites)
    first, last = _extent("".join(text), function, min(used), max(used))
    if last - first >= MOST_LINES:
        first = max(first, min(used) - AROUND)
        last = min(last, first + MOST_LINES - 1)
    lines = [printable(line.rstrip("\r\n"))[:WIDEST] for line in text[first - 1 : last]]
    return Section(title, tuple(enumerate(lines, first)), sites)


def _text(file: str) -> list[str]:
    """Return a source file's lines. A trace from elsewhere may name any file: only Python's own are looked for."""
    return linecache.getlines(file) if file in linecache.cache or file.endswith(".py") else []


def _extent(text: str, function: str, first: int, last: int) -> tuple[int, int]:
    """Return the first and the last line of the function that has these lines; else some lines about them."""
    try:
        tree = module_tree(text)
    except (SyntaxError, ValueError, RecursionError):  # the file is another one by now, or a cell has magic in it
        return max(1, first - AROUND), min(text.count("\n") + 1, last + AROUND)
    name, best = function.rpartition(".")[2], (max(1, first - AROUND), last + AROUND)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            end = node.end_lineno or node.lineno
            if begin <= first and last <= end:
                best = begin, end
    return best
