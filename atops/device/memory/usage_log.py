"""Telling a tracer how much memory of a device is in use and, while somebody wants details, who holds it.

It is told by the memory, which asks first whether anybody listens; it knows no stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from atops.base.trace.events import Change
from atops.base.trace.tracer import Tracer
from atops.device.call_site import Site
from atops.device.memory.allocation import Allocation

__all__ = ("MemoryLog",)

ALLOCATED, FREED, REUSED = (int(change) for change in Change)


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
        self.change(REUSED if again else ALLOCATED, allocation, used, allocation.site, stream)

    def ended(self, allocation: Allocation, used: int) -> None:
        """Note the end of an allocation; its range may stay set aside."""
        self.change(FREED, allocation, used, allocation.freed_by)

    def standing(self, allocations: Iterable[Allocation], used: int) -> None:
        """Note allocations that were there before anybody looked, and the end of those that have ended just now."""
        for allocation in allocations:
            self.change(ALLOCATED, allocation, used, allocation.site)
            if not allocation.alive:  # who ended it may have told so before
                self.change(FREED, allocation, used, allocation.freed_by)

    def change(self, change: int, allocation: Allocation, used: int, site: object, stream: int = -1) -> None:
        """Emit one `MemoryChange`."""
        tracer, log = self.tracer, self.tracer.details
        where = log.site(site.code, site.instruction) if type(site) is Site else -1
        log.changes.add((
            tracer.clock.now(), self._device, allocation.offset, allocation.size, allocation.bank, change,
            log.generation(allocation.serial), used, where, stream,
        ))  # fmt: skip
