"""What a lesson's judge says of a task, as text and for notebooks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from atops.checking.check_report import CheckReport

__all__ = ("Verdict", "failed", "passed", "said")

# What Python says of slips, and what leads on; the first that fits.
SLIPS = (
    (r"async_generator can't be used in 'await'", "The task has a `yield`: it is to return all that it has to give."),
    (r"(?s)\A(?!.*of kernel).*can't be used in 'await'", "What the task returns is awaited: is it an `async def`?"),
    (r"coroutine\b|'\w*Completion'", "What has to be awaited gives its value only then: an `await` is missing there."),
    (r"InvalidStateError: invalid state", "That future is done already, or was cancelled: `done()` says so."),
    (r"<bound method", "A method is named there and not called: `()` is missing behind its name."),
    (r"context manager protocol", "What is waited for is entered by `async with`: is it a `with` there?"),
)
JUDGES = re.compile(r" \(judge of lesson \d+:\d+\)$")  # a place that no learner knows
NAMED = re.compile(r"^(AssertionError|KernelDeadlock|WouldDeadlock): (deadlock, )?")  # which the kind says, too

# Lines break between words: a notebook's own style breaks them anywhere.
PRE = "margin:0;background:none;color:inherit;white-space:pre-wrap;word-break:normal;overflow-wrap:break-word"


@dataclass(frozen=True, repr=False)
class Verdict:
    """The judge's answer: true where the task passes, and a text for the learner."""

    right: bool
    text: str
    kind: str = ""
    """How it failed: as of `atops.check`, or "too slow", "not the task", "never ends"; "" where it did not."""
    schedule: str | None = None
    """The failing schedule, made small; None where the plain one fails or none does."""

    def __bool__(self) -> bool:
        return self.right

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Verdict: {self.text.splitlines()[0]}>"

    def _repr_html_(self) -> str:
        head, _, rest = self.text.partition("\n")
        more = f'<pre style="{PRE}">{escape(rest.strip())}</pre>' if rest else ""
        return f'<div role="status"><b>{"✓" if self.right else "✗"} {escape(head)}</b>{more}</div>'

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(self.text)  # type: ignore[attr-defined]  # IPython's, which core knows nothing of


def passed(title: str, cases: int, runs: int) -> Verdict:
    """Return the verdict on a task that passes."""
    return Verdict(True, f"{title}: passed, {cases} cases in {runs} schedules, and nothing was unordered")


def failed(title: str, case: str, why: CheckReport | tuple[str, str], unawaited: Sequence[str] = ()) -> Verdict:
    """Return the verdict on a task that fails in a case: by a report, or for a kind of reason and its words.

    `unawaited` are the calls whose coroutines were dropped without an `await`, each with its place.
    """
    lines = [f"{title}: not yet"]
    calls = [f"{call} was called and not awaited, so that it never ran: `await` it" for call in unawaited]
    if isinstance(why, tuple):
        lines += [f"with {case}: {why[1]}", *calls]
        return Verdict(False, "\n".join(lines), why[0])
    failure = why.failure
    kind, text = ("inconclusive", why.why) if failure is None else (failure.kind, failure.text)
    plain = why.runs == 1
    nth = "in the plain order, first come, first served" if plain else f"under schedule {why.runs} of {why.asked}"
    lines += [f"with {case}, {nth}: {said(kind, text, bool(why.races))}", *calls]
    if kind == "exception":
        lines += [leads for slip, leads in SLIPS if re.search(slip, text)][:1]
    for race in _two(why.races):
        lines += ["", *(f"  {line}" for line in race.splitlines())]
    shown = why.forced if not plain else ()  # the plain order needs no choice to show it
    if shown:
        lines += ["", "The order that shows it:", *(f"  {each}" for each in shown)]
    if why.names and shown:
        lines += ["", *(f"  {line}" for line in why.drawing.splitlines())]
    return Verdict(False, "\n".join(lines), kind, why.schedule if why.forced else None)


def said(kind: str, text: str, races: bool = False) -> str:
    """Return how a run failed, in a line; of `races` and deadlocks that are reported below, the kind alone."""
    if races and kind in ("race", "deadlock"):
        return kind
    words = JUDGES.sub("", NAMED.sub("", text))
    return words if kind in ("assertion", "exception") else f"{kind}: {words}"


def _two(races: Sequence[str]) -> list[str]:
    """Return two reports of those that there are: of two kinds, if there are two."""
    others = [race for race in races if race.partition(":")[0] != races[0].partition(":")[0]]
    return [*races[:1], *(others or races[1:])[:1]]
