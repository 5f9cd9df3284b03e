"""The dimensions that a program gives its memory, kept for as long as the memory lives."""

from __future__ import annotations

import math
from typing import Any, Final
from weakref import WeakKeyDictionary

from atops.base.errors import InvalidValue
from atops.device.memory.allocation import Allocation
from atops.runtime.memory.scatter import MOST_DIMS
from atops.tops.bridge.arguments import numbers

__all__ = ("DIMS", "dims_in", "extents_in")

DIMS: Final[WeakKeyDictionary[Allocation, tuple[int, ...]]] = WeakKeyDictionary()


def extents_in(dims: Any, count: Any, what: str) -> tuple[int, ...]:
    """Return one to eight positive extents. Raises InvalidType, InvalidValue."""
    found = numbers(dims, count, what)
    if not 1 <= len(found) <= MOST_DIMS or min(found) < 1:
        raise InvalidValue(f"{what} is {found}; 1 to {MOST_DIMS} extents of 1 or more are right")
    return found


def dims_in(dims: Any, count: Any, size: int) -> tuple[int, ...]:
    """Return the extents of memory of `size` bytes. Raises InvalidValue where they make no whole elements of it."""
    found = extents_in(dims, count, "dims")
    if not size or size % math.prod(found):
        raise InvalidValue(f"dims {found} make no whole elements of {size} bytes")
    return found
