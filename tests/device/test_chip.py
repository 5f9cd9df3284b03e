"""The hardware of a device: scratchpads are made when touched, kept between kernels, poisoned and replaced."""

from __future__ import annotations

import numpy as np

from atops.device.arch import architecture
from atops.device.chip import POISON, Chip
from tests.device.kernel_host import Host


def test_a_chip_has_what_its_architecture_says():
    """Clusters, SIPs, capacities and signals come from the table."""
    arch = architecture("gcu300")
    chip = Chip(arch, 3, memory="global")
    assert (chip.ordinal, chip.memory, len(chip.clusters)) == (3, "global", arch.clusters)
    assert [sip.ordinal for sip in chip.clusters[1].sips] == list(range(arch.sips_per_cluster))
    assert chip.clusters[0].sips[0].l1.nbytes == arch.l1_usable
    assert chip.clusters[0].l2.nbytes == arch.l2_usable
    assert len(chip.signals) == arch.kernel_signals


def test_scratchpads_keep_their_bytes():
    """The same memory comes back, with what was stored in it; each SIP has its own."""
    cluster = Chip(architecture("gcu300"), 0).clusters[0]
    cluster.sips[2].l1[:4] = [1, 2, 3, 4]
    assert cluster.sips[2].l1[:4].tolist() == [1, 2, 3, 4]
    assert not np.shares_memory(cluster.sips[2].l1, cluster.sips[3].l1)
    assert cluster.sips[2].l1 is cluster.sips[2].l1


def test_poison_is_found_at_the_next_access():
    """What an earlier block left is gone, once."""
    cluster = Chip(architecture("gcu300"), 0).clusters[0]
    l1 = cluster.sips[0].l1
    l1[:] = 1
    cluster.poison()
    assert (cluster.sips[0].l1 == POISON).all()
    assert cluster.sips[0].l1 is l1
    cluster.sips[0].l1[0] = 7
    assert cluster.sips[0].l1[0] == 7


def test_an_abandoned_kernel_keeps_the_old_memory():
    """After a renewal the old memory is nobody else's."""
    cluster = Chip(architecture("gcu300"), 0).clusters[0]
    old = cluster.sips[0].l1
    cluster.renew()
    assert not np.shares_memory(old, cluster.sips[0].l1)


def test_strict_blocks_begin_with_poison():
    """In strict mode a block cannot read what the one before it left in L1 or L2; in default mode it is stale."""
    for strict in (True, False):
        host = Host(strict=strict)
        seen = []

        def kernel(thread, seen=seen):
            pads = (thread.sip.l1, thread.block.cluster.l2)
            seen.append([int(pad[5]) for pad in pads])
            for pad in pads:
                pad[5] = 1

        host.run(host.grid(kernel, 1, 1))
        host.run(host.grid(kernel, 1, 1))
        assert seen[1] == ([POISON, POISON] if strict else [1, 1])
