"""The banks of a device as the C-style functions list them: how many, and in which order for the caller."""

from __future__ import annotations

from typing import Any

from atops.base.errors import InvalidValue
from atops.device.arch import Architecture
from atops.runtime.device import Device
from atops.runtime.resources.affinity import near_banks
from atops.runtime.resources.bundle import bundle_of
from atops.tops.bridge.arguments import whole

__all__ = ("check_total", "logical_banks")


def check_total(arch: Architecture, bank_total: Any) -> None:
    """Raise InvalidValue unless `bank_total` is how many banks the architecture has."""
    if whole(bank_total, "bank_total") != arch.banks:
        raise InvalidValue(f"bank_total is {bank_total}; the device has {arch.banks} banks")


def logical_banks(device: Device) -> tuple[int, ...]:
    """Return the physical bank of each logical one: by nearness to the caller's default bundle, else 0, 1, 2 ...

    Raises InvalidHandle where the default bundle was destroyed.
    """
    bundle = bundle_of(device.context)
    return near_banks(device.arch, () if bundle is None else bundle.clusters)
