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
from atops.base.options import EmulatorOptions
from atops.base.waiting.current_loop import running_loop_adapter
from atops.checking.check import MOST_STEPS, Checking
from atops.checking.drawing import drawing
from atops.checking.runner import Program, Watching
from atops.checking.search import Ended, Failure
from atops.checking.strategies.strategy import CutShort
from atops.runtime.schedules.host import Backend

__all__ = ("Option", "Pick", "Stepper", "off_loop")

Pick: TypeAlias = "Option | Name | str | int"
Result = TypeVar("Result")


class Option(NamedTuple):
    """Something that could come next: its name, the same in words, and the file and line at which it stands, if any."""

    name: Name
    words: str
    place: str

    def __str__(self) -> str:
        return self.words + (f" at {self.place}" if self.place else "")


class _Picks(Watching):
    """A chooser that takes what was picked, and then waits for a pick: the run is cut short, and `waits` for one."""

    def __init__(self, picks: Sequence[Name], then: Chooser | None) -> None:
        super().__init__(Plain())
        self.left = list(picks)
        self.then = then
        self.made: list[Name] = []  # of what was picked, or chosen by `then`
        self.picked: set[int] = set()  # the positions of those
        self.waits: tuple[Option, ...] = ()
        self.differs = ""

    def choose(self, kind: str, names: Sequence[Name]) -> int:
        """Return what was picked. Where nothing could come but one thing that comes."""
        if self.waits or self.differs:
            return 0  # what is left is closed
        index = 0
        if len(names) > 1:
            index = self._picked(kind, names)
            self.made.append(names[index])
            self.picked.add(len(self.names))
        self.names.append(names[index])
        self.places.append(self._place(names[index]))
        return index

    def _picked(self, kind: str, names: Sequence[Name]) -> int:
        if self.left:
            wanted = self.left.pop(0)
            if wanted in names:
                return names.index(wanted)
            self.differs = f"choice {len(self.made) + 1}: {told(wanted)} was picked, and could not come any more"
            raise CutShort(self.differs)
        if self.then is not None:
            return self.then.choose(kind, names)
        self.waits = tuple(Option(name, told(name), self._place(name)) for name in names)
        raise CutShort("it waits for a choice")


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
    ) -> None:
        """Begin. Raises as `atops.check` for arguments that make no sense."""
        checking = Checking(program, 1, "random", arguments, options, 0, 2, steps, False, 0, backend)
        self.name = checking.name
        self._runner = checking.runner
        self._run([])

    def choices(self) -> tuple[Option, ...]:
        """Return what could come next, in the order in which it became ready; nothing once the program is over."""
        return self._chooser.waits

    def pick(self, choice: Pick) -> tuple[Option, ...]:
        """Have this come next: one of `choices()`, its name, its words, or its position. Returns the next choices.

        Raises IllegalState where the program is over, InvalidValue for what could not come.
        """
        options = self.choices()
        if not options:
            raise IllegalState(f"{self.name} is over: {self.verdict}; go back, or begin anew")
        for place, option in enumerate(options):
            if choice in (option, option.name, option.words) or (choice is not True and choice == place):
                self._run([*self.picks, option.name])
                return self.choices()
        could = ", ".join(option.words for option in options)
        raise InvalidValue(f"pick of {choice!r}; what could come is {could}, or a position, 0 to {len(options) - 1}")

    def back(self, picks: int = 1) -> tuple[Option, ...]:
        """Take back the last picks, so many. Returns the choices there. Raises InvalidValue for more than there are."""
        if type(picks) is not int or not 0 <= picks <= len(self.picks):
            raise InvalidValue(f"back by {picks!r}; expected 0 to {len(self.picks)}, the picks that were made")
        self._run(self.picks[: len(self.picks) - picks])
        return self.choices()

    def finish(self) -> str:
        """Have the rest come first come, first served; these count as picks, too. Returns the verdict."""
        self._run(self.picks, Plain())
        return self.verdict

    def _run(self, picks: Sequence[Name], then: Chooser | None = None) -> None:
        chooser = _Picks(picks, then)
        def once() -> Ended:
            with self._runner as run:
                return run(chooser)

        ended = off_loop(once)
        if chooser.differs:
            raise IllegalState(f"{self.name} is not the same twice under the same choices: {chooser.differs}")
        self._chooser, self._ended = chooser, Ended() if chooser.waits else ended
        self.schedule = None if chooser.waits else self._runner.string()

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
        return "\n".join(drawing(self._chooser.names, self._chooser.places, self._chooser.picked))

    def __str__(self) -> str:
        """Return where it stands: verdict, drawing, races that were reported, and what could come next."""
        parts = [f"{self.name}: {self.verdict}"]
        if self.names:
            parts.append(self.drawing)
        parts += self._runner.races
        options = [f"  {place}: {option}" for place, option in enumerate(self.choices())]
        parts += ["\n".join(["what could come next:", *options])] if options else []
        if self.schedule is not None:
            parts.append(f"schedule: {self.schedule}")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"<Stepper of {self.name}: {self.verdict}, {len(self.picks)} picks>"


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
