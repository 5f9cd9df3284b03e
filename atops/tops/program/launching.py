"""Launches by host code in C++: `kernel<<<...>>>`, and the functions that take arrays of pointers to the arguments.

A kernel is named by the address of its function, or by the handle of a function of a module. The sizes of its arguments
are known; pointers among them are what the program has computed, and are looked at where the kernel uses them.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

import atops.tops as tops
from atops.base.errors import AtopsError, IllegalAddress
from atops.bridge.handles import current_board, live, register
from atops.bridge.pointers import pinned_at
from atops.device.chip import Chip
from atops.device.memory.allocation import Allocation
from atops.device.native.library import Dim, ParameterRow
from atops.kernels.cxx.kernel import NativeKernel, ProgramKernel
from atops.kernels.cxx.variables import Loaded
from atops.kernels.kernel import Kernel
from atops.tops.functions.launch import LoadedFunction, places_of
from atops.tops.header.structs import dim3
from atops.tops.program.lines import Callback, CallLines

__all__ = ("CALLS", "FUNCTIONS", "add_kernels", "function_at", "launching", "words_at")

# The program's own kernels, by the addresses of their functions.
FUNCTIONS: dict[int, ProgramKernel] = {}
_TWINS: WeakKeyDictionary[LoadedFunction, int] = WeakKeyDictionary()


def add_kernels(loaded: Loaded) -> None:
    """Let the program's kernels be launched by the addresses of their functions."""
    library = loaded.module.library
    addresses = (ctypes.c_void_p * len(loaded.module.kernels)).in_dll(library, "atops_functions")
    for address, row in zip(addresses, loaded.module.kernels, strict=True):
        kinds = [row.parameters[each] for each in range(row.count)]
        sizes, pointers = [each.bytes for each in kinds], _pointers(kinds)
        FUNCTIONS[address] = _kernel_at(loaded, row.name.decode(), row.enter, sizes, pointers, bool(row.cooperative))
    for made in _made(library):
        kinds = [made.rows[each] for each in range(made.count)]
        said = _MADE.search(made.name.decode())
        name = "a kernel of a template" if said is None else said[1]
        sizes, pointers = [each.bytes for each in kinds], _pointers(kinds)
        FUNCTIONS[made.address] = _kernel_at(loaded, name, made.enter, sizes, pointers, bool(made.cooperative))


class _MadeKernel(ctypes.Structure):
    """A kernel that a template has made, as the program notes it (`atops/host.h`)."""


_MadeKernel._fields_ = (
    ("address", ctypes.c_void_p), ("enter", ctypes.c_void_p), ("rows", ctypes.POINTER(ParameterRow)),
    ("count", ctypes.c_int32), ("cooperative", ctypes.c_int32), ("name", ctypes.c_char_p),
    ("next", ctypes.POINTER(_MadeKernel)),
)  # fmt: skip
# As g++ and clang++ tell it.
_MADE: Final = re.compile(r"kernel = &?(?:\(& ?)?(.*?)\)?[;,] (?:int )?cooperative = ")


def _made(library: ctypes.CDLL) -> Iterator[_MadeKernel]:
    """Yield the kernels of templates whose addresses the program takes."""
    library.atops_made.restype = ctypes.POINTER(_MadeKernel)
    each = library.atops_made()
    while each:
        yield each.contents
        each = each.contents.next


def launching(loaded: Loaded, lines: CallLines) -> Callback:
    """Return what `kernel<<<...>>>` calls."""

    @cache
    def kernel(
        name: str, enter: int, sizes: tuple[int, ...], pointers: tuple[bool, ...], cooperative: bool
    ) -> ProgramKernel:  # fmt: skip
        return _kernel_at(loaded, name, enter, sizes, pointers, cooperative)

    templates = _templates(loaded)

    @cache
    def made_at(address: int) -> tuple[str, bool] | None:
        """Return the name of the kernel at an address that a template has made, and whether it is cooperative."""
        place = loaded.module.place_of([address])
        name = "" if place is None else place[0].removeprefix("void ").partition("(")[0]
        cooperative = templates.get(name.partition("<")[0])
        return None if cooperative is None else (name, cooperative)

    def launch(
        name: bytes | None, cooperative: int, enter: int, places: Any, sizes: Any, pointers: Any, count: int, grid: Any,
        block: Any, shared: int, stream: int | None,
    ) -> None:  # fmt: skip
        each, flags = tuple(sizes[:count]), tuple(map(bool, pointers[:count]))
        found: ProgramKernel | int | str
        if name is None:  # a pointer to a kernel is launched, and is the last argument
            found = words_at(places[count - 1], 1)[0]
            if (own := FUNCTIONS.get(found)) is not None:
                found, each = own, each[:-1]
            elif loaded.module.text_low <= found < loaded.module.text_high and (made := made_at(found)) is not None:
                found = kernel(made[0], enter, each, (*flags[:-1], False), made[1])
            elif found:
                found = hex(found)  # no kernel
        else:
            found = kernel(name.decode(), enter, each, flags, bool(cooperative))
        data = _bytes_at(places[: len(each)], each)
        with lines.asking():
            tops.topsLaunchKernel(found, _dims(grid[0]), _dims(block[0]), [data], shared, stream or 0)

    return launch


def _templates(loaded: Loaded) -> dict[str, bool]:
    """Return the names of the program's templates of kernels, and whether these are cooperative."""
    names = ctypes.c_char_p.in_dll(loaded.module.library, "atops_templates").value or b""
    return {each.rstrip("!"): each.endswith("!") for each in names.decode().split()}


def _pointers(kinds: Sequence[ParameterRow]) -> list[bool]:
    """Tell which parameters are pointers."""
    return [chr(each.kind) == "P" for each in kinds]


def _kernel_at(
    loaded: Loaded, name: str, enter: int, sizes: Sequence[int], pointers: Sequence[bool], cooperative: bool
) -> ProgramKernel:  # fmt: skip
    def on(chip: Chip, watched: bool) -> tuple[Loaded, int]:
        return loaded, enter

    return ProgramKernel(on, name, sizes, pointers, cooperative, _elsewhere, _reached)


def _elsewhere(address: int) -> Allocation | None:
    """Return the live memory of any device, or pinned memory, that an address is in."""
    if (host := pinned_at(address)) is not None:
        return host
    for context in current_board().contexts:
        with suppress(IllegalAddress):
            found: Allocation = context.chip.memory.find(address)
            return found
    return None


def _reached() -> list[Allocation]:
    """Return the pinned, registered and managed memory of the board."""
    return current_board().host.live()


def _dims(given: Dim) -> dim3:
    return dim3(given.x, given.y, given.z)


def words_at(address: int | None, count: int) -> list[int]:
    """Return so many words of an array of pointers or handles; none of a null pointer, nor below one."""
    return [] if not address or count < 1 else [each or 0 for each in (ctypes.c_void_p * count).from_address(address)]


def _bytes_at(places: Sequence[int | None], sizes: Sequence[int]) -> bytes:
    """Return the bytes of all arguments; a kernel without arguments gets one that it does not look at."""
    given = zip(places, sizes, strict=True)
    return b"".join(ctypes.string_at(place, size) for place, size in given if place) or b"\0"


# ---- launches with an array of pointers


def _given(function: int | None, parameters: int | None) -> tuple[Any, list[object]]:
    """Return what is launched, and its arguments, read where the array's pointers point to."""
    kernel, launched = _known(function)
    if kernel is None:
        return launched, []
    if isinstance(kernel, ProgramKernel):
        return launched, [_bytes_at(words_at(parameters, len(kernel.sizes)), kernel.sizes)] if parameters else []
    places, _, _ = places_of(kernel)  # a kernel in Python
    types = [each.type for each in places]
    pointers = words_at(parameters, len(types))
    return launched, [
        ctypes.c_void_p.from_address(at).value or 0 if each.parameter.memory
        else _number(ctypes.string_at(at, each.type.itemsize), each.type)
        for each, at in zip(places, pointers, strict=False)
    ]  # fmt: skip


def _number(data: bytes, kind: np.dtype[np.generic]) -> object:
    return np.frombuffer(data, kind, 1)[0]


def function_at(address: int | None) -> ProgramKernel | int | str | None:
    """Return the kernel whose function is at an address, or the handle that it is; the text of another address."""
    if not address or (own := FUNCTIONS.get(address)) is None:
        try:
            live(address, LoadedFunction)
        except AtopsError:
            return hex(address) if address else None
        return address
    return own


def _known(function: int | None) -> tuple[Kernel[...] | None, Any]:
    """Return the kernel that is launched, and what stands for it; no kernel where the launch says what is wrong."""
    named = function_at(function)
    if not isinstance(named, int):
        return (named, named) if isinstance(named, ProgramKernel) else (None, named)
    found = live(named, LoadedFunction)
    kernel = found.kernel
    if not isinstance(kernel, NativeKernel):
        return kernel, function
    if found not in _TWINS:  # what takes the arguments as they lie in memory
        sizes = [each.bytes for each in kernel.kinds]
        pointers = _pointers(kernel.kinds)
        raw = ProgramKernel(kernel.on, kernel.name, sizes, pointers, kernel.cooperative, _elsewhere, _reached)
        made = LoadedFunction(raw, found.context)
        _TWINS[found] = register(made, found.context)
    twin = _TWINS[found]
    return live(twin, LoadedFunction).kernel, twin


def _launch_kernel(
    function: int | None, grid: Dim, block: Dim, parameters: int | None, shared: int, stream: int | None
) -> int:  # fmt: skip
    launched, given = _given(function, parameters)
    return int(tops.topsLaunchKernel(launched, _dims(grid), _dims(block), given, shared, stream or 0)[0])


def _launch_cooperative(
    function: int | None, grid: Dim, block: Dim, parameters: int | None, shared: int, stream: int | None
) -> int:  # fmt: skip
    launched, given = _given(function, parameters)
    return int(tops.topsLaunchCooperativeKernel(launched, _dims(grid), _dims(block), given, shared, stream or 0)[0])


def _launch_function(
    function: int | None, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int | None,
    parameters: int | None, extra: int | None,
) -> int:  # fmt: skip
    sizes = gx, gy, gz, bx, by, bz
    if extra and not parameters:
        key, buffer, second, size, last = words_at(extra, 5)
        count = ctypes.c_size_t.from_address(size).value if size else 0
        data = ctypes.create_string_buffer(ctypes.string_at(buffer, count), count) if buffer else None
        found = tops.topsModuleLaunchKernel(function or 0, *sizes, shared, stream or 0, None,
                                            (key, data, second, count, last))  # fmt: skip
        return int(found[0])
    launched, given = _given(function, parameters)
    if isinstance(launched, str):
        launched = function  # of a handle it is said that it is dead
    both = [extra] if extra else None  # refused
    return int(tops.topsModuleLaunchKernel(launched, *sizes, shared, stream or 0, given or None, both)[0])


CALLS: dict[str, Callback] = {
    "topsLaunchKernel": _launch_kernel,
    "topsLaunchCooperativeKernel": _launch_cooperative,
    "topsModuleLaunchKernel": _launch_function,
}
