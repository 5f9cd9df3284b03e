"""Looking at device memory: the right allocation, only while it lives, typed, with what changed."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from atops.device.memory.allocation import Allocation
from atops.runtime.driver import Driver, board_of
from atops_widgets.memory_map.contents import DTYPES, WINDOW, Contents, Look, rows_of, told
from tests.every import every
from tests.runtime.boards import board


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A driver whose details have a subscriber."""
    with board(trace=100) as driver, driver.tracer.detailed():
        yield driver


def place(driver: Driver, allocation: Allocation) -> tuple[int, int, int]:
    """Return what a page knows of an allocation: device, offset and generation."""
    changes = driver.tracer.details_since().changes
    (number,) = {each.generation for each in changes[-1:]}
    return 0, allocation.offset, number


def test_values_are_typed(driver: Driver) -> None:
    """The same bytes as any type, in rows; the window is bounded and moves in whole windows."""
    memory = board_of(driver).context(0).memory
    held = memory.allocate(3 * WINDOW)
    held.data[:] = np.arange(3 * WINDOW // 4, dtype=np.float32).view(np.uint8)
    contents = Contents(driver)
    look = contents.look(*place(driver, held), 0)
    assert (look.error, len(look.data), look.size, look.looks) == ("", WINDOW, 3 * WINDOW, 1)
    rows = rows_of(look, "float32")
    assert rows[1][0] == 32 and rows[1][1] == ["8", "9", "10", "11", "12", "13", "14", "15"]
    assert len(rows_of(look, "uint8")[0][1]) == 16 and rows_of(look, "no such type") == rows_of(look, "uint8")
    assert contents.look(*place(driver, held), 2 * WINDOW + 5).first == 2 * WINDOW
    assert contents.look(*place(driver, held), 10**9).first == 2 * WINDOW


@every("dtype", DTYPES)
def test_every_type_tells_its_values(dtype: str) -> None:
    """A value written as a type is read as that type; bytes that make no whole value are left out."""
    data = np.array([1.5 if "float" in dtype else 3], dtype=dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
    found = rows_of(Look(1, 0, 9, data.tobytes() + b"x", bytes(data.nbytes + 1)), dtype)
    assert found[0][1][0] == ("1.5" if "float" in dtype else "3")
    assert sum(len(row[1]) for row in found) == (data.nbytes + 1) // data.itemsize


def test_what_changed_since_the_last_look_is_marked(driver: Driver) -> None:
    """The first look marks nothing, the second what was stored between, the third nothing again."""
    held = board_of(driver).context(0).memory.allocate(64)
    held.data[:] = 0
    contents, where = Contents(driver), place(driver, held)
    assert not any(contents.look(*where, 0).changed)
    held.data[9] = 7
    look = contents.look(*where, 0)
    assert (np.flatnonzero(np.frombuffer(look.changed, np.uint8)).tolist(), look.looks) == ([9], 2)
    found = told(look, "int32")
    assert found is not None
    assert [text.strip() for text, new in found["parts"] if new] == ["*1792"]
    assert found["text"] == "bytes 0 to 64 of 64 as int32; 1 values changed since the last look, marked *"
    assert not any(contents.look(*where, 0).changed)


def test_freed_memory_is_refused(driver: Driver) -> None:
    """Neither a freed range nor one that has another owner now shows bytes, and the reason names it."""
    memory = board_of(driver).context(0).memory
    held = memory.allocate(256)
    contents, where = Contents(driver), place(driver, held)
    memory.free(held)
    look = contents.look(*where, 0)
    assert look.data == b"" and "freed by" in look.error
    again = memory.allocate(256)
    assert again.offset == held.offset
    look = contents.look(*where, 0)
    assert look.data == b"" and "new owner" in look.error
    assert told(look, "uint8") == {"generation": where[2], "first": 0, "text": look.error, "parts": []}
    assert contents.look(*place(driver, again), 0).error == ""


def test_an_owner_whose_range_is_promised_to_another_is_found(driver: Driver) -> None:
    """Two allocations live in one range while the first one's free is queued: each shows under its own number."""
    memory = board_of(driver).context(0).memory
    first = memory.allocate(512)
    where = place(driver, first)
    second = memory.renew(first, 100)
    contents = Contents(driver)
    assert contents.look(*where, 0).size == 512
    assert contents.look(*place(driver, second), 0).size == 100


def test_a_trace_and_a_device_without_memory_say_so(driver: Driver) -> None:
    """A recorded trace holds no contents; a device that was never used has none."""
    assert "recorded trace" in Contents(None).look(0, 0, 1, 0).error
    assert "device 5" in Contents(driver).look(5, 0, 1, 0).error


def test_an_empty_allocation_has_no_values(driver: Driver) -> None:
    """Zero bytes are no error and no rows."""
    held = board_of(driver).context(0).memory.allocate(0)
    look = Contents(driver).look(*place(driver, held), 0)
    assert (look.error, look.data, rows_of(look, "int32")) == ("", b"", [])
