"""The figures of a run of the bench, and its JSON."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import Any

from atops.apps.info import versions
from benchmarks.measuring.figures import Figure
from benchmarks.measuring.measure import Effort

__all__ = ("Report", "usable_cpus")

SCHEMA = 1  # of the JSON; it grows by new keys, and by one when a key changes its meaning


@dataclass(slots=True)
class Report:
    """The figures of a run by benchmark, the benchmarks that were skipped, with the reason, and those that raised."""

    effort: Effort
    figures: dict[str, list[Figure]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def missed(self) -> list[Figure]:
        """The figures that do not keep their budget. A smoke run judges none."""
        if self.effort.smoke:
            return []
        return [figure for figures in self.figures.values() for figure in figures if figure.held is False]

    @property
    def held(self) -> bool:
        """Whether nothing raised and every budget that was judged holds."""
        return not self.failed and not self.missed

    def as_json(self) -> dict[str, Any]:
        """Return the report: versions and machine, one object a figure, in the order of the table."""
        figures = [{"benchmark": name, **each.as_json()} for name, made in self.figures.items() for each in made]
        if self.effort.smoke:
            figures = [{**figure, "held": None} for figure in figures]
        return {
            "schema": SCHEMA,
            "versions": versions(),
            "machine": {"platform": platform.platform(), "cpus": os.cpu_count(), "usable_cpus": usable_cpus()},
            "smoke": self.effort.smoke,
            "repeat": self.effort.repeat,
            "seconds": self.seconds,
            "held": self.held,
            "figures": figures,
            "skipped": self.skipped,
            "failed": self.failed,
        }


def usable_cpus() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
