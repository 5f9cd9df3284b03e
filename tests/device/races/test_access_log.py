"""The log of a memory, which compares in bulk, against all pairs of accesses to each byte."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.device.races import bulk
from atops.device.races.access_log import AccessLog, Entry, Row, ordered
from atops.device.races.clocks import GridClock
from atops.device.races.rectangles import Rectangle

BLOCKS, THREADS, SIZE = 2, 2, 24
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["load", "store", "issue"]), st.integers(0, BLOCKS * THREADS - 1),
            st.builds(Rectangle, st.integers(0, 8), st.integers(1, 3), st.integers(3, 5), st.integers(1, 3)),
        ),
        st.tuples(st.just("wait"), st.integers(0, BLOCKS * THREADS - 1), st.none()),
        st.tuples(st.just("block barrier"), st.integers(0, BLOCKS - 1), st.none()),
    ),
    max_size=30,
)  # fmt: skip


def bytes_of(row: Rectangle) -> set[int]:
    """Return the bytes of a rectangle."""
    return {byte for start in row.starts for byte in range(start, start + row.run)}


@pytest.mark.slow
@pytest.mark.parametrize(("most", "few"), [(4, 200), (4, 0), (1 << 16, 200), (1 << 16, 0)])
@given(united=st.booleans(), steps=STEPS)
def test_bytes_that_race_are_found_and_no_others(
    most: int, few: int, united: bool, steps: list[tuple[Any, ...]]
) -> None:
    """A byte is told of exactly if two accesses to it race; what was used is all that was.

    `most` rows are kept before they are `united` or go into the map, up to `few` runs are gone through one by one.
    """
    grid = GridClock()
    blocks = [grid.block(number) for number in range(BLOCKS)]
    threads = [block.thread() for block in blocks for _ in range(THREADS)]
    turns = [0] * len(threads)
    flying: list[list[Entry]] = [[] for _ in threads]
    log, found, history = AccessLog(keeps_uses=True), [], list[tuple[Row, set[int]]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "FEW", few)
        for what, who, row in steps:
            if what == "block barrier":
                blocks[who].pass_barrier()
                continue
            turns[who] += 1
            if what == "wait":
                for entry in flying[who]:
                    entry.end, entry.end_turn = threads[who].stamp(), turns[who]
                flying[who] = []
                continue
            entry = Entry(None, what, threads[who].stamp(), turns[who], None, 0)
            if what == "issue":
                entry.end = None
                flying[who].append(entry)
            entered = (*row, what != "load", entry)
            log.rows.append(entered)
            if len(log) >= most:
                found += log.make_room() if united else log.replay()
            history.append((entered, bytes_of(row)))
        found += log.compare()
    racing = set[int]()
    for later, (second, theirs) in enumerate(history):
        for first, mine in history[:later]:
            if (first[4] or second[4]) and not ordered(first, second):
                racing |= mine & theirs
    assert {byte for *_, start, stop in found for byte in range(start, stop)} == racing
    for first, second, start, stop in found:
        assert (first[4] or second[4]) and not ordered(first, second)
        assert start < stop
    for write in (False, True):
        used = [(start, stop) for start, stop, stored, _ in log.footprint() if stored == write]
        whole = set().union(*(mine for row, mine in history if row[4] == write))
        assert {byte for start, stop in used for byte in range(start, stop)} == whole
        assert used == sorted(used) and all(one[1] < other[0] for one, other in pairwise(used))


@pytest.mark.parametrize("united", [True, False])
def test_what_is_in_flight_outlasts_a_barrier(united: bool) -> None:
    """A transfer issued before a comparison is compared with what comes after it, in whatever form it is kept."""
    block = GridClock().block(0)
    one, other = block.thread(), block.thread()
    log = AccessLog()
    issued, later = Entry(None, "issue", one.stamp(), 1, None, 0), Entry(None, "load", one.stamp(), 2, None, 0)
    issued.end = None
    log.rows += [(0, 4, 0, 1, True, issued), (8, 4, 0, 1, False, later)]
    assert not (log.make_room() if united else log.replay())
    block.pass_barrier()
    assert not log.compare()
    log.rows.append((2, 4, 0, 1, False, Entry(None, "load", other.stamp(), 1, None, 0)))
    ((first, second, start, stop),) = log.compare()
    assert (first[5], second[5].what, start, stop) == (issued, "load", 2, 4)
