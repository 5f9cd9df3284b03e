"""The vector types as values: `vector4[np.float32]` is one, and calling or loading it makes a vector. TOPS C++, 8.3.

Which types there are, and which operators each has, is read from the language's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import SupportsIndex

import numpy as np

from atops.base.dtypes import SPELLINGS, DTypeLike, kernel_dtype, quietly
from atops.base.errors import InvalidType
from atops.device.geometry import Array
from atops.kernels.tables.vectors import FORMS, OPERATORS, TYPE_SETS, VectorForm
from atops.kernels.vectors.counting import counted, timed
from atops.kernels.vectors.lanes import here, lanes_of, load, vector_thread
from atops.kernels.vectors.vector import Mask, Vector

__all__ = (
    "VECTOR_TYPES", "Compute", "Operators", "VectorFamily", "VectorType", "sizeof", "vector", "vector2", "vector4",
)  # fmt: skip

Compute = Callable[..., Array]

# By the spelling of the text. The combined operators (x&~y) are two of these, one after the other.
COMPUTE: Mapping[str, Compute] = {
    "x+y": np.add,
    "x-y": np.subtract,
    "x*y": np.multiply,
    "x<<y": np.left_shift,  # numpy's shifts give 0 where the count is the width or more
    "x>>y": np.right_shift,
    "-x": np.negative,
    "++x": np.add,
    "--x": np.subtract,
    "x==y": np.equal,
    "x!=y": np.not_equal,
    "x<y": np.less,
    "x<=y": np.less_equal,
    "x>y": np.greater,
    "x>=y": np.greater_equal,
    "x&y": np.bitwise_and,
    "x|y": np.bitwise_or,
    "x^y": np.bitwise_xor,
    "~x": np.invert,
}

class Operators(dict[str, Compute]):
    """The operators that a vector type has, by the text's spelling; asking for another raises InvalidType."""

    __slots__ = ("_form",)

    def __init__(self, form: VectorForm) -> None:
        self._form = form
        floats = form.spelling in ("float", "__fp16", "__bf16")
        for row in OPERATORS:
            if row.cpp in COMPUTE and any(form.cpp in TYPE_SETS[words] for words in row.types):
                run = COMPUTE[row.cpp]
                self[row.cpp] = partial(quietly, run) if floats else run
        counted(self, timed)

    def __missing__(self, cpp: str) -> Compute:
        words = next(row.types for row in OPERATORS if row.cpp == cpp)
        alike = ", ".join(
            form.cpp
            for form in FORMS
            if form.keyword == self._form.keyword and any(form.cpp in TYPE_SETS[each] for each in words)
        )
        raise InvalidType(f"{here()}{cpp} is not for {self._form.cpp}; it is for {' and '.join(words)}: {alike}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VectorType:
    """A vector type: `lanes` elements of a dtype, `nbytes` by sizeof. There is one object for each type.

    A keyword has one size, except for `__vector4 long` and `unsigned long`: 128 lanes, as the text says, in 1024 bytes.

    `name` is the text's, such as "__vector4 unsigned int". `mask` is the type that comparisons give, a mask's own for
    masks, whose `element` is bool (TOPS C++, 8.3).
    """

    keyword: str
    element: np.dtype[np.generic]
    lanes: int
    nbytes: int
    name: str
    is_mask: bool
    mask: VectorType
    operators: Operators = field(repr=False)
    one: np.generic = field(repr=False)

    def __call__(self, values: object = 0) -> Vector:
        """Make a vector: of one number for all lanes, of as many numbers as lanes, or as a copy of another vector.

        Values of shape (count, lanes) make an array of vectors; nothing makes zeros. Floats are rounded to the element
        type, integers and bools must be held exactly. Raises IllegalState on the host, NotSupported on a chip without
        vector types, InvalidType and InvalidValue for what cannot become these lanes.
        """
        vector_thread(self.name)
        if isinstance(values, Vector):
            if values.type is not self:
                raise InvalidType(f"{here()}{self.name}() expects numbers or a {self.name}, got a {values.type.name}")
            return values.copy()
        return self.wrap(lanes_of(self.element, self.lanes, values, f"the value of a {self.name}"))

    def load(self, memory: object, index: SupportsIndex = 0, count: SupportsIndex | None = None) -> Vector:
        """Load the vector that begins at element `index` of `memory`, or an array of `count` vectors from there on.

        `memory` is an array of local, shared or private memory, a span, a variable or a pointer, of this element type.
        Raises IllegalAddress where the address is no multiple of 128 bytes or the memory ends before the vector,
        InvalidType for other memory and for masks, InvalidValue for memory with gaps, and what calling the type raises
        on the host and on a chip without vector types.
        """
        return self.wrap(load(self, memory, index, count))

    def wrap(self, values: Array) -> Vector:
        """Make a vector of an array of its element type whose last axis has its lanes, without check and copy."""
        return Mask(self, values) if self.is_mask else Vector(self, values)

    @property
    def python(self) -> str:
        """Return how a kernel names it."""
        return f'k.{self.keyword}["{self.name.partition(" ")[2]}"]'

    def __reduce__(self) -> tuple[Callable[[str], VectorType], tuple[str]]:
        return _named, (self.name,)  # copies are the type itself

    def __repr__(self) -> str:
        return self.name


class VectorFamily:
    """The vector types of one keyword by their element: `vector4[np.float32]`, `vector4["bool int"]` (TOPS C++, 8.3).

    Elements are the text's spellings ("unsigned int", "__fp16", "bool int") and numpy dtypes. Another one raises
    InvalidType that names the permitted ones.
    """

    __slots__ = ("_keyword", "_known", "_types")

    def __init__(self, keyword: str, types: Mapping[str, VectorType]) -> None:
        self._keyword = keyword
        self._types = types
        self._known: dict[object, VectorType] = {}  # by spelling and by numpy's types
        for spelling, each in types.items():
            self._known[spelling] = each
            if not each.is_mask:
                self._known[each.element.type] = self._known[SPELLINGS[spelling]] = each

    def __getitem__(self, element: DTypeLike) -> VectorType:
        try:
            return self._known[element]
        except (KeyError, TypeError):
            pass
        try:
            return self._known[kernel_dtype(element)]
        except (KeyError, InvalidType):
            pass
        permitted = ", ".join(map(repr, self._types))
        raise InvalidType(f"{here()}there is no __{self._keyword} of {element!r}; expected one of {permitted}")

    def __repr__(self) -> str:
        return f"<vector types __{self._keyword}>"


def sizeof(x: Vector | VectorType) -> int:
    """Return the size of a vector, an array of vectors or a vector type in bytes (TOPS C++, 8.3).

    Raises InvalidType for anything else.
    """
    if isinstance(x, VectorType):
        return x.nbytes
    if isinstance(x, Vector):
        return x.type.nbytes * (x.values.size // x.type.lanes)
    raise InvalidType(f"{here()}sizeof expects a vector or a vector type, got {x!r}")


def _made(form: VectorForm, mask: VectorType | None) -> VectorType:
    """Return a new type; a mask without `mask` is its own."""
    element = np.dtype(np.bool_) if form.is_mask else SPELLINGS[form.spelling]
    made = VectorType(
        form.keyword, element, form.lanes, form.nbytes, form.cpp, form.is_mask, mask,  # type: ignore[arg-type]  # set below
        Operators(form), element.type(1),
    )  # fmt: skip
    if mask is None:
        object.__setattr__(made, "mask", made)
    return made


def _all_types() -> dict[str, VectorType]:
    """Return every type by its name; both names of a mask have the same one."""
    masks: dict[tuple[str, int, int], VectorType] = {}
    for form in FORMS:
        if form.is_mask:
            masks.setdefault((form.keyword, form.lanes, form.nbytes), _made(form, None))
    return {
        form.cpp: masks[form.keyword, form.lanes, form.nbytes] if form.is_mask
        else _made(form, masks[form.keyword, form.lanes, form.nbytes])
        for form in FORMS
    }  # fmt: skip


VECTOR_TYPES: Mapping[str, VectorType] = MappingProxyType(_all_types())


def _named(name: str) -> VectorType:
    return VECTOR_TYPES[name]


def _family(keyword: str) -> VectorFamily:
    return VectorFamily(keyword, {form.spelling: VECTOR_TYPES[form.cpp] for form in FORMS if form.keyword == keyword})


vector, vector2, vector4 = _family("vector"), _family("vector2"), _family("vector4")
