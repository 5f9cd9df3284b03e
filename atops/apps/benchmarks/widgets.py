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
from atops.apps.benchmarks.figures import Figure, Skipped, at_most, compared, value_at_most
from atops.apps.benchmarks.measure import Effort, interleave

__all__ = ("Watcher", "widgets")

ROOT = Path(atops.__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "watched_pipeline.py"
CHUNKS = 1000  # more than a second's work: widgets keep to their share of a processor over seconds, not at once
RECORDS = 1_000_000
FRAME_MS = 1000 / 30


def widgets(effort: Effort) -> Iterator[Figure]:
    """Yield the cost of each widget to what it watches, and of its pictures. Raises Skipped without the widgets."""
    if importlib.util.find_spec("anywidget") is None:
        raise Skipped("anywidget is not installed; the extra `notebook` brings it")
    if not SCRIPT.exists():
        raise Skipped("the widgets' script comes with the source tree, and this is an installed package")
    chunks, records = effort.size(CHUNKS, 2), effort.size(RECORDS, 1000)
    with Watcher() as watcher:
        watched = {**watcher.labels, "everybody": "all widgets"}
        sides = {who: partial(watcher.seconds, f"{who} {chunks}") for who in ("nobody", *watched)}
        times = interleave(effort.times(), clean=False, **sides)
        for who, label in watched.items():
            yield compared(
                f"pipeline watched by {label}", times, who, "nobody",
                reference="unwatched", unit="µs", count=chunks, budget=at_most(1.05),
            )  # fmt: skip
        for who, label in watcher.labels.items():
            seconds = watcher.seconds(f"scene {who} {records}")
            yield Figure(f"picture of {records:,}, {label}", seconds * 1e3, "ms", budget=value_at_most(FRAME_MS))


class Watcher:
    """The other process. A context manager. `labels` are the widgets' by the names of their classes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{SCRIPT.parent.name}.{SCRIPT.stem}"],
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
