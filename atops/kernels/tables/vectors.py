"""Vector types, their operators and the 29 mathematical functions as tables: TOPS C++, 8.3 and 8.4.

For every operator and function the types it takes, and what it does. Both read these tables; nothing here computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from atops.base.dtypes import ELEMENTS, SPELLINGS
from atops.kernels.tables.constructs import Construct

__all__ = (
    "FORMS", "FUNCTIONS", "FUNCTION_TYPES", "KEYWORD_BYTES", "OPERATORS", "TYPE_SETS", "VECTORS", "MathFunction",
    "VectorForm",
)  # fmt: skip

KEYWORD_BYTES: Mapping[str, int] = MappingProxyType({"vector": 128, "vector2": 256, "vector4": 512})


class VectorForm(NamedTuple):
    """A vector type as the text writes it: `lanes` elements of `spelling` after `keyword`, `nbytes` by sizeof."""

    keyword: str
    spelling: str
    lanes: int
    nbytes: int

    @property
    def cpp(self) -> str:
        """Return the type's name in TOPS C++: "__vector4 unsigned int"."""
        return f"__{self.keyword} {self.spelling}"

    @property
    def is_mask(self) -> bool:
        """Tell whether its lanes are truth values."""
        return self.spelling.startswith("bool ")


_INTEGERS = ("int", "unsigned int", "short", "unsigned short", "char", "unsigned char")
_FLOATS = ("float", "__fp16", "__bf16")
_LONGS = ("long", "unsigned long")  # __vector4 only, and 128 lanes: the one exception to the keyword's bytes


def _forms() -> Iterator[VectorForm]:
    """Yield every vector type in the text's order: numbers by keyword, then masks by keyword."""
    for prefix, floats in (("", _FLOATS), ("bool ", ())):
        for keyword, nbytes in KEYWORD_BYTES.items():
            for spelling in (*_INTEGERS, *floats):
                yield VectorForm(keyword, prefix + spelling, nbytes // SPELLINGS[spelling].itemsize, nbytes)
            if keyword == "vector4":
                for spelling in _LONGS:
                    yield VectorForm(keyword, prefix + spelling, 128, 128 * SPELLINGS[spelling].itemsize)


FORMS: tuple[VectorForm, ...] = tuple(_forms())

_EVERY = "all vector types"
_NUMBERS = "all vector types but masks"
_SIGNED = "vectors of signed types"
_UNSIGNED = "vectors of unsigned integers"
_BITS = "vectors of unsigned char, short and int"
_MASKS = "masks of char, short and int"


def _names(*spellings: str) -> frozenset[str]:
    return frozenset(form.cpp for form in FORMS if form.spelling in spellings)


# What the words in the operators' `types` stand for. A mask's two names (bool int, bool unsigned int) are one type.
TYPE_SETS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        _EVERY: frozenset(form.cpp for form in FORMS),
        _NUMBERS: _names(*_INTEGERS, *_LONGS, *_FLOATS),
        _SIGNED: _names("int", "short", "char", "long", *_FLOATS),
        _UNSIGNED: _names("unsigned int", "unsigned short", "unsigned char", "unsigned long"),
        _BITS: _names("unsigned int", "unsigned short", "unsigned char"),
        _MASKS: _names(*(f"bool {spelling}" for spelling in _INTEGERS)),
    }
)

_ALGEBRA = (_BITS, _MASKS)
_OPERANDS = "The other operand has the same type or is a scalar that the element type holds exactly; a float such as " \
            "0.1 is rounded explicitly, np.float32(0.1)."  # fmt: skip
_TO_MASK = "`mask.any()`, `mask.all()`, `mask.count()` and `mask.select(x, y)` are additions: the text has no other " \
           "use for a mask."  # fmt: skip


def _row(cpp: str, python: str, summary: str, types: tuple[str, ...] = (), differs: str = "") -> Construct:
    return Construct("8.3", cpp, python, summary, types, differs, gcu_arch=300)


def _type_row(form: VectorForm) -> Construct:
    element = next((row for row in ELEMENTS.values() if row.spelling == form.spelling), None)
    named = element is not None and element.name != "bfloat16"  # numpy itself has no bfloat16 and no typed bool
    key = f"np.{element.name}" if element is not None and named else f'"{form.spelling}"'
    what = "bool" if form.is_mask else form.spelling
    differs = ""
    if form.is_mask and "unsigned" in form.spelling:
        differs = f"The same type as `__{form.keyword} {form.spelling.replace('unsigned ', '')}`."
    elif form.cpp == "__vector2 bool int":
        differs = "The text says 128 lanes, a slip: it is what comparing 64 int gives."
    return _row(form.cpp, f"k.{form.keyword}[{key}]", f"{form.lanes} {what}, {form.nbytes} bytes.", differs=differs)


_KEYWORD_ROWS = tuple(
    _row(f"__{keyword}", f"k.{keyword}", f"Vector types of {size} bytes." + (
        " Those of 64-bit elements have 1024." if keyword == "vector4" else ""))
    for keyword, size in KEYWORD_BYTES.items()
)  # fmt: skip

OPERATORS: tuple[Construct, ...] = (
    _row("x+y", "x + y", "Add; integers wrap.", (_NUMBERS,), _OPERANDS),
    _row("x-y", "x - y", "Subtract; integers wrap.", (_NUMBERS,)),
    _row("x*y", "x * y", "Multiply; integers wrap.", (_NUMBERS,), "The text says subtraction, a slip."),
    _row("x<<y", "x << y", "Shift left, a count for each lane or one for all; one of the width or more gives 0.",
         (_UNSIGNED,), "A negative count is an error."),
    _row("x>>y", "x >> y", "Shift right and fill with 0; a count of the width or more gives 0.", (_UNSIGNED,),
         "A negative count is an error."),
    _row("[x]", "v[x]", "Read lane x, or store it: `v[x] = value`.", (_EVERY,),
         "Bounds are checked: an index outside the lanes, a negative one too, is an IllegalAddress."),
    _row("-x", "-x", "Negate; the least integer gives itself.", (_SIGNED,)),
    _row("++x", "x.increment()", "Add 1 to every lane, in place.", (_NUMBERS,),
         "`x += 1` makes a new vector, so that another name of x keeps the old one. Python has no `++`."),
    _row("--x", "x.decrement()", "Subtract 1 from every lane, in place.", (_NUMBERS,)),
    _row("sizeof(x)", "k.sizeof(x)", "Return the size of a vector or of its type in bytes.", (_EVERY,),
         "A function. A mask has its keyword's bytes."),
    _row("x==y", "x == y", "Compare each lane for equality; gives a mask.", (_EVERY,), _TO_MASK),
    _row("x!=y", "x != y", "Compare each lane for inequality; gives a mask.", (_EVERY,)),
    _row("x<y", "x < y", "Compare each lane: less; gives a mask, false where either is NaN.", (_EVERY,)),
    _row("x<=y", "x <= y", "Compare each lane: less or equal; gives a mask.", (_EVERY,)),
    _row("x>y", "x > y", "Compare each lane: greater; gives a mask.", (_EVERY,)),
    _row("x>=y", "x >= y", "Compare each lane: greater or equal; gives a mask.", (_EVERY,)),
    _row("x&y", "x & y", "And of the bits, of masks of the lanes.", _ALGEBRA),
    _row("x|y", "x | y", "Or of the bits, of masks of the lanes.", _ALGEBRA),
    _row("x^y", "x ^ y", "Exclusive or of the bits, of masks of the lanes.", _ALGEBRA),
    _row("~x", "~x", "Invert every bit, of a mask every lane.", _ALGEBRA,
         "Masks too: the combined operators below need it."),
    _row("x&~y", "x & ~y", "And with the inverse.", (_MASKS,)),
    _row("x|~y", "x | ~y", "Or with the inverse.", (_MASKS,)),
    _row("~(x&y)", "~(x & y)", "Inverse of and.", (_MASKS,)),
    _row("~(x|y)", "~(x | y)", "Inverse of or.", (_MASKS,)),
    _row("~(x^y)", "~(x ^ y)", "Inverse of exclusive or.", (_MASKS,)),
)  # fmt: skip

_VARIABLE_ROWS = (
    _row("__vector4 int v;", 'v = k.vector4["int"]()', "Define a vector.",
         differs="Zero, where C++ leaves it undefined."),
    _row("__vector4 int v = x;", 'v = k.vector4["int"](x)', "Define a vector of a scalar for all lanes, of as many "
         "values, or as a copy of a vector.",
         differs="`v = x` shares one vector, as everywhere in Python; `x.copy()` is what C++ does."),
    _row("__local__ __vector float v[128];", "v = k.vector[np.float32].load(memory, index, 128)",
         "An array of vectors, made of local memory.",
         differs="One operator works on all of its vectors at once, where C++ has a loop; `v.store(memory, index)` "
         "writes it back. Its vectors are v[0] to v[127]."),
    _row("x = *(__vector4 float*)(p + i);", "x = k.vector4[np.float32].load(p, i)", "Load the vector that begins at "
         "element i of local, shared or global memory.", differs="The element types are the same, the address is a "
         "multiple of 128 bytes, and the vector ends inside the memory. Masks have no form in memory."),
    _row("*(__vector4 float*)(p + i) = x;", "x.store(p, i)", "Store a vector from element i of memory on.",
         differs="As for loads."),
)  # fmt: skip

VECTORS: tuple[Construct, ...] = (*_KEYWORD_ROWS, *map(_type_row, FORMS), *_VARIABLE_ROWS, *OPERATORS)

_VECTOR4 = "__vector4 vectors of 8 to 32 bits"
_VECTOR4_INTEGERS = "__vector4 vectors of integers of 8 to 32 bits"
_VECTOR4_FLOATS = "__vector4 vectors of floats"
_VECTOR_FLOATS = "__vector vectors of floats"
_BOTH_FLOATS = (_VECTOR4_FLOATS, _VECTOR_FLOATS)

# What the words in the functions' `types` stand for: the remarks below the text's table.
FUNCTION_TYPES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        _NUMBERS: TYPE_SETS[_NUMBERS],
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
    """A mathematical function, which takes exactly the vector types of `permitted`; `more` adds to `summary`.

    `ulp` bounds its error in each floating type, in units of the last place of the exact result: 0 is exact, 0.5 the
    nearest value. The result has the type of the operands, or the mask that belongs to it.
    """

    ulp: float = _ROUNDED_ONCE
    gives_mask: bool = False
    more: str = ""

    @property
    def name(self) -> str:
        """Return the function's name in both languages."""
        return self.cpp.partition("(")[0]

    @property
    def permitted(self) -> frozenset[str]:
        """Return the names of the vector types that it takes."""
        return frozenset().union(*(FUNCTION_TYPES[words] for words in self.types))


def _function(
    cpp: str, types: tuple[str, ...], ulp: float, summary: str, more: str = "", differs: str = "", python: str = "",
    mask: bool = False,
) -> MathFunction:  # fmt: skip
    python = f"k.{python or cpp}"
    return MathFunction("8.4", cpp, python, summary, types, differs, 300, ulp, mask, more)


FUNCTIONS: tuple[MathFunction, ...] = (
    _function("abs(x)", (_NUMBERS,), _EXACT, "Return the absolute value of each lane; unsigned lanes as they are.",
              "Of the least integer it is that integer again, of -0 it is 0, of NaN NaN.",
              "Not said: of the least integer it wraps to itself. Masks are no data."),
    _function("mod(x)", (_VECTOR4_INTEGERS,), _EXACT,
              "Return the floored remainder of integer lanes: `x - y * floor(x / y)`.",
              "It has the sign of the divisor y. Raises LaunchFailure, naming thread and lane, for a zero divisor.",
              "The text gives one argument: it is binary. Not said: floored, the sign is the divisor's; a zero divisor "
              "is a kernel fault.", "mod(x, y)"),
    _function("div(x,y)", (_VECTOR4,), _NEAREST, "Return x / y; integers truncate toward zero and wrap.",
              "The least integer divided by -1 gives itself; x / 0 of floats is infinite, 0 / 0 NaN. Raises "
              "LaunchFailure, naming thread and lane, for an integer divisor of 0.",
              "Not said: integers truncate toward zero and wrap; their zero divisor is a kernel fault, that of floats "
              "gives inf or NaN.", "div(x, y)"),
    _function("sign(x)", (_VECTOR4_FLOATS,), _EXACT,
              "Return -1, 0 or 1 as each lane is negative, zero or positive; NaN stays.", "",
              "Not said: -1, 0 or 1, and NaN stays."),
    _function("round(x)", (_VECTOR4_FLOATS,), _EXACT, "Return the nearest whole number, half away from zero.",
              "2.5 gives 3 and -2.5 gives -3. NaN, infinities and the sign of zero stay.",
              "Not said: half away from zero."),
    _function("ln(x)", _BOTH_FLOATS, _ROUNDED_ONCE,
              "Return the natural logarithm: of 0 minus infinity, of negative numbers NaN."),
    _function("log1p(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return the logarithm of 1 + x, accurate near 0 too: of -1 minus infinity, below NaN."),
    _function("power(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return x to the power of y, as C's pow: a negative x needs a whole y, else NaN.",
              "Anything to the power of 0 is 1, and 1 to any power is 1, NaN included; 0 to a negative power is "
              "infinite.", "The text gives one argument: it is binary.", "power(x, y)"),
    _function("sqrt(x)", (_VECTOR4_FLOATS,), _NEAREST,
              "Return the square root: of negative numbers NaN, of -0 it is -0."),
    _function("rec(x)", (_VECTOR_FLOATS,), _NEAREST, "Return 1 / x: of 0 infinity with the sign of that zero.",
              "`div(1, x)` does the same for `__vector4`."),
    _function("rsqrt(x)", _BOTH_FLOATS, _ROUNDED_ONCE,
              "Return 1 / sqrt(x): of 0 infinity, of -0 minus infinity, of negative numbers NaN."),
    _function("exp(x)", _BOTH_FLOATS, _ROUNDED_ONCE,
              "Return e to the power of x; infinite where that overflows, gradually 0 where it underflows."),
    _function("expm1(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return exp(x) - 1, accurate near 0 too: of minus infinity -1."),
    _function("isfinite(x)", (_VECTOR4_FLOATS,), _EXACT,
              "Return the mask of the lanes that are neither infinite nor NaN.", "",
              "Not said: the result is the mask that comparisons of these types give.", mask=True),
    _function("floor(x)", (_VECTOR4_FLOATS,), _EXACT, "Return the greatest whole number that is not above x.",
              "NaN, infinities and the sign of zero stay."),
    _function("ceil(x)", (_VECTOR4_FLOATS,), _EXACT,
              "Return the least whole number that is not below x; above -1 and below 0 that is -0.",
              "NaN, infinities and the sign of zero stay."),
    _function("sin(x)", _BOTH_FLOATS, _ROUNDED_ONCE,
              "Return the sine of x in radians, of any size; of infinities NaN."),
    _function("cos(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return the cosine of x in radians, of any size; of infinities NaN."),
    _function("tan(x)", _BOTH_FLOATS, _ROUNDED_ONCE,
              "Return the tangent of x in radians, of any size; of infinities NaN."),
    _function("sinh(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return the hyperbolic sine; infinite where it overflows."),
    _function("cosh(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return the hyperbolic cosine; infinite where it overflows."),
    _function("tanh(x)", _BOTH_FLOATS, _ROUNDED_ONCE, "Return the hyperbolic tangent, from -1 to 1."),
    _function("asin(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return the arc sine in radians, from -pi/2 to pi/2; outside -1 to 1 NaN."),
    _function("acos(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return the arc cosine in radians, from 0 to pi; outside -1 to 1 NaN."),
    _function("atan(x)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE,
              "Return the arc tangent in radians, from -pi/2 to pi/2, which infinities give."),
    _function("atan2(x,y)", (_VECTOR4_FLOATS,), _ROUNDED_ONCE, "Return the arc tangent of x / y in radians, from -pi "
              "to pi: the angle of the point that is y right and x up.",
              "Both signs choose the quadrant, also of zeros and infinities.",
              "Not said: both signs choose the quadrant. x, the first argument, is the numerator.", "atan2(x, y)"),
    _function("softplus(x)", _BOTH_FLOATS, _ROUNDED_ONCE, "Return log(1 + exp(x)) without overflow and "
              "without a threshold: of minus infinity 0.", "",
              "Not said: without overflow and without a threshold."),
    _function("sigmoid(x)", _BOTH_FLOATS, _ROUNDED_ONCE,
              "Return 1 / (1 + exp(-x)), whose lower tail underflows gradually."),
    _function("gelu(x)", _BOTH_FLOATS, _BY_QUOTIENT, "Return x times the normal distribution function of x: "
              "`x * (1 + erf(x / sqrt(2))) / 2`.",
              "No approximation by tanh. Its negative tail underflows gradually; of minus infinity -0.",
              "Not said: exact, by the error function."),
)  # fmt: skip
