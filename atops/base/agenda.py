"""Everything of a run that could come next, in one list: a chooser says what does, one step at a time.

It bears no lock: one thread takes and adds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence, Sized
from typing import Final

from atops.base.choice import NEXT, THREAD, TRANSFER, Choice, ChoiceLog, Chooser, Name, Random, told
from atops.base.errors import StepLimit
from atops.base.footprint import Footprint

__all__ = ("MOST_STEPS", "PATIENCE", "Agenda", "Step")

Step = Callable[[], object]

MOST_STEPS: Final = 1_000_000  # of a run, unless it says otherwise
# Steps after which what has been ready since the last such look goes next, whatever the chooser prefers: else a thread
# that spins until another one stores something would spin for ever.
PATIENCE = 1000


def _nothing(_: Container[Name]) -> str:
    return ""


def _call(step: Step) -> None:
    step()


class Agenda:
    """What is ready, in the order in which it became so: names, and beside each its step.

    Every step is chosen by `chooser` and noted in `log`. At step `limit` StepLimit is raised, which says what goes on.
    """

    __slots__ = (
        "_drawn_by", "_look", "_oldest", "chooser", "current", "footprint", "hand_back", "limit", "log", "made",
        "names", "other", "others", "standing", "steps", "transfers",
    )  # fmt: skip

    def __init__(self, chooser: Chooser, limit: int = MOST_STEPS) -> None:
        self.log = ChoiceLog(chooser)
        self.chooser = chooser
        self.other: Callable[[Step], object] = _call  # runs a step that is no kernel thread's
        self.hand_back: frozenset[type] = frozenset()  # of these classes are the steps that are handed back, not run
        self.standing: Callable[[Container[Name]], str] = _nothing  # says what else waits than the names that go on
        self.names: list[Name] = []
        self.steps: list[Step] = []
        self.transfers = self.others = 0  # of those that are transfers; that are neither these nor kernel threads
        self.current: Name = ()  # whose step was taken last
        self.made = 0  # steps
        self.limit = limit
        self._look = min(PATIENCE, limit)
        self._oldest: Name = ()
        self._drawn_by: Random | None = None  # while steps of kernels are drawn
        self.footprint: Footprint | None = getattr(chooser, "footprint", None)  # told what each step touches
        if self.footprint is not None:
            self.footprint.in_use = True

    def add(self, name: Name, step: Step) -> None:
        """Have a step ready. One that is ready under the same name gets another: names of a choice are different."""
        if name in self.names:
            name = self._apart(name)
        self.names.append(name)
        self.steps.append(step)
        self._count(name[0], 1)

    def _count(self, kind: str | int, by: int) -> None:
        """Note that so many of this kind are ready, or are no more."""
        if kind == TRANSFER:
            self.transfers += by
        elif kind != THREAD:
            self.others += by

    def drop(self, step: Step) -> bool:
        """Forget a step. Returns whether it was ready."""
        if step not in self.steps:
            return False
        index = self.steps.index(step)
        del self.steps[index]
        self._count(self.names.pop(index)[0], -1)
        return True

    def drop_all(self, prefixes: Sequence[Name]) -> None:
        """Forget the steps whose names begin so."""
        keep = [not any(name[: len(each)] == each for each in prefixes) for name in self.names]
        # In place: a step that is being run may have both lists in hand.
        self.names[:] = [name for name, kept in zip(self.names, keep, strict=True) if kept]
        self.steps[:] = [step for step, kept in zip(self.steps, keep, strict=True) if kept]
        self.transfers = self.others = 0
        for name in self.names:
            self._count(name[0], 1)

    def run(self) -> None:
        """Take steps and run them until nothing is ready. Raises as `run_some`."""
        while self.names:
            self.run_some()

    def run_some(self, urgent: Sized = ()) -> Step | None:
        """Take steps and run them until nothing is ready. Returns a step of `hand_back`, not run.

        Comes back as soon as something is in `urgent`, which is no choice, and now and then.

        Raises StepLimit, InvalidValue where the chooser returns no position, and what a step raises.
        """
        names, steps, chooser, drawing = self.names, self.steps, None, None
        while names and not urgent:
            if chooser is not self.chooser:  # a step may end its choices
                chooser = self.chooser
                drawing = self._drawing()
            most = self._look - self.made
            if most > 1 and not self.others:
                if drawing is not None:
                    self._draw(drawing, most, urgent)
                    drawing = self._drawing()
                    continue
                if not self.transfers:
                    self._take_threads(most, urgent)
                    continue
            self.made += 1
            if most <= 1:
                index = self._patiently(names)
            else:
                kernels = not self.others and self.transfers < len(names)
                index = self.log.choose(NEXT if kernels else self.kind(names), names)
            self.current = name = names.pop(index)
            step, kind = steps.pop(index), name[0]
            if kind == THREAD:
                step()
            elif kind == TRANSFER:
                self.transfers -= 1
                step()
            else:
                self.others -= 1
                if step.__class__ in self.hand_back:
                    return step
                self.other(step)
            if most <= 1:
                break
        return None

    def _take_threads(self, most: int, urgent: Sized) -> None:
        """Take turns of kernel threads, fewer than `most`, as long as nothing else is ready: the hot loop."""
        names, choose = self.names, self.log.choose
        take, take_step = names.pop, self.steps.pop
        made = 0
        try:
            for made in range(1, most):  # noqa: B007  # how far it came counts
                index = choose(THREAD, names)
                self.current = take(index)
                take_step(index)()
                if self.others or self.transfers or urgent or not names:
                    break
        finally:
            self.made += made

    def _drawing(self) -> Random | None:
        """Return what draws steps of kernels now, without the chooser being asked for each; None to ask."""
        ask: Callable[[], Random | None] | None = getattr(self.chooser, "drawing", None)
        return None if ask is None else ask()

    def _draw(self, drawing: Random, most: int, urgent: Sized) -> None:
        """Take steps of kernels, fewer than `most`, as long as nothing else is ready, without asking for each."""
        names, draw, among = self.names, drawing.draw, drawing.among_kernels
        take, take_step, note = names.pop, self.steps.pop, self.log.taken.append
        made, self._drawn_by = 0, drawing
        try:
            for made in range(1, most):  # noqa: B007  # how far it came counts
                count = len(names)
                if self.transfers:
                    index = among(names, self.transfers)
                    if names[index][0] == TRANSFER:
                        self.transfers -= 1
                else:
                    index = int(draw() * count)
                self.current = name = take(index)
                note((name, index, count))
                take_step(index)()
                if self.others or urgent or not names:
                    break
        finally:
            self.made += made
            self._drawn_by = None

    def takes_effect(self, thread: Name, transfer: Name) -> bool:
        """Choose inside a thread's turn whether its transfer takes effect before the thread goes on."""
        names = thread, transfer
        if (drawing := self._drawn_by) is None:
            return bool(self.log.choose(NEXT, names))
        index = drawing.among_kernels(names, 1)
        self.log.taken.append((names[index], index, 2))
        return bool(index)

    def choose_inside(self, names: Sequence[Name]) -> int:
        """Return the position of a kernel thread's turn inside a step, which counts as one. Raises as `run_some`."""
        self.made += 1
        if self.made >= self._look:
            return self._patiently(names)
        return self.log.choose(THREAD, names)

    def take_of(self, fits: Callable[[Step], bool]) -> Step | None:
        """Return one of the steps that fit, not run; None if there is none. Raises as `run_some`."""
        places = [place for place, step in enumerate(self.steps) if fits(step)]
        if not places:
            return None
        self.made += 1
        if self.made >= self.limit:
            raise self._limit_error()
        self._look = max(self._look, self.made + 1)
        names = [self.names[place] for place in places]
        place = places[self.log.choose(self.kind(names), names)]
        name = self.current = self.names.pop(place)
        self._count(name[0], -1)
        return self.steps.pop(place)

    @staticmethod
    def kind(names: Sequence[Name]) -> str:
        """Return the kind of the names, or "next" where they are of several."""
        kind = names[0][0]
        for name in names:
            if name[0] != kind:
                return NEXT
        return str(kind)

    @property
    def choices(self) -> list[Choice]:
        """What has been chosen until now."""
        return self.log.choices

    def _patiently(self, names: Sequence[Name]) -> int:
        """Return the place of what has been ready for very long, if anything has; else of what is chosen."""
        if self.made >= self.limit:
            raise self._limit_error()
        oldest = self._oldest
        self._look = min(self.made + PATIENCE, self.limit)
        self._oldest = names[0]
        if names[0] is oldest:
            names = names[:1]
        return self.log.choose(self.kind(names), names)

    def _limit_error(self) -> StepLimit:
        newest = Counter(choice.name for choice in self.log.newest(PATIENCE))
        busiest = ", ".join(f"{told(name)} ({count})" for name, count in newest.most_common(4))
        stood = self.standing(newest)
        error = StepLimit(
            f"{self.made} steps were made and the run is not over; of the last {newest.total()} most are of {busiest}"
            f"{stood and f', and none of what waits: {stood}'}. "
            "Something waits in a loop for what never comes, or `steps` in EmulatorOptions is too low"
        )
        error.standing = stood
        return error

    def _apart(self, name: Name) -> Name:
        nth = 2
        while (*name, nth) in self.names:
            nth += 1
        return (*name, nth)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<Agenda: {len(self.names)} ready, {self.made} steps made>"
