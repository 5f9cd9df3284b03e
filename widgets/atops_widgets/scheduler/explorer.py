"""Watching a check: how far it is, what came, and the failing schedule beside what it was made of."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, ClassVar

import traitlets

from atops.base.errors import IllegalState
from atops.base.options import EmulatorOptions
from atops.checking.check import MOST_STEPS, Checking
from atops.checking.check_report import CheckReport
from atops.checking.runner import Program
from atops.runtime.schedules.host import Backend
from atops_widgets.drawing.page import module_script, output
from atops_widgets.drawing.scene import pack_snapshot
from atops_widgets.scheduler.program_widget import STYLE, ProgramWidget
from atops_widgets.scheduler.scheduler import Scheduler
from atops_widgets.scheduler.told import Told, runs_told, search_told, still_search

__all__ = ("Explorer",)


class Explorer(ProgramWidget):
    """Watch `atops.check` while it runs, and see the schedule that it finds beside what it was made small of.

        atops_widgets.Explorer(program, schedules=5000, strategy="pct")

    The check runs on a thread of its own; the cell goes on. `report` is None as long as it runs; `verdict` is a trait.
    """

    label: ClassVar[str] = "Schedule explorer"
    script: ClassVar[str] = "scheduler/explorer.js"

    verdict = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        program: Program,
        schedules: int = 500,
        strategy: str = "random",
        *,
        arguments: Sequence[object] = (),
        options: EmulatorOptions | None = None,
        seed: int = 0,
        switches: int = 2,
        steps: int = MOST_STEPS,
        same_result: bool = False,
        replays: int = 300,
        backend: Backend = "asyncio",
    ) -> None:
        """Begin the check. Arguments, and what they raise, are those of `atops.check`."""
        given: dict[str, Any] = {"arguments": tuple(arguments), "options": options, "steps": steps, "backend": backend}
        self._runs: list[Told] = []
        self._runs_sent: list[Told] = []
        self._settings = program, given
        self._done = False
        super().__init__(program, given)
        player = self._player
        try:
            checking = player.checking(
                schedules, strategy, seed=seed, switches=switches, same_result=same_result, replays=replays
            )
        except BaseException:
            self.close()
            raise
        self._searched = player.ask("search", lambda: self._search(checking))

    def _search(self, checking: Checking) -> None:
        try:
            self._player.search(checking)
        finally:
            self._done = True

    # ---- for users

    @property
    def report(self) -> CheckReport | None:
        """The report of the check; None as long as it runs."""
        return self._player.report if self._done else None

    def wait(self, timeout: float | None = None) -> CheckReport | None:
        """Wait until the check is over, so many seconds at most, and return its report; None if it is not over.

        Raises IllegalState where it could not be made, with the reason.
        """
        if self._searched.wait(timeout):
            self._end()  # again, in a cell that runs: nbclient does not hear what comes between two cells
            if self.report is None:
                raise IllegalState(f"no check of {self._player.name}: {self._player.error}")
        return self.report

    def cancel(self) -> None:
        """End the check after the run that goes on."""
        self._player.cancel()

    def scheduler(self) -> Scheduler:
        """Return a Scheduler of the program, at the end of the failing run if there is one."""
        (program, given), report = self._settings, self.report
        return Scheduler(program, None if report is None else report.schedule, **given)

    def to_text(self, width: int = 100) -> str:
        """Return how far the check is, or its report, as text."""
        if (report := self.report) is not None:
            return str(report)
        found = self._found()
        return f"{found['stage']}: {found['runs']} of {found['asked']} schedules, {found['cut']} of them cut short"

    # ---- the page

    def _found(self) -> Told:
        player = self._player
        assert player.progress is not None, "made with the widget"
        return search_told(player.progress, player.report, player.seconds) | {"on": player.searching}

    def _changed(self) -> None:
        self._ended = self._ended or self._done  # before the frame, which tells it
        super()._changed()
        if self._player.report is not None:
            self.verdict = self._player.report.verdict
        if self._done:
            self._end()

    def _note(self) -> None:
        player = self._player
        if player.report is not None and player.stepper is not None and not self._runs:
            self._runs = runs_told(player.report, player.stepper.look.streams)

    def _frame(self, anew: bool) -> Told | None:
        if self._player.progress is None:
            return None
        found = self._found()
        told: Told = {"say": self._player.error or found["sentence"], "found": found}
        if anew or self._runs is not self._runs_sent:
            self._runs_sent = told["runs"] = self._runs
        return told

    def _still(self) -> str:
        return still_search(self._found(), self._runs)

    def _kept(self) -> str:
        return output(self, self._still(), STYLE)

    def module(self) -> str:
        """Return the ES module that draws it."""
        return module_script(self.script)

    def held(self) -> dict[str, object]:
        """Return what the module is given on a page without Python."""
        with self._telling:
            told = {"saved": True, "text": self.to_text(), **self._scene(self._frame(True) or {})}
        return {"snapshot": b64encode(pack_snapshot(told, {})).decode(), "table": self.table}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._player.name}: {self.verdict or 'it runs'}>"
