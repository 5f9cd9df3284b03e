"""The figures by numpy are those of `timeline.summary`, to the nanosecond."""

from __future__ import annotations

import pytest
from hypothesis import given

from atops.base.trace.records import TraceRecord
from atops.trace.summary import summary
from atops_widgets.feed.columns import RECORDS, Columns, Texts
from atops_widgets.timeline.scene import figures
from atops_widgets.timeline.shapes import starts
from tests.runtime.trace_records import free_records


@pytest.mark.slow
@given(free_records())
def test_the_same_as_the_summary(records: list[TraceRecord]) -> None:
    """Copy, kernel, overlap and idle time are equal for any trace."""
    columns = Columns(RECORDS, 100, Texts())
    columns.extend(records)
    found = figures(columns["device"], columns["kind"], starts(columns), columns["finished_ns"])
    known = summary(records)
    assert (found.copy_ns, found.kernel_ns, found.overlap_ns) == (known.copy_ns, known.kernel_ns, known.overlap_ns)
    assert found.overlap == known.overlap
    assert found.idle_ns == known.idle_ns
