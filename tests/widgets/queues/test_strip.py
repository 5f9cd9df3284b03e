"""How much was queued over time, in parts of that time."""

from __future__ import annotations

from atops_widgets.feed.columns import MOMENTS, RECORDS, Columns, Texts
from atops_widgets.queues.ledger import Ledger
from atops_widgets.queues.state import holding, moment_of, queued
from tests.widgets.queue_traces import standing


def test_each_part_says_what_was_held_at_its_end() -> None:
    """The strip agrees with the state at the end of each of its parts, and an empty ledger has an empty one."""
    story, texts, ledger = standing(100), Texts(), Ledger()
    moments, records = Columns(MOMENTS, 10_000, texts), Columns(RECORDS, 10_000, texts)
    moments.extend(story.moments)
    records.extend(story.records)
    ledger.update(moments, records)
    span, bins = queued(ledger, 0, 60)
    assert (span, len(bins)) == ([0, 121_000], 60)
    for part in range(60):
        assert bins[part] == holding(ledger, moment_of(span, part, 60)).open.sum()
    assert queued(Ledger(), 0, 10)[1].tolist() == [0] * 10
