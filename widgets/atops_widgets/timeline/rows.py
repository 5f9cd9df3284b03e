"""The rows of a timeline: for each device its streams, host calls beside them, then its copy engines and clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from atops.base.trace.records import MOVES, Kind, TraceNames
from atops_widgets.feed.columns import Column

__all__ = ("NO_ROW", "Row", "RowBook")

NO_ROW: Final = -1
STREAM, BESIDE, COPY_ENGINE, CLUSTER = range(4)
IS_BESIDE: Final = np.isin(np.arange(256), [Kind.CALL, Kind.API])  # by kind: may run beside its stream
IS_MOVE: Final = np.isin(np.arange(256), list(MOVES))
IS_SERVED: Final = IS_MOVE | (np.arange(256) == Kind.LAUNCH)


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """One row, in the order drawn: a stream (number -1: of none), the host's calls of one, or an engine."""

    device: int
    section: int
    number: int
    what: int

    @property
    def engine(self) -> bool:
        """Whether it is a copy engine's or a cluster's."""
        return self.what >= COPY_ENGINE

    def label(self, names: TraceNames) -> str:
        """Return what people call it."""
        if self.what == COPY_ENGINE:
            return f"copy engine {self.number}"
        if self.what == CLUSTER:
            return f"cluster {self.number}"
        stream = f"stream {self.number}" if self.number >= 0 else "outside"
        label = names.streams.get((self.device, self.number)) or stream
        return f"{label} · host" if self.what == BESIDE else label


class RowBook:
    """Every row that has been seen, numbered from 0 in the order seen. Numbers stay."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._numbers: dict[Row, int] = {}

    def of_streams(self, device: Column, stream: Column, kind: Column) -> Column:
        """Return the number of each record's row among the streams."""
        return self._find(device, stream, IS_BESIDE[kind].astype(np.int64), (STREAM, BESIDE))

    def of_engines(self, device: Column, engine: Column, kind: Column) -> Column:
        """Return the number of each record's row among the engines, NO_ROW where none served it."""
        found = np.full(len(device), NO_ROW, np.int32)
        served = np.flatnonzero(IS_SERVED[kind] & (engine >= 0) & (device >= 0))
        copies = IS_MOVE[kind[served]]
        found[served] = self._find(device[served], engine[served], (~copies).astype(np.int64), (COPY_ENGINE, CLUSTER))
        return found

    def _find(self, device: Column, number: Column, which: Column, meaning: tuple[int, int]) -> Column:
        code = (device.astype(np.int64) << 34) + (number.astype(np.int64) << 1) + which
        different, place = np.unique(code, return_inverse=True)
        numbers = np.empty(len(different), np.int32)
        for at, value in enumerate(different.tolist()):
            low = value & ((1 << 34) - 1)
            if low >> 33:  # the number is -1: its sign has borrowed from the device
                value, low = value + (1 << 34), low - (1 << 34)
            what = meaning[low & 1]
            row = Row(value >> 34, max(what, BESIDE), low >> 1, what)  # the host's calls stand below their stream
            if row not in self._numbers:
                self._numbers[row] = len(self.rows)
                self.rows.append(row)
            numbers[at] = self._numbers[row]
        return numbers[place]
