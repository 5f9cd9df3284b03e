"""Synchronisation inside a kernel: barriers (TOPS C++, 8.8) and kernel signals; `wait` is in `dte/contexts.py`.

Functions that wait return the request to await; a request that is never awaited raises MissingAwait with its line.
Signals are 32-bit values of the chip. The host's side of them is TOPS Runtime API, 2.11; the language text has no names
for the kernels' side. `relaxed` tells the detector of races which accesses need no order.
"""

from __future__ import annotations

import operator
from sys import _getframe
from typing import SupportsIndex

from atops.base.errors import IllegalState, InvalidType, LaunchFailure
from atops.device.call_site import caller
from atops.device.chip import MASK
from atops.device.exec.barrier import Barrier, Scope, SignalWait, barrier_form, grid_sync
from atops.device.exec.thread import THREAD_SLOT, KernelThread, Request, current_thread, missing_await
from atops.device.memory.value_wait import Condition
from atops.device.races.thread_races import ThreadRaces
from atops.device.races.touches import ThreadTouches
from atops.kernels.memory.sharing import shared_object

__all__ = (
    "BarrierScope", "CountedBarrier", "__syncblocks", "__syncthreads", "barrier", "relaxed", "signal_add",
    "signal_read", "signal_wait", "signal_write", "syncblocks", "syncthreads",
)  # fmt: skip

BarrierScope = Scope


def syncthreads() -> Request:
    """Return the request that waits until every thread of the block has made it: `await k.syncthreads()`.

    Raises IllegalState on the host and MissingAwait when an earlier request was never awaited (TOPS C++, 8.8).
    """
    # Request.made_by, written out: this is the most frequent request.
    cell = THREAD_SLOT.get()
    if cell is None or (thread := cell.thread) is None:
        raise IllegalState("syncthreads has a meaning only inside a kernel (TOPS C++, 8.8); it was called on the host")
    if thread.unawaited is not None:
        raise missing_await(thread)
    request: Request = thread.sync
    frame = request.frame = _getframe(1)
    request.lasti = frame.f_lasti
    thread.unawaited = request
    return request


def syncblocks() -> Request:
    """Return the request that waits until every thread of a cooperative grid has made it: `await k.syncblocks()`.

    Raises IllegalState in a grid that is not cooperative and on the host, MissingAwait when an earlier request was
    never awaited (TOPS C++, 8.8).
    """
    cell = THREAD_SLOT.get()  # written out as in `syncthreads`
    thread = cell.thread if cell is not None and cell.thread is not None else current_thread()
    request = thread.grid_sync or grid_sync(thread)
    if thread.unawaited is not None:
        raise missing_await(thread)
    frame = request.frame = _getframe(1)
    request.lasti = frame.f_lasti
    thread.unawaited = request
    return request


class CountedBarrier:
    """A barrier of phases, each over when `count` threads have arrived: `tte::barrier` (TOPS C++, 8.8).

    Its threads share it; made by `barrier`. Threads outside its scope that use it raise IllegalState.
    """

    __slots__ = ("_barrier",)

    def __init__(self, inner: Barrier) -> None:
        self._barrier = inner

    @property
    def scope(self) -> Scope:
        """Return the scope whose threads it counts."""
        return self._barrier.scope

    @property
    def count(self) -> int:
        """Return how many arrivals end a phase."""
        return self._barrier.count

    def arrive(self) -> int:
        """Arrive without waiting. Returns a token of the phase for `wait`; the text has none (TOPS C++, 8.8)."""
        return self._barrier.arrive(current_thread())

    def wait(self, token: int | None = None) -> Request:
        """Return the request that waits for the end of the phase `token` (TOPS C++, 8.8).

        Without a token it is the phase of this thread's last arrival, if it never arrived the current one.
        """
        thread = current_thread()
        return self._barrier.wait(thread, token).made_by(thread)

    def arrive_and_wait(self) -> Request:
        """Arrive, and return the request that waits for the end of that phase (TOPS C++, 8.8)."""
        thread = current_thread()
        return self._barrier.arrive_and_wait(thread).made_by(thread)

    def __repr__(self) -> str:
        return repr(self._barrier)


def barrier(scope: Scope | int, count: int) -> CountedBarrier:
    """Return a barrier for `count` arrivals a phase: `tte::barrier<scope>(count)` (TOPS C++, 8.8).

    The threads of a block, for scope CLUSTER in a cooperative grid those of all blocks, share what they get from the
    same line. Raises InvalidValue for a count below 1 or above the scope's threads, InvalidType for one that is no int,
    LaunchFailure where another thread asked for another barrier there.
    """
    thread = current_thread()
    scope, count = barrier_form(scope, count)
    everywhere = scope is Scope.CLUSTER and thread.grid.cooperative
    made = shared_object(thread, lambda: CountedBarrier(Barrier(scope, count, thread)), of_grid=everywhere)
    if made.scope is not scope or made.count != count:
        raise LaunchFailure(
            f"{thread} at {caller()}: a {scope.name} barrier of {count} was asked for, and by another thread "
            f"a {made.scope.name} barrier of {made.count}"
        )
    return made


# As C++ spells them. Python mangles such names inside a class body, but kernels are not methods.
__syncthreads = syncthreads
__syncblocks = syncblocks


def signal_read(handle: SupportsIndex) -> int:
    """Return the value of a signal, 0 to 2**32 - 1 (for the host: Runtime API, 2.11).

    All four functions take the handle that the host passed to the kernel. They raise InvalidValue for a handle that the
    chip does not have, InvalidType for what is no integer, IllegalState on the host.
    """
    thread, index = current_thread(), _whole(handle, "handle")
    signals = thread.grid.chip.signals
    value = signals.read(index)
    if thread.cost is not None:
        thread.cost.until(signals.times(index).last)
    if thread.race is not None:
        thread.race.acquire(("signal", index))
    return value


def signal_write(handle: SupportsIndex, value: SupportsIndex) -> None:
    """Store `value`, modulo 2**32, and resume the waits whose condition it meets (for the host: 2.11)."""
    thread, index = current_thread(), _whole(handle, "handle")
    signals, number = thread.grid.chip.signals, _whole(value, "value")
    if thread.race is not None:
        thread.race.release(("signal", index), (signals.read(index), number & MASK))
    signals.set(index, number, _time(thread))


def signal_add(handle: SupportsIndex, value: SupportsIndex = 1) -> int:
    """Add `value`, modulo 2**32, as one atomic step; return the value before.

    Neither the language text nor Runtime API, 2.11 has such a function.
    """
    thread, index = current_thread(), _whole(handle, "handle")
    signals, number = thread.grid.chip.signals, _whole(value, "value")
    if thread.race is not None:
        before = signals.read(index)
        thread.race.acquire(("signal", index))
        thread.race.release(("signal", index), (before, before + number & MASK), True)
    return signals.add(index, number, _time(thread))


def signal_wait(handle: SupportsIndex, value: SupportsIndex, condition: Condition | str = "gte") -> Request:
    """Return the request that waits until a signal meets a condition: `await k.signal_wait(handle, value)`.

    Conditions are the runtime's value waits': "gte" (cyclic over 32 bits), "gteunsigned" (not cyclic), "eq", "and" (a
    common bit) and "nor" (a bit that neither has), in any case, or a Condition. The host or any kernel may set
    it, so such a wait is no deadlock; an abort ends it. Neither the language text nor Runtime API,
    2.11 has such a function. Raises InvalidValue for another condition, MissingAwait when an earlier request was never
    awaited.
    """
    thread = current_thread()
    signals = thread.grid.chip.signals
    return SignalWait(signals, _whole(handle, "handle"), condition, _whole(value, "value")).made_by(thread)


class relaxed:
    """Say that accesses of the running thread may meet others in any order: `with k.relaxed("a count that may lag"):`.

    Two accesses that are both inside such blocks are no race (docs/races.md); one inside and one outside are. `reason`
    is for readers. Nothing else changes, and without the detectors nothing at all: what the threads then read is open.
    The text has nothing like it. Raises IllegalState on the host, InvalidType for a reason that is no text.
    """

    __slots__ = ("_race", "reason")

    def __init__(self, reason: str = "") -> None:
        if not isinstance(reason, str):
            raise InvalidType(f"relaxed expects a reason as text, got {reason!r}; write `with k.relaxed('why'):`")
        self.reason = reason
        self._race: ThreadRaces | ThreadTouches | None = None

    def __enter__(self) -> None:
        self._race = race = current_thread().race
        if race is not None:
            race.relaxed += 1

    def __exit__(self, *failure: object) -> None:
        if self._race is not None:
            self._race.relaxed -= 1


def _time(thread: KernelThread) -> int | None:
    """Return what the thread's clock shows, under a virtual one."""
    return None if thread.cost is None else thread.cost.now


def _whole(value: SupportsIndex, what: str) -> int:
    """Return `value` as an int of any size. Raises InvalidType where it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidType(f"signal {what} expects an integer, got {type(value).__name__} {value!r}") from None
