"""How large a device's memories are: of a live driver from its architecture, of a trace from what it tells."""

from __future__ import annotations

from dataclasses import dataclass

from atops.base.errors import InvalidValue
from atops.device.arch import ARCHITECTURES, Architecture, architecture
from atops_widgets.feed.columns import Column
from atops_widgets.feed.feed import Feed

__all__ = ("Extent", "extent_of")


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
