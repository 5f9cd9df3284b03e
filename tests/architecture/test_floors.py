"""Imports go down the floors and left in each floor, never in a circle; nothing below the apps asks the facade."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from tests.architecture.source_tree import APPS, FACADE, FOLDERS, Module, imports, modules, plant

Graph = dict[str, set[str]]


def upward(known: dict[str, Module]) -> list[str]:
    """Return every import of a module on a higher floor, and every module without a floor."""
    faults = [f"{name} has no floor in the table" for name, module in known.items() if module.floor is None]
    for module in known.values():
        for found in imports(module, known):
            target = known.get(found.target)
            if target and None not in (target.floor, module.floor) and target.floor > module.floor:
                where = f"{module.where(found.line)} on floor {module.floor}"
                faults.append(
                    f"{where} imports {target.name} on floor {target.floor}; imports go down only: move what is needed "
                    f"down, or hand it in as an argument"
                )
    return faults


def rightward(known: dict[str, Module]) -> list[str]:
    """Return every import of a folder that stands later in its floor, and every folder without a place in the order.

    Imports for types only never run: on one floor they may name any neighbour.
    """
    faults = []
    rank = {folder: (row, place) for row, folders in enumerate(FOLDERS) for place, folder in enumerate(folders)}
    for module in known.values():
        if module.folder.partition(".")[0] == "examples":
            continue
        is_face = module.path.stem == "__init__"
        if module.folder not in rank:
            if not is_face:
                faults.append(f"{module.folder} has no place in FOLDERS; add it where its imports allow")
            continue
        for found in imports(module, known):
            target = known.get(found.target)
            if is_face or not found.runs or target is None:
                continue
            if target.path.stem == "__init__" or target.folder not in rank:
                continue
            (row, place), (their_row, their_place) = rank[module.folder], rank[target.folder]
            if row == their_row and their_place > place:
                order = " < ".join(FOLDERS[row])
                faults.append(
                    f"{module.where(found.line)} imports {target.name}, but the order is {order}. Move what both need "
                    f"to the left of both, or hand the object in as an argument"
                )
    return faults


def facade_users(known: dict[str, Module]) -> list[str]:
    """Return every import below the apps that goes through the facade."""
    return [
        f"{module.where(found.line)} imports {found.target} through `{FACADE}`; name the module itself"
        for module in known.values()
        if module.name != FACADE and module.floor is not None and module.floor < APPS
        for found in imports(module, known)
        if found.through_facade
    ]


def unknown_targets(known: dict[str, Module]) -> list[str]:
    """Return every import of a module of ours that does not exist."""
    return [
        f"{module.where(found.line)} imports {found.target}, which does not exist"
        for module in known.values()
        for found in imports(module, known)
        if found.target not in known
    ]


def cycles(known: dict[str, Module]) -> list[str]:
    """Return the shortest import cycle through each module that is on one, each cycle once.

    Imports inside functions count: they hide a cycle and do not remove it. Imports for types only never run; they may
    name a neighbour on the same floor, and `upward` keeps them from any other.
    """
    graph: Graph = {name: {i.target for i in imports(module, known) if i.runs} for name, module in known.items()}
    found: dict[frozenset[str], str] = {}
    for name in graph:
        if path := _way_back(graph, name):
            found.setdefault(frozenset(path), " -> ".join(path))
    return list(found.values())


def _way_back(graph: Graph, start: str) -> list[str] | None:
    """Return the shortest path from `start` back to itself, both ends included."""
    queue = deque([[start]])
    seen: set[str] = set()
    while queue:
        path = queue.popleft()
        for target in sorted(graph.get(path[-1], ())):
            if target == start:
                return [*path, start]
            if target not in seen:
                seen.add(target)
                queue.append([*path, target])
    return None


RULES = [upward, rightward, facade_users, unknown_targets, cycles]


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_tree_keeps_the_rule(rule):
    """Every module of the project obeys the rule, wherever its imports stand."""
    known = modules()
    assert len(known) > 5
    assert not (faults := rule(known)), "\n" + "\n".join(faults)


BREAKS = {
    "a folder to the right": (rightward, "from atops.device.dte.context import DteContext"),
    "a plain import": (upward, "from atops.runtime.stream import Stream"),
    "inside a function": (upward, "def f():\n    import atops.runtime.stream as s"),
    "for types only": (
        upward,
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from atops.runtime import stream",
    ),
    "relative": (upward, "from ..runtime import stream"),
    "by name": (upward, "import importlib\nimportlib.import_module('atops.runtime.stream')"),
    "the facade": (facade_users, "import atops"),
    "a name of the facade": (facade_users, "from atops import Device"),
    "a package by way of the facade": (facade_users, "from atops import base"),
    "the facade bound by a dotted import": (facade_users, "import atops.base.codes"),
    "a module that is not there": (unknown_targets, "from atops.base.missing import Name"),
}


@pytest.mark.parametrize(("rule", "source"), BREAKS.values(), ids=BREAKS)
def test_the_rule_sees_a_break(tmp_path: Path, rule, source: str):
    """Each way to write a forbidden import is found, with its module and line."""
    packages = ["atops", "atops/base", "atops/device", "atops/device/dte", "atops/runtime"]
    plant(tmp_path, {f"{package}/__init__.py": "" for package in packages})
    plant(tmp_path, {"atops/runtime/stream.py": "", "atops/base/codes.py": "", "atops/device/dte/context.py": ""})
    good = "from atops.base.codes import X\nfrom ..base import codes\nimport numpy"
    assert rule(plant(tmp_path, {"atops/device/chip.py": good})) == []
    faults = rule(plant(tmp_path, {"atops/device/chip.py": source}))
    assert len(faults) == 1
    assert faults[0].startswith(f"atops.device.chip:{len(source.splitlines())}")


def test_a_cycle_is_reported_with_its_path(tmp_path: Path):
    """A cycle of three modules is one fault that names all three in order; one that only types close is none."""
    known = plant(
        tmp_path,
        {
            "atops/base/a.py": "from atops.base.b import x",
            "atops/base/b.py": "def f():\n    from atops.base.c import x",
            "atops/base/c.py": "from atops.base.a import x",
            "atops/base/d.py": "from atops.base.a import x",
            "atops/base/e.py": "import typing\nif typing.TYPE_CHECKING:\n    from atops.base.f import x",
            "atops/base/f.py": "from atops.base.e import x",
        },
    )
    assert cycles(known) == ["atops.base.a -> atops.base.b -> atops.base.c -> atops.base.a"]


def test_a_module_outside_the_table_is_reported(tmp_path: Path):
    """A new top-level module must be given a floor."""
    assert upward(plant(tmp_path, {"atops/extra.py": ""})) == ["atops.extra has no floor in the table"]
