"""Being the scheduler: a program stopped at each choice, in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import traitlets

from atops.base.options import EmulatorOptions
from atops.checking.check import MOST_STEPS
from atops.checking.check_report import CheckReport
from atops.checking.runner import Program
from atops.checking.stepper import Option, Pick, Stepper
from atops.runtime.schedules.host import Backend
from atops_widgets.scheduler.player import Policy
from atops_widgets.scheduler.program_widget import ProgramWidget
from atops_widgets.scheduler.told import Told, Trail, say_of, search_told, state_told, still, trail_told

__all__ = ("Scheduler",)


class Scheduler(ProgramWidget):
    """Be the scheduler of a program: at each choice it says what could come next, and waits for a pick.

        atops_widgets.Scheduler(program)

    The program is as of `atops.check`: a coroutine function or a plain one, run anew for each pick, on a thread of its
    own. `schedule` is the run as a string, once it is over; `verdict` how it ended, or that it waits. Both are traits:
    observe them, or link them. All that the page does can be called from Python, too; those calls return when it is
    done.
    """

    label: ClassVar[str] = "Scheduler"
    script: ClassVar[str] = "scheduler/scheduler.js"

    schedule = traitlets.Unicode("").tag(sync=True)
    verdict = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        program: Program,
        schedule: str | None = None,
        *,
        arguments: Sequence[object] = (),
        options: EmulatorOptions | None = None,
        steps: int = MOST_STEPS,
        backend: Backend = "asyncio",
    ) -> None:
        """Begin; with the string of a `schedule`, at the end of the run that this tells.

        Raises as `atops.check` for arguments that make no sense.
        """
        given = {"arguments": tuple(arguments), "options": options, "steps": steps, "backend": backend}
        self._state: Told = {}
        self._found: Told = {"on": False}
        self._told: Trail | None = None  # the steps that `_trail` tells
        self._trail: Told | None = None
        self._trail_sent: Told | None = None
        super().__init__(program, given)
        try:
            self._player.do(self._player.begin)
            if schedule is not None:
                self.load(schedule)
        except BaseException:
            self.close()
            raise

    # ---- for users

    @property
    def stepper(self) -> Stepper:
        """The run, to be looked at."""
        assert self._player.stepper is not None, "made with the widget"
        return self._player.stepper

    def choices(self) -> tuple[Option, ...]:
        """Return what could come next; nothing once the program is over."""
        return self.stepper.choices()

    def pick(self, choice: Pick) -> tuple[Option, ...]:
        """Have this come next: one of `choices()`, its name, its words, or its position. Raises as `Stepper.pick`."""
        self._player.do(lambda: self._player.pick(choice))
        return self.choices()

    def back(self, picks: int = 1) -> tuple[Option, ...]:
        """Take back the last picks, so many, or as many as there are."""
        return self.go(len(self.stepper.picks) - picks)

    def forward(self, picks: int = 1) -> tuple[Option, ...]:
        """Make picks again that were taken back, so many, or as many as there are."""
        return self.go(len(self.stepper.picks) + picks)

    def go(self, position: int) -> tuple[Option, ...]:
        """Go to the place behind so many picks of the run that is known."""
        self._player.do(lambda: self._player.go(position))
        return self.choices()

    def finish(self, policy: Policy = "first come", seed: int = 0) -> str:
        """Have the rest come "first come", the "same" as long as it can go on, or "random" by `seed`.

        Returns the verdict. Raises InvalidValue for another policy.
        """
        self._player.do(lambda: self._player.finish(policy, seed))
        return self.verdict

    def load(self, schedule: str) -> str:
        """Go to the end of a recorded run, and return its verdict. Raises InvalidValue for a string of another one."""
        self._player.do(lambda: self._player.load(schedule))
        return self.verdict

    def search(self, schedules: int = 500, strategy: str = "random") -> CheckReport:
        """Check the program, load the schedule that fails if one is found, and return the report of `atops.check`."""
        self._player.do(lambda: self._player.search(self._player.checking(schedules, strategy)))
        assert self._player.report is not None
        return self._player.report

    def to_text(self, width: int = 100) -> str:
        """Return where it stands as text, for a terminal and for a screen reader."""
        return str(self.stepper)

    def _still(self) -> str:
        return still(self._state, self.stepper.drawing)

    def _corner(self) -> str:
        return "the run is over" if super()._corner() == "live" and self._state["over"] else super()._corner()

    # ---- the page

    def _changed(self) -> None:
        super()._changed()
        player = self._player
        if player.stepper is not None and not player.searching:  # not within `_telling`: observers may ask for more
            self.verdict, self.schedule = player.stepper.verdict, player.stepper.schedule or ""

    def _note(self) -> None:
        player = self._player
        if player.progress is not None:
            self._found = search_told(player.progress, player.report, player.seconds) | {"on": player.searching}
        if player.stepper is not None and not player.searching:
            self._state = state_told(player.stepper, len(player.stepper.picks), len(player.trail), player.peeks)
            if player.told != self._told:
                self._told, self._trail = player.told, trail_told(player.told)

    def _frame(self, anew: bool) -> Told | None:
        """Return where it stands; the steps that have come are told again only where they are others."""
        if not self._state:
            return None
        told: Told = {"say": self._player.error or say_of(self._state), "run": self._state, "found": self._found}
        if anew or self._trail is not self._trail_sent:
            self._trail_sent = told["trail"] = self._trail
        return told

    def _heard(self, message: Told) -> None:
        player = self._player
        match message:
            case {"type": "pick", "option": int(option), "at": int(at)}:
                player.ask("pick", lambda: self._pick(option, at))
            case {"type": "go", "to": int(to)}:
                player.ask("go", lambda: player.go(to))
            case {"type": "step", "by": int(by)}:
                player.ask("step", lambda: player.go(len(self.stepper.picks) + by))
            case {"type": "finish", "policy": str(policy)}:
                player.ask("finish", lambda: player.finish(policy))
            case {"type": "load", "schedule": str(schedule)}:
                player.ask("load", lambda: player.load(schedule))
            case {"type": "search", "strategy": str(strategy)}:
                player.ask("search", lambda: player.search(player.checking(strategy=strategy)))

    def _pick(self, option: int, at: int) -> None:
        """Pick, unless the page was behind: then it has shown other choices."""
        stepper = self.stepper
        if at == len(stepper.picks) and 0 <= option < len(stepper.choices()):
            self._player.pick(option)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._player.name}: {self.verdict}>"
