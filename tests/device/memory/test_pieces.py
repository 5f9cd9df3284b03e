"""What is taken of a scratchpad: never two live arrays in one place, and all of it again when they are gone."""

from __future__ import annotations

import random

import numpy as np
import pytest

from atops.device.arch import architecture
from atops.device.chip import Chip
from atops.device.memory.pieces import ALIGNMENT, Pieces

L1 = Chip(architecture("gcu300"), 0).clusters[0].sips[0].l1


@pytest.mark.slow
def test_random_use_never_overlaps_and_loses_nothing():
    """Of many arrays, taken and dropped at random, those alive are apart, aligned, and hold what was stored."""
    draw, pieces, alive = random.Random(7), Pieces(L1, 300), []
    for turn in range(3000):
        if alive and draw.random() < 0.5:
            alive.pop(draw.randrange(len(alive)))
            continue
        size = draw.choice([0, 1, 100, 128, 5000, 100_000])
        taken = pieces.take((size,), np.dtype(np.uint8), size)
        if taken is None:
            assert size + sum(each.size + ALIGNMENT for each, _ in alive) > len(L1) - 300 - 5000 * len(alive)
            alive.clear()
            continue
        array, start = taken
        assert start % ALIGNMENT == 0 and start >= 300 and start + size <= min(len(L1), pieces.top)
        array[:] = turn % 251
        view = array.reshape(1, -1)[0]  # which keeps the memory alone
        alive.append((view, turn % 251))
        del array, taken
        assert all((each == value).all() for each, value in alive)
    alive.clear()
    del view
    whole = pieces.take((len(L1) - 384,), np.dtype(np.uint8), len(L1) - 384)
    assert whole is not None and whole[1] == 384


def test_a_loop_stays_where_it_began():
    """A name that is bound anew each time uses two places in turn; what a view holds is not given again."""
    pieces, held = Pieces(L1), []
    places = []
    for _ in range(6):
        tile, start = pieces.take((1000,), np.dtype(np.uint8), 1000)
        places.append(start)
    assert places == [0, 1024, 0, 1024, 0, 1024]
    held.append(tile[10:20])
    del tile
    assert [pieces.take((1000,), np.dtype(np.uint8), 1000)[1] for _ in range(3)] == [0] * 3


def test_a_refusal_tells_what_is_left():
    """The bytes in use, and the longest free run where it is less than all the rest."""
    pieces = Pieces(L1)
    size = len(L1) // 4 // ALIGNMENT * ALIGNMENT
    first, second, third = (pieces.take((size,), np.dtype(np.uint8), size) for _ in range(3))
    del second, first
    assert pieces.take((2 * size,), np.dtype(np.uint8), 2 * size)[1] == 0
    third = pieces.take((len(L1) - 3 * size,), np.dtype(np.uint8), len(L1) - 3 * size)
    said = pieces.refusal("local memory of 9 bytes", "L1")
    assert said.startswith("local memory of 9 bytes was asked for; ") and "bytes of L1 are in use" in said
    assert third is not None
