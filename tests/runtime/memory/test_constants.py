"""The table of constant buffers of one device."""

from __future__ import annotations

import pytest

from atops.base.errors import InvalidHandle, InvalidValue, NotFound
from tests.runtime.boards import PATIENCE, device, settle


def test_a_failed_upload_leaves_nothing():
    """Where the stream refuses, the key stays new and the memory is given back."""
    with device() as board:
        table, stream = board.context.constants, board.create_stream()
        stream.close()
        free = board.memory_info()
        with pytest.raises(InvalidHandle):
            table.get(1, 4, stream, lambda: board.allocate(4), b"abcd")
        settle(board.driver)
        assert len(table) == 0
        assert board.memory_info() == free


def test_users_are_counted():
    """So many puts as gets, and then the key is unknown; another size changes nothing."""
    with device() as board:
        table, stream = board.context.constants, board.create_stream()
        first = table.get(1, 4, stream, lambda: board.allocate(4), b"abcd")
        assert table.get(1, 4, stream, lambda: board.allocate(4), None) is first
        with pytest.raises(InvalidValue, match="has 4 bytes; 5 were asked for"):
            table.get(1, 5, stream, lambda: board.allocate(5), b"abcde")
        assert bytes(stream.fetch(first).wait_sync(PATIENCE)) == b"abcd"
        assert repr(table) == "<ConstantBuffers: 1 in use>"
        table.put(1, stream)
        table.put(1, stream)
        with pytest.raises(NotFound, match="no constant buffer 0x1"):
            table.put(1, stream)
