"""What a device memory says about itself at one moment, in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from atops.device.memory.allocator.banks import Banks

__all__ = ("BankStatistics", "MemoryStatistics", "figures_of")


@dataclass(frozen=True, slots=True)
class BankStatistics:
    """One bank, in bytes. `largest_free` is what an allocation on this bank can still have."""

    total: int
    used: int
    free: int
    largest_free: int
    peak: int


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """One device's memory, in bytes; `live` counts allocations, `quarantined` bytes of ranges that are never reused.

    `used` counts whole granules and quarantined ranges, so that used + free = total. `fragmentation` is
    1 - largest_free / free.
    """

    total: int
    used: int
    free: int
    largest_free: int
    fragmentation: float
    peak: int
    live: int
    quarantined: int
    warm: int
    banks: tuple[BankStatistics, ...]


def figures_of(banks: Banks, live: int, quarantined: int, granule: int) -> MemoryStatistics:
    """Return the figures of a memory in these banks, with so many allocations and bytes in quarantine."""
    free, largest = banks.capacity - banks.used, banks.largest_free
    parts = tuple(
        BankStatistics(part.capacity, part.used, part.capacity - part.used, part.largest_free, part.peak)
        for part in banks.parts
    )
    return MemoryStatistics(
        banks.capacity, banks.used, free, largest, 1 - largest / free if free else 0.0, banks.peak, live, quarantined,
        banks.warm.total * granule, parts,
    )
