"""The kernels of `examples/kernels`, each at its stated size, beside the numpy expression that is its equal.

It knows no kernel: it loads what lies in the folder, which comes with the source tree only.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import atops
from benchmarks.measuring.figures import Figure, Skipped, at_most, compared
from benchmarks.measuring.measure import Effort, Times, interleave_async

__all__ = ("FOLDER", "example_kernels")

FOLDER = Path(atops.__file__).parents[1] / "examples" / "kernels"
HARNESS = "measured"  # what the kernels have in common; every other file is one


def example_kernels(effort: Effort) -> Iterator[Figure]:
    """Yield the time of each kernel's launches against numpy. Raises Skipped in an installed package."""
    paths = sorted(path for path in FOLDER.glob("[a-z]*.py") if path.stem != HARNESS)
    if not paths:
        raise Skipped("the example kernels come with the source tree, and this is an installed package")
    with _importable(FOLDER):
        examples = [runpy.run_path(str(path))["EXAMPLE"] for path in paths]
    for example in examples:
        times = asyncio.run(_times(example, effort))
        yield compared(
            example.name, times, "kernel", "numpy", reference="numpy", unit="ms", count=1, budget=at_most(12)
        )  # fmt: skip


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let the files of a folder import each other, as they do when one of them is run as a program."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


async def _times(example: Any, effort: Effort) -> Times:
    """Check an example on a board of its own, and return its times."""
    size = example.others[0] if effort.smoke else example.size
    async with atops.Driver():
        await example.check(*size)
        arrays = example.arrays(*size)

        async def kernel() -> float:
            seconds: float = await example.launch_seconds(arrays)
            return seconds

        async def numpy() -> float:
            seconds: float = example.numpy_seconds(arrays)
            return seconds

        return await interleave_async(effort.times(2), kernel=kernel, numpy=numpy)
