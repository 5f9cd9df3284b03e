"""The error of every mathematical function stays within the bound that its row states, measured against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

from atops.kernels.tables.vectors import FUNCTIONS
from atops.kernels.vectors.numerics import numeric
from tests.every import every

SAMPLES = 300
BOUNDS = {row.name: row.ulp for row in FUNCTIONS if row.name not in ("mod", "isfinite")}
FLOATS = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]

MP = mpmath.MPContext()  # one of our own: the precision of mpmath.mp is everybody's
MP.prec = 160

EXACT: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "sign": MP.sign,
    "round": lambda x: MP.sign(x) * MP.floor(abs(x) + 0.5),
    "ln": MP.log,
    "log1p": MP.log1p,
    "sqrt": MP.sqrt,
    "rec": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / MP.sqrt(x),
    "exp": MP.exp,
    "expm1": MP.expm1,
    "floor": MP.floor,
    "ceil": MP.ceil,
    "sin": MP.sin,
    "cos": MP.cos,
    "tan": MP.tan,
    "sinh": MP.sinh,
    "cosh": MP.cosh,
    "tanh": MP.tanh,
    "asin": MP.asin,
    "acos": MP.acos,
    "atan": MP.atan,
    "softplus": lambda x: MP.log1p(MP.exp(x)),
    "sigmoid": lambda x: 1 / (1 + MP.exp(-x)),
    "gelu": lambda x: x * MP.erfc(-x / MP.sqrt(2)) / 2,
    "div": lambda x, y: x / y,
    "power": MP.power,
    "atan2": MP.atan2,
}

# Where a function is neither undefined nor lost in overflow and underflow; beyond are the special values.
DOMAINS = {
    "ln": (0, 3e38), "sqrt": (0, 3e38), "rsqrt": (0, 3e38), "log1p": (-1, 3e38), "exp": (-104, 88.7),
    "expm1": (-104, 88.7), "sinh": (-89, 89), "cosh": (-89, 89), "tanh": (-15, 15), "asin": (-1, 1), "acos": (-1, 1),
    "softplus": (-104, 104), "sigmoid": (-104, 104), "gelu": (-14.5, 104),
}  # fmt: skip

# The same functions of every half and bfloat16 at once, in float64, which has 42 bits more than they need.
IN_FLOAT64: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "abs": np.abs,
    "sign": np.sign,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "ln": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rec": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "ceil": np.ceil,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "gelu": lambda x: np.where(x == -np.inf, 0, x * [math.erfc(each) / 2 for each in (-x / math.sqrt(2)).tolist()]),
}


def limits(element: np.dtype) -> tuple[int, int, float]:
    """Return the bits of precision, the exponent of the least normal number, and where rounding gives infinity."""
    info = ml_dtypes.finfo(element)
    precision = info.nmant + 1
    return precision, int(info.minexp), (2.0 - 2.0**-precision) * 2.0 ** (int(info.maxexp) - 1)


def error(got: Any, exact: Any, element: np.dtype) -> float:
    """Return how far a result is from the exact one, in units of the exact one's last place."""
    precision, least, overflow = limits(element)
    if got == exact:
        return 0.0
    if abs(exact) >= overflow:
        return 0.0 if np.isinf(got) and (got > 0) == (exact > 0) else math.inf
    if not np.isfinite(got):
        return math.inf
    exponent = max(int(MP.frexp(exact)[1]) - 1, least) if exact else least
    return float(abs(MP.mpf(float(got)) - exact) / MP.ldexp(1, exponent - precision + 1))


def operands(name: str, element: np.dtype) -> list[np.ndarray]:
    """Return the points to measure: the borders of the domain, all magnitudes, and where the function bends."""
    rng = np.random.default_rng(sum(map(ord, name)))
    low, high = DOMAINS.get(name, (-3e38, 3e38))
    info = ml_dtypes.finfo(element)
    greatest = min(high, float(info.max))

    def points() -> np.ndarray:
        magnitudes = np.exp2(rng.uniform(math.log2(float(info.smallest_subnormal)), math.log2(greatest), SAMPLES // 2))
        bends = rng.uniform(max(low, -12), min(high, 12), SAMPLES // 2)
        signs = rng.choice([-1.0, 1.0], SAMPLES // 2) if low < 0 else 1.0
        edges = [float(info.smallest_subnormal), float(info.smallest_normal), 1.0, 1 - float(info.epsneg), greatest]
        drawn = np.clip(np.concatenate([magnitudes * signs, bends, edges, np.negative(edges)]), -greatest, greatest)
        drawn = drawn.astype(element).astype(np.float64)
        return rng.permutation(drawn[(low <= drawn) & (drawn <= high) & (drawn != 0) & (drawn != -1)]).astype(element)

    if name == "power":
        base, exponent = np.abs(points()), rng.uniform(-16, 16, 2 * SAMPLES).astype(element)[: points().size]
        whole = rng.random(base.size) < 0.5
        exponent = np.where(whole, np.rint(exponent.astype(np.float32)).astype(element), exponent)
        return [np.where(whole & (rng.random(base.size) < 0.5), -base, base), exponent[: base.size]]
    return [points(), points()] if name in ("div", "atan2") else [points()]


@pytest.mark.slow
@every("element", FLOATS, ids=str)
@every("name", BOUNDS)
def test_sampled_errors_stay_within_the_bound(name: str, element: np.dtype):
    """Hundreds of points of every function and type, at borders, bends and all magnitudes, against mpmath."""
    given = operands(name, element)
    got = numeric(name, element)(*given)
    assert got.dtype == element
    assert got.size > SAMPLES // 2
    worst, where = 0.0, ()
    for result, *point in zip(got, *given, strict=True):
        found = error(result, EXACT[name](*[MP.mpf(float(each)) for each in point]), element)
        if found > worst:
            worst, where = found, (*point, result)
    assert worst <= BOUNDS[name], where


@pytest.mark.slow
@every("element", FLOATS[1:], ids=str)
@every("name", IN_FLOAT64)
def test_every_half_and_bfloat16(name: str, element: np.dtype):
    """All 65536 inputs stay within the bound, which is no looser than it has to be."""
    every = np.arange(1 << 16, dtype=np.uint16).view(element)
    with np.errstate(all="ignore"):
        got = numeric(name, element)(every).astype(np.float64)
        exact = IN_FLOAT64[name](every.astype(np.float64))
        precision, least, overflow = limits(element)
        unit = np.exp2(np.maximum(np.frexp(exact)[1] - 1, least) - precision + 1.0)
        errors = np.abs(got - exact) / unit
    assert (np.isnan(got) == np.isnan(exact)).all()
    beyond = np.abs(exact) >= overflow
    assert (got[beyond] == np.copysign(np.inf, exact[beyond])).all()
    worst = errors[~beyond & ~np.isnan(exact)].max()
    assert BOUNDS[name] / 4 <= worst <= BOUNDS[name]


def test_the_tail_of_gelu_underflows_gradually():
    """131072 float32 from -15 to 8 keep the bound, against erfc in float64; the last before -0 are subnormal."""
    x = np.linspace(-15, 8, 1 << 17).astype(np.float32)
    wide = x.astype(np.float64)
    exact = IN_FLOAT64["gelu"](wide)
    got = numeric("gelu", x.dtype)(x)
    unit = np.exp2(np.maximum(np.frexp(exact)[1] - 1, -126) - 23.0)
    assert (np.abs(got - exact) / unit).max() <= BOUNDS["gelu"]
    assert ((got != 0) & (np.abs(got) < np.finfo(np.float32).smallest_normal)).any()
    assert np.signbit(got[0])
    assert got[0] == 0
