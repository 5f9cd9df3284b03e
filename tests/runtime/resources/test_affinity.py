"""Which banks are near which clusters."""

from __future__ import annotations

import pytest

from atops.device.arch import ARCHITECTURES
from atops.runtime.resources.placement import banks_of, near_banks


@pytest.mark.parametrize("arch", ARCHITECTURES.values(), ids=str)
def test_every_order_has_every_bank_once(arch):
    """Whatever the clusters, all banks are in the list; without clusters in their own order."""
    assert near_banks(arch) == tuple(range(arch.banks))
    for cluster in range(arch.clusters):
        order = near_banks(arch, {cluster})
        assert sorted(order) == list(range(arch.banks))
        homes = [abs(bank * arch.clusters // arch.banks - cluster) for bank in order]
        assert homes == sorted(homes)


def test_the_nearest_of_several_clusters_counts():
    """The last cluster's banks come first for it; for all clusters every bank is near."""
    arch = ARCHITECTURES["gcu300"]
    assert near_banks(arch, {arch.clusters - 1})[0] == arch.banks * (arch.clusters - 1) // arch.clusters
    assert near_banks(arch, range(arch.clusters)) == tuple(range(arch.banks))


@pytest.mark.parametrize("arch", ARCHITECTURES.values(), ids=str)
def test_each_bank_is_near_one_cluster(arch):
    """The clusters share the banks out among them, equally; none is left over."""
    shares = [banks_of(arch, {cluster}) for cluster in range(arch.clusters)]
    assert sorted(bank for share in shares for bank in share) == list(range(arch.banks))
    assert {len(share) for share in shares} == {arch.banks // arch.clusters}
    assert banks_of(arch, ()) == ()
