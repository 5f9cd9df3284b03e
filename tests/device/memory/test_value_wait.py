"""Conditions of value waits row by row, and watches that fire once, are never missed, and end with their memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from atops.base.errors import IllegalAddress, InvalidValue
from atops.device.memory.allocation import Allocation, fill, move
from atops.device.memory.device_memory import DeviceMemory
from atops.device.memory.value_wait import Condition, Watch, satisfied

GTE, EQ, AND, NOR, GTE_UNSIGNED = Condition.Gte, Condition.Eq, Condition.And, Condition.Nor, Condition.GteUnsigned
ALL = None

Row = tuple[str, Condition, int, int | None, int, int | None, int]

# name, condition, width, mask, wanted, memory that blocks, memory that passes
ROWS: list[Row] = [
    ("mask gte", GTE_UNSIGNED, 32, 0xF, 4, 3, 6),
    ("mask and", AND, 32, 0xFF, 0xF4A, 0xF35, 0x02),
    ("eq", EQ, 32, ALL, 0x7FFFFFFF, 0x7FFF0000, 0x7FFFFFFF),
    ("nor", NOR, 32, ALL, 0x7AAAAAAA, 0x85555555, 0x9AAAAAAA),
    ("gte", GTE_UNSIGNED, 32, ALL, 0x7FFF0001, 0x7FFF0000, 0x7FFF0001),
    ("64 mask gte 1", GTE_UNSIGNED, 64, 0x0000FFFFFFFFFFFF, 0x7FFF0001, 0x7FFF000000000000, 0x7FFF0001),
    ("64 mask gte 2", GTE_UNSIGNED, 64, 0xF, 4, 3, 6),
    ("64 mask eq 1", EQ, 64, 0x0000FFFFFFFFFFFF, 0x0FFF0001, 0x7FFF00000FFF0000, 0x7F0000000FFF0001),
    ("64 mask eq 2", EQ, 64, 0xFF, 0x11, 0x25, 0x11),
    ("64 mask and", AND, 64, 0xFF, 0xF4A, 0xF35, 0x02),
    ("64 gte", GTE_UNSIGNED, 64, ALL, 0x7FFFFFFFFFFF0001, 0x7FFFFFFFFFFF0000, 0x7FFFFFFFFFFF0001),
    ("64 eq", EQ, 64, ALL, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFF0FFF0000, 0x7FFFFFFFFFFFFFFF),
    ("64 nor", NOR, 64, ALL, 0x4724724747247247, 0xBDDBDDBDBDDBDDBD, 0xBDDBDDBDBDDBDDB3),
    ("cyclic gte passes over the top", GTE, 32, ALL, 0x7FFFFFFF, 0x7FFFFFFE, 0x80000000),
    ("cyclic gte passes over zero", GTE, 32, ALL, 0xFFFFFFFF, 0xFFFFFFFE, 0),
    ("cyclic gte reaches half way round", GTE, 32, ALL, 0, 0x80000000, 0x7FFFFFFF),
    ("cyclic gte, negative wanted", GTE, 32, ALL, -1, 0xFFFFFFFE, 3),
    ("64 cyclic gte", GTE, 64, ALL, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 5),
    ("unsigned gte does not wrap", GTE_UNSIGNED, 32, ALL, 0xFFFFFFFF, 0, 0xFFFFFFFF),
    ("nor masks the value too", NOR, 32, 0xFFFFFFFF, 0xFFFFFFFE, 1, 0),
    ("nor is complemented over all bits", NOR, 32, 0x0F, 0xFFFFFFFF, None, 0xFFFFFFFF),
]


@pytest.fixture
def memory() -> Iterator[DeviceMemory]:
    """One small device memory."""
    memory = DeviceMemory(1 << 24, 4, 0, 1 << 36, 1 << 20)
    yield memory
    memory.close()


@pytest.fixture
def cells(memory: DeviceMemory) -> Allocation:
    """80,000 zero bytes: room for 10,000 64-bit values."""
    allocation = memory.allocate(80_000)
    allocation.data[:] = 0
    return allocation


def store(allocation: Allocation, offset: int, value: int, width: int = 32) -> None:
    """Write a value as a write command does."""
    fill(allocation, offset, value.to_bytes(width // 8, "little"), 1)


class Told:
    """What the callbacks of a watch have heard."""

    def __init__(self) -> None:
        self.true = 0
        self.errors: list[IllegalAddress] = []

    def on_true(self) -> None:
        self.true += 1

    def watch(self, allocation: Allocation, offset: int, wanted: int, condition: int = EQ, width: int = 32) -> Watch:
        return Watch(allocation, offset, width, wanted, condition, None, self.on_true, self.errors.append)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_blocks_and_passes(row: Row, cells: Allocation):
    """The pure function and an armed watch agree with the row: not satisfied, then satisfied."""
    _, condition, width, mask, wanted, blocks, passes = row
    assert satisfied(passes, wanted, condition, mask, width)
    told = Told()
    watch = Watch(cells, 8, width, wanted, condition, mask, told.on_true)
    if blocks is not None:
        assert not satisfied(blocks, wanted, condition, mask, width)
        store(cells, 8, blocks, width)
        watch.arm()
        assert told.true == 0
        store(cells, 8, passes, width)
    else:
        store(cells, 8, passes, width)
        watch.arm()
    assert told.true == 1
    assert watch.over


def test_a_value_that_is_there_already_passes_at_once(cells: Allocation):
    """Arming tests; nothing has to be stored."""
    store(cells, 4, 7)
    told = Told()
    told.watch(cells, 4, 7).arm()
    assert told.true == 1
    assert cells.watches is None


def test_a_watch_fires_once(cells: Allocation):
    """Later stores of the same value, tests and a cancel change nothing; other watches go on."""
    told, other = Told(), Told()
    watch, waiting = told.watch(cells, 0, 1), other.watch(cells, 0, 2)
    watch.arm()
    waiting.arm()
    for _ in range(3):
        store(cells, 0, 1)
    assert watch.test()
    assert not watch.cancel()
    assert (told.true, other.true) == (1, 0)
    store(cells, 0, 2)
    assert other.true == 1
    assert cells.watches is None


def test_a_cancelled_watch_hears_nothing(memory: DeviceMemory, cells: Allocation):
    """After a cancel neither a store nor the end of the memory is told."""
    told = Told()
    watch = told.watch(cells, 0, 1)
    watch.arm()
    assert watch.cancel()
    store(cells, 0, 1)
    memory.free(cells)
    assert (told.true, told.errors) == (0, [])
    assert not watch.cancel()
    other = memory.allocate(64)
    early = told.watch(other, 0, 1)
    assert early.cancel()
    early.arm()
    assert other.watches is None


def test_every_way_of_writing_is_seen(memory: DeviceMemory, cells: Allocation):
    """Fills, moves of both sizes, and `wrote` after a plain store wake a watch inside their range."""
    source = memory.allocate(80_000)
    source.data[:] = 0
    source.data[40_000] = 1
    for write in (
        lambda: fill(cells, 39_996, b"\1\0\0\0", 2),
        lambda: move(cells, 39_000, source, 39_000, 2_000),
        lambda: move(cells, 0, source, 0, 80_000),
        lambda: (cells.view.__setitem__(40_000, 1), cells.wrote(40_000, 1)),
    ):
        cells.data[:] = 0
        told = Told()
        told.watch(cells, 40_000, 1).arm()
        write()
        assert told.true == 1


def test_only_overlapping_watches_are_tested(cells: Allocation):
    """A store next to a watched value does not test it, even if the value has changed unseen."""
    told = Told()
    watch = told.watch(cells, 16, 1)
    watch.arm()
    cells.data[16] = 1
    cells.wrote(0, 16)
    cells.wrote(24, 1000)
    cells.wrote(16, 0)
    assert told.true == 0
    assert not watch.over
    assert watch.test()
    assert told.true == 1


def test_the_end_of_the_memory_ends_its_watches(memory: DeviceMemory, cells: Allocation):
    """Watches of freed memory are told the error, once, and never that they are true."""
    told = Told()
    for offset in (0, 8, 8000):
        told.watch(cells, offset, 1).arm()
    memory.free(cells, by="command #6")
    assert told.true == 0
    assert len(told.errors) == 3
    assert "freed by command #6" in str(told.errors[0])
    assert len(set(map(id, told.errors))) == 3, "each waiter has an exception of its own"
    late = Told()
    gone = memory.allocate(64)
    gone.data[:] = 0
    watch = late.watch(gone, 0, 0)
    memory.reset()
    watch.arm()
    assert (late.true, len(late.errors)) == (0, 1)
    with pytest.raises(IllegalAddress):
        late.watch(gone, 0, 0)


@pytest.mark.parametrize(
    ("offset", "width", "wanted", "condition", "match"),
    [
        (2, 32, 0, 0, "not aligned to 4"),
        (4, 64, 0, 0, "not aligned to 8"),
        (0, 16, 0, 0, "32 or 64"),
        (0, 32, 0, 5, "0 to 4"),
        (0, 32, 0, -1, "0 to 4"),
        (0, 32, 1 << 32, 0, "32 bits"),
        (0, 32, -(1 << 31) - 1, 0, "32 bits"),
    ],
)
def test_wrong_waits_are_refused(cells: Allocation, offset: int, width: int, wanted: int, condition: int, match: str):
    """Alignment, width, condition and value are checked when the wait is described."""
    with pytest.raises(InvalidValue, match=match):
        Watch(cells, offset, width, wanted, condition, None, lambda: None)


def test_a_wait_outside_its_memory_is_illegal(cells: Allocation):
    """The bytes must lie inside the allocation."""
    with pytest.raises(IllegalAddress):
        Watch(cells, 80_000, 32, 0, 0, None, lambda: None)


def test_a_watch_shows_what_it_waits_for(cells: Allocation):
    """Address, width, condition, value and mask are in the repr."""
    watch = Watch(cells, 64, 64, 0xAB, NOR, 0xFF, lambda: None)
    text = repr(watch)
    for part in (f"{cells.address + 64:#x}", "64-bit Nor 0xab", "mask 0xff", "waiting"):
        assert part in text


def test_many_watches_cost_a_store_only_what_it_overlaps(cells: Allocation):
    """With 10,000 watches on one allocation a store fires its own; a thousand stores take well under a second."""
    told = [Told() for _ in range(10_000)]
    for number, one in enumerate(told):
        one.watch(cells, number * 8, 1, width=64).arm()
    assert cells.watches is not None
    assert len(cells.watches) == 10_000
    began = time.thread_time()
    for number in range(1_000):
        store(cells, number * 80, 1, 64)
    assert time.thread_time() - began < 1
    assert [one.true for one in told] == [1 if number % 10 == 0 else 0 for number in range(10_000)]
    fill(cells, 0, (1).to_bytes(8, "little"), 10_000)
    assert all(one.true == 1 for one in told)
    assert cells.watches is None


@pytest.mark.slow
def test_no_wake_up_is_lost_between_threads(cells: Allocation):
    """A watch armed while another thread stores fires exactly once, however the two meet."""
    rounds = 3_000
    fired = threading.Semaphore(0)
    turn = threading.Barrier(2)

    def storing() -> None:
        for number in range(1, rounds + 1):
            turn.wait()
            store(cells, 0, number)

    thread = threading.Thread(target=storing)
    thread.start()
    for number in range(1, rounds + 1):
        watch = Watch(cells, 0, 32, number, EQ, None, fired.release)
        turn.wait()
        watch.arm()
        assert fired.acquire(timeout=30)
    thread.join()
    assert not fired.acquire(blocking=False)
    assert cells.watches is None


def test_a_callback_may_arm_and_store(cells: Allocation):
    """Callbacks run without a lock: one may store, arm and cancel, also on the same value."""
    heard: list[str] = []
    second = Watch(cells, 0, 32, 2, EQ, None, lambda: heard.append("second"))

    def on_first() -> None:
        heard.append("first")
        second.arm()
        store(cells, 0, 2)

    Watch(cells, 0, 32, 1, EQ, None, on_first).arm()
    store(cells, 0, 1)
    assert heard == ["first", "second"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_can_end_watches():
    """A child forked while another thread of its parent was changing watches is not stuck when it frees memory."""
    program = """
import os, signal, threading
from atops.device import watch
from atops.device.memory.host_memory import HostMemory
host = HostMemory()
pinned = host.allocate(64)
heard = []
watch.Watch(pinned, 0, 32, 1, 1, None, print, heard.append).arm()
held, over = threading.Event(), threading.Event()
def hold():
    with watch._lock:
        held.set()
        over.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    host.free(pinned)
    os._exit(len(heard))
over.set()
thread.join()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], timeout=60, check=False)
    assert done.returncode == 1
