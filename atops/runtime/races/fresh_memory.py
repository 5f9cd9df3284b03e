"""Device memory that was allocated and never stored to: a read of it finds whatever was there before.

Only memory whose allocation was seen is looked at, and none that numpy or other processes may store to unseen. A copy
to other device memory reads nothing of it: what was not written at its source is not written at its target. Nor does a
copy to the host, or to memory that the host sees: whether the host uses what it brings cannot be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias
from weakref import ref

from atops.device.call_site import Site
from atops.device.memory.allocation import Allocation
from atops.device.races.detector import LaunchDetector, Touched
from atops.device.races.race import Access, Race, merged
from atops.device.races.unwritten import ByteRanges
from atops.runtime.commands.copy import Copy, ScatteredCopy
from atops.runtime.core.commands import Touch
from atops.runtime.races.command_clock import Epoch
from atops.runtime.races.report import Findings
from atops.runtime.races.wording import access_of, api_of, unused

__all__ = ("UNWRITTEN", "FreshMemory")

UNWRITTEN: Final = "read of unwritten memory"
NOTHING_STORED: Final = "stores nothing there, nor does any command since, but copies of such bytes"
MOST: Final = 4_096  # ranges of one memory: with more all of it counts as written
_Read: TypeAlias = tuple[Allocation, int, int, bool]  # bytes of a memory, and whether they are stored to
_Unread: TypeAlias = tuple[Allocation, list[tuple[int, int]]]


class FreshMemory:
    """The bytes of each memory that nothing has stored to. The detector's lock guards all of it.

    `in_a_kernel` tells whether a kernel that runs was given a memory: what it has stored there is not known yet.
    """

    def __init__(self, findings: Findings, in_a_kernel: Callable[[Allocation], bool]) -> None:
        self._findings, self._in_a_kernel = findings, in_a_kernel
        self._left: dict[int, tuple[ByteRanges, ref[Allocation]]] = {}  # by serial; none for what is written

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._left)

    def allocated(self, memory: Allocation) -> None:
        """Note that memory is new."""
        if memory.host_visible or memory.device is None or not memory.size:
            return
        left, serial = self._left, memory.serial
        ranges = ByteRanges()
        ranges.add(0, memory.size)
        left[serial] = ranges, ref(memory, lambda _: left.pop(serial, None))

    def stored(self, memory: Allocation, start: int, stop: int) -> None:
        """Note a store."""
        if (found := self._left.get(memory.serial)) is not None:
            found[0].remove(start, stop)
            if not found[0] or len(found[0]) > MOST:
                del self._left[memory.serial]

    def begins(self, epoch: Epoch, kind: type, touches: list[Touch]) -> list[Race]:
        """Return the reports of a command that begins. A copy uses no byte that it moves."""
        device = [(each[0], *each[1:]) for each in touches if isinstance(each[0], Allocation)]
        if kind is not Copy and kind is not ScatteredCopy:
            return _races_of(self._unread(device), epoch)
        shown = any(memory.host_visible for memory, _, _, write in device if write)  # pinned, say: as to the host
        if len(device) < len(touches) or shown:
            self._show(epoch, [each for each in device if not each[3]])
        elif kind is Copy and len(touches) == 2 and not self._in_a_kernel(device[0][0]):
            self.copied(*touches)
            return []
        self._unread([each for each in device if each[3]])
        return []

    def launches(self, memories: Iterable[Allocation], kernels: LaunchDetector) -> None:
        """Tell a launch that begins what of its memory nothing has stored to."""
        for memory in memories:
            if ranges := self.left(memory, 0, memory.size):
                kernels.begins_unwritten(memory, ranges)

    def launched(
        self, epoch: Epoch, footprint: list[Touched], early: list[Touched],
        lines: Mapping[tuple[Site | None, bool, int], Epoch],
    ) -> list[Race]:  # fmt: skip
        """Return the reports of a launch that is over, of what its own threads had not stored to, either.

        `early` are its loads that came before any store of its own. What others have stored meanwhile is written.
        """
        found: list[Race] = []
        unread: dict[tuple[Allocation, Site | None, bool], list[tuple[int, int]]] = {}
        for memory, start, stop, _, line, relaxed, _ in early:
            if memory.alive and (ranges := self.left(memory, start, stop)):
                unread.setdefault((memory, line, relaxed), []).extend(ranges)
        for (memory, line, relaxed), ranges in unread.items():
            found += _races_of([(memory, ranges)], _of_line(lines, line, relaxed, epoch))
            for start, stop in ranges:
                self.stored(memory, start, stop)
        self._unread([(memory, start, stop, True) for memory, start, stop, write, *_ in footprint if write])
        for memory, start, stop, write, line, relaxed, part in footprint:
            if not write:
                found += _races_of(self._unread([(memory, start, stop, False)]), lines[line, relaxed, part])
        return found

    def _unread(self, touches: list[_Read]) -> list[_Unread]:
        """Return what of these reads nothing has stored to. What kernels that run may have stored to is not known."""
        for memory, start, stop, write in touches:
            if write:
                self.stored(memory, start, stop)
        found = []
        for memory, start, stop, write in touches:
            if write or not memory.alive or self._in_a_kernel(memory):
                continue
            if ranges := self.read(memory, start, stop):
                found.append((memory, ranges))
        return found

    def _show(self, epoch: Epoch, reads: list[_Read]) -> None:
        """Note what the host is shown of what nothing has stored to: what it does with it is not seen.

        Beside bytes that were written it is padding, as a rule, and counted.
        """
        unwritten = sum(
            end - first
            for memory, start, stop, _ in reads if not self._in_a_kernel(memory)
            for first, end in self.left(memory, start, stop)
        )  # fmt: skip
        self._findings.padding += unwritten
        if unwritten and unwritten == sum(stop - start for _, start, stop, _ in reads):
            for memory in dict.fromkeys(memory for memory, *_ in reads):
                self._findings.escaped(unused(memory, epoch))

    def left(self, memory: Allocation, start: int, stop: int) -> list[tuple[int, int]]:
        """Return what of these bytes nothing has stored to."""
        found = self._left.get(memory.serial)
        if found is None:
            return []
        if memory.host_visible:  # by now
            del self._left[memory.serial]
            return []
        return found[0].common(start, stop)

    def read(self, memory: Allocation, start: int, stop: int) -> list[tuple[int, int]]:
        """Return what of a read nothing has stored to; it is not returned again."""
        ranges = self.left(memory, start, stop)
        self.stored(memory, start, stop)
        return ranges

    def copied(self, source: Touch, target: Touch) -> None:
        """Note a copy within device memory: what is not written is not written there, either."""
        (memory, start, stop, _), (into, at, end, _) = source, target
        assert isinstance(memory, Allocation) and isinstance(into, Allocation)
        ranges = self.left(memory, start, stop)
        self.stored(into, at, end)
        if ranges and not into.host_visible:
            left, serial = self._left, into.serial
            if serial not in left:
                left[serial] = ByteRanges(), ref(into, lambda _: left.pop(serial, None))
            for low, high in ranges:
                left[serial][0].add(low - start + at, high - start + at)


def _of_line(
    lines: Mapping[tuple[Site | None, bool, int], Epoch], line: Site | None, relaxed: bool, epoch: Epoch
) -> Epoch:
    """Return the epoch of a line, in whatever part of its launch; that of the launch where it has none."""
    return next((each for (site, loose, _), each in lines.items() if (site, loose) == (line, relaxed)), epoch)


def _races_of(unread: Iterable[_Unread], epoch: Epoch) -> list[Race]:
    """Return the reports of reads of what nothing has stored to, once for each memory."""
    found = []
    for memory, ranges in unread:
        assert memory.device is not None, "only device memory is looked at"
        site = memory.site if isinstance(memory.site, Site) else None
        cure = f"by `{api}Memset` say" if (api := api_of(site)) else "or allocate with `zeros`"
        found.append(Race(
            UNWRITTEN, Access("the allocation", NOTHING_STORED, False, site, ""),
            access_of(epoch, False, memory.device), repr(memory), memory.device, merged(ranges),
            f"store to these bytes before they are read, {cure}: fresh memory holds anything",
            memory.offset,
        ))  # fmt: skip
    return found
