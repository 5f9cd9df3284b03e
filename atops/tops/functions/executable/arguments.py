"""What the functions of executables share: the handle, operands out of C's flat lists, and dims that come later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from atops.base.errors import InvalidType, InvalidValue
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import Completion
from atops.runtime.current_driver import current_driver
from atops.runtime.executables.executable import Executable
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.resources.bundle import ResourceBundle, bundle_of
from atops.tops.bridge.aliases import alias_at
from atops.tops.bridge.arguments import numbers, whole
from atops.tops.bridge.handles import live
from atops.tops.bridge.pointers import address_of, device_memory, find_device, is_null

__all__ = ("LaterNumbers", "bundle_for", "executable_of", "pointers_in", "room_at", "shapes_in", "typed_memory")


class LaterNumbers(Sequence[int]):
    """The dims or ranks of outputs, which are there once a command of the stream is done.

    Before that, reading raises NotReady; after a failure, what the command failed with.
    """

    __slots__ = ("_completion", "_part")

    def __init__(self, completion: Completion, part: int) -> None:
        self._completion = completion
        self._part = part

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """Return one number, or several. Raises NotReady, or the failure of the launch."""
        found: list[int] = self._completion.result()[self._part]
        return found[index]

    def __len__(self) -> int:
        return len(self[:])

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])

    def __repr__(self) -> str:
        return repr(self[:]) if self._completion.state == "done" else f"<{self._completion.state}>"


def executable_of(handle: Any) -> Executable:
    """Return the executable of a handle, or one of the object API itself. Raises InvalidHandle."""
    return handle if isinstance(handle, Executable) else live(handle, Executable)


def bundle_for(res: Any, context: DeviceContext) -> ResourceBundle | None:
    """Return the bundle of a handle, None for null: the caller's default. Raises InvalidHandle."""
    return None if is_null(res) else bundle_of(context, live(res, ResourceBundle))


def pointers_in(values: Any, count: Any, wanted: int, what: str) -> Sequence[Any]:
    """Return a list of so many pointers as are wanted; `count` is None or their number.

    Raises InvalidType for what is no list, InvalidValue for another number.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidType(f"{what}s are {values!r}; a list of pointers is right")
    if count is not None and whole(count, f"{what}_count") != len(values):
        raise InvalidValue(f"{what}_count is {count} and there are {len(values)} {what}s; None or that many is right")
    if len(values) != wanted:
        raise InvalidValue(f"{len(values)} {what}s are given; {wanted} are right")
    return values


def shapes_in(dims: Any, ranks: Any, count: int) -> list[tuple[int, ...]]:
    """Return the shapes that a flat list of extents and a list of ranks are. Raises InvalidType, InvalidValue."""
    flat, lengths = numbers(dims, None, "input_dims"), numbers(ranks, None, "input_rank")
    if len(lengths) != count or any(each < 0 for each in lengths) or sum(lengths) != len(flat):
        raise InvalidValue(
            f"input_rank is {lengths} and input_dims has {len(flat)} extents; a rank for each of {count} inputs, and "
            "as many extents as they add up to, are right"
        )
    if any(each < 0 for each in flat):
        raise InvalidValue(f"input_dims is {flat}; no extent is negative")
    rest = iter(flat)
    return [tuple(next(rest) for _ in range(length)) for length in lengths]


def typed_memory(pointer: Any, dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> DeviceArray:
    """Return the array at a device pointer. Raises as `device_memory` does."""
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    return device_memory(pointer, nbytes, what, plain=False).view(dtype, shape)


def room_at(pointer: Any, nbytes: int, what: str) -> Buffer:
    """Return the memory at a pointer for a result of `nbytes`; with -1, which nobody knows yet, all that follows it.

    Raises as `device_memory` does.
    """
    if nbytes >= 0:
        return device_memory(pointer, nbytes, what, plain=False)
    driver, address = current_driver(), address_of(pointer, what)
    found = alias_at(driver, address) or find_device(driver, address, what)
    return device_memory(pointer, found.size - (address - found.address), what, plain=False)
