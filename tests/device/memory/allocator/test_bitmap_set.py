"""The ordered set of integers against a plain set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.device.memory.allocator.bitmap_set import IntegerSet

BOUND = 1 << 28
near = st.one_of(st.integers(0, 4096), st.integers(0, BOUND - 1), st.integers(-2, 2).map(lambda by: (1 << 20) + by))
changes = st.lists(st.tuples(near, st.booleans()), max_size=60)


@pytest.mark.slow
@given(changes, st.lists(near, max_size=20))
def test_neighbours_agree_with_a_plain_set(changes: list[tuple[int, bool]], questions: list[int]) -> None:
    """Membership, order and both neighbours are those of a set to which the same changes were made."""
    members, plain = IntegerSet(BOUND), set[int]()
    for member, put in changes:
        if put:
            members.add(member)
            plain.add(member)
        elif member in plain:
            members.remove(member)
            plain.remove(member)
    assert list(members) == sorted(plain)
    assert bool(members) == bool(plain)
    for bound in [*questions, *plain, -1, BOUND - 1]:
        assert members.at_most(bound) == max((member for member in plain if member <= bound), default=-1)
        if bound >= 0:
            assert (bound in members) == (bound in plain)
            assert members.at_least(bound) == min((member for member in plain if member >= bound), default=-1)


def test_an_emptied_set_keeps_nothing() -> None:
    """Adding and removing far-apart members leaves an empty set with no member to find."""
    members = IntegerSet(BOUND)
    for member in range(0, BOUND, BOUND // 999):
        members.add(member)
    for member in range(0, BOUND, BOUND // 999):
        members.remove(member)
    assert not members
    assert members.at_least(0) == members.at_most(BOUND - 1) == -1
