"""What a device's memory tells of itself: its figures, why a request does not fit, and its part of the trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from atops.base.errors import OutOfMemory
from atops.base.trace.records import DEEPEST, Change
from atops.base.trace.tracer import Tracer
from atops.device.call_site import Site, callers_of
from atops.device.memory.allocation import Allocation
from atops.device.memory.banks import Banks

__all__ = ("BankStatistics", "MemoryLog", "MemoryStatistics", "out_of_memory")

ALLOCATED, FREED, REUSED = (int(change) for change in Change)


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


def out_of_memory(banks: Banks, device: int, size: int, bank: int | None) -> OutOfMemory:
    """Return the error for a request that no free range holds, naming what is free."""
    part = banks if bank is None else banks.parts[bank]
    free, largest = part.capacity - part.used, part.largest_free
    place = f"device {device}" if bank is None else f"bank {bank} of device {device}"
    return OutOfMemory(
        f"{place} has no {size} bytes in one piece: {free} of {part.capacity} bytes are free, the largest free "
        f"range has {largest} (fragmentation {1 - largest / free if free else 0:.0%})"
    )


class MemoryLog:
    """What one memory tells: each change of its allocations. `tracer` says whether anybody listens.

    As long as the bytes in use stay between `low` and `high`, there is nothing to sample.
    """

    __slots__ = ("_device", "high", "low", "tracer")

    def __init__(self, tracer: Tracer, device: int) -> None:
        self.tracer = tracer
        self._device = device
        self.low, self.high = 1, 0  # nothing was told yet

    def sample(self, used: int, peak: int) -> None:
        """Tell the bytes in use, and what would be the same to within a 1024th of the peak."""
        slack = peak >> 10
        self.low, self.high = max(1, used - slack), used + slack  # 0 is told whenever it is so
        self.tracer.counter(self._device, used)

    def begun(self, allocation: Allocation, used: int, stream: int, again: bool = False) -> None:
        """Note a new allocation; `again`: in a range that was set aside before."""
        self.change(REUSED if again else ALLOCATED, allocation, used, allocation.site, stream, stack=True)

    def ended(self, allocation: Allocation, used: int) -> None:
        """Note the end of an allocation; its range may stay set aside."""
        self.change(FREED, allocation, used, allocation.freed_by)

    def standing(self, allocations: Iterable[Allocation], used: int) -> None:
        """Note allocations that were there before anybody looked, and the end of those that have ended just now."""
        for allocation in allocations:
            self.change(ALLOCATED, allocation, used, allocation.site)
            if not allocation.alive:  # its end may have been told before
                self.change(FREED, allocation, used, allocation.freed_by)

    def change(
        self, change: int, allocation: Allocation, used: int, site: object, stream: int = -1, stack: bool = False
    ) -> None:
        """Emit one `MemoryChange`; with `stack` its place has those that called it, where they are on this stack."""
        tracer, log, where = self.tracer, self.tracer.details, -1
        if type(site) is Site:
            if stack:
                for code, instruction in reversed(callers_of(site, DEEPEST - 1)):
                    where = log.site(code, instruction, where)
            where = log.site(site.code, site.instruction, where)
        log.changes.add((
            tracer.clock.now(), self._device, allocation.offset, allocation.size, allocation.bank, change,
            log.generation(allocation.serial), used, where, stream,
        ))  # fmt: skip
