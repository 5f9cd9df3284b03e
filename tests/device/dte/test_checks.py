"""What the operations refuse: the message names dimension and extents, and nothing has moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from atops.base.errors import InvalidType, InvalidValue
from atops.device.dte.operations import OPERATIONS
from tests.device.transform_cases import EXAMPLES, FLOAT32, random_array
from tests.every import every


@dataclass
class Geometry:
    """A shape and an element type without any memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = FLOAT32


REFUSED: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    ("memcpy", (3,), (4,), {}, "12 bytes.*16"),
    ("slice", (2, 2), (4,), {"offsets": (0, 0)}, r"\(2, 2\).*\(4,\).*as many dimensions"),
    ("slice", (2, 2), (4, 4), {"offsets": (0, -3)}, "offsets of dimension 1 is -3"),
    ("slice", (2, 2), (4, 4), {"offsets": (0,)}, r"\(0,\).*each of 2 dimensions"),
    ("deslice", (4, 4), (2, 3), {"offsets": (0, 2)}, "dimension 1 the window from 2 to 5 leaves dst.*extent is 4"),
    ("deslice", (4, 4), (5, 1), {"offsets": (0, 0)}, "dimension 0 the window from 0 to 5 leaves dst.*extent is 4"),
    ("deslice", (4, 4), (2, 2), {"offsets": (-1, 0)}, "offsets of dimension 0 is -1"),
    ("transpose", (2, 3), (2, 3), {"layout": (1, 0)}, r"dimension 0 of dst has extent 2; expected 3.*\(2, 3\)"),
    ("transpose", (2, 3), (2, 3), {"layout": (0, 0)}, "each of 0 to 1 once"),
    ("transpose", (2, 3), (2, 3), {"layout": (0, 2)}, "each of 0 to 1 once"),
    ("slice_transpose", (2, 3), (4, 4), {"offsets": (0, 0), "layout": (1, 1)}, "each of 0 to 1 once"),
    ("slice_transpose", (2, 3), (4, 4), {"offsets": (-2, 0), "layout": (1, 0)}, "offsets of dimension 0 is -2"),
    ("transpose_deslice", (4, 4), (2, 3), {"offsets": (2, 0), "layout": (1, 0)}, "dimension 0.*2 to 5.*extent is 4"),
    ("pad", (9,), (3,), {"low": (1,), "high": (1,), "mid": (1,)}, "dimension 0 of dst has extent 9; expected 7"),
    ("pad", (4,), (3,), {"low": (1,), "high": (-1,), "mid": (0,)}, "high of dimension 0 is -1"),
    ("mirror_tb", (2, 3), (3, 2), {}, "dimension 0 of dst has extent 2; expected 3"),
    ("mirror_lr", (3,), (3,), {}, "at least 2 dimensions"),
    ("mirror_tb", (), (), {}, "at least 1 dimensions"),
    ("broadcast", (4, 3), (2, 3), {}, "dimension 0 of src has extent 2; expected 1 or 4"),
    ("broadcast", (3,), (1, 3), {}, "no fewer dimensions"),
]


WINDOW = {"src_offsets": (0, 0), "slice_shape": (2, 3)}
NO_PAD = {"low": (0, 0), "high": (0, 0), "mid": (0, 0)}

REFUSED_ON_GCU300: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    ("slice_pad", (2, 3), (4,), {**WINDOW, **NO_PAD}, r"\(2, 3\).*\(4,\).*as many dimensions"),
    ("slice_pad", (2, 3), (4, 4), {**WINDOW, **NO_PAD, "src_offsets": (0, -3)}, "src_offsets of dimension 1 is -3"),
    ("slice_pad", (2, 3), (4, 4), {**WINDOW, **NO_PAD, "slice_shape": (-2, 3)}, "slice_shape of dimension 0 is -2"),
    ("slice_pad", (2, 3), (4, 4), {**WINDOW, **NO_PAD, "slice_shape": (2,)}, r"\(2,\).*each of 2 dimensions"),
    ("slice_pad", (2, 3), (4, 4), {**WINDOW, **NO_PAD, "mid": (0, 1)},
     r"dimension 1 of dst has extent 3; expected 5.*\(2, 3\)"),
    ("slice_pad", (2, 3), (4, 4), {**WINDOW, **NO_PAD, "high": (0, -1)}, "high of dimension 1 is -1"),
    ("slice_deslice", (2, 3), (4,), {**WINDOW, "dst_offsets": (0, 0)}, "as many dimensions"),
    ("slice_deslice", (4, 4), (2, 2), {**WINDOW, "dst_offsets": (0, 2)}, "dimension 1.*2 to 5 leaves dst.*extent is 4"),
    ("slice_deslice", (4, 4), (2, 2), {**WINDOW, "dst_offsets": (0, -1)}, "dst_offsets of dimension 1 is -1"),
    ("slice_deslice", (4, 4), (2, 2), {**WINDOW, "src_offsets": (-1, 0), "dst_offsets": (0, 0)},
     "src_offsets of dimension 0 is -1"),
    ("slice_broadcast", (4, 3), (4, 3), WINDOW, "dimension 0 of slice_shape has extent 2; expected 1 or 4"),
    ("slice_broadcast", (3,), (4, 3), {**WINDOW, "slice_shape": (1, 3)}, "no fewer dimensions"),
    ("slice_broadcast", (2, 3), (4, 3), {**WINDOW, "src_offsets": (1, -1)}, "src_offsets of dimension 1 is -1"),
    ("memset_deslice", (4, 4), (2, 3), {"dst_offsets": (3, 1), "value": 0}, "dimension 0.*3 to 5 leaves.*extent is 4"),
    ("memset_deslice", (4, 4), (2, 3), {"dst_offsets": (-3, 1), "value": 0}, "dst_offsets of dimension 0 is -3"),
    ("memset_deslice", (4, 4), (2,), {"dst_offsets": (1,), "value": 0}, "as many dimensions"),
    ("mirror_tb_pad", (2, 4), (2, 3), NO_PAD, "dimension 1 of dst has extent 4; expected 3"),
    ("mirror_tb_pad", (), (), {"low": (), "high": (), "mid": ()}, "at least 1 dimensions"),
    ("mirror_lr_pad", (2, 3), (2, 3), {**NO_PAD, "low": (-1, 0)}, "low of dimension 0 is -1"),
    ("mirror_lr_pad", (3,), (3,), {"low": (0,), "high": (0,), "mid": (0,)}, "at least 2 dimensions"),
    ("mirror_tb_deslice", (2, 3), (2, 3), {"dst_offsets": (0, 1)}, "dimension 1.*1 to 4 leaves dst.*extent is 3"),
    ("mirror_tb_deslice", (), (), {"dst_offsets": ()}, "at least 1 dimensions"),
    ("mirror_lr_deslice", (2, 3), (2, 3), {"dst_offsets": (0, -1)}, "dst_offsets of dimension 1 is -1"),
    ("mirror_lr_deslice", (3,), (3,), {"dst_offsets": (0,)}, "at least 2 dimensions"),
    ("sub_sample", (2, 3), (4, 6), {"dim_stride": (2, 0)}, "dim_stride of dimension 1 is 0; expected at least 1"),
    ("sub_sample", (2, 3), (4, 6), {"dim_stride": (-2, 2)}, "dim_stride of dimension 0 is -2; expected at least 1"),
    ("sub_sample", (2, 2), (4, 5), {"dim_stride": (2, 2)}, r"dimension 1 of dst has extent 2; expected 3.*\(4, 5\)"),
    ("sub_sample", (2,), (4, 5), {"dim_stride": (2, 2)}, "as many dimensions"),
    ("sub_sample", (2, 3), (4, 5), {"dim_stride": (2,)}, "each of 2 dimensions"),
]  # fmt: skip


@every("name, dst, src, parameters, message", REFUSED + REFUSED_ON_GCU300)
def test_wrong_geometry_is_refused(name: str, dst: Any, src: Any, parameters: Any, message: str) -> None:
    """Arrays and bare geometries are refused alike, before anything moves."""
    target = np.full(dst, 7, np.float32)
    with pytest.raises(InvalidValue, match=f"(?s)^{name}: .*{message}"):
        OPERATIONS[name](target, np.zeros(src, np.float32), **parameters)
    assert (target == 7).all()
    with pytest.raises(InvalidValue, match=message):
        OPERATIONS[name].check(Geometry(dst), Geometry(src), parameters)


PART = {"src_offsets": (0,), "slice_shape": (3,), "phase": 0, "ratio": 0}

WRONG_PARTS: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("slice_expand", "uint32", "uint16", {**PART, "phase": 2}, "phase is 2; expected 0 or 1 with ratio 0"),
    ("slice_expand", "uint32", "uint8", {**PART, "ratio": 1, "phase": -1}, "phase is -1; expected 0, 1, 2 or 3"),
    ("slice_expand", "uint32", "uint16", {**PART, "ratio": 2}, "ratio is 2; expected 0 or 1"),
    ("slice_expand", "uint32", "uint16", {**PART, "ratio": -1}, "ratio is -1; expected 0 or 1"),
    ("slice_expand", "uint32", "uint8", PART,
     "dst has elements of uint32, 4 bytes, and src of uint8, 1; expected 2 times as many with ratio 0"),
    ("slice_expand", "uint16", "uint16", PART, "dst has elements of uint16, 2 bytes, and src of uint16, 2"),
    ("slice_expand", "uint32", "uint16", {**PART, "slice_shape": (4,)}, "dimension 0 of dst has extent 3; expected 4"),
    ("slice_expand", "uint32", "uint16", {**PART, "src_offsets": (-4,)}, "src_offsets of dimension 0 is -4"),
    ("shrink_deslice", "uint16", "uint32", {"phase": 4, "ratio": 0}, "phase is 4; expected 0 or 1 with ratio 0"),
    ("shrink_deslice", "uint16", "uint32", {"phase": 0, "ratio": 3}, "ratio is 3; expected 0 or 1"),
    ("shrink_deslice", "uint16", "uint32", {"phase": 0, "ratio": 1},
     "src has elements of uint32, 4 bytes, and dst of uint16, 2; expected 4 times as many with ratio 1"),
    ("shrink_deslice", "uint16", "uint32", {"phase": 0, "ratio": 0, "dst_offsets": (1,)},
     "dimension 0 the window from 1 to 4 leaves dst.*extent is 3"),
]  # fmt: skip


@every("name, dst, src, parameters, message", WRONG_PARTS)
def test_wrong_parts_of_elements_are_refused(name: str, dst: str, src: str, parameters: Any, message: str) -> None:
    """Phase, ratio and the sizes of both elements have to belong together."""
    parameters = {**({"dst_offsets": (0,)} if name == "shrink_deslice" else {}), **parameters}
    target = np.full(3, 7, dst)
    with pytest.raises(InvalidValue, match=f"^{name}: .*{message}"):
        OPERATIONS[name](target, np.zeros(3, src), **parameters)
    assert (target == 7).all()


@pytest.mark.parametrize("wrong", [{"phase": 0.0}, {"ratio": "0"}, {"phase": None}, {"ratio": (0,)}])
def test_phase_and_ratio_are_ints(wrong: dict[str, Any]) -> None:
    """What is no int is an error of type, and says what would be right."""
    for name, dst, src in (("slice_expand", np.uint32, np.uint16), ("shrink_deslice", np.uint16, np.uint32)):
        parameters = PART if name == "slice_expand" else {"phase": 0, "ratio": 0, "dst_offsets": (0,)}
        with pytest.raises(InvalidType, match=rf"{name}: (phase|ratio) is .*; expected 0 or 1"):
            OPERATIONS[name](np.zeros(3, dst), np.zeros(3, src), **{**parameters, **wrong})


@every("name", OPERATIONS)
def test_right_geometry_passes_without_memory(name: str) -> None:
    """A check needs shapes and types only; what it accepts, also lists and numpy's ints, can be applied."""
    case = EXAMPLES[name]
    OPERATIONS[name].check(
        Geometry(case.dst, case.dst_kind), Geometry(case.src or (), case.src_kind), case.parameters
    )
    source = random_array(case.src or (), case.src_kind)
    target = [np.zeros(case.dst, case.dst_kind) for _ in range(3)]
    OPERATIONS[name](target[0], source, **case.parameters)
    for dst, convert in ((target[1], np.asarray), (target[2], list)):
        given = {key: convert(value) if isinstance(value, tuple) else value for key, value in case.parameters.items()}
        OPERATIONS[name](dst, source, **given)
        assert target[0].any() and target[0].tobytes() == dst.tobytes()


@every("name", sorted(set(EXAMPLES) - {"memcpy", "memset", "slice_expand", "shrink_deslice"}))
def test_element_types_must_be_the_same(name: str) -> None:
    """Even of one size, one type is never taken for another; memcpy and the parts of elements alone move bytes."""
    case = EXAMPLES[name]
    assert case.src is not None
    with pytest.raises(InvalidValue, match="float32 and src of int32"):
        OPERATIONS[name].check(Geometry(case.dst), Geometry(case.src, np.dtype(np.int32)), case.parameters)


@pytest.mark.parametrize("wrong", [1, None, (0.5, 1), ("0", 1), iter((0, 1))])
def test_offsets_are_ints(wrong: Any) -> None:
    """What is no sequence of ints is an error of type."""
    with pytest.raises(InvalidType, match="an int for each of 2 dimensions"):
        OPERATIONS["slice"].check(Geometry((2, 2)), Geometry((2, 2)), {"offsets": wrong})


@every(
    "kind, value",
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
    for name in (name for name, row in OPERATIONS.items() if "value" in row.parameters):
        case = EXAMPLES[name]
        with pytest.raises(InvalidValue, match=f"{name}: value is"):
            target, source = Geometry(case.dst, dst.dtype), Geometry(case.src or (), dst.dtype)
            OPERATIONS[name].check(target, source, {**case.parameters, "value": value})


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
        "slice_pad": (line[:9], line,
                      {"src_offsets": (2,), "slice_shape": (7,), "low": (1,), "high": (1,), "mid": (0,)}),
        "slice_deslice": (line, line, {"src_offsets": (0,), "slice_shape": (3,), "dst_offsets": (1,)}),
        "slice_broadcast": (square, square, {"src_offsets": (0, 0), "slice_shape": (1, 4)}),
        "slice_expand": (line.view(np.int64), line[:6], {**PART, "slice_shape": (6,)}),
        "shrink_deslice": (line[3:9], line.view(np.int64), {"phase": 0, "ratio": 0, "dst_offsets": (0,)}),
        "mirror_tb_pad": (line[:9], line[:7], {"low": (1,), "high": (1,), "mid": (0,)}),
        "mirror_lr_pad": (square, square[:2], {"low": (1, 0), "high": (1, 0), "mid": (0, 0)}),
        "mirror_tb_deslice": (square, square[1:3], {"dst_offsets": (0, 0)}),
        "mirror_lr_deslice": (square, square[:, :2], {"dst_offsets": (0, 1)}),
        "sub_sample": (line[1:7], line, {"dim_stride": (2,)}),
    }  # fmt: skip


def test_every_operation_that_reads_its_source_is_tried_for_overlap() -> None:
    """Memset has no source, and memset_deslice does not read its own, which may lie anywhere."""
    assert set(OPERATIONS) - set(overlapping()) == {"memset", "memset_deslice"}
    line = np.arange(6, dtype=np.int32)
    OPERATIONS["memset_deslice"](line, line[:3], dst_offsets=(1,), value=9)
    assert line.tolist() == [0, 9, 9, 9, 4, 5]


@every("name", overlapping())
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


def test_an_element_may_be_moved_onto_itself_on_gcu300() -> None:
    """The operations of the second table do to the very same place what they would have done from a copy of it."""
    def line() -> Any:
        return np.arange(8, dtype=np.uint32)

    same = line()
    OPERATIONS["slice_deslice"](same, same, src_offsets=(1,), slice_shape=(3,), dst_offsets=(1,))
    OPERATIONS["slice_broadcast"](same[2:5], same, src_offsets=(2,), slice_shape=(3,))
    OPERATIONS["mirror_tb_deslice"](same, same[4:5], dst_offsets=(4,))
    OPERATIONS["sub_sample"](same[::2], same, dim_stride=(2,))
    assert same.tolist() == line().tolist()
    OPERATIONS["slice_deslice"](same, same, src_offsets=(6,), slice_shape=(2,), dst_offsets=(6,))
    OPERATIONS["slice_pad"](same, same, src_offsets=(2,), slice_shape=(4,), low=(2,), high=(2,), mid=(0,), value=9)
    assert same.tolist() == [9, 9, 2, 3, 4, 5, 9, 9]
    spread = line()
    OPERATIONS["slice_pad"](spread, spread[1::2], src_offsets=(0,), slice_shape=(4,), low=(1,), high=(0,), mid=(1,))
    assert spread.tolist() == [0, 1, 0, 3, 0, 5, 0, 7]
    for phase, result in ((0, [0, 2, 4, 6]), (1, [1 << 32, 3 << 32, 5 << 32, 7 << 32])):
        small = line()
        wide, part = small.view(np.uint64), small[phase::2]
        OPERATIONS["slice_expand"](wide, part, src_offsets=(0,), slice_shape=(4,), phase=phase, ratio=0)
        assert wide.tolist() == result
        small = line()
        OPERATIONS["shrink_deslice"](small[phase::2], small.view(np.uint64), phase=phase, ratio=0, dst_offsets=(0,))
        assert small.tolist() == line().tolist()
    pairs = np.arange(8, dtype=np.float64)
    wide, part = pairs.view(np.complex128), pairs[1::2]
    OPERATIONS["slice_expand"](wide, part, src_offsets=(0,), slice_shape=(4,), phase=1, ratio=0)
    assert pairs.tolist() == [0, 1, 0, 3, 0, 5, 0, 7]


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
