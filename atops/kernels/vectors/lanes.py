"""What may become a vector's lanes: scalars and sequences, converted as C++ does, without losing a value."""

from __future__ import annotations

import reprlib
from typing import Any

import ml_dtypes
import numpy as np

from atops.base.dtypes import element_name, quietly, spelling
from atops.base.errors import IllegalState, InvalidType, InvalidValue, NotSupported
from atops.device.call_site import caller
from atops.device.exec.thread import THREAD_SLOT, KernelThread, maybe_current_thread
from atops.device.geometry import Array

__all__ = ("converted", "exact", "here", "lanes_of", "shift_count", "vector_thread")


def vector_thread(name: str) -> KernelThread:
    """Return the running thread, in which a vector of type `name` is made.

    Raises IllegalState on the host, and NotSupported, naming the thread and its line, on a chip without vector types.
    """
    cell = THREAD_SLOT.get()
    thread = None if cell is None else cell.thread
    if thread is None:
        raise IllegalState(f"a {name} was asked for on the host; vectors are made inside a kernel (TOPS C++, 8.3)")
    if not thread.grid.arch.vector_types:
        raise NotSupported(f"{here()}{name} needs gcu300, which has vector types; this is {thread.grid.arch.name}")
    return thread


def here() -> str:
    """Return the beginning of a message: the running thread and its line; nothing on the host."""
    thread = maybe_current_thread()
    return "" if thread is None else f"{thread} at {caller()}: "


FLOATS = frozenset((np.float32, np.float16, ml_dtypes.bfloat16))
SMALL = 60_000  # every smaller magnitude is finite in each of them


def exact(element: np.dtype[np.generic], value: object, role: str) -> Any:
    """Return the number `value` as a scalar of type `element`, which holds it exactly.

    `role` names it in messages. Raises InvalidType for what is no number, InvalidValue where it would be rounded.
    """
    if type(value) is element.type:
        return value
    number = _number(value, element, role)
    made = _cast(element, number)
    if made is None or not (made.item() == number or (number != number and made != made)):
        hint = f"; {element.name}({number!r}) rounds it" if element.type in FLOATS else ""
        raise InvalidValue(f"{here()}{role} is {value!r}, which {spelling(element)} cannot hold exactly{hint}")
    return made


def converted(element: np.dtype[np.generic], value: Any, role: str) -> Any:
    """Return what to store for the number `value` as C++ converts it: a float type rounds, another holds it exactly.

    Raises as `exact` does.
    """
    kind = type(value)
    if kind is element.type:
        return value
    if element.type not in FLOATS:
        return exact(element, value, role)
    if (kind is float or kind is int) and -SMALL < value < SMALL:
        return value  # numpy rounds it as it is stored, in half the time
    made = _cast(element, _number(value, element, role))
    return exact(element, value, role) if made is None else made


def shift_count(element: np.dtype[np.generic], value: object, role: str) -> Any:
    """Return the shift count `value` as a scalar of `element`; more than the width counts as the width.

    Raises InvalidType for what is no number, InvalidValue for a fraction or a negative count.
    """
    if type(value) is element.type:
        return value
    count = _number(value, element, role)
    if count < 0 or count != count // 1:
        raise InvalidValue(f"{here()}{role} expects a count of 0 or more, got {value!r}")
    return element.type(min(count, 8 * element.itemsize))


def lanes_of(element: np.dtype[np.generic], lanes: int, values: object, role: str) -> Array:
    """Return new lanes: a scalar for all of them, or as many values, in rows for an array of vectors.

    Float types round; integers and bools hold each value exactly. Raises InvalidType for what are no numbers,
    InvalidValue for another number of lanes and for values that would change.
    """
    if isinstance(values, list | tuple) or getattr(values, "ndim", 0) > 0:
        array = _array(values, role)
        if array.ndim > 2 or array.shape[-1] != lanes:
            raise InvalidValue(
                f"{here()}{role} has shape {array.shape}; expected ({lanes},), or (count, {lanes}) for an array of them"
            )
        return _as_lanes(element, array, role)
    made = np.empty(lanes, element)
    made.fill(converted(element, values, role))
    return made


def _array(values: Any, role: str) -> Array:
    """Return a new array of the values."""
    try:
        made: Array = np.array(values) if isinstance(values, list | tuple) else values.copy()  # spans see a load
        return made
    except ValueError:
        raise InvalidType(f"{here()}{role} has rows of unlike lengths; expected one number for each lane") from None


def _as_lanes(element: np.dtype[np.generic], array: Array, role: str) -> Array:
    """Return the array with that element type."""
    if array.dtype == element:
        return array
    kind = array.dtype.kind
    if not (kind == "b" or (element.kind != "b" and (kind in "iuf" or array.dtype.type in FLOATS))):
        raise InvalidType(f"{here()}{role} has elements of type {array.dtype}; expected {element_name(element)}")
    made: Array = quietly(array.astype, element)
    if element.type not in FLOATS and not (made == array).all():
        raise InvalidValue(f"{here()}{role} has values that {spelling(element)} cannot hold exactly")
    return made


def _number(value: Any, element: np.dtype[np.generic], role: str) -> int | float:
    """Return `value` as a Python number."""
    number = value
    if isinstance(value, np.generic):
        number = value.item()
    elif type(value) is not int and type(value) is not float and getattr(value, "ndim", None) == 0:
        number = value[()].item()  # an array, a span or a variable without dimensions
    if not isinstance(number, int | float):
        raise InvalidType(
            f"{here()}{role} expects a vector of the same type or a number that {spelling(element)} holds, got "
            f"{reprlib.repr(value)}"
        )
    return number


def _cast(element: np.dtype[np.generic], number: int | float) -> Any:
    """Return `number` as a scalar of `element`, or None where that type cannot represent it."""
    try:
        return element.type(number) if -SMALL < number < SMALL else quietly(element.type, number)
    except (OverflowError, ValueError, TypeError):  # TypeError: what bfloat16 says of an int beyond floats
        return None
