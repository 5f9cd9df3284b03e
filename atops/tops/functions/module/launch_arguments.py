"""The arguments of C-style launches: values by position, or one buffer in which each lies at its natural alignment.

A pointer is an int. The kernel's parameter says what it becomes; the value is never used to guess:

- `x: k.Span` gets the memory from the pointer to the end of its allocation, as bytes (uint8);
- `x: k.Span[np.float32]` and `x: k.restrict[np.float32]` get the same memory as elements of that type, which is
  `float* x`; bytes behind the last whole element are left out;
- an element type gets a number; a parameter without a type gets a number too, and refuses the address of live memory,
  unless that comes as `ctypes.c_void_p`.

A numpy array in pinned or registered memory stands for its own pointer, and so does a registered buffer. Arrays,
buffers and symbols of the object API keep their own type and shape.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, NamedTuple

import numpy as np

from atops.base.errors import AtopsError, InvalidType, InvalidValue
from atops.kernels.arguments import Parameter
from atops.kernels.kernel import Kernel
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.arguments import listed, size_of
from atops.tops.bridge.pointers import host_address, host_view, is_null, memory_from, pinned_at
from atops.tops.types.constants import (
    TOPS_LAUNCH_PARAM_BUFFER_POINTER,
    TOPS_LAUNCH_PARAM_BUFFER_SIZE,
    TOPS_LAUNCH_PARAM_END,
)

__all__ = ("ParameterPlace", "arguments_in", "arguments_of", "bytes_at", "extra_bytes", "places_of")

KEYS: Final = (TOPS_LAUNCH_PARAM_BUFFER_POINTER, TOPS_LAUNCH_PARAM_BUFFER_SIZE, TOPS_LAUNCH_PARAM_END)
POINTER: Final[np.dtype[Any]] = np.dtype(np.uint64)
# The types of Python's own numbers in a buffer.
PLAIN: Final[dict[type, np.dtype[Any]]] = {
    int: np.dtype(np.int64), float: np.dtype(np.float64), bool: np.dtype(np.bool_),
}  # fmt: skip


class ParameterPlace(NamedTuple):
    """Where a parameter lies in a buffer of arguments, and the type of its bytes there."""

    parameter: Parameter
    offset: int
    type: np.dtype[Any]


# ---- by position


def arguments_of(kernel: Kernel, values: object) -> list[object]:
    """Return what a launch passes for `kernelParams`: one value for each parameter, in order; none for null.

    A value is a number, a numpy or ctypes scalar, an array of one element, a pointer, or memory of the object API. It
    is taken now. Raises InvalidType, InvalidValue, CodeError InvalidDevicePointer.
    """
    if is_null(values):
        return []
    given, parameters = listed(values, None, "kernelParams"), list(kernel.parameters.values())
    if len(given) > len(parameters):
        raise InvalidType(f"kernel {kernel.name} has {len(parameters)} parameters, got {len(given)} values")
    return [_argument(each, value) for each, value in zip(parameters, given, strict=False)]


def _argument(parameter: Parameter, value: object) -> object:
    """Return the value of one parameter as the object API takes it."""
    pointer = parameter.memory
    if isinstance(value, ctypes.c_void_p):
        pointer, value = pointer or parameter.dtype is None, value.value or 0
    elif isinstance(value, ctypes._SimpleCData):
        value = value.value
    elif isinstance(value, np.ndarray):
        if parameter.dtype is None and pinned_at(host_address(value)) is not None:
            pointer = True
        elif value.size == 1:
            value = value.reshape(1)[0]
    if pointer:
        return _memory(parameter, value)
    if parameter.dtype is None and isinstance(value, int | np.integer) and _is_address(int(value)):
        raise InvalidValue(
            f"kernel {parameter.kernel}: parameter {parameter.name} has no type and got {int(value):#x}, an address; "
            f"annotate it ({parameter.name}: k.Span, or k.Span[np.float32]; np.uint64 for a number), or pass a "
            "ctypes.c_void_p"
        )
    return value


def _memory(parameter: Parameter, pointer: object) -> object:
    """Return the memory from a pointer on, as elements of the type that the parameter says."""
    if type(pointer) is Buffer:
        found = pointer
    elif hasattr(pointer, "__kernel_argument__"):
        return pointer
    else:
        found = memory_from(pointer, f"kernel {parameter.kernel}: parameter {parameter.name}")
    elements = parameter.elements or np.dtype(np.uint8)
    return found[: found.nbytes // elements.itemsize * elements.itemsize].view(elements)


def _is_address(value: int) -> bool:
    try:
        memory_from(value)
    except AtopsError:
        return False
    return True


# ---- in a buffer


def places_of(kernel: Kernel) -> tuple[list[ParameterPlace], int, int]:
    """Return where each parameter lies in a buffer, where the last one ends, and that rounded up as sizeof does.

    A pointer has 8 bytes, Python's int and float have 8 and bool has 1. Raises InvalidValue for a parameter without a
    type, because its size is not known.
    """
    places: list[ParameterPlace] = []
    end, widest = 0, 1
    for each in kernel.parameters.values():
        type_ = _type_in_buffer(each)
        offset = end + -end % type_.alignment
        places.append(ParameterPlace(each, offset, type_))
        end, widest = offset + type_.itemsize, max(widest, type_.alignment)
    return places, end, end + -end % widest


def _type_in_buffer(parameter: Parameter) -> np.dtype[Any]:
    if parameter.memory:
        return POINTER
    if parameter.dtype is None:
        raise InvalidValue(
            f"kernel {parameter.kernel}: parameter {parameter.name} has no type, so its place in a buffer is not "
            "known; annotate it, or use kernelParams"
        )
    return PLAIN[parameter.dtype] if isinstance(parameter.dtype, type) else parameter.dtype


def arguments_in(kernel: Kernel, data: bytes) -> list[object]:
    """Return what a launch passes for a buffer of arguments. Raises InvalidValue for one of another size."""
    places, end, size = places_of(kernel)
    if not end <= len(data) <= size:
        expected = f"{end}" if end == size else f"{end} to {size}"
        raise InvalidValue(f"kernel {kernel.name}: the arguments need a buffer of {expected} bytes, got {len(data)}")
    return [_argument(each.parameter, _read(data, each)) for each in places]


def _read(data: bytes, place: ParameterPlace) -> object:
    if place.type.kind == "b":
        return bool(data[place.offset])
    value = np.frombuffer(data, place.type, 1, place.offset)[0]
    return int(value) if place.parameter.memory else value


def extra_bytes(extra: object) -> bytes:
    """Return the bytes of (1, buffer, 2, size, 3), copied. Raises InvalidType, InvalidValue for any other form."""
    if not isinstance(extra, tuple | list) or len(extra) != 5:
        raise InvalidType(f"extra must be (1, buffer, 2, size, 3), got {extra!r}")
    if tuple(each if type(each) is int else None for each in extra[::2]) != KEYS:
        raise InvalidValue(f"extra must have the keys 1 (pointer), 2 (size) and 3 (end), got {list(extra[::2])}")
    size = extra[3].value if isinstance(extra[3], ctypes._SimpleCData) else extra[3]
    return bytes_at(extra[1], size_of(size, "the size in extra"), "the buffer in extra")


def bytes_at(pointer: object, size: int, what: str) -> bytes:
    """Return a copy of `size` bytes in host memory: of a buffer, an array, a scalar, or at a pinned host pointer.

    Raises InvalidType for other types, InvalidValue for too few bytes and for unknown pointers.
    """
    if type(pointer) is int:
        return host_view(pointer, size).tobytes()
    if isinstance(pointer, np.ndarray | np.generic):
        data, whole = pointer.tobytes(), pointer.flags.c_contiguous
    else:
        try:
            view = memoryview(pointer)  # type: ignore[arg-type]  # TypeError is the answer
        except TypeError:
            raise InvalidType(f"{what} must be a buffer, an array or a pinned host pointer, got {pointer!r}") from None
        data, whole = view.tobytes(), view.c_contiguous
    if not whole:
        raise InvalidValue(f"{what} must be a contiguous array, got one with gaps")
    if size > len(data):
        raise InvalidValue(f"{what} must have {size} bytes, got {len(data)}")
    return data[:size]
