"""Whatever is public says what it is; every test says what it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT, Module, modules, plant

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def undocumented(module: Module) -> list[str]:
    """Return the module itself, its public classes, functions and methods that have no docstring."""
    faults = [] if ast.get_docstring(module.tree) else [f"{module.where()} has no docstring"]
    for name, node in _public(module.tree, ""):
        if ast.get_docstring(node) is None and not _is_overload(node):
            faults.append(f"{module.where(node.lineno)} {name} has no docstring")
    return faults


def _public(parent: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    """Yield public definitions of the module and its public classes; what functions define inside is their affair."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name.startswith("_"):
                continue
            yield f"{prefix}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from _public(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _public(node, prefix)


def _is_overload(node: Definition) -> bool:
    """Say whether the definition is an overload or a setter, which the first definition documents."""
    names = [ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list]
    return any(name in ("overload", "setter", "deleter") for name in names)


def silent_tests(path: Path) -> list[str]:
    """Return the tests in a file that have no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return [
        f"{path.name}:{node.lineno} {node.name} has no docstring"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]


@pytest.mark.slow
def test_what_is_public_has_a_docstring():
    """Every module, public class, function and method of the package says what it is."""
    faults = [fault for module in modules(ROOT, "atops", "atops_widgets").values() for fault in undocumented(module)]
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.slow
def test_every_test_says_what_it_holds():
    """Every test function has a docstring."""
    faults = [fault for path in sorted((ROOT / "tests").rglob("test_*.py")) for fault in silent_tests(path)]
    assert not faults, "\n" + "\n".join(faults)


def test_missing_docstrings_are_seen(tmp_path: Path):
    """A silent module, class, method and function are found; overloads, dunder and private ones are not."""
    source = (
        "class A:\n    def f(self): ...\n    @f.setter\n    def f(self, v): ...\n    def __len__(self): ...\n"
        "if True:\n    async def g():\n        def inner(): ...\ndef _h(): ...\n@overload\ndef o(): ...\n"
    )
    module = plant(tmp_path, {"atops/base/a.py": source})["atops.base.a"]
    assert [fault.removesuffix(" has no docstring") for fault in undocumented(module)] == [
        "atops.base.a:1",
        "atops.base.a:1 A",
        "atops.base.a:2 A.f",
        "atops.base.a:7 g",
    ]


def test_silent_tests_are_seen(tmp_path: Path):
    """A test without a docstring is found, also an async one in a class."""
    path = tmp_path / "test_a.py"
    source = 'class T:\n    async def test_b(self): ...\ndef test_c():\n    """Hold."""\ndef other(): ...\n'
    path.write_text(source, encoding="utf-8")
    assert silent_tests(path) == ["test_a.py:2 test_b has no docstring"]
