"""Clocks of kernel threads: what they call ordered is what a walk over everything that synchronises calls ordered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.device.races.clocks import GridClock, Stamp, ThreadClock, before

BLOCKS, THREADS = 2, 2
STEPS = st.one_of(
    st.tuples(st.just("access"), st.integers(0, BLOCKS * THREADS - 1), st.just(0)),
    st.tuples(st.just("release"), st.integers(0, BLOCKS * THREADS - 1), st.integers(0, 1)),
    st.tuples(st.just("acquire"), st.integers(0, BLOCKS * THREADS - 1), st.integers(0, 1)),
    st.tuples(st.just("block barrier"), st.integers(0, BLOCKS - 1), st.just(0)),
    st.tuples(st.just("grid barrier"), st.just(0), st.just(0)),
)


@pytest.mark.slow
@given(st.lists(STEPS, max_size=40))
def test_ordered_is_what_synchronisation_reaches(steps: list[tuple[str, int, int]]) -> None:
    """Each thread keeps the set of accesses that come before all it does: the clocks say the same of each pair."""
    grid = GridClock()
    blocks = [grid.block(number) for number in range(BLOCKS)]
    threads: list[ThreadClock] = [block.thread() for block in blocks for _ in range(THREADS)]
    seen: list[set[int]] = [set() for _ in threads]
    handed: list[set[int]] = [set(), set()]  # by what was released, and the same as clocks know it
    known: list[dict[int, int]] = [{}, {}]
    accesses: list[tuple[int, Stamp, set[int]]] = []

    def meet(those: range) -> None:
        whole = set().union(*(seen[each] for each in those))
        for each in those:
            seen[each] = set(whole)

    for what, who, which in steps:
        if what == "access":
            accesses.append((who, threads[who].stamp(), set(seen[who])))
            seen[who].add(len(accesses) - 1)
        elif what == "release":
            handed[which] |= seen[who]
            for key, value in threads[who].release().items():
                known[which][key] = max(value, known[which].get(key, -1))
        elif what == "acquire":
            seen[who] |= handed[which]
            threads[who].acquire(dict(known[which]))
        elif what == "block barrier":
            meet(range(who * THREADS, (who + 1) * THREADS))
            blocks[who].pass_barrier()
        else:
            meet(range(BLOCKS * THREADS))
            grid.pass_barrier()
    for later, (thread, stamp, reached) in enumerate(accesses):
        for earlier, (other, first, _) in enumerate(accesses[:later]):
            if other != thread:
                assert before(first, stamp) == (earlier in reached)


def test_a_stamp_is_shared_until_something_synchronises() -> None:
    """Accesses between two such points cost no object each."""
    grid = GridClock()
    block = grid.block(0)
    one, other = block.thread(), block.thread()
    first = one.stamp()
    assert one.stamp() is first
    one.release()
    assert one.stamp() is not first
    second = other.stamp()
    block.pass_barrier()
    assert other.stamp() is not second
    assert before(second, one.stamp())
    assert not before(one.stamp(), other.stamp())
