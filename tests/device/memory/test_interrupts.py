"""Ctrl-C in the middle of the bookkeeping of device memory: no byte is lost, and none is given out twice."""

from __future__ import annotations

import pytest

from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory
from tests.interruption import every_point, interrupted

BANKS, SIZE = 2, 1 << 16


class Owner:
    """A memory and the owners of its ranges."""

    def __init__(self) -> None:
        self.memory = DeviceMemory(SIZE, BANKS, 0, 1 << 36, 1 << 12)
        self.held: list[Allocation] = []

    def turn(self) -> None:
        """Have three ranges, one across the banks perhaps; give the middle one back, and keep the others."""
        take = self.memory.allocate
        self.held += [take(300), take(1000, top_down=True)]
        middle = take(5000, bank=1)
        self.memory.free(middle)
        self.memory.statistics()

    def end(self) -> None:
        """Give back what is held."""
        while self.held:
            one = self.held.pop()
            if one.alive:
                self.memory.free(one)


@pytest.mark.slow
@pytest.mark.parametrize("action", [Owner.turn, Owner.end])
def test_memory_is_whole_after_ctrl_c(action) -> None:
    """Wherever it comes: afterwards what lives is what is used, nothing overlaps, and all can be had again."""
    owner = Owner()

    def act() -> None:
        if action is Owner.end:
            owner.turn()
        action(owner)

    for points in every_point(act, most=150):
        owner.end()
        if action is Owner.end:
            owner.turn()
        interrupted(points, lambda: action(owner))
        memory = owner.memory
        for lost in memory.live():  # what the interrupted call had and never returned
            if lost not in owner.held:
                assert lost.alive
                owner.held.append(lost)
        figures = memory.statistics()
        rounded = [-(-max(each.size, 1) // 256) * 256 for each in memory.live()]
        assert figures.used == sum(rounded) == sum(bank.used for bank in figures.banks)
        owner.end()
        assert memory.statistics().used == 0
        whole = memory.allocate(SIZE)
        memory.free(whole)
        assert memory.statistics().largest_free == SIZE


@pytest.mark.slow
def test_quarantine_survives_the_rebuilding() -> None:
    """A range that may still be written is not given out after Ctrl-C either."""
    owner = Owner()
    memory = owner.memory
    kept, bad = memory.allocate(300), memory.allocate(600)
    memory.quarantine(bad)
    for points in every_point(owner.turn, most=40):
        owner.end()
        interrupted(points, owner.turn)
        for one in memory.live():
            assert one.offset + one.size <= bad.offset or one.offset >= bad.offset + 768
        for lost in memory.live():
            if lost is not kept and lost not in owner.held:
                owner.held.append(lost)
    owner.end()
    assert memory.statistics().used == 512 + 768
