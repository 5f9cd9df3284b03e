"""The L3 memory of one device: its allocations, from their beginning to their end, and the arena with their bytes.

Which addresses are free is the allocator's to know; this owns the lock, the bytes, the errors and the figures.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sortedcontainers import SortedList

from atops.base.errors import AtopsError, IllegalAddress, InvalidType, InvalidValue, NotInitialized, OutOfMemory
from atops.base.locks import attempt, check_entry, make_lock, reentered
from atops.base.trace.records import DEEPEST, Change
from atops.base.trace.tracer import Tracer
from atops.device.call_site import Site, caller, callers_of
from atops.device.memory.allocation import Allocation, fill
from atops.device.memory.arena import PAGE, Arena
from atops.device.memory.banks import Banks, NoRoom

__all__ = ("BankStatistics", "DeviceMemory", "MemoryLog", "MemoryStatistics")

CLEARED_BY_HAND = 1 << 16  # bytes; of more, whole pages are given back to the system, which gives zeros
REMEMBERED = 4096  # allocations that are over, for the texts of errors
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


class DeviceMemory:
    """The memory of device `device`: `arch_l3_bytes` in `banks` equal parts from `base_address`.

    Safe from every thread. `free` never waits for the lock: it takes effect at once, and the next holder of
    the lock does the bookkeeping. So a finalizer may free, even one that runs while this thread allocates.
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

    # ---- lifecycle

    def reset(self, by: object = None) -> None:
        """Free everything, quarantined ranges too, and start over. The old arena lives on until its last view dies."""
        by = caller() if by is None else by
        ended: list[Allocation] = []
        with self.lock:
            ended.extend(self._leaving())
            arena, self._arena = self._arena, None
            self._clear()
        for allocation in ended:
            self._end(allocation, by)
        if ended and (log := self.log) is not None and log.tracer.active:
            log.sample(0, 0)
        if arena is not None:
            arena.close()

    def _leaving(self) -> Iterator[Allocation]:
        while self._live:
            yield self._live.popitem()[1]

    def close(self, by: object = None) -> None:
        """Free everything and refuse to allocate from now on. Idempotent."""
        self._closed = True
        self.reset(caller() if by is None else by)

    def disown(self) -> None:
        """Leave the bytes to the parent of this forked process: what is freed here gives none of its pages back.

        The lock and the books are new, because another thread may have been half-way through them.
        """
        self._closed, self.lock = True, make_lock()
        arena, self._arena = self._arena, None
        if arena is not None:
            arena.close()
        self._returned.clear()
        self._clear()

    # ---- allocations

    def allocate(
        self, size: int, *, bank: int | None = None, top_down: bool = False, flags: int = 0, site: object = None,
        label: str = "", zero_ok: bool = True, stream: int = -1, beside: bool = False,
    ) -> Allocation:
        """Set `size` bytes aside, at a multiple of the granule; what they contain is left over from earlier use.

        `bank` None: the best fit of all banks, across banks only if no single one holds it; else in that bank alone.
        `top_down`: the highest address that fits. `size` 0 gives an address of its own with no bytes; without
        `zero_ok` it is an error. `site` is where it is asked for (default: the caller outside this package), `stream`
        whose it is; `beside` as of `Banks.allocate`.

        Raises OutOfMemory, InvalidValue for a negative size or a bank unknown, NotInitialized when closed.
        """
        if type(size) is not int or size <= 0:
            size = _checked_size(size, zero_ok)
        if bank is not None and not 0 <= bank < self._bank_count:
            raise InvalidValue(f"bank {bank} of device {self.device}; expected 0 to {self._bank_count - 1}")
        if site is None:
            self._asker = site = caller(1, self._asker)
        if self.lock.is_owned():
            raise reentered("memory was asked for")
        allocation: Allocation | None = None
        try:
            with self.lock:
                arena = self._arena or self._open()
                if self._returned:
                    self._settle()
                offset = self._banks.allocate(size, bank, top_down, beside)
                address = self.base_address + offset
                allocation = Allocation(
                    address, size, self.device, offset, offset // self._part, flags, arena.source, site, label,
                    address if arena.at_home else arena.host_address + offset,
                )
                self._at[offset] = allocation
                if self._starts is not None:
                    self._starts.add(offset)
                self._live[allocation.serial] = allocation
                if (log := self.log) is not None and log.tracer.active:
                    if not log.low <= (used := self._banks.used) <= log.high:
                        log.sample(used, self._banks.peak)
                    if log.tracer.detail:
                        log.begun(allocation, used, stream)
            return allocation
        except NoRoom:
            with self.lock:
                raise _out_of_memory(self._banks, self.device, size, bank) from None
        except BaseException as error:
            self._repair(error, allocation)
            raise

    def free(self, allocation: Allocation, by: object = None) -> None:
        """End `allocation` and let its range be used again. `by` says what frees it (default: the caller).

        Raises IllegalAddress naming what freed it first, and InvalidValue for an allocation of another memory.
        """
        if by is None:
            self._freer = by = caller(1, self._freer)
        try:
            if self._live.pop(allocation.serial, None) is None:
                raise self._not_live(allocation, by)
            allocation.end(by)
            self._past.append(allocation)
            self._give_back(allocation)
        except BaseException as error:
            self._repair(error, allocation)
            raise
        if (log := self.log) is not None and log.tracer.detail:
            log.ended(allocation, self._banks.used)

    def quarantine(self, allocation: Allocation, by: object = None) -> None:
        """End `allocation`, but do not use its range again before a reset: it may still be written to.

        Raises as `free` does.
        """
        by = caller() if by is None else by
        if self._live.pop(allocation.serial, None) is None:
            raise self._not_live(allocation, by)
        self._end(allocation, f"{by}, into quarantine")
        with self.lock:
            self._settle()
            if (size := self._forget(allocation)) >= 0:
                self._quarantined += self._rounded(size)
                self._lost.append((allocation.offset, size))

    # ---- ranges with several lives: a pool gives the same bytes out again before their last owner is done with them

    def renew(self, old: Allocation, size: int, site: object = None, label: str = "", stream: int = -1) -> Allocation:
        """Begin a new allocation of `size` bytes in the range of `old`, live or retired, and let `find` answer with it.

        `old` is left as it is, and its end no longer frees the range. Raises IllegalAddress when the range is not set
        aside for `old` any more, InvalidValue for a size that it does not hold.
        """
        site = caller() if site is None else site
        with self.lock:
            if self._closed:
                raise NotInitialized(f"the memory of device {self.device} is closed")
            if self._at.get(old.offset) is not old:
                raise IllegalAddress(f"the range of {old!r} is not its own any more; it cannot be used again")
            room = self._kept.get(old.offset) or self._rounded(old.size)
            if not 0 <= size <= room:
                raise InvalidValue(f"{size} bytes in the range of {old!r}; expected 0 to {room}")
            self._kept[old.offset] = room
            new = self._begin(old, 0, size, site, label, old.flags)
            if (log := self.log) is not None and log.tracer.detail:
                log.begun(new, self._banks.used, stream, again=True)
        return new

    def set_aside(self, allocation: Allocation, by: object) -> bool:
        """End `allocation` but keep its range set aside, for `renew` or until `release`. False if it was over."""
        if self._live.pop(allocation.serial, None) is None:
            return False
        self._end(allocation, by)
        return True

    def release(self, retired: Allocation) -> None:
        """Let the range of a retired allocation, the newest there, be used again. Never waits for the lock."""
        self._give_back(retired)

    def newest_at(self, offset: int) -> Allocation | None:
        """Return the newest allocation in the range that begins at `offset`, live or retired; None if none is."""
        return self._at.get(offset)

    # ---- ranges that are cut and joined again: what a reservation has. Their bytes stay put, and no other owner
    # can have the range in between.

    def cut(
        self, old: Allocation, size: int | None, by: object, site: object = None, label: str = ""
    ) -> tuple[Allocation, Allocation | None]:
        """End `old` and begin two allocations in its place: `size` bytes from its start on, and the granules after it.

        `size` None takes all granules. The second is None where none is left. `by` says what ends it. Raises
        IllegalAddress when `old` is over, InvalidValue for a size that it does not hold.
        """
        room = self._rounded(old.size)
        size = room if size is None else size
        taken = self._rounded(size)
        if not 1 <= size <= room:
            raise InvalidValue(f"{size} bytes cut from {old!r}; expected 1 to {room}")
        with self.lock:
            self._leave(old, by)
            front = self._begin(old, 0, size, caller() if site is None else site, label)
            rest = self._begin(old, taken, room - taken, old.site, old.label) if taken < room else None
        self._replace((old,), (front, rest), by)
        return front, rest

    def join(self, low: Allocation, high: Allocation, by: object) -> Allocation | None:
        """End two allocations and begin one in their place.

        None, and nothing done, unless `high` follows `low` in one bank and both live. `by` says what ends
        them; no other thread may at the same time.
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

        Returns False, and does nothing, when it is over. Callers take turns with each other; a free may come meanwhile.
        """
        self._pinned[allocation.serial] = self._pinned.get(allocation.serial, 0) + 1
        if not allocation.alive:  # looked at last: a free ends it before it looks for pins
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

    # ---- questions

    def find(self, address: int, user: object = "") -> Allocation:
        """Return the live allocation that `address` lies in; the address of an empty one is its own.

        Raises IllegalAddress naming the address, the `user`, the allocations next to it, and the last one there.
        """
        offset = address - self.base_address
        found = self._at.get(offset)
        if found is not None and found.alive:
            return found
        check_entry(self.lock, "an allocation was looked for")
        with self.lock:
            self._settle()
            found = self._below(offset)
            if found is not None and found.alive and (offset < found.offset + found.size or offset == found.offset):
                return found
            raise self._illegal(address, found, user)

    def bank_of(self, address: int) -> int:
        """Return the bank that `address` lies in. Raises InvalidValue for an address of no bank of this device."""
        offset = address - self.base_address
        if not 0 <= offset < self.total:
            raise InvalidValue(f"{address:#x} is no address of device {self.device}; expected {self._extent}")
        return self._banks.of(offset)

    def live(self) -> list[Allocation]:
        """Return the live allocations, oldest first."""
        with self.lock:
            return list(self._live.copy().values())  # a copy first: `free` takes entries out without the lock

    @property
    def used(self) -> int:
        """Bytes set aside now, in whole granules, without waiting for the lock."""
        return self._banks.used

    def statistics(self) -> MemoryStatistics:
        """Return a snapshot of sizes, peaks and counts."""
        check_entry(self.lock, "the figures of a memory were asked for")
        with self.lock:
            self._settle()
            banks = self._banks
            free, largest = banks.free_bytes, banks.largest_free
            parts = tuple(
                BankStatistics(part.capacity, part.used, part.capacity - part.used, part.largest_free, part.peak)
                for part in banks.parts
            )
            return MemoryStatistics(
                banks.capacity, banks.used, free, largest, 1 - largest / free if free else 0.0, banks.peak,
                len(self._live), self._quarantined, banks.warm.total * self._granule, parts,
            )

    @property
    def arena(self) -> Arena | None:
        """The bytes behind the memory; None before the first allocation."""
        return self._arena

    def __repr__(self) -> str:
        return (f"<DeviceMemory of device {self.device}: {self._banks.used} of {self.total} bytes in {len(self._live)} "
                f"allocations{', closed' if self._closed else ''}>")

    # ---- under the lock

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
        """End an allocation that is out of the books, and tell of it."""
        allocation.end(by)
        self._past.append(allocation)
        if (log := self.log) is not None and log.tracer.detail:
            log.ended(allocation, self._banks.used)

    def clear(self, allocation: Allocation) -> None:
        """Make all bytes of an allocation 0 that nothing uses yet. A large one costs hardly any time or memory."""
        start, size, arena = allocation.offset, allocation.size, self._arena
        if size <= CLEARED_BY_HAND or arena is None or arena.fd is None:
            fill(allocation, 0, bytes(1), size, "clear")
            return
        end, first = start + size, -(-start // PAGE) * PAGE
        last = end // PAGE * PAGE
        arena.punch(first, last - first)
        fill(allocation, 0, bytes(1), first - start, "clear")
        fill(allocation, last - start, bytes(1), end - last, "clear")

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

    def join_kept(self, owners: Sequence[Allocation]) -> None:
        """Make ranges that follow one another, each by its newest allocation, one range: that of the first.

        The allocations are left as they are. Raises IllegalAddress when a range is not set aside for its owner, or
        does not follow the one before it.
        """
        with self.lock:
            rooms = [self._kept.get(each.offset) or self._rounded(each.size) for each in owners]
            place = owners[0].offset
            for each, room in zip(owners, rooms, strict=True):
                if each.offset != place or self._at.get(place) is not each:
                    raise IllegalAddress(f"the range of {each!r} does not follow that of {owners[0]!r}")
                place += room
            self._starts = None
            try:
                self._kept[owners[0].offset] = sum(rooms)
                for each in owners[1:]:
                    self._at.pop(each.offset)
                    self._kept.pop(each.offset, None)
            except BaseException:  # Ctrl-C: as it was
                self._at.update({each.offset: each for each in owners})
                self._kept.update({each.offset: room for each, room in zip(owners, rooms, strict=True)})
                raise

    def cut_kept(self, owner: Allocation, size: int) -> Allocation:
        """Make the range of which `owner` is the newest allocation two: `size` bytes, and what is after them.

        `owner` is left as it is. Returns the newest allocation of the second, for `renew` or `release`: it is over, and
        was part of `owner`. Raises IllegalAddress when the range is not set aside for `owner` any more, InvalidValue
        unless both are whole granules.
        """
        place = owner.offset
        with self.lock:
            if self._at.get(place) is not owner or self._arena is None:
                raise IllegalAddress(f"the range of {owner!r} is not its own any more; it cannot be cut")
            room = self._kept.get(place) or self._rounded(owner.size)
            if size % self._granule or not 0 < size < room:
                raise InvalidValue(f"{size} bytes cut from {room}; expected whole granules of {self._granule} bytes")
            rest = Allocation(
                owner.address + size, room - size, self.device, place + size, (place + size) // self._part, owner.flags,
                self._arena.source, owner.site, owner.label, owner.host_address + size,
            )  # fmt: skip
            rest.end(owner.freed_by)
            self._starts = None
            self._past.append(rest)
            try:
                self._kept[place] = size
                self._at[rest.offset] = rest
            except BaseException:  # Ctrl-C: as it was
                self._at.pop(rest.offset, None)
                self._kept[place] = room
                raise
        return rest

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

    def _leave(self, old: Allocation, user: object) -> int:
        """Take a live allocation out of the books, its range not given back. Returns its bytes in whole granules."""
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
        """End the old allocations, which are out of the books, and tell of that and of those in their place."""
        for each in old:
            self._end(each, by)
        if (log := self.log) is not None and log.tracer.detail:
            for begun in new:
                if begun is not None:
                    log.begun(begun, self._banks.used, -1, again=True)


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


def _checked_size(size: object, zero_ok: bool) -> int:
    """Return a size that is not a plain positive int as one. Raises InvalidType, InvalidValue."""
    try:
        if isinstance(size, bool):
            raise TypeError
        number = operator.index(size)  # type: ignore[arg-type]  # which tells
    except TypeError:
        raise InvalidType(f"an allocation of {size!r} bytes; expected an int") from None
    if number < 0 or (number == 0 and not zero_ok):
        raise InvalidValue(f"an allocation of {number} bytes; expected {'0' if zero_ok else '1'} or more")
    return number


def _out_of_memory(banks: Banks, device: int, size: int, bank: int | None) -> OutOfMemory:
    """Return the error for a request that no free range holds, naming what is free."""
    part = banks if bank is None else banks.parts[bank]
    free, largest = part.capacity - part.used, part.largest_free
    place = f"device {device}" if bank is None else f"bank {bank} of device {device}"
    return OutOfMemory(
        f"{place} has no {size} bytes in one piece: {free} of {part.capacity} bytes are free, the largest free "
        f"range has {largest} (fragmentation {1 - largest / free if free else 0:.0%})"
    )
