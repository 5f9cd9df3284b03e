"""Races of a report or of a trace, in one form: sides, lines of the program, bytes, and what would order them."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from atops.base.trace.records import Place, RaceEvent, RaceSide, Trace
from atops.device.call_site import file_shown
from atops.device.races.race import Access, Race, bytes_told

__all__ = ("CODE", "Excerpt", "Mend", "Sided", "Sighting", "excerpts", "mend_of", "sightings")

CODE: Final = re.compile(r"`([^`]+)`")  # in words
RECORDED: Final = re.compile(r"(\S+)\.record\(\)|EventRecord\(event, (\S+)\);")
NUMBER: Final = re.compile(r"(?<=^<Allocation) #\d+(?=:)")  # of all allocations of the process
SIZE: Final = re.compile(r"\b(\d+) bytes at ")
AROUND: Final = 2  # lines of the program above and below the one that raced
NEAR: Final = 8  # lines between two that are shown together

How: TypeAlias = Literal["barrier", "event", "wait"]


class Sided(NamedTuple):
    """One side of a race: who does what at which line; line 0 where this is not known."""

    actor: str
    what: str
    write: bool
    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """The file and the line, empty where they are not known."""
        return f"{file_shown(self.file)}:{self.line}" if self.line else ""


class Mend(NamedTuple):
    """What would put the sides in order: a barrier of both, an event from one to the other, or a wait of `of` alone."""

    how: How
    code: str
    """As the program would have it."""
    of: int
    """The side that comes first then: 0 or 1."""


class Sighting(NamedTuple):
    """A race as it is shown."""

    kind: str
    memory: str
    ranges: tuple[tuple[int, int], ...]
    advice: str
    sides: tuple[Sided, Sided]

    @property
    def bytes_told(self) -> str:
        """The bytes in words; empty where there are none."""
        return bytes_told(self.ranges) if self.ranges else ""

    @property
    def size(self) -> int:
        """The bytes of the whole memory, 0 where this is not known."""
        found = SIZE.search(self.memory)
        return int(found[1]) if found else 0


class Excerpt(NamedTuple):
    """Lines of a program: (number, text, which sides stand there: "", "1", "2" or "1 2")."""

    place: str
    lines: tuple[tuple[int, str, str], ...]


def sightings(source: Sequence[Race] | Trace) -> list[Sighting]:
    """Return the races of a report, or those of a trace."""
    if isinstance(source, Trace):
        return [_of_event(each, source.names.sites) for each in source.races]
    return [
        Sighting(
            each.kind,
            NUMBER.sub("", each.memory),
            each.ranges,
            each.advice,
            (_of_access(each.first), _of_access(each.second)),
        )
        for each in source
    ]


def _of_access(access: Access) -> Sided:
    site = access.site
    place = ("", 0, "") if site is None else (site.path, site.line, site.function)
    return Sided(access.actor, access.what, access.write, *place)


def _of_event(event: RaceEvent, sites: Mapping[int, Place]) -> Sighting:
    def side(told: RaceSide) -> Sided:
        return Sided(told.actor, told.what, told.write, *sites.get(told.site, Place("", 0, "")))

    return Sighting(event.kind, event.memory, event.ranges, event.advice, (side(event.first), side(event.second)))


def mend_of(race: Sighting) -> Mend | None:
    """Return what the advice of a race comes to in a picture; None where it is no order that is missing."""
    codes = CODE.findall(race.advice)
    if not codes or race.kind in ("deadlock", "lost wake-up", "priority inversion"):
        return None
    if (recorded := RECORDED.search(codes[0])) is not None:
        stream, second = recorded[1] or recorded[2], race.sides[1].actor.replace(" ", "_")
        is_second = stream == ("0" if recorded[2] and second == "null_stream" else second)
        return Mend("event", codes[0], int(is_second and race.sides[0].actor != race.sides[1].actor))
    for code in codes:
        if "sync" in code:
            return Mend("barrier", code, 0)
    if codes[0] == "await":
        return Mend("wait", "await the event of the transfer", 0)
    return None


def excerpts(sides: Sequence[Sided]) -> list[Excerpt]:
    """Return the lines of the program around both sides, once where they stand close together."""
    known = [(number, side) for number, side in enumerate(sides, 1) if side.line and linecache.getline(*side[3:5])]
    groups: list[list[tuple[int, Sided]]] = []
    for number, side in sorted(known, key=lambda each: (each[1].file, each[1].line)):
        last = groups[-1][-1][1] if groups else None
        if last is not None and last.file == side.file and side.line - last.line <= NEAR:
            groups[-1].append((number, side))
        else:
            groups.append([(number, side)])
    return [_excerpt(group) for group in groups]


def _excerpt(group: Sequence[tuple[int, Sided]]) -> Excerpt:
    first, last = group[0][1], group[-1][1]
    lines = []
    for line in range(max(1, first.line - AROUND), last.line + AROUND + 1):
        text = linecache.getline(first.file, line).rstrip("\n")
        sides = " ".join(sorted(str(number) for number, side in group if side.line == line))
        if text or sides:
            lines.append((line, text, sides))
    return Excerpt(f"{file_shown(first.file)}, {first.function}", tuple(lines))
