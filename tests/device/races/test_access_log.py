"""The log of a memory, which compares in bulk, against all pairs of accesses to each byte."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.device.races import access_log
from atops.device.races.access_log import AccessLog, Entry, ordered
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
@pytest.mark.parametrize("most", [4, 1 << 16])  # rows before they go into the map
@given(steps=STEPS)
def test_bytes_that_race_are_found_and_no_others(most: int, steps: list[tuple[Any, ...]]) -> None:
    """A byte is told of exactly if two accesses to it race; what was used is all that was."""
    grid = GridClock()
    blocks = [grid.block(number) for number in range(BLOCKS)]
    threads = [block.thread() for block in blocks for _ in range(THREADS)]
    turns = [0] * len(threads)
    flying: list[list[Entry]] = [[] for _ in threads]
    log, found, history = AccessLog(keeps_uses=True), [], list[tuple[Entry, set[int]]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access_log, "MOST", most)
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
            entry = Entry(None, what, what != "load", threads[who].stamp(), turns[who], None, 0)
            if what == "issue":
                entry.end = None
                flying[who].append(entry)
            found += log.add([row], entry)
            history.append((entry, bytes_of(row)))
        found += log.compare()
    racing = set[int]()
    for later, (second, theirs) in enumerate(history):
        for first, mine in history[:later]:
            if (first.write or second.write) and not ordered(first, second):
                racing |= mine & theirs
    assert {byte for *_, start, stop in found for byte in range(start, stop)} == racing
    for first, second, start, stop in found:
        assert (first.write or second.write) and not ordered(first, second)
        assert start < stop
    for write in (False, True):
        used = [(start, stop) for start, stop, stored, _ in log.footprint() if stored == write]
        whole = set().union(*(mine for entry, mine in history if entry.write == write))
        assert {byte for start, stop in used for byte in range(start, stop)} == whole
        assert used == sorted(used) and all(one[1] < other[0] for one, other in pairwise(used))
