"""Where blocks stand in the SVG: the script's own test has the same blocks in the same places."""

from __future__ import annotations

from atops_widgets.cluster_grid.svg import layout


def test_blocks_stand_beside_their_cluster() -> None:
    """A cluster begins a row of its own; what does not fit goes below; nothing leaves the width."""
    boxes = layout([[0, 0, 0, 12], [2, 0, 0, 12], [1, 1, 0, 4]], 500, 10)
    assert [(box.block, box.first, box.starts) for box in boxes] == [(0, 0, True), (2, 12, False), (1, 24, True)]
    assert [(box.x, box.y) for box in boxes] == [(74, 10), (74, 64), (74, 122)]
    assert all(box.x + box.width <= 500 for box in boxes)


def test_a_block_wraps_where_it_is_too_wide() -> None:
    """In a narrow drawing a block has fewer cells in a row, and is higher."""
    (box,) = layout([[0, 0, 0, 12]], 180, 0)
    assert box.columns == 3 and box.x + box.width <= 180 and box.height > 4 * 24
