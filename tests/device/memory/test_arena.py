"""The bytes behind a device: sparse, at home when they can be, and mapped as long as anybody looks at them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from atops.base.errors import InvalidValue, OutOfMemory
from atops.device.memory.arena import PAGE, Arena, keeping_arenas

GIB = 1 << 30
HOME = 31 << 36  # the highest slot, which no default board of these tests uses

linux_only = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="sparse files in memory are Linux's")


def mapped(arena_name: str) -> int:
    """Count the mappings of arenas of this name in this process."""
    return Path("/proc/self/maps").read_text().count(f"/memfd:{arena_name} ")


def resident(arena: Arena) -> int:
    """Return the bytes that the file of an arena occupies now."""
    assert arena.fd is not None
    return os.fstat(arena.fd).st_blocks * 512


@linux_only
def test_48_gib_cost_nothing_until_touched():
    """An arena as large as a device's memory occupies nothing, then the pages that were written."""
    arena = Arena(48 * GIB, HOME, name="sparse")
    try:
        assert arena.source[0].size == len(arena.source[1]) == 48 * GIB
        assert resident(arena) == 0
        arena.source[0][:: 12 * GIB] = 7
        assert 0 < resident(arena) <= 16 * PAGE
        assert arena.source[1][36 * GIB] == 7
        assert arena.source[1][36 * GIB + 1] == 0
    finally:
        arena.close()


@pytest.mark.slow
@linux_only
def test_an_arena_lies_at_its_address_and_elsewhere_if_that_is_taken():
    """The first arena is at home, a second one of the same address is not, and their bytes are apart."""
    with_home, without = Arena(GIB, HOME), Arena(GIB, HOME)
    assert with_home.at_home and with_home.host_address == HOME == with_home.source[0].ctypes.data
    assert not without.at_home and without.host_address not in (0, HOME)
    with_home.source[0][5] = 1
    assert without.source[0][5] == 0
    with_home.close()
    without.close()
    gc.collect()
    again = Arena(GIB, HOME)
    assert again.at_home, "closing the first one and dropping its views must make room"
    again.close()


@pytest.mark.slow
@linux_only
def test_the_mapping_lives_until_its_last_view_dies():
    """A closed arena stays readable through views of either kind, and is unmapped when the last of them goes."""
    arena = Arena(GIB, HOME, name="lasting")
    arena.source[0][100] = 42
    tail = arena.source[0][50:]
    view = arena.source[1][100:101]
    arena.close()
    arena.close()
    assert arena.source[0].size == len(arena.source[1]) == 0
    assert arena.fd is None
    assert mapped("lasting") == 1
    assert tail[50] == view[0] == 42
    del tail
    gc.collect()
    assert mapped("lasting") == 1
    assert view[0] == 42
    del view
    gc.collect()
    assert mapped("lasting") == 0


@pytest.mark.slow
@linux_only
def test_3000_arenas_leak_neither_descriptors_nor_mappings():
    """Opening and closing 3,000 arenas leaves as many descriptors and mappings as before."""
    gc.collect()  # what others have left behind
    descriptors = len(os.listdir("/proc/self/fd"))
    for number in range(3_000):
        arena = Arena(48 * GIB, HOME, name="many")
        arena.source[0][number] = 1
        arena.close()
    del arena
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert mapped("many") == 0


@linux_only
def test_a_hole_gives_memory_back_and_reads_as_zero():
    """Whole pages inside a punched range go back to the system; the bytes around them stay."""
    arena = Arena(GIB, HOME)
    arena.source[0][: 64 * PAGE] = 9
    before = resident(arena)
    arena.punch(PAGE // 2, 33 * PAGE)
    assert before - resident(arena) == 32 * PAGE
    assert not arena.source[0][PAGE : 33 * PAGE].any()
    assert (arena.source[0][:PAGE] == 9).all()
    assert (arena.source[0][33 * PAGE : 64 * PAGE] == 9).all()
    arena.punch(10, PAGE - 20)
    assert arena.source[0][PAGE // 2] == 9, "no whole page was inside"
    for offset, length in ((-1, PAGE), (0, -1), (GIB - PAGE, 2 * PAGE)):
        with pytest.raises(InvalidValue, match="not inside"):
            arena.punch(offset, length)
    arena.close()


@linux_only
def test_what_the_system_has_no_room_for_is_out_of_memory():
    """A size beyond the address space raises OutOfMemory, naming the arena, and leaves no descriptor open."""
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OutOfMemory, match="'too large'"):
        Arena(1 << 60, HOME, name="too large")
    with pytest.raises(InvalidValue, match="0 bytes"):
        Arena(0, HOME)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_without_sparse_files_an_arena_is_an_anonymous_mapping(monkeypatch: pytest.MonkeyPatch):
    """Where the system has no memfd the arena works alike: bytes, views that outlive it, holes that change nothing."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    arena = Arena(1 << 20, HOME)
    assert arena.fd is None
    assert not arena.at_home
    assert arena.host_address == arena.source[0].ctypes.data
    arena.source[0][3] = 8
    arena.punch(0, 1 << 20)
    view = arena.source[1][3:4]
    arena.close()
    assert view[0] == 8


@pytest.mark.slow
@linux_only
def test_the_interpreter_may_exit_while_a_thread_writes():
    """Views in daemon threads stay mapped up to the very end of the process."""
    program = """
import threading
from atops.device.memory.arena import Arena
arena = Arena(1 << 30, 31 << 36)
started = threading.Event()
def write(view):
    while True:
        view[:] = 1
        started.set()
threading.Thread(target=write, args=(arena.source[0][: 1 << 16],), daemon=True).start()
started.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], timeout=60, check=False)
    assert done.returncode == 0


def test_views_are_writable_bytes():
    """The array is uint8, the memoryview has format B, and both are the same bytes."""
    arena = Arena(1 << 20, HOME)
    assert arena.source[0].dtype == np.uint8
    assert (arena.source[1].format, arena.source[1].readonly) == ("B", False)
    arena.source[1][1:3] = b"\x01\x02"
    assert arena.source[0][:4].tolist() == [0, 1, 2, 0]
    arena.close()


@linux_only
def test_a_mapping_is_kept_for_the_next_arena_at_its_place():
    """All 0 again; not while a view lives, not once it was lent, not elsewhere, and not after the block."""

    def made(home: int = HOME, name: str = "kept") -> Arena:
        arena = Arena(4 * PAGE, home, name=name)
        assert not arena.source[0].any()
        arena.source[0][:] = 7
        return arena

    with keeping_arenas():
        first = made()
        number, view = first.fd, first.source[0][5:6]
        first.close()
        second = made()
        assert not second.at_home
        del view
        third = made()
        assert third.fd == number
        assert third.at_home
        lent = third.lend()
        third.close()
        fourth = made(name="after it was lent")
        assert os.pread(lent, 1, 0) == b"\x07"
        os.close(lent)
        fourth.close()
        second.close()
        assert mapped("kept") == 0
        assert mapped("after it was lent") == 1
    assert mapped("after it was lent") == 0


@linux_only
def test_a_forked_child_leaves_what_is_kept_to_its_parent():
    """It takes no mapping that its parent keeps, and clears none that they have in common."""
    with keeping_arenas():
        arena, kept = Arena(4 * PAGE, HOME, name="parent"), Arena(PAGE, HOME + (1 << 35), name="kept")
        arena.source[0][:] = 7
        kept.close()
        child = os.fork()
        if child == 0:
            arena.close()
            own = Arena(PAGE, HOME + (1 << 35), name="child")
            own.source[0][:] = 9
            os._exit(0 if mapped("child") == 1 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert arena.source[0].min() == 7
        again = Arena(PAGE, HOME + (1 << 35), name="kept")
        assert not again.source[0].any()
        arena.close()
        again.close()
