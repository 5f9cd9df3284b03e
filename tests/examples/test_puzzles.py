"""The puzzles: each solution is correct beyond its own problems and in every mode, and wrong ones are told why."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import atops
from atops.base.errors import DataRace, DteError, IllegalAddress, KernelDeadlock, LaunchFailure, MissingAwait

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "puzzles"
NAMES = sorted(path.stem for path in FOLDER.glob("p*.py"))

with pytest.MonkeyPatch.context() as patch:  # a puzzle finds the judge beside it, as when it is run as a program
    patch.syspath_prepend(FOLDER)
    judge = importlib.import_module("judge")
    PUZZLES = {name: importlib.import_module(name) for name in NAMES}

# What the specifications say, worked out by hand: the arguments after `out`, and what comes out.
SPECS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "p01_map": (([1, -2, 0],), [3, -3, 1]),
    "p02_zip": (([1, 2, 3], [3, 2, -1]), [-2, 0, 4]),
    "p03_guards": (([1, -2, 0],), [1, 2, 0]),
    "p04_map_2d": (([[1, -2, 3]],), [[1, 4, 9]]),
    "p05_broadcast": (([[10], [20]], [[1, 2, 3]]), [[9, 8, 7], [19, 18, 17]]),
    "p06_blocks": (([5, 5, 5],), [5, 4, 3]),
    "p07_blocks_2d": (([[1, 2, 3], [4, 5, 6]],), [[1, 0, 0], [4, 5, 0]]),
    "p08_shared": (([*range(14)],), [*range(11, -1, -1), 13, 12]),
    "p09_pooling": (([-1, -2, -3, -4, -5, -3],), [-1, -2, -3, -3, -3, -3]),
    "p10_dot_product": (([1, 2, 3], [4, 5, -6]), [-4]),
    "p11_convolution": (([1, 2, 3], [1, 10]), [21, 32, 3]),
    "p12_prefix_sum": (([1, 2, -3, 4],), [1, 3, 0, 4]),
    "p13_axis_sum": (([[1, 2], [3, -3]],), [3, 0]),
    "p14_matrix_multiply": (([[1, 2], [3, 4]], [[0, 1], [1, 1]]), [[2, 3], [4, 7]]),
}

# Sizes beside a puzzle's own: around a block, a tile and a whole turn of the grid, and far from all of them.
SIZES: dict[str, tuple[tuple[int, ...], ...]] = {
    "p01_map": ((2,), (11,)),
    "p02_zip": ((3,), (11,)),
    "p03_guards": ((2,), (9,)),
    "p04_map_2d": ((1, 4), (3, 1), (2, 3)),
    "p05_broadcast": ((1, 4), (2, 2), (3, 3)),
    "p06_blocks": ((11,), (24,), (25,), (151,)),
    "p07_blocks_2d": ((3, 5), (4, 4), (7, 1), (13, 9)),
    "p08_shared": ((11,), (23,), (24,), (25,)),
    "p09_pooling": ((4,), (11,), (24,), (26,)),
    "p10_dot_product": ((63,), (65,), (769,), (1500,)),
    "p11_convolution": ((15, 2), (17, 1), (384, 7), (385, 16), (3, 40)),
    "p12_prefix_sum": ((7,), (9,), (191,), (193,), (500,)),
    "p13_axis_sum": ((2, 1), (3, 32), (4, 384), (1, 800)),
    "p14_matrix_multiply": ((11, 13, 12), (2, 40, 1), (12, 12, 24), (14, 5, 26)),
}

LONG = pytest.mark.slow
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "eager": {"dte": "eager"},
    "seeded": {"dte": "seeded", "seed": 5, "strict": True},
}

# Wrong solutions: in which puzzle, what is written instead of what, and what the verdict says.
WRONG: dict[str, tuple[str, str, str, type[BaseException] | None, str]] = {
    "no guard": (
        "p03_guards", "if i < a.size:", "if True:",
        IllegalAddress, r"thread \(1,0,0\) .* index 1 of dimension 0, whose extent is 1,",
    ),
    "a guard in one dimension only": (
        "p04_map_2d", " and column < a.shape[1]", "", IllegalAddress, "index 1 of dimension 1, whose extent is 1,",
    ),
    "the thread's number for the grid's": (
        "p06_blocks", "k.blockIdx.x * k.blockDim.x + k.threadIdx.x", "k.threadIdx.x",
        None, r"a of shape \(13,\).*\n.*out\[12\] was never stored",
    ),
    "rows and columns exchanged": (
        "p05_broadcast", "row, column = k.threadIdx.y, k.threadIdx.x", "row, column = k.threadIdx.x, k.threadIdx.y",
        None, r"out\[0, 3\] was never stored",
    ),
    "no barrier": (
        "p08_shared", "await k.syncthreads()  #", "pass  #",
        DataRace, r"race in shared memory.*\n.* stores, at p08.*\n.* loads, at p08.*\n.*`await k.syncthreads\(\)`",
    ),
    "a barrier without await": (
        "p08_shared", "await k.syncthreads()  #", "k.syncthreads()  #",
        MissingAwait, "asked for syncthreads at .* `await`",
    ),
    "a barrier inside the guard": (
        "p08_shared", "    await k.syncthreads()", "        await k.syncthreads()",
        KernelDeadlock, "thread 0 waits at syncthreads.*; threads 1-11 have left the kernel",
    ),
    "a barrier whose absence another order shows": (
        "p09_pooling", "await k.syncthreads()  # the window is here", "pass",
        DataRace, r"seed=None\n.*race in shared memory.*\n.* slice writes, at p09.*\n.* loads, at p09",
    ),
    "a wait is missing, and the context is used again": (
        "p10_dot_product", "await left_here", "pass", DteError, "memcpy on .* whose transfer is in flight: memcpy of",
    ),
    "a wait is missing at the end of the scope": (
        "p14_matrix_multiply", "await right_here", "pass",
        DteError, "destroy on .* whose transfer is in flight: slice of",
    ),
    "a wait that comes after the read": (
        "p10_dot_product",
        "            await right_here\n            sums[me] += np.dot(left[:size], right[:size])\n",
        "            sums[me] += np.dot(left[:size], right[:size])\n            await right_here\n",
        DataRace, "transfer in flight.*\n.*memcpy writes, at p10.*\n.*loads, at p10.*\n.*`await` the event",
    ),
    "one context for two transfers": (
        "p10_dot_product", "k.memcpy_async(other, ", "k.memcpy_async(dte, ", DteError, "or use a second context",
    ),
    "a whole tile at the end": (
        "p13_axis_sum", "size = min(TILE, row.size - start)", "size = TILE",
        IllegalAddress, "slice 0:32 of dimension 0, whose extent is 1,",
    ),
    "a sum that does not begin at 0": (
        "p13_axis_sum", "sums[me] = 0\n", "pass\n", DataRace, "read of unwritten memory: shared memory",
    ),
    "source and destination exchanged": (
        "p13_axis_sum", "k.memcpy(dte, tile[:size], row[start : start + size])",
        "k.memcpy(dte, row[start : start + size], tile[:size])",
        DataRace, "read of unwritten memory: local memory.*\n.*\n.*memcpy reads",
    ),
    "global memory indexed": (
        "p11_convolution", "k.memcpy(dte, weights, b)", "weights[:] = b",
        IllegalAddress, "gcu210 cannot reach global memory directly",
    ),
    "a mistake of Python": (
        "p01_map", "2 * a[i] + 1", "2 * a[i] + one", NameError, r"thread \(0,0,0\) .* 'one' .*p01_map",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_specification_says_what_the_task_says(name: str):
    """A small case, worked out by hand."""
    arguments, wanted = SPECS[name]
    found = PUZZLES[name].spec(*(np.array(each, np.float32) for each in arguments))
    assert found.dtype == np.float32
    assert np.array_equal(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right(name: str, capsys: pytest.CaptureFixture[str]):
    """The file, run as it stands, comes to its assert and says so in one short line."""
    PUZZLES[name].main()
    assert re.fullmatch(r"[\w ]+: right, \d+ runs\n", capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["seeded", pytest.param("default", marks=LONG), pytest.param("eager", marks=LONG)])
@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right_for_other_sizes_in_every_mode(name: str, mode: str):
    """On each chip that it is for, with other numbers, whenever transfers take effect."""
    puzzle = PUZZLES[name]
    problems = [puzzle.problem(*size, seed=seed) for seed, size in enumerate(SIZES[name], start=2)]
    for chip in puzzle.CHIPS:
        for problem, found in zip(problems, launched(puzzle, problems, arch=chip, **MODES[mode]), strict=True):
            assert np.array_equal(found[0], problem.wanted), (chip, str(problem))


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right_with_an_os_thread_for_each_thread(name: str):
    """Also when the threads of a block run at the same time, with no order but that of the barriers."""
    puzzle = PUZZLES[name]
    problem = puzzle.problem(*SIZES[name][-1], seed=9)

    async def main() -> Any:
        async with atops.Driver(atops.EmulatorOptions(workers="sip")):
            return await judge.launch(puzzle.solve, problem)

    assert np.array_equal(asyncio.run(main())[0], problem.wanted)


@pytest.mark.parametrize("name", [name for name in NAMES if "gcu210" not in PUZZLES[name].CHIPS])
def test_a_solution_for_one_chip_needs_that_chip(name: str):
    """What is not said to run on gcu210 indexes global memory, which that chip refuses."""
    puzzle = PUZZLES[name]
    with pytest.raises(LaunchFailure, match="gcu210 cannot reach global memory directly"):
        launched(puzzle, [puzzle.problem(*puzzle.SIZES[-1])], arch="gcu210")


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_solution_is_told_why(kind: str, tmp_path: Path):
    """The verdict names the mistake, and the error's own class where the emulator refused."""
    name, old, new, error, says = WRONG[kind]
    verdict = judged(name, old, new, tmp_path)
    assert not verdict.right
    assert (None if verdict.error is None else type(verdict.error)) is error, verdict.text
    assert re.search(says, verdict.text), verdict.text


def awaits() -> Iterator[Any]:
    """Yield each line of a solution that begins with `await`, with what follows it, which tells it from its likes."""
    for name in NAMES:
        text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        for match in re.finditer(r"^ +(await .*\n.*\n)", text, re.MULTILINE):
            yield pytest.param(name, match[1], id=f"{name}:{text.count(chr(10), 0, match.start()) + 1}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), list(awaits()))
def test_every_await_of_a_solution_is_needed(name: str, line: str, tmp_path: Path):
    """Without any one of them the judge says that the kernel is wrong: nothing is lucky."""
    assert not judged(name, line, "pass\n" + line.partition("\n")[2], tmp_path).right


@pytest.mark.slow
def test_a_learner_runs_a_copy(tmp_path: Path):
    """A copy beside the judge runs from anywhere; one that is wrong says why, and ends in its assert."""
    (tmp_path / "judge.py").write_text((FOLDER / "judge.py").read_text(encoding="utf-8"), encoding="utf-8")
    text = (FOLDER / "p06_blocks.py").read_text(encoding="utf-8")
    assert "if i < a.size:" in text
    for body, code, says in ((text, 0, "blocks: right"), (text.replace("if i < a.size:", "if i < 5:"), 1, "wrong")):
        copy = tmp_path / "my_blocks.py"
        copy.write_text(body, encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, "-B", "-W", "error", str(copy)],
            cwd=tmp_path.parent, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ended.returncode == code, ended.stderr
        assert says in ended.stdout
        assert bool(code) == ("AssertionError" in ended.stderr)


@pytest.mark.parametrize("name", NAMES)
def test_a_puzzle_is_fit_to_read(name: str):
    """It states its task in four parts, fits two screens, and uses public names and the judge only."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(text)) or ""
    assert doc.startswith(f"Puzzle {int(name[1:3])}, ")
    assert re.findall(r"^(\w+): ", doc, re.MULTILINE) == ["Given", "Wanted", "Teaches", "Hint"]
    assert len(text.splitlines()) <= 80
    assert re.findall(r"^(?:from|import) (\w[\w.]*)", text, re.MULTILINE)[-2:] == ["judge", "atops"]


def test_the_table_of_puzzles_is_complete():
    """The folder's README links every puzzle once, in order, says its chips, and leads nowhere else but to files."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d+) [^]]+\]\((\w+)\.py\) \|[^|]+\| (\w+) \|$", text, re.MULTILINE)
    assert [(int(number), name) for number, name, _ in rows] == list(enumerate(NAMES, start=1))
    for _, name, chips in rows:
        assert chips == ("both" if len(PUZZLES[name].CHIPS) == 2 else "gcu300")
    assert all((FOLDER / target).is_file() for target in re.findall(r"\]\(([^)#]+)\)", text))


def launched(puzzle: ModuleType, problems: list[Any], **options: Any) -> list[Any]:
    """Run a puzzle's solution on problems, on one board, and return what became of each problem's memory."""

    async def main() -> list[Any]:
        return [await judge.launch(puzzle.solve, problem) for problem in problems]

    return atops.run(main, atops.EmulatorOptions(**options))


def judged(name: str, old: str, new: str, folder: Path) -> Any:
    """Let the judge see a puzzle with `new` in place of `old`."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = folder / f"{name}.py"
    path.write_text(text.replace(old, new), encoding="utf-8")  # errors show the lines of a file
    changed: dict[str, Any] = {"__name__": "changed"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), changed)
    problems = [changed["problem"](*size) for size in changed["SIZES"]]
    return judge.check("wrong", changed["solve"], problems, changed["CHIPS"])
