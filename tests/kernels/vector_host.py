"""Vector types by kind, lanes to try them with, and a kernel of one thread to try them in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import LaunchFailure
from atops.kernels.vectors.vector_type import VECTOR_TYPES, VectorType
from tests.kernel_bench import Bench, DeviceArray

TYPES = list(dict.fromkeys(VECTOR_TYPES.values()))
MASKS = [each for each in TYPES if each.is_mask]
FLOATS = [each for each in TYPES if each.name.endswith(("float", "__fp16", "__bf16"))]
INTEGERS = [each for each in TYPES if each not in FLOATS + MASKS]
UNSIGNED = [each for each in INTEGERS if "unsigned" in each.name]


def in_kernel(bench: Bench, function: Callable[..., object], x: DeviceArray | None = None) -> None:
    """Run `function` in a kernel of one thread, with `x` as its argument if there is one."""

    @k.kernel
    def alone():
        function()

    @k.kernel
    def given(x):
        function(x)

    if x is None:
        bench.launch(alone, (1, 1))
    else:
        bench.launch(given, (1, 1), x)


def fails(bench: Bench, function: Callable[..., object], error: type, match: str, x: DeviceArray | None = None) -> None:
    """Hold that `function` raises `error` in a kernel, with a message that matches."""
    with pytest.raises(LaunchFailure, match=match) as caught:
        in_kernel(bench, function, x)
    assert isinstance(caught.value.__cause__, error), repr(caught.value.__cause__)


def sample(kind: VectorType, seed: int = 0, count: int | None = None) -> np.ndarray:
    """Return lanes that cover the type: its extremes, zero, one, NaN if it has one, and what a seed gives."""
    shape = kind.lanes if count is None else (count, kind.lanes)
    rng = np.random.default_rng(seed)
    if kind.is_mask:
        return rng.integers(0, 2, shape).astype(bool)
    if kind in FLOATS:
        values = rng.normal(0, 100, shape)
        values.flat[:6] = np.roll((0, -0.0, np.inf, -np.inf, np.nan, 1), seed)
        return values.astype(kind.element)
    info = np.iinfo(kind.element)
    values = rng.integers(info.min, info.max, shape, kind.element, endpoint=True)
    values.flat[:4] = np.roll(np.array((info.min, info.max, 0, 1), kind.element), seed)
    return values
