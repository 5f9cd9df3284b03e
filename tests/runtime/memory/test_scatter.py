"""Scatter memory: its geometry, and copies by the object API."""

from __future__ import annotations

import numpy as np
import pytest

from atops.base.errors import IllegalAddress, InvalidValue
from atops.base.trace.records import Kind
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.scatter import Part, Scattered, covers
from tests.runtime.boards import PATIENCE, Latch, device, settle


def halves(board):
    """Return a parent of 4 x 6 int32 and its two parts, the second transposed."""
    parent = Scattered(96, 0)
    parent.dims = (4, 6)
    left, right = board.allocate(48), board.allocate(48)
    parent.parts = (Part(left, (4, 3), (0, 0), (0, 1), False), Part(right, (3, 4), (0, 3), (1, 0), False))
    return parent, left, right


def test_every_range_is_read_and_written_exactly():
    """For each begin and end: what is stored is read again, and no other byte changes."""
    with device() as board:
        parent, _, _ = halves(board)
        model = np.arange(96, dtype=np.uint8)
        parent.write(0, model)
        for start in range(96):
            for stop in range(start + 1, 97, 5):
                data = np.arange(start, stop, dtype=np.uint8)[::-1].copy()
                parent.write(start, data)
                model[start:stop] = data
                assert (parent.read(start, stop - start) == data).all()
        assert (parent.read(0, 96) == model).all()


def test_covering():
    """A gap, an overlap and a right number of elements that overlaps are told apart."""
    with device() as board:
        memory = board.allocate(64)
        part = lambda dims, at: Part(memory, dims, at, (0, 1), False)  # noqa: E731  # a row of the table below
        whole = part((2, 2), (0, 0))
        assert covers((2, 2), (whole,))
        assert not covers((2, 3), (whole,))
        assert not covers((2, 2), (whole, whole))
        assert not covers((2, 2), (part((2, 1), (0, 0)), part((2, 1), (0, 0))))


def test_its_bytes_are_not_to_be_had_as_plain_memory():
    """Reading them so is refused, and the message names what works."""
    with device() as board, pytest.raises(InvalidValue, match="only copies and fills"):
        _ = halves(board)[0].data


@pytest.mark.parametrize("strict", [False, True])
def test_streams_copy_and_fill_it(strict):
    """Copies to it, from it, and fills are commands of a stream, with records of their kind."""
    with device(trace=64, strict=strict) as board:
        parent, left, _ = halves(board)
        stream, whole = board.create_stream(), Buffer(parent)
        whole.driver = board.driver
        array = np.arange(24, dtype=np.int32)
        stream.copy(whole, array)
        assert (stream.fetch(whole).wait_sync(PATIENCE).view(np.int32) == array).all()
        assert (stream.fetch(left).wait_sync(PATIENCE).view(np.int32) == array.reshape(4, 6)[:, :3].ravel()).all()
        stream.fill(whole, 9, 7)
        filled = stream.fetch(whole).wait_sync(PATIENCE)
        assert (filled[:7] == 9).all() and (filled[7:] == array.view(np.uint8)[7:]).all()
        kinds = [each.kind for each in board.driver.tracer.records() if each.name == "scatter memory"]
        assert kinds == [Kind.COPY_H2D, Kind.COPY_D2H, Kind.FILL, Kind.COPY_D2H]


def test_a_part_that_is_freed_first_fails_the_copy():
    """It is IllegalAddress, and poisons the stream."""
    with device() as board:
        parent, left, _ = halves(board)
        latch, stream = Latch(board), board.create_stream(nonblocking=True)
        latch.hold(stream)
        stream.copy(Buffer(parent), np.zeros(24, np.int32))
        board.context.memory.free(left.allocation)
        latch.open()
        settle(board.driver)
        with pytest.raises(IllegalAddress, match="a part of scatter memory"):
            stream.sync(PATIENCE)
