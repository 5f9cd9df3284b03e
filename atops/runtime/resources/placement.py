"""Which clusters, SIPs and banks a resource bundle or a reservation gets (TOPS Runtime API, 2.11). Arithmetic only.

A part is a tuple with a mask of SIPs for each cluster of the device, 0 for a cluster that it has nothing of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from atops.base.errors import InvalidValue, LaunchOutOfResources
from atops.device.arch import Architecture

__all__ = ("BundleRequest", "Claimed", "Part", "banks_of", "choose_part", "choose_reservation", "left_by", "near_banks")

Part = tuple[int, ...]
POLICIES = ("best_fit", "affinity_only", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """What a bundle is made of. Exactly one of `clusters` (a count), `cluster_mask` and `sips` (on one cluster) counts.

    None of them means every cluster. `engines` are copy engines beside `sips`. `exclusive`: nothing else runs there.
    `memory` bytes are reserved by `policy`: "best_fit" from the near banks, then the others, "affinity_only" from the
    near ones, "none" from bank 0 up.
    """

    clusters: int | None = None
    cluster_mask: int | None = None
    sips: int | None = None
    engines: int = 0
    exclusive: bool = False
    memory: int = 0
    policy: str = "best_fit"

    def __post_init__(self) -> None:
        for name in ("clusters", "cluster_mask", "sips"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidValue(f"a resource bundle with {name} {value}; expected 1 or more")
        if sum(each is not None for each in (self.clusters, self.cluster_mask, self.sips)) > 1:
            raise InvalidValue(f"{self}; expected one of clusters, cluster_mask and sips")
        if self.engines < 0 or self.memory < 0 or (self.engines and self.sips is None):
            raise InvalidValue(f"{self}; expected 0 or more, and copy engines only with sips")
        if self.policy not in POLICIES:
            raise InvalidValue(f"the memory policy is {self.policy!r}; expected one of {POLICIES}")


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a bundle has: its part, the copy engines of its one cluster, and whether nothing else runs there."""

    part: Part
    engines: int
    exclusive: bool


def left_by(base: Part, claims: Iterable[Claimed]) -> Part:
    """Return what exclusive claims leave of `base`."""
    parts = [each.part for each in claims if each.exclusive]
    return tuple(mask & ~_united(parts, ordinal) for ordinal, mask in enumerate(base))


def choose_part(request: BundleRequest, base: Part, claims: Sequence[Claimed], engines: int) -> Part:
    """Return the part of `base` that a bundle gets beside the claims there are; a cluster has so many copy `engines`.

    Raises LaunchOutOfResources for what cannot be had, InvalidValue for clusters that the device does not have.
    """
    if request.sips is not None:
        return _sips(request.sips, request.exclusive, base, claims, _with_engines(request.engines, claims, engines))
    able = _whole_clusters(base, claims, request.exclusive)
    if request.cluster_mask is not None:
        if request.cluster_mask >> len(base):
            raise InvalidValue(f"cluster mask {request.cluster_mask:#x}; the device has {len(base)} clusters")
        chosen = [ordinal for ordinal in range(len(base)) if request.cluster_mask >> ordinal & 1]
    else:
        count = request.clusters if request.clusters is not None else sum(map(bool, base))
        chosen = sorted(able[:count])
        if count > len(able):
            raise LaunchOutOfResources(f"a resource bundle of {count} clusters; {len(able)} can be had now")
    if missing := [ordinal for ordinal in chosen if ordinal not in able]:
        raise LaunchOutOfResources(f"a resource bundle of clusters {chosen}; {missing} cannot be had now")
    return tuple(mask if ordinal in chosen else 0 for ordinal, mask in enumerate(base))


def choose_reservation(threads: int, whole: Part, claims: Sequence[Claimed]) -> Part:
    """Return `threads` SIPs of one cluster, or where that is too few for them whole clusters, beside exclusive claims.

    Raises LaunchOutOfResources where too few are left.
    """
    width = max(mask.bit_count() for mask in whole)
    exclusive = [each for each in claims if each.exclusive]
    if threads <= width:
        return _sips(threads, False, whole, exclusive, lambda ordinal: True)
    return choose_part(BundleRequest(clusters=-(-threads // width)), whole, exclusive, 0)


def _united(parts: Iterable[Part], ordinal: int) -> int:
    return reduce(or_, (part[ordinal] for part in parts), 0)


def _whole_clusters(base: Part, claims: Sequence[Claimed], exclusive: bool) -> list[int]:
    """Return the clusters that can be had with all that `base` has of them: those that the fewest bundles use first."""
    users = [sum(bool(each.part[ordinal]) for each in claims) for ordinal in range(len(base))]
    left = left_by(base, claims)
    able = [ordinal for ordinal, mask in enumerate(base) if mask and left[ordinal] == mask]
    return sorted((each for each in able if not (exclusive and users[each])), key=users.__getitem__)


def _with_engines(wanted: int, claims: Sequence[Claimed], engines: int) -> Callable[[int], bool]:
    """Return what tells whether a cluster has so many copy engines that no bundle claims."""
    return lambda ordinal: wanted <= engines - sum(each.engines for each in claims if each.part[ordinal])


def _sips(
    count: int, exclusive: bool, base: Part, claims: Sequence[Claimed], fits: Callable[[int], bool]
) -> Part:
    """Return so many SIPs of the cluster that they fit best: the one with the fewest unclaimed SIPs that hold them.

    Without such a cluster those of other bundles are shared, unless the bundle, or the other one, is exclusive.
    """
    unclaimed = [mask & ~_united((each.part for each in claims), ordinal) for ordinal, mask in enumerate(base)]
    for free in (unclaimed, [] if exclusive else left_by(base, claims)):
        able = [ordinal for ordinal, mask in enumerate(free) if mask.bit_count() >= count and fits(ordinal)]
        if able:
            best = min(able, key=lambda ordinal: free[ordinal].bit_count())
            return tuple(_lowest(free[best], count) if ordinal == best else 0 for ordinal in range(len(base)))
    most = max(mask.bit_count() for mask in left_by(base, claims))
    raise LaunchOutOfResources(
        f"{count} SIP threads of one cluster{' and their copy engines' if most >= count else ''} cannot be had now; "
        f"the most that exclusive bundles leave on one is {most}"
    )


def _lowest(mask: int, count: int) -> int:
    found = 0
    for _ in range(count):
        lowest = mask & -mask
        found, mask = found | lowest, mask ^ lowest
    return found


# ---- which banks of L3 are near which clusters


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
