"""What the vector types cost: one operation on a `__vector4 float`, beside numpy on an array of the same bytes.

Both sides are timed inside a kernel, statement by statement, where they see the same machine, and checked first: they
give the same lanes.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from atops import kernels as k
from benchmarks.measuring.figures import Figure, at_most, compared
from benchmarks.measuring.measure import Effort, Times, board, interleave

__all__ = ("in_kernel", "operands", "outcome", "vector_operations")

LANES = 128  # of a __vector4 float: 512 bytes
MANY = 64  # vectors of an array: 32 KiB

# What is measured, as a statement on vectors and as one on arrays. v and w are vectors, m and n masks, a an array of
# vectors; x, y, p, q and b are numpy's arrays of the same lanes; memory lies in L1.
STATEMENTS = (
    ("add", "v + w", "x + y"),
    ("multiply", "v * w", "x * y"),
    ("compare", "v < w", "x < y"),
    ("mask algebra", "m & ~n", "p & ~q"),
    ("select", "m.select(v, w)", "np.where(p, x, y)"),
    ("load", "F.load(memory, 128)", "memory[128:256].copy()"),
    ("store", "v.store(memory, 128)", "memory[128:256] = x"),
    ("exp", "k.exp(v)", "np.exp(x)"),
    ("add, 64 vectors at once", "a + a", "b + b"),
)


@k.kernel
def in_kernel(row: int, side: int, count: np.int32, report: Callable[[float], None]) -> None:
    """Run one statement of a row `count` times, and report the seconds. Raises AssertionError if the row is uneven."""
    names = operands()
    _, vectors, arrays = STATEMENTS[row]
    found, wanted = outcome(vectors, names), outcome(arrays, names)
    assert np.allclose(found, wanted, rtol=1e-6), f"{vectors} is not {arrays}"  # k.exp is rounded better than numpy's
    report(timeit.timeit((vectors, arrays)[side], globals=names, number=int(count)))


@k.device
def operands() -> dict[str, Any]:
    """Return what the statements are about."""
    F = k.vector4[np.float32]  # a type
    memory = k.local(MANY * LANES, np.float32)
    memory[:] = np.sin(np.arange(memory.size))
    v, w, a = F.load(memory, 0), F.load(memory, LANES), F.load(memory, 0, MANY)
    m, n = v < 0, w < v
    arrays = {"x": v.values, "y": w.values, "p": m.values, "q": n.values, "b": a.values}
    return {"F": F, "k": k, "np": np, "memory": memory, "v": v, "w": w, "m": m, "n": n, "a": a, **arrays}


@k.device
def outcome(statement: str, names: dict[str, Any]) -> Any:
    """Run a statement and return the lanes that it gives, or what memory has become if it gives none."""
    try:
        value = eval(statement, names)
    except SyntaxError:
        exec(statement, names)  # an assignment
        value = None
    return names["memory"].copy() if value is None else getattr(value, "values", value)


def vector_operations(effort: Effort) -> Iterator[Figure]:
    """Yield the time of each operation against numpy's."""
    count = effort.size(1_000, 5)
    with board() as device:
        stream = device.create_stream()

        def side(row: int, column: int) -> Callable[[], float]:
            def run() -> float:
                taken: list[float] = []
                stream.launch(in_kernel, (1, 1), row, column, count, taken.append).wait_sync()
                return taken[0]

            return run

        for row, (what, _, _) in enumerate(STATEMENTS):
            times: Times = interleave(effort.times(9), vectors=side(row, 0), numpy=side(row, 1))
            yield compared(
                f"__vector4 float, {what}", times, "vectors", "numpy",
                reference="numpy", unit="µs", count=count, budget=at_most(6),
            )  # fmt: skip
