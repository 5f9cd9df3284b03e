"""topsMemoryReduceAsync (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest

import atops.tops as tops
from atops.base.trace.records import Kind
from tests.every import every
from tests.runtime.boards import PATIENCE, Latch, broken, settle
from tests.tops.conformance import Case, Conformance

INVALID = tops.topsErrorInvalidValue
DTYPES = {
    tops.INT8: np.int8, tops.UINT8: np.uint8, tops.INT32: np.int32, tops.UINT32: np.uint32, tops.INT64: np.int64,
    tops.UINT64: np.uint64, tops.FLOAT16: np.float16, tops.FLOAT32: np.float32, tops.LFLOAT64: np.float64,
    tops.BFLOAT16: ml_dtypes.bfloat16,
}  # fmt: skip
# What two elements make, in Python's own numbers.
OPERATIONS = {
    tops.REDUCE_SUM: lambda a, b: a + b,
    tops.REDUCE_PROD: lambda a, b: a * b,
    tops.REDUCE_MAX: max,
    tops.REDUCE_MIN: min,
}


def three(*more, count=16, stream=None):
    """Return arguments with three pointers to 64 bytes each; `more` stands in for op, dtype."""

    def make(world):
        pointers = [tops.check(tops.topsMalloc(64)) for _ in range(3)]
        return (*pointers, *(more or (tops.REDUCE_SUM, tops.FLOAT32)), count, stream and stream(world))

    return make


def apart(lhs, rhs, result):
    """Return arguments whose pointers are so many bytes into one allocation of 256."""

    def make(world):
        base = tops.check(tops.topsMalloc(256))
        return (base + lhs, base + rhs, base + result, tops.REDUCE_SUM, tops.FLOAT32, 16, None)

    return make


def elsewhere(which):
    """Return arguments of which one pointer is on device 1."""

    def make(world):
        arguments = list(three()(world))
        array = world.second.empty(64, "uint8")
        world.keep.append(array)
        arguments[which] = array.address
        return tuple(arguments)

    return make


def poisoned(world):
    """Return a stream that has failed."""
    stream = world.device.create_stream()
    stream.launch(broken, (1, 1))
    settle(world.driver)
    return stream


class TestReduce(Conformance):
    """The one function, by its rows."""

    good: ClassVar = {"topsMemoryReduceAsync": three()}
    bad = tuple(
        Case("topsMemoryReduceAsync", *row)
        for row in (
            ("unknown op", three(tops.REDUCE_UNKNOW, tops.FLOAT32), INVALID),
            ("unknown type", three(tops.REDUCE_SUM, tops.UNKNOW), INVALID),
            ("no op", three(5, tops.FLOAT32), INVALID),
            ("no type", three(tops.REDUCE_SUM, -1), INVALID),
            ("too many elements", three(count=17), INVALID),
            ("a negative count", three(count=-1), INVALID),
            ("a count of 33 bits", three(count=1 << 32), INVALID),
            ("lhs elsewhere", elsewhere(0), INVALID),
            ("rhs elsewhere", elsewhere(1), INVALID),
            ("result elsewhere", elsewhere(2), INVALID),
            ("result over the end of lhs", apart(0, 128, 60), INVALID),
            ("result over the beginning of rhs", apart(192, 64, 4), INVALID),
            ("no stream", three(stream=lambda world: 4711), tops.topsErrorInvalidHandle),
            ("poisoned", three(stream=poisoned), tops.topsErrorLaunchFailure),
        )
    )


def reduced(world, lhs, rhs, op, dtype, *, into=None):
    """Return what the function makes of two numpy arrays; `into` 0 or 1 puts it in place of lhs or rhs."""
    stream = world.device.create_stream()
    arrays = [stream.upload(lhs), stream.upload(rhs), stream.empty(lhs.shape, lhs.dtype)]
    result = arrays[2 if into is None else into]
    tops.check(
        tops.topsMemoryReduceAsync(
            arrays[0].address, arrays[1].address, result.address, op, dtype, lhs.size, stream
        )
    )
    return stream.fetch(result).wait_sync(PATIENCE)


@every("op", OPERATIONS)
@every("dtype", DTYPES)
def test_every_type_and_operation(world, op, dtype):
    """Each element is what Python's numbers say, wrapped to the type's width where it has one."""
    kind = np.dtype(DTYPES[dtype])
    rng = np.random.default_rng(7)
    lhs, rhs = (rng.integers(0, 120, 100).astype(kind) for _ in range(2))
    found = reduced(world, lhs, rhs, op, dtype)
    exact = [OPERATIONS[op](int(a), int(b)) for a, b in zip(lhs.tolist(), rhs.tolist(), strict=True)]
    if kind.kind in "iu":
        exact = [value % (1 << 8 * kind.itemsize) for value in exact]
        assert [int(value) % (1 << 8 * kind.itemsize) for value in found] == exact
    else:
        assert (found == np.array(exact, np.float64).astype(np.float32).astype(kind)).all()


def test_narrow_floats_are_rounded_once(world):
    """A product that needs more than half's 11 bits is the nearest half to the exact product."""
    lhs, rhs = np.array([1.0009765625, 2049 - 1], np.float16), np.array([1.0009765625, 3], np.float16)
    exact = lhs.astype(np.float64) * rhs.astype(np.float64)
    assert (reduced(world, lhs, rhs, tops.REDUCE_PROD, tops.HALF) == exact.astype(np.float16)).all()


@pytest.mark.parametrize("op", [tops.REDUCE_MAX, tops.REDUCE_MIN])
@pytest.mark.parametrize("dtype", [tops.FLOAT16, tops.BFLOAT16, tops.FLOAT32, tops.DOUBLE])
def test_maximum_and_minimum_propagate_nan(world, op, dtype):
    """A NaN on either side is the result."""
    nan = np.nan
    lhs = np.array([nan, 1, nan, 2], DTYPES[dtype])
    rhs = np.array([1, nan, nan, 3], DTYPES[dtype])
    found = reduced(world, lhs, rhs, op, dtype).astype(np.float64)
    assert np.isnan(found[:3]).all()
    assert found[3] == OPERATIONS[op](2, 3)


def test_overflow_is_silent(world):
    """What a float does not hold is infinite, and nothing warns."""
    big = np.full(4, 60000, np.float16)
    assert np.isinf(reduced(world, big, big, tops.REDUCE_SUM, tops.FLOAT16)).all()


@pytest.mark.parametrize("into", [0, 1])
@pytest.mark.parametrize("size", [1000, 1 << 19])
def test_in_place(world, into, size):
    """The result may be lhs or rhs itself, small or on a copy thread."""
    lhs, rhs = np.arange(size, dtype=np.int32), np.full(size, 3, np.int32)
    assert (reduced(world, lhs, rhs, tops.REDUCE_PROD, tops.INT, into=into) == 3 * lhs).all()


def test_unaligned_pointers_and_neighbours(world):
    """Any address will do, and the bytes around the result stay."""
    stream = world.device.create_stream()
    block = stream.upload(np.arange(64, dtype=np.uint8))
    before = np.arange(64, dtype=np.uint8)
    tops.check(
        tops.topsMemoryReduceAsync(
            block.address + 1, block.address + 9, block.address + 33, tops.REDUCE_SUM, tops.UINT32, 2, stream
        )
    )
    after = stream.fetch(block).wait_sync(PATIENCE)
    expected = before[1:9].copy().view(np.uint32) + before[9:17].copy().view(np.uint32)
    assert (after[33:41].copy().view(np.uint32) == expected).all()
    assert (np.delete(after, range(33, 41)) == np.delete(before, range(33, 41))).all()


def test_it_runs_in_the_order_of_its_stream(world):
    """The call returns before earlier work is over, and later work sees the result."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    one, other = stream.zeros(4, "int32"), stream.zeros(4, "int32")
    latch.hold(stream)
    stream.fill(one, 2)
    stream.fill(other, 5)
    add = (one.address, other.address, one.address, tops.REDUCE_SUM, tops.INT32, 4, stream)
    assert tops.topsMemoryReduceAsync(*add) == (tops.topsSuccess,)
    fetched = stream.fetch(one)
    assert not fetched.done()
    latch.open()
    assert (fetched.wait_sync(PATIENCE) == 7).all()


def test_memory_that_is_freed_first_poisons_the_stream(world):
    """What only the running command can see is IllegalAddress on its stream."""
    latch = Latch(world.device)
    stream = world.device.create_stream(nonblocking=True)
    arrays = [world.device.empty(4, "int32") for _ in range(3)]
    latch.hold(stream)
    tops.check(
        tops.topsMemoryReduceAsync(*(each.address for each in arrays), tops.REDUCE_SUM, tops.INT32, 4, stream)
    )
    world.device.context.memory.free(arrays[0].allocation)
    latch.open()
    settle(world.driver)
    assert tops.topsStreamSynchronize(stream) == (tops.topsErrorIllegalAddress,)


def test_a_value_wait_notices_the_result(world):
    """A wait for a word that the reduction stores ends."""
    stream, waiting = (world.device.create_stream(nonblocking=True) for _ in range(2))
    word = stream.zeros(1, "uint32")
    one = stream.upload(np.array([5], np.uint32))
    stream.sync(PATIENCE)
    wait = waiting.wait_value(word, 5, "Eq")
    tops.check(
        tops.topsMemoryReduceAsync(word.address, one.address, word.address, tops.REDUCE_SUM, tops.UINT32, 1, stream)
    )
    wait.wait_sync(PATIENCE)


def test_the_trace_names_it(world):
    """Its record is that of device work, called by operation and type."""
    reduced(world, np.ones(4, np.float32), np.ones(4, np.float32), tops.REDUCE_SUM, tops.FLOAT32)
    records = [each for each in world.driver.tracer.snapshot().records if each.name == "reduce sum float32"]
    assert [(each.kind, each.bytes, each.device) for each in records] == [(Kind.LAUNCH, 16, 0)]
