"""The table of seeded bugs: all found, races in the first run, and in few words."""

from __future__ import annotations

import statistics

import pytest

from tests.races.seeded import FEW, PAIRS, rows

pytestmark = pytest.mark.slow


def test_every_seeded_bug_is_found_and_its_twin_is_silent() -> None:
    """Data races by the detectors at once, what an order decides in few schedules; and shrunk to few forced choices."""
    table = list(rows(("",), 100, 5))
    assert len(PAIRS) >= 100
    assert [str(row) for row in table if not row.failure or row.twin] == []
    assert {row.runs for row in table if row.failure == "race"} == {1}
    assert statistics.median(row.runs for row in table if row.failure != "race") <= 5
    assert sum(row.forced <= FEW for row in table) >= 0.95 * len(table)
    assert max(row.replays for row in table) <= 300
