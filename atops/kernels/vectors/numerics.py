"""The arithmetic of the mathematical functions (TOPS C++, 8.4): arrays of one element type in, an array out.

One rule of precision: exact operations stay in the element type, everything else is computed in the next wider one and
rounded once, so that results do not depend on the precision of the machine's float32 library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import ml_dtypes
import numpy as np

from atops.base.dtypes import quietly
from atops.device.geometry import Array

__all__ = ("Numeric", "numeric")

Numeric = Callable[..., Array]
_Precision = Mapping[np.dtype[np.generic], np.dtype[np.generic]]

_FLOAT16, _BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

# What an element type is computed in. Types that are not named are computed in themselves.
_OWN: _Precision = MappingProxyType({})
_SINGLE: _Precision = MappingProxyType({_FLOAT16: _FLOAT32, _BFLOAT16: _FLOAT32})
_WIDER: _Precision = MappingProxyType({**_SINGLE, _FLOAT32: _FLOAT64})

# Elements of a large array that are computed together, so that what lies between stays in the cache: exp of a
# million float32 takes two thirds of the time, rsqrt less than half.
_AT_ONCE = 32768

# exp(a * a / 2) times the normal distribution's tail beyond a, as a quotient of polynomials in a, highest power first;
# the denominator's highest coefficient is 1. Minimax on 0 <= a <= 15, where a float32 gelu has long underflowed:
# relative error 9.1e-11. No coefficient is negative, so nothing cancels in float32 either.
_NUMERATOR = (0.39894182056587, 5.2100958120182, 31.854718938395, 111.77091927372, 226.09244037548, 222.36684748607)
_DENOMINATOR = (13.059694876317, 80.85031981539, 293.18508847824, 645.09264459568, 807.03102590363, 444.73369501144)
_TAIL_END = 40.0  # exp(-_TAIL_END**2 / 2) is below every float32

# As arrays of no dimension, in the type that they meet: numpy takes twice as long with a Python number.
_TAIL = {
    working: tuple(tuple(np.array(each, working) for each in row) for row in (_NUMERATOR, _DENOMINATOR))
    for working in (_FLOAT32, _FLOAT64)
}


def numeric(name: str, element: np.dtype[np.generic]) -> Numeric:
    """Return the function `name` of arrays of type `element`: one array or two in, one of that type or of bool out.

    It never warns. Integer divisors must not be 0.
    """
    compute, precision = _NUMERICS[name]
    wider = precision.get(element)
    return partial(quietly, compute if wider is None else _rounded_once(compute, element, wider))


def _rounded_once(compute: Numeric, element: np.dtype[np.generic], wider: np.dtype[np.generic]) -> Numeric:
    """Return `compute` for arrays of type `element`, computed in `wider` and rounded at the end."""

    def computed(x: Array, y: Array | None = None) -> Array:
        if y is not None:
            return compute(x.astype(wider), y.astype(wider)).astype(element)
        if x.size <= _AT_ONCE:
            return compute(x.astype(wider)).astype(element)
        result = np.empty(x.shape, element)
        source, target = x.reshape(-1), result.reshape(-1)
        for start in range(0, x.size, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            target[part] = compute(source[part].astype(wider))
        return result

    return computed


def _div(x: Array, y: Array) -> Array:
    """Divide; integers truncate toward zero and wrap, and their divisors are not 0."""
    quotient: Array = x / y if x.dtype.kind == "f" else (x - np.fmod(x, y)) // y
    return quotient


def _round(x: Array) -> Array:
    """Round to the nearest whole number, half away from zero. The sum is exact where a half can matter."""
    rounded: Array = np.trunc(x + np.copysign(0.5, x))
    return rounded


def _rsqrt(x: Array) -> Array:
    return np.reciprocal(np.sqrt(x))


def _softplus(x: Array) -> Array:
    """Return log(exp(0) + exp(x)), which is log1p(exp(x)) and cannot overflow."""
    return np.logaddexp(0.0, x)


def _sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)). Nothing positive is exponentiated: the lower tail underflows gradually."""
    tail = np.exp(np.copysign(x, -1.0))
    result: Array = np.maximum(tail, np.sign(x))  # 1 where x is not negative, else exp(x)
    tail += 1.0
    result /= tail
    return result


def _gelu(x: Array) -> Array:
    """Return x times the normal distribution function of x: its positive part less |x| times the tail beyond |x|."""
    a = np.minimum(np.abs(x), _TAIL_END)  # where x is infinite, infinity times 0 would be NaN
    numerator, denominator = _TAIL[a.dtype]
    tail = a * a
    tail *= -0.5
    np.exp(tail, out=tail)
    tail *= a
    tail *= _polynomial(a * numerator[0], numerator[1:], a)
    tail /= _polynomial(a.copy(), denominator, a)
    result: Array = np.maximum(x, 0.0)
    result -= tail
    return np.copysign(result, x)  # of zero, and of what underflows to it


def _polynomial(total: Array, coefficients: tuple[Array, ...], x: Array) -> Array:
    """Return the polynomial at `x` whose highest term is `total` times the power that `coefficients` leave."""
    for each in coefficients[:-1]:
        total += each
        total *= x
    total += coefficients[-1]
    return total


# What each function computes, and in which precision.
_NUMERICS: Mapping[str, tuple[Numeric, _Precision]] = MappingProxyType(
    {
        "abs": (np.abs, _OWN),
        "mod": (np.remainder, _OWN),
        "div": (_div, _SINGLE),
        "sign": (np.sign, _SINGLE),
        "round": (_round, _WIDER),
        "ln": (np.log, _WIDER),
        "log1p": (np.log1p, _WIDER),
        "power": (np.power, _WIDER),
        "sqrt": (np.sqrt, _SINGLE),
        "rec": (np.reciprocal, _SINGLE),
        "rsqrt": (_rsqrt, _WIDER),
        "exp": (np.exp, _WIDER),
        "expm1": (np.expm1, _WIDER),
        "isfinite": (np.isfinite, _OWN),
        "floor": (np.floor, _SINGLE),
        "ceil": (np.ceil, _SINGLE),
        "sin": (np.sin, _WIDER),
        "cos": (np.cos, _WIDER),
        "tan": (np.tan, _WIDER),
        "sinh": (np.sinh, _WIDER),
        "cosh": (np.cosh, _WIDER),
        "tanh": (np.tanh, _WIDER),
        "asin": (np.arcsin, _WIDER),
        "acos": (np.arccos, _WIDER),
        "atan": (np.arctan, _WIDER),
        "atan2": (np.arctan2, _WIDER),
        "softplus": (_softplus, _WIDER),
        "sigmoid": (_sigmoid, _WIDER),
        "gelu": (_gelu, _WIDER),
    }
)
