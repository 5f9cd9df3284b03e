"""Short copies that the drain carries out in a run: what they do and leave behind is what one by itself does."""

from __future__ import annotations

from threading import Semaphore
from typing import Any

import numpy as np
import pytest

import atops
from atops.base.errors import IllegalAddress
from atops.runtime.commands.copy import Copy, CopyCompletion
from tests.runtime.boards import PATIENCE, board, device
from tests.runtime.latch import hold

SIZE = 64
TOLD = ("kind", "device", "status", "bytes", "dst_device", "dst_offset", "src_device", "src_offset", "name", "engine")


def ends_of(here: atops.Device) -> dict[str, tuple[Any, Any]]:
    """Return the destination and the source of copies each way, between parts of memory and all of it."""
    memory, other, pinned = here.allocate(4 * SIZE), here.allocate(4 * SIZE), here.host_malloc(SIZE)
    part, array = other[SIZE : 2 * SIZE], np.arange(SIZE, dtype=np.uint8)
    return {
        "within": (memory[3 * SIZE :], part), "whole": (memory, other),
        "up": (part, array), "up, pinned": (part, pinned),
        "down": (np.zeros(SIZE, np.uint8), part), "down, pinned": (pinned, part),
    }  # fmt: skip


@pytest.mark.parametrize("way", ["within", "whole", "up", "up, pinned", "down", "down, pinned"])
def test_the_records_of_a_run_are_those_of_single_copies(way):
    """The same but for number and times; a stream with a limit carries out each copy by itself."""
    with board(trace=64) as driver:
        here = atops.Device(0, driver)
        target, source = ends_of(here)[way]
        found: list[list[object]] = []
        for stream in (here.create_stream(), here.create_stream(capacity=8)):
            latch = hold(stream)
            items = [stream.copy(target, source) for _ in range(3)]
            latch.release()
            stream.sync(PATIENCE)
            records = {record.seq: record for record in driver.tracer.records()}
            found += [[getattr(records[item.seq], name) for name in TOLD] for item in items]
        assert len(found) == 6
        assert all(record == found[0] for record in found)


def test_a_part_of_memory_is_copied_to_another_part():
    """Neither end begins where its memory does, and what is beside them stays."""
    with device() as here:
        stream = here.create_stream()
        one, two = here.allocate(16), here.allocate(16)
        stream.copy(one, bytes(range(16)))
        stream.fill(two, 255)
        stream.copy(two[4:8], one[8:12])
        stream.copy(two[12:], one[:4])
        assert [*stream.fetch(two).wait_sync(PATIENCE)] == [255] * 4 + [8, 9, 10, 11] + [255] * 4 + [0, 1, 2, 3]


@pytest.mark.parametrize("size", [SIZE, 0])
def test_memory_that_is_freed_before_its_turn_fails_the_copy(size):
    """Of no bytes, too: the copy before it is done, and the memory is named."""
    with device() as here:
        stream, other = here.create_stream(), here.create_stream()
        kept, freed = here.allocate(SIZE), other.allocate(SIZE)
        latch = hold(stream)
        first = stream.copy(kept, bytes(SIZE))
        last = stream.copy(freed, kept, size)
        other.free(freed)
        other.sync(PATIENCE)
        latch.release()
        first.wait_sync(PATIENCE)
        with pytest.raises(IllegalAddress, match="freed by"):
            last.wait_sync(PATIENCE)


@pytest.mark.parametrize("fails", [True, False])
def test_whoever_waits_for_a_copy_of_a_run_is_woken(fails):
    """Each waiter of each copy, well or not."""
    with device() as here:
        stream, freed = here.create_stream(), here.allocate(SIZE)
        latch, ended = hold(stream), Semaphore(0)
        copies = [stream.copy(here.allocate(SIZE), bytes(SIZE)) for _ in range(3)]
        copies += [stream.copy(freed, bytes(SIZE)), stream.copy(here.allocate(SIZE), bytes(SIZE))]
        for each in copies * 2:
            each.add_done_callback(lambda _: ended.release())
        if fails:
            here.context.memory.free(freed.allocation, "the test")
        latch.release()
        assert all(ended.acquire(timeout=PATIENCE) for _ in copies * 2)
        assert [each.exception() is None for each in copies] == [True] * 3 + [not fails] * 2
        stream.clear_error()


def test_what_a_copy_was_given_is_its_command_until_it_is_over():
    """As a record with the fields' names; then what is left says that it was a copy."""
    with device() as here:
        stream = here.create_stream()
        one, two = here.allocate(2 * SIZE), here.allocate(SIZE)
        latch = hold(stream)
        item = stream.copy(one[SIZE:], two)
        assert isinstance(item, CopyCompletion)
        assert isinstance(item.command, Copy)
        assert item.command[:5] == (one.allocation, SIZE, two.allocation, 0, SIZE)
        assert [getattr(item, name) for name in Copy._fields] == [*item.command]
        latch.release()
        item.wait_sync(PATIENCE)
        assert "copy on" in repr(item)
        assert item.dst is item.src is None
