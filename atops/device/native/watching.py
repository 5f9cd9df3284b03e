"""What an instrumented launch was seen to do: its races, what it read unwritten, and the memory that it used.

The runtime notes it in a shadow of the memories (`src/watch.cpp`); at the end of the launch it is told to the launch's
detector, as what kernels in Python do is.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, byref, c_char_p, c_int32, c_uint8, c_uint32, c_uint64
from typing import TYPE_CHECKING, Final

from atops.device.call_site import Site
from atops.device.native.library import NativeModule, Range, runtime_library
from atops.device.races.detector import CONTEXT, OWN_CONTEXTS, UNWRITTEN
from atops.device.races.race import Access, Race, merged
from atops.device.races.thread_races import NEVER_WAITED
from atops.device.races.wording import meet, meets_itself, once_more

if TYPE_CHECKING:
    from atops.device.exec.grid import Grid
    from atops.device.memory.allocation import Allocation
    from atops.device.races.detector import LaunchDetector

__all__ = ("Watching", "site_in")

MOST_FRAMES, MOST_RANGES = 6, 16
RACE, IN_FLIGHT, ONE_CONTEXT, NEVER, UNREAD = range(5)
WRITES, ATOMIC, TRANSFERS = 1, 2, 4
GLOBAL, SHARED = 1, 2
KINDS: Final = {ONE_CONTEXT: CONTEXT, NEVER: NEVER_WAITED, UNREAD: UNWRITTEN, IN_FLIGHT: "transfer in flight"}


class _Where(Structure):
    """A place of the program: machine code and what called it, or a file and line."""

    _fields_ = (
        ("frames", c_uint64 * MOST_FRAMES), ("frame_count", c_int32), ("file", c_char_p), ("line", c_int32),
        ("what", c_char_p), ("block", c_uint32), ("phase", c_uint32),
    )  # fmt: skip


class _Finding(Structure):
    """Two accesses in no order, or one that was wrong by itself."""

    _fields_ = (
        ("kind", c_int32), ("space", c_int32), ("block", c_uint32), ("actors", c_uint32 * 2), ("wheres", c_uint32 * 2),
        ("does", c_uint8 * 2), ("range_count", c_int32), ("ranges", Range * MOST_RANGES), ("more", c_uint32),
    )  # fmt: skip


class Watching:
    """The shadow of one launch.

    `find` gives the live memory that an address of the host is in, `constants` is what kernels only read.
    """

    def __init__(
        self, grid: Grid, module: NativeModule, find: Callable[[int], Allocation | None],
        constants: Sequence[Allocation],
    ) -> None:  # fmt: skip
        library = runtime_library()
        self._library, self._module, self._grid, self._find = library, module, grid, find
        self.address: int = library.atops_shadow()
        weakref.finalize(self, library.atops_shadow_free, self.address).atexit = False
        for each in constants:
            low = each.host_address
            library.atops_shadow_constant(self.address, low, low + each.size, (each.label or "").encode())

    def place(self, number: int) -> Site | None:
        """Return a place of the program; None where it is not known."""
        where = _Where()
        self._library.atops_shadow_where(self.address, number, byref(where))
        if where.frame_count:
            found = self._module.place_of(where.frames[: where.frame_count])
            return None if found is None else site_in(*found)
        if not where.file:
            return None
        return site_in(self._grid.name, where.file.decode("utf-8", "replace"), where.line)

    def tell(self) -> None:
        """Tell the detector of the launch, which is over. One that was abandoned may still go on, and tells nothing."""
        detector = self._grid.detector
        assert detector is not None, "it is why the launch is watched"
        if not self._library.atops_shadow_hold(self.address):
            return
        try:
            self._tell(detector)
        finally:
            self._library.atops_shadow_release(self.address)

    def _tell(self, detector: LaunchDetector) -> None:
        accesses, same = c_uint64(), c_uint64()
        self._library.atops_shadow_counts(self.address, byref(accesses), byref(same))
        detector.accesses += accesses.value
        detector.same_value += same.value
        found = POINTER(_Finding)()
        count = self._library.atops_shadow_found(self.address, byref(found))
        self._look_up([found[each] for each in range(count)])
        for each in range(count):
            detector.tell(self._race(found[each]))
        for write in (True, False):
            ranges = POINTER(Range)()
            count = self._library.atops_shadow_touched(self.address, write, byref(ranges))
            memories: list[tuple[int, int, Allocation]] = []
            for each in range(count):
                low, high = ranges[each].low, ranges[each].high
                if not memories or not memories[-1][0] <= low < memories[-1][1]:
                    if (memory := self._find(low)) is None:
                        continue
                    memories.append((*_bounds(memory), memory))
                base, _, memory = memories[-1]
                detector.touched(memory, low - base, high - low, write)

    def _look_up(self, findings: list[_Finding]) -> None:
        """Have the lines of all places read at once."""
        counters: list[int] = []
        for number in {number for each in findings for number in each.wheres}:
            where = _Where()
            self._library.atops_shadow_where(self.address, number, byref(where))
            counters += where.frames[: where.frame_count]
        self._module.read_lines(counters)

    def _race(self, found: _Finding) -> Race:
        grid, space = self._grid, found.space
        first, second = (self._access(found, side) for side in (0, 1))
        ranges = [(each.low, each.high) for each in found.ranges[: found.range_count]]
        offset = -1
        memory = f"shared memory of block {self._index(found.block)}"
        if found.kind in (ONE_CONTEXT, NEVER):
            ranges = []  # it is no matter of bytes
        if found.kind == ONE_CONTEXT:
            memory = f"a DTE context of block {self._index(found.actors[0] // grid.threads_per_block)}"
        elif found.kind == NEVER:
            memory = f"the {first.what.removeprefix('issues ')}"
        elif space == GLOBAL:
            memory = f"memory of {grid.name}"
            if (allocation := self._find(ranges[0][0])) is not None:
                base, _ = _bounds(allocation)
                ranges = [(low - base, high - base) for low, high in ranges]
                memory, offset = repr(allocation), allocation.offset
        elif space != SHARED:
            memory = f"local memory of {second.actor}"
        name = {GLOBAL: "global", SHARED: "shared"}.get(space, "local")
        kind = KINDS.get(found.kind, f"race in {name} memory")
        return Race(kind, first, second, memory, grid.chip.ordinal, merged(ranges), self._advice(found, first, second),
                    offset)  # fmt: skip

    def _access(self, found: _Finding, side: int) -> Access:
        actor, number, does = found.actors[side], found.wheres[side], found.does[side]
        grid = self._grid
        block, thread = divmod(actor, grid.threads_per_block)
        x, y, z = _index(thread, grid.block_dim)
        what = "stores" if does & WRITES else "loads"
        if found.kind == UNREAD and side == 0:
            what = "takes the memory, which nothing has stored to"
        elif does & TRANSFERS:
            where = _Where()
            self._library.atops_shadow_where(self.address, number, byref(where))
            name = (where.what or b"a transfer").decode()
            what = f"{name} {'writes' if does & WRITES else 'reads'}"
            if found.kind in (ONE_CONTEXT, NEVER):
                what = f"issues {name}" if found.kind == NEVER else "uses the context"
        elif does & ATOMIC:
            what = "updates" if does & WRITES else "loads atomically"
        i, j, k = self._index(block)
        name = f"thread ({x},{y},{z}) of block ({i},{j},{k}) of kernel {grid.name}"
        if found.kind == NEVER and side == 1:
            return Access(name, "goes on without it", False, None, f"kernel {grid.name}", -1, (block, thread))
        return Access(name, what, bool(does & WRITES), self.place(number), f"kernel {grid.name}", -1, (block, thread))

    def _index(self, block: int) -> tuple[int, int, int]:
        return _index(block, self._grid.grid_dim)

    def _advice(self, found: _Finding, first: Access, second: Access) -> str:
        lines = " and ".join(dict.fromkeys(f"line {each.site.line}" for each in (first, second) if each.site))
        if found.kind == UNREAD:
            return "store to these bytes before they are read: a scratchpad begins with what the last kernel left there"
        if found.kind == NEVER:
            return "tops::wait for the event of the transfer before the thread ends"
        assert first.thread is not None and second.thread is not None, "both are a thread's"
        if found.kind == IN_FLIGHT:
            event = f"tops::wait for the event of the transfer of {first.site}"
            if first.thread == second.thread:
                return f"{event} before the other access"
            return f"{event} in the thread that issues it, with a barrier behind that, before the other access"
        if found.kind == ONE_CONTEXT:
            return OWN_CONTEXTS
        one_block = first.thread[0] == second.thread[0]
        barrier = "`__syncthreads()`" if one_block else "`__syncblocks()`" if self._grid.cooperative else ""
        if " and " not in lines:
            return meets_itself(lines, first.write and second.write, barrier)
        if barrier and (in_order := self._before(found)) is not None:
            again, now = lines.split(" and ")[:: 1 if in_order else -1]
            return once_more(again, now, barrier)
        if barrier:
            return meet(lines, barrier)
        return (
            f"blocks of one launch run in any order ({lines}): give each block bytes of its own, launch a second "
            "kernel, or launch cooperatively with `__syncblocks()` between them"
        )

    def _before(self, found: _Finding) -> bool | None:
        """Tell whether a barrier lay between the first time at the one line and at the other; None: no, or not known.

        Then what races is the other, and the one again. True where the one is the first side.
        """
        one, other = _Where(), _Where()
        for number, where in zip(found.wheres, (one, other), strict=True):
            self._library.atops_shadow_where(self.address, number, byref(where))
        return one.phase < other.phase if one.block == other.block and one.phase != other.phase else None


def _bounds(allocation: Allocation) -> tuple[int, int]:
    low = allocation.data.__array_interface__["data"][0]
    return low, low + allocation.size


def _index(linear: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // x // y


def site_in(function: str, file: str, line: int, calls: tuple[str, ...] = ()) -> Site:
    """Return a place in a text that is no Python; `calls`: names of functions that are called there."""
    code = _nowhere.__code__.replace(
        co_filename=file, co_firstlineno=line, co_name=function, co_qualname=function, co_names=calls
    )
    return Site(code, 0)


def _nowhere() -> None:
    """Lend its code to the places."""
