"""Where a new allocation goes: the banks of one memory, placement within one, and the rare range across several.

Pure bookkeeping like the free ranges under it; the memory above it owns the lock, the bytes and the errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from atops.device.memory.free_ranges import FreeRanges, WarmIndex

__all__ = ("Bank", "Banks", "NoRoom")

NOWHERE = (-1, -1)
LARGE = 8  # a range of more than an eighth of a bank is large


class NoRoom(Exception):
    """No free range is large enough. The caller turns it into an error that names the memory."""


class Bank:
    """The figures of one bank, in bytes: `capacity`, `used` now and at its `peak`; `stop` is the granule after it."""

    __slots__ = ("_free", "_granule", "_number", "capacity", "peak", "stop", "used")

    def __init__(self, number: int, capacity: int, granule: int, free: FreeRanges) -> None:
        """Begin with nothing used; `free` has the free ranges of all banks."""
        self._number = number
        self._granule = granule
        self._free = free
        self.capacity = capacity
        self.stop = (number + 1) * capacity // granule
        self.used = 0
        self.peak = 0

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free range, 0 if there is none."""
        return self._free.largest(self._number) * self._granule


class Banks:
    """`count` equal parts of `size` bytes from address 0.

    Free ranges never merge across a bank's end, so each bank's figures are its own. A request without a bank goes to
    the best fit of all banks; only when no single bank holds it, to the smallest run of free bytes that crosses their
    ends: the end of one bank, whole free ones, the beginning of the next. Top down it goes to the highest address
    that fits, crossing or not. So one allocation can be as large as the memory.
    """

    __slots__ = ("_apart", "_free", "_gaps", "_granule", "_part", "capacity", "parts", "peak", "used", "warm")

    def __init__(self, size: int, count: int, granule: int, apart: bool = False) -> None:
        """Divide `size` bytes, at least one granule for each of `count` banks; a rest is left out.

        `capacity`, `used` and `peak` are bytes, in whole granules, of all banks together. `apart`: while there is room,
        a free granule lies before each range that is taken: what runs over the end of one does not land in the next.
        Not before a large one, for few of those would fill the memory.
        """
        self._apart = apart
        self._gaps: set[int] = set()  # before which granules such a one lies
        self._granule = granule
        self._part = part = size // count // granule  # the granules of a bank
        self._free = free = FreeRanges(0, count * part, part)
        self.warm: WarmIndex = free.warm
        self.parts = tuple(Bank(number, part * granule, granule, free) for number in range(count))
        self.capacity = count * part * granule
        self.used = 0
        self.peak = 0

    def allocate(
        self, size: int, bank: int | None = None, top_down: bool = False, beside: bool = False
    ) -> int:  # fmt: skip
        """Take `size` bytes, in `bank` only or wherever they fit, and return their address. Raises NoRoom.

        `beside`: with no gap before them, although the ranges of these banks are kept apart.
        """
        granule = self._granule
        need = -(-size // granule) or 1
        alone = self._apart and not (top_down or beside) and bank is None and need <= self._part // LARGE
        if alone and (start := self._free.take_best(need + 1)) >= 0:
            self._free.give(start, start + 1)
            start += 1
            self._gaps.add(start)
        elif top_down or bank is not None or (start := self._free.take_best(need)) < 0:
            return self._place(need, bank, top_down) * granule
        part = self.parts[start // self._part]
        taken = need * granule
        part.used = used = part.used + taken
        if used > part.peak:
            part.peak = used
        self.used = used = self.used + taken
        if used > self.peak:
            self.peak = used
        return start * granule

    def free(self, address: int, size: int) -> int:
        """Give back what `allocate(size)` returned, and return its bytes in whole granules."""
        granule = self._granule
        start = address // granule
        need = -(-size // granule) or 1
        freed, stop = need * granule, start + need
        self._gaps.discard(start)
        self.used -= freed
        part = self.parts[start // self._part]
        if stop <= part.stop:
            part.used -= freed
            self._free.give(start, stop)
        else:
            for part, first, end in self._cut(start, stop):
                part.used -= (end - first) * granule
                self._free.give(first, end)
        return freed

    def renewed(self, taken: Iterable[tuple[int, int]]) -> Banks:
        """Return banks like these, of which just these ranges (address, size), by address, are taken. Peaks stay."""
        granule, begin = self._granule, 0  # the granule after the last one taken
        new = Banks(self.capacity, len(self.parts), granule, self._apart)
        for address, size in taken:
            start, need = address // granule, -(-size // granule) or 1
            for part, first, stop in new._cut(start, start + need):
                new._free.take(max(begin, first // self._part * self._part), first, stop - first)
                part.used += (stop - first) * granule
                begin = stop
            new.used += need * granule
        new.peak = max(self.peak, new.used)
        for old, part in zip(self.parts, new.parts, strict=True):
            part.peak = max(old.peak, part.used)
        return new

    def cool(self, excess: int, page: int) -> tuple[int, int]:
        """Forget about `excess` warm bytes, oldest first, and return the whole pages among them as (start, end).

        A page counts when all of it is free, so that a page shared by two ranges goes with the second.
        """
        granule = self._granule
        (low, high), (start, end) = self.warm.cool(-(-excess // page) * max(1, page // granule))
        first = low * granule // page * page
        last = -(-high * granule // page) * page
        return (first if first >= start * granule else first + page), (last if last <= end * granule else last - page)

    def of(self, address: int) -> int:
        """Return the bank that `address` lies in."""
        return address // self._granule // self._part

    @property
    def free_bytes(self) -> int:
        """What is free: without what lies between ranges that are kept apart, where one request can have all the rest.

        So a program that asks what is free, and then for that, gets it.
        """
        free, gaps = self.capacity - self.used, len(self._gaps) * self._granule
        return self.largest_free if gaps and self.largest_free >= free - gaps else free

    @property
    def largest_free(self) -> int:
        """The largest request without a bank that would succeed now."""
        return max(self._free.largest(), *(end - start for start, end in self._crossing()), 0) * self._granule

    # ---- in granules

    def _place(self, need: int, bank: int | None, top_down: bool) -> int:
        """Take `need` granules in a bank, top down, or across banks, and return where. Raises NoRoom."""
        if top_down:
            start, cut = self._highest(need, bank)
        elif bank is not None:
            start = cut = self._free.best_of(need, bank)
        else:
            fitting = [(end - start, start) for start, end in self._crossing() if end - start >= need]
            start = cut = min(fitting, default=NOWHERE)[1]
        if start < 0:
            raise NoRoom
        for part, first, stop in self._cut(cut, cut + need):
            self._free.take(max(start, first // self._part * self._part), first, stop - first)
            part.used += (stop - first) * self._granule
            part.peak = max(part.peak, part.used)
        self.used += need * self._granule
        self.peak = max(self.peak, self.used)
        return cut

    def _cut(self, start: int, stop: int) -> Iterator[tuple[Bank, int, int]]:
        """Yield (bank, start, stop) of each bank's part of a range."""
        while start < stop:
            bank = self.parts[start // self._part]
            yield bank, start, min(stop, bank.stop)
            start = bank.stop

    def _highest(self, need: int, bank: int | None) -> tuple[int, int]:
        """Return where the highest fitting free range begins, and the granule inside it to take from."""
        places: list[tuple[int, int]] = []
        for part in range(len(self.parts) - 1, -1, -1) if bank is None else (bank,):
            if (start := self._free.highest(need, part)) >= 0:
                places.append((start, start + self._free.length(start) - need))
                break
        for start, end in self._crossing() if bank is None else ():
            if end - start >= need:
                places.append((start, end - need))
        return max(places, key=lambda place: place[1], default=NOWHERE)

    def _crossing(self) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of each run of free granules that crosses the end of a bank, by address."""
        part, free = self._part, self._free
        run = -1  # where the free granules begin that reach up to the end of the bank before; -1 if there are none
        for first in range(0, len(self.parts) * part, part):
            head = free.length(first)
            if head == part:
                run = first if run < 0 else run
                continue
            stop = first + head
            if 0 <= run < stop and run // part != (stop - 1) // part:
                yield run, stop
            tail = free.before(first + part)
            run = first + part - tail if tail else -1
        if 0 <= run < (len(self.parts) - 1) * part:
            yield run, len(self.parts) * part
