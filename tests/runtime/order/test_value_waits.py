"""Value waits: every condition, every way of writing the word, and words that are read and written in stream order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue
from atops.runtime.driver import board_of
from tests.every import every
from tests.runtime.hosts import board, on_every_host, on_hosts
from tests.runtime.latch import StreamLatch, hold

OFFSETS = (0, 1, 2, 3, 31, 1023)  # in words
LARGE = 1 << 21  # bytes: a copy or fill of this size runs on a copy thread


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver."""
    with board() as device:
        yield device


# (row, width, condition, mask, wanted, a value that blocks, a value that passes)
CONDITIONS = [
    ("E7", 32, "GteUnsigned", 0xF, 4, 3, 6),
    ("E7-cyclic", 32, "Gte", 0xF, 4, 3, 6),
    ("E10", 32, "And", 0xFF, 0xF4A, 0xF35, 0x02),
    ("E11", 32, "Eq", None, 0x7FFFFFFF, 0x7FFF0000, 0x7FFFFFFF),
    ("E14", 32, "Nor", None, 0x7AAAAAAA, 0x85555555, 0x9AAAAAAA),
    ("E15", 64, "GteUnsigned", 0x0000FFFFFFFFFFFF, 0x7FFF0001, 0x7FFF00007FFF0000, 0x7FFF0001),
    ("E16", 64, "GteUnsigned", 0xF, 4, 3, 6),
    ("E17", 64, "Eq", 0x0000FFFFFFFFFFFF, 0x0FFF0001, 0x7FFF00000FFF0000, 0x7F0000000FFF0001),
    ("E18-eq", 64, "Eq", 0xFF, 0x11, 0x25, 0x11),
    ("E18-and", 64, "And", 0xFF, 0xF4A, 0xF35, 0x02),
    ("E19", 64, "GteUnsigned", None, 0x7FFFFFFFFFFF0001, 0x7FFFFFFFFFFF0000, 0x7FFFFFFFFFFF0001),
    ("E20", 64, "Eq", None, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFF0FFF0000, 0x7FFFFFFFFFFFFFFF),
    ("E22", 64, "Nor", None, 0x4724724747247247, 0xBDDBDDBDBDDBDDBD, 0xBDDBDDBDBDDBDDB3),
    ("E25", 32, "Gte", None, 0x7FFFFFFF, 0x7FFFFFFE, 0x80000000),
    ("cyclic-64", 64, "Gte", None, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFE, 0x8000000000000000),
    ("negative", 32, "Gte", None, -1, -2, 0),
    ("unsigned", 32, "GteUnsigned", None, 0x80000000, 0x7FFFFFFF, 0x80000000),
    ("low-half", 32, "And", None, 0x80000000, 0x7FFFFFFF, 0x80000001),
]


@every("width, condition, mask, wanted, blocks, passes", [c[1:] for c in CONDITIONS],
                         ids=[c[0] for c in CONDITIONS])  # fmt: skip
@on_every_host
async def test_conditions(device, width, condition, mask, wanted, blocks, passes):
    """E6 to E25: a wait stands before a value that blocks and goes on with one that passes, at once if it is there."""
    waiter, writer = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
    word = device.allocate(8)
    writer.fill(word, 0)
    await writer.write_value(word, blocks, width=width)
    wait = waiter.wait_value(word, wanted, condition, mask=mask, width=width)
    await StreamLatch(device).passed()
    assert not wait.done()
    await writer.write_value(word, passes, width=width)
    await wait
    await waiter.wait_value(word, wanted, atops.Condition[condition], mask=mask, width=width)  # E6: already satisfied
    await waiter.wait_value(word, wanted, int(atops.Condition[condition]), mask=mask, width=width)
    await waiter.wait_value(word, wanted, condition.lower(), mask=mask, width=width)  # as kernels spell it


@every("width, kind", [(width, kind) for width in (32, 64) for kind in (np.int8, np.uint8, np.int32, np.uint64)])
@on_every_host
async def test_integers_of_numpy_are_words_masks_and_values(device, width, kind):
    """A wait is armed with them, another stream's store ends it, and no difference of two of them overflows."""
    waiter, writer = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
    word = device.zeros(8, np.uint8)
    wait = waiter.wait_value(word, kind(3), mask=kind(127), width=width)
    await writer.write_value(word, kind(2), width=width)
    assert not wait.done()
    await writer.write_value(word, kind(3), width=width)
    await wait
    await waiter.wait_value(word, np.uint32(4), "Nor", mask=np.uint16(6), width=width)


@every("width, value", [(32, 0x70F0F0FF), (64, 0x7FFF0000FFFF0000), (32, -3), (64, -3)])
@on_every_host
async def test_write_value_stores_the_exact_word(device, width, value):
    """E1: into device, pinned, registered and managed memory at six offsets, and nowhere else."""
    stream = device.create_stream()
    size, unsigned = width // 8, np.dtype(f"u{width // 8}")
    places = [device.empty(1025, unsigned), device.host_malloc(1025, unsigned), device.malloc_managed(1025, unsigned),
              device.register(np.zeros(1025, unsigned))]  # fmt: skip
    for place in places:
        stream.fill(place, 0)
        for offset in OFFSETS:
            stream.write_value(place[offset : offset + 1], value, width=width)
        expected = np.zeros(1025, unsigned)
        expected[list(OFFSETS)] = value % (1 << width)
        assert np.array_equal(await stream.fetch(place), expected)
        assert len(bytes(place.allocation.view[:size])) == size


@on_every_host
async def test_a_wait_holds_what_follows_it(device):
    """E24: after the producer's copies and its store, the consumer's copy behind the wait sees the data."""
    producer, consumer = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
    x, flag = device.empty(64, np.int32), device.empty(1, np.int32)
    await producer.fill(flag, 0)
    consumer.wait_value(flag, 1, "Eq")
    got = consumer.fetch(x)
    latch = hold(producer)
    producer.copy(x, np.arange(64, dtype=np.int32))
    producer.write_value(flag, 1)
    await latch.passed()
    assert not got.done()
    latch.release()
    assert (await got == np.arange(64)).all()


# ---- what can write


@k.kernel
def store(word, value: np.int32):
    """Store by indexing."""
    word[0] = value


@k.kernel
async def move(word, source):
    """Copy by DTE, asynchronously."""
    with k.dte_scope() as dte:
        await k.memcpy_async(dte, word, source)


@k.kernel
def move_now(word, source):
    """Copy by DTE."""
    with k.dte_scope() as dte:
        k.memcpy(dte, word, source)


@k.kernel
def set_all(word, value: np.int32):
    """Fill by DTE."""
    with k.dte_scope() as dte:
        k.memset(dte, word, value)


@k.kernel
def ufunc(word, source):
    """Store through a numpy function's `out`."""
    np.add(source[:], 0, out=word[:])


@k.kernel
def by_place(word, source):
    """Store through the `out` of a numpy function and of a method, given by its place."""
    np.clip(source[:], 0, 0, word[:])
    source[:].clip(0, 9, word[:])


@k.kernel
def escaped(word, value: np.int32):
    """Store through the plain array, which the runtime does not see."""
    np.asarray(word)[0] = value


def ones(device, count=1):
    """Return an array of ones on a device."""
    array = device.empty(count, np.int32)
    array.allocation.data[: array.nbytes].view(np.int32)[:] = 1
    return array


WRITERS = {
    "write_value": lambda stream, device, words: stream.write_value(words[:1], 1),
    "copy up": lambda stream, device, words: stream.copy(words[:1], np.ones(1, np.int32)),
    "large copy up": lambda stream, device, words: stream.copy(words, np.ones(len(words), np.int32)),
    "copy within": lambda stream, device, words: stream.copy(words[:1], ones(device)),
    "large copy within": lambda stream, device, words: stream.copy(words, ones(device, len(words))),
    "copy of bytes": lambda stream, device, words: stream.copy(words[:1], b"\1\0\0\0"),
    "fill": lambda stream, device, words: stream.fill(words[:1], 1),
    "large fill": lambda stream, device, words: stream.fill(words, 1),
    "kernel store": lambda stream, device, words: stream.launch(store, (1, 1), words[:1], 1),
    "kernel ufunc": lambda stream, device, words: stream.launch(ufunc, (1, 1), words[:1], ones(device)),
    "kernel out by place": lambda stream, device, words: stream.launch(by_place, (1, 1), words[:1], ones(device)),
    "kernel escape": lambda stream, device, words: stream.launch(escaped, (1, 1), words[:1], 1),
    "dte copy": lambda stream, device, words: stream.launch(move_now, (1, 1), words[:1], ones(device)),
    "dte async copy": lambda stream, device, words: stream.launch(move, (1, 1), words[:1], ones(device)),
    "dte fill": lambda stream, device, words: stream.launch(set_all, (1, 1), words[:1], 1),
}
MEMORIES = {
    "device": lambda device: device.empty(LARGE // 4, np.int32),
    "pinned": lambda device: device.host_malloc(LARGE // 4, np.int32),
    "registered": lambda device: device.register(np.zeros(LARGE // 4, np.int32)),
    "managed": lambda device: device.malloc_managed(LARGE // 4, np.int32),
}


@pytest.mark.slow
@every("memory", MEMORIES.values(), ids=MEMORIES)
@every("write", WRITERS.values(), ids=WRITERS)
@on_hosts("asyncio", "inline")
async def test_every_writer_wakes_a_wait(device, write, memory):
    """Each kind of write makes the wait look again: copies, fills, kernels, DTE, in all kinds of memory."""
    waiter, writer = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
    words = memory(device)
    words.allocation.data[:8] = 0
    wait = waiter.wait_value(words[:1], 1, "Eq")
    await StreamLatch(device).passed()
    assert not wait.done()
    written = write(writer, device, words)
    await wait
    await written


@pytest.mark.parametrize("dte", ["eager", "seeded"])
def test_a_dte_store_wakes_a_wait_in_every_mode(dte: str):
    """As above, where the transfer's effect comes earlier than at the wait."""
    with board(dte=dte, seed=1) as device:
        waiter, writer = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
        word = device.empty(1, np.int32)
        word.allocation.data[:] = 0
        wait = waiter.wait_value(word, 1, "Eq")
        writer.launch(move, (1, 1), word, ones(device))
        wait.wait_sync()


@every("memory", [name for name in MEMORIES if name != "device"])
@on_every_host
async def test_host_stores_are_found(device, memory):
    """A store of the host's own into memory that devices reach is found by looking, without anybody being told."""
    stream = device.create_stream()
    words = MEMORIES[memory](device)
    wait = stream.wait_value(words[5:6], 7)
    await StreamLatch(device).passed()
    assert not wait.done() and len(board_of(device.driver).poller) == 1
    words.array[5] = 7
    await wait
    await stream.fill(words, 0)
    assert len(board_of(device.driver).poller) == 0


@on_every_host
async def test_another_device_wakes_a_wait(device):
    """A copy from another device, and a store of its kernel through peer access, satisfy a wait on this one."""
    other = atops.Device(1, device.driver)
    other.enable_peer_access(device)
    waiter = device.create_stream(nonblocking=True)
    for number, write in enumerate(
        [
            lambda stream, word, one: stream.copy(word, one),
            lambda stream, word, one: stream.launch(store, (1, 1), word, 1),
            lambda stream, word, one: stream.launch(move, (1, 1), word, one),
        ]
    ):
        word = device.empty(1, np.int32)
        word.allocation.data[:] = 0
        wait = waiter.wait_value(word, 1, "Eq")
        await StreamLatch(device).passed()
        assert not wait.done(), number
        await write(other.create_stream(nonblocking=True), word, ones(other))
        await wait


@on_every_host
async def test_waits_on_neighbouring_words_are_apart(device):
    """A store wakes the waits on its own word only, and a 64-bit wait sees either half being stored."""
    writer = device.create_stream(nonblocking=True)
    words = device.empty(4, np.uint32)
    words.allocation.data[:] = 0
    streams = [device.create_stream(nonblocking=True) for _ in range(3)]
    low = streams[0].wait_value(words[:1], 1, "Eq")
    high = streams[1].wait_value(words[1:2], 2, "Eq")
    both = streams[2].wait_value(words[:2], 2 << 32 | 1, "Eq", width=64)
    await writer.write_value(words[1:2], 2)
    await high
    assert not low.done() and not both.done()
    await writer.write_value(words[:1], 1)
    await low
    await both


@on_every_host
async def test_many_streams_wait_for_one_word(device):
    """One store lets every waiting stream go, each by its own condition."""
    writer = device.create_stream(nonblocking=True)
    word = device.empty(1, np.uint32)
    word.allocation.data[:] = 0
    waits = [device.create_stream(nonblocking=True).wait_value(word, value) for value in (1, 2, 3, 1)]
    await writer.write_value(word, 2)
    for number in (0, 1, 3):
        await waits[number]
    assert not waits[2].done()
    await writer.write_value(word, 3)
    await waits[2]


# ---- what goes wrong


@on_every_host
async def test_freeing_the_word_ends_the_wait(device):
    """A wait whose memory is freed fails with IllegalAddress, instead of for ever."""
    first, second = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
    word = first.empty(1, np.uint32)
    await first.fill(word, 0)
    wait = second.wait_value(word, 1)
    await StreamLatch(device).passed()
    first.free(word)
    with pytest.raises(IllegalAddress, match="freed"):
        await wait
    second.clear_error()
    with pytest.raises(IllegalAddress, match="freed"):
        second.wait_value(word, 1)
    with pytest.raises(IllegalAddress, match="freed"):
        second.write_value(word, 1)


@on_every_host
async def test_words_that_cannot_be(device):
    """E4: a bad width, condition, value, alignment or target is refused at the call."""
    stream, word = device.create_stream(), device.allocate(16)
    for error, match, arguments, named in [
        (InvalidValue, "32 or 64", (word, 1), {"width": 16}),
        (InvalidValue, "Gte, Eq, And, Nor", (word, 1, -1), {}),
        (InvalidValue, "Gte, Eq, And, Nor", (word, 1, "Less"), {}),
        (InvalidValue, "does not fit 32 bits", (word, 1 << 32), {}),
        (InvalidValue, "does not fit 64 bits", (word, -1 << 64), {"width": 64}),
        (InvalidValue, "aligned to 4", (word[2:6], 1), {}),
        (InvalidValue, "aligned to 8", (word[4:12], 1), {"width": 64}),
        (InvalidValue, "3 bytes", (word[:3], 1), {}),
        (InvalidType, "a Buffer", (np.zeros(4), 1), {}),
        (InvalidType, "an int", (word, 1.0), {}),
    ]:
        with pytest.raises(error, match=match):
            stream.wait_value(*arguments, **named)
        if not any(isinstance(each, str) or each == -1 for each in arguments[2:]):
            with pytest.raises(error, match=match):
                stream.write_value(*arguments[:2], **named)
    assert stream.is_done


def test_two_streams_play_ping_pong(device: atops.Device):
    """Waits and stores on two words hand the turn to and fro between two streams."""
    log: list[int] = []
    first, second = device.create_stream(nonblocking=True), device.create_stream(nonblocking=True)
    ball = device.allocate(4)
    ball.allocation.data[:] = 0
    for turn in range(100):
        for number, stream in enumerate((first, second)):
            stream.wait_value(ball, 2 * turn + number, "Eq")
            stream.call(log.append, 2 * turn + number)
            stream.write_value(ball, 2 * turn + number + 1)
    second.sync()
    assert log == list(range(200))
