"""The books of the L2 prefetch buffer."""

from __future__ import annotations

import pytest

from atops.base.errors import InvalidValue, OutOfMemory
from atops.runtime.memory.prefetch import PrefetchBuffer
from tests.runtime.boards import device


def test_entries_overlaps_and_capacity():
    """Overlaps and what does not fit are refused with nothing entered; dropping makes room."""
    with device() as board:
        memory, books = board.allocate(256), PrefetchBuffer(100)
        books.enter(memory[0:60])
        with pytest.raises(InvalidValue, match="overlaps a prefetched range, bytes 0 to 60"):
            books.enter(memory[59:70])
        with pytest.raises(OutOfMemory, match="60 of 100 hold 1 ranges"):
            books.enter(memory[60:101])
        books.enter(memory[60:100])
        books.drop(memory[59:60])
        assert [(each.start, each.end) for each in books.entries()] == [(60, 100)]
        assert repr(books) == "<PrefetchBuffer of 100 bytes: 1 ranges>"


def test_what_is_freed_drops_out():
    """An entry lives no longer than its memory."""
    with device() as board:
        memory, books = board.allocate(256), PrefetchBuffer(256)
        books.enter(memory)
        memory.close()
        assert books.entries() == []
