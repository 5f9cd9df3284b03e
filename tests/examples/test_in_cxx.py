"""The kernels and the solutions of the puzzles in TOPS C++: right where those in Python are, on the same problems."""

from __future__ import annotations

import asyncio
import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops
from tests.examples.test_kernels import EXAMPLES
from tests.examples.test_kernels import FOLDER as KERNELS
from tests.examples.test_puzzles import FOLDER, PUZZLES, SIZES, judge

MODES: dict[str, dict[str, Any]] = {"default": {}, "seeded": {"dte": "seeded", "seed": 5}, "eager": {"dte": "eager"}}
ON_CHIPS = [(name, chip) for name, puzzle in PUZZLES.items() for chip in puzzle.CHIPS]

with pytest.MonkeyPatch.context() as patch:  # each finds what lies beside it, as when it is run as a program
    patch.syspath_prepend(FOLDER)
    judge_cxx = importlib.import_module("judge_cxx")
    patch.syspath_prepend(KERNELS)
    in_cxx = importlib.import_module("in_cxx")


@pytest.fixture(autouse=True)
def _compiler(compiler: None) -> None:
    pass


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_kernel_is_numpys_equal(name: str) -> None:
    """For sizes that divide evenly or not, on each chip, whenever transfers take effect, and on two OS threads."""
    example = in_cxx.example(name)

    async def main() -> None:
        for seed, size in enumerate(example.others):
            await example.check(*size, seed=seed)

    for chip in example.chips:
        for mode in MODES.values():
            atops.run(main, atops.EmulatorOptions(arch=chip, **mode))

    async def on_two_threads() -> None:
        async with atops.Driver(atops.EmulatorOptions(workers=2)):
            await main()

    asyncio.run(on_two_threads())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chip"), ON_CHIPS)
def test_a_solution_is_right(name: str, chip: str) -> None:
    """The judge says so of the puzzle's own problems, and it is right for others."""
    path = FOLDER / f"{name}.tops"
    verdict = judge_cxx.judged(path, chip)
    assert verdict.right, verdict.text
    assert re.fullmatch(rf"{name} on {chip}: right, \d+ runs", verdict.text)
    solution, puzzle = judge_cxx.solution(path, chip), PUZZLES[name]
    others = (puzzle.problem(*size, seed=seed) for seed, size in enumerate(SIZES[name], start=2))
    problems = [judge_cxx.with_extents(each) for each in others]

    async def main() -> list[Any]:
        return [(await judge.launch(solution, each))[0] for each in problems]

    for mode in MODES.values():
        for problem, found in zip(problems, atops.run(main, atops.EmulatorOptions(arch=chip, **mode)), strict=True):
            assert np.array_equal(found, problem.wanted), str(problem)


WRONG = {  # in which file, what is written instead of what, and what the verdict says
    "p08_shared": ("    __syncthreads();  // outside", "    //", "DataRace: race in shared"),
    "p12_prefix_sum": ("            __syncthreads();  // all have read", "", "DataRace: race in shared"),
    "p10_dot_product": ("        tops::wait(right_here);", "", "in flight"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_solution_is_told_why(name: str, tmp_path: Path) -> None:
    """The verdict names the mistake in the words of the language."""
    old, new, says = WRONG[name]
    text = (FOLDER / f"{name}.tops").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = tmp_path / f"{name}.tops"
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert says in judge_cxx.judged(path, "gcu300").text


def test_each_kernel_and_puzzle_has_its_file_in_cxx() -> None:
    """One beside each in Python, and none without it."""
    assert sorted(path.stem for path in FOLDER.glob("*.tops")) == sorted(PUZZLES)
    assert sorted(path.stem for path in KERNELS.glob("*.tops")) == sorted(EXAMPLES) == sorted(in_cxx.PROGRAMS)
