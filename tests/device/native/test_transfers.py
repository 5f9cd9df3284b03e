"""The DTE of the native runtime against that of kernels in Python: the same descriptions, the same bytes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops.base.errors import InvalidValue
from atops.device.dte import stages
from atops.device.dte.operations import OPERATIONS
from atops.device.native.library import Operand, Transfer, runtime_library
from tests.device.transform_cases import EXAMPLES, Case, draw_case, random_array
from tests.every import every

TURNS = {
    id(turn): place
    for place, turn in enumerate(
        (stages.PLAIN, stages.PERMUTE, stages.MIRROR_X, stages.MIRROR_Y, stages.STRIDE, stages.EXPAND, stages.SHRINK,
         stages.REPLACE)
    )
}  # fmt: skip
LISTS = ("src_offsets", "slice_shape", "dst_offsets", "layout", "low", "high", "mid")


def described(name: str, case: Case, dst: np.ndarray[Any, Any], src: np.ndarray[Any, Any] | None) -> Transfer:
    """Return the description of a call, as the headers of kernels in C++ make it."""
    work, given_ = OPERATIONS[name].work, dict(case.parameters)
    made = Transfer(name=name.encode(), dst=_operand(dst), src=Operand() if src is None else _operand(src))
    if isinstance(work, stages.Memset):
        made.take, made.land = 0, 1
    elif isinstance(work, stages.Memcpy):
        made.take, made.land = 1, 0
    else:
        assert isinstance(work, stages.Stages)
        made.take = 1 if work.take is stages.ALL else 2
        made.turn = TURNS[id(work.turn)]
        window = work.land.offsets is not None
        made.land = 3 if window else {id(stages.WHOLE): 2, id(stages.PADDED): 4}.get(id(work.land), 5)
        for own, text in ((work.take.offsets, "src_offsets"), (work.land.offsets, "dst_offsets")):
            if own is not None and own in given_:
                given_[text] = given_.pop(own)
    if "dim_stride" in given_:
        given_["layout"] = given_.pop("dim_stride")
    for place, each in enumerate(LISTS):
        if each in given_:
            numbers = given_[each]
            getattr(made, each)[: len(numbers)] = numbers
            made.numbers_given[place] = len(numbers)
    made.has_shape = "slice_shape" in given_
    made.phase, made.ratio = given_.get("phase", 0), given_.get("ratio", 0)
    bits = np.array(given_.get("value", 0)).astype(dst.dtype).tobytes()
    made.value = int.from_bytes(bits[:8], "little")
    return made


def _operand(array: np.ndarray[Any, Any]) -> Operand:
    made = Operand(address=array.ctypes.data, rank=array.ndim, item=array.itemsize)
    made.extents[: array.ndim] = array.shape
    return made


def compare(name: str, case: Case) -> None:
    """Have both move the same."""
    dst = random_array(case.dst, case.dst_kind, 2).copy(order="C")
    src = None if case.src is None else random_array(case.src, case.src_kind).copy(order="C")
    expected = dst.copy()
    OPERATIONS[name](expected, src, **case.parameters)
    text = ctypes.create_string_buffer(1024)
    right = runtime_library().atops_transfer(described(name, case, dst, src), text, 1024)
    assert right, text.value
    assert dst.tobytes() == expected.tobytes()


def small(case: Case) -> bool:
    """Whether the native runtime has as many dimensions, and elements of a size that a register has."""
    sizes = {case.dst_kind.itemsize, 0 if case.src is None else case.src_kind.itemsize}
    return max(len(case.dst), len(case.src or ())) <= 8 and max(sizes) <= 8


@every("name", OPERATIONS)
def test_an_example_of_each_operation(name: str) -> None:
    """Moves the same bytes."""
    compare(name, EXAMPLES[name])


@every("size", (16383, 16384, 20001, 65536, 65537, 200_000))
def test_tiles_of_any_size_move_whole(size: int) -> None:
    """Copied by groups of pages or not, from any address, and to where they overlap."""
    kind = np.dtype(np.uint8)
    for name, rows in (("memcpy", 1), ("deslice", 3)):
        parameters = {} if name == "memcpy" else {"offsets": (0, 1)}
        compare(name, Case((rows, size + (rows > 1)), (rows, size), parameters, kind, kind))
    for ahead in (-4096, -1, 0, 3, 70_000):
        memory = np.random.default_rng(1).integers(0, 256, size + 150_000, np.uint8)
        src, dst = memory[75_000:][:size], memory[75_000 + ahead :][:size]
        expected = src.copy()
        made = described("memcpy", Case((size,), (size,), {}), dst, src)
        assert runtime_library().atops_transfer(made, ctypes.create_string_buffer(1024), 1024)
        assert np.array_equal(dst, expected), ahead


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_random_descriptions(name: str) -> None:
    """Whatever the rank, the extents and the sizes of elements."""

    @settings(max_examples=60)
    @given(st.data())
    def same(data: st.DataObject) -> None:
        case = draw_case(data.draw, name)
        if small(case):
            compare(name, case)

    same()


WRONG = {
    "memcpy": ((4,), (8,), {}),
    "transpose": ((4, 3), (3, 4), {"layout": (0, 1)}),
    "deslice": ((4,), (3,), {"offsets": (2,)}),
    "pad": ((9,), (4,), {"low": (1,), "high": (1,), "mid": (2,)}),
    "broadcast": ((4, 3), (2, 3), {}),
    "slice_deslice": ((4,), (8,), {"src_offsets": (0,), "slice_shape": (5,), "dst_offsets": (0,)}),
    "sub_sample": ((3,), (8,), {"dim_stride": (2,)}),
    "mirror_lr": ((3,), (3,), {}),
}


@every("name", WRONG)
def test_what_does_not_fit_is_refused_by_both(name: str) -> None:
    """With a text that names the operation, and nothing moved."""
    into, out, parameters = WRONG[name]
    dst, src = np.zeros(into, np.float32), np.ones(out, np.float32)
    with pytest.raises(InvalidValue):
        OPERATIONS[name](dst, src, **parameters)
    case = Case(into, out, parameters)
    text = ctypes.create_string_buffer(1024)
    assert not runtime_library().atops_transfer(described(name, case, dst, src), text, 1024)
    assert text.value.decode().startswith(f"{name}: ")
    assert not dst.any()
