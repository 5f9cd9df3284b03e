"""What a page is told of a run and of a check, as JSON holds it, and the same as plain HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple, TypeAlias

from atops.base.choice import Name
from atops.checking.actors import owner, short
from atops.checking.check_report import CheckReport, ReportedRun
from atops.checking.search import Progress
from atops.checking.stepper import Peek, Stepper
from atops_widgets.drawing.theme import LAYOUT, style_sheet

__all__ = (
    "KINDS",
    "LOOK",
    "Told",
    "Trail",
    "runs_told",
    "say_of",
    "search_told",
    "state_told",
    "still",
    "still_search",
    "trail_told",
)

Told: TypeAlias = dict[str, Any]

# Of each kind of choice: a letter, the number of a colour in the style sheet, and what the legend calls it.
KINDS: Final[Mapping[str, tuple[str, int, str]]] = {
    "task": ("P", 7, "program's task"), "stream": ("S", 0, "stream"), "engine": ("E", 5, "copy engine"),
    "thread": ("T", 6, "kernel thread"), "transfer": ("D", 2, "transfer (DTE)"), "callback": ("C", 11, "callback"),
    "timer": ("t", 8, "timer"), "time": ("»", 8, "time goes on"), "step": ("R", 14, "runtime"),
    "block": ("R", 14, "runtime"),
}  # fmt: skip


def state_told(stepper: Stepper, position: int, known: int, peeks: Mapping[int, Peek]) -> Told:
    """Return where a run stands: what could come, memory, queues, and how it ended if it did."""
    look, options = stepper.look, stepper.choices()
    names = [option.name for option in options]
    return {
        "name": stepper.name, "verdict": stepper.verdict, "over": not options, "position": position, "known": known,
        "step": len(stepper.names),
        "last": _words(stepper.names[-1], names, look.streams) if stepper.names else "",
        "options": [_option(stepper, at, names, peeks.get(at)) for at in range(len(options))],
        "memory": [each._asdict() for each in stepper.memory],
        "queues": [
            {"name": queue.name, "commands": [each._asdict() for each in queue.commands]} for queue in look.queues
        ],
        "schedule": stepper.schedule or "",
        "failure": "" if stepper.failure is None else f"{stepper.failure.kind}: {stepper.failure.text}",
    }  # fmt: skip


def say_of(state: Told) -> str:
    """Return in a sentence where a run stands."""
    came = f"Step {state['step']}: {state['last']}. " if state["last"] else ""
    if state["over"]:
        return f"{came}{state['failure'] or 'It passed'}. It is over after {state['position']} picks."
    return f"{came}Pick what comes next: {len(state['options'])} could."


def _option(stepper: Stepper, at: int, names: Sequence[Name], peek: Peek | None) -> Told:
    option = stepper.choices()[at]
    does, place = stepper.look.doing.get(option.name, ("", ""))
    return {
        "words": _words(option.name, names, stepper.look.streams), "kind": str(option.name[0]),
        "does": does, "place": place or option.place, "would": "" if peek is None else _would(peek),
    }  # fmt: skip


def _words(name: Name, others: Sequence[Name], streams: Mapping[Name, str]) -> str:
    """Return a name in few letters; streams as the program calls them."""
    words, label = short(name, others), streams.get(owner(name), "")
    return words.replace(short(owner(name), others), label, 1) if label else words


def _would(peek: Peek) -> str:
    """Return what a pick would do, in a line."""
    changes = list(peek.changes[:3]) + (["..."] if len(peek.changes) > 3 else [])
    return "; ".join(each for each in (str(peek.touched), ", ".join(changes)) if each)


class Trail(NamedTuple):
    """All that has come in a run, the places of that, the positions of what was picked, and the names of streams."""

    names: tuple[Name, ...] = ()
    places: tuple[str, ...] = ()
    picked: tuple[int, ...] = ()
    streams: Mapping[Name, str] = {}


def trail_told(trail: Trail, before: Iterable[Name] = ()) -> Told:
    """Return a trail as JSON: actors, and of each step whose it was, its kind, its words and its place.

    The lanes of names that came `before`, in a run that it is compared with, are the first ones.
    """
    names, places, picked, streams = trail
    came = set(map(owner, names))
    lanes = [lane for lane in dict.fromkeys(map(owner, (*before, *names))) if lane in came]
    actors = {lane: at for at, lane in enumerate(lanes)}
    texts: dict[str, int] = {}
    steps = []
    for name, place in zip(names, places, strict=True):
        words = _words(name, lanes, streams)
        steps.append([
            actors[owner(name)], str(name[0]),
            texts.setdefault(words, len(texts)), texts.setdefault(place, len(texts)),
        ])  # fmt: skip
    return {
        "actors": [_words(each, lanes, streams) for each in actors], "steps": steps, "texts": list(texts),
        "picked": list(picked),
    }  # fmt: skip


def search_told(progress: Progress, report: CheckReport | None, seconds: float) -> Told:
    """Return how far a check is after so many seconds, and what it has found once it is over."""
    return {
        "stage": progress.stage, "runs": progress.runs, "cut": progress.cut, "asked": progress.asked,
        "replays": progress.replays, "choices": progress.choices,
        "rate": round((progress.runs + progress.replays) / max(1e-6, seconds)),
        "kinds": [list(each) for each in progress.kinds.copy().most_common()],
        "found": "" if progress.failure is None else f"{progress.failure.kind}: {progress.failure.text}",
        "sentence": "" if report is None else report.sentence,
    }  # fmt: skip


def runs_told(report: CheckReport, streams: Mapping[Name, str]) -> list[Told]:
    """Return the runs of a failure: as it was found, if it was made smaller, and as it was made small."""
    if report.schedule is None or report.failure is None:
        return []
    small = ReportedRun(report.schedule, report.forced, report.names, report.places)
    first = () if report.original is None else report.original.names
    both = [("As it was found", report.original)] if report.original is not None else []
    return [
        {
            "title": title, "schedule": run.schedule,
            "forced": [[each.position, f"{_words(each.name, run.names, streams)}, "
                        f"not {_words(each.instead_of, run.names, streams)}"] for each in run.forced],
            "trail": trail_told(Trail(run.names, run.places, tuple(each.position for each in run.forced), streams),
                                first),
        } for title, run in [*both, ("Made small", small)]
    ]  # fmt: skip


# ---- as plain HTML

LOOK: Final = f"<style>{style_sheet()}{LAYOUT}</style>"
CELL: Final = 'style="text-align:left;padding:1px 10px 1px 0"'


def still(state: Told, drawing: str) -> str:
    """Return where a run stands as HTML without a script."""
    parts = [f"<p><strong>{escape(state['name'])}</strong>: {escape(state['verdict'])}</p>"]
    if state["options"]:
        rows = [[str(at), each["words"], each["does"], each["place"], each["would"]]
                for at, each in enumerate(state["options"])]  # fmt: skip
        parts.append(_table("What can come next", ("", "who", "does", "at", "would"), rows))
    memory = [
        [each["name"], " ".join((each["where"], each["owner"])).strip(), each["type"], " ".join(_values(each))]
        for each in state["memory"]
    ]  # fmt: skip
    parts.append(_table("Memory", ("name", "where", "type", "values"), memory) if memory else "")
    queues = [
        [queue["name"], each["words"], each["place"], "runs" if each["running"] else ""]
        for queue in state["queues"] for each in queue["commands"]
    ]  # fmt: skip
    parts.append(_table("Queues", ("stream", "command", "at", ""), queues) if queues else "")
    if drawing:
        parts.append(f"<p>What has come:</p><pre>{escape(drawing)}</pre>")
    if state["schedule"]:
        parts.append(f"<p>Schedule: <code>{escape(state['schedule'])}</code></p>")
    return f'{LOOK}<section class="atops" aria-label="Scheduler">{"".join(parts)}</section>'


def still_search(found: Told, runs: Sequence[Told]) -> str:
    """Return a check as HTML without a script."""
    state = found["sentence"] or f"{found['stage']}: {found['runs']} of {found['asked']} schedules"
    parts = [f"<p>{escape(state)}</p>"]
    kinds = [[KINDS.get(kind, ("", 0, kind))[2], f"{count:,}"] for kind, count in found["kinds"]]
    parts.append(_table("What came", ("kind", "how often"), kinds))
    for run in runs:
        rows = [[str(at + 1), words] for at, words in run["forced"]]
        parts.append(_table(f"{run['title']}: {len(rows)} forced", ("step", "came"), rows))
        parts.append(f"<p><code>{escape(run['schedule'])}</code></p>")
    return f'{LOOK}<section class="atops" aria-label="Schedule explorer">{"".join(parts)}</section>'


def _values(memory: Told) -> list[str]:
    return [f"{value}*" if at in memory["changed"] else value for at, value in enumerate(memory["values"])]


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th {CELL}>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td {CELL}>{escape(each)}</td>" for each in row) + "</tr>" for row in rows)
    return f"<table><caption {CELL}><strong>{escape(title)}</strong></caption><tr>{head}</tr>{body}</table>"
