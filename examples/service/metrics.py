"""Counters, gauges and histograms, and the Prometheus text that shows them. It knows nothing of what is counted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Protocol, TypeAlias

__all__ = ("CONTENT_TYPE", "Counter", "Gauge", "Histogram", "Labels", "Metric", "exposition")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Labels: TypeAlias = tuple[tuple[str, str], ...]
Sample: TypeAlias = tuple[str, Labels, float]  # what follows the metric's name, labels, value


class Metric(Protocol):
    """A name, what it means, and samples."""

    name: str
    about: str
    kind: str

    def samples(self) -> Iterator[Sample]:
        """Yield what it stands at."""


class Counter:
    """A number for each value of one label, that only grows."""

    kind = "counter"

    def __init__(self, name: str, about: str, label: str) -> None:
        self.name, self.about, self._label = name, about, label
        self._counts: dict[str, int] = {}

    def add(self, value: str) -> None:
        """Count one more with this value of the label."""
        self._counts[value] = self._counts.get(value, 0) + 1

    def samples(self) -> Iterator[Sample]:
        """Yield a sample for each value that was counted."""
        for value, count in sorted(self._counts.items()):
            yield "", ((self._label, value),), count


class Gauge:
    """Numbers that are read on request: `read` returns one for each set of labels."""

    kind = "gauge"

    def __init__(self, name: str, about: str, read: Callable[[], Mapping[Labels, float]]) -> None:
        self.name, self.about, self._read = name, about, read

    def samples(self) -> Iterator[Sample]:
        """Yield what is read now."""
        for labels, value in self._read().items():
            yield "", labels, value


class Histogram:
    """How many observations were at most as large as each bound, their number and their sum."""

    kind = "histogram"

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self.name, self.about = name, about
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        """Yield the cumulative buckets, the sum and the count."""
        names = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        for name, count in zip(names, accumulate(self._counts), strict=True):
            yield "_bucket", (("le", name),), count
        yield "_sum", (), self._sum
        yield "_count", (), sum(self._counts)


def exposition(metrics: Iterable[Metric]) -> str:
    """Return the text format, version 0.0.4, that Prometheus scrapes."""
    lines = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {metric.about}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for suffix, labels, value in metric.samples():
            inside = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels)
            lines.append(f"{metric.name}{suffix}{f'{{{inside}}}' if inside else ''} {value!r}")
    return "\n".join(lines) + "\n"
