"""Which bytes of device memory operations wrote, read or were given, and which operations used a range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from atops.base.trace.records import Kind, TraceRecord
from atops.trace.summary import KIND_NAMES
from atops.trace.text import format_ns
from atops_widgets.feed.columns import Column
from atops_widgets.feed.feed import Feed
from atops_widgets.feed.ranges import Ranges
from atops_widgets.memory_map.history import History
from atops_widgets.memory_map.lanes import Lane

__all__ = ("LABELS", "MOST_OPERATIONS", "Touch", "Touches", "operations_on", "touches_of")

MOST_OPERATIONS: Final = 8  # listed of a range; the newest
SAVED: Final = 20_000  # records whose bytes a saved picture knows, and as many ranges that commands were given
BEGINS: Final = (int(Kind.ALLOC), int(Kind.FREE))  # they neither write nor read


class Touch(IntEnum):
    """What an operation did with bytes. Those that it USES it was given: what it does with them is not recorded."""

    READ = 0
    WROTE = 1
    USES = 2


LABELS: Final = ("read", "wrote", "uses")  # of each, as the page's script has them, too
ENDS: Final = (("dst", Touch.WROTE), ("src", Touch.READ))


@dataclass(frozen=True, slots=True)
class Touches:
    """Ranges that operations touched, by seq, device, start and end, and how. `selected` is the marked one's seq."""

    seq: Column
    device: Column
    start: Column
    stop: Column
    how: Column
    selected: int

    def on(self, device: int) -> tuple[Column, Column]:
        """Return starts and ends of what the selected operation touched on a device."""
        here = (self.device == device) & (self.seq == self.selected)
        return self.start[here], self.stop[here]

    def columns(self, lanes: Sequence[Lane]) -> dict[str, Column]:
        """Return where they stand in lanes; those outside of all are left out."""
        found: dict[str, list[Column]] = {name: [] for name in ("lane", "left", "right", "how", "seq", "bytes")}
        for number, lane in enumerate(lanes):
            here = (self.device == lane.ordinal) & lane.axis.holds(self.start, self.stop)
            start, stop = self.start[here], self.stop[here]
            values = (np.full(len(start), number), lane.axis.place(start), lane.axis.place(stop), self.how[here],
                      self.seq[here], stop - start)  # fmt: skip
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
        kinds = {"lane": np.int16, "left": np.float32, "right": np.float32, "how": np.uint8}
        return {
            f"touch_{name}": np.concatenate([np.zeros(0), *parts]).astype(kinds.get(name, np.float64))
            for name, parts in found.items()
        }


def touches_of(feed: Feed, everything: bool) -> Touches:
    """Return what the selected operation touched, by address; with `everything`, what the newest operations did."""
    records, uses, selected = feed.records, feed.uses, feed.selection.seq
    if everything:
        rows = np.arange(max(0, len(records) - SAVED), len(records))
        given = Ranges.among(uses, np.arange(max(0, len(uses) - SAVED), len(uses)))
    else:
        rows = feed.links().rows(np.array([selected])) if selected >= 0 else np.zeros(0, np.int64)
        rows = rows[rows >= 0]
        given = Ranges.of(uses, selected)
    parts: list[tuple[Column, ...]] = []
    for end, how in ENDS:
        used = rows[(records[f"{end}_device"][rows] >= 0) & ~np.isin(records["kind"][rows], BEGINS)]
        start, size = records[f"{end}_offset"][used], records["bytes"][used]
        touch = np.full(len(used), how)
        parts.append((records["seq"][used], records[f"{end}_device"][used], start, start + size, touch))
    parts.append(_untold(given, parts))
    seq, device, start, stop, touch = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return Touches(seq[order], device[order], start[order], stop[order], touch[order], selected)


def _untold(given: Ranges, parts: Sequence[tuple[Column, ...]]) -> tuple[Column, ...]:
    """Return what was given but for the places that records tell, and whether they were read or written."""
    known = {place for part in parts for place in zip(*(column.tolist() for column in part[:3]), strict=True)}
    places = zip(given.seq.tolist(), given.device.tolist(), given.start.tolist(), strict=True)
    rest = np.fromiter((place not in known for place in places), bool, len(given.seq))
    touch = np.full(int(rest.sum()), Touch.USES)
    return given.seq[rest], given.device[rest], given.start[rest], given.stop[rest], touch


def operations_on(feed: Feed, history: History, row: int) -> list[list[object]]:
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
    own = {at for at, _ in found}
    found += [(at, "used") for at in _given(feed, device, start, stop) if alive[at] and at not in own]
    newest = sorted(found, reverse=True)[:MOST_OPERATIONS]
    return [[(record := records.record(at)).seq, _used(record, verb, feed.origin_ns)] for at, verb in newest]


def _given(feed: Feed, device: int, start: int, stop: int) -> list[int]:
    """Return the records of the commands that were given some of these bytes."""
    uses = feed.uses
    reach = (uses["device"] == device) & (uses["offset"] < stop) & (uses["offset"] + uses["size"] > start)
    rows = feed.links().rows(np.unique(uses["seq"][reach]))
    found: list[int] = rows[rows >= 0].tolist()
    return found


def _used(record: TraceRecord, verb: str, origin_ns: int) -> str:
    return f"{KIND_NAMES[record.kind]} {record.seq} {verb} it at {format_ns(record.started_ns - origin_ns)}"
