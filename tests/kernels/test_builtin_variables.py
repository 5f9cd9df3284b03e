"""Where a thread stands, and its share of the work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, InvalidValue, LaunchFailure
from tests.every import every
from tests.kernel_bench import Bench


def test_every_thread_knows_its_place(bench: Bench):
    """Indices and extents have x, y and z, unpack, and give each thread a number of its own, x fastest."""
    seen: dict[int, tuple[object, ...]] = {}

    @k.kernel
    def where():
        assert (k.blockDim.x, k.blockDim.y, k.blockDim.z) == (2, 3, 2) == tuple(k.blockDim)
        assert (k.gridDim.x, k.gridDim.y, k.gridDim.z) == (2, 2, 1) == tuple(k.gridDim)
        tx, ty, tz = k.threadIdx
        assert (k.threadIdx.x, k.threadIdx.y, k.threadIdx.z) == (tx, ty, tz)
        seen[k.thread_id()] = (tuple(k.blockIdx), (tx, ty, tz))
        assert k.thread_count() == 48

    bench.launch(where, ((2, 2), (2, 3, 2)))
    assert sorted(seen) == list(range(48))
    assert seen[0] == ((0, 0, 0), (0, 0, 0)) and seen[13] == ((1, 0, 0), (1, 0, 0))
    assert seen[24] == ((0, 1, 0), (0, 0, 0)) and seen[47] == ((1, 1, 0), (1, 2, 1))


def test_the_host_has_no_place():
    """Outside a kernel every name says so; the repr works everywhere."""
    for read in (lambda: k.threadIdx.x, lambda: list(k.blockIdx), lambda: k.gridDim.z, k.thread_id, k.thread_count,
                 lambda: k.tiles(10, 2)):  # fmt: skip
        with pytest.raises(IllegalState, match="on the host"):
            read()
    assert repr(k.threadIdx) == "<built-in variable threadIdx of kernels>"


def test_a_built_in_variable_is_not_one_number(bench: Bench):
    """As an index, in a slice, as an extent or in arithmetic it says what it is, and that one of three is meant."""
    x = bench.upload(np.zeros(8, np.float32))

    @k.kernel
    def wrong(x, number):
        tile = k.local(8, np.float32)
        uses[number](x, tile)

    uses = [
        lambda x, tile: x[k.threadIdx], lambda x, tile: tile[k.threadIdx], lambda x, tile: x[: k.threadIdx],
        lambda x, tile: x.__setitem__(k.threadIdx, 1), lambda x, tile: tile.__setitem__(k.threadIdx, 1),
        lambda x, tile: list(range(k.threadIdx)), lambda x, tile: tile + k.threadIdx, lambda x, tile: x * k.threadIdx,
    ]  # fmt: skip
    for number in range(len(uses)):
        with pytest.raises(LaunchFailure, match=r"threadIdx is three numbers; use threadIdx\.x") as caught:
            bench.launch(wrong, (1, 2), x, number)
        assert isinstance(caught.value.__cause__, InvalidType)


@every(
    "use",
    [lambda i: i == 0, lambda i: i != 0, lambda i: i == (0, 0, 0), lambda i: i < 1, lambda i: i >= 1, lambda i: not i,
     lambda i: i + 1, lambda i: 1 - i, lambda i: i * i, lambda i: 7 // i, lambda i: i % 2, lambda i: -i,
     lambda i: i << 1, lambda i: 3 & i, lambda i: np.int32(1) + i],
)  # fmt: skip
def test_a_built_in_variable_has_no_operators(use: Callable[[object], object]):
    """Comparisons, truth and arithmetic are refused instead of silently false; it can still be a key."""
    with pytest.raises(InvalidType, match=r"blockIdx is three numbers; use blockIdx\.x"):
        use(k.blockIdx)
    assert {k.blockIdx: 1}[k.blockIdx] == 1 and len({k.threadIdx, k.blockIdx, k.threadIdx}) == 2


@pytest.mark.slow
@given(total=st.integers(0, 300), tile=st.integers(1, 40), blocks=st.integers(1, 3), threads=st.integers(1, 5))
def test_tiles_cover_everything_once(total: int, tile: int, blocks: int, threads: int):
    """All threads' slices together are each element once, full but for the last, dealt out in turn."""
    bench = Bench.of()
    dealt: dict[int, list[slice]] = {}

    @k.kernel
    def deal():
        dealt[k.thread_id()] = list(k.tiles(total, tile))

    bench.launch(deal, (blocks, threads))
    covered = np.zeros(total, int)
    for number, parts in dealt.items():
        for turn, part in enumerate(parts):
            assert part.start == (number + turn * blocks * threads) * tile
            assert part.stop == min(part.start + tile, total) <= total
            covered[part] += 1
    assert (covered == 1).all()


def test_tiles_without_meaning_are_refused(bench: Bench):
    """A negative total, an empty tile and numbers that are none are refused where they are written."""
    for total, tile, error in ((-1, 4, InvalidValue), (4, 0, InvalidValue), (4.0, 4, InvalidType)):

        @k.kernel
        def deal(total, tile):
            k.tiles(total, tile)

        with pytest.raises(LaunchFailure, match="tiles expects") as caught:
            bench.launch(deal, (1, 1), total, tile)
        assert isinstance(caught.value.__cause__, error)
