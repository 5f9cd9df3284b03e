"""Right kernels in C++ never fail, whichever thread goes on before an access: under seeds, strict, on all chips."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import atops
from atops.base.options import EmulatorOptions
from tests.examples import test_in_cxx as examples
from tests.kernels.cxx import test_race_programs as race_programs
from tests.kernels.cxx import test_strict as strict

Run = Callable[[], Awaitable[object]]
FEW, MANY = 4, 250  # seeds
DTE = ("wait", "eager", "seeded")  # when transfers take effect

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def race_module() -> Any:
    """Return the compiled text of the programs with a race each, and their twins."""
    return race_programs.compiled()


@pytest.fixture(scope="module")
def strict_module() -> Any:
    """Return the compiled text of the programs of strict mode."""
    return strict.compiled()


def _silent(chips: Iterator[str] | list[str], seeds: range, run: Run) -> None:
    """Run under each seed, and hold against what the detectors say, too."""
    for chip in chips:
        for seed in seeds:
            options = EmulatorOptions(arch=chip, detect=True, strict=True, seed=seed, dte=DTE[seed % 3])

            async def main() -> atops.Report:
                await run()
                return atops.report()

            try:
                report = atops.run(main, options)
            except Exception as error:
                raise AssertionError(f"{chip}, seed {seed}: {error}") from error
            assert report.verdict == "clean", (chip, seed, str(report))


def _launches(module: Any, name: str) -> Run:
    async def run() -> None:
        async with atops.Device(0).create_stream() as stream:
            x = stream.upload(np.zeros(256, np.float32))
            y = stream.upload(np.arange(256, dtype=np.float32))
            await stream.launch(module.function(name), (1, 12, 256 * name.startswith(("dyn", "past_dyn"))), x, y)

    return run


def _tables(race_module: Any, strict_module: Any, seeds: range) -> None:
    for name in race_programs.PROGRAMS:
        _silent(["gcu300"], seeds, _launches(race_module, f"{name}_twin"))
    for name in (*strict.RACES, *strict.RIGHT):
        kernel = name if name in strict.RIGHT else f"{name}_twin"
        _silent(["gcu300"], seeds, _launches(strict_module, kernel))


def _kernel(name: str, seeds: range) -> None:
    example = examples.in_cxx.example(name)
    size = min(example.others, key=np.prod)
    _silent(example.chips, seeds, lambda: example.check(*size, seed=1))


def _puzzle(name: str, chip: str, seeds: range) -> None:
    solution = examples.judge_cxx.solution(examples.FOLDER / f"{name}.tops", chip)
    size = min(examples.SIZES[name], key=np.prod)
    problem = examples.judge_cxx.with_extents(examples.PUZZLES[name].problem(*size, seed=2))

    async def run() -> None:
        found, *_ = await examples.judge.launch(solution, problem)
        assert np.array_equal(found, problem.wanted), str(problem)

    _silent([chip], seeds, run)


def test_the_programs_of_the_tables(race_module: Any, strict_module: Any) -> None:
    """A few seeds of each."""
    _tables(race_module, strict_module, range(FEW))


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_a_kernel_of_the_examples(name: str) -> None:
    """Two seeds, the smallest size."""
    _kernel(name, range(2))


@pytest.mark.parametrize("name", dict(examples.ON_CHIPS))
def test_a_puzzle(name: str) -> None:
    """Two seeds, the smallest size, on the last of its chips; the others are soak's."""
    _puzzle(name, dict(examples.ON_CHIPS)[name], range(2))


@pytest.mark.soak
def test_the_programs_of_the_tables_under_many_seeds(race_module: Any, strict_module: Any) -> None:
    """Hundreds."""
    _tables(race_module, strict_module, range(FEW, MANY))


@pytest.mark.soak
@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_a_kernel_of_the_examples_under_many_seeds(name: str) -> None:
    """Hundreds."""
    _kernel(name, range(2, MANY))


@pytest.mark.soak
@pytest.mark.parametrize(("name", "chip"), examples.ON_CHIPS)
def test_a_puzzle_under_many_seeds(name: str, chip: str) -> None:
    """Hundreds."""
    _puzzle(name, chip, range(MANY))
