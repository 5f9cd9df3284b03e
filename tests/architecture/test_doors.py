"""The doors that lead a reader to a place: the first screen of each folder, and the tables of CONTRIBUTING."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from tests.architecture.source_tree import ROOT, Module, modules, plant

TOPS = ("atops", "widgets", "tests", "benchmarks", "docs")
PLACED = re.compile(r"((?:`\w+`(?:, | and )?)+) (?:in|of) `([\w/]+\.py)`")  # `name`, `name` in `folder/file.py`

PATH = re.compile(r"`([\w.]+/[\w./]*\.(?:py|h|cpp|js|md))`|`([\w.]+(?:/[\w.]+)*/)`")  # `folder/file.py`, `folder/`


def unnamed(known: Mapping[str, Module]) -> list[str]:
    """Return the modules that the `__init__` of their folder does not name."""
    faults = []
    for name, module in known.items():
        folder, _, stem = name.rpartition(".")
        if module.path.stem == "__init__" or "." not in folder:
            continue
        if not re.search(rf"\b{stem}\b", ast.get_docstring(known[folder].tree) or ""):
            faults.append(f"{folder}/__init__.py: a line for {stem}")
    return faults


def absent(text: str, root: Path) -> list[str]:
    """Return the files and folders that a page names, with a slash, and that are nowhere."""
    named = [file or folder for file, folder in PATH.findall(text)]
    beside = [".", *(f"{top}/**" for top in TOPS)]
    return [path for path in named if not any(any(root.glob(f"{each}/{path}")) for each in beside)]


def misplaced(text: str, root: Path) -> list[str]:
    """Return the names that a page places in a file where they are not."""
    faults = []
    for names, path in PLACED.findall(text):
        files = [*root.glob(path), *(file for top in TOPS for file in root.glob(f"{top}/**/{path}"))]
        words = {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
        faults += [f"{path}: no {name}" for name in re.findall(r"`(\w+)`", names) if name not in words]
    return faults


def test_the_init_of_each_folder_names_its_modules():
    """Every folder of the packages says on its first screen what each of its modules is."""
    assert not (faults := unnamed(modules(ROOT, "atops", "atops_widgets"))), "\n" + "\n".join(faults)


def test_the_tables_of_contributing_place_names_where_they_are():
    """Each name that CONTRIBUTING and docs/design.md place in a file is there."""
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in ("CONTRIBUTING.md", "docs/design.md")]
    assert all(PLACED.search(page) for page in pages)
    assert not (faults := [fault for page in pages for fault in misplaced(page, ROOT)]), "\n" + "\n".join(faults)


def test_the_paths_of_contributing_are_there():
    """Each file and folder that CONTRIBUTING and docs/design.md name is there."""
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in ("CONTRIBUTING.md", "docs/design.md")]
    assert all(len(PATH.findall(page)) > 30 for page in pages)
    assert [path for page in pages for path in absent(page, ROOT)] == []


def test_a_missing_door_is_seen(tmp_path: Path):
    """A module without a line, and a name that moved, are told."""
    files = {
        "atops/__init__.py": "", "atops/trace/__init__.py": '"""Traces.\n\nfile  saved ones\n"""',
        "atops/trace/file.py": "def save(): ...", "atops/trace/page.py": "",
    }  # fmt: skip
    assert unnamed(plant(tmp_path, files)) == ["atops.trace/__init__.py: a line for page"]
    page = "`save` in `trace/file.py`, `save` and `load` in `trace/file.py`, `save` of `file.py`, `save` in `old.py`"
    assert misplaced(page, tmp_path) == ["trace/file.py: no load", "old.py: no save"]
    assert absent("`trace/file.py`, `trace/`, `trace/old.py`, `old/`, `file.py`", tmp_path) == ["trace/old.py", "old/"]
