"""One line of the bench's table: a measured value, what it is compared with, and the budget that it must hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.measuring.measure import Times

__all__ = ("Budget", "Figure", "Skipped", "at_least", "at_most", "compared", "quantity", "value_at_most")


class Skipped(Exception):
    """What a benchmark needs is not installed. The bench says so and goes on."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A bound on a figure's ratio or on its value. A ratio that must be large is one of speeds, else one of times."""

    sense: Literal["<=", ">="]
    limit: float
    of: Literal["ratio", "value"] = "ratio"

    def holds(self, figure: Figure) -> bool:
        """Tell whether a figure keeps the bound."""
        judged = figure.value if self.of == "value" else figure.ratio
        assert judged is not None, f"{figure.what} is judged by a ratio that it does not have"
        return judged <= self.limit if self.sense == "<=" else judged >= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value in `unit`, the reference beside it, their ratio with its quartiles, and the budget if any."""

    what: str
    value: float
    unit: str
    reference: str = ""
    reference_value: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    budget: Budget | None = None

    @property
    def held(self) -> bool | None:
        """Whether it keeps its budget; None where it has none."""
        return None if self.budget is None else self.budget.holds(self)

    def as_json(self) -> dict[str, Any]:
        """Return what the JSON report says of it."""
        budget = None if self.budget is None else {
            "sense": self.budget.sense, "limit": self.budget.limit, "of": self.budget.of,
        }  # fmt: skip
        return {
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "reference": self.reference or None,
            "reference_value": self.reference_value,
            "ratio": self.ratio,
            "spread": None if self.spread is None else list(self.spread),
            "budget": budget,
            "held": self.held,
        }


def at_least(limit: float) -> Budget:
    """Return the budget of something that must be at least `limit` times as fast as its reference."""
    return Budget(">=", limit)


def at_most(limit: float) -> Budget:
    """Return the budget of something that may take at most `limit` times as long as its reference."""
    return Budget("<=", limit)


def value_at_most(limit: float) -> Budget:
    """Return the budget of something that may be at most `limit`, in the figure's own unit."""
    return Budget("<=", limit, "value")


SECONDS = {"s": 1.0, "ms": 1e3, "µs": 1e6}


def quantity(seconds: float, unit: str, count: float) -> float:
    """Return what `seconds` for `count` operations (or bytes) are: a time for each, or with "/s" a rate."""
    if unit == "GB/s":
        return count / seconds / 1e9
    if unit == "/s":
        return count / seconds
    return seconds / count * SECONDS[unit]


def compared(
    what: str,
    times: Times,
    side: str,
    other: str,
    *,
    reference: str,
    unit: str,
    count: float,
    other_count: float | None = None,
    budget: Budget | None = None,
    faster: bool = False,
) -> Figure:
    """Return the figure of two sides that did `count` and `other_count` (the same unless told) operations each.

    The values are medians, the ratio is the median of the ratios of neighbours. The ratio is one of speeds (larger is
    better) if the unit is a rate, the budget a lower bound, or `faster` asks for it; else one of times.
    """
    theirs = count if other_count is None else other_count
    speeds = faster or unit.endswith("/s") or (budget is not None and budget.sense == ">=")
    scale = theirs / count
    ratio, (low, high) = times.ratio(side, other) * scale, times.spread(side, other)
    spread = (low * scale, high * scale)
    if speeds:
        ratio, spread = times.ratio(other, side) / scale, (1 / spread[1], 1 / spread[0])
    return Figure(
        what,
        quantity(times.typical(side), unit, count),
        unit,
        reference,
        quantity(times.typical(other), unit, theirs),
        ratio,
        spread,
        budget,
    )
