"""How the bench measures: subject and reference in turn, and the median of the ratios of neighbours.

Where others use the same few cores, load and clock rate change within seconds. Two neighbouring repetitions (A B A B
...) see nearly the same of both, so it cancels in their ratio, and the median forgets the pairs in which it changed
half-way. Minima do as well for code of one thread, but two threads that share the interpreter lock have several modes
(they may take turns at every command, or once in 5 ms), each of which lasts for seconds: the minimum reports the best
one, the median the one that a user gets. A figure without a reference has nothing to cancel with; there the least of
the repetitions is taken, since load can only add to it.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import atops

__all__ = ("Effort", "Times", "board", "interleave", "interleave_async", "numpy_on_one_thread", "timed")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure: `repeat` repetitions of full size, or in a smoke run one of a tiny size."""

    smoke: bool = False
    repeat: int = 7

    def size(self, full: int, tiny: int) -> int:
        """Return the size of a repetition."""
        return tiny if self.smoke else full

    def times(self, factor: float = 1) -> int:
        """Return how many repetitions to make, where a row needs `factor` times as many as usual."""
        return 1 if self.smoke else max(1, round(self.repeat * factor))


class Times:
    """What each side took, in seconds, repetition by repetition."""

    __slots__ = ("_sides",)

    def __init__(self, sides: Mapping[str, list[float]]) -> None:
        self._sides = sides

    def least(self, side: str) -> float:
        """Return the shortest time of a side."""
        return min(self._sides[side])

    def typical(self, side: str) -> float:
        """Return the median time of a side."""
        return statistics.median(self._sides[side])

    def ratio(self, side: str, other: str) -> float:
        """Return how many times as long `side` takes as `other`: the median over the pairs of neighbours."""
        return statistics.median(self._ratios(side, other))

    def gain(self, sides: tuple[str, str], others: tuple[str, str]) -> float:
        """Return how many times the ratio of two sides is that of two others: the median over the rounds."""
        pairs = zip(self._ratios(*sides), self._ratios(*others), strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    def spread(self, side: str, other: str) -> tuple[float, float]:
        """Return the quartiles between which the middle half of the ratios lies: how far to trust them."""
        ratios = self._ratios(side, other)
        if len(ratios) < 2:
            return ratios[0], ratios[0]
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return low, high

    def _ratios(self, side: str, other: str) -> list[float]:
        return [mine / theirs for mine, theirs in zip(self._sides[side], self._sides[other], strict=True)]


def interleave(times: int, clean: bool = False, /, **sides: Callable[[], float]) -> Times:
    """Run the sides in turn, `times` times after one round to warm up. Each returns the seconds that it took.

    `clean` collects garbage before each turn: where sides leave very different amounts of it, the next would pay.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(times + 1):
        for name, side in sides.items():
            if clean:
                gc.collect()
            seconds = side()
            if turn:
                taken[name].append(seconds)
    return Times(taken)


async def interleave_async(times: int, /, **sides: Callable[[], Awaitable[float]]) -> Times:
    """As `interleave`, for sides that are awaited."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(times + 1):
        for name, side in sides.items():
            seconds = await side()
            if turn:
                taken[name].append(seconds)
    return Times(taken)


def timed(action: Callable[[], object]) -> Callable[[], float]:
    """Return a side that takes the time of the whole action."""

    def side() -> float:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    return side


@contextmanager
def board(**options: Any) -> Iterator[atops.Device]:
    """Yield device 0 of a driver of its own, made with these options."""
    driver = atops.Driver(atops.EmulatorOptions(**options))
    try:
        yield atops.Device(0, driver)
    finally:
        driver.close()


@contextmanager
def numpy_on_one_thread() -> Iterator[bool]:
    """Have numpy multiply matrices on one OS thread, as many as a board has for kernels. Yields whether it does.

    Its library, OpenBLAS, else takes all cores, and its threads spin on them for a while after each product.
    """
    with open("/proc/self/maps") as file:
        paths = {line.split(maxsplit=5)[-1].strip() for line in file if "openblas" in line}
    calls = [found for path in sorted(paths) if (found := _thread_calls(path)) is not None]
    before = [count() for count, _ in calls]
    for _, set_count in calls:
        set_count(1)
    try:
        yield bool(calls)
    finally:
        for (_, set_count), count in zip(calls, before, strict=True):
            set_count(count)


def _thread_calls(path: str) -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """Return what tells and sets the number of threads of an OpenBLAS, whose names its builds decorate."""
    if not Path(path).is_file():
        return None
    library = ctypes.CDLL(path)
    for before in ("", "scipy_"):
        for behind in ("", "64_"):
            names = [f"{before}openblas_{verb}_num_threads{behind}" for verb in ("get", "set")]
            if all(hasattr(library, name) for name in names):
                return getattr(library, names[0]), getattr(library, names[1])
    return None
