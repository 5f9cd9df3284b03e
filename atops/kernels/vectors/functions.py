"""The mathematical functions on vectors, lane by lane: `k.exp(v)` and 28 more. TOPS C++, 8.4.

Which vector types a function takes is read from the language's table; another type, a mask or a number alone raises
InvalidType. Two operands have one type, or one of them is a scalar that its element type holds exactly. Arrays of
vectors are computed at once. ulp: units of the last place of the exact result.
"""

from __future__ import annotations

import numpy as np

from atops.base.errors import InvalidType, InvalidValue, LaunchFailure
from atops.device.geometry import Array
from atops.kernels.tables.functions import FUNCTIONS
from atops.kernels.tables.vectors import FORMS
from atops.kernels.vectors.lanes import exact, here
from atops.kernels.vectors.numerics import numeric
from atops.kernels.vectors.vector import Mask, Vector
from atops.kernels.vectors.vector_type import VECTOR_TYPES, VectorType

__all__ = (
    "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "div", "exp", "expm1", "floor", "gelu",
    "isfinite", "ln", "log1p", "mod", "power", "rec", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "softplus", "sqrt", "tan", "tanh",
)  # fmt: skip

# What computes each function, and the type of its result, for each vector type that it takes.
_NUMERICS = {
    row.name: {
        kind: (numeric(row.name, kind.element), kind.mask if row.gives_mask else kind)
        for kind in map(VECTOR_TYPES.__getitem__, row.permitted)
    }
    for row in FUNCTIONS
}
_MOST_NAMED = 9  # types that a message names one by one


def abs(x: Vector) -> Vector:
    """Return the absolute value of each lane; unsigned lanes as they are.

    Exact. Of the least integer it is that integer again, of -0 it is 0, of NaN NaN. Takes every vector type but
    masks. TOPS C++, 8.4.
    """
    return _unary("abs", x)


def mod(x: Vector | float | np.generic, y: Vector | float | np.generic) -> Vector:
    """Return the floored remainder of integer lanes: `x - y * floor(x / y)`, with the sign of the divisor y.

    Exact. Takes `__vector4` integers of 8 to 32 bits, either operand also as a scalar. Raises LaunchFailure, naming
    thread and lane, for a zero divisor. TOPS C++, 8.4.
    """
    return _binary("mod", x, y)


def div(x: Vector | float | np.generic, y: Vector | float | np.generic) -> Vector:
    """Return x / y. Integers truncate toward zero and wrap: the least one divided by -1 gives itself.

    Floats: the nearest value (0.5 ulp), x / 0 is infinite, 0 / 0 NaN. Takes `__vector4` integers of 8 to 32 bits
    and floats, either operand also as a scalar. Raises LaunchFailure, naming thread and lane, for an integer
    divisor of 0. TOPS C++, 8.4.
    """
    return _binary("div", x, y)


def sign(x: Vector) -> Vector:
    """Return -1, 0 or 1 as each lane is negative, zero or positive; NaN stays.

    Exact. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("sign", x)


def round(x: Vector) -> Vector:
    """Return the nearest whole number, half away from zero: 2.5 gives 3 and -2.5 gives -3.

    Exact; NaN, infinities and the sign of zero stay. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("round", x)


def ln(x: Vector) -> Vector:
    """Return the natural logarithm: of 0 minus infinity, of negative numbers NaN.

    Error at most 0.501 ulp. Takes `__vector4` and `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("ln", x)


def log1p(x: Vector) -> Vector:
    """Return the logarithm of 1 + x, accurate near 0 too: of -1 minus infinity, below NaN.

    Error at most 0.501 ulp. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("log1p", x)


def power(x: Vector | float | np.generic, y: Vector | float | np.generic) -> Vector:
    """Return x to the power of y, as C's pow: a negative x needs a whole y, else NaN.

    Anything to the power of 0 is 1, and 1 to any power is 1, NaN included; 0 to a negative power is infinite.
    Error at most 0.501 ulp. Takes `__vector4` floats, either operand also as a scalar. TOPS C++, 8.4.
    """
    return _binary("power", x, y)


def sqrt(x: Vector) -> Vector:
    """Return the square root: of negative numbers NaN, of -0 it is -0.

    The nearest value (0.5 ulp). Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("sqrt", x)


def rec(x: Vector) -> Vector:
    """Return 1 / x: of 0 infinity with the sign of that zero.

    The nearest value (0.5 ulp). Takes `__vector` floats; `div(1, x)` does the same for `__vector4`. TOPS C++, 8.4.
    """
    return _unary("rec", x)


def rsqrt(x: Vector) -> Vector:
    """Return 1 / sqrt(x): of 0 infinity, of -0 minus infinity, of negative numbers NaN.

    Error at most 0.501 ulp. Takes `__vector4` and `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("rsqrt", x)


def exp(x: Vector) -> Vector:
    """Return e to the power of x; infinite where that overflows, gradually 0 where it underflows.

    Error at most 0.501 ulp. Takes `__vector4` and `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("exp", x)


def expm1(x: Vector) -> Vector:
    """Return exp(x) - 1, accurate near 0 too: of minus infinity -1.

    Error at most 0.501 ulp. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("expm1", x)


def isfinite(x: Vector) -> Mask:
    """Return the mask of the lanes that are neither infinite nor NaN.

    Exact; the mask is the one that comparisons give. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("isfinite", x)  # type: ignore[return-value]  # the type of its result is a mask


def floor(x: Vector) -> Vector:
    """Return the greatest whole number that is not above x.

    Exact; NaN, infinities and the sign of zero stay. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("floor", x)


def ceil(x: Vector) -> Vector:
    """Return the least whole number that is not below x; above -1 and below 0 that is -0.

    Exact; NaN, infinities and the sign of zero stay. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("ceil", x)


def sin(x: Vector) -> Vector:
    """Return the sine of x in radians, of any size; of infinities NaN.

    Error at most 0.501 ulp. Takes `__vector4` and `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("sin", x)


def cos(x: Vector) -> Vector:
    """Return the cosine of x in radians, of any size; of infinities NaN.

    Error at most 0.501 ulp. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("cos", x)


def tan(x: Vector) -> Vector:
    """Return the tangent of x in radians, of any size; of infinities NaN.

    Error at most 0.501 ulp. Takes `__vector4` and `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("tan", x)


def sinh(x: Vector) -> Vector:
    """Return the hyperbolic sine; infinite where it overflows.

    Error at most 0.501 ulp. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("sinh", x)


def cosh(x: Vector) -> Vector:
    """Return the hyperbolic cosine; infinite where it overflows.

    Error at most 0.501 ulp. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("cosh", x)


def tanh(x: Vector) -> Vector:
    """Return the hyperbolic tangent, from -1 to 1.

    Error at most 0.501 ulp. Takes `__vector4` and `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("tanh", x)


def asin(x: Vector) -> Vector:
    """Return the arc sine in radians, from -pi/2 to pi/2; outside -1 to 1 NaN.

    Error at most 0.501 ulp. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("asin", x)


def acos(x: Vector) -> Vector:
    """Return the arc cosine in radians, from 0 to pi; outside -1 to 1 NaN.

    Error at most 0.501 ulp. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("acos", x)


def atan(x: Vector) -> Vector:
    """Return the arc tangent in radians, from -pi/2 to pi/2, which infinities give.

    Error at most 0.501 ulp. Takes `__vector4` floats. TOPS C++, 8.4.
    """
    return _unary("atan", x)


def atan2(x: Vector | float | np.generic, y: Vector | float | np.generic) -> Vector:
    """Return the arc tangent of x / y in radians, from -pi to pi: the angle of the point that is y right and x up.

    The first argument is the numerator; both signs choose the quadrant, also of zeros and infinities. Error at most
    0.501 ulp. Takes `__vector4` floats, either operand also as a scalar. TOPS C++, 8.4.
    """
    return _binary("atan2", x, y)


def softplus(x: Vector) -> Vector:
    """Return log(1 + exp(x)) without overflow and without a threshold: of minus infinity 0.

    Error at most 0.501 ulp. Takes `__vector4` and `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("softplus", x)


def sigmoid(x: Vector) -> Vector:
    """Return 1 / (1 + exp(-x)), whose lower tail underflows gradually.

    Error at most 0.501 ulp. Takes `__vector4` and `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("sigmoid", x)


def gelu(x: Vector) -> Vector:
    """Return x times the normal distribution function of x, `x * (1 + erf(x / sqrt(2))) / 2`: no approximation by tanh.

    Its negative tail underflows gradually; of minus infinity -0. Error at most 0.502 ulp. Takes `__vector4` and
    `__vector` floats. TOPS C++, 8.4.
    """
    return _unary("gelu", x)


def _unary(name: str, x: Vector) -> Vector:
    """Return the function of a vector."""
    if not isinstance(x, Vector) or (found := _NUMERICS[name].get(x.type)) is None:
        raise _refused(name, x)
    compute, result = found
    return result.wrap(compute(x.values))


def _binary(name: str, x: object, y: object) -> Vector:
    """Return the function of two vectors of one type, or of one and a scalar on either side."""
    kind = x.type if isinstance(x, Vector) else y.type if isinstance(y, Vector) else None
    if kind is None or (found := _NUMERICS[name].get(kind)) is None:
        raise _refused(name, x if kind is None or isinstance(x, Vector) else y)
    compute, result = found
    left, right = _operand(name, kind, x, "x"), _operand(name, kind, y, "y")
    if kind.element.kind in "iu":
        _check_divisor(name, right)
    try:
        return result.wrap(compute(left, right))
    except ValueError:
        counts = f"{len(left)} and {len(right)}"
        raise InvalidValue(f"{here()}{name} expects arrays of as many vectors, got {counts}") from None


def _operand(name: str, kind: VectorType, operand: object, side: str) -> Array:
    """Return the lanes of an operand of type `kind`, or the scalar that stands for all of them."""
    if not isinstance(operand, Vector):
        scalar: Array = exact(kind.element, operand, f"{side} of {name}")
        return scalar
    if operand.type is not kind:
        raise InvalidType(
            f"{here()}{name} of a {kind.name} and a {operand.type.name}; expected two of the same type, or a scalar"
        )
    return operand.values


def _check_divisor(name: str, divisor: Array) -> None:
    """Raise LaunchFailure, naming the first lane, where an integer divisor is 0."""
    if np.count_nonzero(divisor) == divisor.size:
        return
    *vector, lane = np.argwhere(np.atleast_1d(divisor) == 0)[0]
    where = f"lane {lane}" if not vector else f"lane {lane} of vector {vector[0]}"
    raise LaunchFailure(f"{here()}{name} by 0 in {where}; an integer has no quotient by 0")


def _refused(name: str, got: object) -> InvalidType:
    """Return the error for an operand, with the types that the function takes."""
    row = next(row for row in FUNCTIONS if row.name == name)
    right = " and ".join(row.types)
    if len(row.permitted) <= _MOST_NAMED:
        right += ": " + ", ".join(form.cpp for form in FORMS if form.cpp in row.permitted)
    what = f"a {got.type.name}" if isinstance(got, Vector) else f"{type(got).__name__} {got!r:.60}"
    return InvalidType(f"{here()}{name} of {what}; it takes {right}")
