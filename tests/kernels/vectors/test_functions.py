"""The mathematical functions as kernels call them: their types, operands, results and errors."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import InvalidType, InvalidValue, LaunchFailure
from atops.kernels.tables.vectors import FUNCTIONS, MathFunction
from atops.kernels.vectors import functions
from atops.kernels.vectors.numerics import numeric
from atops.kernels.vectors.vector import Mask
from atops.kernels.vectors.vector_type import VECTOR_TYPES, vector, vector2, vector4
from tests.every import every
from tests.kernel_bench import Bench
from tests.kernels.vector_host import fails, in_kernel, sample

NUMBERS = [kind for kind in VECTOR_TYPES.values() if not kind.is_mask]
ROWS = {row.name: row for row in FUNCTIONS}
BINARY = [row.name for row in FUNCTIONS if "y" in row.python.partition("(")[2]]

# The text's table once more, read from its words: function -> the types it takes.
FLOATS = {"__bf16", "__fp16", "float"}
WHOLE = {"int", "short", "char", "unsigned int", "unsigned short", "unsigned char"}
OF_BOTH = "ln rsqrt exp sin tan tanh softplus sigmoid gelu "
OF_VECTOR4 = "sign round log1p power sqrt expm1 isfinite floor ceil cos sinh cosh asin acos atan atan2"
TEXT = {
    "abs": {kind.name for kind in NUMBERS},
    "mod": {f"__vector4 {element}" for element in WHOLE},
    "div": {f"__vector4 {element}" for element in WHOLE | FLOATS},
    "rec": {f"__vector {element}" for element in FLOATS},
    **{name: {f"__vector4 {element}" for element in FLOATS} for name in (OF_BOTH + OF_VECTOR4).split()},
}
for each in OF_BOTH.split():
    TEXT[each] |= {f"__vector {element}" for element in FLOATS}

every_function = every("row", FUNCTIONS, ids=lambda row: row.name)


def call(name: str, *operands: object) -> object:
    """Call a function with its number of operands, the last one repeated."""
    return getattr(functions, name)(*operands, *[operands[-1]] * (1 + (name in BINARY) - len(operands)))


def test_there_are_29_functions():
    """The table has each of the text's functions once, and each is a public name."""
    assert len(FUNCTIONS) == len(ROWS) == len(functions.__all__) == 29
    assert set(ROWS) == set(TEXT) == set(functions.__all__)


@every_function
def test_the_docstring_says_what_the_row_says(row: MathFunction):
    """Parameters, bound, section and architecture agree between the function and its row."""
    function = getattr(functions, row.name)
    assert row.python == f"k.{row.name}({', '.join(inspect.signature(function).parameters)})"
    assert (row.section, row.gcu_arch) == ("8.4", 300)
    accuracy = {0.0: "Exact", 0.5: "nearest value (0.5 ulp)"}.get(row.ulp, f"Error at most {row.ulp} ulp")
    told = " ".join((inspect.getdoc(function) or "").split())
    assert accuracy in told
    assert told.endswith("TOPS C++, 8.4.")


@pytest.mark.slow
@every_function
def test_exactly_the_permitted_types(bench: Bench, row: MathFunction):
    """Each vector type of the text is computed; each other one is refused by name, with the permitted ones."""
    assert row.permitted == TEXT[row.name]

    def body():
        for name, kind in VECTOR_TYPES.items():
            lanes = np.ones(kind.lanes, kind.element)
            if name in TEXT[row.name]:
                result = call(row.name, kind(lanes))
                assert result.type is (kind.mask if row.name == "isfinite" else kind)
                right = numeric(row.name, kind.element)(*[lanes] * (1 + (row.name in BINARY)))
                np.testing.assert_array_equal(result.values, right)
                continue
            with pytest.raises(InvalidType) as caught:
                call(row.name, kind(lanes))
            assert f"{row.name} of a {kind.name}; it takes {' and '.join(row.types)}" in str(caught.value)

    in_kernel(bench, body)


@every_function
def test_a_lone_number_is_refused(row: MathFunction):
    """Functions are of vectors: numbers, arrays and None name the function and what it takes."""
    for wrong in (1.5, 2, np.float32(1), np.ones(128, np.float32), None, "x"):
        with pytest.raises(InvalidType, match=rf"{row.name} of {type(wrong).__name__} .*; it takes .*vectors?"):
            call(row.name, wrong)


def test_a_message_names_types_thread_and_line(bench: Bench):
    """What is permitted is listed, and the thread and the line that called."""
    fails(
        bench,
        lambda: functions.rec(vector4[np.float32](1)),
        InvalidType,
        r"thread \(0,0,0\).* at .*test_functions.py:\d+.*: rec of a __vector4 float; it takes __vector vectors of "
        r"floats: __vector float, __vector __fp16, __vector __bf16",
    )
    fails(bench, lambda: functions.abs(vector4[np.int32](1) > 0), InvalidType, "abs of a __vector4 bool int; it takes")


@every_function
def test_arrays_of_vectors_are_computed_at_once(bench: Bench, row: MathFunction):
    """An array gives what its vectors give one by one; the operand keeps its lanes and shares none."""

    def body():
        kind = next(kind for kind in NUMBERS if kind.name in row.permitted)
        lanes = np.where(sample(kind, count=3) == 0, kind.element.type(7), sample(kind, count=3))
        array = kind(lanes)
        result = call(row.name, array)
        assert result.values.shape == (3, kind.lanes)
        for index in range(3):
            np.testing.assert_array_equal(result[index].values, call(row.name, array[index]).values)
        assert not np.shares_memory(result.values, array.values)
        np.testing.assert_array_equal(array.values, lanes)

    in_kernel(bench, body)


def test_isfinite_gives_the_mask_of_comparisons(bench: Bench):
    """It can be combined with what a comparison gives, and select lanes."""

    def body():
        for element in ("float", "__fp16", "__bf16"):
            kind = vector4[element]
            lanes = np.where(np.arange(kind.lanes) % 2, np.inf, 1)
            x = kind(lanes)
            finite = functions.isfinite(x)
            assert isinstance(finite, Mask)
            assert finite.type is (x == x).type
            assert (finite & (x == x)).count() == kind.lanes // 2

    in_kernel(bench, body)


@pytest.mark.parametrize("name", BINARY)
def test_the_other_operand_may_be_a_scalar(bench: Bench, name: str):
    """On either side, where the element type holds it exactly; a vector goes with each vector of an array."""
    kind = vector4[np.int32] if name == "mod" else vector4[np.float32]

    def body():
        lanes = np.arange(1, 257).reshape(2, 128).astype(kind.element)
        array, compute = kind(lanes), numeric(name, kind.element)
        np.testing.assert_array_equal(call(name, array, 3).values, compute(lanes, np.full_like(lanes, 3)))
        np.testing.assert_array_equal(call(name, 3, array).values, compute(np.full_like(lanes, 3), lanes))
        np.testing.assert_array_equal(call(name, array, array[1]).values, compute(lanes, np.stack([lanes[1]] * 2)))
        for wrong in (0.1, 1 << 40 | 1, "3", lanes):
            error = InvalidValue if isinstance(wrong, int | float) else InvalidType
            with pytest.raises(error, match=rf"y of {name} (is|expects)"):
                call(name, array, wrong)
            with pytest.raises(error, match=rf"x of {name} (is|expects)"):
                call(name, wrong, array)

    in_kernel(bench, body)


@pytest.mark.parametrize("name", BINARY)
def test_operands_have_one_type(bench: Bench, name: str):
    """Two vector types, permitted or not, and arrays of unlike counts are refused."""

    def body():
        kind, other = (vector4[np.int32], vector4[np.int16]) if name == "mod" else (vector4["float"], vector4["__fp16"])
        with pytest.raises(InvalidType, match=f"{name} of a {kind.name} and a {other.name}; expected two"):
            call(name, kind(1), other(1))
        with pytest.raises(InvalidType, match=f"{name} of a __vector2 float; it takes"):
            call(name, vector2[np.float32](1), kind(1))
        with pytest.raises(InvalidType, match=f"{name} of a __vector2 float; it takes"):
            call(name, 1, vector2[np.float32](1))
        with pytest.raises(InvalidValue, match=f"{name} expects arrays of as many vectors, got 2 and 3"):
            call(name, kind(np.ones((2, kind.lanes))), kind(np.ones((3, kind.lanes))))

    in_kernel(bench, body)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["div", "mod"])
def test_an_integer_divided_by_zero_is_a_fault(bench: Bench, name: str):
    """The fault names function, lane, thread and line; a float gives an infinity instead."""
    divide = getattr(functions, name)

    def of_vectors():
        divisor = vector4["short"](5)
        divisor[77] = 0
        divide(vector4["short"](1), divisor)

    def of_an_array():
        divide(vector4["int"](1), vector4["int"](np.where(np.arange(256).reshape(2, 128) == 130, 0, 1)))

    where = r"thread \(0,0,0\).* at .*test_functions.py:\d+.*: "
    fails(bench, of_vectors, LaunchFailure, rf"{where}{name} by 0 in lane 77; ")
    fails(bench, of_an_array, LaunchFailure, rf"{where}{name} by 0 in lane 2 of vector 1; ")
    fails(bench, lambda: divide(vector4["int"](1), 0), LaunchFailure, rf"{where}{name} by 0 in lane 0; ")
    in_kernel(bench, lambda: np.testing.assert_array_equal(functions.div(vector4["float"](1), 0).values, np.inf))


def test_the_meanings_that_the_text_leaves_open(bench: Bench):
    """Truncation, the divisor's sign, halves away from zero, wrapping, and which argument is the numerator."""

    def body():
        x, y = vector4["int"](-7), vector4["int"](2)
        assert (functions.div(x, y)[0], functions.mod(x, y)[0], functions.mod(-x, -y)[0]) == (-3, 1, -1)
        least = vector4["int"](-(2**31))
        assert functions.abs(least)[0] == functions.div(least, -1)[0] == -(2**31)
        assert functions.mod(least, -1)[0] == 0
        assert functions.round(vector4["float"](-2.5))[0] == -3
        assert functions.atan2(vector4["float"](1), vector4["float"](0))[0] == np.float32(np.pi / 2)
        assert functions.softplus(vector["float"](100))[0] == 100

    in_kernel(bench, body)


def test_a_kernel_of_an_activation(bench: Bench):
    """Load, compute and store: the loop that such functions are for."""
    x = bench.upload(np.linspace(-8, 8, 1024, dtype=np.float32))
    y = bench.empty(1024)

    @k.kernel
    def gelu(y, x):
        for start in range(0, 1024, 128):
            functions.gelu(vector4[np.float32].load(x, start)).store(y, start)

    bench.launch(gelu, (1, 1), y, x)
    np.testing.assert_array_equal(y.host, numeric("gelu", np.dtype(np.float32))(x.host))
