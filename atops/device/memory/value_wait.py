"""Waiting for a value in memory: the conditions as a table, and watches that are tested after each store they overlap.

Stores that are not reported (mapped host memory, other processes) call no test: such watches are polled with `test`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import IntEnum

from sortedcontainers import SortedDict

from atops.base.errors import IllegalAddress, InvalidValue
from atops.base.locks import fork_safe
from atops.device.memory.allocation import Allocation

__all__ = ("Condition", "Watch", "satisfied")

CELL_SHIFT = 3


class Condition(IntEnum):
    """How a value in memory is compared. 0 to 3 are the flags of `topsStreamWaitValue32` and HIP's flags alike.

    HIP's Gte compares without sign and does not wrap around: the compatibility layer passes GteUnsigned for it. The
    other three are the same in both texts (HIP's masks being all ones in TOPS).
    """

    Gte = 0
    Eq = 1
    And = 2
    Nor = 3
    GteUnsigned = 4

    @classmethod
    def of(cls, condition: Condition | str | int) -> Condition:
        """Return the condition that a name in any case, a number or a condition stands for. Raises InvalidValue."""
        try:
            if isinstance(condition, str):
                return {each.name.lower(): each for each in cls}[condition.lower()]
            return cls(condition)
        except (KeyError, ValueError):
            names = ", ".join(each.name for each in cls)
            raise InvalidValue(f"the condition is {condition!r}; expected one of {names}") from None


# memory is masked already; `full` has all bits of the width. Source: TOPS Runtime API, 2.4.
TESTS: dict[int, Callable[[int, int, int, int], bool]] = {
    Condition.Gte: lambda memory, wanted, mask, full: (memory - wanted) & full <= full >> 1,
    Condition.Eq: lambda memory, wanted, mask, full: memory == wanted,
    Condition.And: lambda memory, wanted, mask, full: memory & wanted != 0,
    Condition.Nor: lambda memory, wanted, mask, full: ~(memory | (wanted & mask)) & full != 0,
    Condition.GteUnsigned: lambda memory, wanted, mask, full: memory >= wanted,
}


def satisfied(value: int, wanted: int, condition: int, mask: int | None = None, width: int = 32) -> bool:
    """Tell whether the `width`-bit `value` in memory satisfies `condition` against `wanted`.

    `value` is taken under `mask` (None: all bits). Gte is cyclic: `(int)(value - wanted) >= 0`; GteUnsigned is not.
    Negative numbers count as their two's complement.
    """
    full = (1 << width) - 1
    mask = full if mask is None else mask & full
    return TESTS[condition](value & mask, wanted & full, mask, full)


class Watch:
    """One wait for a value: `width` bits (32 or 64) at `offset` of an allocation.

    Exactly one of `on_true()`, `on_dead(error)` and `cancel()` takes effect, once. The callbacks run in the thread
    that stored, armed or freed, with no lock held, and must not block.
    """

    __slots__ = ("_over", "_poll", "allocation", "condition", "mask", "offset", "on_dead", "on_true", "wanted", "width")

    def __init__(
        self, allocation: Allocation, offset: int, width: int, wanted: int, condition: int, mask: int | None,
        on_true: Callable[[], None], on_dead: Callable[[IllegalAddress], None] | None = None,
        poll: Callable[[Watch], None] | None = None,
    ) -> None:
        """Describe the wait; nothing happens before `arm`. `poll` has it tested where stores are not reported.

        Raises InvalidValue for a width other than 32 and 64, an unknown condition, a wanted value that does not fit
        or an address that is not aligned to the width, and IllegalAddress when the bytes are not inside.
        """
        if width not in (32, 64):
            raise InvalidValue(f"the width of a value wait is {width!r} bits; expected 32 or 64")
        if condition not in TESTS:
            raise InvalidValue(f"the condition of a value wait is {condition!r}; expected 0 to {len(TESTS) - 1}")
        if not -(1 << width - 1) <= wanted < 1 << width:
            raise InvalidValue(f"the value waited for is {wanted}; expected {width} bits")
        if (allocation.address + offset) % (width >> 3):
            raise InvalidValue(f"a {width}-bit value wait at {allocation.address + offset:#x} is not aligned to "
                               f"{width >> 3} bytes")
        allocation.check(offset, width >> 3, "a wait for a value")
        self.allocation = allocation
        self.offset = offset
        self.width = width
        self.wanted = wanted
        self.condition = Condition(condition)
        self.mask = mask
        self.on_true = on_true
        self.on_dead = on_dead
        self._poll = poll
        self._over = False

    def arm(self) -> None:
        """Start waiting, and test at once: a value that is there already, or is stored meanwhile, is not missed.

        A watch is armed once; one that was cancelled before stays so.
        """
        with _lock:
            if self._over:
                return
            index = self.allocation.watches
            if not isinstance(index, _Index):
                index = self.allocation.watches = _Index(self.allocation)
            index.add(self)
        if not self.allocation.alive:
            self.end()
        elif not self.test() and self.allocation.host_visible:  # looked at after the watch is in: see `expose`
            self.exposed()

    def exposed(self) -> None:
        """Have it polled from now on: unreported stores are possible."""
        if self._poll is not None and not self._over:
            self._poll(self)

    def test(self) -> bool:
        """Compare now, and fire if the condition holds. Return True when the wait is over, by whatever end."""
        view = self.allocation.view
        value = int.from_bytes(view[self.offset : self.offset + (self.width >> 3)], "little")
        if not self.allocation.alive:  # its bytes are gone; the free ends this watch
            return self._over
        if satisfied(value, self.wanted, self.condition, self.mask, self.width) and self._finish():
            self.on_true()
        return self._over

    def cancel(self) -> bool:
        """Stop waiting. Return False when the wait was over before."""
        return self._finish()

    def end(self) -> None:
        """Tell `on_dead` that the memory is gone. Only the end of the allocation calls this."""
        if self._finish() and self.on_dead is not None:
            self.on_dead(self.allocation.violation(self.offset, self.width >> 3, "a wait for a value"))

    @property
    def over(self) -> bool:
        """Whether the wait has ended: true, dead or cancelled."""
        return self._over

    def _finish(self) -> bool:
        with _lock:
            if self._over:
                return False
            self._over = True
            index = self.allocation.watches
            if isinstance(index, _Index):
                index.remove(self)
            return True

    def __repr__(self) -> str:
        mask = "" if self.mask is None else f" mask {self.mask:#x}"
        state = "over" if self._over else "waiting"
        return (f"<Watch {self.allocation.address + self.offset:#x}: {self.width}-bit {self.condition.name} "
                f"{self.wanted:#x}{mask}, {state}>")


class _Index:
    """The armed watches of one allocation, by 8-byte cell; an aligned value never straddles two. `_lock` guards it."""

    __slots__ = ("_allocation", "_cells", "_count")

    def __init__(self, allocation: Allocation) -> None:
        self._allocation = allocation
        self._cells: SortedDict[int, list[Watch]] = SortedDict()
        self._count = 0

    def add(self, watch: Watch) -> None:
        self._cells.setdefault(self._cell(watch.offset), []).append(watch)
        self._count += 1

    def remove(self, watch: Watch) -> None:
        cell = self._cell(watch.offset)
        inside = self._cells.get(cell, ())
        if watch in inside:
            inside.remove(watch)
            self._count -= 1
            if not inside:
                del self._cells[cell]
            if not self._count:
                self._allocation.watches = None

    def stored(self, offset: int, size: int) -> None:
        if size <= 0:
            return
        with _lock:
            cells = self._cells.irange(self._cell(offset), self._cell(offset + size - 1))
            touched = [watch for cell in cells for watch in self._cells[cell]]
        for watch in touched:
            watch.test()

    def armed(self) -> list[Watch]:
        with _lock:
            return [watch for inside in self._cells.values() for watch in inside]

    def exposed(self) -> None:
        for watch in self.armed():
            watch.exposed()

    def ended(self) -> None:
        for watch in self.armed():
            watch.end()

    def _cell(self, offset: int) -> int:
        return (self._allocation.address + offset) >> CELL_SHIFT

    def __len__(self) -> int:
        return self._count


# One leaf lock for all indexes: it is held for the bookkeeping only, never while bytes are compared or callbacks run.
_lock = fork_safe(threading.RLock())
