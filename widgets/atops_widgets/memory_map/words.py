"""The bytes of device memory that operations used, and the memory map in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from atops.base.trace.records import Kind, TraceRecord
from atops.device.call_site import file_shown
from atops.trace.words import KIND_NAMES, format_bytes, format_ns, shortened
from atops_widgets.feed.columns import Column, Ranges
from atops_widgets.feed.feed import NOTHING, Feed
from atops_widgets.feed.links import line_of
from atops_widgets.memory_map.history import NEVER, History
from atops_widgets.memory_map.lanes import Lane

__all__ = ("LABELS", "Touch", "Touches", "Words", "operations_on", "touches_of")

MOST_OPERATIONS: Final = 8  # listed of a range; the newest
SAVED: Final = 20_000  # records of which a saved picture has the bytes, and as many ranges that commands were given
BEGINS: Final = (int(Kind.ALLOC), int(Kind.FREE))  # they neither write nor read


class Touch(IntEnum):
    """The use of bytes by an operation. USES: the operation was given them; what it does with them is not recorded.

    RACED: another operation uses them, too, and nothing orders the two.
    """

    READ = 0
    WROTE = 1
    USES = 2
    RACED = 3


LABELS: Final = ("read", "wrote", "uses", "raced over")  # of each, as the page's script has them, too
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
        for number, lane in enumerate(lanes if len(self.seq) else ()):
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


EMPTY: Final = np.zeros(0, np.int64)
UNTOUCHED: Final = Touches(EMPTY, EMPTY, EMPTY, EMPTY, EMPTY, NOTHING)


def touches_of(feed: Feed, everything: bool) -> Touches:
    """Return what the selected operation touched, by address; with `everything`, what the newest operations did."""
    records, uses, selected = feed.records, feed.uses, feed.selection.seq
    if selected < 0 and not everything:
        return UNTOUCHED
    if everything:
        rows = np.arange(max(0, len(records) - SAVED), len(records))
        given = Ranges.among(uses, np.arange(max(0, len(uses) - SAVED), len(uses)))
    else:
        rows = feed.links().rows(np.array([selected]))
        rows = rows[rows >= 0]
        given = Ranges.of(uses, selected)
    parts: list[tuple[Column, ...]] = []
    for end, how in ENDS:
        used = rows[(records[f"{end}_device"][rows] >= 0) & ~np.isin(records["kind"][rows], BEGINS)]
        start, size = records[f"{end}_offset"][used], records["bytes"][used]
        touch = np.full(len(used), how)
        parts.append((records["seq"][used], records[f"{end}_device"][used], start, start + size, touch))
    parts.append(_untold(given, parts))
    parts.append(_raced(feed, None if everything else selected))
    seq, device, start, stop, touch = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return Touches(seq[order], device[order], start[order], stop[order], touch[order], selected)


def _raced(feed: Feed, selected: int | None) -> tuple[Column, ...]:
    """Return the bytes over which operations raced: those of the selected one; None: of all."""
    rows = [
        (seq, race.device, race.offset + start, race.offset + stop, Touch.RACED)
        for race in feed.races if race.offset >= 0
        for seq in dict.fromkeys(race.seqs) if seq >= 0 and selected in (None, seq)
        for start, stop in race.ranges
    ]  # fmt: skip
    return tuple(np.array(rows[:SAVED], np.int64).reshape(-1, 5).T)


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


MOST_RANGES: Final = 8  # of a command that are told one by one
MOST_PLACES: Final = 4096  # source lines that a page is told


class Words:
    """Sentences about one feed's memory."""

    def __init__(self, feed: Feed, history: History) -> None:
        self.feed = feed
        self.history = history

    def place(self, site: int) -> str:
        """Return a source line and those that called it, empty where it is not known."""
        names = self.feed.names
        called = [f"{file_shown(each.file)}:{each.line} in {each.function}" for each in names.stack(site)[1:]]
        return ", from ".join([line_of(names, site), *called])

    def places(self, lanes: Sequence[Lane]) -> dict[str, list[str]]:
        """Return the source lines of what lanes show, by number: in full, and short enough for a shape."""
        rows = np.concatenate([np.zeros(0, np.int64), *(lane.shape_rows() for lane in lanes)])
        rows = rows[rows >= 0]
        sites = np.unique(np.append(self.history["site"][rows], self.history["freed_site"][rows]))
        known = self.feed.names.sites
        short = {site: known[site] for site in sites[:MOST_PLACES].tolist() if site in known}
        return {
            str(site): [self.place(site), f"{file_shown(place.file)}:{place.line}"]
            for site, place in short.items()
        }

    def streams(self, devices: Sequence[int]) -> dict[str, str]:
        """Return the names of the streams of devices, by number."""
        return {str(number): name for (device, number), name in self.feed.names.streams.items() if device in devices}

    def range(self, row: int) -> str:
        """Return a sentence about one allocation: place, size, owner, source line and end."""
        history = self.history
        value = {name: int(history[name][row]) for name in (
            "device", "bank", "offset", "size", "generation", "born_ns", "died_ns", "site", "freed_site", "stream",
        )}  # fmt: skip
        parts = [
            f"allocation {value['generation']}: {format_bytes(value['size'])} at offset {value['offset']:#x} of device "
            f"{value['device']}, bank {value['bank']}"
        ]
        line = self.place(value["site"])
        again = "reused a kept range" if history["again"][row] else "allocated"
        since = f"{again} at {self._moment(value['born_ns'])}" + (f" by {line}" if line else ", source line not known")
        stream = self.feed.names.streams.get((value["device"], value["stream"])) or str(value["stream"])
        parts.append(since + (f", for stream {shortened(stream)}" if value["stream"] >= 0 else ""))
        if value["died_ns"] == NEVER:
            parts.append("it is live")
        else:
            line = self.place(value["freed_site"]) or self._freer(row)
            lived = format_ns(value["died_ns"] - value["born_ns"])
            kept = ", and its range kept for reuse" if history["kept"][row] else ""
            by = f" by {line}" if line else ""
            parts.append(f"freed at {self._moment(value['died_ns'])}{by} after {lived}{kept}")
        return "; ".join(parts)

    def touched(self) -> list[str]:
        """Return what the selected operation wrote, read and was given, a sentence each; or that it is not known."""
        feed, seq = self.feed, self.feed.selection.seq
        row = feed.links().row(seq) if seq >= 0 else -1
        given = self._given(seq)
        if row < 0:
            return given
        record = feed.records.record(row)
        ends = (("wrote", record.dst_device, record.dst_offset), ("read", record.src_device, record.src_offset))
        found = [
            f"{KIND_NAMES[record.kind]} {verb} {format_bytes(record.bytes)} at offset {offset:#x} of device {device}"
            for verb, device, offset in ends
            if device >= 0 and record.kind not in (Kind.ALLOC, Kind.FREE)
        ]
        if not found and not given and record.kind is Kind.LAUNCH:
            return ["no memory that was passed to this kernel is recorded"]
        return found + given

    def launch(self, seq: int) -> tuple[int, str]:
        """Return the device and the kernel of a launch, from its record or from its moments; -1 where not known."""
        table, row = self.feed.told_of(seq)
        return (int(table["device"][row]), self.feed.texts.all[int(table["name"][row])]) if row >= 0 else (-1, "")

    def _given(self, seq: int) -> list[str]:
        """Return the ranges that a command was given, in one sentence, if it is known to have got any."""
        ranges = Ranges.of(self.feed.uses, seq)
        places = [
            f"{format_bytes(stop - start)} at offset {start:#x} of device {device}"
            for device, start, stop in ranges.places()
        ]
        if not places:
            return []
        more = f", and {len(places) - MOST_RANGES:,} more" if len(places) > MOST_RANGES else ""
        return [f"{self._who(seq)} {ranges.brief()}: {', '.join(places[:MOST_RANGES])}{more}"]

    def _who(self, seq: int) -> str:
        """Return the kind and the name of a command; its number where they are not known."""
        table, row = self.feed.told_of(seq)
        name = self.launch(seq)[1]
        return KIND_NAMES[Kind(table["kind"][row])] + (f" {name}" if name else "") if row >= 0 else f"number {seq}"

    def _freer(self, row: int) -> str:
        """Return the line that enqueued the free of an allocation in its stream's order, if that is known."""
        records, moments, history = self.feed.records, self.feed.moments, self.history
        frees = (records["kind"] == Kind.FREE) & (records["dst_offset"] == history["offset"][row])
        frees &= (records["dst_device"] == history["device"][row]) & (records["started_ns"] <= history["died_ns"][row])
        found = np.flatnonzero(frees & (records["finished_ns"] >= history["died_ns"][row]))
        if len(found) == 0:
            return ""
        told = moments["site"][(moments["seq"] == records["seq"][found[0]]) & (moments["site"] >= 0)]
        return self.place(int(told[0])) if len(told) else ""

    def _moment(self, at_ns: int) -> str:
        return format_ns(at_ns - self.feed.origin_ns)
