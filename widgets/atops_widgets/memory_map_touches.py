"""Which bytes of device memory operations wrote and read, and which operations used a range: from finished records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from atops.base.records import Kind, TraceRecord
from atops.runtime.timeline import KIND_NAMES
from atops.runtime.timeline_text import format_ns
from atops_widgets.columns import Column
from atops_widgets.feed import Feed
from atops_widgets.memory_map_history import GRANULE, History
from atops_widgets.memory_map_lanes import Lane

__all__ = ("MOST_OPERATIONS", "Touches", "operations_on", "touches_of")

MOST_OPERATIONS: Final = 8  # listed of a range; the newest
SAVED: Final = 20_000  # records whose bytes a saved picture knows
ENDS: Final = (("dst", True), ("src", False))
BEGINS: Final = (int(Kind.ALLOC), int(Kind.FREE))  # they neither write nor read


@dataclass(frozen=True, slots=True)
class Touches:
    """Ranges that operations wrote (or, else, read): by seq, device, start and end."""

    seq: Column
    device: Column
    start: Column
    stop: Column
    write: Column

    def on(self, device: int) -> tuple[Column, Column]:
        """Return starts and ends on a device."""
        here = self.device == device
        return (self.start[here], self.stop[here]) if len(self.seq) <= 2 else (self.start[:0], self.stop[:0])

    def columns(self, lanes: Sequence[Lane]) -> dict[str, Column]:
        """Return where they stand in lanes; those outside of all are left out."""
        found: dict[str, list[Column]] = {name: [] for name in ("lane", "left", "right", "write", "seq", "bytes")}
        for number, lane in enumerate(lanes):
            here = (self.device == lane.ordinal) & lane.axis.holds(self.start, self.stop)
            start, stop = self.start[here], self.stop[here]
            values = (np.full(len(start), number), lane.axis.place(start), lane.axis.place(stop), self.write[here],
                      self.seq[here], stop - start)  # fmt: skip
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
        kinds = {"lane": np.int16, "left": np.float32, "right": np.float32, "write": np.uint8}
        return {
            f"touch_{name}": np.concatenate([np.zeros(0), *parts]).astype(kinds.get(name, np.float64))
            for name, parts in found.items()
        }


def touches_of(feed: Feed, everything: bool) -> Touches:
    """Return what the selected operation wrote and read; with `everything`, what the newest operations did."""
    records = feed.records
    if everything:
        rows = np.arange(max(0, len(records) - SAVED), len(records))
    else:
        rows = feed.links().rows(np.array([feed.selection.seq])) if feed.selection.seq >= 0 else np.zeros(0, np.int64)
        rows = rows[rows >= 0]
    parts: list[tuple[Column, ...]] = []
    for end, write in ENDS:
        used = rows[(records[f"{end}_device"][rows] >= 0) & ~np.isin(records["kind"][rows], BEGINS)]
        start, size = records[f"{end}_offset"][used], records["bytes"][used]
        if write:  # a reduction tells the bytes that it reads; its result is one element
            size = np.where(records["kind"][used] == Kind.LAUNCH, np.minimum(size, GRANULE), size)
        writes = np.full(len(used), write)
        parts.append((records["seq"][used], records[f"{end}_device"][used], start, start + size, writes))
    return Touches(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def operations_on(feed: Feed, history: History, row: int) -> list[list[Any]]:
    """Return the newest operations that used a range while it lived, newest first: [seq, what it did and when]."""
    records = feed.records
    device, start = int(history["device"][row]), int(history["offset"][row])
    stop = start + max(1, int(history["size"][row]))
    alive = (records["finished_ns"] >= history["born_ns"][row]) & (records["started_ns"] <= history["died_ns"][row])
    found: list[tuple[int, str]] = []
    for end, verb in (("dst", "wrote"), ("src", "read")):
        begin = records[f"{end}_offset"]
        used = alive & (records[f"{end}_device"] == device) & (begin < stop) & (begin + records["bytes"] > start)
        used &= ~np.isin(records["kind"], BEGINS)
        found += [(at, verb) for at in np.flatnonzero(used)[-MOST_OPERATIONS:].tolist()]
    newest = sorted(found, reverse=True)[:MOST_OPERATIONS]
    return [[(record := records.record(at)).seq, _used(record, verb, feed.origin_ns)] for at, verb in newest]


def _used(record: TraceRecord, verb: str, origin_ns: int) -> str:
    return f"{KIND_NAMES[record.kind]} {record.seq} {verb} it at {format_ns(record.started_ns - origin_ns)}"
