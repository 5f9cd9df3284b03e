"""The kernels of `examples/kernels`, each at its stated size, beside the numpy expression that is its equal.

It knows no kernel: it loads what lies in the folder, which comes with the source tree only.
"""

from __future__ import annotations

import asyncio
import runpy
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import atops
from benchmarks.measuring.figures import Figure, Skipped, at_most, compared
from benchmarks.measuring.measure import Effort, Times, board, interleave, interleave_async, numpy_on_one_thread, timed
from benchmarks.rows.vector_add import Vectors, add_tiles

__all__ = ("FOLDER", "NUMPY", "detectors", "example_kernels", "example_times", "importable")

FOLDER = Path(atops.__file__).parents[1] / "examples" / "kernels"
MODES: dict[str, dict[str, Any]] = {"default": {}, "detect": {"detect": True}, "strict": {"strict": True}}
NUMPY = ("numpy", "numpy, 1 thread")  # as all cores that it takes, and on one
HARNESS = {"measured", "in_cxx"}  # what the kernels have in common; every other file is one


def example_kernels(effort: Effort) -> Iterator[Figure]:
    """Yield the time of each kernel's launches against numpy. Raises Skipped in an installed package."""
    for example in _examples():
        with numpy_on_one_thread() as alone:
            times = asyncio.run(example_times(example, effort))
        yield compared(
            example.name, times, "kernel", "numpy", reference=NUMPY[alone], unit="ms", count=1, budget=at_most(12)
        )  # fmt: skip


def _examples() -> list[Any]:
    """Return the example of each file. Raises Skipped in an installed package."""
    paths = sorted(path for path in FOLDER.glob("[a-z]*.py") if path.stem not in HARNESS)
    if not paths:
        raise Skipped("the example kernels come with the source tree, and this is an installed package")
    with importable(FOLDER):
        return [runpy.run_path(str(path))["EXAMPLE"] for path in paths]


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let the files of a folder import each other, as they do when one of them is run as a program."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


async def example_times(example: Any, effort: Effort, workers: int = 1) -> Times:
    """Check an example on a board of its own with so many OS threads for kernels, and return its times."""
    size = example.others[0] if effort.smoke else example.size
    async with atops.Driver(atops.EmulatorOptions(workers=workers)):
        await example.check(*size)
        arrays = example.arrays(*size)

        async def kernel() -> float:
            seconds: float = await example.launch_seconds(arrays)
            return seconds

        async def numpy() -> float:
            seconds: float = example.numpy_seconds(arrays)
            return seconds

        return await interleave_async(effort.times(2), kernel=kernel, numpy=numpy)


# ---- what the detectors of races cost: the modes take turns, each on a driver of its own


def detectors(effort: Effort) -> Iterator[Figure]:
    """Yield the time of a vector add and of each example kernel with the detectors, against the default."""
    with ExitStack() as boards:
        sides = {mode: Vectors(boards.enter_context(board(**options)), effort.size(1 << 20, 1 << 12))
                 for mode, options in MODES.items()}  # fmt: skip
        times = interleave(
            effort.times(5), False, **{mode: timed(_launch(vectors)) for mode, vectors in sides.items()}
        )  # fmt: skip
    name = "vector add 1M, 32 KiB tiles"
    yield compared(
        f"{name}, detect", times, "detect", "default", reference="off", unit="ms", count=1, budget=at_most(4)
    )  # fmt: skip
    yield compared(
        f"{name}, strict", times, "strict", "default", reference="default", unit="ms", count=1, budget=at_most(6)
    )  # fmt: skip
    try:
        examples = _examples()
    except Skipped:  # an installed package has none
        return
    ratios, last = [], times
    for example in examples:
        last = asyncio.run(_mode_times(example, effort))
        ratios.append((last.ratio("detect", "default"), last))
        short = example.name.partition(",")[0]
        yield compared(
            f"{short}, detect", last, "detect", "default",
            reference="off", unit="ms", count=1, budget=at_most(3),
        )  # fmt: skip
        yield compared(
            f"{short}, strict", last, "strict", "default",
            reference="default", unit="ms", count=1, budget=at_most(6),
        )  # fmt: skip
    middle = statistics.median_low(ratio for ratio, _ in ratios)
    last = next(times for ratio, times in ratios if ratio == middle)
    yield compared(
        "the median of them, detect", last, "detect", "default",
        reference="off", unit="ms", count=1, budget=at_most(2),
    )  # fmt: skip


def _launch(vectors: Vectors) -> Callable[[], None]:
    return lambda: vectors.launch(add_tiles)


async def _mode_times(example: Any, effort: Effort) -> Times:
    """Return the times of an example's launches, each on a driver that is made for it."""
    arrays = example.arrays(*(example.others[0] if effort.smoke else example.size))

    def side(options: dict[str, Any]) -> Callable[[], Awaitable[float]]:
        async def run() -> float:
            async with atops.Driver(atops.EmulatorOptions(**options)):
                await example.launch_seconds(arrays)
                seconds: float = await example.launch_seconds(arrays)
                return seconds

        return run

    return await interleave_async(effort.times(2), **{mode: side(options) for mode, options in MODES.items()})
