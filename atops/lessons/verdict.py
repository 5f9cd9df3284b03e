"""What a lesson's judge says of a task, as text and for notebooks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from atops.checking.check_report import CheckReport

__all__ = ("Verdict", "failed", "passed")

NOT_AWAITED = re.compile(r"coroutine\b|'Completion'")  # in what Python says of a use


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
        more = f'<pre style="margin:0;background:none;color:inherit">{escape(rest.strip())}</pre>' if rest else ""
        return f'<div role="status"><b>{"✓" if self.right else "✗"} {escape(head)}</b>{more}</div>'

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(self.text)  # type: ignore[attr-defined]  # IPython's, which core knows nothing of


def passed(title: str, cases: int, runs: int) -> Verdict:
    """Return the verdict on a task that passes."""
    return Verdict(True, f"{title}: passed, {cases} cases in {runs} schedules, and nothing was unordered")


def failed(title: str, case: str, why: CheckReport | tuple[str, str], hint: str) -> Verdict:
    """Return the verdict on a task that fails in a case: by a report, or for a kind of reason and its words."""
    lines = [f"{title}: not yet"]
    if isinstance(why, tuple):
        return Verdict(False, "\n".join([*lines, f"with {case}: {why[1]}", "", f"Hint: {hint}"]), why[0])
    failure = why.failure
    kind, text = ("inconclusive", why.why) if failure is None else (failure.kind, failure.text)
    nth = f"under schedule {why.runs} of {why.asked}"
    if why.runs == 1:
        nth = "in the plain order, first come, first served"
    lines.append(f"with {case}, {nth}: {kind if why.races else f'{kind}, {text}'}")
    if kind == "exception" and NOT_AWAITED.search(text):
        lines.append("What has to be awaited gives its value only then: an `await` is missing there.")
    for race in _two(why.races):
        lines += ["", *(f"  {line}" for line in race.splitlines())]
    if why.forced:
        lines += ["", "The order that shows it:", *(f"  {each}" for each in why.forced)]
    if why.names and (why.forced or kind == "deadlock"):
        lines += ["", *(f"  {line}" for line in why.drawing.splitlines())]
    lines += ["", f"Hint: {hint}"]
    return Verdict(False, "\n".join(lines), kind, why.schedule if why.forced else None)


def _two(races: Sequence[str]) -> list[str]:
    """Return two reports of those that there are: of two kinds, if there are two."""
    others = [race for race in races if race.partition(":")[0] != races[0].partition(":")[0]]
    return [*races[:1], *(others or races[1:])[:1]]
