"""Vectors, arrays of vectors and masks, with the operators on them. TOPS C++, 8.3.

What an operator computes, and for which types, is an attribute of the vector's type.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar

import numpy as np

from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.device.geometry import Array
from atops.kernels.tables.vectors import FUNCTIONS
from atops.kernels.vectors.counting import counted, timed
from atops.kernels.vectors.lanes import converted, exact, here, shift_count, store

if TYPE_CHECKING:
    from atops.kernels.vectors.vector_type import VectorType

__all__ = ("Mask", "Vector")

V = TypeVar("V", bound="Vector")
Convert = Callable[[np.dtype[np.generic], Any, str], Any]


def _binary(cpp: str, convert: Convert = exact, gives_mask: bool = False) -> Callable[[V, object], V]:
    """Return the method for a binary operator whose result has its operands' type, or the mask type of that."""
    role = f"y of {cpp}"

    def method(self: V, other: object) -> V:
        kind = self.type
        compute = kind.operators[cpp]
        if type(other) is not type(self) or other.type is not kind:
            values = compute(self.values, _operand(kind, other, role, convert))
        else:
            try:
                values = compute(self.values, other.values)
            except ValueError:
                raise _unlike_counts(cpp, self, other) from None
        return (kind.mask if gives_mask else kind).wrap(values)  # type: ignore[return-value]  # `wrap` knows the class

    return method


def _reflected(cpp: str) -> Callable[[V, object], V]:
    """Return the method for a binary operator with a scalar on the left."""
    role = f"x of {cpp}"

    def method(self: V, other: object) -> V:
        kind = self.type
        compute = kind.operators[cpp]
        made = kind.wrap(compute(_operand(kind, other, role, exact), self.values))
        return made  # type: ignore[return-value]  # as above

    return method


def _comparison(cpp: str) -> Callable[[Vector, object], Mask]:
    return _binary(cpp, gives_mask=True)  # type: ignore[return-value]  # of the operand's mask type


def _absent(sign: str, name: str) -> Callable[[Vector, object], NoReturn]:
    """Return the method for a Python operator that vectors do not have; the function `name` computes it."""
    row = next(row for row in FUNCTIONS if row.name == name)

    def method(self: Vector, other: object) -> NoReturn:
        permitted = "" if self.type.name in row.permitted else f", which is for {' and '.join(row.types)}"
        raise InvalidType(f"{here()}{self.type.name} has no operator {sign}; use k.{name}(x, y){permitted}")

    return method


def _pythons(name: str) -> Callable[..., NoReturn]:
    """Return the method for a Python function that the language has under the same name."""

    def method(self: Vector, *rest: object) -> NoReturn:
        raise InvalidType(f"{here()}{name} of Python takes no {self.type.name}; use k.{name}(x)")

    return method


def _no_number(self: Vector) -> NoReturn:
    """Refuse to be one number, which built-in functions and those of math ask for."""
    raise InvalidType(
        f"{here()}a {self.type.name} has {self.type.lanes} lanes and is no number; x[i] is one, and functions such as "
        "k.exp(x) (TOPS C++, 8.4) compute all lanes"
    )


class Vector:
    """Lanes of one element type that are computed together: `__vector4 float` and its like (TOPS C++, 8.3).

    Made by calling its type or by loading from memory. `values` has its lanes in the last axis: shape (lanes,), or
    (count, lanes) for an array of vectors, on which every operator works at once; a single vector goes with each vector
    of an array. Operators give new vectors. As everywhere in Python, `y = x` shares one vector, which shows when a lane
    is stored or the vector incremented: `x.copy()` is what C++ does.
    """

    __slots__ = ("type", "values")

    __hash__ = None  # type: ignore[assignment]  # == is lane by lane

    def __init__(self, kind: VectorType, values: Array) -> None:
        """Make a vector of an array of its element type and lanes, unchecked; `VectorType.wrap` does the same."""
        self.type = kind
        self.values = values

    def copy(self) -> Vector:
        """Return a vector of the same lanes that shares nothing with this one."""
        return self.type.wrap(self.values.copy())

    __copy__ = copy

    def store(self, memory: object, index: SupportsIndex = 0) -> None:
        """Store the lanes into `memory` from its element `index` on; an array of vectors one after another.

        `memory` is an array of local, shared or private memory, a span, a variable or a pointer, of the same element
        type. Raises InvalidType for another one and for masks, IllegalAddress where the address is no multiple of 128
        bytes, or the memory ends before the vector, or is constant; InvalidValue for memory with gaps.
        """
        store(self.type, self.values, memory, index)

    def increment(self) -> Vector:
        """Add 1 to every lane of this very vector, and return it: `++x`. Raises InvalidType for a mask."""
        self.type.operators["++x"](self.values, self.type.one, self.values)
        return self

    def decrement(self) -> Vector:
        """Subtract 1 from every lane of this very vector, and return it: `--x`. Raises InvalidType for a mask."""
        self.type.operators["--x"](self.values, self.type.one, self.values)
        return self

    __add__, __radd__ = _binary("x+y"), _reflected("x+y")
    __sub__, __rsub__ = _binary("x-y"), _reflected("x-y")
    __mul__, __rmul__ = _binary("x*y"), _reflected("x*y")
    __lshift__, __rlshift__ = _binary("x<<y", shift_count), _reflected("x<<y")
    __rshift__, __rrshift__ = _binary("x>>y", shift_count), _reflected("x>>y")
    __and__, __rand__ = _binary("x&y"), _reflected("x&y")
    __or__, __ror__ = _binary("x|y"), _reflected("x|y")
    __xor__, __rxor__ = _binary("x^y"), _reflected("x^y")

    __eq__ = _comparison("x==y")  # type: ignore[assignment]  # it gives a mask, not a bool
    __ne__ = _comparison("x!=y")  # type: ignore[assignment]  # as above
    __lt__ = _comparison("x<y")
    __le__ = _comparison("x<=y")
    __gt__ = _comparison("x>y")
    __ge__ = _comparison("x>=y")

    __truediv__ = __rtruediv__ = _absent("/", "div")
    __floordiv__ = __rfloordiv__ = _absent("//", "div")
    __mod__ = __rmod__ = _absent("%", "mod")
    __pow__ = __rpow__ = _absent("**", "power")

    __float__ = __int__ = __complex__ = __trunc__ = _no_number
    __abs__, __round__, __floor__, __ceil__ = map(_pythons, ("abs", "round", "floor", "ceil"))

    def __neg__(self) -> Vector:
        kind = self.type
        return kind.wrap(kind.operators["-x"](self.values))

    def __invert__(self) -> Vector:
        kind = self.type
        return kind.wrap(kind.operators["~x"](self.values))

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        """Return lane `index` as a scalar; of an array of vectors its vector `index`, which shares the lanes.

        `v[i:j]` is the array of vectors i to j - 1 of an array, which shares them too. Raises IllegalAddress outside
        the lanes, InvalidType for what is no integer, or a slice of a single vector.
        """
        values = self.values
        if type(index) is slice:
            return self.type.wrap(values[self._part(index)])
        if type(index) is not int or not 0 <= index < len(values):
            index = self._checked(index)
        return values[index] if values.ndim == 1 else self.type.wrap(values[index])

    def __setitem__(self, index: SupportsIndex, value: object) -> None:
        """Store `value` in lane `index`, a float rounded as C++ does; in an array a vector of the same type.

        Raises IllegalAddress outside the lanes, InvalidType and InvalidValue for what the lane cannot hold.
        """
        values, kind = self.values, self.type
        if type(index) is not int or not 0 <= index < len(values):
            index = self._checked(index)
        if values.ndim == 1:
            values[index] = converted(kind.element, value, "the value of a lane")
        elif type(value) is type(self) and value.type is kind and value.values.ndim == 1:
            values[index] = value.values
        else:
            what = reprlib.repr(value)
            raise InvalidType(f"{here()}vector {index} of an array expects one {kind.name}, got {what}")

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self.values)))

    def __bool__(self) -> bool:
        raise InvalidType(
            f"{here()}a {self.type.name} has {self.type.lanes} lanes and no single truth value; compare it, and use "
            "mask.any() or mask.all()"
        )

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        """Refuse: numpy would take the lanes out of the language, and stores past the checks of memory."""
        raise InvalidType(
            f"{here()}a {self.type.name} is no array; x.store(memory, index) stores it, x.values are its lanes"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> Vector:
        """Compute an operator with a numpy scalar on the left; numpy's functions raise InvalidType."""
        reflected = _REFLECTED.get(ufunc)
        if reflected is None or method != "__call__" or isinstance(inputs[0], Vector):
            raise InvalidType(
                f"{here()}np.{ufunc.__name__} takes no {self.type.name}; k.exp(x) and its like do (TOPS C++, 8.4)"
            )
        made: Vector = getattr(self, reflected)(inputs[0])
        return made

    def __repr__(self) -> str:
        values = np.array2string(self.values, threshold=8, edgeitems=2, separator=", ")
        return f"<{self.type.name} {' '.join(values.split())}>"

    def _part(self, index: slice) -> slice:
        """Return a slice of an array of vectors that is inside."""
        count = len(self.values)
        if self.values.ndim == 1 or index.step is not None:
            raise InvalidType(f"{here()}slice of a {self.type.name} expects i:j of an array of vectors, got {index!r}")
        first = 0 if index.start is None else operator.index(index.start)
        last = count if index.stop is None else operator.index(index.stop)
        if not 0 <= first <= last <= count:
            raise IllegalAddress(f"{here()}vectors {first}:{last} are outside of an array, which has 0:{count}")
        return slice(first, last)

    def _checked(self, index: SupportsIndex) -> int:
        try:
            position = operator.index(index)
        except TypeError:
            raise InvalidType(f"{here()}index of a {self.type.name} expects an integer, got {index!r}") from None
        if not 0 <= position < len(self.values):
            what = f"a {self.type.name}, whose lanes" if self.values.ndim == 1 else "an array, whose vectors"
            raise IllegalAddress(f"{here()}index {position} of {what} are 0 to {len(self.values) - 1}")
        return position


# What `scalar + vector` and its like ask for, where the scalar is numpy's.
_REFLECTED: Mapping[np.ufunc, str] = MappingProxyType(
    {np.add: "__radd__", np.subtract: "__rsub__", np.multiply: "__rmul__",
     np.left_shift: "__rlshift__", np.right_shift: "__rrshift__", np.bitwise_and: "__rand__",
     np.bitwise_or: "__ror__", np.bitwise_xor: "__rxor__", np.equal: "__eq__",
     np.not_equal: "__ne__", np.less: "__gt__", np.less_equal: "__ge__", np.greater: "__lt__",
     np.greater_equal: "__le__", np.true_divide: "__rtruediv__", np.floor_divide: "__rfloordiv__",
     np.remainder: "__rmod__", np.power: "__rpow__"}
)  # fmt: skip


def _operand(kind: VectorType, other: object, role: str, convert: Convert) -> object:
    """Return the scalar beside a vector of type `kind`. Raises InvalidType for vectors of another type and arrays."""
    if isinstance(other, Vector):
        raise InvalidType(f"{here()}{role} expects a {kind.name} or a scalar, got a {other.type.name}")
    if getattr(other, "ndim", 0):
        shape = getattr(other, "shape", None)
        raise InvalidType(f"{here()}{role} is memory of shape {shape}; {kind.python}.load(memory, i) loads it")
    return convert(kind.element, other, role)


def _unlike_counts(cpp: str, x: Vector, y: Vector) -> InvalidValue:
    return InvalidValue(f"{here()}{cpp} expects arrays of as many vectors, got {len(x)} and {len(y)}")


_OF_MASKS: dict[str, Callable[..., Any]] = {
    "any": np.ndarray.any, "all": np.ndarray.all, "count": np.count_nonzero, "select": np.where,
}  # fmt: skip
counted(_OF_MASKS, timed)


class Mask(Vector):
    """A vector of one truth value for each lane: `__vector4 bool int` and its like (TOPS C++, 8.3).

    Its two names, `bool int` and `bool unsigned int`, are one type, which comparing float gives too; `__fp16` and
    `__bf16` give `bool short`. It has the operators & | ^ ~ (those of 64-bit lanes have comparisons only). What follows
    is an addition to the text.
    """

    __slots__ = ()

    def any(self) -> bool:
        """Tell whether a lane is true; of an array of masks, a lane of any of them."""
        return bool(_OF_MASKS["any"](self.values))

    def all(self) -> bool:
        """Tell whether every lane is true; of an array of masks, every lane of all of them."""
        return bool(_OF_MASKS["all"](self.values))

    def count(self) -> int:
        """Return how many lanes are true; of an array of masks, in all of them together."""
        return int(_OF_MASKS["count"](self.values))

    def select(self, x: object, y: object) -> Vector:
        """Return a vector with the lanes of `x` where this mask is true and those of `y` elsewhere.

        One of them is a vector that this mask fits, the other of the same type or a scalar that its elements hold
        exactly. Raises InvalidType for others, InvalidValue for arrays of different lengths.
        """
        vector = x if isinstance(x, Vector) else y
        if not isinstance(vector, Vector) or vector.type.mask is not self.type:
            raise InvalidType(f"{here()}select of a {self.type.name} expects a vector it fits, got {x!r} and {y!r}")
        kind = vector.type
        values = [each.values if isinstance(each, Vector) and each.type is kind else exact(kind.element, each, role)
                  for role, each in (("x of select", x), ("y of select", y))]  # fmt: skip
        try:
            return kind.wrap(_OF_MASKS["select"](self.values, *values))
        except ValueError:
            raise InvalidValue(f"{here()}select expects arrays of as many vectors as masks") from None
