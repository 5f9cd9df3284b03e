"""The arithmetic of the mathematical functions: special values, integers, shapes, and silence."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from atops.kernels.tables.vectors import FUNCTIONS
from atops.kernels.vectors.numerics import numeric
from tests.every import every

FLOATS = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
INTEGERS = [np.dtype(kind) for kind in "bBhHiI"]
INF, NAN = math.inf, math.nan
HALF_PI = math.pi / 2

# Function -> operands with what it gives for them, in which the signs of zeros count.
SPECIAL = {
    "abs": [(-0.0, 0.0), (-INF, INF), (NAN, NAN), (-2.5, 2.5)],
    "sign": [(-0.0, 0.0), (0.0, 0.0), (NAN, NAN), (INF, 1.0), (-INF, -1.0), (1e-7, 1.0), (-1e-7, -1.0)],
    "round": [
        (0.5, 1.0), (-0.5, -1.0), (1.5, 2.0), (2.5, 3.0), (-2.5, -3.0), (0.25, 0.0), (-0.25, -0.0), (-0.0, -0.0),
        (INF, INF), (NAN, NAN),
    ],
    "ln": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF), (NAN, NAN)],
    "sqrt": [(-0.0, -0.0), (4.0, 2.0), (-1.0, NAN), (INF, INF), (NAN, NAN)],
    "rec": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (4.0, 0.25), (NAN, NAN)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (4.0, 0.5), (-1.0, NAN), (NAN, NAN)],
    "exp": [(0.0, 1.0), (1e4, INF), (-1e4, 0.0), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (1e4, INF), (-1e4, -1.0), (-INF, -1.0), (INF, INF), (NAN, NAN)],
    "floor": [(-0.5, -1.0), (1.5, 1.0), (-0.0, -0.0), (INF, INF), (NAN, NAN)],
    "ceil": [(-0.5, -0.0), (1.5, 2.0), (-0.0, -0.0), (-INF, -INF), (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "sinh": [(-0.0, -0.0), (1e4, INF), (-1e4, -INF), (INF, INF), (NAN, NAN)],
    "cosh": [(0.0, 1.0), (1e4, INF), (-1e4, INF), (-INF, INF), (NAN, NAN)],
    "tanh": [(-0.0, -0.0), (1e4, 1.0), (-INF, -1.0), (NAN, NAN)],
    "asin": [(-0.0, -0.0), (1.0, HALF_PI), (-1.0, -HALF_PI), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    "acos": [(1.0, 0.0), (-1.0, math.pi), (0.0, HALF_PI), (-1.5, NAN), (INF, NAN), (NAN, NAN)],
    "atan": [(-0.0, -0.0), (INF, HALF_PI), (-INF, -HALF_PI), (NAN, NAN)],
    "softplus": [(0.0, math.log(2)), (1e4, 1e4), (-1e4, 0.0), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (1e4, 1.0), (-1e4, 0.0), (INF, 1.0), (-INF, 0.0), (NAN, NAN)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (1e4, 1e4), (-1e4, -0.0), (INF, INF), (-INF, -0.0), (NAN, NAN)],
}  # fmt: skip

SPECIAL_PAIRS = {
    "div": [
        ((1.0, 0.0), INF), ((1.0, -0.0), -INF), ((0.0, 0.0), NAN), ((INF, INF), NAN), ((1.0, -INF), -0.0),
        ((NAN, 1.0), NAN),
    ],
    "power": [
        ((-2.0, 3.0), -8.0), ((-2.0, 2.0), 4.0), ((-2.0, 0.5), NAN), ((-2.0, -1.0), -0.5), ((0.0, -1.0), INF),
        ((-0.0, -1.0), -INF), ((0.0, 0.0), 1.0), ((NAN, 0.0), 1.0), ((1.0, NAN), 1.0), ((2.0, NAN), NAN),
        ((2.0, 1e4), INF), ((2.0, -1e4), 0.0), ((-INF, 3.0), -INF), ((0.5, INF), 0.0), ((-1.0, INF), 1.0),
    ],
    "atan2": [
        ((0.0, 1.0), 0.0), ((-0.0, 1.0), -0.0), ((0.0, -1.0), math.pi), ((-0.0, -1.0), -math.pi),
        ((1.0, 0.0), HALF_PI), ((-1.0, 0.0), -HALF_PI), ((1.0, 1.0), math.pi / 4), ((1.0, -1.0), 3 * math.pi / 4),
        ((INF, INF), math.pi / 4), ((0.0, -0.0), math.pi), ((1.0, -INF), math.pi), ((NAN, 1.0), NAN), ((1.0, NAN), NAN),
    ],
}  # fmt: skip


def same(got: np.ndarray, right: np.ndarray) -> bool:
    """Tell whether both hold the same values, signs of zeros included."""
    got, right = got.astype(np.float64), right.astype(np.float64)
    both_nan = np.isnan(got) & np.isnan(right)
    return bool((both_nan | ((got == right) & (np.signbit(got) == np.signbit(right)))).all())


@every("element", FLOATS, ids=str)
@every("name", SPECIAL)
def test_special_values(name: str, element: np.dtype):
    """Zeros with their signs, infinities, NaN, poles, domain errors and overflow give what IEEE and C give."""
    operands, right = (np.array(side, element) for side in zip(*SPECIAL[name], strict=True))
    assert same(numeric(name, element)(operands), right), numeric(name, element)(operands)


@pytest.mark.parametrize("element", FLOATS, ids=str)
@pytest.mark.parametrize("name", SPECIAL_PAIRS)
def test_special_pairs(name: str, element: np.dtype):
    """So do pairs: division by zeros, powers of negative numbers, and the angle of every quadrant and axis."""
    pairs, results = zip(*SPECIAL_PAIRS[name], strict=True)
    x, y, right = (np.array(side, element) for side in (*zip(*pairs, strict=True), results))
    assert same(numeric(name, element)(x, y), right), numeric(name, element)(x, y)


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_isfinite_gives_truth_values(element: np.dtype):
    """Infinities and NaN are not finite; the greatest and least numbers are."""
    info = ml_dtypes.finfo(element)
    values = np.array([0.0, info.max, info.smallest_subnormal, INF, -INF, NAN], element)
    finite = numeric("isfinite", element)(values)
    assert finite.dtype == bool
    assert finite.tolist() == [True, True, True, False, False, False]


def test_the_special_values_are_of_every_function():
    """No function of floats is left out above."""
    assert {*SPECIAL, *SPECIAL_PAIRS, "isfinite", "mod"} == {row.name for row in FUNCTIONS}


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_round_is_half_away_from_zero_everywhere(element: np.dtype):
    """Next to a half and beyond the last fraction too, where adding a half would round by itself."""
    below = np.nextafter(element.type(0.5), element.type(0))
    whole = 2.0 ** ml_dtypes.finfo(element).nmant + 1  # the next number is 1 away
    values = np.array([below, -below, whole, -whole, whole + 1, 3.5, -3.5, ml_dtypes.finfo(element).max], element)
    right = np.array([0.0, -0.0, whole, -whole, whole + 1, 4.0, -4.0, ml_dtypes.finfo(element).max], element)
    assert same(numeric("round", element)(values), right)


@pytest.mark.slow
@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_integers_divide_as_the_text_decides(element: np.dtype):
    """Quotients truncate toward zero, remainders are floored: every pair of 8 bits, the borders of wider types."""
    info = np.iinfo(element)
    near = {*range(info.min, info.min + 3), *range(max(info.min, -9), 10), *range(info.max - 2, info.max + 1)}
    numbers = range(info.min, info.max + 1) if element.itemsize == 1 else sorted(near)
    pairs = [(x, y) for x, y in itertools.product(numbers, numbers) if y]
    x, y = (np.array(side, element) for side in zip(*pairs, strict=True))
    quotients, remainders = numeric("div", element)(x, y), numeric("mod", element)(x, y)
    assert quotients.dtype == remainders.dtype == element
    truncated = np.array([abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs], object)
    truncated[truncated > info.max] = info.min  # the least one divided by -1 wraps
    assert (quotients == truncated.astype(element)).all()
    assert (remainders == np.array([a % b for a, b in pairs], element)).all()


@pytest.mark.parametrize("element", [*INTEGERS, np.dtype(np.int64), np.dtype(np.uint64)], ids=str)
def test_the_absolute_value_of_integers_wraps(element: np.dtype):
    """The least integer gives itself; unsigned ones are as they are."""
    info = np.iinfo(element)
    values = np.array([info.min, info.min + 1, 0, 1, info.max], element)
    right = [info.min, abs(info.min + 1), 0, 1, info.max]
    assert numeric("abs", element)(values).tolist() == right


@every("name", sorted(SPECIAL))
def test_large_arrays_and_small_ones_agree(name: str):
    """An array of vectors gives what its vectors give, whatever its shape and however large."""
    values = np.random.default_rng(3).normal(0, 2, (300, 128)).astype(np.float32)
    compute = numeric(name, values.dtype)
    together = compute(values)
    assert together.shape == values.shape
    assert together.dtype == values.dtype
    assert same(together, np.stack([compute(row) for row in values]))
    assert same(compute(values[:, ::2]), together[:, ::2])


def test_a_caller_that_wants_errors_hears_none():
    """Overflow and invalid operations stay silent where numpy is set to raise, and the setting stays as it was."""
    with np.errstate(all="raise"):
        for name in SPECIAL:
            numeric(name, np.dtype(np.float32))(np.array([NAN, INF, -INF, 0.0, 3e38, -3e38, 1e-45], np.float32))
        with pytest.raises(FloatingPointError):
            np.exp(np.float32(1000))


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_a_scalar_stands_for_every_lane(element: np.dtype):
    """Functions of two take a scalar of the element type on either side."""
    lanes = np.array([1.0, 2.0, 4.0], element)
    assert numeric("power", element)(lanes, element.type(2)).tolist() == [1, 4, 16]
    assert numeric("power", element)(element.type(2), lanes).tolist() == [2, 4, 16]
    assert numeric("div", element)(element.type(8), lanes).dtype == element
