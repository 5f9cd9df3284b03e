"""The variables of the device that a text in TOPS C++ has: `__device__` and `__constant__` (TOPS C++, 8.2).

Each is a `Variable`, as one of a kernel in Python is. A kernel reaches it by a reference that is bound when the module
is loaded, so that each set of places has a copy of the module.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np

from atops.base.locks import make_lock
from atops.device.call_site import Site
from atops.device.chip import Chip
from atops.device.geometry import Array
from atops.device.memory.allocation import Allocation
from atops.device.native.library import KernelRow, NativeModule, ParameterRow, VariableRow
from atops.device.span.span import Span
from atops.kernels.memory.device_variables import Variable, declare

__all__ = ("Loaded", "LoadedModule", "dtype_of", "entry_of")


class Loaded(NamedTuple):
    """A module as it is on one chip, and the memory of its variables there."""

    module: NativeModule
    allocations: tuple[Allocation, ...]
    constants: tuple[Allocation, ...] = ()  # those of them that kernels only read


class LoadedModule:
    """A loaded text: its variables, and a copy of the module for each chip that has them."""

    def __init__(self, module: NativeModule, name: str, watched: Callable[[], NativeModule]) -> None:
        """Declare its variables, which bear the text's name before their own. Raises InvalidValue for their size.

        `watched` makes the module anew, so that every access of its kernels is seen.
        """
        self.module = module
        self._watched = watched
        self.rows = module.variables
        self.variables = {row.name.decode(): _declared(row, name) for row in self.rows}
        self.constant_bytes = sum(each.nbytes for each in self.variables.values() if each.is_constant)
        self._plain = Loaded(module, ())
        self._lock = make_lock()
        self._copies: dict[tuple[Chip, bool], tuple[list[int], Loaded]] = {}

    def on(self, chip: Chip, watched: bool) -> Loaded:
        """Return the module for a chip, its variables made there if they were not used yet. Raises OutOfMemory.

        `watched`: the one whose accesses are seen. Raises CompilationError where the compiler does not make it.
        """
        chosen = self._watched() if watched else self.module
        if not self.variables:
            return Loaded(chosen, ()) if watched else self._plain
        spans = [each.on(chip) for each in self.variables.values()]
        places = [_address(each) for each in spans]
        with self._lock:
            known = self._copies.get((chip, watched))
            if known is None or known[0] != places:  # the device was reset: they lie elsewhere
                module = chosen.on(places)
                for row, old, span in zip(module.variables, self.rows, spans, strict=True):
                    _point(row, old, span)
                allocations = tuple(each.allocation for each in spans if each.allocation is not None)
                constants = tuple(
                    each.allocation for name, each in zip(self.variables.values(), spans, strict=True)
                    if name.is_constant and each.allocation is not None
                )  # fmt: skip
                known = self._copies[chip, watched] = places, Loaded(module, allocations, constants)
            return known[1]

    def variable_at(self, chip: Chip, address: int) -> tuple[Variable, int] | None:
        """Return the variable that has an address on a chip, and how far behind its beginning that is."""
        for each in self.variables.values():
            if 0 <= (offset := address - _address(each.on(chip))) < each.nbytes:
                return each, offset
        return None


def entry_of(module: NativeModule, row: KernelRow) -> int:
    """Return where a kernel begins in a copy of its module."""
    enter: int = next(each.enter for each in module.kernels if each.name == row.name)
    return enter


def dtype_of(kind: ParameterRow | VariableRow, size: int) -> np.dtype[np.generic]:
    """Return the type of a number of `size` bytes."""
    letter = chr(kind.kind)
    return np.dtype(ml_dtypes.bfloat16) if letter == "e" else np.dtype(np.bool_ if letter == "b" else f"{letter}{size}")


def _declared(row: VariableRow, module: str) -> Variable:
    extents = tuple(row.extents[: row.rank])
    if chr(row.kind) == "V":  # no number: its bytes
        dtype: np.dtype[np.generic] = np.dtype(np.uint8)
        extents += (row.element_bytes,)
    else:
        dtype = dtype_of(row, row.element_bytes)
    initial = _bytes(row).view(dtype).reshape(extents).copy()
    file = row.file.decode("utf-8", "replace")
    place = _nowhere.__code__.replace(
        co_filename=file, co_firstlineno=row.line, co_name="<module>", co_qualname="<module>"
    )
    return declare(initial, row.name.decode(), module, Site(place, 0), bool(row.constant))


def _nowhere() -> None:
    """Lend its code to the places of variables."""


def _point(row: VariableRow, old: VariableRow, span: Span) -> None:
    """Store addresses of other variables that a variable begins with: they are known where those lie."""
    here, there = _bytes(row), _bytes(old)
    if (here != there).any():
        assert span.allocation is not None
        data = span.allocation.data[: here.size]
        data[...] = np.where((here != there) & (data == there), here, data)


def _bytes(row: VariableRow) -> Array:
    """Return what a variable begins with in its copy of the module."""
    return np.ctypeslib.as_array(ctypes.cast(row.initial, ctypes.POINTER(ctypes.c_uint8)), (row.bytes,))


def _address(span: Span) -> int:
    assert span.allocation is not None
    place: int = span.allocation.data.__array_interface__["data"][0]
    return place
