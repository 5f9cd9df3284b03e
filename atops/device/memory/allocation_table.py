"""Which allocation has which range of a device's memory: what lives, what is over, and what may be used again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from sortedcontainers import SortedList

from atops.base.errors import AtopsError, IllegalAddress, InvalidValue, NotInitialized
from atops.base.locks import attempt, make_lock
from atops.device.call_site import Site
from atops.device.memory.allocation import Allocation
from atops.device.memory.arena import PAGE, Arena
from atops.device.memory.banks import Banks
from atops.device.memory.memory_reports import MemoryLog

__all__ = ("AllocationTable",)

REMEMBERED = 4096  # allocations that are over, for the texts of errors


class AllocationTable:
    """The allocations of a device's memory, by range, its free ranges and its bytes: what `DeviceMemory` works on.

    Ranges are read and changed under the lock. `_end`, `_give_back`, `_repair`, `_replace` and `_not_live` are called
    without it.
    """

    def __init__(
        self, arch_l3_bytes: int, banks: int, device: int, base_address: int, warm_bytes: int, granule: int = 256,
        apart: bool = False,
    ) -> None:  # fmt: skip
        """Describe the memory; the arena is made by the first allocation. Raises InvalidValue for too many banks.

        `apart`: while there is room, allocations do not touch each other.
        """
        if not 1 <= banks <= arch_l3_bytes // granule:
            raise InvalidValue(f"memory of {arch_l3_bytes} bytes has no {banks} banks of at least {granule} bytes")
        self.device = device
        self.base_address = base_address
        self.total = arch_l3_bytes // banks // granule * granule * banks
        self._granule = granule
        self._apart = apart
        self._part, self._bank_count = self.total // banks, banks
        self._warm_limit = max(0, warm_bytes) // granule
        self.lock = make_lock()
        self._live: dict[int, Allocation] = {}
        self._returned: deque[Allocation] = deque()
        self._past: deque[Allocation] = deque(maxlen=REMEMBERED)
        self._pinned: dict[int, int] = {}  # by serial, how often the ranges are lent to other processes
        self._arena: Arena | None = None
        self._closed = False
        self._asker: Site | None = None  # where the latest allocation was asked for,
        self._freer: Site | None = None  # and where the latest free
        self.log: MemoryLog | None = None  # set once there is a tracer
        self._clear()

    def _clear(self) -> None:
        self._banks = Banks(self.total, self._bank_count, self._granule, self._apart)
        self._at: dict[int, Allocation] = {}  # by offset, the newest allocation of each range that is set aside
        self._starts: SortedList[int] | None = None
        self._kept: dict[int, int] = {}  # by offset, the bytes of ranges whose newest allocation may be smaller
        self._quarantined = 0
        self._lost: list[tuple[int, int]] = []  # the ranges in quarantine: offset, size

    def _open(self) -> Arena:
        if self._closed:
            raise NotInitialized(f"the memory of device {self.device} is closed")
        self._arena = Arena(self.total, self.base_address, name=f"device {self.device} L3")
        return self._arena

    def _end(self, allocation: Allocation, by: object) -> None:
        """End an allocation that is in no range any more, and tell of it."""
        allocation.end(by)
        self._past.append(allocation)
        if (log := self.log) is not None and log.tracer.detail:
            log.ended(allocation, self._banks.used)

    def _give_back(self, ended: Allocation) -> None:
        """Let the range of an ended allocation be used again: now, or when the lock is free."""
        if self._pinned and ended.serial in self._pinned:
            return
        self._returned.append(ended)
        attempt(self.lock, self._settle)

    def _settle(self) -> None:
        """Catch up with the frees that found the lock taken, and give back the pages beyond what may stay warm."""
        banks, returned = self._banks, self._returned
        try:
            while returned:
                ended = returned[0]
                if (size := self._forget(ended)) >= 0:
                    banks.free(ended.offset, size)
                returned.popleft()
            while banks.warm.total > self._warm_limit:
                start, end = banks.cool((banks.warm.total - self._warm_limit) * self._granule, PAGE)
                if start < end and self._arena is not None:
                    self._arena.punch(start, end - start)
            log, used = self.log, banks.used
            if log is not None and not log.low <= used <= log.high and log.tracer.active:
                log.sample(used, banks.peak)
        except BaseException as error:
            self._repair(error)
            raise

    def _repair(self, error: BaseException, half: Allocation | None = None) -> None:
        """After Ctrl-C inside a change, end the allocation that is half made or freed and rebuild the free ranges."""
        if isinstance(error, AtopsError):
            return
        with self.lock:
            if half is not None:
                self._live.pop(half.serial, None)
                half.end("Ctrl-C")
                if half.serial not in self._pinned:
                    self._forget(half)
            kept = dict(item for item in self._kept.items() if item[0] in self._at)
            taken = ((offset, kept.get(offset) or each.size) for offset, each in self._at.items())
            self._banks, self._kept, self._starts = self._banks.renewed(sorted((*taken, *self._lost))), kept, None

    def _forget(self, ended: Allocation) -> int:
        """Take the range of an ended allocation out of the index and return its bytes; -1 if it is not its own now.

        It is not when it was renewed, or when a reset came in between.
        """
        offset = ended.offset
        if self._at.get(offset) is not ended:
            return -1
        del self._at[offset]
        if self._starts is not None:
            self._starts.remove(offset)
        return self._kept.pop(offset) if offset in self._kept else ended.size

    def _leave(self, old: Allocation, user: object) -> int:
        """Take a live allocation out of its range, which is not given back. Returns its bytes in whole granules."""
        if self._live.pop(old.serial, None) is None:
            raise old.violation(0, old.size, user)
        del self._at[old.offset]
        if self._starts is not None:
            self._starts.remove(old.offset)
        return self._rounded(old.size)

    def _begin(
        self, old: Allocation, start: int, size: int, site: object, label: str, flags: int = 0
    ) -> Allocation:  # fmt: skip
        """Begin an allocation of `size` bytes, `start` bytes into the range of `old`."""
        assert self._arena is not None  # `old` lives in it
        offset = old.offset + start
        allocation = Allocation(
            old.address + start, size, self.device, offset, old.bank, flags, self._arena.source, site, label,
            old.host_address + start,
        )
        if self._starts is not None and offset not in self._at:
            self._starts.add(offset)
        self._at[offset] = allocation
        self._live[allocation.serial] = allocation
        return allocation

    def _replace(self, old: Iterable[Allocation], new: Iterable[Allocation | None], by: object) -> None:
        """End the old allocations, which are in no range any more, and tell of that and of those in their place."""
        for each in old:
            self._end(each, by)
        if (log := self.log) is not None and log.tracer.detail:
            for begun in new:
                if begun is not None:
                    log.begun(begun, self._banks.used, -1, again=True)

    def _rounded(self, size: int) -> int:
        """Return the bytes of the granules that hold `size` bytes; at least one granule."""
        return (-(-size // self._granule) or 1) * self._granule

    def _not_live(self, allocation: Allocation, by: object) -> IllegalAddress | InvalidValue:
        if not allocation.alive or self._at.get(allocation.offset) is allocation:
            return allocation.freed_twice(by)
        return InvalidValue(f"{allocation!r} is not memory of device {self.device}")

    def _below(self, offset: int) -> Allocation | None:
        if not 0 <= offset < self.total:
            return None
        starts = self._order()
        place = starts.bisect_right(offset)
        return self._at[starts[place - 1]] if place else None

    def _order(self) -> SortedList[int]:
        """Return the offsets where ranges begin. Kept in step from the first call on."""
        if self._starts is None:
            self._starts = SortedList(self._at)
        return self._starts

    @property
    def _extent(self) -> str:
        return f"{self.base_address:#x} to {self.base_address + self.total - 1:#x}"

    def _illegal(self, address: int, below: Allocation | None, user: object) -> IllegalAddress:
        """Return the error for an address in no live allocation: it names those next to it, and the last one there."""
        offset = address - self.base_address
        start = f"{str(user) + ': ' if user else ''}{address:#x} is in no live allocation of device {self.device}"
        if not 0 <= offset < self.total:
            return IllegalAddress(f"{start}; its addresses are {self._extent}")
        parts, starts = [start], self._order()
        if below is not None and below.alive:
            parts.append(f"{offset - below.offset - below.size} bytes after the end of {below!r}")
        if (place := starts.bisect_right(offset)) < len(starts):
            above = self._at[starts[place]]
            parts.append(f"{above.offset - offset} bytes before {above!r}")
        past = reversed(self._past.copy())
        if (old := next((each for each in past if 0 <= offset - each.offset < max(each.size, 1)), None)) is not None:
            parts.append(f"it was in {old!r}, freed by {old.freed_by}")
        return IllegalAddress("; ".join(parts))
