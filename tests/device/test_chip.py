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


def test_scratchpads_are_aligned_and_the_base_of_their_views():
    """They begin at a multiple of a vector's bytes, and any view of a view names the scratchpad itself."""
    cluster = Chip(architecture("gcu300"), 0).clusters[1]
    for memory in (cluster.l2, *(sip.l1 for sip in cluster.sips)):
        assert memory.ctypes.data % 128 == 0
        assert memory[4:].view(np.int32)[1:].base is memory and not memory[:1024].any()


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
    """In strict mode a block cannot read what the one before it left in L1; in default mode it is stale."""
    for strict in (True, False):
        host = Host(strict=strict)
        seen = []

        def kernel(thread, seen=seen):
            seen.append(int(thread.sip.l1[5]))
            thread.sip.l1[5] = 1

        host.run(host.grid(kernel, 1, 1))
        host.run(host.grid(kernel, 1, 1))
        assert seen[1] == (POISON if strict else 1)
