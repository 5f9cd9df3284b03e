"""What a launch passes to a kernel: scalars of the annotated type, and device memory.

Types and ranges are checked here, before anything runs; whether memory may be reached is checked at the launch.
"""

from __future__ import annotations

import cmath
import inspect
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from atops.base.dtypes import DType, element_name, kernel_dtype, quietly
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.device.geometry import Space
from atops.device.memory.allocation import Allocation
from atops.device.span.span import ElementType, Span
from atops.kernels.memory.spaces import LanguageSpace

__all__ = (
    "Argument", "Arriving", "MemoryArgument", "Parameter", "Plain", "aliases", "parameter", "restrict",
    "restricted_type",
)  # fmt: skip

# What an annotation can be, for messages; the types that restrict nothing beyond `_plain`; and numpy's types without a
# size, each of which stands for several.
_ANNOTATIONS = "k.Span, an element type such as np.float32 or 'bfloat16', int, float, bool or Any"
_OPEN: tuple[type, ...] = (cast("type", Callable), tuple, int, float, complex, np.dtype)
_ABSTRACT = (np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating)

Number = int | float | complex | np.generic
# What a launch passes that is no memory; that its type and range fit the parameter is found at the call.
Plain = Number | DType | type[Any] | tuple[object, ...] | Callable[..., Any]
Arrival_co = TypeVar("Arrival_co", covariant=True)


class Argument(Protocol[Arrival_co]):
    """Memory that a launch passes and that arrives as an `Arrival_co`, for type checkers."""

    def __kernel_parameter__(self) -> Arrival_co:
        """Say what it arrives as. Nothing calls it."""


class MemoryArgument(NamedTuple):
    """Device memory that was passed to parameter `name`: `shape` elements of `dtype` at byte `offset`."""

    name: str
    allocation: Allocation
    offset: int
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Return its bytes."""
        return math.prod(self.shape) * int(self.dtype.itemsize)

    def overlaps(self, other: MemoryArgument) -> bool:
        """Tell whether another argument has some of the same bytes."""
        if self.allocation is not other.allocation:
            return False
        return self.offset < other.offset + other.nbytes and other.offset < self.offset + self.nbytes

    def span(self) -> Span:
        """Return a fresh span of it. Raises IllegalAddress when its allocation is dead."""
        return Span.over(self.allocation, self.offset, self.dtype, self.shape)

    def __repr__(self) -> str:
        return f"{element_name(self.dtype)}{list(self.shape)} at {self.allocation.address + self.offset:#x}"


class Parameter(NamedTuple):
    """One parameter of a kernel: `dtype` is that of a scalar, `memory` whether it takes device memory only.

    `restrict` says that no other argument may reach its memory; `elements` is the element type of that memory, if any.
    """

    kernel: str
    name: str
    dtype: np.dtype[np.generic] | type | None
    memory: bool
    restrict: bool = False
    elements: np.dtype[np.generic] | None = None

    def take(self, value: object) -> object:
        """Return the argument that the kernel gets for `value`; device memory as a MemoryArgument.

        Raises InvalidType, InvalidValue and, for freed memory, IllegalAddress, naming kernel, parameter and value.
        """
        region = getattr(value, "__kernel_argument__", None)  # allocation, offset in bytes, element type, shape
        if region is not None:
            if self.dtype is not None:
                raise self._wrong(value, f"a scalar of {_type_name(self.dtype)}")
            taken = MemoryArgument(self.name, *region())
            if taken.allocation.freed_by is not None:
                what = f"kernel {self.kernel}: parameter {self.name} got {value!r}, which"
                raise IllegalAddress(taken.allocation.freed_message(what))
            if self.elements is not None and taken.dtype != self.elements:
                raise self._wrong(value, f"memory of {element_name(self.elements)}")
            return taken
        if isinstance(value, np.ndarray | list):
            raise self._wrong(value, "memory of the device", "host memory; upload it first (stream.upload)")
        if self.memory:
            raise self._wrong(value, "memory of the device")
        if self.dtype is None:
            return self._plain(value)
        if not isinstance(value, int | float | complex | np.generic):
            raise self._wrong(value, f"a scalar of {_type_name(self.dtype)}")
        return self._scalar(value, self.dtype)

    def _plain(self, value: object) -> object:
        """Return an argument without an annotated type: a number, a tuple of them, or what a template would take."""
        if type(value) is tuple:
            return tuple([self._plain(each) for each in value])
        if isinstance(value, int | float | complex | np.generic | np.dtype) or callable(value):
            return value
        if hasattr(value, "__kernel_argument__"):
            raise self._wrong(value, "a parameter of its own for each", f"{type(value).__name__} in a tuple")
        raise self._wrong(value, "memory of the device, a number, a tuple of numbers or a type")

    def _scalar(self, value: Number, dtype: np.dtype[np.generic] | type) -> Any:
        """Return `value` as a scalar of `dtype`; only the rounding of floats may change it."""
        if isinstance(dtype, type):  # of Python, whose int has no range
            return self._whole(value, None) if dtype is int else self._scalar(value, np.dtype(dtype)).item()
        if dtype.kind in "biu":
            return self._whole(value, dtype)
        try:
            result = quietly(dtype.type, value) if dtype.fields is None else np.asarray(value, dtype)[()]
        except OverflowError:
            raise self._range(value, dtype) from None
        except (TypeError, ValueError):
            raise self._wrong(value, f"a scalar of {_type_name(dtype)}") from None
        if dtype.fields is None and not cmath.isfinite(result) and _is_finite(value):
            raise self._range(value, dtype)
        return result

    def _whole(self, value: Number, dtype: np.dtype[np.generic] | None) -> int | np.generic:
        try:
            whole = int(value) if isinstance(value, np.bool_) else operator.index(value)  # type: ignore[arg-type]  # caught
        except TypeError:
            raise self._wrong(value, f"a scalar of {_type_name(dtype or int)}") from None
        if dtype is None:
            return whole
        low, high = _limits(dtype)
        if not low <= whole <= high:
            raise self._range(value, dtype)
        return dtype.type(whole)

    def _wrong(self, value: object, expected: str, what: str = "") -> InvalidType:
        got = what or f"{type(value).__name__} {value!r}"
        return InvalidType(f"kernel {self.kernel}: parameter {self.name} expects {expected}, got {got}")

    def _range(self, value: object, dtype: np.dtype[np.generic]) -> InvalidValue:
        return InvalidValue(
            f"kernel {self.kernel}: parameter {self.name} got {value!r}, out of the range of {_type_name(dtype)}"
        )


def parameter(kernel: str, given: inspect.Parameter, evaluate: Callable[[str], object]) -> Parameter:
    """Return the parameter that a kernel declares. `evaluate` gives the value of an annotation that is a text.

    Raises InvalidType for `*args` and `**kwargs`, because a kernel's parameters are counted, and for one annotated with
    a memory space (TOPS C++, 8.2) or with what is no type of an argument.
    """
    if given.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise InvalidType(f"kernel {kernel}: parameter {given} has no fixed number; a kernel names each parameter")
    annotation = given.annotation
    if isinstance(annotation, str):
        annotation = _evaluated(annotation, evaluate)
    if isinstance(annotation, Space | LanguageSpace):
        raise InvalidType(
            f"kernel {kernel}: parameter {given.name} is annotated with {annotation} memory; no parameter names a "
            "memory space, as all of them point to the generic one"
        )
    if annotation is inspect.Parameter.empty or annotation in (Any, object):
        return Parameter(kernel, given.name, None, False)
    if annotation in (int, float, bool):
        return Parameter(kernel, given.name, annotation, False)
    restricted, elements = restricted_type(annotation)
    if restricted:
        return Parameter(kernel, given.name, None, True, True, elements)
    if get_origin(annotation) is Span:
        return Parameter(kernel, given.name, None, True, False, annotation.__args__[0])
    if annotation is Span or np.ndarray in (annotation, get_origin(annotation)):
        return Parameter(kernel, given.name, None, True)
    if _is_template(annotation):
        return Parameter(kernel, given.name, None, False)
    try:
        return Parameter(kernel, given.name, kernel_dtype(annotation), False)
    except InvalidType:
        pass
    raise InvalidType(
        f"kernel {kernel}: parameter {given.name} is annotated with {given.annotation!r}; expected {_ANNOTATIONS}"
    )


def _evaluated(text: str, evaluate: Callable[[str], object]) -> object:
    """Return the value of an annotation that is a text: the text itself where it may name an element type.

    A name that is missing in a module with TYPE_CHECKING may be one for type checkers only: it counts as Any.
    """
    try:
        return evaluate(text)
    except NameError:
        try:
            return kernel_dtype(text)
        except InvalidType:
            return Any if _has_names_for_checkers(evaluate) else text
    except Exception:  # no expression, or one without a value
        return text


def _has_names_for_checkers(evaluate: Callable[[str], object]) -> bool:
    for name in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        with suppress(NameError):
            evaluate(name)
            return True
    return False


def _is_template(annotation: object) -> bool:
    """Return whether an annotation leaves open which number, tuple of numbers, type or function is passed."""
    if isinstance(annotation, TypeVar):
        return True
    if get_origin(annotation) in (Union, UnionType):
        return all(each in (Any, int, float, bool) or _is_template(each) for each in get_args(annotation))
    kind = get_origin(annotation) or annotation
    if not isinstance(kind, type):
        return False
    if kind.__module__.startswith("atops.") or kind in _ABSTRACT:
        return True
    return issubclass(kind, _OPEN) and not issubclass(kind, np.generic)


def _is_finite(value: Number) -> bool:
    """Tell whether a number is finite, which a wide one of numpy may be and is not as one of Python."""
    return bool(np.isfinite(value)) if isinstance(value, np.generic) else cmath.isfinite(value)


@cache
def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the largest value of a type of whole numbers."""
    if dtype.kind == "b":
        return 0, 1
    of_type = np.iinfo(dtype)
    return of_type.min, of_type.max


def _type_name(dtype: np.dtype[np.generic] | type) -> str:
    return dtype.__name__ if isinstance(dtype, type) else element_name(dtype)


class restrict(Span[ElementType]):  # the name in the language
    """An annotation: device memory that no other argument of the launch reaches. It arrives as a Span.

    `x: k.restrict`, or `x: k.restrict[np.float32]` for elements of this type only. Nothing checks it by default; strict
    mode reports a launch that breaks it (TOPS C++, 8.2, `__restrict__`).
    """

    __slots__ = ()


if TYPE_CHECKING:
    from atops.base.dtypes import Scalar_co

    class Arriving(restrict[Scalar_co], np.ndarray[Any, np.dtype[Scalar_co]]):  # type: ignore[misc, override, type-var]  # of no instance
        """What memory arrives as, whichever way its parameter is annotated: as a Span, as `restrict` or as an array."""
else:
    Arriving = restrict


def restricted_type(annotation: Any) -> tuple[bool, np.dtype[np.generic] | None]:
    """Return whether an annotation is `restrict`, and the element type it names or None."""
    if annotation is restrict:
        return True, None
    if get_origin(annotation) is restrict:
        return True, annotation.__args__[0]
    return False, None


def aliases(kernel: str, restricted: Iterable[MemoryArgument], memory: Sequence[MemoryArgument]) -> list[str]:
    """Return a sentence for each other argument that reaches bytes of a restricted one, each pair once."""
    found: list[str] = []
    seen: set[frozenset[str]] = set()
    for one in restricted:
        for other in memory:
            pair = frozenset((one.name, other.name))
            if len(pair) < 2 or pair in seen or not one.overlaps(other):
                continue
            seen.add(pair)
            found.append(
                f"kernel {kernel}: parameter {one.name} is restrict, and parameter {other.name} reaches its bytes: "
                f"{one!r} and {other!r}"
            )
    return found
