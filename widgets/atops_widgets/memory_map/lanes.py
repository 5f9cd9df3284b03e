"""The lanes of a device: one for each bank, its ranges as shapes on an axis of addresses; and the device's sizes.

What is in use is drawn at one scale, with breaks where much is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np

from atops.base.errors import InvalidValue
from atops.device.arch import ARCHITECTURES, Architecture, architecture
from atops.trace.words import format_bytes
from atops_widgets.drawing.scene import Told
from atops_widgets.feed.columns import Column, union
from atops_widgets.feed.feed import Feed
from atops_widgets.memory_map.history import History, Standing

__all__ = ("Axis", "Extent", "Groups", "Lane", "State", "Zoom", "axis_of", "extent_of", "group", "lanes_of")

BREAK: Final = 1 / 8  # of the bytes in use: a longer gap is broken
MOST_BREAKS: Final = 10
SHARE: Final = 0.045  # of the lane's width that a break takes
LEAST: Final = 6.0  # pixels of a stretch, however short
VISIBLE: Final = 1.5  # pixels from which a range is drawn on its own


@dataclass(frozen=True, slots=True)
class Axis:
    """Stretches of addresses, each drawn to scale from x `left` to `right`; between them the axis is broken."""

    start: Column
    stop: Column
    left: Column
    right: Column

    def place(self, addresses: Column) -> Column:
        """Return where addresses stand; one in a break stands at its beginning, one outside at the edge."""
        if len(self.start) == 0:
            return np.zeros(len(addresses))
        at = np.clip(np.searchsorted(self.start, addresses, "right") - 1, 0, None)
        part = (addresses - self.start[at]) / np.maximum(1, self.stop[at] - self.start[at])
        placed: Column = self.left[at] + np.clip(part, 0, 1) * (self.right[at] - self.left[at])
        return placed

    def holds(self, starts: Column, stops: Column) -> Column:
        """Return which ranges lie in a stretch, at least with a part."""
        if len(self.start) == 0:
            return np.zeros(len(starts), bool)
        at = np.clip(np.searchsorted(self.start, stops, "left") - 1, 0, None)
        inside: Column = (self.start[at] < stops) & (self.stop[at] > starts)
        return inside

    @property
    def breaks(self) -> Column:
        """The bytes that each break leaves out."""
        left_out: Column = self.start[1:] - self.stop[:-1]
        return left_out

    @property
    def scale(self) -> float:
        """Bytes of a pixel, in the longest stretch."""
        if len(self.start) == 0:
            return 1.0
        at = int(np.argmax(self.stop - self.start))
        return float((self.stop[at] - self.start[at]) / max(1e-9, self.right[at] - self.left[at]))


def axis_of(starts: Column, stops: Column, width: float, window: tuple[int, int] | None = None) -> Axis:
    """Return the axis of the ranges, in any order and overlapping as they like: from the first to the last address.

    With a window: of what lies in it, to its edges unless much is free there.
    """
    if window is not None:
        inside = (stops > window[0]) & (starts < window[1])
        starts, stops = np.maximum(starts[inside], window[0]), np.minimum(stops[inside], window[1])
        edges = np.array(window, np.int64)
        starts, stops = np.concatenate([edges, starts]), np.concatenate([edges, stops])
    if len(starts) == 0:
        nothing = np.zeros(0, np.int64)
        return Axis(nothing, nothing, np.zeros(0), np.zeros(0))
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    gaps = starts[1:] - reach[:-1]
    used = int(reach[-1] - starts[0] - np.maximum(gaps, 0).sum())
    wide = np.flatnonzero(gaps > max(used * BREAK, 1)) if used else np.zeros(0, np.int64)
    if len(wide) > MOST_BREAKS:
        wide = np.sort(wide[np.argsort(-gaps[wide], kind="stable")[:MOST_BREAKS]])
    first, last = np.append(starts[0], starts[wide + 1]), np.append(reach[wide], reach[-1])
    left, right = _stand(last - first, width)
    return Axis(first, last, left, right)


def _stand(lengths: Column, width: float) -> tuple[Column, Column]:
    """Divide a width among stretches by their lengths, none below `LEAST` pixels, with breaks between them."""
    room = width * SHARE
    free = max(1.0, width - room * (len(lengths) - 1))
    widths = np.full(len(lengths), min(LEAST, free / len(lengths)))
    widths += lengths / max(1, int(lengths.sum())) * max(0.0, free - float(widths.sum()))
    left = np.append(0.0, np.cumsum(widths + room)[:-1])
    return left, left + widths


@dataclass(frozen=True, slots=True)
class Groups:
    """Many ranges as drawn: `row` is one that is drawn on its own, -1 stands for several narrower than a pixel.

    `count` ranges with `size` bytes together; `fill` is the part of the pixel that they cover.
    """

    row: Column
    left: Column
    right: Column
    count: Column
    size: Column
    fill: Column

    def __len__(self) -> int:
        return len(self.row)


def group(left: Column, right: Column, size: Column, alone: Column | None = None) -> Groups:
    """Return wide ranges as they are, and narrow ones together by the pixel that they begin in.

    `alone` are rows that are drawn on their own in any case. There are at most about two groups a pixel.
    """
    wide = right - left >= VISIBLE
    if alone is not None:
        wide[alone] = True
    narrow = np.flatnonzero(~wide)
    pixel = np.floor(left[narrow]).astype(np.int64)
    order = np.argsort(pixel, kind="stable")
    narrow, pixel = narrow[order], pixel[order]
    opens = np.flatnonzero(np.append(True, pixel[1:] != pixel[:-1])) if len(narrow) else np.zeros(0, np.int64)
    own = np.flatnonzero(wide)
    if len(opens) == 0:
        return Groups(own, left[own], right[own], np.ones(len(own), np.int64), size[own], np.ones(len(own)))
    counts = np.diff(np.append(opens, len(narrow)))
    cover = np.minimum(1.0, np.add.reduceat(right[narrow] - left[narrow], opens))
    begins = pixel[opens].astype(np.float64)
    return Groups(
        np.append(own, np.where(counts == 1, narrow[opens], -1)),
        np.append(left[own], begins),
        np.append(right[own], begins + 1),
        np.append(np.ones(len(own), np.int64), counts),
        np.append(size[own], np.add.reduceat(size[narrow], opens)),
        np.append(np.ones(len(own)), np.where(counts == 1, 1.0, cover)),
    )


@dataclass(frozen=True, slots=True)
class Extent:
    """The sizes of a device in bytes; all 0 where a trace does not tell which device it was recorded on."""

    name: str = ""
    capacity: int = 0
    bank: int = 0
    banks: int = 0
    l1: int = 0
    l2: int = 0


def extent_of(feed: Feed, device: int, bank: Column, offset: Column) -> Extent:
    """Return the sizes of a device. `bank` and `offset` are of its allocations, as far as known.

    A trace that names no architecture still tells it when the banks of its addresses fit to one only.
    """
    if feed.driver is not None:
        return _sizes(feed.driver.arch)
    try:
        return _sizes(architecture(feed.names.devices.get(device, "")))
    except InvalidValue:
        fitting = [each for each in ARCHITECTURES.values() if _fits(each, bank, offset)]
        return _sizes(fitting[0]) if len(fitting) == 1 else Extent()


def _fits(arch: Architecture, bank: Column, offset: Column) -> bool:
    return bool((offset < arch.l3_bytes).all() and (offset // (arch.l3_bytes // arch.banks) == bank).all())


def _sizes(arch: Architecture) -> Extent:
    part = arch.l3_bytes // arch.banks
    return Extent(arch.name, part * arch.banks, part, arch.banks, arch.l1_usable, arch.l2_usable)


NOTHING: Final = np.zeros(0, np.int64)


class State(IntEnum):
    """The state of a range at the moment shown. `REUSED`: live, in a range that a pool had kept."""

    FREED = 0
    KEPT = 1
    LIVE = 2
    REUSED = 3


@dataclass(frozen=True, slots=True)
class Zoom:
    """A part of a bank's addresses that a page asks for."""

    bank: int
    start: int
    stop: int

    @classmethod
    def asked(cls, wish: object, device: int) -> Zoom | None:
        """Return what an option asks for of a device; None for nothing, and for what makes no sense."""
        names = ("device", "bank", "from", "to")
        if not isinstance(wish, dict) or any(type(wish.get(name)) not in (int, float) for name in names):
            return None
        values = [wish[name] for name in names]
        if any(not abs(value) < 2**53 for value in values) or values[0] != device or int(values[2]) >= int(values[3]):
            return None
        return cls(int(values[1]), max(0, int(values[2])), max(1, int(values[3])))


@dataclass(frozen=True, slots=True)
class Lane:
    """A bank as it is drawn. `rows` are the lives that its groups are of."""

    ordinal: int
    bank: int
    axis: Axis
    groups: Groups
    rows: Column
    state: Column
    used: int
    live: int
    capacity: int
    zoomed: bool

    def shape_rows(self) -> Column:
        """Return the life of each shape, -1 where it stands for several."""
        if len(self.rows) == 0:
            return self.groups.row
        return np.where(self.groups.row >= 0, self.rows[np.maximum(self.groups.row, 0)], -1)

    def told(self) -> Told:
        """Return what travels to a page beside the shapes."""
        use = format_bytes(self.used) + (f" of {format_bytes(self.capacity)}" if self.capacity else "")
        scale = f"1 px = {_short(self.axis.scale)}"
        return {
            "ordinal": self.ordinal, "bank": self.bank, "use": use, "live": self.live, "scale": scale,
            "zoomed": self.zoomed,
        }  # fmt: skip


def _short(size: float) -> str:
    """Return bytes with three digits at most."""
    power = 10 ** max(0, len(str(int(size))) - 3)
    number, unit = format_bytes(max(1, round(size / power) * power)).split(" ")
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{float(number):.0f} {unit}"


def lanes_of(
    history: History, standing: Standing, extent: Extent, width: int, zoom: Zoom | None,
    touched: tuple[Column, Column], chosen: int,
) -> list[Lane]:
    """Return a lane for each bank that anything is in at this moment, was freed in, or is touched in.

    `touched` are starts and ends of what the marked operation used, `chosen` the row that is always drawn on its own.
    """
    rows = np.concatenate([standing.freed, standing.kept, standing.live])
    again = history["again"][standing.live]
    state = np.concatenate([
        np.full(len(standing.freed), State.FREED), np.full(len(standing.kept), State.KEPT),
        np.where(again, State.REUSED, State.LIVE),
    ])  # fmt: skip
    banks = history["bank"][rows]
    extra = touched[0] // extent.bank if extent.bank else NOTHING
    device = int(history["device"][rows[0]]) if len(rows) else -1
    wanted = {*np.unique(banks).tolist(), *(np.unique(extra).tolist() if len(rows) else ())}
    lanes = []
    for bank in sorted(wanted | ({zoom.bank} if zoom is not None and len(rows) else set())):
        here = banks == bank
        more = tuple(part[extra == bank] for part in touched) if extent.bank else (NOTHING, NOTHING)
        window = (zoom.start, zoom.stop) if zoom is not None and zoom.bank == bank else None
        lanes.append(_lane(history, rows[here], state[here], (device, bank), extent, width, window, more, chosen))
    return lanes


def _lane(
    history: History, rows: Column, state: Column, place: tuple[int, int], extent: Extent, width: int,
    window: tuple[int, int] | None, touched: Sequence[Column], chosen: int,
) -> Lane:
    starts, stops = history["offset"][rows], history.ends(rows)
    axis = axis_of(np.append(starts, touched[0]), np.append(stops, touched[1]), width, window)
    held = state != State.FREED
    used, live = union(starts[held], stops[held]), int((state >= State.LIVE).sum())
    seen = axis.holds(starts, stops)
    rows, state, starts, stops = rows[seen], state[seen], starts[seen], stops[seen]
    left, right = axis.place(starts), axis.place(stops)
    groups, shown = _groups(left, right, stops - starts, state, rows == chosen)
    return Lane(*place, axis, groups, rows, shown, used, live, extent.bank, window is not None)


def _groups(left: Column, right: Column, size: Column, state: Column, alone: Column) -> tuple[Groups, Column]:
    """Return what is drawn of a lane's ranges, and the state of each; what lives is last, over what was there."""
    found: list[Groups] = []
    states: list[Column] = []
    for kind in (State.FREED, State.KEPT, State.LIVE):
        at = np.flatnonzero(state == kind if kind is not State.LIVE else state >= kind)
        some = group(left[at], right[at], size[at], alone[at])
        own = np.append(at, -1)[some.row]  # the row of one that stands for itself; -1 stays
        found.append(replace(some, row=own))
        states.append(np.where(own >= 0, np.append(state, kind)[own], kind))
    joined = (np.concatenate([getattr(each, name) for each in found]) for name in Groups.__slots__)
    return Groups(*joined), np.concatenate(states)
