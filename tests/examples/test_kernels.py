"""The ten kernels: each is numpy's equal for every size and seed, in every mode and on each chip that it is for."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import atops
from atops.base.errors import AtopsError
from tests.examples.forks import Ran, run_each

pytestmark = pytest.mark.timeout(300)  # the first test runs all programs

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kernels"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("measured", "in_cxx"))

with pytest.MonkeyPatch.context() as patch:  # a kernel finds `measured` beside it, as when it is run as a program
    patch.syspath_prepend(FOLDER)
    EXAMPLES = {name: importlib.import_module(name).EXAMPLE for name in NAMES}

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "strict": {"strict": True},
    "eager": {"dte": "eager", "strict": True},
    "seeded": {"dte": "seeded", "seed": 5, "strict": True},
    "another order": {"seed": 8},
}

# Lines that a kernel cannot do without: with one of them taken away the result is wrong or the launch fails.
NEEDED = [
    ("bitonic_sort", "await k.syncblocks()"),
    ("bitonic_sort", "await k.syncthreads()  # no thread reads a chunk that another has still to store"),
    ("key_value_cache", "await appended"),
    ("key_value_cache", "await read"),
    ("softmax", "await k.slice_transpose_async(dte, tile, x, (part.start, 0), (1, 0), -np.inf)"),
    ("elementwise", "await arriving[now]"),
    ("elementwise", "await leaving[now]"),
    ("elementwise", "await leaving[0]"),
    ("elementwise", "await leaving[1]"),
    ("reduction", "await k.syncthreads()"),
    ("cooperative_standardise", "await k.syncblocks()"),
    ("matrix_multiply", "await k.syncthreads()  # the tiles are there"),
    ("matrix_multiply", "await k.syncthreads()  # everybody has its part of them"),
    ("transposed_bias", "await turn.trigger()"),
    ("transposed_bias", "await spread_out"),
]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_numpys_equal(name: str, mode: str):
    """For sizes that divide evenly and that do not, with other numbers each, on each chip, in each mode."""
    example = EXAMPLES[name]

    async def main() -> None:
        for seed, size in enumerate(example.others):
            await example.check(*size, seed=seed)

    for chip in example.chips:
        atops.run(main, atops.EmulatorOptions(arch=chip, **MODES[mode]))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, "sip"])
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_numpys_equal_on_several_os_threads(name: str, workers: Any):
    """Also when blocks, or all threads of a block, run at the same time."""
    example = EXAMPLES[name]

    async def main() -> None:
        async with atops.Driver(atops.EmulatorOptions(workers=workers)):
            for size in example.others[-2:]:
                await example.check(*size, seed=3)

    asyncio.run(main())


@pytest.mark.parametrize("name", [name for name in NAMES if "gcu210" not in EXAMPLES[name].chips])
def test_a_kernel_for_one_chip_needs_that_chip(name: str):
    """What is not said to run on gcu210 is refused there, by name."""
    example = EXAMPLES[name]
    with pytest.raises(AtopsError, match="gcu210"):
        atops.run(example.check, atops.EmulatorOptions(arch="gcu210"), *example.others[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "line"), NEEDED, ids=[f"{name}: {line}" for name, line in NEEDED])
def test_each_wait_is_needed(name: str, line: str, tmp_path: Path):
    """Without it the stated problem goes wrong in strict mode, in one order of the threads or another."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert text.count(line) == 1
    path = tmp_path / f"{name}.py"
    path.write_text(text.replace(line, "pass"), encoding="utf-8")  # errors show the lines of a file
    changed: dict[str, Any] = {"__name__": "changed"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), changed)
    example = changed["EXAMPLE"]
    with pytest.raises((AssertionError, AtopsError)):
        for seed in (None, 1, 2):
            atops.run(example.check, atops.EmulatorOptions(strict=True, seed=seed), *example.size)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run all kernels as programs."""
    return run_each([FOLDER / f"{name}.py" for name in NAMES], tmp_path_factory.mktemp("kernels"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_runs_as_a_program(name: str, ran: Ran):
    """It checks itself at its stated size and prints one line with both times and their ratio; none is judged here."""
    ended = ran[FOLDER / f"{name}.py"]
    assert ended.returncode == 0, ended.stderr
    size = " × ".join(f"{extent:,}" for extent in EXAMPLES[name].size)
    print(ended.stdout)
    says = rf"{re.escape(EXAMPLES[name].name)}, {size}: [\d.]+ ms, numpy [\d.]+ ms, ratio [\d.]+\n"
    assert re.fullmatch(says, ended.stdout)


def test_a_wrong_result_is_refused():
    """One element that differs, another shape or another type is no match, within a tolerance or without."""
    example = EXAMPLES["elementwise"]
    for wrong in (lambda x: x + 1, lambda x: x[:-1], lambda x: x.astype("f8")):
        spoilt = replace(example, reference=lambda x, wrong=wrong: wrong(example.reference(x)))
        with pytest.raises(AssertionError, match=example.name):
            atops.run(spoilt.check, atops.EmulatorOptions(), 5)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_fit_to_read(name: str):
    """It opens with its idea and with what to look at, and uses public names and the harness only."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert "Look at: " in (ast.get_docstring(ast.parse(text)) or "")
    assert len(text.splitlines()) <= 140
    assert set(re.findall(r"^\s*(?:from|import) (\w[\w.]*)", text, re.MULTILINE)) <= {
        "__future__", "atops", "itertools", "measured", "numpy", "typing",
    }  # fmt: skip


def test_the_table_of_kernels_is_complete():
    """The folder's README links every kernel once, and nothing else of the folder but what they share."""
    linked = re.findall(r"\]\((\w+)\.py\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(linked) == sorted([*NAMES, "in_cxx", "measured"])
