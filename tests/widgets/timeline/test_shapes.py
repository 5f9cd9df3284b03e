"""Shapes of records: every record counts, failures stay visible, and what is wide enough is drawn on its own."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import Kind, TraceRecord
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import RECORDS, Columns, Texts
from atops_widgets.timeline import shapes as timeline_shapes
from atops_widgets.timeline.shapes import Pyramid, Shapes
from tests.runtime.trace_records import free_records
from tests.widgets.frames import FROZEN_MS

NONE = np.zeros(0, np.int64)


def view(records: list[TraceRecord], window: tuple[int, int], width: int, keep: list[int] | None = None) -> Shapes:
    """Return the shapes of records."""
    columns, pyramid = Columns(RECORDS, 100_000, Texts()), Pyramid()
    columns.extend(records)
    pyramid.update(columns)
    rows = np.arange(len(pyramid.book.rows))
    shapes, _ = pyramid.view(TimeAxis(*window), window, width, np.array(keep or [], np.int64), rows)
    assert shapes is not None
    return shapes


@pytest.mark.slow
@given(free_records(), st.integers(1, 200))
def test_every_record_counts_once_a_row(records: list[TraceRecord], width: int) -> None:
    """Whatever the width, the counts add up to the records on streams and engines, and the failed ones are seen."""
    if not records:
        return
    shapes = view(records, (0, 60), width)
    on_engines = [r for r in records if r.kind <= Kind.COPY_PEER or r.kind in (Kind.FILL, Kind.LAUNCH)]
    served = [r for r in on_engines if r.engine >= 0 and r.device >= 0]
    assert shapes.count.sum() == len(records) + len(served)
    assert shapes.failed.any() == any(record.status for record in records)
    assert (shapes.start <= shapes.end).all()
    assert (shapes.index[shapes.count == 1] >= 0).all()


def test_wide_records_are_drawn_on_their_own() -> None:
    """Two pixels suffice; narrower neighbours of one kind are one shape; one that must be kept is kept."""
    records = [TraceRecord(n, Kind.LAUNCH, 0, 1, n * 10, n * 10, n * 10 + 10, 0) for n in range(100)]
    wide = view(records, (0, 1000), 300)
    assert (len(wide), set(wide.count.tolist())) == (100, {1})
    narrow = view(records, (0, 1000), 50)
    assert (len(narrow), narrow.count.tolist()) == (1, [100])
    assert narrow.time.tolist() == [1000]
    kept = view(records, (0, 1000), 50, keep=[37])
    assert sorted(kept.index[kept.count == 1].tolist()) == [37]


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into small chunks, gathered beforehand, the picture covers the same pixels with the same counts."""
    random = np.random.default_rng(5)
    begin = np.sort(random.integers(0, 10**6, 3000))
    parts = (random.choice([0, 6], 3000), random.integers(0, 3, 3000), begin, random.integers(0, 300, 3000))
    records = [
        TraceRecord(n, Kind(kind), 0, stream, at, at, at + length, 0)
        for n, (kind, stream, at, length) in enumerate(zip(*(part.tolist() for part in parts), strict=True))
    ]
    whole = view(records, (0, 10**6), 400)
    monkeypatch.setattr(timeline_shapes, "CHUNK", 256)
    monkeypatch.setattr(timeline_shapes, "PART", 32)
    monkeypatch.setattr(timeline_shapes, "PER_CELL", 4)
    cut = view(records, (0, 10**6), 400)
    assert cut.count.sum() == whole.count.sum() == 3000
    assert cut.time.sum() == pytest.approx(whole.time.sum())
    assert _pixels(cut) == pytest.approx(_pixels(whole), abs=0.02)


def _pixels(shapes: Shapes) -> list[float]:
    """Return which part of 100 buckets of each row is covered."""
    parts = []
    for row in range(3):
        start, end = (times[shapes.row == row] for times in (shapes.start, shapes.end))
        parts.append(np.mean([((start < at + 5000) & (end > at)).any() for at in range(0, 10**6, 10**4)]))
    return [float(part) for part in parts]


def test_what_is_drawn_stays_while_more_comes() -> None:
    """Cells begin at multiples of their length: a later picture, of a longer or another time, has the same shapes."""
    records = [TraceRecord(n, Kind(n % 2), 0, 1, n * 7, n * 7, n * 7 + 3, 0) for n in range(600)]
    before, after = (view(records[:count], window, 100) for count, window in ((400, (0, 3300)), (600, (500, 4200))))
    drawn = [set(zip(*(getattr(shapes, field).tolist() for field in ("start", "end", "count")), strict=True))
             for shapes in (before, after)]  # fmt: skip
    assert {each for each in drawn[0] if 512 <= each[0] < 2700} <= drawn[1]
    assert len(before) > 50


def test_dropped_records_leave_the_picture() -> None:
    """When a table drops its oldest rows, whole chunks of them go, and new ones come."""
    columns, pyramid = Columns(RECORDS, 40_000, Texts()), Pyramid()
    for first in range(0, 120_000, 10_000):
        number = np.arange(first, first + 10_000)
        times = {name: number * 10 for name in ("submitted_ns", "started_ns", "finished_ns")}
        zero = np.zeros(len(number), np.int64)
        columns.extend_columns(
            {"seq": number, "kind": zero, "device": zero, "stream": zero, "status": zero, "name": zero, **times}
        )
        pyramid.update(columns)
    shapes, count = pyramid.view(TimeAxis(0, 1_200_000), (0, 1_200_000), 100, NONE, np.arange(1))
    assert shapes is not None
    assert 40_000 <= count <= 40_000 + 2 * timeline_shapes.CHUNK
    assert shapes.end.max() >= 1_199_990


@pytest.mark.slow
def test_a_million_records_are_quick() -> None:
    """A view of a million records is made of what was gathered before, not of the records."""
    count = 1_000_000
    begin = np.arange(count, dtype=np.int64) * 1000
    columns, pyramid = Columns(RECORDS, count, Texts()), Pyramid()
    columns.extend_columns({
        "seq": np.arange(count), "kind": np.full(count, 6), "device": np.zeros(count), "stream": np.arange(count) % 8,
        "submitted_ns": begin, "started_ns": begin, "finished_ns": begin + 800, "status": np.zeros(count),
        "name": np.zeros(count),
    })  # fmt: skip
    pyramid.update(columns)
    rows = np.arange(len(pyramid.book.rows))
    seconds = []
    for shift in range(6):
        began = time.thread_time()
        window = shift * 10**6, 10**9 + shift * 10**6
        shapes, seen = pyramid.view(TimeAxis(*window), window, 1200, NONE, rows)
        seconds.append(time.thread_time() - began)
        assert shapes is not None and seen > 990_000 and len(shapes) <= 8 * 1200
    assert min(seconds[1:]) < FROZEN_MS / 1000
