"""What the operations refuse: the message names dimension and extents, and nothing has moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from atops.base.errors import InvalidType, InvalidValue
from atops.device.transforms import OPERATIONS

FLOAT32: np.dtype[Any] = np.dtype(np.float32)


@dataclass
class Geometry:
    """A shape and an element type without any memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = FLOAT32


REFUSED: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    ("memcpy", (3,), (4,), {}, "12 bytes.*16"),
    ("slice", (2, 2), (4,), {"offsets": (0, 0)}, r"\(2, 2\).*\(4,\).*as many dimensions"),
    ("slice", (2, 2), (4, 4), {"offsets": (0, -3)}, "offset of dimension 1 is -3"),
    ("slice", (2, 2), (4, 4), {"offsets": (0,)}, r"\(0,\).*each of 2 dimensions"),
    ("deslice", (4, 4), (2, 3), {"offsets": (0, 2)}, "dimension 1 the window from 2 to 5 leaves dst.*extent is 4"),
    ("deslice", (4, 4), (5, 1), {"offsets": (0, 0)}, "dimension 0 the window from 0 to 5 leaves dst.*extent is 4"),
    ("deslice", (4, 4), (2, 2), {"offsets": (-1, 0)}, "offset of dimension 0 is -1"),
    ("transpose", (2, 3), (2, 3), {"layout": (1, 0)}, r"dimension 0 of dst has extent 2; 3 is right.*\(2, 3\)"),
    ("transpose", (2, 3), (2, 3), {"layout": (0, 0)}, "each of 0 to 1 once"),
    ("transpose", (2, 3), (2, 3), {"layout": (0, 2)}, "each of 0 to 1 once"),
    ("slice_transpose", (2, 3), (4, 4), {"offsets": (0, 0), "layout": (1, 1)}, "each of 0 to 1 once"),
    ("slice_transpose", (2, 3), (4, 4), {"offsets": (-2, 0), "layout": (1, 0)}, "offset of dimension 0 is -2"),
    ("transpose_deslice", (4, 4), (2, 3), {"offsets": (2, 0), "layout": (1, 0)}, "dimension 0.*2 to 5.*extent is 4"),
    ("pad", (9,), (3,), {"low": (1,), "high": (1,), "mid": (1,)}, "dimension 0 of dst has extent 9; 7 is right"),
    ("pad", (4,), (3,), {"low": (1,), "high": (-1,), "mid": (0,)}, "high of dimension 0 is -1"),
    ("mirror_tb", (2, 3), (3, 2), {}, "dimension 0 of dst has extent 2; 3 is right"),
    ("mirror_lr", (3,), (3,), {}, "at least 2 dimensions"),
    ("mirror_tb", (), (), {}, "at least 1 dimensions"),
    ("broadcast", (4, 3), (2, 3), {}, "dimension 0 of src has extent 2; 1 or 4"),
    ("broadcast", (3,), (1, 3), {}, "no fewer dimensions"),
]


@pytest.mark.parametrize(("name", "dst", "src", "parameters", "message"), REFUSED)
def test_wrong_geometry_is_refused(name: str, dst: Any, src: Any, parameters: Any, message: str) -> None:
    """Arrays and bare geometries are refused alike, before anything moves."""
    target = np.full(dst, 7, np.float32)
    with pytest.raises(InvalidValue, match=f"(?s)^{name}: .*{message}"):
        OPERATIONS[name](target, np.zeros(src, np.float32), **parameters)
    assert (target == 7).all()
    with pytest.raises(InvalidValue, match=message):
        OPERATIONS[name].check(Geometry(dst), Geometry(src), **parameters)


ACCEPTED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "memcpy": ((5,), (2, 2), {}),
    "memset": ((5,), (), {"value": 1.5}),
    "slice": ((5, 5), (2, 2), {"offsets": (9, 0), "value": 2}),
    "deslice": ((4, 4), (2, 3), {"offsets": (2, 1)}),
    "transpose": ((3, 2), (2, 3), {"layout": [1, 0]}),
    "slice_transpose": ((7, 1), (2, 3), {"offsets": np.array([0, 1]), "layout": (1, 0)}),
    "transpose_deslice": ((4, 4), (2, 3), {"offsets": (1, 2), "layout": (1, 0)}),
    "pad": ((7,), (3,), {"low": (1,), "high": (1,), "mid": (1,)}),
    "mirror_tb": ((3,), (3,), {}),
    "mirror_lr": ((3, 2), (3, 2), {}),
    "broadcast": ((2, 4, 3), (4, 1), {}),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_right_geometry_passes_without_memory(name: str) -> None:
    """A check needs shapes and types only; what it accepts, also lists and numpy's ints, can be applied."""
    dst, src, parameters = ACCEPTED[name]
    OPERATIONS[name].check(Geometry(dst), Geometry(src), **parameters)
    source = np.arange(1, 1 + np.prod(src), dtype=np.float32).reshape(src)
    target, again = np.zeros(dst, np.float32), np.zeros(dst, np.float32)
    OPERATIONS[name](target, source, **parameters)
    given = {key: np.asarray(value) if isinstance(value, tuple) else value for key, value in parameters.items()}
    OPERATIONS[name](again, source, **given)
    assert target.any() and np.array_equal(target, again)


@pytest.mark.parametrize("name", sorted(set(ACCEPTED) - {"memcpy", "memset"}))
def test_element_types_must_be_the_same(name: str) -> None:
    """Even of one size, one type is never taken for another; memcpy alone moves bytes."""
    dst, src, parameters = ACCEPTED[name]
    with pytest.raises(InvalidValue, match="float32 and src of int32"):
        OPERATIONS[name].check(Geometry(dst), Geometry(src, np.dtype(np.int32)), **parameters)


@pytest.mark.parametrize("wrong", [1, None, (0.5, 1), ("0", 1)])
def test_offsets_are_ints(wrong: Any) -> None:
    """What is no sequence of ints is an error of type."""
    with pytest.raises(InvalidType, match="an int for each of 2 dimensions"):
        OPERATIONS["slice"].check(Geometry((2, 2)), Geometry((2, 2)), offsets=wrong)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (np.uint8, 256), (np.uint8, -1), (np.int8, 128), (np.int32, 1.5), (np.int32, float("nan")), (np.bool_, 2),
        (np.float16, 1e6), (ml_dtypes.bfloat16, 1e39), (np.float32, "1"), (np.float32, None), (np.int32, [1, 2]),
        (np.int64, 1 << 63), (np.float32, 1j), (np.uint16, "x"),
    ],
)  # fmt: skip
def test_values_that_the_type_does_not_have_are_refused(kind: Any, value: Any) -> None:
    """A fill neither wraps nor overflows; the message names value and type."""
    dst = np.zeros(3, kind)
    with pytest.raises(InvalidValue, match=f"value is .*{np.dtype(kind).name}"):
        OPERATIONS["memset"](dst, None, value=value)
    for name in ("slice", "slice_transpose", "pad"):
        dst_shape, src_shape, parameters = ACCEPTED[name]
        with pytest.raises(InvalidValue, match=f"{name}: value is"):
            dst_geometry, src_geometry = Geometry(dst_shape, dst.dtype), Geometry(src_shape, dst.dtype)
            OPERATIONS[name].check(dst_geometry, src_geometry, **{**parameters, "value": value})


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (np.uint8, 255, 255), (np.int8, -128.0, -128), (np.bool_, 1, True), (np.float16, 0.1, np.float16(0.1)),
        (np.float32, float("inf"), np.inf), (ml_dtypes.bfloat16, 1.5, 1.5), (ml_dtypes.bfloat16, np.float32(-3), -3),
        (np.int64, np.int8(-5), -5), (np.complex64, 1 + 2j, 1 + 2j), (np.uint64, (1 << 64) - 1, (1 << 64) - 1),
    ],
)  # fmt: skip
def test_values_that_the_type_has_are_stored(kind: Any, value: Any, stored: Any) -> None:
    """Ints, floats and numpy scalars are one value of the element type; floats may round."""
    dst = np.zeros((2, 2), kind)
    OPERATIONS["memset"](dst, None, value=value)
    assert (dst == stored).all()


def test_not_a_number_fills_floats() -> None:
    """NaN is a value of every float type."""
    for kind in (np.float32, ml_dtypes.bfloat16):
        dst = np.zeros(3, kind)
        OPERATIONS["memset"](dst, None, value=float("nan"))
        assert np.isnan(dst.astype(np.float64)).all()


def overlapping() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Return, for each operation with a source, a destination that would be written over what is still to be read."""
    line, square = np.arange(12, dtype=np.int32), np.arange(16, dtype=np.int32).reshape(4, 4)
    return {
        "memcpy": (line[1:], line[:-1], {}),
        "slice": (line[:6], line, {"offsets": (3,)}),
        "deslice": (line, line[:6], {"offsets": (3,)}),
        "transpose": (square, square, {"layout": (1, 0)}),
        "slice_transpose": (square[:3, :3], square, {"offsets": (1, 1), "layout": (1, 0)}),
        "transpose_deslice": (square, square[:3, :3], {"offsets": (1, 1), "layout": (1, 0)}),
        "pad": (line[:9], line[:7], {"low": (1,), "high": (1,), "mid": (0,)}),
        "mirror_tb": (square, square, {}),
        "mirror_lr": (square, square, {}),
        "broadcast": (square, square[0], {}),
    }


@pytest.mark.parametrize("name", overlapping())
def test_overlap_is_refused(name: str) -> None:
    """Where the order of moving would decide the result, nothing moves."""
    dst, src, parameters = overlapping()[name]
    before = dst.copy()
    with pytest.raises(InvalidValue, match=f"{name}: dst .* overlap in memory"):
        OPERATIONS[name](dst, src, **parameters)
    assert np.array_equal(dst, before)


def test_an_element_may_be_moved_onto_itself() -> None:
    """The very same place is a transfer that changes nothing, and fills around it are made."""
    square = np.arange(16, dtype=np.int32).reshape(4, 4)
    before = square.copy()
    OPERATIONS["memcpy"](square, square)
    OPERATIONS["memcpy"](square, square.reshape(-1)[:7])
    OPERATIONS["transpose"](square, square, layout=(0, 1))
    OPERATIONS["slice"](square[1:], square, offsets=(1, 0))
    OPERATIONS["deslice"](square, square[1:3], offsets=(1, 0))
    OPERATIONS["broadcast"](square, square)
    OPERATIONS["mirror_lr"](square[:1], square[:1])
    assert np.array_equal(square, before)
    OPERATIONS["slice"](square, square[:2], offsets=(0, 0), value=9)
    assert square.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [9] * 4, [9] * 4]
    OPERATIONS["pad"](square[:2], square[:2, 1:3], low=(0, 1), high=(0, 1), mid=(0, 0), value=8)
    assert square[:2].tolist() == [[8, 1, 2, 8], [8, 5, 6, 8]]
    line = np.arange(5, dtype=np.int32)
    OPERATIONS["pad"](line, line[::2], low=(0,), high=(0,), mid=(1,), value=-1)
    assert line.tolist() == [0, -1, 2, -1, 4]


def test_parts_of_one_memory_that_lie_apart_are_no_overlap() -> None:
    """What counts is the bytes that are read and written, not the arrays that hold them."""
    line = np.arange(10, dtype=np.int32)
    OPERATIONS["slice"](line[:5], line, offsets=(5,))
    assert line.tolist() == [5, 6, 7, 8, 9, 5, 6, 7, 8, 9]
    OPERATIONS["memcpy"](line[::2], line[1::2])
    assert line.tolist() == [6, 6, 8, 8, 5, 5, 7, 7, 9, 9]
    OPERATIONS["memcpy"](line, line[8:])
    assert line[:2].tolist() == [9, 9]
    square = np.arange(16, dtype=np.int32).reshape(4, 4)
    OPERATIONS["deslice"](square, square[:2, :2], offsets=(2, 2))
    assert square[2:, 2:].tolist() == [[0, 1], [4, 5]]
