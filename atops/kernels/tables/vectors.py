"""Vector types and their operators as tables: every type, and for every operator the types it takes. TOPS C++, 8.3.

The vector types and their operators read these tables; nothing here computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from atops.base.dtypes import ELEMENTS, SPELLINGS
from atops.kernels.tables.constructs import Construct

__all__ = ("FORMS", "KEYWORD_BYTES", "OPERATORS", "TYPE_SETS", "VECTORS", "VectorForm")

KEYWORD_BYTES: Mapping[str, int] = MappingProxyType({"vector": 128, "vector2": 256, "vector4": 512})


@dataclass(frozen=True, slots=True)
class VectorForm:
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
    """Return the types with these elements, by name."""
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
    """Return the row of a type."""
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
