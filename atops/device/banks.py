"""Where a new allocation goes: the banks of one memory, placement within one, and the rare range across several.

Pure bookkeeping like the allocator under it; the memory above it owns the lock, the bytes and the errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from atops.device.range_index import SizeIndex
from atops.device.ranges import NoRoom, RangeAllocator
from atops.device.warm import WarmIndex

__all__ = ("Banks",)

# Where a free range begins, and the address inside it to take.
Place = tuple[int, int]
NOWHERE: Place = (-1, -1)


class Banks:
    """`count` equal parts of `size` bytes from address 0, each a RangeAllocator.

    Free ranges never merge across a bank's end, so each bank's figures are its own. A request without a bank goes to
    the best fit of all banks; only when no single bank holds it, to the smallest run of free bytes that crosses their
    ends: the end of one bank, whole free ones, the beginning of the next. Top down it goes to the highest address
    that fits, crossing or not. So one allocation can be as large as the memory.
    """

    __slots__ = ("_granule", "_part", "_sizes", "capacity", "parts", "peak", "used", "warm")

    def __init__(self, size: int, count: int, granule: int) -> None:
        """Divide `size` bytes, at least one granule for each of `count` banks; a rest is left out.

        `capacity`, `used` and `peak` are bytes, in whole granules, of all banks together.
        """
        self._part = part = size // count // granule * granule
        self._sizes = sizes = SizeIndex({})
        self.warm = warm = WarmIndex(sizes.free)
        self._granule = granule
        self.parts = tuple(
            RangeAllocator(bank * part, part, granule, shared=sizes, also=warm) for bank in range(count)
        )
        self.capacity = count * part
        self.used = 0
        self.peak = 0

    def allocate(self, size: int, bank: int | None = None, *, top_down: bool = False) -> int:
        """Take `size` bytes, in `bank` only or wherever they fit, and return their address. Raises NoRoom."""
        if top_down:
            range_start, address = self._highest(size, bank)
        elif bank is None:
            range_start = address = self._best(size)
        else:
            found = self.parts[bank].best(size)
            range_start = address = -1 if found is None else found[0]
        if address < 0:
            raise NoRoom
        self.warm.taking()
        part = self.parts[address // self._part]
        if address + size <= part.end:
            taken = part.take(range_start, address, size)
        else:
            taken = self._take_across(range_start, address, size)
        self.used += taken
        if self.used > self.peak:
            self.peak = self.used
        return address

    def free(self, address: int, size: int) -> int:
        """Give back what `allocate(size)` returned, and return its bytes in whole granules."""
        first = address // self._granule
        self.warm.freeing(first, first + (-(-size // self._granule) or 1))
        freed = self.parts[address // self._part].free(address)
        while freed < size:
            freed += self.parts[self.of(address + freed)].free(address + freed)
        self.used -= freed
        return freed

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
        return address // self._part

    @property
    def largest_free(self) -> int:
        """The largest request without a bank that would succeed now."""
        return max(self._sizes.largest() * self._granule, *(end - start for start, end in self._crossing()), 0)

    def _take_across(self, range_start: int, address: int, size: int) -> int:
        part = self.parts[self.of(address)]
        taken = part.take(range_start, address, part.end - address)
        while taken < size:
            part = self.parts[self.of(address + taken)]
            taken += part.take(part.start, part.start, min(size - taken, part.capacity))
        return taken

    def _best(self, size: int) -> int:
        first = self._sizes.best(-(-size // self._granule) or 1)
        if first >= 0:
            return first * self._granule
        return min([(end - start, start) for start, end in self._crossing() if end - start >= size], default=(0, -1))[1]

    def _highest(self, size: int, bank: int | None) -> Place:
        need = self.parts[0].rounded(size)
        places: list[Place] = []
        for part in reversed(self.parts if bank is None else self.parts[bank : bank + 1]):
            if (found := part.highest(size)) is not None:
                places.append((found[0], found[0] + found[1] - need))
                break
        for start, end in self._crossing() if bank is None else ():
            if end - start >= need:
                places.append((max(start, self.of(end - need) * self._part), end - need))
        return max(places, key=lambda place: place[1], default=NOWHERE)

    def _crossing(self) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of each run of free bytes that crosses the end of a bank, by address."""
        run = -1  # where the free bytes begin that reach up to the end of the bank before; -1 if there are none
        for part in self.parts:
            head = part.head()
            if head == part.capacity:
                run = part.start if run < 0 else run
                continue
            stop = part.start + head
            if 0 <= run < stop and self.of(run) != self.of(stop - 1):
                yield run, stop
            run = part.end - part.tail() if part.tail() else -1
        if 0 <= run < self.parts[-1].start:
            yield run, self.capacity
