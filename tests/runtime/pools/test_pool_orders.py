"""What a pool knows of the order of real streams: whose work is waited for when a freed block goes to another one."""

from __future__ import annotations

import numpy as np
import pytest

from atops.base.errors import ExecutionError, OutOfMemory, StreamAborted, StreamFull
from atops.runtime.core.order import REMEMBERED
from atops.runtime.device import Device
from atops.runtime.stream import queue_of
from tests.runtime.boards import PATIENCE, Latch, board, device


def test_null_streams_of_two_devices_have_two_orders() -> None:
    """Waiting for the null stream of one device says nothing of what was freed in that of another."""
    with board(devices=2) as driver:
        here, there = Device(0, driver), Device(1, driver)
        gate = Latch(here)
        stream = here.create_stream(nonblocking=True)
        first = here.null_stream.allocate(4096)
        gate.hold(here.null_stream)
        here.null_stream.free(first)
        stream.wait(there.null_stream.record())
        second = stream.allocate(4096)
        assert second.address != first.address
        stream.wait(here.null_stream.record())
        assert stream.allocate(4096).address == first.address
        gate.open()


def test_a_refused_wait_orders_nothing() -> None:
    """A wait that a full stream did not take is none."""
    with device() as place:
        gate = Latch(place)
        one, full = place.create_stream(nonblocking=True), place.create_stream(nonblocking=True, capacity=1)
        first = one.allocate(4096)
        gate.hold(one)
        one.free(first)
        gate.hold(full)
        with pytest.raises(StreamFull):
            full.wait(one.record())
        full.abort()
        full.sync()
        assert full.allocate(4096).address != first.address
        gate.open()


def test_streams_that_are_gone_are_forgotten() -> None:
    """A stream that waits for events of ever new streams keeps a note of the last ones, and of those it has them."""
    with device() as place:
        main = place.create_stream()
        for _ in range(2 * REMEMBERED):
            passing = place.create_stream(nonblocking=True)
            main.wait(passing.record())
            passing.close()
        gate, one = Latch(place), place.create_stream(nonblocking=True)
        first = one.allocate(4096)
        gate.hold(one)
        one.free(first)
        main.wait(one.record())
        assert len(queue_of(main).waited or ()) <= REMEMBERED
        assert main.allocate(4096).address == first.address
        gate.open()


@pytest.mark.parametrize("how", ["failed", "aborted while it waits", "aborted before"])
def test_a_skipped_wait_frees_nothing_that_is_in_use(how: str) -> None:
    """What a stream frees behind a wait that it skips is there until the event is over, and not given out till then.

    The stream itself does not wait: what uses the memory may wait for something that was skipped as well.
    """
    with board() as driver:
        place = Device(0, driver)
        gate, user, owner = Latch(place), place.create_stream(nonblocking=True), place.create_stream(nonblocking=True)
        memory = owner.zeros(1024, np.int32)
        owner.sync()
        gate.hold(user)
        used = user.fill(memory, 7)
        value = user.fetch(memory)
        record = user.record()
        before = Latch(place) if how == "aborted before" else None
        if before is not None:
            before.hold(owner)
        if how == "failed":
            owner.call(broken_call)
        waiting = owner.wait(record)
        owner.free(memory)
        if how == "failed":
            with pytest.raises(ExecutionError, match="broken"):
                owner.sync(PATIENCE)
            owner.clear_error()
        else:
            owner.abort()
            with pytest.raises(StreamAborted):
                waiting.wait_sync(PATIENCE)
            if before is not None:
                before.open()
            owner.sync(PATIENCE)
        other = owner.zeros(1024, np.int32)
        owner.sync(PATIENCE)
        assert other.address != memory.address
        gate.open()
        used.wait_sync(PATIENCE)
        assert (value.wait_sync(PATIENCE) == 7).all()
        record.sync(PATIENCE)
        assert owner.zeros(1024, np.int32).address == memory.address
        for stream in (owner, user):
            stream.close()


@pytest.mark.parametrize("rule", ["event", "internal dependency"])
def test_what_a_skipped_wait_frees_goes_to_no_other_stream(rule: str) -> None:
    """Not to one that waits for an event behind the free, and not where nothing else is left, while it is in use."""
    with device() as place:
        gate = Latch(place)
        owner, user, other = (place.create_stream(nonblocking=True) for _ in range(3))
        pool = place.create_pool(max_size=1 << 20)
        memory = owner.allocate(1 << 20, pool)
        owner.sync(PATIENCE)
        gate.hold(user)
        used = user.fill(memory, 7)
        owner.wait(user.record())
        owner.abort()
        owner.free(memory)
        owner.sync(PATIENCE)
        if rule == "event":
            other.wait(owner.record())
        with pytest.raises(OutOfMemory, match="left out waits"):
            other.allocate(1 << 20, pool)
        gate.open()
        used.wait_sync(PATIENCE)
        user.sync(PATIENCE)
        assert other.allocate(1 << 20, pool).address == memory.address


def broken_call() -> None:
    """Fail."""
    raise ValueError("broken")
