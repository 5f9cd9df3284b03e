"""What a DTE context is configured to do, and the patches that it takes. TOPS C++, beside 8.7.

It knows the operation and where its operands lie; it knows no context, no thread and no moment.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from atops.base.dtypes import element_name
from atops.base.errors import InvalidType, InvalidValue
from atops.device.call_site import Site
from atops.device.dte.operands import apart
from atops.device.dte.operations import OPERATIONS, Operation
from atops.device.dte.transfer import Operand
from atops.device.geometry import Array, frozen
from atops.device.span.span import Span

__all__ = ("OFFSETS", "Descriptor")

MEMCPY = OPERATIONS["memcpy"]
ANY_OFFSET = (1 << 63) - 1
Form = tuple[tuple[int, ...], np.dtype[Any]]  # shape and element type

_SLICES = ("slice", "slice_transpose")  # their `offsets` are a window's in src, those of other operations one's in dst


def _offset_names(operation: Operation) -> Mapping[str, str]:
    """Return which parameter holds the offsets of the window in each operand."""
    names = {}
    for name in operation.parameters:
        if name == "offsets":
            names["src" if operation.name in _SLICES else "dst"] = name
        elif name.endswith("_offsets"):
            names[name[:3]] = name
    return names


# By operation, and by the operand, "src" or "dst", that has a window.
OFFSETS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    name: _offset_names(row) for name, row in OPERATIONS.items()
})  # fmt: skip


class Descriptor:
    """One configured operation: its operands, in the form that they were configured in, and its parameters.

    `work` is dst, src and their arrays. `valid` says that the operation's demands have been checked since anything
    changed that could break them.
    """

    __slots__ = ("_forms", "_given", "_most", "operation", "parameters", "site", "valid", "work")

    work: tuple[Operand, Operand | None, Array, Array | None]

    def __init__(
        self, operation: Operation, dst: Operand, src: Operand | None, parameters: Mapping[str, Any], site: Site
    ) -> None:  # fmt: skip
        """Configure an operation, at `site`. `src` is None where it takes none."""
        self.operation = operation
        self.parameters = {name: frozen(value) for name, value in parameters.items()}
        self.site = site
        for name in OFFSETS[operation.name].values():
            if isinstance(numbers := self.parameters[name], tuple):
                self.parameters[name] = list(numbers)  # this is what patches change
        given = {"dst": dst} if src is None else {"dst": dst, "src": src}
        self._given = given
        self._forms: dict[str, Form] = {role: (each.shape, each.dtype) for role, each in given.items()}
        self._most: dict[str, list[int]] = {}
        self._place(given)
        self.valid = False

    def check(self) -> None:
        """Raise what the operation raises unless its demands are met, and note which offsets meet them, too."""
        destination, source, into, out = self.work
        self.operation.check(into, out, **self.parameters)
        self.valid = True
        for role, name in OFFSETS[self.operation.name].items():
            offsets = self.parameters[name]
            if source is None or out is None or not apart(destination, source):
                self._most[role] = [-1] * len(offsets)  # each patch might make them overlap
            elif role == "src":  # where a window leaves src it is filled
                self._most[role] = [ANY_OFFSET] * len(offsets)
            else:
                extents: Any = self.parameters.get("slice_shape", out.shape)
                if "layout" in self.parameters:
                    extents = [extents[axis] for axis in self.parameters["layout"]]
                self._most[role] = [whole - width for whole, width in zip(into.shape, extents, strict=True)]

    def move(self, role: str, memory: Operand) -> None:
        """Let an operand lie at the start of `memory`, in the shape and with the type that it was configured with.

        Raises InvalidValue where `memory` is too small, or has gaps and another shape; or there is no such operand.
        """
        if role not in self._given:
            raise InvalidValue(f"{self.operation.name} has no {role}; it has {' and '.join(self._given)}")
        shape, element = self._forms[role]
        array = _array(memory)
        formed = memory
        if array.shape != shape or array.dtype != element:
            formed = _formed(memory, self._forms[role], f"{role} of {self.operation.name}")
            array = _array(formed)
        self._given[role] = memory
        destination, source, into, out = self.work
        self.work = (formed, source, array, out) if role == "dst" else (destination, formed, into, array)
        moved = self.work[0], self.work[1]
        if self.valid and moved[1] is not None and not apart(moved[0], moved[1]):
            self.valid = False

    def set_offset(self, role: str, dim: int, offset: int) -> None:
        """Change one offset of the window in an operand.

        Raises InvalidValue where the operation has no such window or dimension, and InvalidType for what is no int.
        """
        names = OFFSETS[self.operation.name]
        if role not in names:
            has = " and ".join(f"{each} offsets" for each in names) or "no offsets at all"
            raise InvalidValue(f"{self.operation.name} has no {role} offsets; it has {has}")
        try:
            if bool in (type(dim), type(offset)):
                raise TypeError  # as in the lists that it changes
            axis, value = operator.index(dim), operator.index(offset)
        except TypeError:
            raise InvalidType(f"dimension {dim!r} and offset {offset!r}; two ints are right") from None
        numbers = self.parameters[names[role]]
        if not isinstance(numbers, list) or not 0 <= axis < len(numbers):
            raise InvalidValue(f"{self.operation.name} has the {role} offsets {numbers!r} and no dimension {axis}; "
                               "the outermost is 0")  # fmt: skip
        numbers[axis] = value
        if self.valid and not 0 <= value <= self._most[role][axis]:
            self.valid = False

    def set_total_size(self, size: int) -> None:
        """Let memcpy move the first `size` bytes. Raises InvalidValue where it cannot, InvalidType for no int."""
        if self.operation is not MEMCPY:
            raise InvalidValue(f"{self.operation.name} has no total size, only memcpy has; shapes say what it moves")
        try:
            count = operator.index(size)
        except TypeError:
            raise InvalidType(f"total size {size!r}; a number of bytes is right") from None
        if count < 0:
            raise InvalidValue(f"total size {count}; 0 or more is right")
        form: Form = ((count,), np.dtype(np.uint8))
        self._place({role: _formed(each, form, f"{role} of memcpy") for role, each in self._given.items()})
        self._forms = dict.fromkeys(self._given, form)
        self.valid = False

    def _place(self, operands: dict[str, Operand]) -> None:
        destination, source = operands["dst"], operands.get("src")
        self.work = destination, source, _array(destination), None if source is None else _array(source)

    def __repr__(self) -> str:
        return f"<{self.operation.name} configured at {self.site}>"


def _array(operand: Operand) -> Array:
    return operand.array if isinstance(operand, Span) else operand


def _formed(memory: Operand, form: Form, what: str) -> Operand:
    """Return the first elements of `memory` in a form. Raises InvalidValue where there are not so many, or gaps."""
    shape, element = form
    size = element.itemsize
    for extent in shape:
        size *= extent
    where = f"{element_name(memory.dtype)}{list(memory.shape)}"
    if size > memory.nbytes:
        raise InvalidValue(
            f"{what}: {element_name(element)}{list(shape)} has {size} bytes; {where} has {memory.nbytes}"
        )
    if not _array(memory).flags.c_contiguous:
        raise InvalidValue(f"{what}: {where} has gaps, and is no {element_name(element)}{list(shape)}")
    return memory.reshape(-1).view(np.uint8)[:size].view(element).reshape(shape)
