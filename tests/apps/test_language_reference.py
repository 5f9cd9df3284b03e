"""The language's reference is what its tables say, leaves no name out, and names nothing that is not there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import atops
from atops import kernels as k
from atops.apps.language_reference import CONSTRUCTS, INTRODUCTIONS, OTHER_NAMES, TITLES, language_reference, main
from atops.device.dte.transfer import DteEvent
from atops.kernels.tables.constructs import DTE, SPACES, SYNC, Construct
from atops.kernels.tables.vectors import FORMS, FUNCTIONS, VECTORS
from tests.every import every

PAGE = Path(__file__).resolve().parents[2] / "docs" / "language.md"
TEXT = language_reference()

# What the names in the rows stand for, beside `k`.
OWNERS: dict[str, Any] = {
    "a": k.tops_dte_ctx_t, "b": k.CountedBarrier, "ctx": k.tops_dte_ctx_t, "device": atops.Device, "ev": DteEvent,
    "mask": k.Mask, "p": k.Pointer, "stream": atops.Stream, "v": k.Vector, "x": k.Vector,
}  # fmt: skip


def mentions(row: Construct) -> list[tuple[str, str]]:
    """Return each `owner.name` that a row shows as Python: its spelling, and what its sentences mark as code."""
    marked = [code for text in (row.summary, row.differs) for code in re.findall(r"`([^`]*)`", text)]
    if "C++ writes" in row.differs:
        marked = []  # what is marked there is both languages'
    return [pair for code in (row.python, *marked) for pair in re.findall(r"\b([a-z]+)\.([A-Za-z_]\w*)", code)]


def test_the_committed_page_is_what_the_tables_say():
    """`python -m atops.apps.language_reference` has been run since a table changed."""
    assert PAGE.read_text(encoding="utf-8") == TEXT


def test_it_is_written_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """To a file that is named, to docs/language.md without a name; what cannot be written is said, with code 2."""
    assert main([str(tmp_path / "a.md")]) == 0
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == TEXT
    monkeypatch.chdir(tmp_path)
    assert main([]) == 2 and "in a folder that is there" in capsys.readouterr().err
    (tmp_path / "docs").mkdir()
    assert main([]) == 0 and (tmp_path / "docs" / "language.md").read_text(encoding="utf-8") == TEXT
    assert main(["a.md", "b.md"]) == 2


def test_every_section_has_its_part_in_order():
    """8.1 to 8.8, each with an introduction, and every table of rows is used."""
    assert re.findall(r"^## (8\.\d) (.*)$", TEXT, re.MULTILINE) == list(TITLES.items())
    assert list(INTRODUCTIONS) == list(TITLES) == [f"8.{number}" for number in range(1, 9)]
    assert set(CONSTRUCTS) == {*SPACES, *VECTORS, *FUNCTIONS, *DTE, *SYNC}


def test_every_row_is_in_it():
    """Each row's C++, Python and sentences stand in one line; types of vectors have their lanes instead."""
    lines = TEXT.splitlines()
    types = {form.cpp for form in FORMS}
    for row in CONSTRUCTS:
        if row.cpp in types:
            continue
        parts = [each.replace("|", "\\|") for each in (row.cpp, row.python)]
        said = [row.summary, row.differs[1:].removesuffix(".")]
        assert any(all(part in line for part in (*parts, *said)) for line in lines), row
    for spelling in {form.spelling for form in FORMS}:
        lanes = {form.keyword: str(form.lanes) for form in FORMS if form.spelling == spelling}
        cells = [lanes.get(keyword, "") for keyword in ("vector", "vector2", "vector4")]
        [line] = [line for line in lines if line.startswith(f"| `{spelling}` | `[")]
        assert [each.strip() for each in line.split("|")[3:-1]] == cells


@pytest.mark.slow
def test_every_name_of_the_language_is_in_it():
    """Each exported name stands in a row, or among the names that no construct has, and not in both."""
    others = [name for names in OTHER_NAMES.values() for name in names]
    assert len(set(others)) == len(others) and set(others) <= set(k.__all__)
    named = {name for row in CONSTRUCTS for name in re.findall(r"\bk\.(\w+)", row.python)}
    forms = {f"{name}_async" for name in named}
    differs = {name for row in CONSTRUCTS for name in re.findall(r"\bk\.(\w+)", row.summary + row.differs)}
    assert set(k.__all__) - named - forms - differs == set(others)
    assert not [name for name in k.__all__ if not re.search(rf"`[^`]*\bk\.{name}\b[^`]*`|k\.{name}\b", TEXT)]


@every("row", CONSTRUCTS, ids=lambda row: f"{row.section} {row.cpp or row.python}")
def test_what_a_row_names_is_there(row: Construct):
    """Every `k.name` exists, and every attribute of what a row calls `stream`, `device`, `ctx`, `p`, `v` and so on."""
    for owner, name in mentions(row):
        if owner == "k":
            assert name in k.__all__ or name.strip("_").endswith("_ARCH"), name
            getattr(k, name)
        elif owner in OWNERS:
            assert hasattr(OWNERS[owner], name), f"{owner}.{name}"
        else:
            assert owner in ("np", "src", "dst", "shape"), f"{owner}.{name}"


def sections_by_name() -> dict[str, set[str]]:
    """Return the sections of the rows that are about each name."""
    found: dict[str, set[str]] = {}
    for row in CONSTRUCTS:
        for name in re.findall(r"\bk\.([a-z_]\w*)", row.python)[:1]:
            if name in k.__all__:
                found.setdefault(name, set()).add(row.section)
    return found


@every("name, sections", sections_by_name().items(), ids=sections_by_name())
def test_a_docstring_names_its_section(name: str, sections: set[str]):
    """Python's help names the place in the text."""
    if name.endswith("_async"):
        name = name.removesuffix("_async")  # whose docstring it refers to
    said = inspect.getdoc(getattr(k, name)) or ""
    assert any(section in said for section in sections), f"{name} says {said!r}; expected one of {sections}"
