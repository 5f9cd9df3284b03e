"""What the notebook widgets cost: a pipeline that is watched against the same unwatched; pictures of a million records.

The widgets stand above this package, so they run in a process of their own, which a script of the source tree makes.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType

import atops
from benchmarks.measuring.figures import Budget, Figure, Skipped, at_most, compared, value_at_most
from benchmarks.measuring.measure import Effort, interleave

__all__ = ("Watcher", "widgets")

ROOT = Path(atops.__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "programs" / "watched_pipeline.py"
CHUNKS, SMALL = 200, 1000  # more than a second's work: widgets keep to their share over seconds, not at once
RECORDS = 1_000_000
FRAME_MS = 1000 / 30
WATCHED = 1.1  # half of it for pictures, which may take so much of a processor, half for telling what commands do


def widgets(effort: Effort) -> Iterator[Figure]:
    """Yield the cost of each widget to what it watches, and of its pictures. Raises Skipped without the widgets."""
    if importlib.util.find_spec("anywidget") is None:
        raise Skipped("anywidget is not installed; the extra `notebook` brings it")
    if not SCRIPT.exists():
        raise Skipped("the widgets' script comes with the source tree, and this is an installed package")
    chunks, small, records = effort.size(CHUNKS, 2), effort.size(SMALL, 2), effort.size(RECORDS, 1000)
    with Watcher() as watcher:
        for watchers, label in (*watcher.labels.items(), ("all", "all widgets")):
            what = f"demo's pipeline watched by {label}"
            yield _watched(watcher, effort, watchers, what, chunks, "", at_most(WATCHED))
        yield _watched(watcher, effort, "all", "  one of 96 KiB chunks, by all", small, "small ", None)
        for watchers, label in watcher.labels.items():
            seconds = watcher.seconds(f"scene {watchers} {records}")
            yield Figure(f"picture of {records:,}, {label}", seconds * 1e3, "ms", budget=value_at_most(FRAME_MS))


def _watched(
    watcher: Watcher, effort: Effort, watchers: str, what: str, chunks: int, kind: str, budget: Budget | None
) -> Figure:
    """Return the time of a chunk that is watched beside one that is not.

    Each has unwatched ones of its own: over a minute a machine changes by more than a widget costs.
    """
    sides = {each: partial(watcher.seconds, f"{kind}{each} {chunks}") for each in ("none", watchers)}
    times = interleave(effort.times(1.5), **sides)
    return compared(what, times, watchers, "none", reference="unwatched", unit="µs", count=chunks, budget=budget)


class Watcher:
    """The other process. A context manager. `labels` are the widgets' by the names of their classes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.programs.{SCRIPT.stem}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        self.labels: dict[str, str] = json.loads(self._answer())

    def seconds(self, what: str) -> float:
        """Return what the process measured for a line of its language. Raises RuntimeError when it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the widgets' process ended with code {self._process.wait()}")
        return answer

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate()  # the end of its input ends it
