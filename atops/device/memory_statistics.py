"""What a device memory says about itself at one moment, in bytes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("BankStatistics", "MemoryStatistics")


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
