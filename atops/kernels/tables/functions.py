"""The 29 mathematical functions of the language (TOPS C++, 8.4): types, meaning and accuracy.

The functions read their types here; the reference and the tests read the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from atops.kernels.tables.constructs import Construct
from atops.kernels.tables.vectors import FORMS

__all__ = ("FUNCTIONS", "FUNCTION_TYPES", "MathFunction")

_FLOATS = ("__bf16", "__fp16", "float")
_INTEGERS = ("int", "short", "char", "unsigned int", "unsigned short", "unsigned char")

_ALL = "all vector types but masks"
_VECTOR4 = "__vector4 vectors of 8 to 32 bits"
_VECTOR4_INTEGERS = "__vector4 vectors of integers of 8 to 32 bits"
_VECTOR4_FLOATS = "__vector4 vectors of floats"
_VECTOR_FLOATS = "__vector vectors of floats"
_BOTH_FLOATS = (_VECTOR4_FLOATS, _VECTOR_FLOATS)

# What the words in the rows' `types` stand for: the remarks below the text's table.
FUNCTION_TYPES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        _ALL: frozenset(form.cpp for form in FORMS if not form.is_mask),
        _VECTOR4: frozenset(f"__vector4 {element}" for element in _INTEGERS + _FLOATS),
        _VECTOR4_INTEGERS: frozenset(f"__vector4 {element}" for element in _INTEGERS),
        _VECTOR4_FLOATS: frozenset(f"__vector4 {element}" for element in _FLOATS),
        _VECTOR_FLOATS: frozenset(f"__vector {element}" for element in _FLOATS),
    }
)

# Error bounds in units of the last place. Whatever is not exact is computed in the next wider type and rounded once:
# half a unit, and a little where the wider result lies next to the middle of two values. Measured: at most 0.5001
# (every half and bfloat16, 100,000 float), of gelu 0.5012.
_EXACT = 0.0
_NEAREST = 0.5
_ROUNDED_ONCE = 0.501
_BY_QUOTIENT = 0.502


@dataclass(frozen=True, slots=True)
class MathFunction(Construct):
    """A mathematical function, which takes exactly the vector types of `permitted`.

    `ulp` bounds its error in each floating type, in units of the last place of the exact result: 0 is exact, 0.5 the
    nearest value. The result has the type of the operands, or the mask that belongs to it.
    """

    ulp: float = _ROUNDED_ONCE
    gives_mask: bool = False

    @property
    def name(self) -> str:
        """Return the function's name in both languages."""
        return self.cpp.partition("(")[0]

    @property
    def permitted(self) -> frozenset[str]:
        """Return the names of the vector types that it takes."""
        return frozenset().union(*(FUNCTION_TYPES[words] for words in self.types))


def _row(
    cpp: str, summary: str, types: tuple[str, ...], ulp: float, differs: str = "", python: str = "", mask: bool = False
) -> MathFunction:
    python = f"k.{python or cpp}"
    return MathFunction("8.4", cpp, python, summary, types, differs, gcu_arch=300, ulp=ulp, gives_mask=mask)


FUNCTIONS: tuple[MathFunction, ...] = (
    _row("abs(x)", "Absolute value.", (_ALL,), _EXACT,
         "Not said: of the least integer it wraps to itself. Masks are no data."),
    _row("mod(x)", "Remainder of a division of integers.", (_VECTOR4_INTEGERS,), _EXACT,
         "The text gives one argument: it is binary. Not said: floored, the sign is the divisor's; a zero divisor is a "
         "kernel fault.", "mod(x, y)"),
    _row("div(x,y)", "Quotient.", (_VECTOR4,), _NEAREST,
         "Not said: integers truncate toward zero and wrap; their zero divisor is a kernel fault, that of floats gives "
         "inf or NaN.", "div(x, y)"),
    _row("sign(x)", "Sign of each lane.", (_VECTOR4_FLOATS,), _EXACT, "Not said: -1, 0 or 1, and NaN stays."),
    _row("round(x)", "Nearest whole number.", (_VECTOR4_FLOATS,), _EXACT, "Not said: half away from zero."),
    _row("ln(x)", "Natural logarithm.", _BOTH_FLOATS, _ROUNDED_ONCE),
    _row("log1p(x)", "`log(1 + x)`, accurate near 0 too.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE),
    _row("power(x)", "x to the power of y.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
         "The text gives one argument: it is binary.", "power(x, y)"),
    _row("sqrt(x)", "Square root.", (_VECTOR4_FLOATS,), _NEAREST),
    _row("rec(x)", "Reciprocal.", (_VECTOR_FLOATS,), _NEAREST),
    _row("rsqrt(x)", "Reciprocal of the square root.", _BOTH_FLOATS, _ROUNDED_ONCE),
    _row("exp(x)", "Exponential function.", _BOTH_FLOATS, _ROUNDED_ONCE),
    _row("expm1(x)", "`exp(x) - 1`, accurate near 0 too.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE),
    _row("isfinite(x)", "Whether each lane is finite.", (_VECTOR4_FLOATS,), _EXACT,
         "Not said: the result is the mask that comparisons of these types give.", mask=True),
    _row("floor(x)", "Next whole number below.", (_VECTOR4_FLOATS,), _EXACT),
    _row("ceil(x)", "Next whole number above.", (_VECTOR4_FLOATS,), _EXACT),
    _row("sin(x)", "Sine.", _BOTH_FLOATS, _ROUNDED_ONCE),
    _row("cos(x)", "Cosine.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE),
    _row("tan(x)", "Tangent.", _BOTH_FLOATS, _ROUNDED_ONCE),
    _row("sinh(x)", "Hyperbolic sine.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE),
    _row("cosh(x)", "Hyperbolic cosine.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE),
    _row("tanh(x)", "Hyperbolic tangent.", _BOTH_FLOATS, _ROUNDED_ONCE),
    _row("asin(x)", "Arc sine.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE),
    _row("acos(x)", "Arc cosine.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE),
    _row("atan(x)", "Arc tangent.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE),
    _row("atan2(x,y)", "Arc tangent of `x / y` in radians.", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
         "Not said: both signs choose the quadrant. x, the first argument, is the numerator.", "atan2(x, y)"),
    _row("softplus(x)", "Activation `log(1 + exp(x))`.", _BOTH_FLOATS, _ROUNDED_ONCE,
         "Not said: without overflow and without a threshold."),
    _row("sigmoid(x)", "Activation `1 / (1 + exp(-x))`.", _BOTH_FLOATS, _ROUNDED_ONCE),
    _row("gelu(x)", "Activation `x * (1 + erf(x / sqrt(2))) / 2`.", _BOTH_FLOATS, _BY_QUOTIENT,
         "Not said: exact, by the error function."),
)  # fmt: skip
