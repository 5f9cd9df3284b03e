"""Which banks of L3 are near which clusters (TOPS Runtime API, 2.11). Arithmetic only: it knows no memory."""

from __future__ import annotations

from collections.abc import Collection

from atops.device.arch import Architecture

__all__ = ("banks_of", "near_banks")


def near_banks(arch: Architecture, clusters: Collection[int] = ()) -> tuple[int, ...]:
    """Return all banks of the chip, those nearest to `clusters` first; without clusters 0, 1, 2 and so on.

    Bank b is near cluster `b * clusters // banks`; the distance of a bank is that to the nearest of the clusters given,
    and among equals the lower number comes first.
    """

    def distance(bank: int) -> int:
        home = _home(arch, bank)
        return min((abs(home - cluster) for cluster in clusters), default=0)

    return tuple(sorted(range(arch.banks), key=distance))


def banks_of(arch: Architecture, clusters: Collection[int]) -> tuple[int, ...]:
    """Return the banks that are near one of `clusters`."""
    return tuple(bank for bank in range(arch.banks) if _home(arch, bank) in clusters)


def _home(arch: Architecture, bank: int) -> int:
    return bank * arch.clusters // arch.banks
