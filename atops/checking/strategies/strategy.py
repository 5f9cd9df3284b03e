"""What every way of going through schedules has in common, and what one run keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Protocol

from atops.base.agenda import PATIENCE
from atops.base.choice import PASSING, TIME, Name, Random
from atops.base.errors import StepLimit
from atops.base.footprint import Footprint, StepAccesses

__all__ = ("CutShort", "Differs", "Recorder", "Strategy", "usual")

_NAME, _COUNT = itemgetter(0), itemgetter(2)  # of what is taken


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
        """Whether every schedule has been run, or an equivalent one."""

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return the index of what comes next. Raises CutShort where the run need not go on."""

    @property
    def prunes(self) -> bool:
        """Whether the strategy needs to know what steps touch."""

    def go_on(self, names: Sequence[Name]) -> int:
        """Return the index of what comes next in the middle of a step: 0 lets the actor go on whose step it is.

        `names` has that actor first, then those that could come in between; where there are none it is no choice.
        Raises as `choose`.
        """

    def ended(self) -> None:
        """Note that the run is over. Raises CutShort where it need not have gone on to its end."""

    def note(self, accesses: StepAccesses | None) -> None:
        """Take what the step chosen last has touched, or a further part of it."""

    def over(self) -> bool:
        """End the run. Returns whether there is another one. Raises Differs."""


class Recorder:
    """A chooser for one run: it asks a strategy, and keeps what came. `limit` is how many choices a run may have.

    Where the strategy `prunes`, the run tells the `footprint` what each step touches; with `commands` also what steps
    of streams and engines touch. Then the strategy never chooses "time goes on". It chooses which of the things that
    take time ends next, whatever their lengths: each of them may end before or after any other step.
    """

    def __init__(self, strategy: Strategy, limit: int = 100_000, commands: bool = False) -> None:
        self.limit = limit
        self.taken: list[tuple[Name, int, int]] = []  # what was chosen, as a ChoiceLog has it
        self._end: int | None = None  # of that, what came before the run was cut
        self.coarse = False  # whether something of the run goes on between two choices that others could come into
        self.cut: CutShort | None = None  # why the run did not go on; from then on the first of everything comes
        self.note = strategy.note
        self._strategy, self._choose = strategy, strategy.choose
        self._last: Name | None = None  # the actor whose step runs, where there is a footprint
        self.footprint: Footprint | None = None
        self._go_on, self._ended = strategy.go_on, strategy.ended
        if strategy.prunes:
            self.footprint = Footprint(commands)
            self.footprint.resumed = self._resumed
        self._awaited: Name | None = None  # what the strategy has chosen and needs time for

    @property
    def counted(self) -> list[tuple[Name, int, int]]:
        """What was chosen until the run was cut."""
        return self.taken if self._end is None else self.taken[: self._end]

    @property
    def names(self) -> list[Name]:
        """What has come until then."""
        return list(map(_NAME, self.counted))

    @property
    def most(self) -> int:
        """The most names that a choice had."""
        return max(map(_COUNT, self.counted), default=0)

    def drawing(self) -> Random | None:
        """Return what draws steps of kernels, where the strategy need not be asked for each."""
        drawing: Callable[[], Random] | None = getattr(self._strategy, "drawing", None)
        if drawing is None or self.footprint is not None or self.cut is not None:
            return None
        return None if len(self.taken) + PATIENCE >= self.limit else drawing()

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Ask the strategy, and keep what it says. Raises CutShort, once, where the run is to end."""
        taken, index = self.taken, 0
        try:
            if self.cut is not None:
                pass
            elif len(taken) >= self.limit:
                raise CutShort(f"the run has had {self.limit:,} choices")
            elif self.footprint is None:
                index = self._choose(kind, names)
            elif self.footprint.commands and (self._awaited is not None or PASSING in names or self.footprint.at_once):
                index = self._timeless(self.footprint, kind, names)
            else:
                index = self._told(self.footprint, kind, names)
        except CutShort as error:
            self._cut(error)
            raise
        taken.append((names[index], index, len(names)))
        return index

    def _told(self, footprint: Footprint, kind: str, names: Sequence[Name]) -> int:
        """Ask the strategy, which was told what the step before has touched."""
        if self._last is not None:
            self._look()
        else:
            footprint.clear()  # of what came before the first choice
        if footprint.within:
            footprint.within = False
            index = self._go_on(names)
        else:
            index = self._choose(kind, names)
        if footprint.in_use:
            self._last = names[index]
        return index

    def _timeless(self, footprint: Footprint, kind: str, names: Sequence[Name]) -> int:
        """Ask the strategy, which is offered what time is needed for, and not that time goes on."""
        awaited = self._awaited
        for place, name in enumerate(names if footprint.at_once else ()):
            if name in footprint.at_once:
                footprint.at_once.remove(name)
                if awaited is None and self._last is not None:
                    self._look()
                    self._last = None
                return place
        if awaited is None:
            offered = [name for name in names if name != PASSING]
            offered += [name for name, live in footprint.pending.items() if live()]
            if not offered:
                if self._last is not None:
                    self._look()
                    self._last = None  # what time does, for nothing that was awaited, is no step
                return 0
            awaited = offered[self._told(footprint, kind, offered)]
            if awaited in names:
                return names.index(awaited)
            self._awaited = awaited
        else:
            footprint.clear()  # of time
            if awaited in names:
                self._awaited = None
                return names.index(awaited)
        if PASSING not in names:
            footprint.refuse("what was to end by time did not")
            raise CutShort(footprint.refused)
        return names.index(PASSING)

    def over(self) -> None:
        """Note what the last step has touched: the run is over."""
        if self._last is not None and self.cut is None:
            self._look()
            self._last = None
            try:
                self._ended()
            except CutShort as error:
                self._cut(error)

    def _look(self) -> None:
        """Tell the strategy what the step has touched that was chosen last."""
        assert self.footprint is not None and self._last is not None, "asked"
        self.note(self.footprint.take(self._last))

    def _resumed(self, name: Name) -> None:
        """Note that an actor goes on in the middle of its step, after something else that came there."""
        if self.cut is None:
            self._look()
            self._last = name
            try:
                self._go_on((name,))
            except CutShort as error:
                self._cut(error)
                raise

    def _cut(self, error: CutShort) -> None:
        self.cut, self._end = error, len(self.taken)
        self.note = _unnoted


def _unnoted(accesses: StepAccesses | None) -> None:
    """Take no notice: the run is over for the strategy."""
