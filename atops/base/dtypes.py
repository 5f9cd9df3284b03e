"""Element types: what the device stores, what each is called, how TOPS C++ spells it; and how overflow is treated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

from atops.base.errors import InvalidType

__all__ = (
    "ELEMENTS", "SPELLINGS", "DType", "DTypeLike", "Element", "Scalar", "Scalar_co", "Typed", "as_dtype",
    "element_name", "kernel_dtype", "quietly", "spelling", "strictly",
)  # fmt: skip

# The element type of an array, as numpy's arrays have it. With its default a bare `DeviceArray` is complete, too.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Scalar = TypeVar("Scalar", bound=np.generic)
    Scalar_co = TypeVar("Scalar_co", bound=np.generic, covariant=True, default=Any)
else:
    from typing import TypeVar

    Scalar = TypeVar("Scalar", bound=np.generic)
    Scalar_co = TypeVar("Scalar_co", bound=np.generic, covariant=True)

T = TypeVar("T")
Typed: TypeAlias = type[Scalar] | np.dtype[Scalar]  # a type whose elements a type checker knows
DType: TypeAlias = np.dtype[Any]
DTypeLike: TypeAlias = Any  # a numpy dtype or scalar type, int, float, bool, or a name; as_dtype says which


class Element(NamedTuple):
    """An element type that the kernel language has: its name, dtype, size in bytes and TOPS C++ spelling."""

    name: str
    dtype: DType
    bytes: int
    spelling: str


def _element(kind: object, spelling: str) -> Element:
    """Return the row of the numpy or ml_dtypes scalar type `kind`."""
    dtype: DType = np.dtype(kind)  # type: ignore[call-overload]  # ml_dtypes' scalar types are untyped
    return Element(dtype.name, dtype, dtype.itemsize, spelling)


ELEMENTS: Mapping[str, Element] = MappingProxyType(
    {
        row.name: row
        for row in (
            _element(np.bool_, "bool"),
            _element(np.int8, "char"),
            _element(np.uint8, "unsigned char"),
            _element(np.int16, "short"),
            _element(np.uint16, "unsigned short"),
            _element(np.int32, "int"),
            _element(np.uint32, "unsigned int"),
            _element(np.int64, "long"),
            _element(np.uint64, "unsigned long"),
            _element(np.float16, "__fp16"),
            _element(ml_dtypes.bfloat16, "__bf16"),
            _element(np.float32, "float"),
            _element(np.float64, "double"),
        )
    }
)

# TOPS C++ and numpy disagree on what "int", "long" and "float" are, so C++ spellings have a table of their own.
SPELLINGS: Mapping[str, DType] = MappingProxyType({row.spelling: row.dtype for row in ELEMENTS.values()})

_SHORT_NAMES = {
    "fp16": "float16",
    "half": "float16",
    "__fp16": "float16",
    "bf16": "bfloat16",
    "__bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
}

_KNOWN: dict[object, DType] = {}  # answers given before: kernels ask with the same few types in every thread
_MOST_KNOWN = 256


def as_dtype(value: DTypeLike) -> DType:
    """Return the numpy dtype that `value` means.

    Takes dtypes, numpy and ml_dtypes scalar types, Python's int, float, bool and complex (with numpy's meaning: int64,
    float64), and names: numpy's, those of ml_dtypes ("bfloat16", "float8_e4m3fn"), and fp16, half, bf16, fp32, fp64.
    Raises InvalidType, naming `value`, for anything else and for what device memory cannot hold: Python objects,
    elements without a size, sub-arrays, and byte orders other than the machine's.
    """
    try:
        known = _KNOWN.get(value)  # what cannot be hashed is no name of a type
    except TypeError:
        known = None
    if known is not None:
        return known
    if value is None:  # numpy would take it for float64
        raise InvalidType("element type is None; expected a numpy dtype or a name such as 'float32'")
    try:
        dtype: DType = np.dtype(_SHORT_NAMES.get(value, value) if isinstance(value, str) else value)
    except (TypeError, ValueError, SyntaxError):
        raise InvalidType(f"element type is {value!r}; expected a numpy dtype or a name such as 'float32'") from None
    if dtype.hasobject:
        raise InvalidType(f"element type is {value!r}, which holds Python objects; device memory holds plain bytes")
    if dtype.itemsize == 0:
        raise InvalidType(f"element type is {value!r}, which has no size; expected a fixed size")
    if dtype.subdtype is not None:
        raise InvalidType(f"element type is {value!r}, an array; give its extents as part of the shape")
    if not dtype.isnative:
        raise InvalidType(f"element type is {value!r}; expected the machine's byte order, {dtype.newbyteorder('=')!r}")
    if isinstance(value, type | str | np.dtype) and len(_KNOWN) < _MOST_KNOWN:
        _KNOWN[value] = dtype
    return dtype


# Other words of C for the same types, as programs that are ported have them.
_C_WORDS = {
    "signed char": "char", "unsigned": "unsigned int", "signed": "int", "signed int": "int", "long int": "long",
    "long long": "long", "unsigned long long": "unsigned long", "int8_t": "char", "uint8_t": "unsigned char",
    "int16_t": "short", "uint16_t": "unsigned short", "int32_t": "int", "uint32_t": "unsigned int", "int64_t": "long",
    "uint64_t": "unsigned long",
}  # fmt: skip
_KNOWN_IN_KERNELS: dict[object, DType] = {word: SPELLINGS[_C_WORDS.get(word, word)] for word in (*SPELLINGS, *_C_WORDS)}
_NO_WIDTH: Mapping[object, str] = MappingProxyType(
    {
        int: "np.int32, C's int, or np.int64, its long",
        float: "np.float32, C's float, or np.float64, its double",
        complex: "np.complex64 or np.complex128",
    }
)


def kernel_dtype(value: DTypeLike) -> DType:
    """Return the dtype that `value` means in the kernel language: what `as_dtype` takes, but C's words mean C's types.

    "float" is float32, "int" int32, "long" int64, "char" int8. Raises InvalidType as `as_dtype` does, and for Python's
    int, float and complex, which have no width in C.
    """
    try:
        known = _KNOWN_IN_KERNELS.get(value)
    except TypeError:
        known = None
    if known is not None:
        return known
    if isinstance(value, type) and value in _NO_WIDTH:
        raise InvalidType(f"element type is Python's {value.__name__}, which has no width; expected {_NO_WIDTH[value]}")
    dtype = as_dtype(value)
    if isinstance(value, type | str | np.dtype) and len(_KNOWN_IN_KERNELS) < _MOST_KNOWN:
        _KNOWN_IN_KERNELS[value] = dtype
    return dtype


def element_name(dtype: DTypeLike) -> str:
    """Return the name of an element type, such as "float32" or "bfloat16"; a structure is spelled field by field.

    Raises InvalidType as `as_dtype` does.
    """
    dtype = as_dtype(dtype)
    return str(dtype) if dtype.fields else str(dtype.name)


def spelling(dtype: DTypeLike) -> str:
    """Return how TOPS C++ spells an element type: "__fp16" for float16, "unsigned int" for uint32.

    Raises InvalidType, naming the type, where the language has none.
    """
    dtype = as_dtype(dtype)
    for row in ELEMENTS.values():
        if row.dtype == dtype:
            return row.spelling
    raise InvalidType(f"TOPS C++ has no element type {element_name(dtype)}; it has {', '.join(ELEMENTS)}")


# A `with np.errstate(...)` would keep the setting when Ctrl-C comes between its beginning and its block.
_QUIET, _STRICT = Context(), Context()
_QUIET.run(np.seterr, all="ignore")
_STRICT.run(np.seterr, over="raise", invalid="raise")


def quietly(function: Callable[..., T], *values: object) -> T:
    """Call a pure function with numpy's floating-point warnings off: the lanes of a chip overflow in silence.

    A copy of a context costs a tenth of np.errstate, and unlike one context it can be entered by many OS threads.
    """
    return _QUIET.copy().run(function, *values)


def strictly(function: Callable[..., T], *values: object) -> T:
    """Call a pure function that raises FloatingPointError on overflow and for invalid operations."""
    return _STRICT.copy().run(function, *values)
