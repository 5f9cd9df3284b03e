"""The lanes of a device: one for each bank, its ranges as shapes on an axis of addresses; and the device's sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from atops.base.errors import InvalidValue
from atops.device.arch import ARCHITECTURES, Architecture, architecture
from atops.trace.text import format_bytes
from atops_widgets.drawing.scene import Told
from atops_widgets.feed.columns import Column
from atops_widgets.feed.feed import Feed
from atops_widgets.feed.ranges import union
from atops_widgets.memory_map.curve import largest_gap
from atops_widgets.memory_map.history import History, Standing
from atops_widgets.memory_map.layout import Axis, Groups, axis_of, group

__all__ = ("Extent", "Lane", "State", "Zoom", "extent_of", "lanes_of")


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
    """What a range is at the moment shown. `REUSED` ones live, in a range that a pool had kept."""

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
    """A bank as it is drawn. `rows` are the lives that its groups are of; `device` is its place among those shown."""

    device: int
    ordinal: int
    bank: int
    axis: Axis
    groups: Groups
    rows: Column
    state: Column
    used: int
    live: int
    capacity: int
    largest: int
    zoomed: bool

    def shape_rows(self) -> Column:
        """Return the life of each shape, -1 where it stands for several."""
        if len(self.rows) == 0:
            return self.groups.row
        return np.where(self.groups.row >= 0, self.rows[np.maximum(self.groups.row, 0)], -1)

    def told(self) -> Told:
        """Return what travels to a page beside the shapes."""
        use = format_bytes(self.used) + (f" of {format_bytes(self.capacity)}" if self.capacity else "")
        return {
            "device": self.device, "ordinal": self.ordinal, "bank": self.bank, "use": use, "live": self.live,
            "scale": f"1 px = {_short(self.axis.scale)}", "largest": self.largest,
            "zoomed": self.zoomed,
        }  # fmt: skip


def _short(size: float) -> str:
    """Return bytes with three digits at most."""
    power = 10 ** max(0, len(str(int(size))) - 3)
    number, unit = format_bytes(max(1, round(size / power) * power)).split(" ")
    return f"{float(number):.3g} {unit}" if float(number) < 1000 else f"{float(number):.0f} {unit}"


def lanes_of(
    history: History, standing: Standing, place: int, extent: Extent, width: int, zoom: Zoom | None,
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
        names = place, device, bank
        lanes.append(_lane(history, rows[here], state[here], names, extent, width, window, more, chosen))
    return lanes


def _lane(
    history: History, rows: Column, state: Column, names: tuple[int, int, int], extent: Extent, width: int,
    window: tuple[int, int] | None, touched: Sequence[Column], chosen: int,
) -> Lane:
    starts, stops = history["offset"][rows], history.ends(rows)
    axis = axis_of(np.append(starts, touched[0]), np.append(stops, touched[1]), width, window)
    held = state != State.FREED
    first = names[2] * extent.bank
    largest = largest_gap(starts[held], stops[held], first, first + extent.bank) if extent.bank else 0
    used, live = union(starts[held], stops[held]), int((state >= State.LIVE).sum())
    seen = axis.holds(starts, stops)
    rows, state, starts, stops = rows[seen], state[seen], starts[seen], stops[seen]
    left, right = axis.place(starts), axis.place(stops)
    groups, shown = _groups(left, right, stops - starts, state, rows == chosen)
    zoomed = window is not None
    return Lane(*names, axis, groups, rows, shown, used, live, extent.bank, largest, zoomed)


def _groups(left: Column, right: Column, size: Column, state: Column, alone: Column) -> tuple[Groups, Column]:
    """Return what is drawn of a lane's ranges, and the state of each; what lives is last, over what was there."""
    found: list[Groups] = []
    states: list[Column] = []
    for kind in (State.FREED, State.KEPT, State.LIVE):
        at = np.flatnonzero(state == kind if kind is not State.LIVE else state >= kind)
        some = group(left[at], right[at], size[at], alone[at])
        own = np.append(at, -1)[some.row]  # the row of one that stands for itself; -1 stays
        found.append(Groups(own, some.left, some.right, some.count, some.size, some.fill))
        states.append(np.where(own >= 0, np.append(state, kind)[own], kind))
    names = ("row", "left", "right", "count", "size", "fill")
    joined = (np.concatenate([getattr(each, name) for each in found]) for name in names)
    return Groups(*joined), np.concatenate(states)
