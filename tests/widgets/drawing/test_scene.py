"""What travels to a page arrives: columns of every type, aligned, and compressed snapshots."""

from __future__ import annotations

import numpy as np
import pytest

from atops_widgets.drawing.scene import pack, pack_snapshot
from tests.widgets.unpacking import unpack, unpack_snapshot

COLUMNS = {
    "seq": np.array([1, -1, 2**52], np.int64),
    "kind": np.array([1, 2, 3], np.uint8),
    "failed": np.array([True, False, True]),
    "busy": np.array([0.5, 1, 0], np.float32),
    "none": np.zeros(0, np.int16),
    "row": np.array([-1, 7], np.int16),
}


def test_columns_arrive() -> None:
    """Every column comes back with its values and begins on a multiple of eight bytes."""
    header, buffer = pack(COLUMNS)
    back = unpack(header, buffer)
    assert list(back) == list(COLUMNS)
    for name, column in COLUMNS.items():
        assert back[name].tolist() == column.tolist()
    assert len(buffer) % 8 == 0
    assert [code for _, code, _ in header] == ["d", "B", "B", "f", "h", "h"]


@pytest.mark.parametrize("text", ["", "x", "größer", "1234567"])
def test_a_snapshot_arrives(text: str) -> None:
    """A scene and its columns come back, whatever the length of what is told."""
    told, columns = unpack_snapshot(pack_snapshot({"say": text}, COLUMNS))
    assert told == {"say": text}
    assert {name: column.tolist() for name, column in columns.items()} == {
        name: column.tolist() for name, column in COLUMNS.items()
    }
