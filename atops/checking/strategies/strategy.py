"""What every way of going through schedules has in common; what a step touches, and what one run keeps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from atops.base.choice import TIME, Name
from atops.base.errors import StepLimit

__all__ = (
    "NOTHING", "CutShort", "Differs", "Range", "Recorder", "StepAccesses", "Strategy", "independent", "together",
    "usual",
)  # fmt: skip

Range: TypeAlias = tuple[Hashable, int, int]  # an object, and the bytes of it from a start to a stop


class StepAccesses(NamedTuple):
    """The ranges that a step has read and those that it has written. A step without any is one that touched nothing.

    A step of which this is not known has None in its place: it counts as dependent on every other.
    """

    reads: tuple[Range, ...] = ()
    writes: tuple[Range, ...] = ()


NOTHING = StepAccesses()


def independent(one: StepAccesses | None, other: StepAccesses | None) -> bool:
    """Return whether two steps of different actors lead to the same state in either order."""
    if one is None or other is None:
        return False
    if one.writes and (_meet(one.writes, other.writes) or _meet(one.writes, other.reads)):
        return False
    return not (other.writes and one.reads and _meet(other.writes, one.reads))


def together(one: StepAccesses | None, other: StepAccesses | None) -> StepAccesses | None:
    """Return what two parts of one step have touched."""
    if one is None or other is None:
        return None
    return StepAccesses(one.reads + other.reads, one.writes + other.writes)


def _meet(ranges: Iterable[Range], others: Iterable[Range]) -> bool:
    """Return whether any of `ranges` has a byte in common with any of `others`."""
    for thing, start, stop in ranges:
        for other, first, last in others:
            if start < last and first < stop and thing == other:
                return True
    return False


def usual(names: Sequence[Name]) -> int:
    """Return what comes first: the oldest, but time goes on only where nothing else can."""
    return 1 if names[0][0] == TIME and len(names) > 1 else 0


class CutShort(StepLimit):
    """A run that need not go on: whatever it can still come to, another run comes to; or it has no end in sight."""


class Differs(CutShort):
    """A run that is another one than before under the same schedule, and where."""


class Strategy(Protocol):
    """Which schedules are run, one after another.

    A run asks `choose` for each step, and may say with `note` what the step chosen last has touched; a step of which it
    says nothing counts as dependent on all others. `over` ends the run and says whether there is another one.
    """

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def exhausted(self) -> bool:
        """Whether every schedule has been run, or one that is as good."""

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return the index of what comes next. Raises CutShort where the run need not go on."""

    def note(self, accesses: StepAccesses | None) -> None:
        """Take what the step chosen last has touched, or a further part of it."""

    def over(self) -> bool:
        """End the run. Returns whether there is another one. Raises Differs."""


class Recorder:
    """A chooser for one run: it asks a strategy, and keeps what came. `limit` is how many choices a run may have."""

    def __init__(self, strategy: Strategy, limit: int = 100_000) -> None:
        self.limit = limit
        self.names: list[Name] = []
        self.most = 0  # names that a choice had
        self.cut: CutShort | None = None  # why the run did not go on; from then on the first of everything comes
        self.note = strategy.note
        self._choose = strategy.choose

    @property
    def endless(self) -> bool:
        """Whether the run has reached the limit."""
        return self.cut is not None and len(self.names) >= self.limit

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Ask the strategy. Raises CutShort, once, where the run is to end."""
        if self.cut is not None:
            return 0
        try:
            if len(self.names) >= self.limit:
                raise CutShort(f"the run has had {self.limit:,} choices")
            index = self._choose(kind, names)
        except CutShort as error:
            self.cut = error
            self.note = _unnoted
            raise
        self.names.append(names[index])
        if len(names) > self.most:
            self.most = len(names)
        return index


def _unnoted(accesses: StepAccesses | None) -> None:
    """Take no notice: the run is over for the strategy."""
