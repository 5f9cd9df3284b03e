"""Which grid gets a free cluster: order, urgency, cooperative launches, masks, withdrawals, with idle grids."""

from __future__ import annotations

import pytest

from atops.base.errors import CooperativeLaunchTooLarge, InvalidValue, LaunchFailure, LaunchOutOfResources
from atops.device.arch import architecture
from atops.device.chip import Cluster
from atops.device.exec.block_scheduler import ClusterArray
from tests.device.kernel_host import Host


def kernel():
    """A kernel that does nothing."""


class Board:
    """An array of any number of clusters. Placed blocks stay until `end`; `log` has (grid, block, cluster)."""

    def __init__(self, clusters=2):
        self.host = Host()
        arch = architecture("gcu300")
        self.array = ClusterArray(Cluster(ordinal, arch) for ordinal in range(clusters))
        self.array.place = self.place
        self.running = {}
        self.names = {}
        self.log = []

    def place(self, block):
        self.log.append((self.names[block.grid], block.linear, block.cluster.ordinal))
        self.running[block.cluster.ordinal] = block

    def submit(self, name, blocks, priority=0, ticket=None, cooperative=False, threads=12, **masks):
        grid = self.host.grid(kernel, blocks, threads, cooperative=cooperative)
        self.names[grid] = name
        self.array.submit(grid, priority, len(self.names) if ticket is None else ticket, **masks)
        return grid

    def end(self, cluster):
        self.running.pop(cluster).step(100)

    def news(self):
        log, self.log = self.log, []
        return log


def test_blocks_take_the_lowest_free_cluster_in_order():
    """Blocks are placed one a cluster, the first on cluster 0, the next where one ends."""
    board = Board()
    grid = board.submit("a", 4)
    assert board.news() == [("a", 0, 0), ("a", 1, 1)]
    board.end(1)
    assert board.news() == [("a", 2, 1)]
    board.end(0)
    assert board.news() == [("a", 3, 0)]
    board.end(0)
    assert not grid.done
    board.end(1)
    assert grid.done


def test_a_block_is_the_next_one_of_its_launch_while_no_other_comes_first():
    """It keeps its cluster: not beside a more urgent launch, not where masks are, and never after an error."""
    board = Board(1)
    grid = board.submit("a", 5)
    block = board.running[0]
    assert grid.next_block(block)
    assert (block.linear, block.index, list(grid.blocks), grid.remaining) == (1, (1, 0, 0), [1], 4)
    assert board.submit("later", 1)
    assert grid.next_block(block)
    urgent = board.submit("urgent", 1, priority=-1)
    assert not grid.next_block(block)
    board.end(0)
    board.end(0)
    assert urgent.done and board.news() == [("a", 0, 0), ("urgent", 0, 0), ("a", 3, 0)]
    block = board.running[0]
    assert grid.next_block(block) and not grid.next_block(block), "it was the last one"
    board.end(0)
    assert grid.done and board.news() == [("later", 0, 0)]
    board.end(0)

    masked = board.submit("masked", 2, threads=3, sip_mask=0b111)
    assert not masked.next_block(board.running[0])
    failed = Board(1)
    grid = failed.submit("failed", 3)
    grid.stop(LaunchFailure("no"))
    assert not grid.next_block(failed.running[0])
    failed.end(0)
    assert grid.done


def test_launches_are_served_by_ticket():
    """At equal priority the earlier ticket comes first, whenever it was submitted."""
    board = Board(1)
    board.submit("a", 1)
    board.submit("late", 1, ticket=9)
    board.submit("early", 1, ticket=5)
    board.news()
    for name in ("early", "late"):
        board.end(0)
        assert board.news() == [(name, 0, 0)]


def test_a_more_urgent_launch_gets_the_next_free_cluster():
    """Urgency beats what is left of an earlier launch, and does not interrupt what runs."""
    board = Board()
    board.submit("a", 4)
    board.submit("urgent", 1, priority=-1)
    assert board.news() == [("a", 0, 0), ("a", 1, 1)]
    board.end(0)
    board.end(1)
    assert board.news() == [("urgent", 0, 0), ("a", 2, 1)]


def test_a_cooperative_launch_gets_all_or_none():
    """It waits while one cluster is busy, holds nothing, and starts with both."""
    board = Board()
    board.submit("a", 1)
    board.submit("both", 2, cooperative=True)
    assert board.news() == [("a", 0, 0)]
    board.end(0)
    assert board.news() == [("both", 0, 0), ("both", 1, 1)]


def test_a_waiting_cooperative_launch_blocks_later_and_less_urgent_ones():
    """No launch of equal or lower urgency slips past it; an earlier or a more urgent launch does."""
    board = Board()
    board.submit("a", 2)
    board.submit("both", 2, cooperative=True)
    board.submit("later", 1)
    board.submit("lower", 1, priority=1, ticket=0)
    board.news()
    board.end(0)
    assert board.news() == []
    board.submit("urgent", 1, priority=-1)
    assert board.news() == [("urgent", 0, 0)]
    board.end(0)
    assert board.news() == []
    board.end(1)
    assert board.news() == [("both", 0, 0), ("both", 1, 1)]
    board.end(0)
    board.end(1)
    assert board.news() == [("later", 0, 0), ("lower", 0, 1)]


def test_the_rest_of_an_earlier_launch_goes_before_a_cooperative_one():
    """Blocks of an earlier launch are placed on single free clusters while the cooperative one waits behind them."""
    board = Board()
    board.submit("a", 3)
    board.submit("both", 2, cooperative=True)
    board.news()
    board.end(0)
    assert board.news() == [("a", 2, 0)]
    board.end(1)
    assert board.news() == []
    board.end(0)
    assert board.news() == [("both", 0, 0), ("both", 1, 1)]


def test_clusters_that_a_cooperative_launch_may_not_use_stay_open():
    """A waiting cooperative launch keeps only its own clusters from later ones."""
    board = Board(4)
    board.submit("a", 1)
    board.submit("pair", 2, cooperative=True, cluster_mask=0b0011)
    board.submit("later", 3)
    assert board.news() == [("a", 0, 0), ("later", 0, 2), ("later", 1, 3)]
    board.end(0)
    assert board.news() == [("pair", 0, 0), ("pair", 1, 1)]


def test_masks_limit_clusters_and_sips():
    """Blocks run on allowed clusters only, their threads on allowed SIPs only."""
    board = Board(3)
    board.submit("a", 3, threads=3, cluster_mask=0b110, sip_mask=0b101010)
    assert board.news() == [("a", 0, 1), ("a", 1, 2)]
    assert [thread.sip.ordinal for thread in board.running[1].threads] == [1, 3, 5]
    assert all(thread.sip.cluster is board.running[1].cluster for thread in board.running[1].threads)


def test_pinned_blocks_run_where_they_were_pinned():
    """A cooperative launch may say which cluster each block gets."""
    board = Board(3)
    board.submit("a", 2, cooperative=True, pinned=[2, 0])
    assert board.news() == [("a", 0, 2), ("a", 1, 0)]


REFUSED = [
    ({"cluster_mask": 0}, LaunchOutOfResources, "12 SIP threads on each of 0 clusters"),
    ({"sip_mask": 0b111}, LaunchOutOfResources, "blocks of 12 threads; 3 SIP threads on each of 2 clusters"),
    ({"threads": 13}, LaunchOutOfResources, "blocks of 13 threads; 12 SIP threads"),
    ({"cooperative": True, "blocks": 3}, CooperativeLaunchTooLarge, "has 3 blocks; at most 2 run at once"),
    ({"cooperative": True, "cluster_mask": 1}, CooperativeLaunchTooLarge, "has 2 blocks; at most 1 run at once"),
    ({"pinned": [0, 1]}, InvalidValue, "one for each block of a cooperative grid"),
    ({"cooperative": True, "pinned": [0, 0]}, InvalidValue, "one for each block of a cooperative grid"),
    ({"cooperative": True, "pinned": [0]}, InvalidValue, "one for each block of a cooperative grid"),
    ({"cooperative": True, "pinned": [0, 2]}, InvalidValue, r"expected some of \[0, 1\]"),
]


@pytest.mark.parametrize(("launch", "error", "message"), REFUSED)
def test_what_can_never_run_is_refused(launch, error, message):
    """Too many threads or blocks, empty masks and bad pins are errors of submit, and nothing is queued."""
    board = Board()
    with pytest.raises(error, match=message):
        board.submit("a", **{"blocks": 2, **launch})
    assert "2 of 2 clusters free, 0 waiting" in repr(board.array)


def test_withdrawing_drops_what_was_not_placed():
    """The running blocks end by themselves; then the grid is done, without the others."""
    board = Board()
    grid = board.submit("a", 5)
    board.submit("next", 1)
    board.array.withdraw(grid)
    board.array.withdraw(grid)
    assert not grid.done
    board.end(0)
    assert board.news() == [("a", 0, 0), ("a", 1, 1), ("next", 0, 0)]
    assert not grid.done
    board.end(1)
    assert grid.done
    assert board.host.done == [grid]


def test_withdrawing_a_grid_that_never_ran_ends_it_at_once():
    """Nothing runs, so the end is told by the withdrawal; whom it blocked goes on."""
    board = Board()
    board.submit("a", 1)
    grid = board.submit("both", 2, cooperative=True)
    board.submit("behind", 1)
    board.array.withdraw(grid)
    assert board.host.done == [grid]
    assert board.news() == [("a", 0, 0), ("behind", 0, 1)]


def test_a_huge_grid_costs_nothing_until_it_is_placed():
    """Blocks that wait are a number, not objects."""
    board = Board()
    grid = board.submit("a", (65536, 256, 256))
    assert len(board.running) == 2
    board.array.withdraw(grid)
    for cluster in (0, 1):
        board.end(cluster)
    assert grid.done


def test_a_grid_is_stranded_when_its_own_blocks_hold_every_cluster():
    """Only clusters that it may use count, and only its own blocks."""
    board = Board(3)
    grid = board.submit("a", 4, cluster_mask=0b011)
    assert board.array.stranded(grid) == 2
    board.submit("b", 1)
    assert board.array.stranded(grid) == 2
    other = Board()
    other.submit("first", 1)
    assert other.array.stranded(other.submit("second", 2)) == 0


def test_restricted_work_uses_what_is_open():
    """Later launches run on open clusters and on open SIPs of each; work that is bound to a part runs there."""
    board = Board(3)
    board.array.restrict(lambda: (0, 0b1111, 0b1))
    board.submit("a", 3, threads=1)
    board.submit("b", 1, threads=4, within=(0b111100, 0, 0))
    assert board.news() == [("a", 0, 1), ("a", 1, 2), ("b", 0, 0)]
    assert [thread.sip.ordinal for thread in board.running[0].threads] == [2, 3, 4, 5]
    board.end(2)
    board.submit("c", 1, threads=2)
    assert board.news() == [("a", 2, 2)]
    board.end(1)
    assert board.news() == [("c", 0, 1)]
    with pytest.raises(LaunchOutOfResources, match="blocks of 5 threads; 4 SIP threads on each of 2 clusters"):
        board.submit("d", 1, threads=5)
    with pytest.raises(CooperativeLaunchTooLarge, match="at most 1 run at once"):
        board.submit("e", 2, threads=2, cooperative=True)
    with pytest.raises(LaunchOutOfResources, match="blocks of 2 threads"):
        board.submit("f", 1, threads=2, within=(0b1, 0, 0))


def test_what_waits_moves_when_clusters_close_and_open():
    """A waiting launch goes where it still may, one that may nowhere stays, and all use what opens again."""
    board = Board(2)
    board.submit("a", 2)
    board.submit("b", 2)
    board.submit("c", 2, cooperative=True)
    board.news()
    board.array.restrict(lambda: (0, 0xFFF))
    board.end(0)
    assert board.news() == []  # "b" waits for cluster 1, the cooperative "c" keeps both and comes after it
    board.end(1)
    assert board.news() == [("b", 0, 1)]
    board.array.restrict(lambda: None)
    assert board.news() == [("b", 1, 0)]
    board.end(0)
    board.end(1)
    assert board.news() == [("c", 0, 0), ("c", 1, 1)]


def test_clusters_may_close_between_a_place_and_its_block():
    """Claiming a cluster while a block that got it is being made does not disturb it."""
    board = Board(2)
    restricted = []

    def place(block):
        if not restricted:
            restricted.append(True)
            board.array.restrict(lambda: (0b1111, 0))
        Board.place(board, block)

    board.array.place = place
    board.submit("a", 4, threads=4)
    assert board.news() == [("a", 0, 0), ("a", 1, 1)]
    assert len(board.running[1].threads) == 4
    board.end(1)
    assert board.news() == []
    board.end(0)
    assert board.news() == [("a", 2, 0)]


def test_pins_and_parts_do_not_move():
    """A launch that is bound to a part ignores what is open; one that is pinned keeps its clusters."""
    board = Board(2)
    board.submit("a", 2)
    board.submit("pinned", 1, cooperative=True, pinned=[0])
    board.submit("bound", 1, within=(0xFFF, 0))
    board.news()
    board.array.restrict(lambda: (0, 0xFFF))
    board.end(1)
    assert board.news() == []
    board.end(0)
    assert board.news() == [("pinned", 0, 0)]
    board.end(0)
    assert board.news() == [("bound", 0, 0)]


def test_a_mask_and_what_is_open_both_hold():
    """Of a stream's SIPs only the open ones are used."""
    board = Board(2)
    board.array.restrict(lambda: (0b1110, 0b0001))
    board.submit("a", 2, threads=1, sip_mask=0b0111)
    board.news()
    assert {cluster: block.threads[0].sip.ordinal for cluster, block in board.running.items()} == {0: 1, 1: 0}
    with pytest.raises(LaunchOutOfResources, match="blocks of 3 threads; 1 SIP threads on each of 1 clusters"):
        board.submit("b", 1, threads=3, sip_mask=0b0111, cluster_mask=0b10)
