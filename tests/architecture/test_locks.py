"""Locks of modules and classes outlive a fork, and so are made by `fork_safe`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT, Module, modules, plant

MAKERS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "make_lock", "cached_property"}


def unsafe_locks(module: Module) -> list[str]:
    """Return the places where a lock that a fork may copy as taken is made outside of functions."""
    return [f"{module.where(node.lineno)}: {_name(node)}" for node in _found(module.tree)]


def _found(node: ast.AST) -> list[ast.expr]:
    """Return what makes a lock when the module is imported: a call, or the decorator of a function."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [each for each in node.decorator_list if _name(each) in MAKERS]
    if isinstance(node, ast.Lambda) or (isinstance(node, ast.Call) and _name(node) == "fork_safe"):
        return []
    found = [node] if isinstance(node, ast.Call) and _name(node) in MAKERS else []
    return found + [each for child in ast.iter_child_nodes(node) for each in _found(child)]


def _name(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]


@pytest.mark.slow
def test_module_locks_are_free_after_a_fork():
    """Each is made as `fork_safe(threading.Lock())`; a cached property, which locks its class, is none of ours."""
    faults = [fault for module in modules(ROOT, "atops", "atops_widgets").values() for fault in unsafe_locks(module)]
    assert not faults, "wrap these in fork_safe (atops.base.locks):\n" + "\n".join(faults)


def test_an_unsafe_lock_is_seen(tmp_path: Path):
    """A lock of a module, of a class and of a cached property is found; one of an object and a safe one are not."""
    source = (
        "import threading\nA = threading.Lock()\nB = fork_safe(threading.RLock())\nclass C:\n    D = RLock()\n"
        "    @functools.cached_property\n    def e(self): return threading.Lock()\n"
        "    def __init__(self): self.lock = threading.Lock()\n"
    )
    plant(tmp_path, {"atops/base/a.py": source})
    module = modules(tmp_path, "atops")["atops.base.a"]
    assert unsafe_locks(module) == ["atops.base.a:2: Lock", "atops.base.a:5: RLock", "atops.base.a:6: cached_property"]
