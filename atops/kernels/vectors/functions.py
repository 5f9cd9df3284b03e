"""The mathematical functions on vectors, lane by lane: `k.exp(v)` and 28 more. TOPS C++, 8.4.

Each is made, with its documentation, from its row in the language's table, which says what vector types it takes, and
its arithmetic in `numerics.py`. Another type, a mask or a number alone raises InvalidType. Two operands have one type,
or one of them is a scalar that its element type holds exactly. Arrays of vectors are computed at once. ulp: units of
the last place of the exact result.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

import numpy as np

from atops.base.errors import InvalidType, InvalidValue, LaunchFailure
from atops.device.geometry import Array
from atops.kernels.tables.vectors import FORMS, FUNCTIONS, MathFunction
from atops.kernels.vectors.counting import counted, timed
from atops.kernels.vectors.lanes import exact, here
from atops.kernels.vectors.numerics import Numeric, numeric
from atops.kernels.vectors.vector import Mask, Vector
from atops.kernels.vectors.vector_type import VECTOR_TYPES, VectorType

__all__ = (
    "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "div", "exp", "expm1", "floor", "gelu",
    "isfinite", "ln", "log1p", "mod", "power", "rec", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "softplus", "sqrt", "tan", "tanh",
)  # fmt: skip

F = TypeVar("F", bound=Callable[..., Vector])
Operand = Vector | float | np.generic

_ROWS = {row.name: row for row in FUNCTIONS}
_ACCURACY = {0.0: "Exact.", 0.5: "The nearest value (0.5 ulp)."}
_MOST_NAMED = 9  # types that a message names one by one


class _OfOne(Protocol):
    def __call__(self, x: Vector) -> Vector: ...


class _OfTwo(Protocol):
    def __call__(self, x: Operand, y: Operand) -> Vector: ...


def _unary(name: str) -> _OfOne:
    """Return the function of a vector that the table has under this name."""
    row, kinds = _ROWS[name], _kinds(name)

    def function(x: Vector) -> Vector:
        if not isinstance(x, Vector) or (found := kinds.get(x.type)) is None:
            raise _refused(row, x)
        compute, result = found
        return result.wrap(compute(x.values))

    return _documented(function, row, "")


def _binary(name: str) -> _OfTwo:
    """Return the function of two vectors of one type, or of one and a scalar on either side."""
    row, kinds = _ROWS[name], _kinds(name)

    def function(x: Operand, y: Operand) -> Vector:
        kind = x.type if isinstance(x, Vector) else y.type if isinstance(y, Vector) else None
        if kind is None or (found := kinds.get(kind)) is None:
            raise _refused(row, x if kind is None or isinstance(x, Vector) else y)
        compute, result = found
        left, right = _operand(name, kind, x, "x"), _operand(name, kind, y, "y")
        if kind.element.kind in "iu":
            _check_divisor(name, right)
        try:
            return result.wrap(compute(left, right))
        except ValueError:
            counts = f"{len(left)} and {len(right)}"
            raise InvalidValue(f"{here()}{name} expects arrays of as many vectors, got {counts}") from None

    return _documented(function, row, ", either operand also as a scalar")


def _kinds(name: str) -> dict[VectorType, tuple[Numeric, VectorType]]:
    """Return what computes a function, and the type of its result, for each vector type that it takes."""
    row = _ROWS[name]
    kinds = [VECTOR_TYPES[each] for each in row.permitted]
    table = {kind: (numeric(name, kind.element), kind.mask if row.gives_mask else kind) for kind in kinds}
    counted(table, lambda entry: (timed(entry[0], function=True), entry[1]))
    return table


def _documented(function: F, row: MathFunction, scalars: str) -> F:
    """Give a function the name and the documentation that its row has for it."""
    function.__name__ = function.__qualname__ = row.name
    accuracy = _ACCURACY.get(row.ulp, f"Error at most {row.ulp} ulp.")
    more = f"{row.more} {accuracy} Takes {' and '.join(row.types)}{scalars}. TOPS C++, {row.section}."
    function.__doc__ = f"{row.summary}\n\n{textwrap.fill(more.strip(), 112)}"
    return function


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


def _refused(row: MathFunction, got: object) -> InvalidType:
    """Return the error for an operand, with the types that the function takes."""
    permitted = " and ".join(row.types)
    if len(row.permitted) <= _MOST_NAMED:
        permitted += ": " + ", ".join(form.cpp for form in FORMS if form.cpp in row.permitted)
    what = f"a {got.type.name}" if isinstance(got, Vector) else f"{type(got).__name__} {got!r:.60}"
    cure = "" if isinstance(got, Vector) else (
        "; numbers and arrays are for numpy's functions, as np.exp; a vector is made of them by "
        "k.vector4[np.float32](0.5), or loaded by k.vector4[np.float32].load(x)"
    )  # fmt: skip
    return InvalidType(f"{here()}{row.name} of {what}; it takes {permitted}{cure}")


abs = _unary("abs")
mod = _binary("mod")
div = _binary("div")
sign = _unary("sign")
round = _unary("round")
ln = _unary("ln")
log1p = _unary("log1p")
power = _binary("power")
sqrt = _unary("sqrt")
rec = _unary("rec")
rsqrt = _unary("rsqrt")
exp = _unary("exp")
expm1 = _unary("expm1")
isfinite = cast("Callable[[Vector], Mask]", _unary("isfinite"))
floor = _unary("floor")
ceil = _unary("ceil")
sin = _unary("sin")
cos = _unary("cos")
tan = _unary("tan")
sinh = _unary("sinh")
cosh = _unary("cosh")
tanh = _unary("tanh")
asin = _unary("asin")
acos = _unary("acos")
atan = _unary("atan")
atan2 = _binary("atan2")
softplus = _unary("softplus")
sigmoid = _unary("sigmoid")
gelu = _unary("gelu")
