"""The parts of an L1 or L2 that a kernel has taken: arrays, given back when nothing refers to them any more.

An array that is handed out is the base of all its views (`Scratch` in chip.py sees to it), so one weak reference to it
tells whether any of its bytes can still be reached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from weakref import ref

import numpy as np

from atops.base.dtypes import DType
from atops.device.chip import Scratch
from atops.device.geometry import Array

__all__ = ("ALIGNMENT", "Pieces")

ALIGNMENT = 128  # of vector loads


_Piece: TypeAlias = tuple[int, int, ref[Array]]  # where it begins and ends, and what was handed out


class Pieces:
    """What is taken of `memory` from byte `floor` on. `top` is the end of the highest piece, as of the last `take`.

    Its owner calls `take` from one OS thread at a time; an array may go on any.
    """

    __slots__ = ("_floor", "_gone", "_memory", "_note", "_pieces", "_room", "top")

    def __init__(self, memory: Scratch, floor: int = 0) -> None:
        """Begin with nothing taken."""
        self._memory = memory
        self._room = len(memory)
        self._floor = self.top = floor
        self._pieces: list[_Piece] = []  # by address
        self._gone: list[ref[Array]] = []  # noted by the collector, at any moment: only `take` changes the pieces
        self._note: Callable[[ref[Array]], None] = self._gone.append

    def take(self, extents: tuple[int, ...], element: DType, size: int) -> tuple[Array, int] | None:
        """Return an array of `size` bytes, 128-byte aligned, and where it begins; None where there is no room."""
        pieces, index = self._pieces, -1
        if self._gone:
            self._give_back()
            pieces = self._pieces
            index, start = self._gap(size)
        if index < 0:
            index, start = len(pieces), -(-self.top // ALIGNMENT) * ALIGNMENT
            if start + size > self._room:
                index, start = self._gap(size)
                if index < 0:
                    return None
        array: Array = np.ndarray(extents, element, self._memory, start)
        pieces.insert(index, (start, start + size, ref(array, self._note)))
        if start + size > self.top:
            self.top = start + size
            if self.top > self._memory.used:
                self._memory.used = self.top
        return array, start

    def holds(self, part: Array) -> bool:
        """Tell whether an array lies in a piece that was taken here."""
        base = part.base
        while base.__class__ is np.ndarray:
            part, base = base, base.base
        for _, _, piece in self._pieces:  # noqa: SIM110  # at each access where these are looked at
            if piece() is part:
                return True
        return False

    def refusal(self, what: str, level: str) -> str:
        """Say why nothing of `what` could be taken of `level`, "L1" or "L2"."""
        used = self._floor + sum(stop - start for start, stop, _ in self._pieces)
        said = f"{what} was asked for; {used} of the {self._room} bytes of {level} are in use"
        largest = max(0, max(stop - start for start, stop in self._free()))
        return said if largest == self._room - used else f"{said}, and {largest} bytes are free in one run"

    def _give_back(self) -> None:
        self._gone.clear()
        self._pieces = [each for each in self._pieces if each[2]() is not None]
        self.top = self._pieces[-1][1] if self._pieces else self._floor

    def _gap(self, size: int) -> tuple[int, int]:
        """Return the place of the lowest gap between pieces that has room, and where it begins; (-1, 0) for none."""
        for index, (start, stop) in enumerate(self._free()):
            if start + size <= stop and index < len(self._pieces):
                return index, start
        return -1, 0

    def _free(self) -> list[tuple[int, int]]:
        """Return what lies before each piece and after the last one, as (start, stop); some are empty."""
        starts = [self._floor, *(stop for _, stop, _ in self._pieces)]
        stops = [*(start for start, _, _ in self._pieces), self._room]
        return [(-(-start // ALIGNMENT) * ALIGNMENT, stop) for start, stop in zip(starts, stops, strict=True)]
