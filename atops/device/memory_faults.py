"""What is wrong with a request for memory: its size, or that there is no room."""

from __future__ import annotations

import operator

from atops.base.errors import InvalidType, InvalidValue, OutOfMemory
from atops.device.banks import Banks

__all__ = ("checked_size", "out_of_memory")


def checked_size(size: object, zero_ok: bool) -> int:
    """Return a size that is not a plain positive int as one. Raises InvalidType, InvalidValue."""
    try:
        number = operator.index(size)  # type: ignore[arg-type]  # which tells
    except TypeError:
        raise InvalidType(f"an allocation of {size!r} bytes; an int is right") from None
    if number < 0 or (number == 0 and not zero_ok):
        raise InvalidValue(f"an allocation of {number} bytes; {'0' if zero_ok else '1'} or more are right")
    return number


def out_of_memory(banks: Banks, device: int, size: int, bank: int | None) -> OutOfMemory:
    """Return the error for a request that no free range holds, naming what is free."""
    part = banks if bank is None else banks.parts[bank]
    free, largest = part.capacity - part.used, part.largest_free
    place = f"device {device}" if bank is None else f"bank {bank} of device {device}"
    return OutOfMemory(
        f"{place} has no {size} bytes in one piece: {free} of {part.capacity} bytes are free, the largest free "
        f"range has {largest} (fragmentation {1 - largest / free if free else 0:.0%})"
    )
