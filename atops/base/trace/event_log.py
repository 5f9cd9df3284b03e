"""Rings that can be added to at any time; and the details of one driver: four rings of integers, and places.

Whatever has details to tell asks `Tracer.detail` first, and tells them in numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count, islice
from types import CodeType, TracebackType
from typing import Final, Generic, NamedTuple, Self, TypeAlias, TypeVar

from atops.base.locks import attempt, make_lock
from atops.base.trace.records import (
    AllocationEvent,
    Change,
    CommandEvent,
    DetailBatch,
    Kind,
    MemoryUse,
    Phase,
    Place,
    Position,
    ThreadEvent,
    ThreadState,
)

__all__ = (
    "ChangeTuple", "Closable", "DetailLog", "DetailTuples", "Detailing", "MomentTuple", "Ring", "StepTuple", "UseTuple",
)  # fmt: skip

T = TypeVar("T")

# What is emitted: the fields of a `CommandEvent`, an `AllocationEvent`, a `ThreadEvent` and a `MemoryUse` in their
# order, the name as its number.
MomentTuple: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int]
ChangeTuple: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int]
StepTuple: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int]
UseTuple: TypeAlias = tuple[int, int, int, int]

CHUNK: Final = 256  # added things that may wait for their positions
HELD: Final = 65536  # details that each ring holds
KNOWN: Final = 16384  # instructions whose place is remembered; then the memory of them starts over

PHASES, KINDS, CHANGES, TURNS = tuple(Phase), tuple(Kind), tuple(Change), tuple(ThreadState)


class Ring(Generic[T]):
    """The last `capacity` things added, from any thread, finalizers included, each with a position: 0, 1, 2, ...

    Adding appends to an inbox (deque's append, popleft and len are atomic, with and without the GIL). A read, and every
    256th addition that finds the lock free, moves the inbox to the ring. So adding never waits for a reader.
    """

    __slots__ = ("_append", "_held", "_inbox", "dropped", "lock", "outbox", "total")

    def __init__(self, capacity: int) -> None:
        self.lock = make_lock()
        self._inbox: deque[T] = deque()
        self._append = self._inbox.append
        self._held: deque[T] = deque(maxlen=capacity)
        self.total = 0  # things that have a position
        self.dropped = 0  # what the ring has lost since the last clear, because it was full
        self.outbox: deque[T] | None = None  # gets everything, too, once it has a position

    def add(self, thing: T) -> None:
        """Add one thing."""
        self._append(thing)
        if len(self._inbox) >= CHUNK:
            attempt(self.lock, self.take_inbox)

    def add_all(self, things: Iterable[T]) -> None:
        """Add several, in this order and in one step."""
        self._inbox.extend(things)
        if len(self._inbox) >= CHUNK:
            attempt(self.lock, self.take_inbox)

    def since(self, position: int, limit: int | None = None) -> tuple[list[T], int, int]:
        """Return at most `limit` of what is held from `position` on, the position after it, and how many were gone."""
        with self.lock:
            self.take_inbox()
            first = self.total - len(self._held)
            begin = min(max(position, first), self.total)
            end = self.total if limit is None else min(self.total, begin + limit)
            found = list(islice(self._held, begin - first, end - first)) if begin - first < self.total - end else []
            if not found and begin < end:  # nearer to the end, from which a deque is walked as well
                found = list(islice(reversed(self._held), self.total - end, self.total - begin))
                found.reverse()
            return found, end, max(0, begin - position)

    def resize(self, capacity: int) -> None:
        """Hold the last `capacity` things from now on."""
        with self.lock:
            self.take_inbox()
            self.dropped += max(0, len(self._held) - capacity)
            self._held = deque(self._held, maxlen=capacity)

    def clear(self) -> None:
        """Forget what is held and what was lost. Positions go on."""
        with self.lock:
            self.take_inbox()
            self._held.clear()
            self.dropped = 0

    def take_inbox(self) -> None:
        """Give what is in the inbox its positions. The lock is held."""
        inbox, held = self._inbox, self._held
        batch = [inbox.popleft() for _ in range(len(inbox)) if inbox]  # only the lock's holder pops, and its handlers
        new, lost = len(batch), max(0, len(held) + len(batch) - (held.maxlen or 0))
        held.extend(batch)
        self.dropped, self.total = self.dropped + lost, self.total + new
        if self.outbox is not None:
            self.outbox.extend(batch)

    @property
    def unread(self) -> bool:
        """Whether the inbox or the outbox has anything: a snapshot."""
        return bool(self._inbox or self.outbox)

    def __len__(self) -> int:
        with self.lock:
            self.take_inbox()
            return len(self._held)


class DetailTuples(NamedTuple):
    """A `DetailBatch` before its integers are made values."""

    moments: list[MomentTuple]
    changes: list[ChangeTuple]
    steps: list[StepTuple]
    uses: list[UseTuple]
    next: Position
    missed: int


class Closable:
    """Something that goes on until it is closed. A context manager."""

    __slots__ = ("_end",)

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def close(self) -> None:
        """End it. Closing twice is allowed."""
        end, self._end = self._end, None
        if end is not None:
            end()

    @property
    def closed(self) -> bool:
        """Tell whether it was closed."""
        return self._end is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class Detailing(Closable):
    """A reader's request for details, until it is closed."""

    __slots__ = ()


class DetailLog:
    """Details as they are emitted, and read again as values. Safe from every thread."""

    __slots__ = ("_callers", "_first", "_known", "_next", "_numbers", "_places", "changes", "moments", "steps", "uses")

    def __init__(self) -> None:
        self.moments: Ring[MomentTuple] = Ring(HELD)
        self.changes: Ring[ChangeTuple] = Ring(HELD)
        self.steps: Ring[StepTuple] = Ring(HELD)
        self.uses: Ring[UseTuple] = Ring(HELD)
        self._next = count()
        self._places: dict[int, Place] = {}
        self._numbers: dict[tuple[Place, int], int] = {}
        self._callers: dict[int, int] = {}
        # Keeps the code: an id means nothing without it.
        self._known: dict[tuple[int, int, int], tuple[int, CodeType]] = {}
        self._first: int | None = None  # the serial of the first allocation that was told of

    def site(self, code: CodeType, instruction: int, caller: int = -1) -> int:
        """Return the number of a place in a program: an instruction of a code object, by its offset.

        `caller` is the number of the place that called it; the same place has a number for each.
        """
        key = id(code), instruction, caller
        known = self._known.get(key)
        if known is None:
            line = next(
                (line for start, end, line in code.co_lines() if start <= instruction < end and line is not None),
                code.co_firstlineno,
            )
            known = self.place(Place(code.co_filename, line, code.co_qualname), caller), code
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[key] = known
        return known[0]

    def place(self, place: Place, caller: int = -1) -> int:
        """Return the number of a place; the same for the same place and caller."""
        number = self._numbers.get((place, caller))
        if number is None:
            # No lock, for this may be a finalizer; of two threads at once one wins, and the other's number means the
            # same place to its readers.
            number = next(self._next)
            if caller >= 0:
                self._callers[number] = caller
            self._places[number] = place
            number = self._numbers.setdefault((place, caller), number)
        return number

    def generation(self, serial: int) -> int:
        """Return the number of an allocation among those told of, from its serial, which the whole process counts."""
        if self._first is None:
            self._first = serial
        return serial - self._first

    def sites(self) -> dict[int, Place]:
        """Return every place that has a number."""
        return self._places.copy()

    def callers(self) -> dict[int, int]:
        """Return for each place that has a caller the number of that."""
        return self._callers.copy()

    def since(self, position: Position | None, names: list[str], limit: int | None = None) -> DetailBatch:
        """Return what is new since `position`, None at first. `names` are the tracer's, by number."""
        found = self.tuples_since(position, limit)
        return DetailBatch(
            [CommandEvent(*raw[:2], PHASES[raw[2]], KINDS[raw[3]], *raw[4:8], names[raw[8]], *raw[9:])
             for raw in found.moments],
            [AllocationEvent(*raw[:5], CHANGES[raw[5]], *raw[6:]) for raw in found.changes],
            [ThreadEvent(*raw[:4], TURNS[raw[4]], *raw[5:]) for raw in found.steps],
            [MemoryUse(*raw) for raw in found.uses],
            found.next,
            found.missed,
        )  # fmt: skip

    def tuples_since(self, position: Position | None, limit: int | None = None) -> DetailTuples:
        """Return what `since` does as it was emitted, which costs a reader that keeps numbers a quarter."""
        at = position or (0, 0, 0, 0)
        moments, end_of_moments, missed = self.moments.since(at[0], limit)
        changes, end_of_changes, more = self.changes.since(at[1], limit)
        steps, end_of_steps, most = self.steps.since(at[2], limit)
        uses, end_of_uses, rest = self.uses.since(at[3], limit)
        return DetailTuples(
            moments, changes, steps, uses, (end_of_moments, end_of_changes, end_of_steps, end_of_uses),
            missed + more + most + rest,
        )  # fmt: skip

    @property
    def dropped(self) -> int:
        """How many details the rings have lost since the last clear, because they were full."""
        return self.moments.dropped + self.changes.dropped + self.steps.dropped + self.uses.dropped

    def clear(self) -> None:
        """Forget what is held. Positions and numbers of places go on."""
        for ring in (self.moments, self.changes, self.steps, self.uses):
            ring.clear()
