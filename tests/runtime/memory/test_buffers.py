"""Buffers and the verbs that take them: what is wrong is said at the call, by name, and changes nothing."""

from __future__ import annotations

import array as standard_array
import copy
import gc
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from atops import kernels as k
from atops.base.dtypes import as_dtype
from atops.base.errors import (
    IllegalAddress,
    InvalidHandle,
    InvalidType,
    InvalidValue,
    NotExportable,
    OutOfMemory,
    StreamFull,
)
from atops.runtime.device import Device
from atops.runtime.driver import Driver, board_of
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.stream import Stream, queue_of
from tests.every import every
from tests.runtime.boards import PATIENCE, Latch, board, leftovers, settle
from tests.runtime.hosts import on_every_host

Calls = Callable[[Stream, DeviceArray], Any]


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A board on which nothing may be left."""
    with board(devices=2) as made:
        yield made
        assert leftovers(made) == {}


@pytest.fixture
def stream(driver: Driver) -> Iterator[Stream]:
    """A stream of it."""
    made = Device(0, driver).create_stream()
    yield made
    made.close()


@pytest.fixture
def array(stream: Stream) -> DeviceArray:
    """A matrix of 6 x 4 int32 that counts from 0."""
    made = stream.upload(np.arange(24, dtype=np.int32).reshape(6, 4))
    stream.sync(PATIENCE)
    return made


class Unreadable:
    """An object that no copy can use."""


class Elsewhere:
    """Another library's array on a device of its own."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("on another device")


class Shared:
    """Another library's array in host memory, which knows DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)


def masked() -> Any:
    """Return an array with a mask."""
    return np.ma.masked_equal(np.arange(24, dtype=np.int32).reshape(6, 4), 3)


BAD_CALLS: dict[str, tuple[Calls, type[Exception], str]] = {
    "copy from nothing": (lambda s, a: s.copy(a, None), InvalidType, "source is NoneType"),
    "copy to nothing": (lambda s, a: s.copy(None, a), InvalidType, "destination is NoneType"),
    "copy from a list": (lambda s, a: s.copy(a, [1, 2]), InvalidType, "source is list"),
    "copy from an object": (lambda s, a: s.copy(a, Unreadable()), InvalidType, "Unreadable"),
    "copy to bytes": (lambda s, a: s.copy(bytes(96), a), InvalidValue, "read-only"),
    "copy to a frozen array": (lambda s, a: s.copy(frozen(24), a), InvalidValue, "read-only"),
    "copy of other sizes": (lambda s, a: s.copy(a, np.zeros(23, np.int32)), InvalidValue, "92 bytes.*96"),
    "copy of too much": (lambda s, a: s.copy(a, np.zeros(24, np.int32), 97), InvalidValue, "97"),
    "copy of a negative size": (lambda s, a: s.copy(a, np.zeros(24, np.int32), -1), InvalidValue, "-1"),
    "copy of other types": (lambda s, a: s.copy(a, np.zeros((6, 4), np.float32)), InvalidType, r"\.astype\('int32'\)"),
    "copy of wider types": (lambda s, a: s.copy(a, np.zeros((6, 4))), InvalidType, r"float64.*\.astype\('int32'\)"),
    "copy of another byte order": (lambda s, a: s.copy(a, np.zeros((6, 4), ">i4")), InvalidType, r">i4.*astype"),
    "copy of another shape": (lambda s, a: s.copy(a, np.zeros((4, 6), np.int32)), InvalidValue, r"\(4, 6\).*\(6, 4\)"),
    "copy to another shape": (lambda s, a: s.copy(np.zeros(24, np.int32), a), InvalidValue, r"\(6, 4\).*\(24,\)"),
    "copy of another device shape": (lambda s, a: s.copy(a, a.reshape(4, 6)), InvalidValue, r"reshape"),
    "copy of True bytes": (lambda s, a: s.copy(a, np.zeros((6, 4), np.int32), nbytes=True), InvalidType, "True bytes"),
    "copy of a masked array": (lambda s, a: s.copy(a, masked()), InvalidType, r"masked.*\.filled"),
    "copy to a masked array": (lambda s, a: s.copy(masked(), a), InvalidType, r"masked.*\.filled"),
    "upload of a masked array": (lambda s, a: s.upload(masked()), InvalidType, r"masked.*\.filled"),
    "upload of another byte order": (lambda s, a: s.upload(np.zeros(3, ">f4")), InvalidType, r"\.astype\('float32'\)"),
    "upload of a str": (lambda s, a: s.upload("text"), InvalidType, r"'text'; \.encode\(\)"),
    "upload of device memory": (lambda s, a: s.upload(a), InvalidType, "empty_like"),
    "upload of what DLPack cannot give": (lambda s, a: s.upload(Elsewhere()), InvalidType, "Elsewhere.*on another"),
    "copy from what DLPack cannot give": (lambda s, a: s.copy(a, Elsewhere()), InvalidType, "Elsewhere.*on another"),
    "an item": (lambda s, a: a.__setitem__(0, 1), InvalidType, r"stream\.copy.*stream\.fill"),
    "a byte": (lambda s, a: Buffer(a.allocation).__setitem__(0, 1), InvalidType, r"stream\.copy"),
    "DLPack of device memory": (lambda s, a: np.from_dlpack(a), NotExportable, r"stream\.fetch"),
    "allocate True": (lambda s, a: s.allocate(True), InvalidValue, "True"),
    "empty of shape True": (lambda s, a: s.empty(True), InvalidType, "True"),
    "fill of True elements": (lambda s, a: s.fill(a, 0, count=True), InvalidType, "True"),
    "copy of a scattered array": (lambda s, a: s.copy(a, np.zeros((24, 2), np.int32)[:, 0]), InvalidType, "contiguous"),
    "copy to a scattered array": (lambda s, a: s.copy(np.zeros((24, 2), np.int32)[:, 0], a), InvalidType, "contiguous"),
    "copy of objects": (lambda s, a: s.copy(a, np.array([None] * 12)), InvalidType, "Python objects"),
    "copy onto itself": (lambda s, a: s.copy(a[1:], a[:-1]), InvalidValue, "overlap"),
    "fill with a word": (lambda s, a: s.fill(a, "7"), InvalidType, "'7'"),
    "fill with a list": (lambda s, a: s.fill(a, [1, 2]), InvalidType, r"\[1, 2\]"),
    "fill with nothing": (lambda s, a: s.fill(a, None), InvalidType, "None"),
    "fill beyond the type": (lambda s, a: s.fill(a, 1 << 31), InvalidValue, "int32"),
    "fill with a fraction": (lambda s, a: s.fill(a, 1.5), InvalidValue, "1.5.*int32"),
    "fill with infinity": (lambda s, a: s.fill(a, float("inf")), InvalidValue, "inf.*int32"),
    "fill with no number": (lambda s, a: s.fill(a, np.float32("nan")), InvalidValue, "nan.*int32"),
    "fill with a complex number": (lambda s, a: s.fill(a, 1j), InvalidValue, "1j.*int32"),
    "fill too much": (lambda s, a: s.fill(a, 1, count=25), InvalidValue, "25"),
    "fill less than nothing": (lambda s, a: s.fill(a, 1, count=-1), InvalidValue, "-1"),
    "fill of a host array": (lambda s, a: s.fill(np.zeros(4), 1), InvalidType, "ndarray"),
    "fill of nothing": (lambda s, a: s.fill(None, 1), InvalidType, "NoneType"),
    "fill bytes with a big number": (lambda s, a: s.fill(Buffer(a.allocation), 256), InvalidValue, "0 to 255"),
    "fill with three bytes": (lambda s, a: s.fill(Buffer(a.allocation), b"abc"), InvalidValue, "3 bytes"),
    "fetch of a host array": (lambda s, a: s.fetch(np.zeros(4)), InvalidType, "ndarray"),
    "fetch of nothing": (lambda s, a: s.fetch(None), InvalidType, "NoneType"),
    "upload of objects": (lambda s, a: s.upload([object()]), (InvalidType, InvalidValue), "object"),
    "allocate a negative size": (lambda s, a: s.allocate(-1), InvalidValue, "-1"),
    "allocate a fraction": (lambda s, a: s.allocate(1.5), (InvalidType, InvalidValue, TypeError), "1.5|float"),
    "allocate more than there is": (lambda s, a: s.allocate(1 << 50), OutOfMemory, "largest"),
    "empty of a negative shape": (lambda s, a: s.empty((2, -1)), InvalidValue, "-1"),
    "empty of an unknown type": (lambda s, a: s.empty(5, "quaternion"), (InvalidType, InvalidValue), "quaternion"),
    "empty of objects": (lambda s, a: s.empty(5, object), (InvalidType, InvalidValue), "object"),
    "free of a slice": (lambda s, a: s.free(a[1:]), InvalidHandle, "owns no memory"),
    "free of a host array": (lambda s, a: s.free(np.zeros(3)), InvalidType, "ndarray"),
    "wait for a value of nothing": (lambda s, a: s.wait_value(None, 1), InvalidType, "NoneType"),
    "wait for a word": (lambda s, a: s.wait_value(a, "one"), InvalidType, "'one'"),
    "wait for a wide value": (lambda s, a: s.wait_value(a, 1 << 32), InvalidValue, "32 bits"),
    "wait with a width of 16": (lambda s, a: s.wait_value(a, 1, width=16), InvalidValue, "16"),
    "wait with a condition": (lambda s, a: s.wait_value(a, 1, "Greater"), InvalidValue, "Gte"),
    "wait at an odd address": (lambda s, a: s.wait_value(odd(a, 1), 1), InvalidValue, "aligned"),
    "wait at a 4-byte address": (lambda s, a: s.wait_value(odd(a, 4), 1, width=64), InvalidValue, "aligned"),
    "wait in two bytes": (lambda s, a: s.wait_value(Buffer(a.allocation, 0, 2), 1), InvalidValue, "2 bytes"),
    "write a wide value": (lambda s, a: s.write_value(a, 1 << 32), InvalidValue, "32 bits"),
    "write a fraction": (lambda s, a: s.write_value(a, 0.5), InvalidType, "0.5"),
    "write at an odd address": (lambda s, a: s.write_value(odd(a, 2), 1), InvalidValue, "aligned"),
    "record of a stream": (lambda s, a: s.record(s), InvalidType, "Event"),
    "wait for a number": (lambda s, a: s.wait(7), InvalidType, "Event"),
    "call of a number": (lambda s, a: s.call(7), InvalidType, "7"),
    "room in a stream without capacity": (lambda s, a: s.room(1), Exception, "capacity"),
}


def frozen(size: int) -> Any:
    """Return an array that must not be written."""
    made = np.zeros(size, np.int32)
    made.flags.writeable = False
    return made


def odd(array: DeviceArray, offset: int) -> Buffer:
    """Return the bytes of an array from an offset on."""
    return Buffer(array.allocation, offset, array.nbytes - offset)


@every("call", BAD_CALLS)
def test_bad_arguments(stream: Stream, array: DeviceArray, call: str) -> None:
    """Each is refused at the call with a message that names it; nothing was enqueued and nothing has changed."""
    make, error, why = BAD_CALLS[call]
    before = board_of(stream.driver).seq
    with pytest.raises(error, match=why):
        make(stream, array)
    assert board_of(stream.driver).seq == before
    stream.sync(PATIENCE)
    assert (stream.fetch(array).wait_sync(PATIENCE) == np.arange(24).reshape(6, 4)).all()


@k.kernel
def untouched(x: Any) -> None:
    """Do nothing."""


USES: dict[str, Calls] = {
    "copy to it": lambda s, a: s.copy(a, np.zeros((6, 4), np.int32)),
    "copy from it": lambda s, a: s.copy(np.zeros((6, 4), np.int32), a),
    "launch": lambda s, a: s.launch(untouched, (1, 1), a),
    "launch with a name": lambda s, a: s.launch(untouched, (1, 1), x=a[1:]),
    "fill": lambda s, a: s.fill(a, 0),
    "fetch": lambda s, a: s.fetch(a),
    "fetch a slice": lambda s, a: s.fetch(a[1:]),
    "fetch a view": lambda s, a: s.fetch(a.view(np.uint8)),
    "wait for a value": lambda s, a: s.wait_value(a, 0),
    "write a value": lambda s, a: s.write_value(a, 0),
}


@pytest.mark.parametrize("use", USES)
def test_memory_that_was_freed(stream: Stream, array: DeviceArray, use: str) -> None:
    """It is refused at the call and says what freed it, though its bytes have another owner by now."""
    part = array[0:2]
    stream.free(array)
    stream.sync(PATIENCE)
    successor = stream.zeros(24, "int32")
    assert successor.address == array.address
    with pytest.raises(IllegalAddress, match="freed"):
        USES[use](stream, array)
    with pytest.raises(IllegalAddress, match="freed"):
        stream.fetch(part)
    assert (stream.fetch(successor).wait_sync(PATIENCE) == 0).all()


def test_memory_of_no_stream_waits_for_the_stream_that_frees_it(driver: Driver) -> None:
    """And for what that one was to wait for and did not: for both."""
    device = Device(0, driver)
    stream, other, mine, theirs = device.create_stream(), device.create_stream(), Latch(device), Latch(device)
    theirs.hold(other)
    stream.wait(other.record())
    stream.abort()
    mine.hold(stream)
    buffer = device.allocate(64)
    filled = stream.fill(buffer, 1)
    stream.free(buffer)
    theirs.open()
    other.sync(PATIENCE)
    other.record().sync(PATIENCE)  # what the end of the one before has posted is done
    assert buffer.allocation.alive
    mine.open()
    filled.wait_sync(PATIENCE)
    settle(driver)
    assert not buffer.allocation.alive
    for each in (mine, theirs, stream, other):
        each.close()


@pytest.mark.parametrize("first", [0, 1, 2])
def test_memory_of_no_stream_outlives_the_work_of_all(driver: Driver, first: int) -> None:
    """Closed while three streams are busy, one of another device, it is given back when the last of them is done."""
    streams = [Device(at, driver).create_stream() for at in (0, 0, 1)]
    latches = [Latch(each.device) for each in streams]
    for latch, each in zip(latches, streams, strict=True):
        latch.hold(each)
    buffer = Device(0, driver).allocate(64)
    allocation = buffer.allocation
    buffer.close()
    for at in (first, (first + 1) % 3):
        latches[at].open()
        streams[at].sync(PATIENCE)
        assert allocation.alive
    latches[(first + 2) % 3].open()
    settle(driver)
    assert not allocation.alive
    for each in (*latches, *streams):
        each.close()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("free", [Stream.free, lambda stream, array: array.close()], ids=["free", "close"])
def test_memory_whose_free_is_enqueued(stream: Stream, array: DeviceArray, free: Calls, use: str) -> None:
    """It is refused at the call, however far the stream is; work enqueued before has it."""
    latch, part = Latch(Device(0, stream.driver)), array[0:2]
    latch.hold(stream)
    fetched = stream.fetch(array)
    free(stream, array)
    before = board_of(stream.driver).seq
    for each in (array, part):
        with pytest.raises(IllegalAddress, match="freed by"):
            USES[use](stream, each if use.startswith(("launch", "fetch", "fill", "w")) else array)
    assert board_of(stream.driver).seq == before
    latch.open()
    assert (fetched.wait_sync(PATIENCE) == np.arange(24).reshape(6, 4)).all()
    stream.sync(PATIENCE)
    latch.close()


@pytest.mark.parametrize("use", USES)
def test_memory_that_is_freed_before_its_turn(stream: Stream, array: DeviceArray, use: str) -> None:
    """What was alive at the call and is freed by another stream before its turn fails then, and poisons its stream."""
    device = Device(0, stream.driver)
    latch, other = Latch(device), device.create_stream()
    latch.hold(stream)
    completion = USES[use](stream, array)
    other.free(array)
    other.sync(PATIENCE)
    latch.open()
    with pytest.raises(IllegalAddress, match="freed"):
        completion.wait_sync(PATIENCE)
    with pytest.raises(IllegalAddress):
        stream.sync(PATIENCE)
    stream.clear_error()
    latch.close()


def test_freeing_twice(stream: Stream, array: DeviceArray) -> None:
    """The second free is an error; `close` is not, however often."""
    stream.free(array)
    with pytest.raises(InvalidHandle, match="freed already"):
        stream.free(array)
    array.close()
    other = stream.zeros(5)
    other.close()
    other.close()
    with pytest.raises(InvalidHandle):
        stream.free(other)


def test_slices(stream: Stream, array: DeviceArray) -> None:
    """Parts along the first dimension share the bytes, clipped as numpy's; what is not contiguous is refused."""
    assert stream.fetch(array[2]).wait_sync(PATIENCE).tolist() == [8, 9, 10, 11]
    assert stream.fetch(array[-1][1:3]).wait_sync(PATIENCE).tolist() == [21, 22]
    assert stream.fetch(array[1:3]).wait_sync(PATIENCE).tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert array[3:3].nbytes == 0
    assert stream.fetch(array[3:3]).wait_sync(PATIENCE).shape == (0, 4)
    assert (len(array), array.size, array.ndim, array.device_id) == (6, 24, 2, 0)
    for index, error in (
        (6, IndexError), (-7, IndexError), (99, InvalidValue), (slice(0, 6, 2), InvalidValue), (True, InvalidType),
        ((1, 2), InvalidType), ("a", InvalidType), (1.0, InvalidType), (None, InvalidType),
    ):  # fmt: skip
        with pytest.raises(error):
            array[index]
    flat, host = Buffer(array.allocation), np.arange(24, dtype=np.int32).reshape(6, 4)
    assert flat[4:8].nbytes == 4
    for start, stop in itertools.product((None, -100, -7, -2, 0, 3, 6, 100), repeat=2):
        part = slice(start, stop)
        assert (stream.fetch(array[part]).wait_sync(PATIENCE) == host[part]).all()
        assert stream.fetch(array[part]).wait_sync(PATIENCE).shape == host[part].shape
        assert flat[part].nbytes == len(range(*part.indices(96)))
    with pytest.raises(InvalidValue):
        flat[0:8:2]
    with pytest.raises(IndexError):
        array[0][0][0]


def test_a_block_gives_memory_back(stream: Stream) -> None:
    """`with` and `async with` close a buffer at the end of the block, also when it ends by an error."""
    with stream.allocate(64) as buffer, pytest.raises(KeyError), stream.zeros(4) as array:
        assert buffer.is_live and array.is_live
        raise KeyError
    stream.sync(PATIENCE)
    assert not buffer.is_live and not array.is_live and queue_of(stream).owned == {}


def test_uploads(stream: Stream) -> None:
    """Bytes are bytes, whatever they hold; buffers and what has DLPack keep type and shape."""
    grid = np.arange(6, dtype=np.int16).reshape(2, 3)
    for given, expected in (
        (b"hello\0\0", np.frombuffer(b"hello\0\0", np.uint8)),
        (bytearray(b"\0"), np.zeros(1, np.uint8)),
        (b"", np.empty(0, np.uint8)),
        (memoryview(grid), grid),
        (array_of_words(), np.array([1, 2, 3], np.int32)),
        (Shared(grid), grid),
        (grid.T, grid.T),
        (np.float32(2), np.float32(2)),
        ([1.5, 2.5], np.array([1.5, 2.5])),
    ):
        array = stream.upload(given)
        found = stream.fetch(array).wait_sync(PATIENCE)
        assert (found.dtype, found.shape) == (np.asarray(expected).dtype, np.shape(expected))
        assert (found == expected).all()
        array.close()


def array_of_words() -> Any:
    """Return the standard library's array, a buffer."""
    return standard_array.array("i", [1, 2, 3])


def test_copies_with_another_library(stream: Stream) -> None:
    """Its arrays are both ends of copies, with their type and shape."""
    there, device = np.arange(6, dtype=np.int16).reshape(2, 3), stream.zeros((2, 3), np.int16)
    stream.copy(device, Shared(there))
    assert (stream.fetch(device).wait_sync(PATIENCE) == there).all()
    with pytest.raises(InvalidValue, match="shape"):
        stream.copy(device, Shared(there.T.copy()))
    stream.copy(stream.zeros((1, 2, 3), np.int16), Shared(there)).wait_sync(PATIENCE)  # as numpy assigns


def test_views(stream: Stream, array: DeviceArray) -> None:
    """The same bytes as another type or shape, if they fit."""
    host = np.arange(24, dtype=np.int32).reshape(6, 4)
    for dtype in (np.int8, np.int16, np.uint32, np.float32, np.int64, np.complex128, "bfloat16"):
        viewed = stream.fetch(array.view(dtype)).wait_sync(PATIENCE)
        as_numpy = host.view(as_dtype(dtype))
        assert (viewed.dtype, viewed.shape) == (as_numpy.dtype, as_numpy.shape)
        assert viewed.tobytes() == as_numpy.tobytes()
    assert Buffer(array.allocation).view(np.int32).shape == (24,)
    assert stream.zeros((), np.int32).view(np.float32).shape == ()
    assert array.reshape(2, 12).shape == (2, 12)
    assert array.view(np.int32, (4, 6)).shape == (4, 6)
    for wrong in (
        lambda: array.reshape(5, 5),
        lambda: array.view(np.int32, (5, 5)),
        lambda: array[0].view(np.complex128, 2),
        lambda: stream.empty(3, "uint8").view(np.int16),
        lambda: stream.empty((4, 3), np.int16).view(np.int32),
        lambda: stream.empty((), np.int32).view(np.int16),
    ):
        with pytest.raises(InvalidValue):
            wrong()


@every(
    "dtype",
    ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "bfloat16"],
)
def test_types_and_their_fills(stream: Stream, dtype: str) -> None:
    """Each element type goes up, is filled and comes down as it is."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    host = np.arange(10).astype(kind)
    assert (stream.fetch(stream.upload(host)).wait_sync(PATIENCE) == host).all()
    filled = stream.empty(7, kind)
    stream.fill(filled, 3)
    found = stream.fetch(filled).wait_sync(PATIENCE)
    assert found.dtype == kind
    assert (found == np.array(3).astype(kind)).all()


def test_what_can_be_copied(stream: Stream) -> None:
    """Anything with the buffer protocol, scalars and empty things."""
    target = stream.empty(8, "uint8")
    for source in (b"abcdefgh", bytearray(b"abcdefgh"), memoryview(b"abcdefgh"), np.frombuffer(b"abcdefgh", np.uint8)):
        stream.fill(target, 0)
        stream.copy(target, source)
        assert bytes(stream.fetch(target).wait_sync(PATIENCE)) == b"abcdefgh"
    into = bytearray(8)
    stream.copy(into, target).wait_sync(PATIENCE)
    assert into == b"abcdefgh"
    scalar = stream.upload(3.5)
    assert scalar.shape == ()
    assert stream.fetch(scalar).wait_sync(PATIENCE) == 3.5
    empty = stream.empty(0)
    stream.copy(empty, np.zeros(0, np.float32))
    assert stream.fetch(empty).wait_sync(PATIENCE).size == 0
    stream.fill(empty, 0)
    host = bytearray(4)
    stream.copy(host, b"wxyz").wait_sync(PATIENCE)
    assert host == b"wxyz"


@pytest.mark.slow
def test_the_source_is_taken_or_held(stream: Stream) -> None:
    """A short source may change after the call; a long one is kept alive until it was copied."""
    device = Device(0, stream.driver)
    latch = Latch(device)
    latch.hold(stream)
    short, long = np.full(1000, 1, np.uint8), np.full(1 << 18, 2, np.uint8)
    one, two = stream.empty(short.shape, "uint8"), stream.empty(long.shape, "uint8")
    stream.copy(one, short)
    stream.copy(two, long)
    short[:] = 9
    del long
    gc.collect()
    latch.open()
    assert (stream.fetch(one).wait_sync(PATIENCE) == 1).all()
    assert (stream.fetch(two).wait_sync(PATIENCE) == 2).all()
    latch.close()


def test_out_of_memory_changes_nothing(driver: Driver) -> None:
    """A device that is full says how full; what was freed can be had again, also when a stream still has to free it."""
    device = Device(0, driver)
    stream = device.create_stream()
    total = device.memory_info()[1]
    half = total // device.arch.banks * (device.arch.banks // 2)
    first, second = stream.allocate(half), stream.allocate(half)
    for _ in range(3):
        with pytest.raises(OutOfMemory) as full:
            stream.allocate(1 << 20)
        assert isinstance(full.value, MemoryError)
    second.close()
    again = stream.allocate(half)
    with pytest.raises(OutOfMemory):
        device.allocate(1 << 20)
    again.close()
    first.close()
    settle(driver)
    assert stream.allocate(half).nbytes == half
    stream.close()


def test_a_full_stream_takes_nothing(driver: Driver) -> None:
    """On a stream that is full every verb says so, and what it had begun to make is given back."""
    device = Device(0, driver)
    latch = Latch(device)
    array = device.empty(24, "int32")
    stream = device.create_stream(capacity=1)
    latch.hold(stream)
    for call in (
        lambda: stream.fill(array, 0), lambda: stream.zeros(5), lambda: stream.empty(5), lambda: stream.fetch(array),
        lambda: stream.upload(np.zeros(5)), lambda: stream.record(), lambda: stream.call(print),
    ):  # fmt: skip
        with pytest.raises(StreamFull):
            call()
    assert stream.statistics().pending + stream.statistics().running == 1
    latch.open()
    stream.sync(PATIENCE)
    array.close()
    latch.close()
    stream.close()


@pytest.mark.parametrize("option", [{"priority": 1}, {"priority": -3}, {"priority": "high"}, {"capacity": 0},
                                    {"capacity": 1.5}, {"cluster_mask": 0}, {"cluster_mask": 4}, {"sip_mask": 0},
                                    {"sip_mask": 1 << 12}])  # fmt: skip
def test_bad_stream_options(driver: Driver, option: dict[str, Any]) -> None:
    """Each is refused, naming the option."""
    with pytest.raises(InvalidValue, match=next(iter(option))):
        Device(0, driver).create_stream(**option)


MISTYPED: dict[str, tuple[Calls, str]] = {
    "a copy of 1.5 bytes": (lambda stream, x: stream.copy(x, x.view(), nbytes=1.5), "1.5 bytes"),  # type: ignore[arg-type]
    "a copy of '4' bytes": (lambda stream, x: stream.copy(x, x.view(), nbytes="4"), "'4' bytes"),  # type: ignore[arg-type]
    "a fill of 1.5": (lambda stream, x: stream.fill(x, 0, count=1.5), "1.5 elements"),  # type: ignore[arg-type]
    "a fill of '2'": (lambda stream, x: stream.fill(x, 0, count="2"), "'2' elements"),  # type: ignore[arg-type]
    "a pool by name": (lambda stream, x: stream.empty(4, pool="mine"), "a MemoryPool"),  # type: ignore[arg-type]
    "a pool of bytes": (lambda stream, x: stream.allocate(4, pool=1024), "a MemoryPool"),  # type: ignore[arg-type]
    "to keep 'all'": (lambda stream, x: queue_of(stream).context.current_pool.trim("all"), "'all' bytes"),
    "a name": (lambda stream, x: Device(0, stream.driver).create_stream(name=3), "name of a stream is 3"),  # type: ignore
    "a bank": (lambda stream, x: Device(0, stream.driver).allocate(4, bank="a"), "the bank is 'a'"),  # type: ignore
    "half a bank": (lambda stream, x: Device(0, stream.driver).allocate(4, bank=0.5), "the bank is 0.5"),  # type: ignore
    "half a byte": (lambda stream, x: Device(0, stream.driver).buffer_at(x.address, 0.5), "bytes is 0.5"),  # type: ignore
    "an address": (lambda stream, x: Device(0, stream.driver).buffer_at("x", 4), "address is 'x'"),  # type: ignore
}


@every("name", MISTYPED)
def test_a_number_that_is_none(stream: Stream, name: str) -> None:
    """It is refused at the call with what would be right; the stream goes on."""
    call, message = MISTYPED[name]
    x = stream.zeros(16, "int32")
    with pytest.raises(InvalidType, match=message):
        call(stream, x)
    stream.sync(PATIENCE)
    assert stream.error is None


@pytest.mark.parametrize("option", [{"priority": True}, {"capacity": True}, {"sip_mask": True}])
def test_a_truth_is_no_number(driver: Driver, option: dict[str, Any]) -> None:
    """True is equal to 1, and no priority, capacity or mask."""
    with pytest.raises(InvalidValue, match=f"{next(iter(option))} is True"):
        Device(0, driver).create_stream(**option)


def test_an_array_is_read_row_by_row(stream: Stream, array: DeviceArray) -> None:
    """Iterating yields the parts along the outermost dimension; a buffer of bytes is not iterated."""
    rows = [stream.fetch(row).wait_sync(PATIENCE) for row in array]
    assert np.array_equal(np.stack(rows), np.arange(24).reshape(6, 4))
    with pytest.raises(TypeError, match="not iterable"):
        iter(Buffer(array.allocation))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_buffer_has_one_owner(array: DeviceArray, how: Callable[[Any], Any]) -> None:
    """A second one would free the same memory; copying and pickling say what to do instead."""
    with pytest.raises(InvalidType, match=r"DeviceArray.*stream\.copy"):
        how(array)
    assert array.is_live


def test_a_slice_of_no_ints(array: DeviceArray) -> None:
    """What is no int in a slice is named."""
    with pytest.raises(InvalidType, match=r"slice\('a', None, None\).*ints"):
        array["a":]  # type: ignore[misc]


@on_every_host
async def test_waiting_makes_every_pool_give_back(device):
    """Idle memory beyond the threshold goes back from the default pool and from any other: by stream and device."""
    pools = device.default_pool, device.create_pool(), device.create_pool()
    stream = device.create_stream()
    for wait in (lambda: stream, device.wait):
        for pool in pools:
            stream.free(stream.allocate(4096, pool))
        assert [pool.reserved_current for pool in pools] == [4096] * 3
        await wait()
        assert [pool.reserved_current for pool in pools] == [0] * 3
