"""The tables of constructs in cxx.md, from the language's tables: `python docs/cxx_constructs.py` writes them anew.

The tests compare the page with what this makes, and what this says with what the compiler does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from atops.apps.language_reference import CONSTRUCTS, TITLES
from atops.device.arch import ARCHITECTURES
from atops.device.dte.operations import OPERATIONS
from atops.kernels.tables.constructs import Construct
from atops.kernels.tables.native import status
from atops.kernels.tables.vectors import FORMS, FUNCTIONS, OPERATORS

PAGE: Final = Path(__file__).parent / "cxx.md"
BEGIN, END = "<!-- constructs: made by docs/cxx_constructs.py -->\n", "<!-- end of constructs -->\n"
PROSE: Final = re.compile(r"[a-z ,]+")


def lines() -> Iterator[str]:
    """Yield the lines of the tables, one for each section of the text."""
    named = [row for row in CONSTRUCTS if row.cpp]
    for section, title in {**TITLES, "": "Printing, assertions and signals"}.items():
        rows = [row for row in named if (row.section if row.section in TITLES and _of_section(row) else "") == section]
        yield f"\n**{section} {title}**\n" if section else f"\n**{title}**\n"
        yield "| TOPS C++ | from | here | |"
        yield "|---|---|---|---|"
        for spelling, first, (word, said) in _together(rows):
            yield f"| {spelling} | {first} | {word} | {_sentence(said)} |".replace("  |", " |")


def _of_section(row: Construct) -> bool:
    return not row.cpp.startswith("int printf")  # stands beside the sections


def _together(rows: Iterable[Construct]) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """Yield (spellings, first chip, status): types of vectors, functions and operations are one line each."""
    rows = list(rows)
    types = {form.cpp for form in FORMS}
    groups = {
        "types": [row for row in rows if row.cpp in types],
        "functions": [row for row in rows if row in FUNCTIONS],
        "operations": [row for row in rows if row.cpp.partition("(")[0].removeprefix("tops::") in OPERATIONS],
    }
    told = {id(row): kind for kind, members in groups.items() for row in members}
    for row in rows:
        kind = told.get(id(row))
        if kind is None:
            said = status(row)
            if row in OPERATORS and said[0] == "yes":
                said = "yes", f"of {', '.join(row.types).replace(',', ', ').replace('  ', ' ')}; an error of others"
            yield _code(row.cpp), _chip(row), said
        elif row is groups[kind][0]:
            yield from _group(kind, groups[kind])


def _group(kind: str, members: list[Construct]) -> Iterator[tuple[str, str, tuple[str, str]]]:
    assert all(status(row) == ("yes", "") for row in members), "one line says it of all"
    if kind == "types":
        elements = ", ".join(f"`{each}`" for each in dict.fromkeys(form.spelling for form in FORMS))
        yield f"the {len(members)} types: of {elements}", _chip(members[0]), ("yes", "`bool` for masks")
    elif kind == "functions":
        names = ", ".join(f"`{row.cpp}`" for row in members)
        yield names, _chip(members[0]), ("yes", "of the types of the text, with the bits of kernels in Python")
    else:
        for first in sorted({row.gcu_arch for row in members}):
            some = [row for row in members if row.gcu_arch == first]
            names = ", ".join(f"`{row.cpp.partition('(')[0]}`" for row in some)
            said = "also with `_async` behind the name, and as `ctx.config_` methods; the checks of kernels in Python; \
at most eight dimensions, and elements of up to eight bytes"
            yield names, _chip(some[0]), ("yes", said)


def _chip(row: Construct) -> str:
    return next(chip.name for chip in ARCHITECTURES.values() if chip.gcu_arch == row.gcu_arch)


def _code(text: str) -> str:
    text = text.replace("|", "\\|")
    return text if "`" in text or PROSE.fullmatch(text) else f"`{text}`"


def _sentence(text: str) -> str:
    return text and text[0].upper() + text[1:]


def page() -> str:
    """Return the page with its tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{chr(10).join(lines())}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
