"""All that the detectors have found, as HTML that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Final

from atops.base.errors import InvalidValue
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Trace
from atops.checking.runner import Program, Quiet
from atops.checking.stepper import off_loop
from atops.runtime.driver import Driver, report
from atops.runtime.races.report import Report
from atops.runtime.run import run
from atops.trace.file import load
from atops_widgets.drawing.theme import LAYOUT, Theme, style_sheet
from atops_widgets.race_view.drawing import as_it_is, bytes_strip, mended
from atops_widgets.race_view.sightings import CODE, Sighting, excerpts, mend_of, sightings

__all__ = ("RaceView",)

SHOWN: Final = 20  # races with pictures; the others are counted
STYLE: Final = f"""<style>{style_sheet(":is(.atops,.atops-svg)")}{LAYOUT}
.atops-races summary{{font-weight:600;cursor:pointer}}
.atops-races .atops-pictures{{display:flex;flex-wrap:wrap;gap:6px 24px;margin:6px 0}}
.atops-races pre mark{{background:none;color:var(--failed);font-weight:600}}
.atops-races code{{background:none;color:inherit;overflow-wrap:anywhere}}</style>"""


class RaceView:
    """Show each race that the detectors have found: both sides and their lines, the bytes, what would order them.

        atops_widgets.RaceView()                  # of atops.report()
        atops_widgets.RaceView("run.trace.gz")    # of a trace, a trace file, a driver, or a report
        atops_widgets.RaceView.of(program)        # of a run with the detectors on

    Each has two pictures: as it is, with a dashed edge where the order is missing; and with the barrier, the event or
    the wait that would order them. It is plain HTML, without a script: a saved notebook keeps it.
    """

    label: ClassVar[str] = "Races"

    def __init__(
        self, source: Report | Driver | Trace | str | os.PathLike[str] | None = None, *, schedule: str | None = None
    ) -> None:
        """Take what was found; `schedule` repeats the run, where the report does not know.

        Raises InvalidValue for another source, and for a file that holds no trace.
        """
        told: Any = report() if source is None else source
        if isinstance(told, str | os.PathLike):
            told = load(Path(told))
        if isinstance(told, Driver):
            told = told.report()
        if not isinstance(told, Report | Trace):
            raise InvalidValue(
                f"source expects a report, a driver, a trace or the path of a trace file, got {source!r}"
            )
        self.races: Sequence[Sighting] = sightings(told.races if isinstance(told, Report) else told)
        self.schedule = told.schedule if schedule is None and isinstance(told, Report) else schedule
        self.escapes = told.escapes if isinstance(told, Report) else ()
        self.ended = ""
        """What ended the run of `of`, if that was an error."""

    @classmethod
    def of(
        cls, program: Program, schedule: str = "plain", *, arguments: Sequence[object] = (),
        options: EmulatorOptions | None = None,
    ) -> RaceView:  # fmt: skip
        """Run a coroutine function with the detectors on, on the virtual clock, under a schedule, and show its report.

        An error that ends the run is told in the picture. Inside a running loop it runs on another thread.
        """
        options = replace(options or EmulatorOptions(), detect=True, schedule=schedule, clock="virtual")
        reports: list[Report] = []
        errors: list[Exception] = []

        def once() -> None:
            try:
                with Quiet("atops.races"):  # the picture says the same
                    run(program, options, *arguments)
            except Exception as error:
                errors.append(error)
            reports.append(report())

        off_loop(once)
        view = cls(reports[0])
        view.ended = f"{type(errors[0]).__name__}: {errors[0]}" if errors else ""
        return view

    def to_text(self, width: int = 100) -> str:
        """Return the races as text, with the lines of the program."""
        if not self.races:
            return self._said()
        parts = []
        for number, race in enumerate(self.races, 1):
            lines = [f"{number}. {_title(race)}"]
            lines += [f"   {at}: {side.actor}: {side.what}" + (f", at {side.place}" if side.place else "")
                      for at, side in enumerate(race.sides, 1)]  # fmt: skip
            for excerpt in excerpts(race.sides):
                lines += ["", f"   {excerpt.place}:"]
                lines += [f"   {sides:>3} {line:>5}  {text}" for line, text, sides in excerpt.lines]
            parts.append("\n".join([*lines, "", f"   {race.advice}"]))
        return "\n\n".join([self._said(), *parts])

    def to_html(self, path: str | os.PathLike[str] | None = None, theme: Theme | None = None) -> str:
        """Return it as HTML that needs nothing else; write it to `path`. Without a theme it follows the page."""
        parts = [f"<p><strong>{self.label}</strong>: {_coded(self._said())}</p>"]
        parts += [_section(number, race, theme) for number, race in enumerate(self.races[:SHOWN], 1)]
        if len(self.races) > SHOWN:
            parts.append(f"<p>And {len(self.races) - SHOWN} more: see to_text().</p>")
        themed = f' data-theme="{theme}"' if theme else ""
        text = f'{STYLE}<section class="atops atops-races" aria-label="Races"{themed}>{"".join(parts)}</section>'
        if path is not None:
            Path(path).write_text(f"<!doctype html><meta charset=utf-8><title>{self.label}</title>{text}", "utf-8")
        return text

    def _said(self) -> str:
        """Return how many there are, what ended the run, what was not seen, and how to run it again."""
        count = len(self.races)
        parts = [f"{count} race{'' if count == 1 else 's'}" if count else "no race was found"]
        parts += [f"not seen: {', '.join(self.escapes)}"] if self.escapes else []
        parts += [f"the run ended with {self.ended}"] if self.ended else []
        parts += [f"the schedule that repeats it: `{self.schedule}`"] if self.schedule else []
        return "; ".join(parts)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return f"<RaceView: {len(self.races)} races>"


def _coded(text: str) -> str:
    """Return words as HTML, what stands between backticks as code."""
    return CODE.sub(r"<code>\1</code>", escape(text))


def _title(race: Sighting) -> str:
    where = ", ".join(each for each in (race.bytes_told, race.memory) if each)
    return f"{race.kind}: {where}"


def _section(number: int, race: Sighting, theme: Theme | None) -> str:
    mend = mend_of(race)
    pictures = [as_it_is(race, theme)] if race.ranges or mend else []
    pictures += [mended(race, mend, theme)] if mend else []
    sides = "".join(
        f"<li>{escape(side.actor)}: {escape(side.what)}"
        + (f", at {escape(side.place)}" if side.place else "")
        + "</li>"
        for side in race.sides
    )
    sources = "".join(
        f"<p>{escape(excerpt.place)}</p><pre tabindex=0>" + "\n".join(
            f"<mark>{sides:>3} {line:>5}  {escape(text)}</mark>" if sides else f"{sides:>3} {line:>5}  {escape(text)}"
            for line, text, sides in excerpt.lines
        ) + "</pre>" for excerpt in excerpts(race.sides)
    )  # fmt: skip
    strip = bytes_strip(race, theme)
    return (
        f"<details{' open' if number == 1 else ''}><summary>{number}. {escape(_title(race))}</summary><ol>{sides}</ol>"
        f'<div class="atops-pictures">{"".join(pictures)}</div>{strip}{sources}<p>{_coded(race.advice)}</p></details>'
    )
