"""What a stream has lost: looks at one command that is not over."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.runtime.board.deferred_free import BoardWork, Lost, newest, unfinished, when_one_is_over
from atops.runtime.core.completion import DONE


class Item:
    """A command: over or not, and what was lost before its end. It counts the looks at it."""

    looks = 0

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.queue: Any = self  # a stream of its own
        self.command = None
        self.lost: Any = None
        self.waiters: list[Any] = []
        self._stage = 0

    @property
    def stage(self) -> int:
        """As that of a completion."""
        Item.looks += 1
        return self._stage

    def add_waiter(self, waiter: Any) -> bool:
        """As that of a completion."""
        if self._stage == DONE:
            return False
        self.waiters.append(waiter)
        return True

    def end(self, lost: Any = None) -> None:
        """Be over, with something lost."""
        self.lost, self._stage = lost, DONE
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.wake()


def lost_of(items: list[Any], board: BoardWork | None) -> Lost:
    """Return these as what a stream has lost."""
    return Lost(newest(items), board)


@pytest.mark.slow
@given(st.integers(0, 1 << 32))
def test_one_that_is_not_over_is_found_as_long_as_there_is_one(seed: int) -> None:
    """However commands end that have lost each other, and all of the board's work."""
    random = Random(seed)
    items = [Item(seq) for seq in range(random.randrange(1, 16))]
    boards: list[Any] = [None]
    losses: list[Lost] = []
    running = list(items)
    while running:
        if random.random() < 0.3:
            boards.append(BoardWork([each for each in items if each._stage < DONE]))
        if random.random() < 0.5:
            losses.append(lost_of(random.sample(items, random.randrange(len(items) + 1)), random.choice(boards)))
        item = running.pop(random.randrange(len(running)))
        item.end(random.choice(losses) if losses and random.random() < 0.8 else None)
        for at, lost in enumerate(losses):
            left, one = lost.unfinished(), lost.one()
            assert (one is None) == (not left)
            assert one is None or one.stage < DONE
            losses[at] = still = lost.still() or Lost()
            assert {id(each) for each in still.unfinished()} == {id(each) for each in left}


@pytest.mark.slow
def test_looks_of_many_streams_at_the_same_work_are_few() -> None:
    """Two hundred streams have lost the board, and look again whenever a command is over: a few looks a wake."""
    items = [Item(seq) for seq in range(200)]
    board, wakes = BoardWork(list(items)), [0]

    def look(lost: Lost) -> None:
        wakes[0] += 1
        if lost.still() is not None:
            when_one_is_over(lost, lambda: look(lost))

    losses = [Lost(None, board) for _ in range(200)]
    for lost in losses:
        when_one_is_over(lost, lambda lost=lost: look(lost))
    Item.looks = 0
    for item in items:
        item.end(losses[0])
    assert wakes[0] >= 200 and Item.looks < 4 * (wakes[0] + len(items))
    assert not unfinished(board.items, board)
