"""Device memory whose set-aside ranges can be cut, joined again and kept: what a reservation or another process has."""

from __future__ import annotations

from collections.abc import Iterable

from atops.base.errors import InvalidValue
from atops.device.call_site import caller
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import GlobalMemory

__all__ = ("DividedMemory",)


class DividedMemory(GlobalMemory):
    """The memory of a device. An allocation can become two, and two neighbours one, while their bytes stay put.

    The range is nobody else's at any moment in between, and no figure but the number of allocations changes.
    """

    def cut(
        self, old: Allocation, size: int | None, by: object, site: object = None, label: str = ""
    ) -> tuple[Allocation, Allocation | None]:
        """End `old` and begin two allocations in its place: `size` bytes from its start on, and the granules after it.

        `size` None takes all granules. The second is None where none is left. `by` says who ends it. Raises
        IllegalAddress when `old` is over, InvalidValue for a size that it does not hold.
        """
        room = self._rounded(old.size)
        size = room if size is None else size
        taken = self._rounded(size)
        if not 1 <= size <= room:
            raise InvalidValue(f"{size} bytes cut from {old!r}; 1 to {room} are right")
        with self.lock:
            self._leave(old, by)
            front = self._begin(old, 0, size, caller() if site is None else site, label)
            rest = self._begin(old, taken, room - taken, old.site, old.label) if taken < room else None
        self._replace((old,), (front, rest), by)
        return front, rest

    def join(self, low: Allocation, high: Allocation, by: object) -> Allocation | None:
        """End two allocations and begin one in their place.

        None, and nothing done, unless `high` follows `low` in one bank and both live. `by` says who ends them; nobody
        else may at the same time.
        """
        if low.bank != high.bank or low.offset + self._rounded(low.size) != high.offset:
            return None
        with self.lock:
            if not (low.alive and high.alive):
                return None
            room = self._leave(low, by) + self._leave(high, by)
            whole = self._begin(low, 0, room, low.site, low.label)
        self._replace((low, high), (whole,), by)
        return whole

    # ---- ranges that other processes have mapped

    def pin(self, allocation: Allocation) -> bool:
        """Keep the range of `allocation` from being used again until `unpin`, even if it is freed meanwhile.

        Returns False, and does nothing, when it is over. Callers take turns with each other, not with those who free.
        """
        self._pinned[allocation.serial] = self._pinned.get(allocation.serial, 0) + 1
        if not allocation.alive:  # looked at last: who frees ends it before he looks for pins
            self.unpin(allocation)
            return False
        return True

    def unpin(self, allocation: Allocation) -> None:
        """Undo one `pin`; the last gives the range back if its allocation is over."""
        left = self._pinned.pop(allocation.serial) - 1
        if left:
            self._pinned[allocation.serial] = left
        elif not allocation.alive:
            self._give_back(allocation)

    def is_pinned(self, allocation: Allocation) -> bool:
        """Tell whether another process has the range mapped, so that it must not be used again now."""
        return allocation.serial in self._pinned

    # ---- under the lock

    def _leave(self, old: Allocation, who: object) -> int:
        """Take a live allocation out of the books, its range not given back. Returns its bytes in whole granules."""
        if self._live.pop(old.serial, None) is None:
            raise old.violation(0, old.size, who)
        del self._at[old.offset]
        if self._starts is not None:
            self._starts.remove(old.offset // self._granule)
        return self._rounded(old.size)

    def _begin(self, old: Allocation, start: int, size: int, site: object, label: str) -> Allocation:
        """Begin an allocation of `size` bytes, `start` bytes into the range of `old`."""
        assert self._arena is not None  # `old` lives in it
        offset = old.offset + start
        allocation = Allocation(
            old.address + start, size, self.device, offset, old.bank, 0, self._arena.source, site, label,
            old.host_address + start,
        )
        self._at[offset] = allocation
        if self._starts is not None:
            self._starts.add(offset // self._granule)
        self._live[allocation.serial] = allocation
        return allocation

    # ---- without the lock

    def _replace(self, old: Iterable[Allocation], new: Iterable[Allocation | None], by: object) -> None:
        """End the old allocations, which are out of the books, and tell of that and of those in their place."""
        for each in old:
            self._end(each, by)
            self._tell_end(each)
        if (log := self.log) is not None and log.tracer.detail:
            for begun in new:
                if begun is not None:
                    log.begun(begun, self._banks.used, -1, again=True)
