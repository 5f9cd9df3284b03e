"""Which vector types there are, how they are named, and what a vector is made of."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import IllegalState, InvalidType, InvalidValue, NotSupported
from atops.kernels.vectors.vector import Mask, Vector
from atops.kernels.vectors.vector_type import VECTOR_TYPES, sizeof, vector, vector2, vector4
from tests.every import every
from tests.kernel_bench import Bench
from tests.kernels.vector_host import MASKS, TYPES, fails, in_kernel

# The language text's table, row by row; `__vector2 bool int` as its slip is settled.
TEXT = """
__vector int 32, __vector unsigned int 32, __vector short 64, __vector unsigned short 64, __vector char 128,
__vector unsigned char 128, __vector float 32, __vector __fp16 64, __vector __bf16 64,
__vector2 int 64, __vector2 unsigned int 64, __vector2 short 128, __vector2 unsigned short 128, __vector2 char 256,
__vector2 unsigned char 256, __vector2 float 64, __vector2 __fp16 128, __vector2 __bf16 128,
__vector4 int 128, __vector4 unsigned int 128, __vector4 short 256, __vector4 unsigned short 256, __vector4 char 512,
__vector4 unsigned char 512, __vector4 long 128, __vector4 unsigned long 128, __vector4 float 128,
__vector4 __fp16 256, __vector4 __bf16 256,
__vector bool int 32, __vector bool unsigned int 32, __vector bool short 64, __vector bool unsigned short 64,
__vector bool char 128, __vector bool unsigned char 128,
__vector2 bool int 64, __vector2 bool unsigned int 64, __vector2 bool short 128, __vector2 bool unsigned short 128,
__vector2 bool char 256, __vector2 bool unsigned char 256,
__vector4 bool int 128, __vector4 bool unsigned int 128, __vector4 bool short 256, __vector4 bool unsigned short 256,
__vector4 bool char 512, __vector4 bool unsigned char 512, __vector4 bool long 128, __vector4 bool unsigned long 128
"""
LANES = {name: int(lanes) for name, _, lanes in (row.strip().rpartition(" ") for row in TEXT.split(","))}
BYTES = {"vector": 128, "vector2": 256, "vector4": 512}
FAMILIES = {"vector": vector, "vector2": vector2, "vector4": vector4}


def test_every_type_of_the_text():
    """There are the text's 49 types and no other, each with the text's lanes and its keyword's bytes."""
    assert len(LANES) == 49 and set(VECTOR_TYPES) == set(LANES)
    for name, kind in VECTOR_TYPES.items():
        keyword, _, spelling = name.removeprefix("__").partition(" ")
        assert FAMILIES[keyword][spelling] is kind and kind.keyword == keyword
        assert kind.lanes == LANES[name]
        assert kind.nbytes == (1024 if "long" in name else BYTES[keyword])
        assert kind.is_mask == ("bool" in name)
        assert repr(kind) == kind.name == name.replace("bool unsigned", "bool")


def test_types_go_by_numpy_names_too():
    """Scalar types, dtypes and names find the type that the text's spelling finds."""
    names = {"int": np.int32, "unsigned char": np.uint8, "long": np.int64, "unsigned long": np.uint64,
             "float": np.float32, "__fp16": np.float16, "__bf16": ml_dtypes.bfloat16}  # fmt: skip
    for spelling, scalar in names.items():
        kind = vector4[spelling]
        for key in (scalar, np.dtype(scalar), np.dtype(scalar).name):
            assert vector4[key] is kind and kind.element == scalar
    assert vector["bf16"] is vector["__bf16"] and vector["half"] is vector[np.float16]
    assert vector4["int"] is vector4["int32"] and vector4["float"] is vector4["float32"]


def test_a_mask_has_two_names_and_one_type():
    """The masks bool int and bool unsigned int are one type; other widths and keywords are others."""
    assert vector["bool int"] is vector["bool unsigned int"] is not vector2["bool int"]
    assert vector4["bool int"] is not vector4["bool long"] is vector4["bool unsigned long"]
    assert len(MASKS) == 10
    for kind in TYPES:
        assert (kind.mask.lanes, kind.mask.nbytes, kind.mask.keyword) == (kind.lanes, kind.nbytes, kind.keyword)
        assert kind.mask.is_mask and kind.mask.element.type is np.bool_ and kind.mask.mask is kind.mask
    assert vector4["float"].mask is vector4["bool int"] and vector["__bf16"].mask is vector["bool short"]
    assert vector2["char"].mask is vector2["bool char"] and vector4["long"].mask is vector4["bool long"]


@every("element", ["double", np.float64, bool, np.bool_, "bool", "no type", None, [1], object,
                                     "float8_e4m3fn", "bool float"])  # fmt: skip
def test_unknown_types_are_refused(element: object):
    """An element without vectors is an error that names those with."""
    with pytest.raises(InvalidType, match=r"no __vector2 of .*'int', 'unsigned int', .*'__bf16', 'bool int', "):
        vector2[element]


def test_64_bit_vectors_have_one_keyword():
    """The element long is one of __vector4 only."""
    for family in (vector, vector2):
        for element in ("long", np.uint64, "bool long"):
            with pytest.raises(InvalidType, match=r"'__bf16', 'bool int'"):
                family[element]


def test_a_vector_is_made_of_what_gives_its_lanes(bench: Bench):
    """Nothing, a number, as many values, rows, a vector: each makes a new vector of the type."""

    def body():
        for kind in TYPES:
            one = kind.element.type(1)
            for value, expected in ((0, False), (one, True), (True, True)):
                made = kind(value)
                assert type(made) is (Mask if kind.is_mask else Vector) and made.type is kind
                assert made.values.dtype == kind.element and made.values.shape == (kind.lanes,)
                assert (made.values == expected).all()
            assert not kind().values.any()
            lanes = (np.arange(kind.lanes) % (2 if kind.is_mask else 50)).astype(kind.element)
            for values in (lanes, lanes.tolist(), tuple(lanes)):
                made = kind(values)
                assert (made.values == lanes).all() and made.values.dtype == kind.element
                assert made.values is not values
            rows = kind(np.stack([lanes, lanes[::-1]]))
            assert rows.values.shape == (2, kind.lanes) and (rows.values[1] == lanes[::-1]).all()
            again = kind(made)
            assert again.values is not made.values and (again.values == lanes).all()

    in_kernel(bench, body)


def test_making_rounds_floats_and_nothing_else(bench: Bench):
    """0.1 becomes the nearest float; no integer type takes a fraction or what is out of its range."""

    def body():
        assert vector4["float"](0.1)[5] == np.float32(0.1) and vector["__bf16"](0.1)[0] == ml_dtypes.bfloat16(0.1)
        assert vector["__fp16"]([0.1] * 64)[3] == np.float16(0.1) and np.isinf(vector["__fp16"](1e9)[0])
        assert vector4["float"](np.full(128, 1 / 3))[9] == np.float32(1 / 3)
        assert vector["int"](np.full(32, 7.0))[0] == 7

    in_kernel(bench, body)
    for values, error, match in (
        (0.5, InvalidValue, "0.5, which int cannot hold"),
        (1 << 31, InvalidValue, "which int cannot hold exactly"),
        (np.full(32, 0.5), InvalidValue, "has values that int cannot hold exactly"),
        (np.full(32, 1 << 31), InvalidValue, "has values that int cannot hold exactly"),
        ([1, 2, 3], InvalidValue, r"shape \(3,\); expected \(32,\)"),
        (np.zeros((2, 2, 32), np.int32), InvalidValue, r"or \(count, 32\)"),
        ([[1], [2, 3]], InvalidType, "rows of unlike lengths"),
        ("text", InvalidType, "got 'text'"),
        (None, InvalidType, "got None"),
        (np.full(32, "a"), InvalidType, "elements of type"),
        (1j, InvalidType, "got 1j"),
    ):
        fails(bench, lambda values=values: vector["int"](values), error, match)
    fails(bench, lambda: vector["bool int"](np.ones(32, int)), InvalidType, "elements of type int64; expected bool")
    fails(bench, lambda: vector["int"](vector["unsigned int"](1)), InvalidType, "expects numbers or a __vector int")


def test_a_vector_is_made_of_a_span(make_bench):
    """In either mode memory of as many elements gives the lanes, and strict mode sees it read."""
    for strict in (False, True):
        bench = make_bench(strict=strict)
        seen: list[str] = []
        x = bench.upload(np.full(32, 5, np.int32))

        @k.kernel
        def body(x):
            tile = k.local(32, np.int32)
            tile[...] = np.arange(32)
            assert (vector["int"](tile).values == np.arange(32)).all()
            assert (vector["int"](x).values == 5).all() and (vector["int"](x[0]).values == 5).all()

        bench.launch(body, (1, 1), x, observer=lambda kind, *rest, seen=seen: seen.append(kind))
        assert seen.count("load") == (3 if strict else 2)


def test_vectors_are_made_in_kernels_only(make_bench):
    """The host names types and does not make vectors; gcu210 makes none, and names the thread and its line."""
    kind = vector4[np.float32]
    with pytest.raises(IllegalState, match="__vector4 float was asked for on the host"):
        kind(1)
    with pytest.raises(IllegalState, match="on the host"):
        kind.load(np.zeros(128, np.float32))
    bench = make_bench(arch="gcu210")
    for make in (lambda: kind(), lambda: kind.load(k.local(128, np.float32))):
        fails(bench, make, NotSupported, r"thread \(0,0,0\) .*test_vector_type.py:\d+ .*float needs gcu300.* gcu210")


def test_wrapping_neither_checks_nor_copies():
    """What computes lanes gives them out as a vector on any side."""
    lanes = np.arange(32, dtype=np.float32)
    made = vector["float"].wrap(lanes)
    assert made.values is lanes and made.type is vector["float"]


def test_copies_of_a_type_are_the_type():
    """Pickle and copy give the one object that each type is."""
    for kind in TYPES:
        assert pickle.loads(pickle.dumps(kind)) is kind is copy.deepcopy(kind)


def test_sizes_in_bytes():
    """A size is that of a type, a vector and an array of vectors, and nothing else."""
    assert sizeof(vector4["long"]) == 1024 and sizeof(vector["bool char"]) == 128
    assert sizeof(vector2["int"].wrap(np.zeros(64, np.int32))) == 256
    assert sizeof(vector2["int"].wrap(np.zeros((5, 64), np.int32))) == 5 * 256
    with pytest.raises(InvalidType, match="sizeof expects a vector or a vector type"):
        sizeof(3)


def test_families_have_a_name():
    """The repr of a family says which types it has."""
    assert repr(vector4) == "<vector types __vector4>"
