"""The scene of the memory map at a moment: lanes of addresses, curves of use, L1 and L2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from atops.trace.words import format_bytes, format_ns
from atops_widgets.drawing.scene import Scene, Window, whole_option
from atops_widgets.drawing.theme import STYLES
from atops_widgets.feed.axis import TimeAxis
from atops_widgets.feed.columns import Column, Columns, plural
from atops_widgets.feed.feed import Feed
from atops_widgets.memory_map.contents import Contents, told
from atops_widgets.memory_map.drawing import CURVE, MARGIN, STATES, Canvas, Sketch
from atops_widgets.memory_map.history import (
    MOST_SAMPLES,
    NEVER,
    RECENT,
    History,
    Scratch,
    Steps,
    free_at,
    largest_gap,
    sampled_free,
    scratch_at,
    thin_steps,
)
from atops_widgets.memory_map.lanes import Extent, Lane, Zoom, extent_of, lanes_of
from atops_widgets.memory_map.words import Touches, Words, operations_on, touches_of

__all__ = ("MemoryPicture",)

DEVICES: Final = 2  # shown at once; the others are a page further down
PIXELS: Final = 480  # of a curve
STEP: Final = {"at_ns": "i8", "value": "i8"}
EFFORT_LIVE: Final = 400_000  # rows looked through for the curve of the largest free range, each frame
EFFORT: Final = 10_000_000  # the same, once, where nothing new comes
MOST_BLOCKS: Final = 8  # of a kernel whose L1 and L2 are shown


class MemoryPicture:
    """The memory map of one feed: keeps what was computed of the changes from one scene to the next."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.history = History()
        self.contents = Contents(feed.driver)
        self.words = Words(feed, self.history)
        self._window = Window()
        self._early: Column | None = None  # samples of memory in use from before details were recorded
        self._steps: dict[int, tuple[int, Columns]] = {}  # by device: changes that were read, and what they tell
        self._free: dict[int, tuple[object, tuple[Column, Column]]] = {}
        self._scratch: tuple[tuple[int, int | None, int], Scratch | None] = (0, None, -1), None

    # ---- figures

    def update(self) -> None:
        """Read what is new in the feed."""
        self.history.update(self.feed.changes)

    def devices(self) -> list[int]:
        """Return the devices with known use of memory."""
        return sorted({*self.history.devices(), *np.unique(self._samples()[:, 1]).tolist()} - {-1})

    def extent(self, device: int) -> Extent:
        """Return how large a device's memories are."""
        here = self.history["device"] == device
        return extent_of(self.feed, device, self.history["bank"][here], self.history["offset"][here])

    def steps(self, device: int) -> Steps:
        """Return the bytes that a device has set aside over time: samples first, then what changes tell.

        Of what was before the pictures' 0 it is the last alone, which still holds there.
        """
        changes = self.feed.changes
        taken, known = self._steps.get(device, (0, None))
        if known is None or taken != changes.start + len(changes):
            fresh = changes.since(taken)
            here = np.flatnonzero(changes["device"][fresh] == device) + fresh.start
            at, used = changes["at_ns"][here], changes["used_bytes"][here]
            if known is None:
                early = self._samples()
                before = early[(early[:, 1] == device) & (early[:, 0] < (at[0] if len(at) else NEVER))]
                known = Columns(STEP, changes.capacity, self.feed.texts)
                at, used = np.append(before[:, 0], at), np.append(before[:, 2], used)
            last = known["at_ns"][-1:]  # a moment that comes too early is put to the one before: see `Steps.of`
            at = np.maximum.accumulate(np.append(last, at))[len(last) :]
            known.extend_columns({"at_ns": at, "value": used})
            self._steps[device] = changes.start + len(changes), known
        first = max(0, int(np.searchsorted(known["at_ns"], self.feed.origin_ns)) - 1)
        return Steps(known["at_ns"][first:], known["value"][first:])

    def axis(self) -> TimeAxis:
        """Return the axis of the time shown."""
        return self._window.axis(self.whole_axis())

    def whole_axis(self) -> TimeAxis:
        """Return the axis of time of all widgets; of a trace that has samples of memory alone that of these."""
        axis, samples = self.feed.axis(), self._samples()
        if axis.last > axis.first or not len(samples):
            return axis
        return TimeAxis(int(samples[0, 0]), int(samples[-1, 0]))

    def _samples(self) -> Column:
        if self._early is None:
            self._early = np.array([tuple(each) for each in self.feed.counters], np.int64).reshape(-1, 3)
        return self._early

    # ---- the picture

    def scene(self, window: Window) -> Scene:
        """Return the picture, with curves of the window's time.

        Options: zoom, first (device), generation (selected), dtype, touches ("all"), least (a width that texts
        fit, too).
        """
        return self.sketched(window)[0]

    def sketched(self, window: Window) -> tuple[Scene, Sketch]:
        """Return the picture, and the sketch of what stands around its shapes, which it tells the page, too."""
        self.update()
        self._window = window
        feed, options = self.feed, window.options
        devices, canvas = self.devices(), Canvas(window.width, whole_option(options, "least", window.width))
        first = max(0, min(whole_option(options, "first", 0), len(devices) - 1))
        shown = devices[first : first + DEVICES]
        touches = touches_of(feed, options.get("touches") == "all")
        chosen = self.history.row(whole_option(options, "generation", -1))
        lanes: list[Lane] = []
        says: list[str] = []
        for place, device in enumerate(shown):
            found, block = self._device(device, window, canvas, touches, chosen)
            self._draw(canvas, found, block, place)
            lanes += found
            says.append(block["say"])
        more = max(0, len(devices) - first - len(shown))
        if more:
            canvas.note(f"and {more} more devices (Page Down)")
        self._draw_scratch(canvas, shown)
        shapes, ranges = sum(len(lane.groups) for lane in lanes), sum(int(lane.groups.count.sum()) for lane in lanes)
        columns = _shape_columns(self.history, lanes, feed.origin_ns) | _axis_columns(lanes) | touches.columns(lanes)
        say = "; ".join(says) or self.nothing()
        return Scene({
            "window": [self.axis().first - feed.origin_ns, self.axis().last - feed.origin_ns], "width": canvas.width,
            "height": canvas.y, "tops": canvas.lanes, "curves": canvas.curves, "items": canvas.sketch.items,
            "cursors": self._cursors(canvas), "marked": feed.selection.seq, "lanes": [lane.told() for lane in lanes],
            "first": first, "count": len(devices), "places": self.words.places(lanes),
            "newest": self.whole_axis().last - feed.origin_ns,
            "streams": self.words.streams(shown), "shown": [ranges, shapes], "note": self._note(ranges, shapes),
            "say": say if chosen < 0 else self.words.range(chosen), "live": feed.driver is not None,
            "kinds": [len(STYLES) + place for place, state in enumerate(STATES) if (columns["state"] == state).any()],
            "contents": told(self.contents.last, str(options.get("dtype", "uint8"))),
            "chosen": self._chosen(chosen), "touched": self.words.touched(),
        }, columns), canvas.sketch  # fmt: skip

    def nothing(self) -> str:
        """Return why nothing is drawn."""
        if self.feed.live or len(self.feed.moments):
            return "No memory was allocated yet."
        return "This trace tells of no memory: record it with tracer.detailed()."

    def _note(self, ranges: int, shapes: int) -> str:
        text = plural(ranges, "range") + (f", thinned to {plural(shapes, 'shape')}" if shapes < ranges else "")
        lost = self.history.lost + self.history.forgotten
        return text + (f", {lost:,} changes no longer known" if lost else "")

    def _device(
        self, device: int, window: Window, canvas: Canvas, touches: Touches, chosen: int
    ) -> tuple[list[Lane], Mapping[str, Any]]:
        """Return the lanes of a device and what its heading says."""
        feed, history = self.feed, self.history
        at, extent, steps = feed.selection.cursor_ns, self.extent(device), self.steps(device)
        used = steps.at(at)
        standing = history.standing(device, at, used, RECENT)
        zoom = Zoom.asked(window.options.get("zoom"), device)
        lanes = lanes_of(history, standing, extent, canvas.lane_width, zoom, touches.on(device), chosen)
        peak, peak_at = steps.peak()
        held = np.append(standing.live, standing.kept)
        largest = largest_gap(history["offset"][held], history.ends(held), 0, extent.capacity)
        free = max(0, extent.capacity - used)
        broken = 1 - largest / free if free else 0.0
        kept = int((history.ends(standing.kept) - history["offset"][standing.kept]).sum())
        kind = feed.names.devices.get(device) or extent.name
        name = f"device {device}" + (f", {kind}" if kind else "")
        when = f"at {format_ns(at - feed.origin_ns)}" if at is not None else "now" if feed.live else "at the end"
        of = f" of {format_bytes(extent.capacity)}" if extent.capacity else ""
        state = f"{format_bytes(used)}{of} in use {when}"
        state += f" by {plural(len(standing.live), 'allocation')}" if len(standing.live) else ""
        state += f", {format_bytes(kept)} of it kept for reuse" if kept else ""
        say = f"{name}: {state}; peak {format_bytes(peak)}"
        if extent.capacity:
            say += f"; largest free {format_bytes(largest)}, fragmentation {abs(broken):.1%}"
        return lanes, {
            "device": device, "name": name, "peak": peak, "peak_at": max(0, peak_at - feed.origin_ns), "state": state,
            "say": say, "capacity": extent.capacity, "largest": largest, "fragmentation": broken,
        }  # fmt: skip

    # ---- what stands around the shapes

    def _draw(self, canvas: Canvas, lanes: list[Lane], block: Mapping[str, Any], place: int) -> None:
        axis, whole, origin, device = self.axis(), self.whole_axis(), self.feed.origin_ns, block["device"]
        span = whole.first, max(whole.last, whole.first + 1)
        canvas.head(block["name"], block["state"])
        for lane in lanes:
            canvas.lane(lane)
        moments, largest = self._sampled(device, span)
        if len(moments):  # nothing has changed since the last sample
            moments, largest = np.append(moments, span[1]), np.append(largest, largest[-1])
        steps = self.steps(device)
        free = (block["capacity"] - steps.among(moments)).astype(np.float64)
        shares = np.clip(1 - largest / np.maximum(free, 1), 0, 1)
        edges = axis.edges(PIXELS)
        edges[-1] += 1
        if len(moments):  # those within what is shown, and what there was before and stays after
            first = max(0, int(np.searchsorted(moments, edges[0], "right")) - 1)
            shown = slice(first, max(first + 1, int(np.searchsorted(moments, edges[-1]))))
            moments = np.append(np.maximum(moments[shown], edges[0]), edges[-1] - 1)
            shares = np.append(shares[shown], shares[shown][-1])
        canvas.curve(block, thin_steps(steps, edges), axis.since(origin), (moments - origin, shares), place)

    def _draw_scratch(self, canvas: Canvas, shown: list[int]) -> None:
        """Sketch L1 and L2 of the kernel that ran at the moment shown, if its threads told of them."""
        feed = self.feed
        key = feed.steps.start + len(feed.steps), feed.selection.cursor_ns, feed.selection.seq
        if self._scratch[0] != key:
            self._scratch = key, scratch_at(feed.steps, *key[1:])
        found = self._scratch[1]
        if found is None:
            return
        device, name = self.words.launch(found.launch)
        extent = self.extent(device if device >= 0 else shown[0] if shown else 0)
        more = max(0, len(np.unique(found.block)) - MOST_BLOCKS)
        over = bool(found.over.all())
        sizes = {"launch": found.launch, "name": name, "more": more, "over": over, "l1": extent.l1, "l2": extent.l2}
        canvas.scratch(found, sizes, MOST_BLOCKS)

    def _cursors(self, canvas: Canvas) -> list[list[float]]:
        """Return where the moment looked at crosses the curves, if it is shown: x, top and bottom of each line."""
        axis, whole, cursor = self.axis(), self.whole_axis(), self.feed.selection.cursor_ns
        at = whole.last if cursor is None else min(max(cursor, whole.first), whole.last)
        if not axis.first <= at <= axis.last:
            return []
        end = float(axis.place(axis.last))
        part = 1.0 if end <= 0 else float(axis.place(at)) / end
        return [[MARGIN + part * canvas.lane_width, top - 4, top + CURVE] for top in canvas.curves]

    def _sampled(self, device: int, span: tuple[int, int]) -> tuple[Column, Column]:
        capacity = self.extent(device).capacity
        if not capacity or not len(self.history):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        history, steps = self.history, self.steps(device)
        running = self.feed.live and not self.feed.paused
        key, known = (history.version, running), self._free.get(device)
        if known is not None and known[0] == key:
            return known[1]
        if known is not None and running:  # what was found of the past stays so
            moments, found = known[1]
            if span[1] - int(moments[-1]) >= (span[1] - span[0]) // MOST_SAMPLES:
                now = free_at(history, device, None, steps.at(None), capacity)
                moments, found = np.append(moments, span[1]), np.append(found, now)
            if len(moments) > 2 * MOST_SAMPLES:
                moments, found = moments[::2], found[::2]
        else:
            effort = EFFORT_LIVE if running else EFFORT
            moments, found = sampled_free(history, device, steps, span, capacity, effort)
        self._free[device] = key, (moments, found)
        return moments, found

    # ---- what is selected

    def _chosen(self, row: int) -> Mapping[str, object] | None:
        """Return what is shown of the selected range: its place, its owner, the operations that used it."""
        if row < 0:
            return None
        text = [self.words.range(row)]
        used = operations_on(self.feed, self.history, row)
        text.append("Used by" if used else "No command that is known used it.")
        if self.feed.driver is None:
            text.insert(1, "A recorded trace holds no contents of memory; a live driver shows them.")
        return {"generation": int(self.history["generation"][row]), "text": text, "operations": used}


def _shape_columns(history: History, lanes: list[Lane], origin: int) -> dict[str, Column]:
    """Return what is drawn in all lanes, a row a shape; -1 where a shape stands for several ranges."""
    rows = _joined([lane.shape_rows() for lane in lanes]).astype(np.int64)
    single = rows >= 0
    own = np.where(single, rows, 0)

    def of(field: str) -> Column:
        return np.where(single, history[field][own], -1) if len(history) else np.zeros(0)

    died = of("died_ns") if len(history) else np.zeros(0)
    return {
        "lane": _joined([np.full(len(lane.groups), number) for number, lane in enumerate(lanes)]).astype(np.int16),
        "left": _joined([lane.groups.left for lane in lanes]).astype(np.float32),
        "right": _joined([lane.groups.right for lane in lanes]).astype(np.float32),
        "state": _joined([lane.state for lane in lanes]).astype(np.uint8),
        "count": _joined([lane.groups.count for lane in lanes]).astype(np.uint32),
        "fill": _joined([lane.groups.fill for lane in lanes]).astype(np.float32),
        "size": np.where(single, of("size"), _joined([lane.groups.size for lane in lanes])),
        "generation": of("generation"), "offset": of("offset"), "site": of("site"), "freed_site": of("freed_site"),
        "stream": of("stream"), "born": np.where(single, of("born_ns") - origin, -1),
        "died": np.where(single & (died != NEVER), died - origin, -1),
    }  # fmt: skip


def _axis_columns(lanes: list[Lane]) -> dict[str, Column]:
    return {
        "seg_lane": _joined([np.full(len(lane.axis.start), at) for at, lane in enumerate(lanes)]).astype(np.int16),
        "seg_left": _joined([lane.axis.left for lane in lanes]).astype(np.float32),
        "seg_right": _joined([lane.axis.right for lane in lanes]).astype(np.float32),
        "seg_start": _joined([lane.axis.start for lane in lanes]),
        "seg_stop": _joined([lane.axis.stop for lane in lanes]),
    }


def _joined(parts: list[Column]) -> Column:
    return np.concatenate(parts) if parts else np.zeros(0)
