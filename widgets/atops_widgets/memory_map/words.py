"""The memory map in words: the owner of a range, places of the program, what an operation touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from atops.base.trace.records import Kind
from atops.device.call_site import file_shown
from atops.trace.summary import KIND_NAMES
from atops.trace.text import format_bytes, format_ns
from atops_widgets.feed.columns import Columns
from atops_widgets.feed.feed import Feed
from atops_widgets.feed.links import line_of
from atops_widgets.feed.ranges import Ranges
from atops_widgets.memory_map.history import NEVER, History
from atops_widgets.memory_map.lanes import Lane

__all__ = ("Words",)

MOST_RANGES: Final = 8  # of a command that are told one by one
MOST_PLACES: Final = 4096  # source lines that a page is told


class Words:
    """Sentences about one feed's memory."""

    def __init__(self, feed: Feed, history: History) -> None:
        self.feed = feed
        self.history = history

    def place(self, site: int) -> str:
        """Return a source line, empty where it is not known."""
        return line_of(self.feed.names, site)

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
        """Return a sentence about one allocation: where, how large, whose, from which line, and how it ended."""
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
        since = f"{again} at {self._moment(value['born_ns'])}" + (f" by {line}" if line else ", by whom is not known")
        stream = self.feed.names.streams.get((value["device"], value["stream"])) or str(value["stream"])
        parts.append(since + (f", for stream {stream}" if value["stream"] >= 0 else ""))
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
        table, row = self._row(seq)
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
        table, row = self._row(seq)
        name = self.launch(seq)[1]
        return KIND_NAMES[Kind(table["kind"][row])] + (f" {name}" if name else "") if row >= 0 else f"number {seq}"

    def _row(self, seq: int) -> tuple[Columns, int]:
        """Return where a command is told of: its record, or its first moment; row -1 where it is not known."""
        for table in (self.feed.records, self.feed.moments):
            rows = np.flatnonzero(table["seq"] == seq)
            if len(rows):
                return table, int(rows[0])
        return self.feed.records, -1

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
