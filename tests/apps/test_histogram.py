"""The demo's kernel counts as numpy does, whatever the size, the chip, the executor and when transfers take effect."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.apps.demo import Chunk
from atops.apps.demo_report import Counts
from atops.apps.histogram import BLOCKS, THREADS, TILE, VALUES, count_bytes
from atops.base.options import EmulatorOptions
from atops.runtime.device import Device
from atops.runtime.run import run
from tests.runtime.boards import PATIENCE, device

WAVE = BLOCKS * THREADS * TILE  # bytes that give every thread one tile
EDGES = (0, 1, 2, TILE - 1, TILE, TILE + 1, 2 * TILE + 3, WAVE - 1, WAVE, WAVE + 1, 2 * WAVE + 5 * TILE + 77)


def some_bytes(size: int, seed: int = 0) -> Chunk:
    """Return bytes of which small values are commoner than large ones, so that a lost tile changes every count."""
    return (np.random.default_rng([seed, size]).integers(0, 256, size) ** 2 >> 8).astype(np.uint8)


def expected(data: Chunk) -> list[int]:
    """Return how often numpy finds each value."""
    return np.bincount(data, minlength=VALUES).tolist()


def counted(device: Device, *inputs: Chunk) -> list[Counts]:
    """Count each input, all of them enqueued on one stream before the first is waited for."""
    stream = device.create_stream()
    try:
        fetched = [stream.fetch(count_bytes(stream, stream.upload(data))) for data in inputs]
        return [completion.wait_sync(PATIENCE) for completion in fetched]
    finally:
        stream.close()


@pytest.fixture(scope="module", params=["gcu210", "gcu300"])
def chip(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A device of each architecture, that keeps its stale memories from one test to the next."""
    with device(arch=request.param) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
@pytest.mark.parametrize("dte", ["wait", "eager", "seeded"])
@pytest.mark.parametrize("workers", [1, 2, "sip"])
@pytest.mark.parametrize("arch", ["gcu210", "gcu300"])
def test_every_way_of_running_counts_alike(arch: str, workers: int | str, dte: str, strict: bool) -> None:
    """Nothing, a byte, and both sides of each edge of tiles and shares are counted as numpy counts them."""
    inputs = [some_bytes(size) for size in EDGES]
    with device(arch=arch, workers=workers, dte=dte, strict=strict, seed=3) as found:
        results = counted(found, *inputs)
    for data, rows in zip(inputs, results, strict=True):
        assert (rows.shape, rows.dtype) == ((BLOCKS, VALUES), np.int64)
        assert rows.sum(axis=0).tolist() == expected(data), f"{data.size} bytes"


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("dte", ["wait", "seeded"])
def test_every_order_of_an_inline_run_counts_alike(seed: int | None, dte: str) -> None:
    """Whichever thread the seed picks next, the rows are the same: no thread reads what another has yet to write."""
    inputs = [some_bytes(size) for size in (1, TILE + 1, WAVE + 1)]

    async def main() -> list[Counts]:
        async with Device(0).create_stream() as stream:
            return [await stream.fetch(count_bytes(stream, stream.upload(data))) for data in inputs]

    results = run(main, EmulatorOptions(seed=seed, dte=dte))
    assert [rows.sum(axis=0).tolist() for rows in results] == [expected(data) for data in inputs]


@pytest.mark.slow
@given(size=st.integers(0, 3 * WAVE), seed=st.integers(0, 9))
def test_any_size(chip: Device, size: int, seed: int) -> None:
    """A size and contents picked at random are counted as numpy counts them."""
    data = some_bytes(size, seed)
    (rows,) = counted(chip, data)
    assert rows.sum(axis=0).tolist() == expected(data)


@pytest.mark.slow
@given(pieces=st.lists(st.tuples(st.integers(0, 255), st.integers(1, 2 * TILE)), max_size=8))
def test_any_bytes(chip: Device, pieces: list[tuple[int, int]]) -> None:
    """Runs of any values, the first and the last one too, are counted as numpy counts them."""
    data = np.repeat(np.array([value for value, _ in pieces], np.uint8), [length for _, length in pieces])
    (rows,) = counted(chip, data)
    assert rows.sum(axis=0).tolist() == expected(data)


@pytest.mark.parametrize("value", [0, 255])
def test_one_value_only(chip: Device, value: int) -> None:
    """Where all bytes are equal one count is the size and the others are 0: nothing is cut off or left over."""
    (rows,) = counted(chip, np.full(WAVE + 1, value, np.uint8))
    assert rows.sum(axis=0).tolist() == [WAVE + 1 if each == value else 0 for each in range(VALUES)]


def test_each_block_counts_its_own_share(chip: Device) -> None:
    """A block's row holds the tiles of its threads and no others: tiles go to the threads in turn."""
    data = some_bytes(3 * WAVE + 5)
    shares: list[list[Chunk]] = [[], []]
    for number, start in enumerate(range(0, data.size, TILE)):
        shares[number % (BLOCKS * THREADS) // THREADS].append(data[start : start + TILE])
    (rows,) = counted(chip, data)
    assert rows.tolist() == [expected(np.concatenate(share)) for share in shares]


def test_chunks_do_not_see_each_other(chip: Device) -> None:
    """A short input after a long one, and an empty one after that, find no counts of those before."""
    long, short, none = some_bytes(2 * WAVE), some_bytes(3, seed=1), some_bytes(0)
    results = counted(chip, long, short, none, short)
    assert [rows.sum(axis=0).tolist() for rows in results] == [expected(each) for each in (long, short, none, short)]
