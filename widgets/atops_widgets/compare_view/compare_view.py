"""Two runs beside each other: both timelines, the first command that differs marked in both, and a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import ClassVar, Final

from atops.base.choice import Plain, Random
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Trace
from atops.checking.drawing import difference
from atops.checking.runner import Program
from atops.checking.stepper import Stepper, off_loop
from atops.runtime.driver_board import STARTS, STARTS_LOCK, Board
from atops.runtime.run import run
from atops.trace.compare import Comparison, Pair, compare, told
from atops_widgets.drawing.theme import LAYOUT, Theme, style_sheet
from atops_widgets.feed.feed import TraceSource, trace_of
from atops_widgets.timeline.timeline import Timeline

__all__ = ("Compare",)

SHOWN: Final = 300  # rows of the table
CELL: Final = 'style="text-align:left;vertical-align:top;padding:1px 14px 1px 0"'
STYLE: Final = f"""<style>{style_sheet(":is(.atops,.atops-svg)")}{LAYOUT}
.atops-compare tr[data-what]{{font-weight:600}}.atops-compare tr[data-first]{{outline:2px solid var(--select)}}
.atops-compare figure{{margin:6px 0}}.atops-compare table{{border-collapse:collapse;font-size:12px}}</style>"""
SIGNS: Final = {
    "alike": "", "another time": "", "another end": "ends otherwise",
    "earlier in the second": "earlier in the second", "later in the second": "later in the second",
    "only in the first": "only here", "only in the second": "only here",
}  # fmt: skip


class Compare:
    """Show two runs beside each other, and where they differ first.

        atops_widgets.Compare("before.trace.gz", "after.trace.gz")     # traces, trace files, drivers
        atops_widgets.Compare.of(program, 0, 1)                        # two seeds, or two schedules, of a program

    Commands are aligned by stream, kind, name and bytes, in the order in which they ended; `comparison` is the result
    for programs, as `atops.trace.compare.compare` gives it. It is plain HTML, without a script.
    """

    label: ClassVar[str] = "Comparison"

    def __init__(self, one: TraceSource, other: TraceSource, names: tuple[str, str] = ("first", "second")) -> None:
        """Take two runs, and what they are called. Raises InvalidValue for what is none, or a file without a trace."""
        self.comparison: Comparison = compare(trace_of(one), trace_of(other))
        self.names = names
        self.choices: tuple[str, ...] = ()
        """Of two runs under schedules: the lines that say which choice is the first that differs; none if none does."""

    @classmethod
    def of(
        cls, program: Program, one: str | int, other: str | int, *, arguments: Sequence[object] = (),
        options: EmulatorOptions | None = None,
    ) -> Compare:  # fmt: skip
        """Run a coroutine function under two schedules, and compare: "plain", seeds of random ones, or strings.

        What it raises ends its run, and the trace up to there is compared. So are the choices of both runs: threads of
        a kernel are no commands. Inside a running loop it runs on another thread.
        """
        options = replace(options or EmulatorOptions(), clock="virtual")
        traces = off_loop(lambda: [_traced(program, arguments, options, each) for each in (one, other)])
        names = [f"seed {each}" if isinstance(each, int) else each if len(each) < 20 else f"the {which} schedule"
                 for which, each in (("first", one), ("second", other))]  # fmt: skip
        view = cls(traces[0], traces[1], (names[0], names[1]))
        steppers = []
        for each in (one, other):
            steppers.append(Stepper(program, arguments=arguments, options=options))
            if isinstance(each, str) and each != "plain":
                steppers[-1].load(each)
            else:
                steppers[-1].finish(Plain() if isinstance(each, str) else Random(each))
        verdicts = [f"{name} ({stepper.verdict})" for name, stepper in zip(names, steppers, strict=True)]
        view.choices = tuple(difference(steppers[0].names, steppers[1].names, (verdicts[0], verdicts[1])))
        return view

    def to_text(self, width: int = 100) -> str:
        """Return where they differ, as text."""
        first, *lines = str(self.comparison).splitlines()
        return "\n".join([f"{self.names[0]} and {self.names[1]}: {first}{self._unknown()}", *lines, *self.choices])

    def to_html(self, path: str | os.PathLike[str] | None = None, theme: Theme | None = None) -> str:
        """Return it as HTML that needs nothing else; write it to `path`. Without a theme it follows the page."""
        found = self.comparison
        marked = None if found.first is None else found.pairs[found.first]
        figures = []
        for name, trace, record in ((self.names[0], found.one, marked and marked.one),
                                    (self.names[1], found.other, marked and marked.other)):  # fmt: skip
            picture = Timeline(trace)
            if record:
                picture.feed.selection.select(record.seq)
            figures.append(f"<figure><figcaption>{escape(name)}</figcaption>{picture.to_svg(theme=theme)}</figure>")
            picture.close()
        chosen = f"<pre tabindex=0>{escape(chr(10).join(self.choices))}</pre>" if self.choices else ""
        themed = f' data-theme="{theme}"' if theme else ""
        text = (
            f'{STYLE}<section class="atops atops-compare" aria-label="{self.label}"{themed}>'
            f"<p><strong>{self.label}</strong>: {escape(found.verdict + self._unknown())}</p>{chosen}"
            f"{''.join(figures)}{self._table()}</section>"
        )
        if path is not None:
            Path(path).write_text(f"<!doctype html><meta charset=utf-8><title>{self.label}</title>{text}", "utf-8")
        return text

    def _unknown(self) -> str:
        """Say what the ends of the commands do not tell where choices differ; empty where something else differs."""
        if self.comparison.first is not None or not self.choices:
            return ""
        return "; the choices differ: something else came in another order, such as tasks or threads of a kernel"

    def _table(self) -> str:
        """Return the commands where they differ, and some around; empty where they do not."""
        found = self.comparison
        if found.first is None:
            return ""
        heads = "".join(f"<th {CELL}>{escape(each)}</th>" for each in ("", *self.names))
        rows = []
        for place, pairs in found.shown():
            if not pairs:
                rows.append(f"<tr><td></td><td colspan=2 {CELL}>{place:,} alike</td></tr>")
            rows += [self._row(at, pair) for at, pair in enumerate(pairs, place)]
        more = f"<p>And {len(rows) - SHOWN:,} more rows: see to_text().</p>" if len(rows) > SHOWN else ""
        return f"<table><tr>{heads}</tr>{''.join(rows[:SHOWN])}</table>{more}"

    def _row(self, at: int, pair: Pair) -> str:
        found = self.comparison
        sides = [
            ""
            if record is None
            else escape(told(record, trace)) + (f" ({SIGNS[pair.what]})" if SIGNS[pair.what] else "")
            for record, trace in ((pair.one, found.one), (pair.other, found.other))
        ]
        mark = " data-first" if at == found.first else ""
        what = f' data-what="{pair.what}"' if pair.differs else ""
        number = f"{at + 1} first difference" if mark else str(at + 1)
        return f"<tr{mark}{what}><td {CELL}>{number}</td>{''.join(f'<td {CELL}>{each}</td>' for each in sides)}</tr>"

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return f"<Compare of {self.names[0]} and {self.names[1]}: {self.comparison.verdict}{self._unknown()}>"


def _traced(
    program: Program, arguments: Sequence[object], options: EmulatorOptions, schedule: str | int
) -> Trace:  # fmt: skip
    """Run a program under a schedule; return its trace, up to where it failed."""
    if isinstance(schedule, int):
        options = replace(options, schedule="random", seed=schedule)
    else:
        options = replace(options, schedule=schedule)
    boards: list[Board] = []
    with STARTS_LOCK:
        STARTS.append(boards.append)
    try:
        run(program, options, *arguments)
    except Exception:
        if not boards:  # it has not even begun
            raise
    finally:
        with STARTS_LOCK:
            STARTS.remove(boards.append)
    return boards[0].tracer.snapshot()
