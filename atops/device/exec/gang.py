"""Grids that start together, on one device or on several: all of them have their clusters at once, or none holds any.

Two such launches that each held half of their clusters would wait for each other for ever. A gang takes the locks of
all the arrays that its launches wait in together.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atops.device.exec.block_scheduler import ClusterArray, Launch

__all__ = ("Gang", "match")


class Gang:
    """The launches of one cooperative launch of several grids. `priority` is that of the most urgent of them."""

    def __init__(self, priority: int = 0) -> None:
        self.priority = priority
        self._members: list[tuple[ClusterArray, Launch]] = []
        self._complete = False
        self._started = False

    def add(self, array: ClusterArray, launch: Launch) -> None:
        """Take in a launch that waits in an array."""
        self._members.append((array, launch))

    def start(self) -> None:
        """Start as soon as it can: all members are there."""
        self._complete = True
        self.try_start()

    def try_start(self) -> None:
        """Start if all clusters are free now. No lock is held; called again whenever one may have become free."""
        if not self._complete:
            return
        arrays = sorted({array for array, _ in self._members}, key=lambda array: array.number)
        with ExitStack() as locks:
            for array in arrays:  # always in the same order
                locks.enter_context(array.lock)
            if self._started or not all(launch.unplaced for _, launch in self._members):
                return  # or one of them was withdrawn: then none starts
            chosen = []
            for array in arrays:
                found = array.room_for([launch for its, launch in self._members if its is array])
                if found is None:
                    return
                chosen.append((array, found))
            self._started = True
            placed = [(array, array.give(found)) for array, found in chosen]
        for array, each in placed:
            array.open_placed(each)


def match(wants: Sequence[tuple[int, Sequence[int]]]) -> list[list[int]] | None:
    """Return for each (count, clusters) so many of its clusters, none twice; None where that cannot be.

    By augmenting paths: a seat whose clusters are all taken makes the seat that took one look for another.
    """
    seats = [place for place, (count, _) in enumerate(wants) for _ in range(count)]
    taken: dict[int, int] = {}  # the seat of each cluster

    def seek(seat: int, seen: set[int]) -> bool:
        for cluster in wants[seats[seat]][1]:
            if cluster not in seen:
                seen.add(cluster)
                if cluster not in taken or seek(taken[cluster], seen):
                    taken[cluster] = seat
                    return True
        return False

    if not all(seek(seat, set()) for seat in range(len(seats))):
        return None
    return [
        [cluster for cluster in clusters if cluster in taken and seats[taken[cluster]] == place]
        for place, (_, clusters) in enumerate(wants)
    ]
