"""Pointers: arithmetic, access, bounds, and the conversions between memory spaces."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops import kernels as k
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, LaunchFailure
from atops.kernels.memory.arrays import Constant, Generic, Private, private
from atops.kernels.memory.device_variables import constant, device_variable
from atops.kernels.memory.pointer import Pointer, generic, pointer
from atops.kernels.memory.spaces import common_space, is_below
from tests.every import every
from tests.kernel_bench import Bench

SPACES = [Generic, k.Global, k.Shared, k.Local, Constant, Private]
COUNTS = device_variable(np.int32, [0, 1, 2, 3])
TABLE = constant(np.int32, [0, 10, 20, 30])


def pointers(x: k.Span) -> dict[Any, Pointer]:
    """Return a pointer into each space, to four ints, as a kernel has them."""
    return {
        Generic: pointer(x), k.Global: pointer(COUNTS), k.Shared: pointer(k.shared(4, np.int32)),
        k.Local: pointer(k.local(4, np.int32)), Constant: pointer(TABLE), Private: pointer(private(4, np.int32)),
    }  # fmt: skip


def fails(bench: Bench, body: Callable[[k.Span], object], error: type, why: str) -> None:
    """Make sure that a kernel fails with this error, whose message has `why` in it."""

    @k.kernel
    def wrong(x):
        body(x)

    with pytest.raises(LaunchFailure, match=why) as caught:
        bench.launch(wrong, (1, 1), bench.upload(np.arange(4, dtype=np.int32)))
    assert isinstance(caught.value.__cause__, error), caught.value.__cause__


@pytest.mark.parametrize("strict", [False, True])
def test_a_pointer_points_into_the_space_of_its_memory(make_bench: Callable[..., Bench], strict: bool):
    """Arguments are generic, everything else is what it is; all read and store their elements."""
    bench = make_bench(strict=strict)

    @k.kernel
    def use(x):
        for space, p in pointers(x).items():
            assert p.space is space and p.dtype == np.int32 and pointer(p) is p
            assert f"{space} pointer to int32" in repr(p)
            if space is not Constant:
                p[2] = 7
                assert p[2] == 7 == (p + 2)[0] == (3 + p)[-1]
        assert x[2] == 7 and COUNTS[2] == 7 and pointer(TABLE)[3] == 30

    bench.launch(use, (1, 1), bench.empty(4, np.int32))


@pytest.mark.slow
@given(start=st.integers(-20, 20), step=st.integers(-20, 20))
@settings(max_examples=50)
def test_arithmetic_is_that_of_integers(start: int, step: int):
    """A pointer may stand anywhere; sums, differences and comparisons are those of element numbers."""
    bench = Bench.of()
    seen: list[bool] = []

    @k.kernel
    def count(x):
        p = pointer(x)
        a, b = p + start, p + start + np.int8(step)
        seen.append(b - a == step and b - step == a and (a - p, hash(b - step)) == (start, hash(a)))
        seen.extend(op(a, b) == op(start, start + step) for op in
                    (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne))  # fmt: skip

    bench.launch(count, (1, 1), bench.empty(4, np.int32))
    assert len(seen) == 7 and all(seen)
    bench.memory.close()


@pytest.mark.slow
@every("space", SPACES, ids=str)
@every("index", [-1, 4])
def test_nothing_beside_its_memory_is_reached(bench: Bench, space: Any, index: int):
    """Reading, storing and slicing one element outside is an IllegalAddress naming thread and element."""
    said = rf"thread \(0,0,0\).*element {index} of <{space} pointer to int32.* of 16"
    fails(bench, lambda x: pointers(x)[space][index], IllegalAddress, said)
    fails(bench, lambda x: pointers(x)[space].__setitem__(index, 1), IllegalAddress, said)
    fails(bench, lambda x: pointers(x)[space][index : index + 1], IllegalAddress, said)


def test_elements_and_memory_are_views(bench: Bench):
    """`p[i:j]` and `memory()` are the elements themselves, as spans or arrays, and mdspan takes a pointer."""
    x = bench.upload(np.arange(6, dtype=np.int32))

    @k.kernel
    def use(x):
        p = pointer(x) + 1
        assert isinstance(p[1:3], k.Span) and list(p[1:3]) == [2, 3] and list(p[:2]) == [1, 2]
        assert list(p.memory()) == [1, 2, 3, 4, 5] and (p + 5).memory().shape == (0,)
        k.mdspan(p, 2, 2)[1, 0] = 99
        assert k.mdspan(Generic, p, (2, 2))[1, 0] == 99 == k.mdspan(k.Global, p, 4)[2]
        tile = k.local(4, np.int32)
        with k.dte_scope() as dte:
            k.memcpy(dte, k.mdspan(k.Local, pointer(tile).cast(np.int8), 16), k.mdspan(pointer(x).cast(np.int8), 16))
        assert list(tile) == [0, 1, 2, 99] == list(pointer(tile)[:4])

    bench.launch(use, (1, 1), x)
    assert list(x.host) == [0, 1, 2, 99, 4, 5]


def test_a_cast_shows_the_same_bytes_as_another_type(bench: Bench):
    """Reinterpretation keeps the address, whatever it is aligned to; counts are then in the new elements."""

    @k.kernel
    def use(x):
        shared = k.dynamic_shared(np.float32)
        ints, floats = pointer(shared).cast(np.int32), pointer(shared) + 3
        floats[0] = 1.0
        assert ints[3] == 0x3F800000 and ints.cast(np.uint8)[15] == 0x3F and ints.cast(np.uint16)[7] == 0x3F80
        assert floats.cast(np.int8) - ints.cast(np.int8) == 12 and (ints.cast(np.int8) + 13).cast("int16")[0] == -0x8000
        assert ints.cast(np.float32) + 3 == floats == ints + 3

    bench.launch(use, (1, 1, 64), bench.empty(4, np.int32))


def test_gcu210_reaches_named_memory_only(make_bench: Callable[..., Bench]):
    """A pointer to an argument is a raw one, which gcu210 cannot follow; one to a variable it can."""
    bench = make_bench(arch="gcu210")
    fails(bench, lambda x: pointer(x)[0], IllegalAddress, "gcu210 cannot reach global memory directly")

    @k.kernel
    def use(x):
        assert pointer(COUNTS)[3] == 3 == generic(COUNTS)[3] and k.mdspan(pointer(x), 2, 2).shape == (2, 2)

    bench.launch(use, (1, 1), bench.empty(4, np.int32))


@pytest.mark.slow
@every("to", SPACES, ids=str)
@every("of", SPACES, ids=str)
def test_conversions_of_specific_pointers(bench: Bench, of: Any, to: Any):
    """Into its own space and, but for a constant, into the generic one; never into another, which names both."""

    def convert(x):
        p = pointers(x)[of]
        q = p.cast(space=to)
        assert q.space is to and q.place == p.place and q.dtype == p.dtype

    if of is to or (to is Generic and of is not Constant) or (of, to) == (Generic, k.Global):
        bench.launch(k.kernel(lambda x: convert(x)), (1, 1), bench.empty(4, np.int32))
    elif of is Generic and to is not Constant:
        fails(bench, convert, InvalidValue, f"a generic pointer into global memory was cast to a {to} pointer")
    else:
        fails(bench, convert, InvalidType, f"a {of} pointer never becomes a {to} pointer")


@pytest.mark.slow
@every("of", [k.Global, k.Shared, k.Local, Private], ids=str)
@every("to", [k.Global, k.Shared, k.Local, Private], ids=str)
def test_a_generic_pointer_goes_back_where_it_lies(bench: Bench, of: Any, to: Any):
    """An explicit cast of a generic pointer is checked against the bytes; the error names both spaces."""

    def convert(x):
        assert generic(pointers(x)[of]).cast(np.int8, to).space is to

    if of is to:
        bench.launch(k.kernel(lambda x: convert(x)), (1, 1), bench.empty(4, np.int32))
    else:
        fails(bench, convert, InvalidValue, f"a generic pointer into {of} memory was cast to a {to} pointer")


@pytest.mark.slow
def test_generic_is_the_conversion_that_needs_no_cast(bench: Bench):
    """`generic` takes pointers and memory; pointers of which one is generic compare and subtract by it."""

    @k.kernel
    def use(x):
        row, mine = k.local(4, np.int32), private(2, np.int8)
        p = pointer(row)
        assert generic(p) == p and p == generic(row) and generic(p) + 2 - p == 2 and p < generic(row) + 1
        assert generic(mine).space is Generic and generic(mine) != p and p != pointer(x)

    bench.launch(use, (1, 1), bench.empty(4, np.int32))
    fails(bench, lambda x: generic(TABLE), InvalidType, "a constant pointer never becomes a generic pointer")


@pytest.mark.slow
def test_pointers_that_do_not_meet(bench: Bench):
    """Different spaces, memories and types, and what is no pointer, have no difference and no order."""
    tiles = lambda: (pointer(k.local(2, np.int32)), pointer(k.local(2, np.int8)))  # noqa: E731  # a kernel's two lines
    local = lambda: pointer(k.local(2, np.int32))  # noqa: E731  # as above
    fails(bench, lambda x: local() - pointer(COUNTS), InvalidType, "a local and a global pointer; neither converts")
    fails(bench, lambda x: local() == pointer(TABLE), InvalidType, "a local and a constant pointer; neither converts")
    fails(bench, lambda x: pointer(x) < pointer(TABLE), InvalidType, "a generic and a constant pointer")
    fails(bench, lambda x: pointer(x) < generic(COUNTS), InvalidValue, "into different memories")
    fails(bench, lambda x: operator.sub(*tiles()), InvalidType, "pointers to one element type")
    fails(bench, lambda x: (pointer(x).cast("int8") + 1).cast("int32") - pointer(x), InvalidValue, "no whole number")
    fails(bench, lambda x: pointer(x) < 3, InvalidType, "the order expects two pointers")
    fails(bench, lambda x: pointer(x) + 1.5, InvalidType, "expects a whole number of elements, got 1.5")
    fails(bench, lambda x: pointer(x)["a"], InvalidType, "expects a whole number of elements, got 'a'")
    fails(bench, lambda x: pointer(x)[:], InvalidValue, "has no end")
    fails(bench, lambda x: pointer(x)[0:4:2], InvalidValue, "has no end")
    fails(bench, lambda x: pointer(x).cast(space="local"), InvalidType, "another memory space, got 'local'")
    fails(bench, lambda x: pointer(x).cast("float33"), InvalidType, "float33")
    fails(bench, lambda x: pointer(TABLE).__setitem__(0, 1), IllegalAddress, "store through <constant")


@pytest.mark.slow
def test_what_no_pointer_points_to(bench: Bench):
    """Numbers, arrays of no thread and memory with gaps have no pointer."""
    fails(bench, lambda x: pointer(3), InvalidType, "a pointer expects a span, a variable or an array of .*, got 3")
    fails(bench, lambda x: pointer(x[0]), InvalidType, "got np.int32")
    fails(bench, lambda x: pointer(np.zeros(3)), IllegalAddress, "outside this thread's memories")
    fails(bench, lambda x: pointer(k.local((4, 4), np.int8)[:, :2]), InvalidValue, r"shape \(4, 2\) with gaps")
    fails(bench, lambda x: pointer(x[::2]), InvalidValue, "with gaps")


@pytest.mark.slow
def test_another_threads_memory_is_out_of_reach(bench: Bench):
    """A pointer into L1 or a stack that another thread made is a fault; one into the block's L2 is not."""
    made: dict[str, Pointer] = {}

    async def use(what):
        own = {"local": k.local(1, np.int32), "private": private(1, np.int32), "shared": k.shared(1, np.int32)}
        if k.threadIdx.x == 0:
            made[what] = pointer(own[what])
        await k.syncthreads()
        made[what][0] = 1

    def bound(what):
        async def run():
            await use(what)

        return k.kernel(run)

    kernels = {what: bound(what) for what in ("local", "private", "shared")}
    for what in ("local", "private"):
        with pytest.raises(LaunchFailure, match=r"thread \(1,0,0\).*a pointer's access of an array outside") as caught:
            bench.launch(kernels[what], (1, 2))
        assert isinstance(caught.value.__cause__, IllegalAddress)
    bench.launch(kernels["shared"], (1, 2))


def test_the_tree_of_spaces():
    """Every space but the constant one lies below the generic one, and below nothing else but itself."""
    for space in SPACES:
        assert {parent for parent in SPACES if is_below(space, parent)} == {space} | (
            {Generic} if space is not Constant else set()
        )
    assert common_space(k.Local, Generic) is Generic is common_space(Generic, Private)
    assert common_space(k.Local, k.Shared) is None is common_space(Constant, Generic)
    assert common_space(Constant, Constant) is Constant
