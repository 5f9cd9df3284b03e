"""Bytes in one live allocation: checks that name what went wrong, moves and fills that go through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from atops.base.errors import IllegalAddress, InvalidValue
from atops.device.memory.allocation import KEEPS_THE_GIL, Allocation, fill, move
from atops.device.memory.device_memory import DeviceMemory
from tests.every import every

Make = Callable[..., Allocation]


@pytest.fixture
def memory() -> Iterator[DeviceMemory]:
    """The memory of device 3."""
    memory = DeviceMemory(1 << 30, 4, 3, 7 << 36, 1 << 20)
    yield memory
    memory.close()


def test_views_are_exactly_the_requested_bytes(memory: DeviceMemory):
    """`data` and `view` are the same bytes, `size` of them, and do not reach into the neighbour."""
    first, second = memory.allocate(100), memory.allocate(100)
    assert first.data.shape == (100,)
    assert first.data.dtype == np.uint8
    assert (first.view.format, first.view.nbytes, len(first)) == ("B", 100, 100)
    first.view[:] = b"\x07" * 100
    assert (first.data == 7).all()
    assert not second.data.any()
    assert first.data is first.data
    with pytest.raises(AttributeError, match="no attribute 'bytes'"):
        _ = first.bytes


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, 101), (100, 1), (99, 2), (0, -1), (1 << 40, 0)])
def test_what_lies_outside_is_illegal(memory: DeviceMemory, offset: int, size: int):
    """A range not wholly inside raises IllegalAddress: address, user, allocation and what is expected."""
    allocation = memory.allocate(100, label="weights")
    with pytest.raises(IllegalAddress) as raised:
        allocation.check(offset, size, "copy #5")
    text = str(raised.value)
    for part in ("copy #5", f"{size} bytes at {allocation.address + offset:#x}", "'weights'", "100 bytes", "device 3",
                 "test_allocation.py", "0 to 100"):
        assert part in text


def test_what_lies_inside_is_legal(memory: DeviceMemory):
    """The whole, the last byte and empty ranges up to the end pass; an empty allocation allows the empty range."""
    allocation = memory.allocate(100)
    for offset, size in ((0, 100), (99, 1), (100, 0), (0, 0)):
        allocation.check(offset, size)
    memory.allocate(0).check(0, 0)


def test_the_dead_cannot_be_touched(memory: DeviceMemory):
    """After its end every access names what ended it, and its views are empty."""
    allocation, other = memory.allocate(1 << 20), memory.allocate(1 << 20)
    memory.free(allocation, "stream 'a', command #9")
    assert not allocation.alive
    assert allocation.data.size == len(allocation.view) == 0
    for touch in (
        lambda: allocation.check(0, 1),
        lambda: move(allocation, 0, other, 0, 1),
        lambda: move(other, 0, allocation, 0, KEEPS_THE_GIL + 1),
        lambda: fill(allocation, 0, b"\0", 1),
    ):
        with pytest.raises(IllegalAddress, match="was freed by stream 'a', command #9"):
            touch()


@pytest.mark.parametrize("size", [0, 1, 4096, KEEPS_THE_GIL, KEEPS_THE_GIL + 1, 1 << 20])
def test_a_move_copies_exactly_its_bytes(memory: DeviceMemory, size: int):
    """Both ways of copying give the same bytes at the right offsets, and leave the rest."""
    src, dst = memory.allocate(size + 64), memory.allocate(size + 64)
    src.data[:] = np.random.default_rng(size).integers(1, 256, size + 64, np.uint8)
    dst.data[:] = 0
    move(dst, 16, src, 5, size)
    assert (dst.data[16 : 16 + size] == src.data[5 : 5 + size]).all()
    assert not dst.data[:16].any() and not dst.data[16 + size :].any()


@pytest.mark.parametrize("size", [1000, KEEPS_THE_GIL + 1000])
@pytest.mark.parametrize("shift", [-100, 100])
def test_a_move_within_one_allocation_may_overlap(memory: DeviceMemory, size: int, shift: int):
    """Overlapping ranges move as if through a buffer, in both directions."""
    allocation = memory.allocate(size + 300)
    allocation.data[:] = np.random.default_rng(1).integers(0, 256, size + 300, np.uint8)
    expected = allocation.data[150 : 150 + size].copy()
    move(allocation, 150 + shift, allocation, 150, size)
    assert (allocation.data[150 + shift : 150 + shift + size] == expected).all()


def test_a_move_that_does_not_fit_writes_nothing(memory: DeviceMemory):
    """When either range is wrong nothing is written and the error names the mover."""
    src, dst = memory.allocate(100), memory.allocate(50)
    src.data[:] = 1
    dst.data[:] = 2
    for arguments in ((dst, 0, src, 51, 50), (dst, 1, src, 0, 50)):
        with pytest.raises(IllegalAddress, match="dte 4"):
            move(*arguments, "dte 4")
    assert (dst.data == 2).all()


@every("width", [1, 2, 4, 8, 12, 16, 20_000])
@every("offset", [0, 3, 16])
@every("total", [0, 16, 4096, KEEPS_THE_GIL, KEEPS_THE_GIL + 16, (1 << 18) + 48])
def test_a_fill_repeats_its_pattern_at_any_alignment(memory: DeviceMemory, width: int, offset: int, total: int):
    """Short and long fills of every width store the pattern whole, and nothing around it."""
    allocation = memory.allocate(total + 64)
    total -= total % width
    for pattern in (bytes(number % 255 + 1 for number in range(width)), b"\x5a" * width):
        allocation.data[:] = 0
        fill(allocation, offset, pattern, total // width)
        assert allocation.view[offset : offset + total] == pattern * (total // width)
        assert not allocation.data[:offset].any() and not allocation.data[offset + total :].any()


def test_a_fill_refuses_no_pattern_and_ranges_outside(memory: DeviceMemory):
    """A pattern without bytes is the caller's mistake, ranges outside are illegal."""
    allocation = memory.allocate(64)
    with pytest.raises(InvalidValue, match="no bytes"):
        fill(allocation, 0, b"", 1)
    with pytest.raises(IllegalAddress, match="fill 7"):
        fill(allocation, 0, b"\1\2\3\4", 17, "fill 7")


def test_the_repr_tells_the_story(memory: DeviceMemory):
    """Number, label, size, address, device, origin and fate are in the repr."""
    allocation = memory.allocate(640, label="activations")
    text = repr(allocation)
    for part in (f"#{allocation.serial}", "'activations'", "640 bytes", f"{allocation.address:#x}", "device 3",
                 "test_allocation.py"):
        assert part in text
    assert "freed" not in text
    memory.free(allocation)
    assert repr(allocation).endswith(", freed>")
