"""The kernel signals of one chip: 32-bit values that kernels and the host set, add to and wait on.

Waiters are woken; on which OS thread they go on is their own affair.
"""

from __future__ import annotations

from typing import Protocol

from atops.base.errors import InvalidValue
from atops.base.waiting.locks import check_entry, make_lock
from atops.base.waiting.parking_lot import ParkingLot

__all__ = ("KernelSignals", "SignalWaiter")

MASK = 0xFFFFFFFF


class SignalWaiter(Protocol):
    """A wait for a signal: `met` tests a value, `wake` is called once, with no lock held."""

    def met(self, now: int) -> bool:
        """Return whether the waiter may go on when the signal is `now`."""

    def wake(self) -> None:
        """Let the waiter go on."""


class KernelSignals:
    """`count` signals, all 0 at first. Every method is safe from any OS thread; raises InvalidValue for others."""

    __slots__ = ("_lock", "_lots", "_values")

    def __init__(self, count: int) -> None:
        self._values = [0] * count
        self._lots: dict[int, ParkingLot[SignalWaiter]] = {}
        self._lock = make_lock()

    def set(self, index: int, value: int) -> None:
        """Store `value`, modulo 2**32, and wake those whose condition it meets."""
        self._store(self.check(index), value, 0)

    def add(self, index: int, value: int = 1) -> int:
        """Add `value`, modulo 2**32, wake those whose condition is met, and return the value before."""
        return self._store(self.check(index), value, 1)

    def read(self, index: int) -> int:
        """Return the value, 0 to 2**32 - 1."""
        return self._values[self.check(index)]

    def park(self, index: int, waiter: SignalWaiter) -> bool:
        """Return whether the waiter's condition is met already; where it is not, park the waiter."""
        with self._lock:
            if waiter.met(self._values[self.check(index)]):
                return True
            lot = self._lots.get(index)
            if lot is None:
                lot = self._lots[index] = ParkingLot(f"signal {index}")
            lot.park(waiter)
            return False

    def discard(self, index: int, waiter: SignalWaiter) -> None:
        """Forget a waiter that gave up."""
        with self._lock:
            if (lot := self._lots.get(index)) is not None:
                lot.discard(waiter)

    def reset(self) -> None:
        """Store 0 in every signal, as a device reset does; waiters whose condition that meets are woken."""
        for index in range(len(self._values)):
            self.set(index, 0)

    def check(self, index: int) -> int:
        """Return `index`. Raises InvalidValue where there is no such signal."""
        if not 0 <= index < len(self._values):
            raise InvalidValue(f"kernel signal is {index!r}; this chip has 0 to {len(self._values) - 1}")
        return index

    def _store(self, index: int, value: int, keep: int) -> int:
        """Store `value` plus `keep` times the old value; wake the waiters that it satisfies, with the lock released."""
        check_entry(self._lock, "a kernel signal was written")
        with self._lock:
            before = self._values[index]
            now = self._values[index] = (before * keep + value) & MASK
            met = self._met(index, now)
        for waiter in met:
            waiter.wake()
        return before

    def _met(self, index: int, now: int) -> list[SignalWaiter]:
        """Take those out of the signal's lot whose condition `now` meets. The lock is held."""
        lot = self._lots.get(index)
        met = [waiter for waiter in lot or () if waiter.met(now)]
        for waiter in met:
            lot.discard(waiter)  # type: ignore[union-attr]  # there is a lot where a waiter was met
        return met

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        waiting = sum(len(lot) for lot in self._lots.values())
        return f"<KernelSignals: {len(self._values)} signals, {waiting} waiting>"
