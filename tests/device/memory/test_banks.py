"""Placement over banks against a model, and the ranges that cross from one bank into the next."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from atops.device.memory.banks import Banks, NoRoom

GRANULE, PART, COUNT = 256, 12, 4


class NaiveBanks:
    """One flag for each granule of all banks."""

    def __init__(self) -> None:
        self.free = [True] * (PART * COUNT)
        self.live: dict[int, int] = {}

    def runs(self, walls: bool) -> list[tuple[int, int]]:
        """Return (length, start) of the free runs, cut at the ends of banks or not."""
        found: list[tuple[int, int]] = []
        for granule, free in enumerate(self.free):
            begins = granule == 0 or not self.free[granule - 1] or (walls and granule % PART == 0)
            if free and begins:
                found.append((1, granule))
            elif free:
                found[-1] = found[-1][0] + 1, found[-1][1]
        return found

    def place(self, need: int, bank: int | None, top_down: bool) -> int | None:
        inside = [run for run in self.runs(walls=True) if bank is None or run[1] // PART == bank]
        if bank is None:
            across = [run for run in self.runs(walls=False) if run[1] // PART != (run[1] + run[0] - 1) // PART]
        else:
            across = []
        if top_down:
            return max((start + length - need for length, start in inside + across if length >= need), default=None)
        fitting = [run for run in inside if run[0] >= need] or [run for run in across if run[0] >= need]
        return min(fitting)[1] if fitting else None

    def allocate(self, size: int, bank: int | None, top_down: bool) -> int | None:
        need = max(1, -(-size // GRANULE))
        start = self.place(need, bank, top_down)
        if start is not None:
            self.free[start : start + need] = [False] * need
            self.live[start] = need
        return None if start is None else start * GRANULE


class BanksMachine(RuleBasedStateMachine):
    """Do the same to both and compare places and figures."""

    def __init__(self) -> None:
        super().__init__()
        self.banks = Banks(PART * COUNT * GRANULE, COUNT, GRANULE)
        self.naive = NaiveBanks()
        self.live: list[tuple[int, int]] = []

    @rule(
        size=st.one_of(st.integers(0, 4 * GRANULE), st.integers(0, 50 * GRANULE)),
        bank=st.one_of(st.none(), st.integers(0, COUNT - 1)),
        top_down=st.booleans(),
    )
    def allocate(self, size: int, bank: int | None, top_down: bool) -> None:
        expected = self.naive.allocate(size, bank, top_down)
        if expected is None:
            with pytest.raises(NoRoom):
                self.banks.allocate(size, bank, top_down=top_down)
        else:
            assert self.banks.allocate(size, bank, top_down=top_down) == expected
            self.live.append((expected, size))

    @precondition(lambda self: self.live)
    @rule(which=st.randoms(use_true_random=False))
    def free(self, which: random.Random) -> None:
        address, size = self.live.pop(which.randrange(len(self.live)))
        need = self.naive.live.pop(address // GRANULE)
        self.naive.free[address // GRANULE : address // GRANULE + need] = [True] * need
        assert self.banks.free(address, size) == need * GRANULE

    @invariant()
    def figures_agree(self) -> None:
        for bank, part in enumerate(self.banks.parts):
            free = self.naive.free[bank * PART : (bank + 1) * PART]
            assert part.used == free.count(False) * GRANULE
        longest = [max((length for length, _ in self.naive.runs(walls)), default=0) for walls in (True, False)]
        assert self.banks.largest_free == max(longest) * GRANULE
        assert self.banks.used == self.naive.free.count(False) * GRANULE <= self.banks.peak

    @invariant()
    def warm_ranges_are_free_and_cover_what_was_freed(self) -> None:
        hulls = list(self.banks.warm)
        assert self.banks.warm.total == sum(end - start for start, end in hulls)
        for start, end in hulls:
            assert all(self.naive.free[start:end])


TestBanksMachine = BanksMachine.TestCase
TestBanksMachine.settings = settings(max_examples=12, stateful_step_count=50, deadline=None)


@pytest.mark.slow
class TestBanksMachineForLong(BanksMachine.TestCase):
    """The same with more examples."""

    settings = settings(max_examples=80, stateful_step_count=50, deadline=None)


def test_one_allocation_can_be_the_whole_memory() -> None:
    """A range as large as all banks together is handed out, counted in each bank, and comes back whole."""
    banks = Banks(4 << 20, 4, 256)
    assert banks.largest_free == 4 << 20
    assert banks.allocate(4 << 20) == 0
    assert [part.used for part in banks.parts] == [1 << 20] * 4
    assert banks.free(0, 4 << 20) == 4 << 20
    assert banks.largest_free == 4 << 20


def test_a_bank_never_spills() -> None:
    """A request on a bank fails when that bank is full, though its neighbours are empty."""
    banks = Banks(4 << 20, 4, 256)
    assert banks.allocate(1 << 20, 2) == 2 << 20
    with pytest.raises(NoRoom):
        banks.allocate(1, 2)
    assert banks.allocate(1, 3) == 3 << 20


def test_what_is_free_can_be_taken_where_ranges_are_kept_apart():
    """Small ones have a granule before them, and what is told to be free is what one request gets."""
    banks = Banks(64 * 1024, 4, 256, apart=True)
    small = [banks.allocate(100) for _ in range(5)]
    assert all(two - one >= 512 for one, two in pairwise(small))
    free = banks.free_bytes
    assert 0 <= banks.capacity - banks.used - free <= 5 * 256
    rest = banks.allocate(free)
    banks.free(rest, free)
    for address in small:
        banks.free(address, 100)
    assert banks.free_bytes == banks.capacity == banks.largest_free


def test_equal_parts_fill_a_memory_where_ranges_are_kept_apart():
    """Two halves, four quarters, a bank at a time: large ones have nothing before them."""
    for parts in (1, 2, 4, 8):
        banks = Banks(64 * 1024, 4, 256, apart=True)
        for _ in range(parts):
            banks.allocate(banks.capacity // parts)
        assert banks.free_bytes == 0
