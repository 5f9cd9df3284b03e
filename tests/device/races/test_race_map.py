"""The map of a memory, against one that keeps every access to every byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.device.races.race_map import RaceMap

SIZE, THREADS = 12, 3
Access = tuple[int, int, tuple[int, ...]]  # its number, its thread, how many of each thread's accesses it comes after

STEPS = st.one_of(
    st.tuples(st.just("load"), st.integers(0, THREADS - 1), st.integers(0, SIZE), st.integers(0, SIZE)),
    st.tuples(st.just("store"), st.integers(0, THREADS - 1), st.integers(0, SIZE), st.integers(0, SIZE)),
    st.tuples(st.just("learn"), st.integers(0, THREADS - 1), st.integers(0, THREADS - 1), st.just(0)),
    st.tuples(st.just("forget"), st.just(0), st.integers(0, SIZE), st.integers(0, SIZE)),
)


def ordered(earlier: Access, later: Access) -> bool:
    """Compare vector clocks."""
    return earlier[2][earlier[1]] <= later[2][earlier[1]]


@pytest.mark.slow
@given(st.lists(STEPS, max_size=40))
def test_a_byte_is_told_of_when_a_pair_on_it_races(steps: list[tuple[str, int, int, int]]) -> None:
    """Of each byte the first race is told, and nothing that is none; where an access races, it is told of."""
    race_map: RaceMap[Access] = RaceMap(ordered)
    history: list[list[tuple[bool, Access]]] = [[] for _ in range(SIZE)]
    clocks = [[0] * THREADS for _ in range(THREADS)]
    raced: set[int] = set()
    for number, (what, one, two, three) in enumerate(steps):
        if what == "learn":
            clocks[one] = [max(pair) for pair in zip(clocks[one], clocks[two], strict=True)]
            continue
        start, stop = sorted((two, three))
        if what == "forget":
            race_map.forget(start, stop)
            for byte in range(start, stop):
                history[byte] = []
                raced.discard(byte)
            continue
        clocks[one][one] += 1
        write, access = what == "store", (number, one, tuple(clocks[one]))
        told: set[tuple[int, int]] = set()
        for earlier, first, last in race_map.note(start, stop, write, access):
            assert start <= first < last <= stop
            told |= {(byte, earlier[0]) for byte in range(first, last)}
        for byte in range(start, stop):
            wrong = {each[0] for stored, each in history[byte] if (stored or write) and not ordered(each, access)}
            mine = {each for where, each in told if where == byte}
            assert mine <= wrong
            if byte not in raced:
                assert bool(mine) == bool(wrong)
            if wrong:
                raced.add(byte)  # after its first race the map may have forgotten one side
            history[byte].append((write, access))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=200))
def test_what_it_keeps_is_bounded_by_the_bytes(ranges: list[tuple[int, int]]) -> None:
    """It has no more runs than there are bytes, however many accesses come."""
    race_map: RaceMap[Access] = RaceMap(ordered)
    for number, (one, two) in enumerate(ranges):
        race_map.note(min(one, two), max(one, two), bool(number % 3), (number, 0, (number, 0, 0)))
        assert len(race_map) <= SIZE
    race_map.forget(0, SIZE)
    assert len(race_map) == 0


def test_an_empty_range_is_no_access() -> None:
    """Nothing is entered, and nothing told."""
    race_map: RaceMap[Access] = RaceMap(ordered)
    race_map.note(0, 4, True, (0, 0, (1, 0, 0)))
    assert race_map.note(2, 2, True, (1, 1, (0, 1, 0))) == []
    assert race_map.note(4, 8, True, (2, 1, (0, 2, 0))) == []
    assert [found[1:] for found in race_map.note(2, 6, False, (3, 2, (0, 0, 1)))] == [(2, 4), (4, 6)]
