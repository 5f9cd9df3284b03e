"""The judge of solutions in TOPS C++: `python judge_cxx.py p08_shared.tops`, and without a file all that lie here.

The puzzle is found by the file's name, up to the first underscore. The kernel is `solve`, and gets what the one in
Python gets, and then, because a pointer has no shape, the extents of each input: of `a`, and of `b` if there is one.
It needs a C++ compiler.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from judge import Problem, Verdict, check

from atops import kernels as k

__all__ = ("judged", "puzzle_of", "solution", "with_extents")

HERE = Path(__file__).resolve().parent


def judged(path: Path, chip: str) -> Verdict:
    """Let the judge see the kernel of a file on one chip. Raises FileNotFoundError where no puzzle has its number."""
    puzzle = puzzle_of(path)
    problems = [with_extents(puzzle.problem(*size)) for size in puzzle.SIZES]
    return check(f"{path.stem} on {chip}", solution(path, chip), problems, (chip,))


def solution(path: Path, chip: str) -> Any:
    """Compile a file for a chip, and return its kernel. Raises CompileError with the compiler's words."""
    text = path.read_text(encoding="utf-8")
    return k.compile_source(text, path.name, (f"--gpu-architecture={chip}",)).module().function("solve")


def puzzle_of(path: Path) -> Any:
    """Import the puzzle of a file, by its number."""
    for each in HERE.glob(f"{path.stem.partition('_')[0]}_*.py"):
        return importlib.import_module(each.stem)
    raise FileNotFoundError(f"{path.name}: no puzzle is called so; call the file p08_shared.tops or p08_mine.tops")


def with_extents(problem: Problem) -> Problem:
    """Return a problem whose kernel gets the extents of the inputs, too."""
    return replace(problem, numbers=tuple(extent for each in problem.inputs for extent in each.shape))


def main(*names: str) -> None:
    """Judge the files, or all that lie here."""
    wrong = 0
    for path in [Path(name) for name in names] or sorted(HERE.glob("p*.tops")):
        for chip in puzzle_of(path).CHIPS:
            verdict = judged(path, chip)
            print(verdict)
            wrong += not verdict.right
    assert not wrong, f"{wrong} of them wrong"


if __name__ == "__main__":
    main(*sys.argv[1:])
