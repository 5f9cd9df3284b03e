"""Being the scheduler: a program stopped at each choice, in a notebook."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar, Final

import anywidget
import traitlets

from atops.base.options import EmulatorOptions
from atops.checking.check import MOST_STEPS
from atops.checking.check_report import CheckReport
from atops.checking.runner import Program
from atops.checking.stepper import Option, Pick, Stepper
from atops.runtime.schedules.host import Backend
from atops_widgets.drawing.base import LIVE, publish
from atops_widgets.drawing.page import module_script
from atops_widgets.drawing.theme import LAYOUT, style_sheet
from atops_widgets.feed.feed import NOTHING
from atops_widgets.feed.pace import call_soon
from atops_widgets.scheduler.player import Player, Policy
from atops_widgets.scheduler.told import KINDS, Told, Trail, say_of, search_told, state_told, still, trail_told

__all__ = ("Scheduler",)

STYLE: Final = """
.atops-columns{display:flex;margin-bottom:8px;flex-wrap:wrap;gap:6px 20px;align-items:flex-start}
.atops-columns>div{flex:1 1 300px;min-width:0}
.atops-scheduler h4{font-size:13px;margin:8px 0 4px;font-weight:600}
.atops-options{list-style:none;margin:0;padding:0;display:flex;flex-direction:column;gap:4px;max-height:27em;
overflow:auto;padding:1px}
.atops .atops-option{display:grid;grid-template-columns:auto auto 1fr;gap:0 8px;width:100%;text-align:left;
padding:4px 8px;align-items:baseline}
.atops .atops-option:hover{border-color:var(--select)}
.atops-option small{grid-column:3;font-size:12px;color:var(--quiet);overflow-wrap:anywhere}
.atops-option code,.atops-cells code{font:12px/1.35 ui-monospace,monospace;background:none;color:inherit;padding:0}
.atops-key{font:11px/16px ui-monospace,monospace;border:1px solid var(--line);border-radius:3px;width:18px;
text-align:center;color:var(--quiet)}
.atops-kind{font:600 11px/16px ui-monospace,monospace;border-radius:3px;width:18px;text-align:center;color:var(--on)}
.atops-cells{border-collapse:collapse;font-size:12px}
.atops .atops-cells :is(td,th){text-align:left;vertical-align:top;padding:2px 12px 2px 0;
border:0;background:none;color:inherit;white-space:normal}
.atops-cells th{font-weight:400;color:var(--quiet)}
.atops-cells mark{background:var(--select);color:var(--page);border-radius:2px;padding:0 2px}
.atops-cells ol{margin:0;padding-left:18px}
.atops-cells del{color:var(--quiet);text-decoration:line-through;margin-right:3px}
.atops .atops-field{font:12px ui-monospace,monospace;color:var(--ink);background:var(--page);
border:1px solid var(--line);border-radius:4px;padding:2px 6px;min-height:24px;flex:1 1 160px;min-width:0}
.atops-failed{color:var(--failed)}
"""


class Scheduler(anywidget.AnyWidget):
    """Be the scheduler of a program: at each choice it says what could come next, and waits for a pick.

        atops_widgets.Scheduler(program)

    The program is as of `atops.check`: a coroutine function or a plain one, run anew for each pick, on a thread of its
    own. `schedule` is the run as a string, once it is over; `verdict` how it ended, or that it waits. Both are traits:
    observe them, or link them. All that the page does can be called from Python, too; those calls return when it is
    done.
    """

    label: ClassVar[str] = "Scheduler"
    _esm = module_script("scheduler/scheduler.js")
    _css = style_sheet() + LAYOUT + STYLE

    table = traitlets.Dict().tag(sync=True)
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
        self._player = Player(program, given, self._changed)
        self._displays: list[str] = []
        self._state: Told = {}
        self._found: Told = {"on": False}
        self._told: Trail | None = None  # the steps that `_trail` tells
        self._trail: Told | None = None
        self._trail_sent: Told | None = None
        self._frames = 0
        self._telling = threading.Lock()
        kinds = {kind: list(each) for kind, each in KINDS.items()}
        super().__init__(table={"label": self.label, "kinds": kinds})
        self.on_msg(self._arrived)
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
        self._player.do(lambda: self._player.search(schedules, strategy))
        assert self._player.report is not None
        return self._player.report

    def stop(self) -> None:
        """Keep the picture in the notebook as it is now: it needs no kernel any more."""
        self._player.cancel()
        for display in self._displays:
            publish({"text/html": self.to_html(), "text/plain": self.to_text()}, display, update=True)
        self._displays.clear()

    def close(self) -> None:
        """End a check, and take the views away. Closing twice is allowed."""
        if "_player" in self.__dict__:  # not of one that was refused
            self._player.cancel()
        super().close()

    def to_text(self, width: int = 100) -> str:
        """Return where it stands as text, for a terminal and for a screen reader."""
        return str(self.stepper)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return where it stands as HTML that needs nothing else; write it to `path`."""
        text = still(self._state, self.stepper.drawing)
        if path is not None:
            Path(path).write_text(f"<!doctype html><meta charset=utf-8><title>{self.label}</title>{text}", "utf-8")
        return text

    # ---- the page

    def _changed(self) -> None:
        """Tell pages where it stands. On the player's threads."""
        player = self._player
        stepper = player.stepper
        with self._telling:
            if player.progress is not None:
                self._found = search_told(player.progress, player.report, player.began) | {"on": player.searching}
            if stepper is not None and not player.searching:
                self._state = state_told(stepper, len(stepper.picks), len(player.trail), player.peeks)
                if player.told != self._told:
                    self._told, self._trail = player.told, trail_told(player.told)
            self._send_frame()
        if stepper is not None and not player.searching:
            self.verdict, self.schedule = stepper.verdict, stepper.schedule or ""

    def _send_frame(self) -> None:
        """Send what a page shows; of the steps that have come it is told again only where they are others."""
        if not self._state:
            return
        self._frames += 1
        say = self._player.error or say_of(self._state)
        frame = {
            "type": "frame", "frame": self._frames, "columns": [], "state": "live", "say": say, "run": self._state,
            "found": self._found, "marks": {"seq": NOTHING, "before": [], "after": []},
        }  # fmt: skip
        if self._trail is not self._trail_sent:
            self._trail_sent = frame["trail"] = self._trail
        self.send(frame)

    def _arrived(self, widget: object, content: object, buffers: object) -> None:
        """Do what a page asks for. What is not understood is ignored. On any thread; returns at once."""
        player = self._player
        match content:
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
                player.ask("search", lambda: player.search(strategy=strategy))
            case {"type": "cancel"}:
                player.cancel()
            case {"type": "ping"}:
                self.send({"type": "ping"})
            case {"type": "hello" | "text" as kind}:
                call_soon(self._hello if kind == "hello" else self._text)

    def _hello(self) -> None:
        with self._telling:
            self._trail_sent = None
            self._send_frame()

    def _text(self) -> None:
        self.send({"type": "text", "text": self.to_text()})

    def _pick(self, option: int, at: int) -> None:
        """Pick, unless the page was behind: then it has shown other choices."""
        stepper = self.stepper
        if at == len(stepper.picks) and 0 <= option < len(stepper.choices()):
            self._player.pick(option)

    # ---- in a notebook

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the live view, with a still picture for where no script runs, and text."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        data["text/html"] = f"{self.to_html()}<p>{LIVE}</p>"
        data["text/plain"] = self.to_text()
        return data, metadata

    def _ipython_display_(self) -> None:
        """Show it in a cell."""
        data, metadata = self._repr_mimebundle_()
        display = f"atops-{token_hex(8)}"
        self._displays.append(display)
        publish(data, display, metadata)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._player.name}: {self.verdict}>"
