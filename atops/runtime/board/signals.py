"""The kernel signals of a device as the host has them: handed out, read, written, taken back (Runtime API, 2.11)."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, SupportsIndex

from atops.base.errors import AtopsError, InvalidHandle, InvalidType, LaunchOutOfResources, WouldDeadlock
from atops.base.locks import check_entry, make_lock
from atops.base.waiting.current_loop import current_loop_adapter
from atops.base.waiting.parking_lot import Waiter
from atops.device.chip import KernelSignals
from atops.device.memory.value_wait import Condition, satisfied
from atops.runtime.core.future import InProcess

if TYPE_CHECKING:
    from atops.base.waiting.loop_adapter import LoopWaiter
    from atops.runtime.driver_board import Board

__all__ = ("HostWait", "Signals")


class Signals(InProcess):
    """The signals of one chip; `len` says how many there are. A handle is a number, and is passed to kernels as one.

    Handing out is the host's affair alone: kernels reach every signal of the chip. Safe from any OS thread.
    """

    __slots__ = ("_chip", "_driver", "_held", "_refusal", "_waits", "lock")

    def __init__(self, chip: KernelSignals, board: Board) -> None:
        self._chip = chip
        self._driver = board
        self._held: set[int] = set()
        self._waits: dict[HostWait, None] = {}  # of the host, that are not over, in order
        self._refusal: AtopsError | None = None  # what waits end with, once the device is reset or closed
        self.lock = make_lock()

    @property
    def available(self) -> int:
        """How many can still be allocated (2.11 topsKernelSignalAvailableNumGet)."""
        return len(self) - len(self._held)

    def allocate(self) -> int:
        """Return the handle of a free signal; its value is 0 (2.11 topsKernelSignalAlloc).

        Raises LaunchOutOfResources when all are taken.
        """
        check_entry(self.lock, "a kernel signal was asked for")
        with self.lock:
            handle = next((each for each in range(len(self)) if each not in self._held), None)
            if handle is None:
                raise LaunchOutOfResources(f"all {len(self)} kernel signals of the device are taken; free one first")
            self._held.add(handle)
        self._chip.set(handle, 0)
        return handle

    def free(self, handle: SupportsIndex) -> None:
        """Take a signal back (2.11 topsKernelSignalFree).

        Kernel threads that wait for it go on waiting; waits of the host end with InvalidHandle. Raises InvalidHandle,
        as `read` and `write` do, for a handle that is not allocated; InvalidType for no integer.
        """
        check_entry(self.lock, f"kernel signal {handle!r} was freed")
        with self.lock:
            self._held.discard(index := self._check(handle))
            waits = [each for each in self._waits if each.index == index]
        for each in waits:
            each.fail(InvalidHandle(f"kernel signal {index} was freed while the host waited for it"))

    def read(self, handle: SupportsIndex) -> int:
        """Return the value, 0 to 2**32 - 1 (2.11 topsKernelSignalRead)."""
        index = self._check(handle)
        value = self._chip.read(index)
        if (detector := self._driver.detector) is not None:
            detector.saw_signal(self._chip, index)
        return value

    def write(self, handle: SupportsIndex, value: SupportsIndex) -> None:
        """Store `value`, modulo 2**32; kernel threads whose wait it satisfies go on (2.11 topsKernelSignalWrite)."""
        index, number = self._check(handle), _whole(value, "value")
        if (detector := self._driver.detector) is not None:
            detector.signalled_by_host(self._chip, index, (self._chip.read(index), number & 0xFFFFFFFF))
        self._chip.set(index, number)

    async def wait(self, handle: SupportsIndex, value: SupportsIndex, condition: Condition | str = "Gte") -> int:
        """Wait until a signal meets a condition, and return the value that did. Kernels or the host may set it.

        Conditions are those of `Stream.wait_value` and `k.signal_wait`: "Gte" (cyclic over 32 bits), "GteUnsigned",
        "Eq", "And", "Nor". A value that is overwritten at once is noticed all the same. Cancelling the wait changes
        nothing else. Raises InvalidValue for another condition, InvalidHandle for a handle that is not allocated or is
        freed meanwhile, StreamAborted when the device is reset or its driver closed meanwhile.
        """
        with HostWait(self, self._chip, self._check(handle), _whole(value, "value"), condition) as wait:
            await current_loop_adapter().park(wait)
        if (detector := self._driver.detector) is not None:
            detector.saw_signal(self._chip, int(handle))
        return wait.result()

    def wait_sync(
        self,
        handle: SupportsIndex,
        value: SupportsIndex,
        condition: Condition | str = "Gte",
        *,
        timeout: float | None = None,
    ) -> int:
        """As `wait`, blocking this thread. Never needs the caller's event loop.

        `timeout` is in seconds. Raises TimeoutError, or WouldDeadlock where the wait could never end.
        """
        with HostWait(self, self._chip, self._check(handle), _whole(value, "value"), condition) as wait:
            if self._driver.lock.is_owned():
                raise WouldDeadlock(f"a finalizer or a signal handler waits for {wait!r} in the middle of a call")
            if not self._driver.executor.block(wait, timeout):
                raise TimeoutError(f"{wait!r} did not end within {timeout} s")
        if (detector := self._driver.detector) is not None:
            detector.saw_signal(self._chip, int(handle))
        return wait.result()

    def refuse(self, error: AtopsError) -> None:
        """End all waits of the host with an error, those that come later too."""
        with self.lock:
            self._refusal = error
            waits = list(self._waits)
        for wait in waits:
            wait.fail(error)

    def disown(self, error: AtopsError) -> None:
        """Be of no use in a forked child, where another thread may seem to hold the lock for ever."""
        self.lock = make_lock()
        self.refuse(error)

    def began(self, wait: HostWait) -> None:
        """Count a wait of the host among those that a free or a reset ends. Raises what refuses waits."""
        with self.lock:
            if self._refusal is not None:
                raise self._refusal.fresh()
            self._waits[wait] = None

    def ended(self, wait: HostWait) -> None:
        """Forget a wait of the host."""
        with self.lock:
            self._waits.pop(wait, None)

    def _check(self, handle: SupportsIndex) -> int:
        index = _whole(handle, "handle")
        if index not in self._held:
            held = ", ".join(map(str, sorted(self._held))) or "none"
            raise InvalidHandle(f"kernel signal {index} is not allocated; {held} of the device's {len(self)} is")
        return index

    def __len__(self) -> int:
        return len(self._chip)

    def __repr__(self) -> str:
        return f"<Signals: {len(self._held)} of {len(self)} allocated>"


class HostWait:
    """One wait of the host for a signal, parked at it inside its block; what a loop or a thread waits for."""

    def __init__(
        self, signals: Signals, chip: KernelSignals, index: int, value: int, condition: Condition | str
    ) -> None:
        self.index = index
        self.is_done = False
        self._signals = signals
        self._chip = chip
        self._value = value & 0xFFFFFFFF
        self._condition = Condition.of(condition)
        self._found = 0  # the value that met the condition
        self._error: AtopsError | None = None
        self._waiter: Waiter | LoopWaiter | None = None

    def __enter__(self) -> HostWait:
        self._signals.began(self)
        if self._chip.park(self.index, self):
            self.wake()
        return self

    def __exit__(self, *_: object) -> None:
        self._chip.discard(self.index, self)
        self._signals.ended(self)

    def met(self, now: int) -> bool:
        """Return whether a value meets the condition; it is the result then."""
        found = satisfied(now, self._value, self._condition)
        if found:
            self._found = now
        return found

    def wake(self) -> None:
        """End the wait."""
        with self._signals.lock:
            self.is_done = True
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.wake()

    def fail(self, error: AtopsError) -> None:
        """End the wait with an error, unless it is over."""
        with self._signals.lock:
            if self.is_done:
                return
            self._error = error
        self.wake()

    def result(self) -> int:
        """Return the value that met the condition. Raises what the wait ended with."""
        if self._error is not None:
            raise self._error.fresh()
        return self._found

    def add_waiter(self, waiter: Waiter | LoopWaiter) -> bool:
        """Have a waiter woken at the end. Returns False when it has come."""
        with self._signals.lock:
            if not self.is_done:
                self._waiter = waiter
            return not self.is_done

    def discard_waiter(self, waiter: Waiter | LoopWaiter) -> None:
        """Forget the waiter, which gave up."""
        self._waiter = None

    def __repr__(self) -> str:
        now = self._chip.read(self.index)
        return f"<the wait for signal {self.index}, {self._condition.name} {self._value} (now {now})>"


def _whole(value: SupportsIndex, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidType(f"signal {what} is {type(value).__name__} {value!r}; expected an integer") from None
