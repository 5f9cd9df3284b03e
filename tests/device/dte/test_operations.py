"""The DTE's operations against oracles that find each element of dst by index arithmetic alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops.device.dte.operations import OPERATIONS
from atops.device.dte.transfer import poison
from tests.device.transform_cases import EXAMPLES, Array, draw_array, draw_case, random_array
from tests.device.transform_oracles import ORACLES, cells, expected
from tests.every import every

FIRST_TABLE = [
    "memcpy", "memset", "slice", "deslice", "transpose", "slice_transpose", "transpose_deslice", "pad", "mirror_tb",
    "mirror_lr", "broadcast",
]  # fmt: skip
SECOND_TABLE = [
    "slice_pad", "slice_deslice", "slice_broadcast", "slice_expand", "shrink_deslice", "memset_deslice",
    "mirror_tb_pad", "mirror_lr_pad", "mirror_tb_deslice", "mirror_lr_deslice", "sub_sample",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=settings.default.max_examples // 2)  # of twenty-two operations each
@given(st.data())
def test_each_operation_is_its_oracle(name: str, data: st.DataObject) -> None:
    """Of any rank, extents, element size and layout in memory, dst becomes what the oracle says, and src stays."""
    case = draw_case(data.draw, name)
    dst = draw_array(data.draw, case.dst, case.dst_kind)
    src = None if case.src is None else draw_array(data.draw, case.src, case.src_kind)
    after = expected(name, dst, src, **case.parameters)
    before = None if src is None else src.tobytes()
    OPERATIONS[name](dst, src, **case.parameters)
    assert cells(dst) == after
    assert src is None or src.tobytes() == before


@every("name", OPERATIONS)
def test_each_example_is_its_oracle(name: str) -> None:
    """The fixed cases move something, or the tests that use them would prove nothing."""
    case = EXAMPLES[name]
    dst = random_array(case.dst, case.dst_kind, 2)
    src = None if case.src is None else random_array(case.src, case.src_kind)
    after, before = expected(name, dst, src, **case.parameters), cells(dst)
    OPERATIONS[name](dst, src, **case.parameters)
    assert cells(dst) == after != before


@pytest.mark.parametrize("examples", [3, pytest.param(20, marks=pytest.mark.slow)])
@every("name", OPERATIONS)
def test_poison_is_what_the_operation_writes(name: str, examples: int) -> None:
    """Each byte whose value the operation decides is 0xA5 after the poison, and every other byte stays."""

    @settings(max_examples=examples)
    @given(st.data())
    def poisoned(data: st.DataObject) -> None:
        case = draw_case(data.draw, name)
        src = None if case.src is None else random_array(case.src, case.src_kind)
        ends = []
        for byte in (0x00, 0xFF):
            dst = np.frombuffer(bytes([byte]) * (int(np.prod(case.dst)) * case.dst_kind.itemsize), np.uint8).copy()
            seen = dst.view(case.dst_kind).reshape(case.dst)
            OPERATIONS[name](seen, src, **case.parameters)
            ends.append(dst)
        dst = np.full(dst.size, 0x11, np.uint8)
        poison(OPERATIONS[name], dst.view(case.dst_kind).reshape(case.dst), src, case.parameters)
        assert dst.tolist() == np.where(ends[0] == ends[1], 0xA5, 0x11).tolist()

    poisoned()


@pytest.mark.parametrize("examples", [3, pytest.param(20, marks=pytest.mark.slow)])
@every("name", OPERATIONS)
def test_footprint_is_what_the_operation_uses(name: str, examples: int) -> None:
    """Its bytes of dst are those whose value the operation decides, of src those that anything of dst comes from."""

    @settings(max_examples=examples)
    @given(st.data())
    def exact(data: st.DataObject) -> None:
        case = draw_case(data.draw, name)
        operation = OPERATIONS[name]
        size = int(np.prod(case.dst)) * case.dst_kind.itemsize
        read_bytes = 0 if case.src is None else int(np.prod(case.src)) * case.src_kind.itemsize

        def done(before: int, held: Array) -> Array:
            into = np.full(size, before, np.uint8)
            source = None if case.src is None else held.view(case.src_kind).reshape(case.src)
            operation(into.view(case.dst_kind).reshape(case.dst), source, **case.parameters)
            return into

        held = np.zeros(read_bytes, np.uint8)
        dst, src = np.zeros(size, np.uint8), np.zeros(read_bytes, np.uint8)
        written, read = operation.work.footprint(
            dst.view(case.dst_kind).reshape(case.dst),
            None if case.src is None else src.view(case.src_kind).reshape(case.src),
            case.parameters,
        )
        mark(written)
        if read is not None:
            mark(read)
        assert dst.tolist() == (done(0x00, held) == done(0xFF, held)).tolist()
        for byte in range(read_bytes):
            held[byte] = 1
            assert bool(src[byte]) == bool((done(0x00, held) != done(0x00, np.zeros_like(held))).any())
            held[byte] = 0

    exact()


def mark(view: Array) -> None:
    """Set each byte of a view to 1."""
    view[...] = np.frombuffer(bytes([1]) * view.itemsize, view.dtype)[0]


LARGE: list[tuple[str, tuple[int, ...], dict[str, Any], Callable[[Any], Any]]] = [
    ("memcpy", (300, 512), {}, lambda a: a),
    ("transpose", (512, 300), {"layout": (1, 0)}, lambda a: a.T),
    ("transpose", (3, 512, 100), {"layout": (0, 2, 1)}, lambda a: a.transpose(0, 2, 1)),
    ("transpose", (700, 260), {"layout": (1, 0)}, lambda a: a.T),
    ("slice_transpose", (512, 300), {"offsets": (0, 0), "layout": (1, 0)}, lambda a: a.T),
    ("mirror_tb", (300, 512), {}, lambda a: a[:, ::-1]),
    ("mirror_lr", (300, 512), {}, lambda a: a[::-1]),
    ("broadcast", (1500, 1), {}, lambda a: np.broadcast_to(a, (3, 1500, 40))),
    ("slice_broadcast", (1500, 2), {"src_offsets": (0, 1), "slice_shape": (1500, 1)},
     lambda a: np.broadcast_to(a[:, 1:], (3, 1500, 40))),
    ("pad", (300, 100), {"low": (1, 2), "high": (3, 1), "mid": (0, 0)}, lambda a: padded(a, ((1, 3), (2, 1)))),
    ("mirror_lr_pad", (300, 900), {"low": (1, 2), "high": (3, 1), "mid": (0, 0)},
     lambda a: padded(a[::-1], ((1, 3), (2, 1)))),
    ("sub_sample", (1200, 512), {"dim_stride": (2, 1)}, lambda a: a[::2]),
]  # fmt: skip


def padded(array: Any, widths: Any) -> Any:
    """Return the array with zeros around it, whatever its type."""
    inner = tuple(slice(low, low + extent) for (low, _), extent in zip(widths, array.shape, strict=True))
    grown = [low + extent + high for (low, high), extent in zip(widths, array.shape, strict=True)]
    whole = np.zeros(grown, array.dtype)
    whole[inner] = array
    return whole


@every("kind", [np.uint8, np.float32, np.float64, ml_dtypes.bfloat16])
@every("name, shape, parameters, view", LARGE)
def test_large_arrays_move_alike(name: str, shape: Any, parameters: Any, view: Any, kind: Any) -> None:
    """What is moved some rows at a time, or filled first, because that is faster, ends as it would in one step."""
    src = random_array(shape, np.dtype(kind))
    after = np.ascontiguousarray(view(src))
    for order in ("C", "F"):
        dst = np.ones(after.shape, kind, order=order)
        OPERATIONS[name](dst, src, **parameters)
        assert dst.tobytes() == after.tobytes()


def test_slice_without_value_fills_with_zero() -> None:
    """The default of the fill is 0."""
    dst = np.full(4, 9, np.float32)
    OPERATIONS["slice"](dst, np.array([1, 2], np.float32), offsets=(1,))
    assert dst.tolist() == [2, 0, 0, 0]


def test_mirrors_are_the_way_round_that_the_text_has() -> None:
    """The text names the axes, and they are not the ones that the names suggest; docstrings begin with them."""
    src = np.arange(6).reshape(2, 3)
    after = {"mirror_tb": [[2, 1, 0], [5, 4, 3]], "mirror_lr": [[3, 4, 5], [0, 1, 2]]}
    nothing = dict.fromkeys(("low", "high", "mid"), (0, 0))
    for name, result in after.items():
        start = {"mirror_tb": "Last axis reversed", "mirror_lr": "Last axis but one reversed"}[name]
        for form, parameters in ((name, {}), (f"{name}_pad", nothing), (f"{name}_deslice", {"dst_offsets": (0, 0)})):
            dst = np.zeros_like(src)
            OPERATIONS[form](dst, src, **parameters)
            assert dst.tolist() == result
            assert OPERATIONS[form].documentation.startswith(start)


def test_a_part_of_an_element_counts_from_the_low_bytes() -> None:
    """With ratio 0 phase 0 is the low half, as the text has it, with ratio 1 phase 3 the highest quarter."""
    wide = np.zeros(2, np.uint32)
    halves, quarters = np.array([0x1234, 0xFFFF], np.uint16), np.array([0x12, 0xFF], np.uint8)
    window = {"src_offsets": (0,), "slice_shape": (2,)}
    for phase, after in enumerate(([0x1234, 0xFFFF], [0x12340000, 0xFFFF0000])):
        OPERATIONS["slice_expand"](wide, halves, **window, phase=phase, ratio=0)
        assert wide.tolist() == after
    OPERATIONS["slice_expand"](wide, quarters, **window, phase=3, ratio=1)
    assert wide.tolist() == [0x12000000, 0xFF000000]
    wide[:] = [0x01234567, 0x89ABCDEF]
    for phase, after in enumerate(([0x4567, 0xCDEF], [0x0123, 0x89AB])):
        OPERATIONS["shrink_deslice"](halves, wide, phase=phase, ratio=0, dst_offsets=(0,))
        assert halves.tolist() == after
    OPERATIONS["shrink_deslice"](quarters, wide, phase=1, ratio=1, dst_offsets=(0,))
    assert quarters.tolist() == [0x45, 0xCD]


def test_bits_are_moved_not_converted() -> None:
    """A signalling NaN and a negative zero arrive as they were, also as halves of something larger."""
    src = np.array([0x7FA00001, 0x80000000], np.uint32).view(np.float32)
    dst = np.zeros((2, 2), np.float32)
    OPERATIONS["broadcast"](dst, src)
    assert dst.view(np.uint32).tolist() == [[0x7FA00001, 0x80000000]] * 2
    wide = np.zeros(2, np.float64)
    OPERATIONS["slice_expand"](wide, src, src_offsets=(0,), slice_shape=(2,), phase=1, ratio=0)
    assert wide.view(np.uint64).tolist() == [0x7FA00001 << 32, 0x80000000 << 32]


def test_the_table_has_the_operations_of_both_of_the_texts_tables() -> None:
    """In their order; each row has its documentation, and the parameters that its windows begin at."""
    assert [name for name, row in OPERATIONS.items() if row.gcu_arch == 210] == FIRST_TABLE
    assert [name for name, row in OPERATIONS.items() if row.gcu_arch == 300] == SECOND_TABLE
    assert list(OPERATIONS) == FIRST_TABLE + SECOND_TABLE == list(ORACLES)
    for name, row in OPERATIONS.items():
        assert row.name == name
        assert row.summary.endswith(".") and row.takes_source is (name != "memset")
        assert set(row.work.offsets.values()) <= set(row.parameters)
        assert set(row.defaults.items()) <= {("value", 0)}


RANK_ZERO: dict[str, dict[str, Any]] = {
    "memcpy": {},
    "slice": {"offsets": ()},
    "deslice": {"offsets": ()},
    "transpose": {"layout": ()},
    "slice_transpose": {"offsets": (), "layout": ()},
    "transpose_deslice": {"offsets": (), "layout": ()},
    "pad": {"low": (), "high": (), "mid": ()},
    "broadcast": {},
    "slice_pad": {"src_offsets": (), "slice_shape": (), "low": (), "high": (), "mid": ()},
    "slice_deslice": {"src_offsets": (), "slice_shape": (), "dst_offsets": ()},
    "slice_broadcast": {"src_offsets": (), "slice_shape": ()},
    "memset_deslice": {"dst_offsets": (), "value": 7},
    "sub_sample": {"dim_stride": ()},
}


@every("name", RANK_ZERO)
def test_rank_zero(name: str) -> None:
    """An array without dimensions has one element, and moves like any other."""
    for kind in (np.int32, ml_dtypes.bfloat16):
        dst = np.zeros((), kind)
        OPERATIONS[name](dst, np.array(7, kind), **RANK_ZERO[name])
        assert dst[()] == 7


def test_parts_of_rank_zero() -> None:
    """The one element of no dimensions has halves too."""
    dst, src = np.zeros((), np.uint32), np.array(7, np.uint16)
    OPERATIONS["slice_expand"](dst, src, src_offsets=(), slice_shape=(), phase=1, ratio=0)
    assert dst[()] == 7 << 16
    OPERATIONS["shrink_deslice"](src, dst, phase=0, ratio=0, dst_offsets=())
    assert src[()] == 0
