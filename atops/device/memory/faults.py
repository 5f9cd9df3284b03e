"""What is wrong with a request for memory: its size, that there is no room, or that nothing lives at its address."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, OutOfMemory
from atops.device.memory.allocation import Allocation
from atops.device.memory.allocator.banks import Banks

__all__ = ("checked_size", "in_no_allocation", "out_of_memory")


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


def in_no_allocation(
    start: str, offset: int, below: Allocation | None, above: Allocation | None, past: Iterable[Allocation]
) -> IllegalAddress:
    """Return the error for an offset that is in no live allocation; `start` says so.

    It names the allocations next to it, and of those that are over, `past`, the one that it was in last.
    """
    parts = [start]
    if below is not None and below.alive:
        parts.append(f"{offset - below.offset - below.size} bytes after the end of {below!r}")
    if above is not None:
        parts.append(f"{above.offset - offset} bytes before {above!r}")
    for old in reversed(list(past)):
        if old.offset <= offset < old.offset + max(old.size, 1):
            parts.append(f"it was in {old!r}, freed by {old.freed_by}")
            break
    return IllegalAddress("; ".join(parts))
