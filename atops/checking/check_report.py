"""What a check found: a verdict, and of a failure the schedule that shows it, made small, drawn and compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from atops.base.choice import Name, told
from atops.base.html_table import Markup, html_table
from atops.checking.drawing import difference, drawing
from atops.checking.search import Failure, Found
from atops.checking.strategies.sampling import Repeated

__all__ = ("CheckFailed", "CheckReport", "ForcedChoice", "ReportedRun")

MOST_SHOWN = 50  # forced choices that are printed: a schedule that was not made small may have thousands


class CheckFailed(AssertionError):
    """A check has failed. The message is the report; the program's own error is its cause."""


@dataclass(frozen=True)
class ForcedChoice:
    """A choice of the failing schedule that is not "go on with what has the turn"."""

    position: int
    """Which choice of the run it is, from 0."""
    name: Name
    """What came."""
    place: str
    """Where that stood: file and line; empty where this is not known."""
    instead_of: Name
    """What would have come."""
    instead_at: str
    """Where that stood."""

    def __str__(self) -> str:
        came, missed = (f" at {place}" if place else "" for place in (self.place, self.instead_at))
        return f"choice {self.position + 1}: {told(self.name)}{came} comes before {told(self.instead_of)}{missed}"


@dataclass(frozen=True)
class ReportedRun:
    """A run, and where everything in it stood."""

    schedule: str
    forced: tuple[ForcedChoice, ...]
    names: tuple[Name, ...]
    """What came, up to the end or the failure."""
    places: tuple[str, ...]
    """Beside each, the file and line at which it stood."""
    streams: tuple[str, ...] = ()
    """What the program calls its streams, those that it has given a name: "stream 1 is 'load'"."""


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The result of `atops.check`. `print(report)` says it; it is true where nothing failed."""

    program: str
    strategy: str
    seed: int
    asked: int
    """How many schedules were allowed."""
    found: Found
    schedule: str | None = None
    """The failing schedule, made small: `EmulatorOptions(schedule=report.schedule)` repeats it."""
    forced: tuple[ForcedChoice, ...] = ()
    names: tuple[Name, ...] = ()
    """What came in the run of that schedule, up to the failure."""
    places: tuple[str, ...] = ()
    """Beside each, the file and line at which it stood."""
    races: tuple[str, ...] = ()
    """What the detectors have said of that run, where they were on."""
    plain: bool = False
    """Whether the program is a plain function, which `atops.run` does not take."""
    backend: str = "asyncio"
    """What ran it: "asyncio" or "trio"."""
    original: ReportedRun | None = None
    """The failing run as it was found, before its schedule was made small; None where that is the same."""
    streams: tuple[str, ...] = ()
    """What the program calls its streams, those that it has given a name: "stream 1 is 'load'"."""
    escapes: tuple[str, ...] = ()
    """What the detectors have not seen in these runs, where they were on: a verdict says nothing of its races."""
    command: str = ""
    """The command that repeats the failure, where the program is a script's; else `print(report)` shows a call."""

    @property
    def verdict(self) -> str:
        """Return "proved", "explored N" (N schedules, and none failed), "inconclusive" or "failed".

        "proved" says that every schedule was run, or one that differs from it only in the order of independent steps.
        """
        return f"explored {self.runs}" if self.found.verdict == "explored" else self.found.verdict

    @property
    def why(self) -> str:
        """What the verdict stands on; of one that is inconclusive, what stood in the way."""
        if self.found.verdict == "explored":
            many = f"{self.runs:,} schedules were run, of at most {self.found.choices:,} choices each"
            return f"{many}; {self.found.why or 'the others were not'}"
        return self.found.why

    @property
    def failure(self) -> Failure | None:
        """How it failed, None if it did not."""
        return self.found.failure

    @property
    def runs(self) -> int:
        """How many schedules were run, up to the first failure; those of shrinking are `replays`."""
        return self.found.runs

    @property
    def classes(self) -> int:
        """How many of them were run to their end: with "exhaustive" and "dpor" each of another class."""
        return self.found.runs - self.found.cut

    @property
    def replays(self) -> int:
        """How many runs it took to make the failing schedule small."""
        return 0 if self.found.shrunk is None else self.found.shrunk.replays

    def __bool__(self) -> bool:
        return self.found.verdict in ("proved", "explored")

    def raise_if_failed(self) -> None:
        """Raise CheckFailed, an AssertionError, unless the program passed; inconclusive is no pass."""
        if not self:
            raise CheckFailed(str(self)) from (self.failure.error if self.failure is not None else None)

    # ---- in words

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        failure, runs = self.failure, f"{self.runs:,} {'schedule' if self.runs == 1 else 'schedules'}"
        how = f"{self.strategy}, seed {self.seed}" if self.strategy in ("random", "pct") else self.strategy
        match self.found.verdict:
            case "failed" if failure is not None:
                nth = "the plain schedule" if self.runs == 1 else f"schedule {self.runs:,} of {self.asked:,} ({how})"
                nth = "the given schedule" if self.strategy == Repeated.name else nth
                return f"{self.program} fails under {nth}: {failure.kind}, {failure.text}"
            case "proved":
                return f"{self.program} is proved: {self.why} ({self.strategy}, {runs})"
            case "explored":
                why = f"is no proof: {self.found.why}" if self.found.why else "proves nothing of the others"
                return f"{self.program} passes under all of {runs} ({how}), which {why}"
            case _:
                said = "" if failure is None else f"; it failed with {failure.kind}, {failure.text}"
                return f"{self.program} is inconclusive after {runs} ({how}): {self.why}{said}"

    @property
    def drawing(self) -> str:
        """The failing run as text: a lane for each actor, `>` where a choice was forced."""
        forced = {each.position for each in self.forced}
        return "\n".join(drawing(self.names, self.places, forced))

    def _parts(self) -> list[tuple[str, Sequence[str]]]:
        """Return the parts of the report behind the sentence: titles and lines."""
        found, parts = self.found, list[tuple[str, Sequence[str]]]()
        if self.escapes:
            parts.append(("Not seen by the detectors", self.escapes))
        if self.failure is None or not self.names:
            return parts
        if self.races:
            parts.append(("What nothing orders", self.races))
        count = f"{len(self.forced)} forced {'choice' if len(self.forced) == 1 else 'choices'}"
        if found.shrunk is not None:
            count += f", from {found.shrunk.before} by {found.shrunk.replays} replays"
        nothing = ["none: what has the turn goes on as long as it can, and it fails"]
        shown = [str(each) for each in self.forced[:MOST_SHOWN]] or nothing
        if (more := len(self.forced) - MOST_SHOWN) > 0:
            shown.append(f"and {more:,} more, in `report.forced`")
        parts.append((count, shown))
        if self.streams:
            parts.append(("Streams", self.streams))
        if self.schedule is not None:
            parts.append(("Replay", [self._replay]))
        parts.append(("The run", self.drawing.splitlines()))
        if found.passing is not None and (lines := difference(self.names, found.passing)):
            parts.append(("The nearest run that passes", lines))
        return parts

    @property
    def _replay(self) -> str:
        if self.command:
            return self.command
        if self.plain:
            return f'atops.check({self.program}, strategy="{self.schedule}")'
        more = "" if self.backend == "asyncio" else f', backend="{self.backend}"'
        return f'atops.run({self.program}, atops.EmulatorOptions(schedule="{self.schedule}"){more})'

    def __str__(self) -> str:
        lines = [self.sentence]
        for title, part in self._parts():
            lines += ["", f"{title}:", *(f"  {line}" for line in part)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<CheckReport: {self.sentence}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("verdict", self.verdict), ("schedules", f"{self.runs:,} of {self.asked:,}")]
        for title, part in self._parts():
            text = escape("\n".join(part))
            rows.append((title, Markup(f'<pre style="margin:0;background:none;color:inherit">{text}</pre>')))
        return html_table(self.sentence, rows)

    def to_json(self) -> str:
        """Return the report as JSON: an object with the same names, the same text for the same report."""
        failure = self.failure
        return json.dumps(
            {
                "program": self.program, "verdict": self.verdict, "why": self.why, "strategy": self.strategy,
                "seed": self.seed, "asked": self.asked, "runs": self.runs, "classes": self.classes,
                "replays": self.replays, "choices": self.found.choices,
                "failure": None if failure is None else {
                    "kind": failure.kind, "text": failure.text,
                    "error": None if failure.error is None else type(failure.error).__name__,
                },
                "races": list(self.races),
                "escapes": list(self.escapes),
                "streams": list(self.streams),
                "schedule": self.schedule, "command": self.command,
                "forced": [
                    {
                        "position": each.position, "name": list(each.name), "place": each.place,
                        "instead_of": list(each.instead_of), "instead_at": each.instead_at,
                    }
                    for each in self.forced
                ],
                "run": [list(name) for name in self.names],
                "passing": None if self.found.passing is None else [list(name) for name in self.found.passing],
            },
            ensure_ascii=False,
        )  # fmt: skip
