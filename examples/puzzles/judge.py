"""The judge of the puzzles: it runs a kernel on problems, in several orders of the threads, and says what it found.

It knows no puzzle. Runs are strict and inline, so that what it found once, it finds again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import atops
from atops.base.errors import AtopsError

__all__ = ("Array", "Problem", "Verdict", "check", "launch", "numbers")

Array = np.ndarray[Any, np.dtype[Any]]
Extent = int | tuple[int, ...]

NAMES = "ab"  # what the puzzles call their inputs
ORDERS = (None, 1, 2)  # the threads of a block in turn, and shuffled by two seeds
TRACE = 1e-9  # results are whole numbers: what is nearer to 0 than this, and is not 0, comes from the bytes 0xA5


@dataclass(frozen=True, slots=True)
class Problem:
    """One task for `kernel(out, *inputs, *numbers)`: what it gets, the `out` that is wanted, and the launch."""

    inputs: tuple[Array, ...]
    wanted: Array
    grid: Extent
    block: Extent
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        shapes = (f"{name} of shape {each.shape}" for name, each in zip(NAMES, self.inputs, strict=False))
        return f"with {', '.join(shapes)}, launched as ({self.grid}, {self.block})"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judge's answer: whether the kernel is correct, a text for the learner, the error that ended a run if any."""

    right: bool
    text: str
    error: BaseException | None = None

    def __str__(self) -> str:
        return self.text


def check(name: str, kernel: Any, problems: Sequence[Problem], chips: Sequence[str]) -> Verdict:
    """Run a kernel on each problem, on each chip and in each order of the threads, as far as the first fault."""
    for seed, chip in product(ORDERS, chips):
        options = atops.EmulatorOptions(arch=chip, seed=seed, strict=True)
        found = atops.run(_first_fault, options, kernel, problems)
        if found is not None:
            problem, fault, error = found
            return Verdict(False, f"{name}: wrong {problem}, on {chip}, seed={seed}\n  {fault}", error)
    return Verdict(True, f"{name}: right, {len(ORDERS) * len(chips) * len(problems)} runs")


async def launch(kernel: Any, problem: Problem) -> list[Array]:
    """Run a kernel once and return `out`, which is NaN everywhere before the run, and the inputs afterwards.

    Raises the failure of the launch.
    """
    async with atops.Device(0).create_stream() as stream:
        out = stream.upload(np.full_like(problem.wanted, np.nan))
        inputs = [stream.upload(each) for each in problem.inputs]
        stream.launch(kernel, (problem.grid, problem.block), out, *inputs, *problem.numbers)
        await stream
        return [await stream.fetch(each) for each in (out, *inputs)]


def numbers(seed: int, *shape: int) -> Array:
    """Return whole numbers from -9 to 9 as float32: their sums are exact, in whatever order they are added."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


async def _first_fault(kernel: Any, problems: Sequence[Problem]) -> tuple[Problem, str, BaseException | None] | None:
    """Return the first problem that comes out wrong, with the fault and the error; None where all are correct."""
    for problem in problems:
        try:
            out, *inputs = await launch(kernel, problem)
        except AtopsError as failure:
            error = failure.__cause__ or failure  # what the kernel's thread raised, if it was one
            if isinstance(error, AtopsError):
                return problem, f"{type(error).__name__}: {error}", error
            return problem, str(failure), error  # it says where the thread was, which Python's own errors do not
        if fault := _spoilt(problem, inputs) or _difference(problem.wanted, out):
            return problem, fault, None
    return None


def _spoilt(problem: Problem, inputs: Sequence[Array]) -> str:
    """Say which input the kernel stored into, if any."""
    for name, before, after in zip(NAMES, problem.inputs, inputs, strict=False):
        if not np.array_equal(before, after):
            return f"the kernel stored into {name}, which is given; where data is moved, the destination comes first"
    return ""


def _difference(wanted: Array, out: Array) -> str:
    """Say which element of `out` is wrong first, and how, if any."""
    places = np.argwhere(out != wanted)
    if not len(places):
        return ""
    place = tuple(int(each) for each in places[0])
    value = out[place]
    if np.isnan(value):
        said = "was never stored"
    elif 0 < abs(value) < TRACE:
        said = f"is {value:.3g}, made of the bytes 0xA5: memory was read before it was stored or awaited"
    else:
        said = f"is {value:.6g}"
    return f"out{list(place)} {said}, expected {wanted[place]:g} ({len(places)} of {out.size} elements are wrong)"
