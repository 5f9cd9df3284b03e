"""What is packed for the native runtime has the layout that its structures have."""

from __future__ import annotations

import ctypes

from atops.device.native import block, library
from atops.device.native.library import BlockPlace, Run


def test_what_is_packed_is_as_the_structures_are() -> None:
    """A field more in one of them moves the others."""
    assert block._HEAD.size == Run.fault.offset
    assert ctypes.sizeof(BlockPlace) == block._PLACE_BYTES and BlockPlace.l2.offset == block._INDEX.size
    assert BlockPlace.l2_used.offset == ctypes.sizeof(BlockPlace) - block._USED.size


def test_functions_are_told_as_the_text_has_them() -> None:
    """What the headers make of vectors and narrow floats stands in no report."""
    half = "atops::Narrow<&atops::widened_half, &atops::rounded_half>"
    brain = half.replace("half", "brain")
    for function, name in {
        f"void sum<tops::Rounded<{half} > >(tops::Rounded<{half} >*, int)": "sum<tops::half>",
        f"take<{brain}, 4>({brain}*)": "take<__bf16, 4>",
        "void ours::put<atops::Vector<unsigned int, 512> >(int)": "ours::put<__vector4 unsigned int>",
        "plain(float*, int)": "plain",
    }.items():
        assert library._in_words_of_the_text(function) == name
