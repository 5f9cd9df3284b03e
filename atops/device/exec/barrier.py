"""The requests by which kernel threads synchronise: barriers of block and grid, counted barriers, kernel signals."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar

from atops.base.errors import IllegalState, InvalidType, InvalidValue
from atops.base.footprint import RUNTIME
from atops.base.waiting.parking_lot import ParkingLot
from atops.device.chip import KernelSignals, Sip
from atops.device.exec.thread import KernelThread, Reach, Request
from atops.device.memory.value_wait import Condition, satisfied

__all__ = (
    "Barrier",
    "BlockSync",
    "GridPhaseWait",
    "GridSync",
    "PhaseWait",
    "Scope",
    "SignalWait",
    "SyncRequest",
    "barrier_form",
    "equip",
    "grid_sync",
)


class SyncRequest(Request):
    """A barrier request that a SIP keeps for all the threads that will run on it.

    `__await__` is a slot that holds a C callable: an `await` calls no Python function, which saves an eighth of
    what a barrier costs. Only a request that lives as long as its SIP may do so, for it holds itself.
    """

    __slots__ = ("__await__",)

    def __init__(self) -> None:
        self.frame = None
        self.__await__ = (self,).__iter__  # type: ignore[method-assign, assignment]  # any iterator serves


class BlockSync(SyncRequest):
    """Wait until every thread of the block is here."""

    __slots__ = ()

    def serve(self, thread: KernelThread) -> bool:
        """Arrive; the last thread opens the barrier, and all of them run in the order they arrived."""
        block = thread.block
        thread.waiting = None  # the block's list says it
        block.arrived.append(thread)
        if len(block.arrived) == block.size:
            block.open_barrier()
        return False

    def describe(self) -> str:
        """Name it as kernels write it."""
        return "syncthreads"


class GridSync(SyncRequest):
    """Wait until every thread of the grid, or of all grids that share its barrier, is here."""

    __slots__ = ()

    reach: ClassVar[Reach] = Reach.GRID

    def serve(self, thread: KernelThread) -> bool:
        """Arrive; when the last thread of a block has, the block does."""
        block = thread.block
        thread.waiting = None  # the block's list says it
        block.at_grid.append(thread)
        if len(block.at_grid) == block.size:
            block.arrive_at_grid()
        return False

    def describe(self) -> str:
        """Name it as kernels write it."""
        return "syncblocks"


def grid_sync(thread: KernelThread) -> Request:
    """Return the thread's grid barrier request. Raises IllegalState in a grid that is not cooperative (8.8)."""
    if thread.grid_sync is None:
        raise IllegalState(
            f"kernel {thread.grid.name} calls syncblocks, but its launch is not cooperative; declare it so (8.8)"
        )
    return thread.grid_sync


def equip(sips: Iterable[Sip], cooperative: bool) -> None:
    """Give SIPs that have none the barrier requests of the threads that run on them, of a cooperative grid or not."""
    for sip in sips:
        if sip.sync is None:
            sip.sync = BlockSync()
        if cooperative and sip.grid_sync is None:
            sip.grid_sync = GridSync()


class Scope(IntEnum):
    """Whose threads a counted barrier counts (TOPS C++, 8.8)."""

    SIP = 0  # the threads of one block
    CLUSTER = 1  # in a cooperative grid those of all its blocks, else of one block


def barrier_form(scope: Scope | int, count: int) -> tuple[Scope, int]:
    """Return the scope and the count of a barrier. Raises InvalidValue for no scope, InvalidType for no whole count."""
    try:
        return Scope(scope), operator.index(count)
    except ValueError:
        raise InvalidValue(f"barrier scope is {scope!r}; expected SIP (0) or CLUSTER (1)") from None
    except TypeError:
        raise InvalidType(f"barrier count is {count!r}; expected an int, the arrivals of one phase") from None


class Barrier:
    """A barrier for `count` arrivals in each phase (TOPS C++, 8.8). Every thread of its scope shares one object.

    Raises what `barrier_form` raises, and InvalidValue for a count below 1 or above the scope's threads.
    """

    __slots__ = ("_last", "_lot", "_times", "_waits", "count", "missing", "name", "owner", "phase", "scope")

    def __init__(self, scope: Scope | int, count: int, maker: KernelThread) -> None:
        self.scope, count = barrier_form(scope, count)
        grid = maker.grid
        self.owner: object = maker.block
        threads = maker.block.size
        if self.scope is Scope.CLUSTER and grid.cooperative:
            self.owner = grid
            threads *= grid.total_blocks
        if not 1 <= count <= threads:
            which = "of the grid" if self.owner is grid else "of one block"
            if self.scope is Scope.CLUSTER and not grid.cooperative:
                which += ", since the grid is not cooperative"
            raise InvalidValue(f"{self.scope.name} barrier count is {count!r}; expected 1 to {threads} threads {which}")
        self.count = self.missing = count
        self.phase = 0
        self.name = ("counted barrier", *_place_of(self.owner, maker))  # the same in each run of one schedule
        self._times = [0]  # under a virtual clock, when the last thread arrived in each phase, up to now in this one
        self._waits = GridPhaseWait if self.owner is grid else PhaseWait
        self._lot: ParkingLot[KernelThread] = ParkingLot(f"{self.scope.name} barrier")
        self._last: dict[KernelThread, int] = {}

    def arrive(self, thread: KernelThread) -> int:
        """Arrive, and return the phase arrived in: a token for `wait`. The last arrival begins the next phase.

        Raises IllegalState for a thread outside the barrier's scope.
        """
        self._check(thread)
        with thread.grid.barrier.lock:
            token = self._last[thread] = self.phase
            if thread.cost is not None:
                self._times[-1] = max(self._times[-1], thread.cost.now)
            if thread.race is not None:
                thread.race.release((self, token))
            self.missing -= 1
            if self.missing:
                return token
            self.missing = self.count
            self.phase += 1
            released = self._lot.take_all()
            if thread.cost is not None:
                for each in released:
                    self._join(each, token)
                self._times.append(0)
            for each in released:
                if each.race is not None:
                    each.race.acquire((self, token))
        thread.grid.barrier.wake(released)
        return token

    def wait(self, thread: KernelThread, token: int | None = None) -> PhaseWait:
        """Return the request to wait for the end of phase `token`; by default the phase of this thread's last arrival.

        A thread that never arrived waits for the current phase. Raises IllegalState as `arrive`, InvalidValue for a
        phase that has not begun, and InvalidType for what is no token.
        """
        self._check(thread)
        last = self._last.get(thread)
        try:
            phase = (self.phase if last is None else last) if token is None else operator.index(token)
        except TypeError:
            raise InvalidType(f"token is {token!r}; expected what arrive() returned") from None
        if phase != last and (agenda := thread.grid.agenda) is not None and agenda.footprint is not None:
            agenda.footprint.group(self.name, "is looked at")  # which phase that is, arrivals decide
        if not 0 <= phase <= self.phase:
            raise InvalidValue(f"token is {phase!r}; expected what arrive() returned, at most {self.phase} now")
        return self._waits(self, phase)

    def arrive_and_wait(self, thread: KernelThread) -> PhaseWait:
        """Arrive, and return the request to wait for the end of that phase."""
        return self._waits(self, self.arrive(thread))

    def describe(self) -> str:
        """Say which barrier it is and how far it has come."""
        return f"{self.scope.name} barrier, phase {self.phase}, {self.count - self.missing} of {self.count} arrived"

    def passed(self, thread: KernelThread, phase: int) -> bool:
        """Return whether `phase` is over; where it is not, park the thread until it is."""
        with thread.grid.barrier.lock:
            if self.phase > phase:
                self._join(thread, phase)
                if thread.race is not None:
                    thread.race.acquire((self, phase))
                return True
            self._lot.park(thread)
            return False

    def _join(self, thread: KernelThread, phase: int) -> None:
        """Have the clock of a thread that waited for a phase, which is over, where the last arrival was."""
        if thread.cost is not None:
            thread.cost.passed(self._times[phase])

    def _check(self, thread: KernelThread) -> None:
        """Refuse threads outside the scope."""
        inside = thread.grid if self.scope is Scope.CLUSTER and thread.grid.cooperative else thread.block
        if inside is not self.owner:
            raise IllegalState(f"{thread} used a {self.scope.name} barrier of {self.owner!r}; only its threads may")

    def __repr__(self) -> str:
        return f"<Barrier: {self.describe()}, {len(self._lot)} waiting>"


def _place_of(owner: object, maker: KernelThread) -> tuple[str | int, str | int, int]:
    """Return which counted barrier this is: of which launch, block or -1, and the nth there."""
    block, grid = maker.block, maker.grid
    if owner is grid:
        grid.barrier.made = nth = grid.barrier.made + 1
        return grid.label, -1, nth
    nth = block.shared["counted barriers"] = block.shared.get("counted barriers", 0) + 1
    return grid.label, block.linear, nth


class PhaseWait(Request):
    """Wait for the end of one phase of a counted barrier."""

    __slots__ = ("barrier", "phase")

    def __init__(self, barrier: Barrier, phase: int) -> None:
        self.barrier = barrier
        self.phase = phase

    @property
    def awaits(self) -> object:
        """What the arrivals of the phase give."""
        return self.barrier.name, self.phase

    def serve(self, thread: KernelThread) -> bool:
        """Go on if the phase is over, else park."""
        return self.barrier.passed(thread, self.phase)

    def describe(self) -> str:
        """Say which barrier and how far it has come."""
        return self.barrier.describe()


class GridPhaseWait(PhaseWait):
    """The same for a barrier that threads of other blocks arrive at."""

    __slots__ = ()

    reach: ClassVar[Reach] = Reach.GRID


class SignalWait(Request):
    """Wait until a kernel signal meets a condition with a value, compared as the runtime's value waits do."""

    __slots__ = ("condition", "index", "signals", "thread", "value")

    reach: ClassVar[Reach] = Reach.OUTSIDE

    def __init__(self, signals: KernelSignals, index: int, condition: Condition | str, value: int) -> None:
        self.signals = signals
        self.index = signals.check(index)
        self.condition = Condition.of(condition)
        self.value = value & 0xFFFFFFFF
        self.thread: KernelThread | None = None

    def serve(self, thread: KernelThread) -> bool:
        """Go on if the condition is met, else park."""
        if self.thread not in (None, thread):
            raise IllegalState(f"{thread} awaits a signal request that {self.thread} made; each thread makes its own")
        self.thread = thread
        if (agenda := thread.grid.agenda) is not None and agenda.footprint is not None:
            agenda.footprint.read(("signal", thread.grid.chip.ordinal, self.index))
            agenda.footprint.read(RUNTIME)  # the clock
        met = self.signals.park(self.index, self)
        if met:
            self._join(thread)
        if met and thread.race is not None:
            thread.race.acquire(("signal", self.index), self.met)
        return met

    def cancel(self, thread: KernelThread) -> None:
        """Leave the signal's lot."""
        self.signals.discard(self.index, self)

    def met(self, now: int) -> bool:
        """Return whether `now` meets the condition."""
        return satisfied(now, self.value, self.condition)

    def wake(self) -> None:
        """Let the thread go on."""
        if self.thread is not None:
            self._join(self.thread)
            if self.thread.race is not None:
                self.thread.race.acquire(("signal", self.index), self.met)
            self.thread.wake()

    def _join(self, thread: KernelThread) -> None:
        """Have the thread's clock where the condition was first met."""
        if (cost := thread.cost) is not None:
            cost.passed(self.signals.times(self.index).met(self.met, cost.now))

    def describe(self) -> str:
        """Say which signal, the condition, and the value it has now."""
        now = self.signals.read(self.index)
        return f"signal {self.index} for {self.condition.name.lower()} {self.value} (now {now})"
