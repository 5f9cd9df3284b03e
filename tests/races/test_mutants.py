"""Each await and barrier of the puzzles and the example kernels is needed: without it a race or an error is named."""

from __future__ import annotations

import ast
import importlib
import runpy
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from atops.base.errors import AtopsError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PUZZLES = sorted((EXAMPLES / "puzzles").glob("p*.py"))
KERNELS = sorted(path for path in (EXAMPLES / "kernels").glob("*.py") if path.stem != "measured")
pytestmark = pytest.mark.slow

with pytest.MonkeyPatch.context() as patch:  # what they import lies beside them
    patch.syspath_prepend(EXAMPLES / "puzzles")
    patch.syspath_prepend(EXAMPLES / "kernels")
    judge = importlib.import_module("judge")
    importlib.import_module("measured")


class Without(ast.NodeTransformer):
    """Take one `await` out of the kernels of a text: a barrier goes, a transfer is only issued."""

    def __init__(self, which: int) -> None:
        self.which, self.seen, self.inside = which, 0, False
        self.taken = ""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Go into kernels and their functions."""
        before, self.inside = self.inside, self.inside or any("k." in ast.unparse(e) for e in node.decorator_list)
        self.generic_visit(node)
        self.inside = before
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        """Take it out, if it is the one."""
        if self.inside:
            self.seen += 1
            if self.seen - 1 == self.which:
                text = ast.unparse(node)
                self.taken = f"line {node.lineno}: {text}"
                return ast.copy_location(ast.Constant(None), node) if "k.sync" in text else node.value
        return node


def mutants(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield what was taken out of a file, and the module without it."""
    for which in range(100):  # more than any has
        without = Without(which)
        tree = ast.fix_missing_locations(without.visit(ast.parse(path.read_text())))
        if not without.taken:
            return
        module = types.ModuleType("mutant")
        exec(compile(tree, str(path), "exec"), module.__dict__)
        yield without.taken, module


def named(program: Any, *arguments: Any, chip: str) -> bool:
    """Run a program once with the detectors. Return whether a race was reported, or something else refused it."""
    try:
        atops.run(program, atops.EmulatorOptions(arch=chip, detect=True), *arguments)
    except AtopsError:
        return True
    return atops.report().verdict == "race"


@pytest.mark.parametrize("path", PUZZLES, ids=lambda path: path.stem)
def test_a_puzzle_needs_each_of_its_waits(path: Path) -> None:
    """One run of each problem is enough, with the threads in turn."""
    for taken, module in mutants(path):
        problems = [module.problem(*size) for size in module.SIZES]
        assert any(named(judge.launch, module.solve, each, chip=module.CHIPS[0]) for each in problems), taken


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_an_example_kernel_needs_each_of_its_waits(path: Path) -> None:
    """One run of each size is enough; the stated one comes last, where tiles come round."""
    for taken, module in mutants(path):
        example = module.EXAMPLE
        cases = (example.problem(np.random.default_rng(1), *size) for size in (*example.others, example.size))
        assert any(named(example.program, *each, chip=example.chips[-1]) for each in cases), taken


@pytest.mark.parametrize("path", [*PUZZLES, *KERNELS], ids=lambda path: path.stem)
def test_as_they_stand_nothing_is_reported(path: Path) -> None:
    """On each chip, whenever transfers take effect."""
    module = types.SimpleNamespace(**runpy.run_path(str(path)))
    example = getattr(module, "EXAMPLE", None)
    for chip in module.CHIPS if example is None else example.chips:
        for dte in ("wait", "eager"):
            options = atops.EmulatorOptions(arch=chip, detect=True, dte=dte)
            if example is None:
                for size in module.SIZES:
                    atops.run(judge.launch, options, module.solve, module.problem(*size))
                    assert not atops.report().races, str(atops.report())
            else:
                for size in example.others:
                    atops.run(example.program, options, *example.problem(np.random.default_rng(1), *size))
                    assert not atops.report().races, str(atops.report())
