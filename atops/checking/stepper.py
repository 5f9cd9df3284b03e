"""A program one choice at a time: its user is the scheduler.

Nothing is kept running between two choices. A program is the same under the same choices, so where it stands is found
by running it anew up to there, and going back is running less of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import NamedTuple, TypeAlias, TypeVar

from atops.base.choice import Chooser, Name, Plain, told
from atops.base.errors import IllegalState, InvalidValue
from atops.base.footprint import NOTHING, Footprint, StepAccesses
from atops.base.options import EmulatorOptions
from atops.base.schedule_string import RecordedReplay
from atops.base.trace.event_log import Detailing
from atops.base.waiting.current_loop import running_loop_adapter
from atops.checking.actors import owner
from atops.checking.check import MOST_STEPS, Checking
from atops.checking.drawing import drawing
from atops.checking.look import Look, Memory, Touched, look, what_changed
from atops.checking.runner import Program, Watching
from atops.checking.search import Ended, Failure
from atops.checking.strategies.strategy import CutShort
from atops.runtime.driver_board import Board
from atops.runtime.schedules.host import Backend

__all__ = ("Option", "Peek", "Pick", "Stepper", "off_loop")

TOLD = 16  # elements of a variable, in text
LOOKS = 64  # at what comes after the last pick, at most

Pick: TypeAlias = "Option | Name | str | int"
Result = TypeVar("Result")


class Option(NamedTuple):
    """Something that could come next: its name, the same in words, and the file and line at which it stands, if any."""

    name: Name
    words: str
    place: str

    def __str__(self) -> str:
        return self.words + (f" at {self.place}" if self.place else "")


class Peek(NamedTuple):
    """What comes of a pick, up to the next choice: what it reads and writes, and what changes, in words."""

    touched: Touched
    changes: tuple[str, ...]


class _Picks(Watching):
    """A chooser that takes what was picked, and then waits for a pick: the run is cut short, and `waits` for one.

    With `looks` it looks at the run before the last pick, and where it waits or was last before it was over. A
    `footprint` is told what threads touch; their arrays are Spans then, which do not all that arrays do.
    """

    def __init__(
        self, picks: Sequence[Name], then: Chooser | None, looks: bool = False, footprint: Footprint | None = None
    ) -> None:
        super().__init__(Plain())
        self.left = list(picks)
        self.then = then
        self.made: list[Name] = []  # of what was picked, or chosen by `then`
        self.at: list[int] = []  # the positions of those
        self.waits: tuple[Option, ...] = ()
        self.differs = ""
        self.looks, self.footprint = looks, footprint
        self.before: Look | None = None
        self.now: Look | None = None
        self.accesses: list[StepAccesses] = []  # of the steps since the last pick
        self._left_to_look = LOOKS
        self._board: Board | None = None
        self._details: Detailing | None = None
        self.error: Exception | None = None

    def begun(self, board: Board) -> None:
        """Take the board of the run, and have it note where commands are enqueued."""
        if self.looks:
            self._board = board
            self._details = board.tracer.detailed()

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return what was picked. Where nothing could come but one thing that comes."""
        if self.waits or self.differs:
            return 0  # what is left is closed
        if self.footprint is not None:
            self._take_accesses()
        index = 0
        if len(names) > 1:
            index = self._picked(kind, names)
            self.at.append(len(self.names))
            self.made.append(names[index])
        elif self.then is not None and not self.left:
            index = self.then.choose(kind, names)
        if self.looks and not self.left and self._left_to_look:
            self._left_to_look -= 1
            now = self._look()
            if now or not (self.now or self.before):  # of those without memory the last, where all are
                self.now = now
        self.names.append(names[index])
        self.places.append(self._place(names[index]))
        return index

    def _picked(self, kind: str, names: Sequence[Name]) -> int:
        if self.left:
            wanted = self.left.pop(0)
            if wanted in names:
                if self.looks and not self.left:
                    self.before, self.accesses = self._look(), []
                return names.index(wanted)
            self.differs = f"choice {len(self.made) + 1}: {told(wanted)} was picked, and could not come any more"
            raise CutShort(self.differs)
        if self.then is not None:
            return self.then.choose(kind, names)
        self.waits = tuple(Option(name, told(name), self._place(name)) for name in names)
        if self.looks:
            self.now = self._look()
        raise CutShort("it waits for a choice")

    def _take_accesses(self) -> None:
        """Take what the last step has touched."""
        assert self.footprint is not None and self.agenda is not None
        if (accesses := self.footprint.take(self.agenda.current)) is not NOTHING:
            self.accesses.append(accesses)

    def _look(self) -> Look | None:
        """Look at the run. An error in that is none of the run's: it is kept, and raised when that is over."""
        assert self.agenda is not None and self._board is not None, "the run has begun"
        try:
            return look(self.agenda, self._board)
        except Exception as error:
            self.error = self.error or error
            return None

    def close(self) -> None:
        """Let go of the run, which is over. Raises what went wrong in looking at it."""
        self.agenda = self._board = self._details = None
        if self.error is not None:
            raise self.error


class Stepper:
    """Runs `program(*arguments)` as far as there is no choice; `choices()` says what could come, and `pick` what does.

    The program is as of `atops.check`: inline, on the virtual clock, with a board of its own. It is run anew for each
    pick; inside a running loop, as in a notebook, on a thread of its own, for which the loop waits.
    """

    def __init__(
        self,
        program: Program,
        *,
        arguments: Sequence[object] = (),
        options: EmulatorOptions | None = None,
        steps: int = MOST_STEPS,
        backend: Backend = "asyncio",
        looks: bool = False,
    ) -> None:
        """Begin. Raises as `atops.check` for arguments that make no sense.

        With `looks` each run is looked at: `look`, `memory` and `peek` say what there is and what a pick would do.
        """
        checking = Checking(program, 1, "random", arguments, options, 0, 2, steps, False, 0, backend)
        self.name = checking.name
        self._runner = checking.runner
        self._looks = looks
        self._run([])

    def choices(self) -> tuple[Option, ...]:
        """Return what could come next, in the order in which it became ready; nothing once the program is over."""
        return self._chooser.waits

    def pick(self, choice: Pick) -> tuple[Option, ...]:
        """Have this come next: one of `choices()`, its name, its words, or its position. Returns the next choices.

        Raises IllegalState where the program is over, InvalidValue for what could not come.
        """
        self._run([*self.picks, self._option(choice).name])
        return self.choices()

    def back(self, picks: int = 1) -> tuple[Option, ...]:
        """Take back the last picks, so many. Returns the choices there. Raises InvalidValue for more than there are."""
        if type(picks) is not int or not 0 <= picks <= len(self.picks):
            raise InvalidValue(f"back by {picks!r}; expected 0 to {len(self.picks)}, the picks that were made")
        self._run(self.picks[: len(self.picks) - picks])
        return self.choices()

    def finish(self, chooser: Chooser | None = None) -> str:
        """Have the rest come first come, first served, or as another chooser says; these count as picks, too.

        Returns the verdict.
        """
        self._run(self.picks, Plain() if chooser is None else chooser)
        return self.verdict

    def go(self, picks: Sequence[Name]) -> tuple[Option, ...]:
        """Go where these picks lead, the names of what was picked from the start on. Returns the choices there.

        Raises IllegalState where one of them cannot come.
        """
        self._run(picks)
        return self.choices()

    def load(self, schedule: str) -> str:
        """Run as the string of a schedule says, to its end, and return the verdict; `picks` are its choices.

        Raises InvalidValue where it is no schedule of this program and these options.
        """
        replay = RecordedReplay(self._runner.recorded(schedule))
        self._run([], replay)
        if (departure := replay.ended()) is not None:
            raise InvalidValue(f"{self.name} departs from its schedule at {departure}")
        return self.verdict

    def peek(self, choice: Pick) -> Peek:
        """Return what a pick would do, from a run of its own: this one stays where it is.

        Raises as `pick`; IllegalState without `looks`.
        """
        self._check_looks()
        picks = [*self.picks, self._option(choice).name]
        chooser, _ = self._once(picks)
        changes = _now(chooser).memory(chooser.before)
        touched = Touched((), ())
        try:
            told, _ = self._once(picks, footprint=Footprint())
        except IllegalState:
            pass  # the kernel does with its arrays what Spans do not do, which is another run
        else:
            if (told.waits, told.names) == (chooser.waits, chooser.names):
                for each in (told.before, told.now):
                    touched = touched if each is None else touched.with_more(each.touched(told.accesses))
        return Peek(touched, tuple(what_changed(changes)))

    @property
    def look(self) -> Look:
        """What there is where it stands, or was last before it was over. Raises IllegalState without `looks`."""
        self._check_looks()
        return _now(self._chooser)

    @property
    def memory(self) -> list[Memory]:
        """What the program's variables hold, and what the last pick has changed. Raises as `look`."""
        return self.look.memory(self._chooser.before)

    def _check_looks(self) -> None:
        if not self._looks:
            raise IllegalState(f"{self!r} does not look at its runs; make it with looks=True")

    def _option(self, choice: Pick) -> Option:
        """Return one of the choices. Raises as `pick`."""
        options = self.choices()
        if not options:
            raise IllegalState(f"{self.name} is over: {self.verdict}; go back, or begin anew")
        for place, option in enumerate(options):
            if choice in (option, option.name, option.words) or (choice is not True and choice == place):
                return option
        could = ", ".join(option.words for option in options)
        raise InvalidValue(f"pick of {choice!r}; what could come is {could}, or a position, 0 to {len(options) - 1}")

    def _run(self, picks: Sequence[Name], then: Chooser | None = None) -> None:
        chooser, ended = self._once(picks, then)
        self._chooser, self._ended = chooser, Ended() if chooser.waits else ended
        self.schedule = None if chooser.waits else self._runner.string()

    def _once(
        self, picks: Sequence[Name], then: Chooser | None = None, footprint: Footprint | None = None
    ) -> tuple[_Picks, Ended]:
        chooser = _Picks(picks, then, self._looks, footprint)

        def once() -> Ended:
            with self._runner as run:
                return run(chooser)

        ended = off_loop(once)
        chooser.close()
        if not chooser.differs and chooser.left:
            chooser.differs = f"it is over after {len(chooser.made)} of {len(picks)} choices"
        if chooser.differs:
            raise IllegalState(f"{self.name} is not the same twice under the same choices: {chooser.differs}")
        return chooser, ended

    schedule: str | None
    """Once the program is over: the string that repeats the run."""

    @property
    def picks(self) -> tuple[Name, ...]:
        """What was picked, in order."""
        return tuple(self._chooser.made)

    @property
    def names(self) -> tuple[Name, ...]:
        """All that has come, also where nothing else could."""
        return tuple(self._chooser.names)

    @property
    def places(self) -> tuple[str, ...]:
        """Beside each of `names`, the file and line at which it stood, if it has one."""
        return tuple(self._chooser.places)

    @property
    def picked(self) -> tuple[int, ...]:
        """The positions of `picks` in `names`."""
        return tuple(self._chooser.at)

    @property
    def result(self) -> object:
        """What the program has returned."""
        return self._ended.result

    @property
    def failure(self) -> Failure | None:
        """How it failed, None if it did not or is not over."""
        return self._ended.failure

    @property
    def verdict(self) -> str:
        """One of "waits for a choice", "passed", and "failed: " with the kind and the first line of the failure."""
        if self.choices():
            return "waits for a choice"
        failure = self.failure
        return "passed" if failure is None else f"failed: {failure.kind}, {failure.text}"

    @property
    def drawing(self) -> str:
        """The run as text: a lane for each actor, `>` where something was picked."""
        return "\n".join(drawing(self._chooser.names, self._chooser.places, self._chooser.at))

    def __str__(self) -> str:
        """Return where it stands: verdict, drawing, races that were reported, and what could come next."""
        parts = [f"{self.name}: {self.verdict}"]
        if self.names:
            parts.append(self.drawing)
        parts += map(str, self._runner.races)
        options = [f"  {place}: {self._told(option)}" for place, option in enumerate(self.choices())]
        if self._looks and options and (held := self._held()):
            parts.append("\n".join(["memory:", *held]))
        parts += ["\n".join(["what could come next:", *options])] if options else []
        if self.schedule is not None:
            parts.append(f"schedule: {self.schedule}")
        return "\n\n".join(parts)

    def _held(self) -> list[str]:
        """Return what the program's variables hold, a line each, and what the last pick has changed there."""
        lines = []
        for each in self.memory:
            values = " ".join(each.values[:TOLD]) + (" ..." if each.size > each.first + TOLD else "")
            values = f"[{each.first}:] {values}" if each.first else values
            was = ", ".join(f"[{each.first + at}] was {old}" for at, old in zip(each.changed, each.was, strict=False))
            name = f"{each.name} ({', '.join(filter(None, (each.where, each.owner)))})"
            lines.append(f"  {name}: {values}" + (f"    {was}" if was else ""))
        return lines

    def _told(self, option: Option) -> str:
        """Return an option in words; with `looks`, also what the program calls its stream, and what it does next."""
        if not self._looks:
            return str(option)
        does, place = self.look.doing.get(option.name, ("", ""))
        label = self.look.streams.get(owner(option.name), "")
        said = option.words + (f" {label!r}" if label else "") + (f": {does}" if does else "")
        return said + (f", at {place or option.place}" if place or option.place else "")

    def __repr__(self) -> str:
        return f"<Stepper of {self.name}: {self.verdict}, {len(self.picks)} picks>"


def _now(chooser: _Picks) -> Look:
    """Return what there was last."""
    for found in (chooser.now, chooser.before):
        if found is not None:
            return found
    return Look((), (), {}, {})


def off_loop(work: Callable[[], Result]) -> Result:
    """Return what `work()` does: here, or inside a running loop on another thread, for which this one waits.

    For notebooks, whose cells run inside a loop: a call that takes milliseconds need not be awaited there.
    """
    if running_loop_adapter() is None:
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []

    def there() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=copy_context().run, args=(there,), name="atops off the loop", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
