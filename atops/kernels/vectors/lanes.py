"""The lanes of a vector: from scalars and sequences, loaded from memory, and stored there. TOPS C++, 8.3.

Values are converted as C++ does, without losing one. The address of a vector in local, shared or global memory is a
multiple of the chip's vector alignment.
"""

from __future__ import annotations

import operator
import reprlib
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import ml_dtypes
import numpy as np

from atops.base.dtypes import element_name, quietly, spelling
from atops.base.errors import IllegalAddress, IllegalState, InvalidType, InvalidValue, NotSupported
from atops.device.call_site import caller
from atops.device.cost import ThreadCost
from atops.device.exec.thread import THREAD_SLOT, KernelThread, maybe_current_thread
from atops.device.geometry import Array
from atops.device.span.span import Span
from atops.kernels.memory.device_variables import Variable
from atops.kernels.memory.pointer import Pointer
from atops.kernels.memory.spaces import AnySpace, LanguageSpace, located, space_in

if TYPE_CHECKING:
    from atops.kernels.vectors.vector_type import VectorType

__all__ = ("converted", "exact", "here", "lanes_of", "load", "shift_count", "store", "vector_thread")

FLOATS = frozenset((np.float32, np.float16, ml_dtypes.bfloat16))
SMALL = 60_000  # every smaller magnitude is finite in each of them

# The key, among a thread's `sites`, of the arrays that it has loaded from: numpy takes a microsecond to tell where an
# array lies, three times as long as the load itself.
_ROWS = "rows of vectors"
_MOST_ROWS = 64


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
    try:
        made: Array = np.array(values) if isinstance(values, list | tuple) else values.copy()  # spans see a load
        return made
    except ValueError:
        raise InvalidType(f"{here()}{role} has rows of unlike lengths; expected one number for each lane") from None


def _as_lanes(element: np.dtype[np.generic], array: Array, role: str) -> Array:
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


class _Row(NamedTuple):
    """Memory as one row of elements, the first at byte `start` of its memory space. Holds `memory`: its id is a key.

    For the quick test of an access, `plain` is the element type where vectors of it can lie here, else None; the row
    begins `first` elements after an aligned address, and every `step`-th element has an aligned address.
    """

    memory: object
    flat: Array | Span
    element: np.dtype[np.generic]
    size: int
    start: int
    space: AnySpace
    alignment: int
    plain: np.dtype[np.generic] | None
    first: int
    step: int
    cost: ThreadCost | None  # the thread's clock, under a virtual one
    itemsize: int


def load(kind: VectorType, memory: object, index: SupportsIndex, count: SupportsIndex | None) -> Array:
    """Return a copy of the lanes from element `index` of `memory` on, of `count` vectors in rows or of one alone.

    Raises what `VectorType.load` says.
    """
    row = _row(kind, memory)
    elements = kind.lanes
    if count is not None:
        count = _integer(count, "count of a load")
        if count < 1:
            raise InvalidValue(f"{here()}count of a load is {count}; expected 1 or more")
        elements *= count
    if (
        type(index) is not int or row.plain is not kind.element or not 0 <= index <= row.size - elements
        or (row.first + index) % row.step
    ):  # fmt: skip
        index = _checked(row, kind, index, elements, "load")
    flat = row.flat
    if type(flat) is Span:
        flat = flat.touch("load", slice(index, index + elements))
    elif row.cost is not None:
        row.cost.access(elements * row.itemsize)
    lanes: Array = flat[index : index + elements].copy()
    return lanes if count is None else lanes.reshape(count, kind.lanes)


def store(kind: VectorType, values: Array, memory: object, index: SupportsIndex) -> None:
    """Store lanes into `memory` from its element `index` on. Raises what `Vector.store` says."""
    row, elements = _row(kind, memory), values.size
    if (
        type(index) is not int or row.plain is not kind.element or not 0 <= index <= row.size - elements
        or (row.first + index) % row.step
    ):  # fmt: skip
        index = _checked(row, kind, index, elements, "store")
    flat = row.flat
    if type(flat) is Span:
        if row.space is LanguageSpace.CONSTANT:
            raise IllegalAddress(f"{here()}store of a {kind.name} into constant memory; kernels only read it")
        part = slice(index, index + elements)
        flat.touch("store", part)[part] = values.reshape(-1)
        flat.stored(part)
    else:
        if row.cost is not None:
            row.cost.access(elements * row.itemsize)
        flat[index : index + elements] = values if elements == kind.lanes else values.reshape(-1)


def _checked(row: _Row, kind: VectorType, index: SupportsIndex, elements: int, what: str) -> int:
    """Return `index` as an int: an aligned element from which `elements` of the vector's type lie inside the memory."""
    begin = _integer(index, f"index of a {what}")
    element = kind.element
    if kind.is_mask or row.element != element:
        form = "masks have no form in memory" if kind.is_mask else f"expected {element_name(element)}"
        raise InvalidType(f"{here()}{what} of a {kind.name} in memory of {element_name(row.element)}; {form}")
    if begin < 0 or begin + elements > row.size:
        raise IllegalAddress(
            f"{here()}{what} of a {kind.name} reaches elements {begin} to {begin + elements - 1} of {row.space} "
            f"memory that has {row.size}"
        )
    address = row.start + begin * row.element.itemsize
    if address % row.alignment:
        raise IllegalAddress(
            f"{here()}{what} of a {kind.name} at {row.space} address {address:#x} (element {begin}); expected a "
            f"multiple of {row.alignment} bytes"
        )
    return begin


def _row(kind: VectorType, memory: object) -> _Row:
    """Return memory as a row, cached for the running thread. Raises as `vector_thread` does."""
    try:
        known: _Row | None = THREAD_SLOT.get().thread.sites[_ROWS].get(id(memory))  # type: ignore[union-attr, index]  # caught
    except (AttributeError, TypeError, KeyError):  # on the host, before the thread's first vector access
        known = None
    return _new_row(vector_thread(kind.name), memory) if known is None else known


def _new_row(thread: KernelThread, memory: object) -> _Row:
    """Return memory as a row. Raises InvalidType and IllegalAddress for what is no memory, InvalidValue for gaps."""
    if isinstance(memory, Variable):
        memory = memory.span()
    elif isinstance(memory, Pointer):
        memory = memory.memory()
    space = space_in(thread, memory, "a vector access")
    array: Array = memory.array if isinstance(memory, Span) else memory  # type: ignore[assignment]  # `space_in` tells
    if not array.flags.c_contiguous:
        raise InvalidValue(f"{here()}a vector access to memory of shape {array.shape} with gaps; copy it by DTE first")
    if thread.sites is None:
        thread.sites = {}
    rows = thread.sites.setdefault(_ROWS, {})
    if isinstance(memory, Span):  # tells where it lies at once
        flat = memory if array.ndim == 1 else memory.reshape(array.size)
        row = _made(thread, memory, flat, array, memory.address, space)
        if memory.allocation is not None:  # usually a new one
            return row
    else:
        row = _made(thread, memory, array.reshape(-1), array, located(array)[1], space)
    if len(rows) == _MOST_ROWS:
        rows.clear()  # for a kernel that makes a new view for every access
    rows[id(memory)] = row
    return row


def _made(thread: KernelThread, memory: object, flat: Array | Span, array: Array, start: int, space: AnySpace) -> _Row:
    """Return the row of memory that begins at byte `start` of its space."""
    element, alignment, size = array.dtype, thread.grid.arch.vector_alignment, array.itemsize
    first, rest = divmod(start, size or 1)
    plain = None if rest or element.kind == "b" else element  # masks have no form in memory
    step = max(1, alignment // (size or 1))
    return _Row(memory, flat, element, array.size, start, space, alignment, plain, first, step, thread.cost, size)


def _integer(value: SupportsIndex, role: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidType(f"{here()}{role} expects an integer, got {value!r}") from None
