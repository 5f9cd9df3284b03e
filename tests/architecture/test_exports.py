"""Public names are listed: `__all__` is a sorted tuple, complete, and true."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.architecture.source_tree import ROOT, Module, definitions, modules, plant


def faults_of(module: Module, loaded: object) -> list[str]:
    """Return what is wrong with the exports of `module`, whose names are those of `loaded`."""
    public = {node.name for node in definitions(module.tree) if not node.name.startswith("_")}
    listed = getattr(loaded, "__all__", None)
    if listed is None:
        return [f"{module.name} defines {', '.join(sorted(public))} and has no __all__"] if public else []
    if not isinstance(listed, tuple):
        return [f"{module.name}: __all__ is a {type(listed).__name__}; expected a tuple"]
    faults = [f"{module.name}: {name} is not in __all__" for name in sorted(public - set(listed))]
    missing = [name for name in listed if not hasattr(loaded, name)]
    faults += [f"{module.name}: __all__ lists {name}, which does not exist" for name in missing]
    if not is_sorted(listed):
        faults.append(f"{module.name}: __all__ is not sorted")
    return faults


def is_sorted(names: Sequence[str]) -> bool:
    """Say whether names are in plain order, or in the linter's: CONSTANTS, then Classes, then the rest."""
    unique = set(names)
    return len(unique) == len(names) and tuple(names) in (tuple(sorted(unique)), tuple(sorted(unique, key=_by_kind)))


def _by_kind(name: str) -> tuple[int, list[tuple[int, int | str]]]:
    kind = 0 if len(name) > 1 and name.isupper() else 1 if name[:1].isupper() else 2
    parts = re.findall(r"\d+|\D+", name)
    return kind, [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


@pytest.mark.slow
def test_every_module_lists_its_public_names():
    """Each module with public names has a tuple `__all__`: sorted, complete, and every name in it exists."""
    packages = ["atops", *(["atops_widgets"] if importlib.util.find_spec("anywidget") else [])]
    known = modules(ROOT, *packages)
    faults = []
    for name, module in known.items():
        if name == "atops.__main__":
            continue
        try:
            faults += faults_of(module, importlib.import_module(name))
        except ImportError as error:
            faults.append(f"{name} cannot be imported: {error}")
    assert not faults, "\n" + "\n".join(faults)


def test_each_fault_is_seen(tmp_path: Path):
    """A missing list, a list that is no tuple, a missing name, a name too many and a wrong order are all found."""
    source = "class Beam: ...\ndef aim(): ...\nif True:\n    def _inner(): ...\n"
    module = plant(tmp_path, {"atops/base/beam.py": source})["atops.base.beam"]
    names = {"Beam": 1, "aim": 2}

    def faults(**exports: object) -> list[str]:
        loaded = SimpleNamespace(**names, **exports)
        return [fault.removeprefix("atops.base.beam") for fault in faults_of(module, loaded)]

    assert faults(__all__=("Beam", "aim")) == []
    assert faults() == [" defines Beam, aim and has no __all__"]
    assert faults(__all__=["Beam", "aim"]) == [": __all__ is a list; expected a tuple"]
    assert faults(__all__=("Beam",)) == [": aim is not in __all__"]
    assert faults(__all__=("Beam", "aim", "fire")) == [": __all__ lists fire, which does not exist"]
    assert faults(__all__=("aim", "Beam")) == [": __all__ is not sorted"]


def test_both_orders_are_sorted():
    """Plain order and the linter's order pass; a repeated name does not."""
    assert is_sorted(("Alpha", "MAX", "beta"))
    assert is_sorted(("MAX", "Alpha", "v2", "v10"))
    assert not is_sorted(("Alpha", "Alpha"))
