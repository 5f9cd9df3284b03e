"""Tables of records as columns, and the ranges of memory that commands were given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops.base.trace.records import MemoryUse, TraceRecord
from atops_widgets.feed.columns import RECORDS, STEPS, USES, Columns, Ranges, Texts, union
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
    assert columns.values(TraceRecord) == kept
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


def table(*rows: MemoryUse) -> Columns:
    """Return a table of uses."""
    columns = Columns(USES, 100, Texts())
    columns.extend(rows)
    return columns


def test_the_ranges_of_one_command() -> None:
    """In the order of devices and addresses, whatever order they were told in; twice the same is once."""
    told = ((5, 1, 0, 64), (5, 0, 512, 256), (4, 0, 0, 9), (5, 0, 256, 300), (5, 0, 512, 256))
    uses = table(*(MemoryUse(*each) for each in told))
    ranges = Ranges.of(uses, 5)
    assert ranges.places() == [(0, 256, 556), (0, 512, 768), (1, 0, 64)]
    assert ranges.nbytes == 512 + 64
    assert ranges.brief() == "uses 3 ranges, 576 B"
    assert Ranges.of(uses, 4).brief() == "uses 1 range, 9 B"


def test_a_command_without_any() -> None:
    """Nothing is said of it, and the number that stands for no command has none, in an empty table too."""
    odd = table(MemoryUse(-1, 0, 0, 9))
    for ranges in (Ranges.of(odd, 7), Ranges.of(odd, -1), Ranges.of(table(), 1)):
        assert (ranges.places(), ranges.nbytes, ranges.brief()) == ([], 0, "")


def test_the_ranges_of_many() -> None:
    """Those of some rows of the table: by command, then by address."""
    uses = table(MemoryUse(5, 0, 512, 1), MemoryUse(4, 0, 0, 1), MemoryUse(5, 0, 0, 1))
    ranges = Ranges.among(uses, np.arange(3))
    assert ranges.seq.tolist() == [4, 5, 5] and ranges.start.tolist() == [0, 0, 512]


def test_union() -> None:
    """Bytes in several ranges count once."""
    assert union(np.array([10, 0, 40]), np.array([30, 20, 50])) == 40
    assert union(np.zeros(0, np.int64), np.zeros(0, np.int64)) == 0
