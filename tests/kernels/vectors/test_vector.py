"""Every operator on every type against arithmetic of its own, arrays of vectors, elements, and what is refused."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops import kernels as k
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.kernels.vectors.vector import Mask, Vector
from atops.kernels.vectors.vector_type import VectorType, vector, vector4
from tests.every import every
from tests.kernel_bench import Bench
from tests.kernels.vector_host import FLOATS, INTEGERS, MASKS, TYPES, UNSIGNED, fails, in_kernel, sample

NUMBERS = FLOATS + INTEGERS
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARISONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
               ">=": operator.ge}  # fmt: skip
BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
named = every("kind", TYPES, ids=str)


def of(kinds: list[VectorType]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each of some vector types."""
    return every("kind", kinds, ids=str)


def two(kind: VectorType) -> tuple[Vector, Vector]:
    """Return two vectors of a type with its extremes beside each other."""
    return kind.wrap(sample(kind, 0)), kind.wrap(sample(kind, 1))


def wrapped(kind: VectorType, numbers: list[int]) -> list[int]:
    """Return ints as the element type keeps them: modulo its width."""
    bits = 8 * kind.element.itemsize
    low = 0 if "unsigned" in kind.name else -(1 << (bits - 1))
    return [(each - low) % (1 << bits) + low for each in numbers]


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether two arrays hold the same values, NaN where NaN."""
    return one.dtype == other.dtype and np.array_equal(one.astype(np.float64), other.astype(np.float64), equal_nan=True)


@of(INTEGERS)
@every("sign", ARITHMETIC)
def test_integers_wrap(kind: VectorType, sign: str):
    """+ - * of integer lanes are Python's, cut to the width, for vectors and for scalars on either side."""
    run, (x, y) = ARITHMETIC[sign], two(kind)
    a, b = x.values.tolist(), y.values.tolist()
    assert run(x, y).values.tolist() == wrapped(kind, list(map(run, a, b)))
    assert run(x, 3).values.tolist() == wrapped(kind, [run(each, 3) for each in a])
    assert run(3, x).values.tolist() == wrapped(kind, [run(3, each) for each in a])
    assert run(kind.element.type(3), x).values.tolist() == wrapped(kind, [run(3, each) for each in a])
    assert run(x, y).type is kind and run(3, x).values.dtype == kind.element


@of(FLOATS)
@every("sign", ARITHMETIC)
def test_floats_round_once(kind: VectorType, sign: str):
    """+ - * of float lanes are exact values rounded once, quietly, with NaN and infinities."""
    run, (x, y) = ARITHMETIC[sign], two(kind)
    wide = np.float64 if kind.element == np.float32 else np.float32  # holds + - * of narrower ones, or rounds the same
    with np.errstate(all="ignore"):
        a, b = x.values.astype(wide), y.values.astype(wide)
        assert same(run(x, y).values, run(a, b).astype(kind.element))
        assert same(run(x, 0.5).values, run(a, wide(0.5)).astype(kind.element))
        assert same(run(np.float32(2), x).values, run(wide(2), a).astype(kind.element))
    most = kind.wrap(np.full(kind.lanes, np.float32(60000)).astype(kind.element))
    assert np.isinf((most * most * most * most * most * most * most * most * most).values).all()


@pytest.mark.slow
@named
@every("sign", COMPARISONS)
def test_comparisons_give_masks(kind: VectorType, sign: str):
    """Each lane is compared, NaN with nothing, and the mask has the lanes and width of the operands."""
    run, (x, y) = COMPARISONS[sign], two(kind)
    a, b = x.values.astype(object).tolist(), y.values.astype(object).tolist()
    made = run(x, y)
    assert type(made) is Mask and made.type is kind.mask and made.values.tolist() == list(map(run, a, b))
    one = kind.element.type(1)
    assert run(x, one).values.tolist() == run(x, 1).values.tolist() == [run(each, one) for each in a]
    assert run(one, x).values.tolist() == run(1, x).values.tolist() == [run(one, each) for each in a]


@of(UNSIGNED)
def test_shifts_are_logical(kind: VectorType):
    """<< drops the high bits, >> fills with zeros, counts of the width or more give 0; per lane or one for all."""
    bits = 8 * kind.element.itemsize
    x = kind.wrap(sample(kind))
    counts = np.arange(kind.lanes) % (bits + 3)
    y = kind.wrap(counts.astype(kind.element))
    a = x.values.tolist()
    pairs = list(zip(a, counts.tolist(), strict=True))
    assert (x << y).values.tolist() == [each << count & (1 << bits) - 1 for each, count in pairs]
    assert (x >> y).values.tolist() == [each >> count for each, count in pairs]
    for count in (0, 1, bits - 1, bits, bits + 1, 255, 1 << 40):
        assert (x << count).values.tolist() == [each << min(count, bits) & (1 << bits) - 1 for each in a]
        assert (x >> count).values.tolist() == [each >> min(count, bits) for each in a]
    assert (1 << y).values.tolist() == [1 << count & (1 << bits) - 1 for count in counts.tolist()]
    assert (200 >> y).values.tolist() == [200 >> count for count in counts.tolist()]
    with pytest.raises(InvalidValue, match="y of x>>y expects a count of 0 or more, got -1"):
        x >> -1


@of([each for each in UNSIGNED + MASKS if "long" not in each.name])
def test_bits(kind: VectorType):
    """& | ^ ~ of unsigned lanes are those of the bits, of masks those of truth values."""
    x, y = two(kind)
    a, b = x.values.tolist(), y.values.tolist()
    for run in BITS.values():
        made = run(x, y)
        assert made.values.tolist() == list(map(run, a, b)) and made.type is kind and type(made) is type(x)
    most = 1 if kind.is_mask else (1 << 8 * kind.element.itemsize) - 1
    assert (~x).values.tolist() == [most ^ each for each in a]
    assert (x & 1).values.tolist() == (1 & x).values.tolist() == [each & 1 for each in a]


@of([each for each in NUMBERS if each not in UNSIGNED])
def test_negation(kind: VectorType):
    """-x of each lane; the least integer gives itself, of a float the sign changes."""
    x = kind.wrap(sample(kind))
    if kind in FLOATS:
        assert same((-x).values, -x.values) and np.array_equal(np.signbit((-x).values), ~np.signbit(x.values))
    else:
        assert (-x).values.tolist() == wrapped(kind, [-each for each in x.values.tolist()])


@of(NUMBERS)
def test_increments_change_the_vector_itself(kind: VectorType):
    """++x and --x are in place; += makes a new vector, so that another name keeps the old one."""
    x = kind.wrap(sample(kind))
    shared, before = x, x.values.copy()
    assert x.increment() is x is shared and same(x.values, (kind.wrap(before) + 1).values)
    assert x.decrement() is x and same(x.values, (kind.wrap(before) + 1 - 1).values)
    lanes = x.values.copy()
    x += 1
    assert shared is not x and same(shared.values, lanes) and same(x.values, (shared + 1).values)


@named
def test_elements_are_read_and_stored(kind: VectorType):
    """[x] reads and stores single lanes, of any integer type of index, and iterating gives all of them."""
    x, y = two(kind)
    y = y.copy()
    for index in (0, 5, np.int64(kind.lanes - 1), np.uint8(7)):
        assert type(x[index]) is kind.element.type and str(x[index]) == str(x.values[index])
        y[index] = x[index]
        assert str(y[index]) == str(x[index])
    y[3] = 1
    assert y[3] == 1 and len(x) == kind.lanes and [str(each) for each in x] == [str(each) for each in x.values]


@pytest.mark.parametrize("index", [128, -1, 1 << 40, np.int64(-128)])
def test_lanes_have_bounds(bench: Bench, index: int):
    """An index outside the lanes, negative ones too, is a fault that names index, lanes, thread and line."""

    def read():
        vector4["float"](0)[index]

    def write():
        vector4["float"](0)[index] = 1

    for body in (read, write):
        said = rf"index {index} of a __vector4 float, whose lanes are 0 to 127"
        fails(bench, body, IllegalAddress, rf"thread \(0,0,0\).* at test_vector.py:\d+ .*{said}")


def test_what_a_lane_takes():
    """A float lane rounds as C++ does, an integer lane holds its value exactly; an index is an integer."""
    x, y = vector["__bf16"].wrap(np.zeros(64, ml_dtypes.bfloat16)), vector["int"].wrap(np.zeros(32, np.int32))
    x[0] = 0.1
    assert x[0] == ml_dtypes.bfloat16(0.1)
    for value, error in ((0.5, InvalidValue), (1 << 31, InvalidValue), ("a", InvalidType), (y, InvalidType)):
        with pytest.raises(error, match=r"the value of a lane (is|expects)"):
            y[0] = value
    for index in ("a", 1.0, None, y):
        with pytest.raises(InvalidType, match=r"index of a __vector int expects an integer, got"):
            y[index]


def test_arrays_of_vectors_compute_at_once():
    """Operators work on every vector of an array; a vector or a scalar goes with each."""
    kind = vector["int"]
    rows, single = kind.wrap(sample(kind, 2, count=5)), kind.wrap(sample(kind, 3))
    assert (rows + rows).values.shape == (5, 32) and (rows < single).values.shape == (5, 32)
    for made, other in ((rows * single, single), (rows * rows, rows), (rows * 3, 3)):
        for index in range(5):
            beside = other[index] if other is rows else other
            assert (made[index] == rows[index] * beside).all()
    assert (single - rows)[2].values.tolist() == (single - rows[2]).values.tolist()
    assert [each.type for each in rows] == [kind] * 5 and len(rows) == 5
    with pytest.raises(InvalidValue, match="x<y expects arrays of as many vectors, got 5 and 4"):
        operator.lt(rows, kind.wrap(rows.values[:4]))
    with pytest.raises(InvalidValue, match=r"x\+y expects arrays of as many vectors, got 5 and 4"):
        rows + kind.wrap(rows.values[:4])


def test_a_slice_of_an_array_of_vectors():
    """`v[i:j]` is an array of those vectors and shares their lanes; a single vector has none, and nothing is cut."""
    kind = vector["int"]
    rows = kind.wrap(sample(kind, 2, count=5))
    part = rows[1:4]
    assert part.type is kind and part.values.tolist() == rows.values[1:4].tolist()
    part.increment()
    assert (rows[1:4] == part).all() and len(rows[:2]) == 2 and len(rows[5:]) == 0
    for index in (slice(0, 6), slice(-1, 3), slice(4, 2)):
        with pytest.raises(IllegalAddress, match="outside of an array, which has 0:5"):
            rows[index]
    for value, index in ((rows, slice(0, 4, 2)), (rows[0], slice(0, 2))):
        with pytest.raises(InvalidType, match="expects i:j of an array of vectors"):
            value[index]


def test_vectors_of_an_array_are_its_own():
    """v[i] is the vector in the array, as an lvalue in C++: storing its lanes and incrementing it change the array."""
    kind = vector["int"]
    rows = kind.wrap(np.zeros((3, 32), np.int32))
    rows[1][4] = 7
    rows[1].increment()
    rows[2] = kind.wrap(np.full(32, 9, np.int32))
    rows[2] += 1
    assert rows.values[:, 4].tolist() == [0, 8, 10]
    with pytest.raises(IllegalAddress, match="index 3 of an array, whose vectors are 0 to 2"):
        rows[3]
    for value in (1, rows, vector["float"].wrap(np.zeros(32, np.float32)), np.zeros(32, np.int32)):
        with pytest.raises(InvalidType, match=r"vector 0 of an array expects one __vector int, got"):
            rows[0] = value


def test_assignment_shares_and_copy_does_not():
    """`y = x` is one vector, `x.copy()` another, and so is copy.copy."""
    x = vector["int"].wrap(np.zeros(32, np.int32))
    y, z, w = x, x.copy(), copy.copy(x)
    x[0] = 1
    assert (y[0], z[0], w[0]) == (1, 0, 0)


@every("run", [*ARITHMETIC.values(), *COMPARISONS.values(), *BITS.values(), operator.lshift])
def test_operands_of_other_types_are_refused(run: Callable):
    """Another vector type, memory, text, None and rounded floats are errors on either side."""
    x = vector["unsigned int"].wrap(np.ones(32, np.uint32))
    others = [each.wrap(sample(each)) for each in TYPES if each is not x.type]
    for other in (*others, np.ones(32, np.uint32), "a", None, [1] * 32, 1j):
        with pytest.raises(InvalidType):
            run(x, other)
        if not isinstance(other, Vector):
            with pytest.raises(InvalidType, match=r"y of x|x of x"):
                run(other, x)
    for other in (0.5, -1):
        with pytest.raises(InvalidValue):
            run(x, other)


def test_messages_say_what_is_right():
    """An error names the operator, what was given and what would have been right."""
    x = vector["float"].wrap(np.ones(32, np.float32))
    with pytest.raises(InvalidType, match=r"^y of x\+y expects a __vector float or a scalar, got a __vector int"):
        x + vector["int"].wrap(np.ones(32, np.int32))
    with pytest.raises(InvalidType, match=r'^x of x-y is memory of .*32,\); k.vector\["float"\].load\(memory, i\)'):
        x.values - x
    with pytest.raises(InvalidValue, match=r"^y of x\*y is 0.1, which float cannot .*; float32\(0.1\) rounds it"):
        x * 0.1
    with pytest.raises(InvalidType, match=r"^x<<y is not for __vector float; it is for vectors of unsigned integers: "):
        x << 1
    four = vector4["int"].wrap(np.ones(128, np.int32))
    for run, name in ((operator.truediv, "div"), (operator.floordiv, "div"), (operator.mod, "mod"),
                      (operator.pow, "power")):  # fmt: skip
        for one in (x, four):
            advice = "$" if one is four and name != "power" else ", which is for __vector4 vectors of"
            for left, right in ((one, one), (2, one), (one, np.float32(2)), (np.float32(2), one)):
                with pytest.raises(InvalidType, match=rf"has no operator .*; use k\.{name}\(x, y\){advice}"):
                    run(left, right)


def test_functions_of_python_and_numpy_name_the_languages():
    """Python's and numpy's functions of numbers refuse a vector, and say which functions take it."""
    x = vector["float"].wrap(np.ones(32, np.float32))
    for run in (abs, round, math.floor, math.ceil):
        with pytest.raises(InvalidType, match=rf"of Python takes no __vector float; use k\.{run.__name__}\("):
            run(x)
    for run in (math.exp, float, int, complex):
        with pytest.raises(InvalidType, match=r"32 lanes and is no number; .*k\.exp\(x\)"):
            run(x)
    for use in (np.exp, lambda v: np.maximum(v, 0), lambda v: np.add(v, v), np.add.reduce):
        with pytest.raises(InvalidType, match=r"np\.\w+ takes no __vector float; k\.exp\(x\) and its like"):
            use(x)


def test_a_numpy_scalar_may_stand_on_the_left():
    """Each operator with a scalar of numpy on the left gives what the vector of that scalar gives."""
    x = vector["unsigned int"].wrap(np.arange(32, dtype=np.uint32))
    for run in (operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor, operator.eq,
                operator.ne, operator.lt, operator.le, operator.gt, operator.ge):  # fmt: skip
        assert (run(np.uint32(5), x).values == run(np.uint32(5), x.values)).all()


def test_a_vector_is_no_truth_no_key_and_no_array():
    """bool, hash, numpy functions and stores into arrays have no meaning, and the errors tell what has."""
    x = vector["float"].wrap(np.ones(32, np.float32))
    for each in (x, x == x):
        with pytest.raises(InvalidType, match=r"32 lanes and no single truth value; .*mask.any\(\) or mask.all\(\)"):
            bool(each)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    for use in (np.asarray, np.sum, np.zeros(32).__iadd__, lambda v: np.zeros(32).__setitem__(slice(None), v)):
        with pytest.raises(TypeError):
            if use(x) is NotImplemented:
                raise TypeError
    with pytest.raises(InvalidType, match=r"is no array; x.store\(memory, index\) stores it"):
        np.asarray(x)


def test_scalars_in_memory_are_operands(make_bench):
    """A variable without dimensions is a scalar in either mode; what has dimensions is not."""
    for strict in (False, True):

        def body():
            total, x = k.shared((), np.float32), vector["float"](3)
            total[...] = 2
            for made in (x * total, total * x):
                assert (made.values == 6).all()
            assert (total < x).all() and (x[0] + total) == 5
            with pytest.raises(InvalidType, match=r"memory of shape \(32,\)"):
                x + k.local(32, np.float32)
            with pytest.raises(InvalidType, match=r"memory of shape \(32,\)"):
                k.local(32, np.float32) + x

        in_kernel(make_bench(strict=strict), body)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_bits_agree_with_python(data: st.DataObject):
    """For any two lanes of any integer type every operator that it has gives what Python's integers give."""
    kind = data.draw(st.sampled_from(INTEGERS))
    info = np.iinfo(kind.element)
    a, b = (data.draw(st.integers(info.min, info.max)) for _ in range(2))
    x, y = (kind.wrap(np.full(kind.lanes, each, kind.element)) for each in (a, b))
    runs = ARITHMETIC | (BITS if kind in UNSIGNED and "long" not in kind.name else {})
    for run in runs.values():
        assert run(x, y)[0] == wrapped(kind, [run(a, b)])[0]
    for run in COMPARISONS.values():
        assert run(x, y).all() == run(x, y).any() == run(a, b)


def test_the_repr_shows_type_and_lanes():
    """A few lanes say what is inside."""
    assert repr(vector["int"].wrap(np.arange(32, dtype=np.int32))) == "<__vector int [ 0, 1, ..., 30, 31]>"
