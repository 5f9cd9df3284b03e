"""What is packed for the native runtime has the layout that its structures have."""

from __future__ import annotations

import ctypes

from atops.device.native import block
from atops.device.native.library import BlockPlace, Run


def test_what_is_packed_is_as_the_structures_are() -> None:
    """A field more in one of them moves the others."""
    assert block._HEAD.size == Run.fault.offset
    assert block._INDEX.size == BlockPlace.l2.offset
    assert ctypes.sizeof(BlockPlace) == block._PLACE_BYTES
    assert Run.text_high.offset == Run.text_low.offset + 8
    assert BlockPlace.l2_used.offset == ctypes.sizeof(BlockPlace) - block._USED.size
