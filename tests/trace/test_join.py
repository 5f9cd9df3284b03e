"""Traces of several boards as one: nothing is lost, nothing is mixed up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import WAITS, Kind, Status, Trace, TraceRecord
from atops.trace.join import BoardTrace, join
from tests.runtime.trace_records import traces

BOARDS = st.lists(st.builds(BoardTrace, traces(), st.text("ab", min_size=1), st.just(8), st.booleans()), max_size=3)


@pytest.mark.slow
@given(BOARDS)
def test_every_record_is_there_once(boards: list[BoardTrace]) -> None:
    """Kinds, names, sizes and durations stay; devices of boards differ; a wait names the same cause as before."""
    joined = join(boards)
    used = [board for board in boards if board.trace.records or board.trace.counters]
    if len(used) == 1:
        assert joined == used[0].trace
        return

    def told(trace: Trace) -> list[tuple[object, ...]]:
        return sorted((r.kind, r.status, r.name, r.bytes, r.finished_ns - r.submitted_ns) for r in trace.records)

    assert told(joined) == sorted(each for board in used for each in told(board.trace))
    assert len(joined.counters) == sum(len(board.trace.counters) for board in used)
    assert {r.device // 8 for r in joined.records if r.device >= 0} <= set(range(len(used)))
    names = {device: name.partition(",")[0] for device, name in joined.names.devices.items()}
    assert names == {8 * place + device: board.label for place, board in enumerate(used) for device in range(8)}
    causes = sum(r.kind in WAITS and r.correlation >= 0 for board in used for r in board.trace.records)
    assert causes == sum(r.cause >= 0 for r in joined.records)
    numbers = [r.seq for r in joined.records if r.seq >= 0]
    own = [r.seq for board in used for r in board.trace.records if r.seq >= 0]
    assert len(numbers) == len(own)


def test_clocks_of_machines_are_aligned_by_their_times_of_day() -> None:
    """Boards of one machine keep their times to the nanosecond; those of another one stand where they happened."""
    record = TraceRecord(0, Kind.LAUNCH, 0, 1, 100, 200, 300, Status.DONE, name="scale")
    here, beside, there = (Trace((record,), anchor_ns=anchor) for anchor in (5_000, 5_007, 905_000))
    machines = ((here, "a"), (beside, "a"), (there, "b"))
    boards = [BoardTrace(each, f"board {each.anchor_ns}", 1, False, machine) for each, machine in machines]
    joined = join(boards)
    assert [(each.device, each.started_ns) for each in joined.records] == [(0, 200), (1, 200), (2, 900_200)]
    assert joined.anchor_ns == 5_000
