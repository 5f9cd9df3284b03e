"""Commands that a stream was to wait for and did not: what it frees is kept from others while those may use it.

A stream that leaves out a wait goes on at once, so nothing here may hang; and no memory goes to two users at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import atops
from atops.base.errors import AtopsError, HostCallFailure, IllegalAddress, OutOfMemory
from atops.device.memory.allocation import Allocation
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.stream import queue_of
from tests.runtime.boards import PATIENCE, Latch
from tests.runtime.hosts import board

KIB = 1 << 10


@pytest.fixture
def device() -> Iterator[atops.Device]:
    """Device 0 of a threaded driver with two."""
    with board(trace=0) as device:
        yield device


def streams(device: atops.Device, names: str, nonblocking: bool = True) -> list[atops.Stream]:
    """Return a stream for each letter."""
    return [device.create_stream(name=name, nonblocking=nonblocking) for name in names]


def gates(device: atops.Device, count: int) -> list[Latch]:
    """Return latches."""
    return [Latch(device) for _ in range(count)]


# ---- nothing hangs


@pytest.mark.parametrize("how", ["aborted", "failed"])
def test_an_allocation_behind_a_left_out_wait_holds_up_nothing(device: atops.Device, how: str) -> None:
    """The stream goes on though what it left out, and others, wait for what it will do only later."""
    s, t, u = streams(device, "stu")
    later, gate, hold = gates(device, 3)
    a = s.empty(KIB)
    s.sync(PATIENCE)
    later.hold(t)
    gate.hold(u)
    if how == "failed":
        hold.hold(s)
        failing = s.call(fail)
    s.wait(u.record())
    s.free(a)
    b = s.empty(KIB)
    assert b.address == a.address
    if how == "failed":
        hold.open()
        with pytest.raises(HostCallFailure):
            failing.wait_sync(PATIENCE)
        with contextlib.suppress(AtopsError):
            s.sync(PATIENCE)
        s.clear_error()
    else:
        s.abort()
        s.sync(PATIENCE)
    with pytest.raises(IllegalAddress, match="left out the wait"):
        s.fill(b, 1)
    s.write_value(later.word, 1).wait_sync(PATIENCE)
    t.sync(PATIENCE)
    gate.open()
    u.sync(PATIENCE)
    s.fill(s.empty(KIB), 1).wait_sync(PATIENCE)


def test_an_abort_breaks_a_circle_through_memory(device: atops.Device) -> None:
    """An allocation that waits for another stream's free ends with an abort of its own; the memory stays there."""
    pool = device.create_pool(max_size=1 << 20)
    s, t = streams(device, "st")
    gate = Latch(device)
    a = t.allocate(1 << 20, pool)
    t.sync(PATIENCE)
    gate.hold(t)
    used = t.fill(a, 7)
    t.free(a)
    b = s.allocate(1 << 20, pool)
    filled = s.fill(b, 9)
    s.abort()
    s.sync(PATIENCE)
    assert filled.state == "failed" and not used.is_done
    with pytest.raises(IllegalAddress, match="left out the wait"):
        s.fill(b, 9)
    s.write_value(gate.word, 1)
    t.sync(PATIENCE)
    c = s.allocate(1 << 20, pool)
    assert c.address == a.address
    s.fill(c, 1).wait_sync(PATIENCE)


def test_leaving_a_stream_by_an_exception_ends(device: atops.Device) -> None:
    """Though another stream waits for a value that comes only later, and memory was given out behind the wait."""
    t, u = streams(device, "tu")
    later, gate = gates(device, 2)
    later.hold(t)
    gate.hold(u)

    async def main() -> None:
        async with device.create_stream() as s:
            a = s.empty(KIB)
            await s
            s.wait(u.record())
            s.free(a)
            s.empty(KIB)
            raise ZeroDivisionError

    done = threading.Event()

    def run() -> None:
        with contextlib.suppress(ZeroDivisionError):
            asyncio.run(main())
        done.set()

    threading.Thread(target=run, daemon=True).start()
    assert done.wait(PATIENCE)
    later.open()
    gate.open()


def test_a_parked_stream_elsewhere_keeps_no_memory_from_being_given_out(device: atops.Device) -> None:
    """Neither what was lost and is over, nor memory that is younger than what was lost, is put off."""
    pool = device.create_pool(max_size=4 << 20)
    server, s, u = streams(device, "tsu")
    parked, gate = gates(device, 2)
    parked.hold(server)
    gate.hold(u)
    s.wait(u.record())
    s.abort()
    gate.open()
    u.sync(PATIENCE)
    for _ in range(2):
        for _ in range(20):
            s.free(s.allocate(1 << 20, pool))
            s.sync(PATIENCE)
        dropped = Latch(device)  # from here on the server's wait itself is lost
        dropped.hold(s)
        s.abort()
        s.sync(PATIENCE)
    parked.open()


# ---- no memory in use is given out


def given_out(device: atops.Device, freed: atops.Buffer) -> bool:
    """Return whether another stream gets the memory now."""
    stream = device.create_stream(nonblocking=True)
    taken = [stream.allocate(freed.nbytes) for _ in range(4)]
    stream.sync(PATIENCE)
    try:
        return freed.address in [each.address for each in taken]
    finally:
        for each in taken:
            stream.free(each)
        stream.sync(PATIENCE)


@pytest.mark.parametrize("how", ["aborted", "aborted while pending", "failed"])
def test_a_left_out_wait_for_a_value_may_stand_for_any_stream(device: atops.Device, how: str) -> None:
    """What is freed behind it is put off until all is over that the board has, and is given out then."""
    s, t = streams(device, "st")
    gate, word, before = gates(device, 3)
    a = s.allocate(KIB)
    s.sync(PATIENCE)
    gate.hold(t)
    t.fill(a, 7)
    t.write_value(word.word, 1)
    if how != "aborted":
        before.hold(s)
    if how == "failed":
        s.call(fail)
    word.hold(s)
    s.free(a)
    if how != "failed":
        s.abort()
    before.open()
    with contextlib.suppress(AtopsError):
        s.sync(PATIENCE)
    assert not given_out(device, a)
    gate.open()
    t.sync(PATIENCE)
    assert given_out(device, a)


@pytest.mark.parametrize("how", ["freed before", "freed after", "waited for", "the reverse"])
def test_null_stream_order_takes_over_what_was_lost(device: atops.Device, how: str) -> None:
    """Also from a stream that has nothing to do any more, and from the null stream to the others."""
    (t,) = streams(device, "t")
    first: atops.Stream = device.create_stream()
    second: atops.Stream = device.null_stream
    if how == "the reverse":
        first, second = second, first
    gate = Latch(device)
    a = second.allocate(KIB)
    second.sync(PATIENCE)
    gate.hold(t)
    t.fill(a, 7)
    first.wait(t.record())
    first.write_value(device.allocate(4), 1)
    if how == "freed before":
        second.free(a)
    first.abort()
    first.sync(PATIENCE)
    if how == "waited for":
        (second,) = streams(device, "v")
        second.wait(first)
    if how != "freed before":
        second.free(a)
    second.sync(PATIENCE)
    assert not given_out(device, a)
    gate.open()
    t.sync(PATIENCE)
    assert given_out(device, a)


def test_a_short_copy_hands_on_what_its_stream_has_lost(device: atops.Device) -> None:
    """Copies that are carried out in a row count in null-stream order as any other command."""
    null = device.null_stream
    s = device.create_stream()
    t, v = streams(device, "tv")
    gate, hold = gates(device, 2)
    a = null.allocate(KIB)
    null.sync(PATIENCE)
    gate.hold(t)
    t.fill(a, 7)
    v.wait(t.record())
    v.abort()
    hold.hold(s)
    s.wait(v)
    for _ in range(3):
        s.copy(device.allocate(4), np.zeros(4, np.uint8))
    null.free(a)  # before the other stream comes to the wait
    hold.open()
    null.sync(PATIENCE)
    assert not given_out(device, a)
    gate.open()
    t.sync(PATIENCE)
    assert given_out(device, a)


def test_new_memory_is_none_that_is_to_be_put_off(device: atops.Device) -> None:
    """Once a wait is dropped, no stream gets what was freed behind it: not the same one, nor one that waits for it."""
    s, t, u = streams(device, "stu")
    gate, hold = gates(device, 2)
    a = s.allocate(KIB)
    s.sync(PATIENCE)
    gate.hold(t)
    t.fill(a, 7)
    s.wait(t.record())
    s.abort()
    hold.hold(s)
    s.free(a)
    u.wait(s)
    taken = [stream.allocate(KIB) for stream in (s, u)]
    filled = [stream.fill(x, 1) for stream, x in zip((s, u), taken, strict=True)]
    hold.open()
    for item in filled:
        item.wait_sync(PATIENCE)
    gate.open()
    t.sync(PATIENCE)
    assert given_out(device, a)


def test_a_device_in_reset_still_uses_memory_of_others(device: atops.Device) -> None:
    """What is freed behind a command that a reset of another device still has to end is put off until then."""
    peer = atops.Device(1, device.driver)
    t = peer.create_stream()
    s = device.create_stream()
    begun, go = threading.Event(), threading.Event()

    def use() -> None:
        begun.set()
        go.wait(PATIENCE)

    a = s.allocate(KIB)
    owned = device.allocate(KIB)
    s.sync(PATIENCE)
    using = t.call(use)
    s.wait(t.record())
    s.free(a)
    assert begun.wait(PATIENCE)
    reset = threading.Thread(target=peer.reset_sync)
    reset.start()
    with pytest.raises(AtopsError):
        s.sync(PATIENCE)
    s.clear_error()
    owned.close()
    assert not given_out(device, a) and owned.allocation.alive and not using.is_done
    go.set()
    reset.join(PATIENCE)
    assert using.is_done and not owned.allocation.alive and given_out(device, a)


def test_exhausted_memory_is_told_with_its_cure(device: atops.Device) -> None:
    """A free that has run and is put off is told from one that has still to run."""
    pool = device.create_pool(max_size=1 << 20)
    s, t, u = streams(device, "stu")
    gate = Latch(device)
    a = s.allocate(1 << 20, pool)
    s.sync(PATIENCE)
    gate.hold(t)
    s.wait(t.record())
    s.abort()
    s.free(a)
    s.sync(PATIENCE)
    with pytest.raises(OutOfMemory, match="left out waits") as caught:
        u.allocate(1 << 20, pool)
    assert "still to come" not in str(caught.value)
    gate.open()
    t.sync(PATIENCE)
    u.allocate(1 << 20, pool)


def test_an_interrupted_abort_is_finished(device: atops.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in its middle: the driver does the rest, every stream goes on and all memory comes back."""
    s, t, u = streams(device, "stu")
    gate = Latch(device)
    a = s.allocate(KIB)
    s.sync(PATIENCE)
    gate.hold(u)
    gate.hold(t)
    dropped = [t.fill(device.allocate(4), 1) for _ in range(3)]
    s.wait(t.record())
    s.free(a)
    keep_only = StreamQueue.keep_only

    def interrupted(self: StreamQueue, kept: list[Any]) -> None:
        monkeypatch.setattr(StreamQueue, "keep_only", keep_only)
        raise KeyboardInterrupt

    for stream in (s, t):
        monkeypatch.setattr(StreamQueue, "keep_only", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.abort()
        stream.sync(PATIENCE)
    assert all(item.state == "failed" for item in dropped)
    gate.open()
    for stream in (s, t, u):
        stream.fill(device.allocate(4), 1).wait_sync(PATIENCE)
    assert device.default_pool.statistics().promised == 0 and given_out(device, a)


# ---- programs at random


class Work:
    """Random work of streams of two devices on memory that goes from one to the other, with aborts, failures, resets.

    Each use of a memory stamps it and looks, until its end, whether the stamp is there and the memory alive: whatever
    order a program has asked for, two uses that meet have been given the same bytes.
    """

    def __init__(self, device: atops.Device, seed: int) -> None:
        self.device, self.peer = device, atops.Device(1, device.driver)
        self.random = random.Random(seed)
        self.null = device.null_stream
        self.blocking = streams(device, "ab", nonblocking=False)
        self.free = streams(device, "cde")
        self.far = streams(self.peer, "f")
        self.taker, self.opener = streams(device, "to")
        # Of half the programs the memory is so short that allocations wait for frees of other streams.
        granule = device.context.arch.malloc_alignment
        self.pool = device.create_pool(max_size=(3 if seed % 2 else 1000) * -(-KIB // granule) * granule)
        self.pool.release_threshold = 1 << 20
        self.wrong: list[str] = []
        self.uses = 0
        self.words: list[tuple[atops.Completion, atops.Buffer]] = []

    def near(self) -> list[atops.Stream]:
        """Return the streams that are not reset."""
        return [self.null, *self.blocking, *self.free]

    def use(self, allocation: Allocation, stamp: int) -> None:
        """Be the only user of a memory for a while. A host function: an abort does not end it once it runs."""
        data = allocation.data
        if not allocation.alive:
            if "left out the wait" not in str(allocation.freed_by):
                self.wrong.append(f"{stamp}: {allocation!r} was taken away")
            return
        data[:8].view(np.int64)[0] = stamp
        for _ in range(self.random.choice((1, 3, 6))):
            time.sleep(0.0005)
            if data[:8].view(np.int64)[0] != stamp or not allocation.alive:
                self.wrong.append(f"{stamp}: {allocation!r} was given to another")
                return
        self.uses += 1

    def step(self, number: int) -> None:
        """Let one stream use new memory for a while, and another one free it behind that; end one of them early."""
        how = self.random.choice(("event", "chain", "value", "null", "far"))
        third = self.random.choice(self.free)
        if how == "null":  # no wait is written down: null-stream order is enough
            user, owner = self.random.choice(self.blocking), self.null
            if self.random.random() < 0.5:
                user, owner = owner, user
            third = self.random.choice(self.blocking)
        else:
            owner = self.random.choice([each for each in self.near() if each is not third])
            user = self.random.choice([each for each in (*self.free, *self.blocking) if each not in (owner, third)])
            user = self.far[0] if how == "far" else user
        try:
            x = owner.empty(KIB, np.uint8, self.pool)
        except OutOfMemory:
            return
        if how != "null":
            user.wait(owner)
        using = user.call(self.use, x.allocation, number)
        if how == "value":
            word = self.device.allocate(4)
            word.allocation.data[:] = 0
            user.write_value(word, 1)
            owner.wait_value(word, 1, "Eq")
            self.words.append((using, word))
        elif how == "chain":
            third.wait(user)
            owner.wait(third)
        elif how != "null":
            owner.wait(user)
        x.release_in(queue_of(owner))
        if self.random.random() < 0.5:  # it may get the same memory behind that free, and so may who waits for it
            other = self.random.choice((owner, owner, third))
            if other is not owner:
                other.wait(owner)
            self._use_briefly(other, -number)
        self._end_early(user, owner, third)

    def _end_early(self, user: atops.Stream, owner: atops.Stream, third: atops.Stream) -> None:
        chance = self.random.random()
        if chance < 0.35:
            time.sleep(self.random.choice((0, 0.001)))  # the memory is in use by then
            self.random.choice((user, owner, owner, third)).abort()
            self.take()
        elif chance < 0.4:
            self.random.choice((user, owner, third)).call(fail)
        elif chance < 0.43:
            self.peer.reset_sync()
            self.take()
            self.far = streams(self.peer, "f")

    def take(self) -> None:
        """Use memory of that size that is given out now, in a stream that waits for no other one."""
        for stamp in range(-(10**6), -(10**6) + 3):
            self._use_briefly(self.taker, stamp)

    def _use_briefly(self, stream: atops.Stream, stamp: int) -> None:
        with contextlib.suppress(OutOfMemory):
            x = stream.empty(KIB, np.uint8, self.pool)
            stream.call(self.use, x.allocation, stamp)
            x.release_in(queue_of(stream))

    def settle(self) -> None:
        """Let all streams come to their ends. A value that was dropped is written here, once its user is over."""
        for using, word in self.words:
            with contextlib.suppress(AtopsError):
                using.wait_sync(PATIENCE)
            self.opener.write_value(word, 1).wait_sync(PATIENCE)
        self.words.clear()
        everything = (*self.near(), *self.far, self.taker)
        for stream in everything:
            with contextlib.suppress(AtopsError):
                stream.sync(PATIENCE)
        for stream in everything:  # not before all are through: what follows a skipped wait is in no order
            stream.clear_error()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_memory_in_use_goes_to_no_other(seed: int) -> None:
    """However waits are dropped and skipped: nothing hangs, no memory has two users, and all of it comes back."""
    with board(trace=0, abort_grace=PATIENCE) as device:
        work = Work(device, seed)
        for number in range(1, 161):
            work.step(number)
            if number % 4 == 0:
                work.settle()
        work.settle()
        assert not work.wrong and work.uses > 100
        figures = work.pool.statistics()
        assert (figures.promised, figures.live) == (0, 0)
        assert all(queue_of(stream).lost is None for stream in work.near())


def fail() -> None:
    """Fail."""
    raise ValueError("broken")
