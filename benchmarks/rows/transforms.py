"""The DTE's transforms at 1 MiB, without the engine, each beside the best of some plain numpy expressions.

Every expression is checked first: it leaves the same bytes as the transform.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from atops.device.dte.operations import OPERATIONS
from atops.device.geometry import Array
from benchmarks.measuring.figures import Figure, at_most, compared
from benchmarks.measuring.measure import Effort, interleave

__all__ = ("Case", "cases", "transforms")

FULL = 512  # rows and columns of float32: 1 MiB
BLOCK = 16  # columns that a blocked transposition turns at a time: a cache line
CALLS = 10  # of one repetition

Expression = Callable[[Array, Array], object]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One transform with its operands and parameters, and numpy expressions `f(dst, src)` that do the same."""

    name: str
    dst: Array
    src: Any  # an array; memset takes none
    parameters: Mapping[str, Any]
    expressions: tuple[Expression, ...]

    def check(self) -> None:
        """Raise AssertionError unless each expression leaves in dst what the transform leaves there."""
        wanted = self.dst.copy()
        OPERATIONS[self.name](wanted, self.src, **self.parameters)
        for number, expression in enumerate(self.expressions):
            found = self.dst.copy()
            expression(found, self.src)
            assert np.array_equal(found, wanted), f"{self.name}: expression {number} does something else"


def transforms(effort: Effort) -> Iterator[Figure]:
    """Yield the time of each transform against the fastest of its expressions."""
    calls = effort.size(CALLS, 1)
    for case in cases(effort.size(FULL, 2 * BLOCK)):
        case.check()
        transform = partial(OPERATIONS[case.name], case.dst, case.src, **case.parameters)
        rivals = [partial(expression, case.dst, case.src) for expression in case.expressions]
        best = min(rivals, key=lambda rival: min(timeit.repeat(rival, number=calls, repeat=3)))
        times = interleave(
            effort.times(4),
            transform=partial(timeit.timeit, transform, number=calls),
            numpy=partial(timeit.timeit, best, number=calls),
        )
        yield compared(
            f"{case.name}, 1 MiB", times, "transform", "numpy",
            reference="numpy", unit="µs", count=calls, budget=at_most(2),
        )  # fmt: skip


def cases(size: int) -> Iterator[Case]:
    """Yield a case for each transform, on matrices of `size` rows and columns and some that are larger by 4."""
    generator = np.random.default_rng(1)

    def full(extent: int = size, dtype: Any = np.uint32) -> Array:
        return generator.integers(1, 1 << 32, (extent, extent)).astype(dtype)

    wide = size + 4
    yield from _every_chip(full, size, wide)
    yield from _gcu300(full, size, wide)


def _every_chip(full: Callable[..., Array], size: int, wide: int) -> Iterator[Case]:
    """Yield the cases of the transforms that every architecture has."""
    inside, one = (slice(1, 1 + size),) * 2, (1, 1)
    turned = {"layout": (1, 0)}
    yield Case("memcpy", full(), full(), {}, (np.copyto,))
    yield Case("memset", full(), None, {"value": 7}, (lambda d, _: d.fill(7),))
    yield Case("slice", full(), full(), {"offsets": one}, (_shifted, _shifted_and_edged))
    yield Case("deslice", full(wide), full(), {"offsets": one}, (lambda d, s: np.copyto(d[inside], s),))
    yield Case("transpose", full(), full(), turned, (lambda d, s: np.copyto(d, s.T), _blocked))
    yield Case(
        "slice_transpose", full(), full(wide), {"offsets": one, **turned},
        (lambda d, s: np.copyto(d, s[inside].T), lambda d, s: _blocked(d, s[inside])),
    )  # fmt: skip
    yield Case(
        "transpose_deslice", full(wide), full(), {"offsets": one, **turned},
        (lambda d, s: np.copyto(d[inside], s.T), lambda d, s: _blocked(d[inside], s)),
    )  # fmt: skip
    yield Case("pad", full(wide), full(), AROUND, (_padded, _edged))
    yield Case("mirror_tb", full(), full(), {}, (lambda d, s: np.copyto(d, s[:, ::-1]),))
    yield Case("mirror_lr", full(), full(), {}, (lambda d, s: np.copyto(d, s[::-1]),))
    yield Case("broadcast", full(), full()[:1].copy(), {}, (lambda d, s: np.copyto(d, s),))


def _gcu300(full: Callable[..., Array], size: int, wide: int) -> Iterator[Case]:
    """Yield the cases of the transforms that gcu300 adds."""
    inside, one, shape = (slice(1, 1 + size),) * 2, (1, 1), (size, size)
    window = {"src_offsets": one, "slice_shape": shape}
    at = {"dst_offsets": one}
    parts = {"phase": 1, "ratio": 0}  # the upper half of 8 bytes
    yield Case(
        "slice_pad", full(wide), full(wide), {**window, **AROUND},
        (lambda d, s: _padded(d, s[inside]), lambda d, s: _edged(d, s[inside])),
    )  # fmt: skip
    yield Case(
        "slice_deslice", full(wide), full(wide), {**window, **at}, (lambda d, s: np.copyto(d[inside], s[inside]),),
    )  # fmt: skip
    yield Case(
        "slice_broadcast", full(), full(wide), {"src_offsets": one, "slice_shape": (1, size)},
        (lambda d, s: np.copyto(d, s[1:2, 1 : 1 + size]),),
    )  # fmt: skip
    yield Case(
        "slice_expand", full(dtype=np.uint64)[::2].copy(), full(wide), {
            "src_offsets": one, "slice_shape": (size // 2, size), **parts,
        }, (
            lambda d, s: _spread(d, s[1 : 1 + size // 2, 1 : 1 + size]),
            lambda d, s: np.left_shift(s[1 : 1 + size // 2, 1 : 1 + size], np.uint64(32), out=d, dtype=np.uint64),
        ),
    )  # fmt: skip
    yield Case(
        "shrink_deslice", full(wide), full(dtype=np.uint64) << np.uint64(8), {**parts, **at}, (
            lambda d, s: np.copyto(d[inside], s.view(np.uint32)[:, 1::2]),
            lambda d, s: np.right_shift(s, np.uint64(32), out=d[inside], casting="unsafe"),
        ),
    )  # fmt: skip
    yield Case("memset_deslice", full(wide), full(), {**at, "value": 7}, (lambda d, _: d[inside].fill(7),))
    yield Case("mirror_tb_pad", full(wide), full(), AROUND, _around(lambda s: s[:, ::-1]))
    yield Case("mirror_lr_pad", full(wide), full(), AROUND, _around(lambda s: s[::-1]))
    yield Case("mirror_tb_deslice", full(wide), full(), at, (lambda d, s: np.copyto(d[inside], s[:, ::-1]),))
    yield Case("mirror_lr_deslice", full(wide), full(), at, (lambda d, s: np.copyto(d[inside], s[::-1]),))
    yield Case("sub_sample", full(), full(2 * size), {"dim_stride": (2, 2)}, (lambda d, s: np.copyto(d, s[::2, ::2]),))


AROUND = {"low": (1, 1), "high": (3, 3), "mid": (0, 0), "value": 7}


def _shifted(d: Array, s: Array) -> None:
    d.fill(0)
    d[:-1, :-1] = s[1:, 1:]


def _shifted_and_edged(d: Array, s: Array) -> None:
    d[:-1, :-1] = s[1:, 1:]
    d[-1] = d[:, -1] = 0


def _blocked(d: Array, s: Array) -> None:
    """Transpose by blocks of columns, each of which stays in the cache."""
    for first in range(0, d.shape[1], BLOCK):
        d[:, first : first + BLOCK] = s[first : first + BLOCK].T


def _around(turned: Callable[[Array], Array]) -> tuple[Expression, ...]:
    """Return the ways to pad what `turned` makes of a source."""
    return (lambda d, s: _padded(d, turned(s)), lambda d, s: _edged(d, turned(s)))


def _padded(d: Array, s: Array) -> None:
    d.fill(7)
    d[1:-3, 1:-3] = s


def _edged(d: Array, s: Array) -> None:
    d[0] = d[-3:] = d[:, 0] = d[:, -3:] = 7
    d[1:-3, 1:-3] = s


def _spread(d: Array, s: Array) -> None:
    halves = d.view(np.uint32)
    halves[:, ::2] = 0
    halves[:, 1::2] = s
