"""The L3 memory of one device: its allocations, from their beginning to their end, and the arena with their bytes.

Where a new allocation goes is decided in `banks.py`; `allocation_table.py` knows which range each one has.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, NotInitialized
from atops.base.locks import check_entry, make_lock, reentered
from atops.device.call_site import caller
from atops.device.memory.allocation import Allocation, fill
from atops.device.memory.allocation_table import AllocationTable
from atops.device.memory.arena import PAGE, Arena
from atops.device.memory.banks import NoRoom
from atops.device.memory.memory_reports import BankStatistics, MemoryStatistics, out_of_memory

__all__ = ("DeviceMemory",)

CLEARED_BY_HAND = 1 << 16  # bytes; of more, whole pages are given back to the system, which gives zeros


class DeviceMemory(AllocationTable):
    """The memory of device `device`: `arch_l3_bytes` in `banks` equal parts from `base_address`.

    Safe from every thread. `free` never waits for the lock: it takes effect at once, and the next holder of
    the lock does the bookkeeping. So a finalizer may free, even one that runs while this thread allocates.
    """

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
                raise out_of_memory(self._banks, self.device, size, bank) from None
        except BaseException as error:
            self._repair(error, allocation)
            raise

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
