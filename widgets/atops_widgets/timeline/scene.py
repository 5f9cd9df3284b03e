"""The scene of the timeline: rows, shapes, arrows, critical path and figures, for page and SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from atops.base.trace.records import COPIES, WAITS, Kind, TraceRecord
from atops.trace.summary import critical_path
from atops.trace.words import format_bytes, format_ns
from atops_widgets.drawing.scene import Scene, Window, whole_option
from atops_widgets.drawing.theme import NAMES
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import IS_WAIT, Column, Columns, plural, union
from atops_widgets.feed.feed import NOTHING, Feed
from atops_widgets.feed.host import HOST
from atops_widgets.timeline.shapes import NO_ROW, Pyramid, Shapes, TimelineRow, starts

__all__ = ("Figures", "Layout", "Timetable", "Waits", "figures", "following", "missing", "sums")

NOTHING_YET: Final = "Nothing has run yet: run the cells that use the device."
MOST_ROWS: Final = 48  # drawn at once; the rest is a page further down
MOST_PINS: Final = 8  # rows that stay at the top
PINNED: Final = -2  # what these have instead of a device
MOST_ARROWS: Final = 300  # of the longest waits
EXACT: Final = 100_000  # records that figures are computed of; the newest in view
EXACT_LIVE: Final = 1000  # the same while records come, where the time is the driver's
ON_PATH: Final = 10_000  # records that the critical path is looked for in
SHAPE: Final = ("row", "start", "end", "kind", "failed", "count", "busy", "seq", "name", "bytes")  # its columns
ARROW: Final = ("arrow_from", "arrow_to", "arrow_start", "arrow_end", "arrow_seq", "arrow_cause")
FEW_LANES: Final = 2  # of the host, beside the first ones: more are folded
NOTHING_KEPT: Final = np.zeros(0, np.int64)
NO_ROWS: Final = np.zeros(0, np.int16)
NO_ARROWS: Final = dict.fromkeys(ARROW, NOTHING_KEPT) | {"arrow_from": NO_ROWS, "arrow_to": NO_ROWS}
NO_PATH: Final = dict.fromkeys(("path_start", "path_end", "path_seq"), NOTHING_KEPT) | {"path_row": NO_ROWS}


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of the book as they are drawn: their numbers from the top, and for each of the book its place there.

    `rows` is what a page is told of them; `first` of the pages is on show, and `more` rows are below it.
    """

    shown: list[int]
    place: Column
    rows: list[list[object]]
    first: int
    more: int


class Timetable:
    """The timeline of one feed: keeps what was computed of the records from one scene to the next."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.pyramid = Pyramid(0, HOST)  # of records, and of calls and waits of the host
        self._waits = Waits()
        self._layout: tuple[object, Layout] | None = None
        self._figures: tuple[object, tuple[tuple[int, ...], str, str]] = None, ((), "", "")

    def scene(self, window: Window) -> Scene:
        """Return the picture of a window. Options: follow (show the newest `length` ns), first (row), path, host.

        `host` has a lane for each thing that the host does at once; else these are folded where there are many.
        """
        feed = self.feed
        self.pyramid.update(feed.records, feed.host.rows)
        axis = feed.axis()
        span = self._span(window, axis)
        book, layout = self.pyramid.book, self._laid_out(window)
        shown, place = layout.shown, layout.place
        shapes, count = self.pyramid.view(axis, span, window.width, self._marked(), place[:-1])
        asked = bool(window.options.get("path"))
        path, overlap, sentence = self._figures_of(span, asked)
        columns = self._shape_columns(shapes) | self._arrow_columns(span, place)
        columns |= self._path_columns(path, place)
        told: dict[str, object] = {
            "window": [span[0] - feed.origin_ns, span[1] - feed.origin_ns],
            "rows": layout.rows,
            "first": layout.first,
            "more": layout.more,
            "kinds": np.flatnonzero(np.bincount(columns["kind"])).tolist(),
            "signs": [*([0] if columns["failed"].any() else []), *([1] if path else [])],
            "note": plural(count, "record") + _thinned(columns, book.counted[shown]) + overlap,
            "figures": sentence,
            "path": asked,
        }
        length = format_ns(max(0, min(span[1], axis.last) - max(span[0], axis.first)))  # without margins
        nothing = NOTHING_YET if feed.live else "no records"
        told["say"] = f"{plural(count, 'record')} in {length}; {sentence}" if count else nothing
        told["missing"] = missing(feed.missing)
        told["say"] = f"{told['say']}{told['missing']}"
        if self.feed.races:
            told["say"] = f"{plural(len(self.feed.races), 'race')}; {told['say']}"
        return Scene(told, columns)

    def _laid_out(self, window: Window) -> Layout:
        """Return the rows to draw: the same object until there are others, or they are asked for otherwise."""
        rows, names, options = self.pyramid.book.rows, self.feed.names, window.options
        key = len(rows), names.streams, names.devices, *(options.get(name) for name in ("host", "pins", "first"))
        if self._layout is None or self._layout[0] != key:
            order, folded = self._order(window)
            pinned, first, page = self._page(window, order)
            shown = pinned + page
            place = np.full(len(rows) + 1, NO_ROW, np.int32)
            place[shown] = np.arange(len(shown))
            for number in folded:
                place[number] = place[rows.index(rows[number].folds_to or rows[number])]
            told = [self._row(rows[number], folded, number in pinned) for number in shown]
            self._layout = key, Layout(shown, place, told, first, len(order) - len(shown) - first)
        return self._layout[1]

    def _order(self, window: Window) -> tuple[list[int], list[int]]:
        """Return the rows to draw, in their order, and the lanes of the host that are folded into the first ones."""
        rows = self.pyramid.book.rows
        lanes = [number for number, row in enumerate(rows) if row.folds_to is not None]
        folded = lanes if window.options.get("host") is not True and len(lanes) > FEW_LANES else []
        order = sorted(set(range(len(rows))) - set(folded), key=lambda number: rows[number])
        return [number for number in order if not rows[number].unplaced], folded

    def _page(self, window: Window, order: list[int]) -> tuple[list[int], int, list[int]]:
        """Return the rows that stay at the top, and of the others the first one shown and those shown."""
        asked = window.options.get("pins")
        pins = asked[:MOST_PINS] if isinstance(asked, list) else []
        pinned = [number for number in order if self.pyramid.book.rows[number].key in pins]
        rest = [number for number in order if number not in pinned]
        first = max(0, min(whole_option(window.options, "first"), len(rest) - 1)) if rest else 0
        return pinned, first, rest[first : first + MOST_ROWS - len(pinned)]

    def found(self, text: str) -> list[int]:
        """Return commands, calls and waits in the order of their starts whose name, kind or stream has `text` in it."""
        records, host, names, wanted = self.feed.records, self.feed.host.rows, self.feed.names, text.casefold()
        named = [number for number, each in enumerate(self.feed.texts.all) if wanted in each.casefold()]
        kinds = [kind for kind, name in NAMES.items() if wanted in name.casefold()]
        hit = np.isin(records["name"], named) | np.isin(records["kind"], kinds)
        for (device, stream), label in names.streams.items():
            if wanted in label.casefold():
                hit |= (records["device"] == device) & (records["stream"] == stream)
        at = np.flatnonzero(hit & (records["kind"] != Kind.API))  # the host's rows have these
        calls = np.flatnonzero(np.isin(host["name"], named) | np.isin(host["kind"], kinds))
        when = np.concatenate([starts(records)[at], host["started_ns"][calls]])
        seqs = np.concatenate([records["seq"][at], host["seq"][calls]])
        in_order: list[int] = seqs[np.argsort(when, kind="stable")].tolist()
        return in_order

    def _span(self, window: Window, axis: TimeAxis) -> tuple[int, int]:
        length = whole_option(window.options, "length")
        if window.options.get("follow") and length > 0:
            return axis.last - length, max(axis.last, axis.last - length + 1)
        start, end = window.cut((axis.first, axis.last))
        margin = max(1, int(axis.place(end) - axis.place(start)) // 100) if window.start_ns is None else 0
        return start - margin, end + margin

    def _row(self, row: TimelineRow, folded: list[int], pinned: bool) -> list[object]:
        device = self.feed.names.devices.get(row.device) or ("host" if row.device < 0 else f"device {row.device}")
        more = sum(self.pyramid.book.rows[number].folds_to == row for number in folded)
        label = row.label(self.feed.names) + (f" ({more + 1} at once)" if more else "")
        if pinned:
            return [label, PINNED, "kept at the top", row.engine, row.key]
        return [label, row.device, device, row.engine, row.key]

    def _marked(self) -> Column:
        """Return the indices of what is marked, or raced, which is drawn on its own."""
        marks = self.feed.marks()
        chosen = [] if marks.seq == NOTHING else [marks.seq, *marks.before, *marks.after]
        chosen += [int(seq) for race in self.feed.told_races() for seq in race[:2]]
        if not chosen:
            return NOTHING_KEPT
        rows = self.feed.links().rows(np.unique(chosen))
        hosts = np.array([seq for seq in chosen if seq >= HOST], np.int64)
        return np.concatenate([rows[rows >= 0] + self.feed.records.start, hosts])

    def _shape_columns(self, shapes: Shapes | None) -> dict[str, Column]:
        """Return the columns of shapes."""
        if shapes is None:
            return dict.fromkeys(SHAPE, NOTHING_KEPT)
        seq, name, size = np.full(len(shapes), -1), *np.zeros((2, len(shapes)), np.int64)
        for first, table in ((HOST, self.feed.host.rows), (0, self.feed.records)):
            at = shapes.index - first - table.start
            own = np.flatnonzero((at >= 0) & (at < len(table)))  # single, and not dropped since
            at = at[own]
            seq[own], name[own], size[own] = table["seq"][at], table["name"][at], table["bytes"][at]
        length = np.maximum(1, shapes.end - shapes.start)
        return {
            "row": shapes.row.astype(np.int16),
            "start": shapes.start - self.feed.origin_ns,
            "end": shapes.end - self.feed.origin_ns,
            "kind": shapes.kind.astype(np.uint8),
            "failed": shapes.failed.astype(np.uint8),
            "count": shapes.count.astype(np.uint32),
            "busy": np.minimum(1, shapes.time / length).astype(np.float32),
            "seq": seq,
            "name": name,
            "bytes": size,
        }

    def _arrow_columns(self, span: tuple[int, int], place: Column) -> dict[str, Column]:
        """Return all arrows: to waits, and between what is selected and the host's calls and waits."""
        parts = [*self._wait_arrows(span, place), *self._host_arrows(place)]
        if not parts:
            return NO_ARROWS
        return {name: np.concatenate([part[name] for part in parts]).astype(NO_ARROWS[name].dtype) for name in ARROW}

    def _wait_arrows(self, span: tuple[int, int], place: Column) -> list[dict[str, Column]]:
        """Return the arrows from what satisfied a wait to the wait, of the longest waits in view, if there are any."""
        records, origin = self.feed.records, self.feed.origin_ns
        chosen = self._waits.of(records)
        if not len(chosen):
            return []
        begun, ended = records["started_ns"][chosen], records["finished_ns"][chosen]
        chosen = chosen[(ended >= span[0]) & (np.minimum(begun, ended) <= span[1])]
        if len(chosen) > MOST_ARROWS:
            length = records["finished_ns"][chosen] - records["started_ns"][chosen]
            chosen = chosen[np.argpartition(length, len(length) - MOST_ARROWS)[-MOST_ARROWS:]]
        if not len(chosen):
            return []
        causes = self.feed.links().rows(records["correlation"][chosen])
        chosen, causes = chosen[causes >= 0], causes[causes >= 0]
        tails, heads = place[self._rows_of(causes)], place[self._rows_of(chosen)]
        seen = (tails >= 0) & (heads >= 0)
        chosen, causes = chosen[seen], causes[seen]
        finished = records["finished_ns"]
        return [{
            "arrow_from": tails[seen],
            "arrow_to": heads[seen],
            "arrow_start": np.minimum(finished[causes], finished[chosen]) - origin,  # it took effect before it was over
            "arrow_end": finished[chosen] - origin,
            "arrow_seq": records["seq"][chosen],
            "arrow_cause": records["seq"][causes],
        }]  # fmt: skip

    def _host_arrows(self, place: Column) -> list[dict[str, Column]]:
        """Return the arrows between what is selected and its calls or waits, if any: others would hide the picture."""
        feed, marks = self.feed, self.feed.marks()
        pairs = [(seq, marks.seq) for seq in marks.before] + [(marks.seq, seq) for seq in marks.after]
        pairs = [pair for pair in pairs if max(pair) >= HOST > min(pair)]
        if not pairs:
            return []
        ends = [(self._end_of(one, place), self._end_of(other, place)) for one, other in pairs]
        found = [
            (tail[0], head[0], (tail[1] if pair[0] >= HOST else min(tail[2], head[2])) - feed.origin_ns,
             (head[1] if pair[0] >= HOST else head[2]) - feed.origin_ns, pair[1], pair[0])
            for pair, (tail, head) in zip(pairs, ends, strict=True) if min(tail[0], head[0]) >= 0
        ]  # fmt: skip
        columns = np.array(found, np.int64).reshape(-1, 6).T
        return [dict(zip(ARROW, columns, strict=True))]

    def _end_of(self, seq: int, place: Column) -> tuple[int, int, int]:
        """Return on which row something is drawn (NO_ROW: on none), from when (a command: submitted) to when."""
        host, records = seq >= HOST, self.feed.host.rows if seq >= HOST else self.feed.records
        row = seq - HOST - records.start if host else self.feed.links().row(seq)
        if not 0 <= row < len(records):
            return NO_ROW, 0, 0
        fields = (records[field][[row]] for field in ("device", "stream", "kind"))
        start = int(records["started_ns" if host else "submitted_ns"][row])
        return int(place[self.pyramid.book.of_streams(*fields)[0]]), start, int(records["finished_ns"][row])

    def _rows_of(self, indices: Column) -> Column:
        records = self.feed.records
        fields = (records[field][indices] for field in ("device", "stream", "kind"))
        return self.pyramid.book.of_streams(*fields)

    def _path_columns(self, path: tuple[int, ...], place: Column) -> dict[str, Column]:
        if not path:
            return NO_PATH
        records, origin = self.feed.records, self.feed.origin_ns
        at = self.feed.links().rows(np.array(path, np.int64))
        at = at[at >= 0]
        return {
            "path_row": place[self._rows_of(at)].astype(np.int16),
            "path_start": starts(records, at) - origin,
            "path_end": records["finished_ns"][at] - origin,
            "path_seq": records["seq"][at],
        }

    def _figures_of(self, span: tuple[int, int], path: bool) -> tuple[tuple[int, ...], str, str]:
        """Return the critical path of what is in view, if asked for, the overlap, and all figures in a sentence."""
        feed = self.feed
        key = feed.version, span, path
        if self._figures[0] != key:
            records = feed.records
            limit = EXACT_LIVE if feed.live and not feed.paused else EXACT
            inside = _newest_in(records, span, limit + 1)
            chosen = inside[-limit:]
            begun, ended = starts(records, chosen), records["finished_ns"][chosen]
            known = figures(records["device"][chosen], records["kind"][chosen], begun, ended)
            both = known.copy_ns > 0 and known.kernel_ns > 0
            overlap = f"{known.overlap:.0%} of copy time beside a kernel"
            text = ", ".join(
                ([overlap] if both else [])
                + ([f"kernels {format_ns(known.kernel_ns)}"] if known.kernel_ns else [])
                + [f"idle {format_ns(known.idle_ns)}"]
            )
            if len(inside) > limit:
                text += f" (of the newest {limit:,})"
            newest = records.values(TraceRecord, chosen[-ON_PATH:]) if path else []
            found = tuple(record.seq for record in critical_path(newest))
            if found:
                text += f"; critical path {len(found)} operations"
                text += f" (of the newest {ON_PATH:,})" if len(chosen) > ON_PATH else ""
            self._figures = key, (found, f" · {overlap}" if both else "", text)
        return self._figures[1]


class Waits:
    """Which records are waits whose cause is known: what was looked through is kept."""

    def __init__(self) -> None:
        self._numbers = np.zeros(0, np.int64)  # counted from the first record ever
        self._taken = 0

    def of(self, records: Columns) -> Column:
        """Return their indices in a table, which is always the same one."""
        fresh = records.since(self._taken)
        waits = np.flatnonzero(IS_WAIT[records["kind"][fresh]] & (records["correlation"][fresh] >= 0))
        if len(waits):
            self._numbers = np.append(self._numbers, waits + fresh.start + records.start)
        self._numbers = self._numbers[np.searchsorted(self._numbers, records.start) :]
        self._taken = records.start + len(records)
        return self._numbers - records.start


def _newest_in(records: Columns, span: tuple[int, int], most: int) -> Column:
    """Return the indices of the newest records that ran in a span, at most `most`; records stand by their ends."""
    for size in (2 * most, len(records)):
        first = max(0, len(records) - size)
        part = slice(first, None)
        inside = first + np.flatnonzero((records["finished_ns"][part] >= span[0]) & (starts(records, part) <= span[1]))
        if len(inside) >= most or first == 0:
            break
    return inside[-most:]


def _thinned(columns: dict[str, Column], counted: Column) -> str:
    """Return in how many shapes records stand, in words; empty where each is drawn on its own. `counted`: see rows."""
    count = columns["count"][counted[columns["row"]]] if len(columns["row"]) else NOTHING_KEPT
    return f", thinned to {plural(len(count), 'shape')}" if (count > 1).any() else ""


def following(seqs: list[int], chosen: int, by: int) -> int:
    """Return the one `by` places from the chosen one, around the end; the first where none of them is chosen."""
    return seqs[(seqs.index(chosen) + by) % len(seqs)] if chosen in seqs else seqs[0]


def missing(count: int) -> str:
    """Return that so many records are not held, to stand behind what is told of the others; nothing of none."""
    return f"; {count:,} of all records {'is' if count == 1 else 'are'} missing" if count else ""


def sums(records: Columns, start: int, end: int, missed: int = 0) -> str:
    """Return what happened from `start` to `end`, in nanoseconds, in words: times within it, bytes of copies that ended
    in it. `missed` is how many records of the whole trace are not held; the feed does not know their times.
    """
    begun, ended, kind = starts(records), records["finished_ns"], records["kind"]
    inside = np.flatnonzero((ended >= start) & (begun < end))
    if not len(inside):
        return f"{format_ns(end - start)}: {'nothing is held' if missed else 'nothing happened'}{missing(missed)}"
    known = figures(
        records["device"][inside], kind[inside], np.maximum(begun[inside], start), np.minimum(ended[inside], end)
    )
    moved = inside[IS_COPY[kind[inside]] & (ended[inside] <= end)]
    parts = [plural(len(inside), "record")]
    parts += [f"kernels {format_ns(known.kernel_ns)}"] if known.kernel_ns else []
    parts += [f"copies {format_ns(known.copy_ns)}"] if known.copy_ns else []
    parts += [f"{format_bytes(int(records['bytes'][moved].sum()))} copied"] if len(moved) else []
    parts += [f"{format_ns(known.overlap_ns)} of both at once"] if known.overlap_ns else []
    return f"{format_ns(end - start)}: {', '.join(parts)}{missing(missed)}"


IS_COPY: Final = np.isin(np.arange(256), list(COPIES))
LAUNCH: Final = int(Kind.LAUNCH)
IS_WORK: Final = ~np.isin(np.arange(256), [*WAITS, Kind.API])  # no stream is busy with a call of the host's


@dataclass(frozen=True, slots=True)
class Figures:
    """Times in nanoseconds, as in `timeline.Summary`."""

    copy_ns: int
    kernel_ns: int
    overlap_ns: int
    idle_ns: int

    @property
    def overlap(self) -> float:
        """Return the fraction of copy time in which a kernel ran on the same device; 0.0 without copies."""
        return self.overlap_ns / self.copy_ns if self.copy_ns else 0.0


def figures(device: Column, kind: Column, start: Column, end: Column) -> Figures:
    """Return the figures of records that ran from `start` to `end`."""
    copies = kernels = both = 0
    is_copy, is_kernel = IS_COPY[kind], kind == LAUNCH
    for ordinal in np.unique(device[is_copy | is_kernel]):
        here = device == ordinal
        copying, computing = here & is_copy, here & is_kernel
        one, other = union(start[copying], end[copying]), union(start[computing], end[computing])
        copies += one
        kernels += other
        together = copying | computing
        both += one + other - union(start[together], end[together])
    working = IS_WORK[kind]
    span = int(end.max() - start.min()) if len(start) else 0
    return Figures(copies, kernels, both, span - union(start[working], end[working]))
