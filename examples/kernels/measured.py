"""What the kernels of this folder share: each is held against numpy, its result and its time.

It knows no kernel. A kernel's file ends in `EXAMPLE = Measured(...)`, by which it is run, tested and benchmarked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import atops
from atops import kernels as k

__all__ = ("Array", "Measured", "corner")

Array = np.ndarray[Any, np.dtype[Any]]

REPEAT = 9
BOTH = ("gcu210", "gcu300")


@k.device
def corner(dte: k.tops_dte_ctx_t, tile: Any, *shape: int) -> Any:
    """Return the part of `shape` at the beginning of a tile in L1, for a transfer to take.

    That moves contiguous memory, as an mdspan describes it: whole rows of a tile are it, of shorter ones `slice` makes
    a copy. On gcu300 `slice_deslice` does both in one.
    """
    if shape[1:] == tile.shape[1:]:
        return tile[: shape[0]]
    part = k.local(shape, tile.dtype)
    k.slice(dte, part, tile, (0,) * len(shape))
    return part


@dataclass(frozen=True, slots=True)
class Measured:
    """A kernel example: the program that runs it, the numpy expression that is its equal, and problems for both.

    `problem(generator, *size)` returns the host arrays that `reference(*arrays)` and `await program(*arrays)` take.
    Both return one array, and the two are equal within `tolerance` (0: to the last bit). `size` is the one that times
    are stated for, `others` are what tests run, among them some that do not divide evenly. `chips` are those that the
    kernel runs on.
    """

    name: str
    program: Callable[..., Awaitable[Array]]
    reference: Callable[..., Array]
    problem: Callable[..., tuple[Any, ...]]
    size: tuple[int, ...]
    others: tuple[tuple[int, ...], ...]
    tolerance: float = 0.0
    chips: tuple[str, ...] = BOTH

    def arrays(self, *size: int, seed: int = 1) -> tuple[Any, ...]:
        """Return the host arrays of a problem, the same for the same seed."""
        return self.problem(np.random.default_rng(seed), *size)

    async def check(self, *size: int, seed: int = 1) -> None:
        """Run one problem on the current driver. Raises AssertionError unless the result is numpy's."""
        arrays = self.arrays(*size, seed=seed)
        result, wanted = await self.program(*arrays), self.reference(*arrays)
        found, expected = (f"{each.dtype}{list(each.shape)}" for each in (result, wanted))
        assert found == expected, f"{self.name} {size} must give {expected}, got {found}"
        np.testing.assert_allclose(result, wanted, self.tolerance, self.tolerance, err_msg=f"{self.name} {size}")

    async def launch_seconds(self, arrays: tuple[Any, ...]) -> float:
        """Run the program once, and return how long its launches took on the device, without uploads and fetches.

        A launch counts from when its stream has come to it, nothing before it left to do, to the end of its last
        thread. What is read for this is the driver's trace.
        """
        tracer = atops.current_driver().tracer
        tracer.clear()
        await self.program(*arrays)
        before: dict[int, int] = {}  # by stream, when the command before ended
        taken = 0
        for record in sorted(tracer.records()):  # the first field is the number of the command
            if record.kind.name == "LAUNCH":
                taken += record.finished_ns - max(record.submitted_ns, before.get(record.stream, 0))
            before[record.stream] = record.finished_ns
        return taken / 1e9

    def numpy_seconds(self, arrays: tuple[Any, ...]) -> float:
        """Run the numpy expression once, and return how long it took."""
        start = time.perf_counter()
        self.reference(*arrays)
        return time.perf_counter() - start

    async def measure(self) -> str:
        """Check the stated size, and return one line that says what the launch and numpy take, the best of several."""
        await self.check(*self.size)
        arrays = self.arrays(*self.size)
        pairs = [(await self.launch_seconds(arrays), self.numpy_seconds(arrays)) for _ in range(REPEAT)]
        launch, numpy = (min(side) for side in zip(*pairs, strict=True))
        size = " × ".join(f"{extent:,}" for extent in self.size)
        return f"{self.name}, {size}: {launch * 1e3:.2f} ms, numpy {numpy * 1e3:.2f} ms, ratio {launch / numpy:.1f}"

    def main(self) -> None:
        """Check and measure as a program, and print the line."""
        print(asyncio.run(self.measure()))
