"""What is found of a race: the two sides, the bytes, and what would order them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from atops.device.call_site import Site

__all__ = ("Access", "Race", "bytes_told", "merged")

MOST_RANGES = 4  # that are printed


@dataclass(frozen=True, slots=True)
class Access:
    """One side: `actor` does `what`, at a line of the program if that is known, as part of a command.

    `seq` is the number of that command, -1 where the report does not know it; `thread` the linear indices of block
    and thread of a kernel's.
    """

    actor: str
    what: str
    write: bool
    site: Site | None
    command: str
    seq: int = -1
    thread: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"{self.actor}: {self.what}" + ("" if self.site is None else f", at {self.site}")

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON; a place is {"file", "line", "function"}."""
        site, place = self.site, None
        if site is not None:
            place = {"file": site.path, "line": site.line, "function": site.function}
        return {
            "actor": self.actor, "what": self.what, "write": self.write, "place": place, "command": self.command
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses to the same bytes of `memory`, in no order; `advice` says what would order them.

    `ranges` are (first byte, end) in that memory; `device` is -1 for host memory. `offset` is where the memory begins
    in that of the device, -1 where it is no allocation there. A deadlock has no bytes, but `among`: what waits, which
    is "streams", "threads" of a kernel or "tasks".
    """

    kind: str
    first: Access
    second: Access
    memory: str
    device: int
    ranges: tuple[tuple[int, int], ...]
    advice: str
    offset: int = -1
    among: str = ""

    def __str__(self) -> str:
        where = f"{self.memory}, {self.bytes_shown}" if self.ranges else self.memory
        lines = [f"{self.kind}: {where}", f"  first:  {self.first}"]
        lines += [f"  second: {self.second}", f"  {self.advice}"]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON; ranges are [first byte, end]."""
        return {
            "kind": self.kind, "first": self.first.as_dict(), "second": self.second.as_dict(), "memory": self.memory,
            "device": self.device, "ranges": [list(each) for each in self.ranges], "advice": self.advice,
            "among": self.among,
        }  # fmt: skip

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two races one to a reader: the kind, and what the two lines of the program do."""
        sides = ((str(each.site), each.what) for each in (self.first, self.second))
        return (self.kind, *sorted(sides))

    @property
    def identity(self) -> str:
        """What two reports of one race have in common, also from two runs: the kind, and the lines of both sides."""
        return f"{self.kind}: {' and '.join(sorted(map(_line, (self.first, self.second))))}"

    @property
    def bytes_shown(self) -> str:
        """The ranges in words."""
        return bytes_told(self.ranges)


def _line(access: Access) -> str:
    site = access.site
    return f"{access.actor}, {access.what}" if site is None else f"{site.path}:{site.line}"


def bytes_told(ranges: Sequence[tuple[int, int]]) -> str:
    """Return ranges of bytes in words: "bytes 0 to 4, 8 to 12"."""
    shown = ", ".join(f"{start} to {stop}" for start, stop in ranges[:MOST_RANGES])
    more = len(ranges) - MOST_RANGES
    return f"bytes {shown}" + (f" and {more} more ranges" if more > 0 else "")


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges of bytes in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return tuple(found)
