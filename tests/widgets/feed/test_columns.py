"""Columns grow, keep what views see, and drop their oldest rows visibly; records come back as they went in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops_widgets.feed.columns import RECORDS, STEPS, Columns, Texts
from tests.runtime.trace_records import free_records


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(free_records(), max_size=4), st.integers(1, 40))
def test_records_come_back(batches: list[list], capacity: int) -> None:
    """The newest records that fit come back equal, and what was dropped is counted."""
    columns, everything = Columns(RECORDS, capacity, Texts()), []
    for batch in batches:
        columns.extend(batch)
        everything += batch
    kept = everything[-capacity:]
    assert columns.records() == kept
    assert columns.start == len(everything) - len(kept)
    assert [columns.record(index) for index in range(len(columns))] == kept
    assert columns["seq"].tolist() == [record.seq for record in kept]


def test_a_view_stays_as_it_is() -> None:
    """A view taken before rows are added, moved or dropped keeps its values."""
    columns = Columns(STEPS, 1500, Texts())
    columns.extend_columns({field: np.arange(1000) for field in STEPS if field != "turn"} | {"turn": np.zeros(1000)})
    view = columns["at_ns"]
    for _ in range(30):
        columns.extend([(7,) * len(STEPS)] * 500)
    assert view.tolist() == list(range(1000))
    assert (len(columns), columns.start) == (1500, 1000 + 15000 - 1500)


def test_tuples_of_a_tracer_are_translated() -> None:
    """Integers in the order of the fields become rows; numbers of names become numbers of our texts."""
    texts = Texts()
    columns = Columns(RECORDS, 10, texts)
    table = np.array([texts.number(text) for text in ("", "b", "a")])
    columns.extend_tuples([(5, 6, 0, 1, 10, 20, 30, 0, 0, -1, -1, -1, -1, -1, 2, 1)], table)
    record = columns.record(0)
    assert (record.seq, record.name, record.kind, record.finished_ns, record.engine) == (5, "a", 6, 30, 1)
    assert texts.number("a") == 2 and texts.all == ["", "b", "a"]
