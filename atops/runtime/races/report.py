"""The report of a driver: what races, what was observed, and what escaped the detectors."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from atops.base.html_table import Markup, columns, html_table
from atops.base.locks import fork_safe
from atops.base.log_fields import get_logger
from atops.base.trace.records import Place, RaceEvent, RaceSide
from atops.base.trace.tracer import Tracer
from atops.device.races.race import Access, Race

if TYPE_CHECKING:
    from atops.runtime.core.completion import Completion
    from atops.runtime.driver_board import Board

__all__ = ("CLOSED", "OFF", "Findings", "Report", "Verdict")

log = get_logger("atops.races")

Verdict: TypeAlias = Literal["clean", "race", "inconclusive"]
MEANING: Final[Mapping[str, str]] = {
    "clean": "of all that was observed, every two accesses to the same bytes are in order",
    "race": "accesses that nothing orders, reads of what nothing has written, or waits that cannot end, or not in time",
    "inconclusive": "no race was found, and not all was observed",
}
OFF: Final = "anything: the detectors are off; make the driver with EmulatorOptions(detect=True), or set ATOPS_DETECT=1"
CLOSED: Final[deque[Report]] = deque(maxlen=1)  # of the driver that was closed last
NUMBER: Final = re.compile(r"(?<=^<Allocation) #\d+(?=:)")
MOST: Final = 1_000  # races that a report keeps


@dataclass(frozen=True, slots=True)
class Report:
    """What the detectors of one driver have found so far: a snapshot, by `atops.report()` or `Driver.report()`.

    `verdict` is "race" where there are `races`; "inconclusive" where there are none and something was not seen, which
    `escapes` names; else "clean", which says no more than `observed`: how many commands, launches and bytes were
    compared. `schedule` repeats the run, where one under a schedule was observed. `print(report)` shows all of it, a
    notebook as a table; `to_json()` is for programs.
    """

    driver: str
    races: tuple[Race, ...] = ()
    escapes: tuple[str, ...] = ()
    observed: Mapping[str, int] = field(default_factory=dict)
    repeated: int = 0  # races that were found again, at the same two lines
    _said: Callable[[], str | None] | None = field(default=None, repr=False, compare=False)

    @property
    def schedule(self) -> str | None:
        """What a run under a schedule has chosen, as a string."""
        return None if self._said is None else self._said()

    @property
    def verdict(self) -> Verdict:
        """One of "clean", "race", "inconclusive"."""
        return "race" if self.races else "inconclusive" if self.escapes else "clean"

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {MEANING[self.verdict]}"]
        for number, race in enumerate(self.races, 1):
            lines += ["", *_numbered(number, str(race))]
        if self.races and self.repeated:
            lines += ["", f"found again at the same lines: {self.repeated} times"]
        if self.escapes:
            lines += ["", "not seen:", *(f"  {each}" for each in self.escapes)]
        if self.observed:
            lines += ["", "observed: " + ", ".join(f"{count:,} {what}" for what, count in self.observed.items())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        observed = ", ".join(f"{count:,} {what}" for what, count in self.observed.items())
        summary = html_table(f"Report of {self.driver}", (
            ("verdict", Markup(f"<b>{self.verdict}</b>: {MEANING[self.verdict]}")),
            ("found again", f"{self.repeated} times, at the same lines" if self.repeated else None),
            ("not seen", columns(("",), [(each,) for each in self.escapes]) if self.escapes else None),
            ("observed", observed or None),
        ))  # fmt: skip
        if not self.races:
            return summary
        rows = [
            (race.kind, str(race.first), str(race.second), f"{race.memory}, {race.bytes_shown}", race.advice)
            for race in self.races
        ]
        return summary + columns(("kind", "first", "second", "bytes", "what would order them"), rows)

    def to_json(self) -> str:
        """Return all of it as JSON: places are {"file", "line", "function"}, ranges [first byte, end]."""
        import json  # few programs ask for it

        return json.dumps({
            "verdict": self.verdict,
            "driver": self.driver,
            "races": [race.as_dict() for race in self.races],
            "repeated": self.repeated,
            "escapes": list(self.escapes),
            "observed": dict(self.observed),
            "schedule": self.schedule,
        }, indent=2)  # fmt: skip


def _numbered(number: int, text: str) -> list[str]:
    first, *rest = text.splitlines()
    return [f"{number}. {first}", *(f"   {line}" for line in rest)]


class Findings:
    """What is found on one board as it runs: kept once for each pair of lines, logged at once, told to the trace."""

    def __init__(self, board: Board, standing: Callable[[], Iterable[Race]]) -> None:
        self._board = board
        self._standing = standing  # what is a race unless it ends yet
        self._lock = fork_safe(threading.Lock())
        self._races: dict[str, Race] = {}
        self._escapes: dict[str, None] = {}
        self._repeated = 0
        self.commands = self.launches = self.bytes = self.accesses = 0
        self.relaxed = self.same_value = 0  # pairs in kernels that nothing orders, and that are no races
        self.padding = 0  # bytes that copies to the host took along with others, and that nothing has stored to

    def add(self, races: Iterable[Race], item: Completion | None = None) -> None:
        """Keep what is new, and say so: to the log, and to the trace. With no lock of the board held."""
        for race in races:
            key = race.identity
            with self._lock:
                if key in self._races or len(self._races) >= MOST:
                    self._repeated += 1
                    continue
                self._races[key] = race
            self._tell(race, item)

    @property
    def escapes(self) -> tuple[str, ...]:
        """What the detectors have not seen by now, in words."""
        with self._lock:
            return tuple(self._escapes)

    def escaped(self, what: str) -> None:
        """Note something that the detectors do not see."""
        if what not in self._escapes:
            self._escapes[what] = None

    def _tell(self, race: Race, item: Completion | None) -> None:
        board = self._board
        fields: dict[str, object] = {"driver": board.serial, "device": race.device, "seed": board.options.seed}
        if item is not None:
            fields |= {"stream": item.queue.label, "command": item.seq}
        board.tracer.race(_traced(race, -1 if item is None else item.seq, board.tracer))
        log.warning("%s", race, extra=fields)

    def tell_at_exit(self) -> None:
        """Log what still stands, and what was not seen if nothing was found: no report can be asked for any more."""
        self.add(self._standing())
        report = self.report()
        if report.verdict == "inconclusive":
            log.warning("%s", report, extra={"driver": self._board.serial})

    def report(self) -> Report:
        """Return what is known by now."""
        races = self.races
        with self._lock:
            escapes, repeated = tuple(self._escapes), self._repeated
        observed = {"commands": self.commands, "launches": self.launches, "bytes": self.bytes}
        aside = {
            "accesses in kernels": self.accesses,
            "pairs that k.relaxed allows": self.relaxed,
            "pairs of stores of one value": self.same_value,
            "unwritten bytes fetched": self.padding,
        }
        observed |= {what: count for what, count in aside.items() if count}
        said = self._board.executor.said()
        return Report(repr(self._board), races, escapes, MappingProxyType(observed), repeated, said)

    @property
    def races(self) -> tuple[Race, ...]:
        """The races found by now, with what stands still."""
        still = {race.identity: race for race in self._standing()}
        with self._lock:
            return tuple({**still, **self._races}.values()) if still else tuple(self._races.values())


def _traced(race: Race, launch: int, tracer: Tracer) -> RaceEvent:
    """Return a race as a trace has it; `launch` is the command of threads of a kernel.

    Numbers of allocations, which the whole process counts, are left out: two runs have one trace.
    """

    def side(access: Access) -> RaceSide:
        site = access.site
        place = -1 if site is None else tracer.details.place(Place(site.path, site.line, site.function))
        seq, where = (access.seq, (-1, -1)) if access.thread is None else (launch, access.thread)
        return RaceSide(access.actor, access.what, access.write, seq, *where, place)

    at = tracer.clock.now()
    sides = side(race.first), side(race.second)
    memory = NUMBER.sub("", race.memory)
    return RaceEvent(at, race.kind, memory, race.device, race.offset, race.ranges, race.advice, *sides)
