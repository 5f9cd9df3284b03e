"""The scene of the cluster grid: one launch after some of its steps, for page, SVG and text."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from atops.base.python_ast import module_tree
from atops.base.trace.records import Kind, Place, Status, ThreadState
from atops.device.call_site import file_shown
from atops.trace.words import format_ns, printable
from atops_widgets.cluster_grid.history import NOT_BEGUN, OVER, RELEASED, History, Launches, Standing
from atops_widgets.cluster_grid.words import STATES, Wait, counts, does, stuck, waits
from atops_widgets.drawing.scene import Scene, Window
from atops_widgets.feed.columns import Column, plural
from atops_widgets.feed.feed import Feed

__all__ = ("Section", "Stage", "sections")

MOST_SECTIONS: Final = 4
MOST_LINES: Final = 60  # of one section
AROUND: Final = 3  # lines kept about those where threads stand, where not all fit
WIDEST: Final = 160  # letters of a line


@dataclass(frozen=True, slots=True)
class Section:
    """A function: what it is called, its lines with their numbers, and the places that lie in it."""

    title: str
    rows: tuple[tuple[int, str], ...]
    sites: tuple[int, ...]


def sections(sites: Iterable[int], places: Mapping[int, Place]) -> list[Section]:
    """Return a section for each function that has one of these places, the one with most of them first."""
    found: dict[tuple[str, str], list[int]] = {}
    for site in sorted(sites):
        if site in places:
            found.setdefault((places[site].file, places[site].function), []).append(site)
    largest = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_SECTIONS]
    return [_section(file, function, tuple(own), places) for (file, function), own in largest]


def _section(file: str, function: str, sites: tuple[int, ...], places: Mapping[int, Place]) -> Section:
    used = [places[site].line for site in sites]
    text, title = _text(file), printable(f"{function or 'kernel'}, {file_shown(file)}")
    if not all(0 < line <= len(text) for line in used):  # no such file here, or it is another one by now
        return Section(f"{title}: its text is not on this machine", tuple((at, "") for at in sorted({*used})), sites)
    first, last = _extent("".join(text), function, min(used), max(used))
    if last - first >= MOST_LINES:
        first = max(first, min(used) - AROUND)
        last = min(last, first + MOST_LINES - 1)
    lines = [printable(line.rstrip("\r\n").expandtabs(4))[:WIDEST] for line in text[first - 1 : last]]
    return Section(title, tuple(enumerate(lines, first)), sites)


def _text(file: str) -> list[str]:
    """Return a source file's lines. A trace from elsewhere may name any file: only Python's own are looked for."""
    return linecache.getlines(file) if file in linecache.cache or file.endswith(".py") else []


def _extent(text: str, function: str, first: int, last: int) -> tuple[int, int]:
    """Return the first and the last line of the function that has these lines; else some lines about them."""
    try:
        tree = module_tree(text)
    except (SyntaxError, ValueError, RecursionError):  # the file is another one by now, or a cell has magic in it
        return max(1, first - AROUND), min(text.count("\n") + 1, last + AROUND)
    name, best = function.rpartition(".")[2], (max(1, first - AROUND), last + AROUND)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            end = node.end_lineno or node.lineno
            if begin <= first and last <= end:
                best = begin, end
    return best


MOST_BLOCKS: Final = 96  # drawn at once; the rest is a page further down
MOST_THREADS: Final = 2048  # drawn at once
MOST_REPLAYED: Final = 20_000  # steps that a saved picture can go through without Python; the last ones
Lines: TypeAlias = dict[int, tuple[int, int]]  # by site: the section and the line where it is shown
LOOKS: Final = {  # by turn: the kind whose colour and hatch a cell has
    int(ThreadState.RUNS): int(Kind.LAUNCH),
    int(ThreadState.BARRIER): int(Kind.COPY_PEER),
    int(ThreadState.GRID_BARRIER): int(Kind.CALL),
    int(ThreadState.COUNTED_BARRIER): int(Kind.WRITE_VALUE),
    int(ThreadState.DTE): int(Kind.COPY_D2D),
    int(ThreadState.SIGNAL): int(Kind.WAIT_VALUE),
    RELEASED: int(Kind.RECORD),
}
CELL: Final = ("block", "thread", "turn", "on", "l1_bytes", "opens")


class Stage:
    """The launch on show, and the step at which it stands."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.launches = Launches(feed)
        self._history = History(-1)
        self._chosen = -1  # by the user; -1: the newest
        self._asked: tuple[int, int, int | None] | None = None  # launch, position, and the cursor that goes with it
        self._sections: tuple[tuple[int, int], list[Section]] = (-1, -1), []

    def go(self, position: int) -> None:
        """Show the launch after so many of its steps, and put the time cursor there."""
        history, steps = self.history(), self.feed.steps
        position = max(0, min(position, history.count))
        row = history.step(max(1, position), steps)
        cursor = int(steps["at_ns"][row]) if row >= 0 else self.feed.selection.cursor_ns
        self._asked = history.launch, position, cursor
        self.feed.selection.look_at(cursor)

    def follow(self) -> None:
        """Show the newest step, and every one that comes."""
        self._asked = None
        self.feed.selection.look_at(None)

    def history(self) -> History:
        """Return the launch on show: what is selected if it has steps, else what was chosen, else the newest."""
        self.launches.update()
        if self.feed.selection.seq in self.launches:
            self._chosen = self.feed.selection.seq
        launch = self._chosen if self._chosen in self.launches else self.launches.newest()
        if launch != self._history.launch:
            self._history = History(launch)
        self._history.update(self.feed.steps)
        return self._history

    def position(self, history: History) -> int:
        """Return after how many steps to show it: as asked, else at the time cursor, else where it failed or ended."""
        cursor = self.feed.selection.cursor_ns
        if self._asked is not None and (self._asked[0], self._asked[2]) == (history.launch, cursor):
            return self._asked[1]
        if cursor is not None:
            return history.until(cursor, self.feed.steps)
        return history.failed_at if history.failed_at >= 0 else history.count

    def scene(self, window: Window) -> Scene:
        """Return the picture. Options: first (block of the page; else the one that moved), replay (for saved ones)."""
        history = self.history()
        position = self.position(history)
        standing = history.at(position, self.feed.steps)
        shown = self._sections_of(history)
        lines = self._lines(shown)
        moved = self._moved(history, position)
        page = _page(standing, window.options.get("first"), moved)
        told = self._told(history, position, standing, shown, lines) | {"moved": list(moved)}
        told |= _blocks(standing, page)
        cells = slice(page[0], page[1])
        columns = self._cells(standing, cells, lines)
        if window.options.get("replay") and history.count:
            told["replay"] = max(0, history.count - MOST_REPLAYED)
            columns |= self._replay(history, standing, cells, lines, told["replay"])
        return Scene(told, columns)

    def place(self, site: int) -> str:
        """Return a place in short words, "reduce.py:31"; empty for none."""
        known = self.feed.names.sites.get(site)
        return printable(f"{file_shown(known.file)}:{known.line}") if known is not None else ""

    def waits(self, history: History, position: int, standing: Standing) -> tuple[list[Wait], str]:
        """Return the waits, and a sentence on what is wrong; after a failure: as all threads stood before it."""
        failed = 0 <= history.failed_at <= position
        before = history.at(history.failed_at, self.feed.steps) if failed else standing
        found = waits(before, self.place)
        never, apart = (any(getattr(wait, name) for wait in found) for name in ("never", "apart"))
        words = []
        if failed and (raised := self._raised(history, before)):
            words.append(raised)
        elif failed and (never or stuck(before, found)):
            words.append("Deadlock: a barrier can never open" if never else "Deadlock: no thread could go on")
        elif never:
            words.append("A barrier can never open")
        elif stuck(before, found):
            words.append("No thread can go on by itself")
        if apart:
            words.append("Divergent barrier: threads of one block meet at different lines")
        return found, ". ".join(words)

    def _raised(self, history: History, before: Standing) -> str:
        """Return the thread that failed first, in words; empty if it only waited, so that others closed it."""
        block, thread = self._moved(history, history.failed_at + 1)
        row = history.step(history.failed_at + 1, self.feed.steps)
        ran = (before.block == block) & (before.thread == thread) & np.isin(before.turn, (ThreadState.RUNS, NOT_BEGUN))
        if row < 0 or not ran.any():
            return ""
        place = self.place(int(self.feed.steps["site"][row]))
        return f"Thread {thread} of block {block} failed{place and f' at {place}'}, which closed the others"

    def _told(
        self, history: History, position: int, standing: Standing, shown: Sequence[Section], lines: Lines
    ) -> dict[str, Any]:
        feed, known = self.feed, counts(standing)
        found, verdict = self.waits(history, position, standing)
        row = history.step(position, feed.steps)
        at = int(feed.steps["at_ns"][row]) - feed.origin_ns if row >= 0 else None
        told: dict[str, Any] = {
            "launches": self.launches.choices(history.launch),
            "launch": history.launch,
            "title": self.launches.title(history.launch) if history.count else "",
            "step": position, "steps": history.count, "at": at,
            "meeting_after": history.meetings.after(position), "meeting_before": history.meetings.before(position),
            "failed_at": history.failed_at,
            "tracing": feed.tells_steps, "verdict": verdict,
            "waits": [[w.threads, w.what, w.missing, w.hope, _tone(w)] for w in found],
            "states": [[turn, *STATES[turn], count] for turn, count in sorted(known.items())],
            "looks": {turn: [*words, LOOKS.get(turn, -1)] for turn, words in STATES.items()},
            "sections": [[part.title, [list(row) for row in part.rows]] for part in shown],
            "stands": _stands(standing, lines),
            "kinds": [], "note": "",
        }  # fmt: skip
        told["say"] = self._say(told, history, position)
        count = sum(race.seqs == (history.launch,) * 2 for race in feed.races) if history.count else 0
        told["say"] += f" {plural(count, 'race')} between its threads." if count else ""
        return told

    def _say(self, told: Mapping[str, Any], history: History, position: int) -> str:
        if not history.count:
            if not self.feed.live:
                launches = self.feed.records["kind"] == Kind.LAUNCH
                if not launches.any():
                    return "This trace holds no launch of a kernel."
                if np.isin(self.feed.records["status"][launches], (Status.SKIPPED, Status.ABORTED)).all():
                    return "None of the kernels that were launched has begun."
                return "This trace holds no steps of kernel threads: record it with tracer.detailed(threads=True)."
            if self.feed.tells_steps:
                return "Kernel threads are traced; their steps appear with the next launch."
            return "No launch was traced in detail yet: press “Trace threads” (t), then launch. It slows launches down."
        moment = f" at {format_ns(told['at'])}" if told["at"] is not None else ""
        states = ", ".join(f"{count:,} {words}" for _, _, words, count in told["states"])
        step = f"step {position:,} of {history.count:,}{moment}: {self.step_words(history, position)}"
        return f"{told['title']} (number {history.launch}), {step}. {states}." + (
            f" {told['verdict']}." if told["verdict"] else ""
        )  # fmt: skip

    def step_words(self, history: History, position: int) -> str:
        """Return what the step that led to a position was, in words."""
        steps, row = self.feed.steps, history.step(position, self.feed.steps)
        if row < 0:
            return "before its first step" if position == 0 else "a step that was dropped"
        turn, on, site = (int(steps[field][row]) for field in ("turn", "on", "site"))
        thread = f"block {steps['block'][row]} thread {steps['thread'][row]}"
        state = f"has {STATES[turn][1]}" if turn in OVER else f"is {does(turn, on, self.place(site))}"
        return f"{thread} {state}"

    def _moved(self, history: History, position: int) -> tuple[int, int]:
        """Return block and thread of the step that led to a position; -1 for none."""
        row = history.step(position, self.feed.steps)
        steps = self.feed.steps
        return (int(steps["block"][row]), int(steps["thread"][row])) if row >= 0 else (-1, -1)

    def _sections_of(self, history: History) -> list[Section]:
        key = history.launch, len(history.sites)
        if self._sections[0] != key:
            self._sections = key, sections(history.sites, self.feed.names.sites)
        return self._sections[1]

    def _lines(self, shown: Sequence[Section]) -> Lines:
        places = self.feed.names.sites
        return {site: (number, places[site].line) for number, part in enumerate(shown) for site in part.sites}

    def _cells(self, standing: Standing, cells: slice, lines: Lines) -> dict[str, Column]:
        columns = {name: getattr(standing, name)[cells].astype(np.float64) for name in CELL}
        columns["section"], columns["line"] = _placed(standing.site[cells], lines)
        return columns

    def _replay(
        self, history: History, standing: Standing, cells: slice, lines: Lines, begin: int
    ) -> dict[str, Column]:
        """Return what a page needs to go on from step `begin` by itself: how the cells stood there, and each step."""
        rows = history.rows(begin) - self.feed.steps.start
        first = self._cells(history.at(begin, self.feed.steps), cells, lines)
        steps = self.feed.steps
        held = np.maximum(rows, 0)
        cell = {(int(b), int(t)): at for at, (b, t) in enumerate(
            zip(standing.block[cells], standing.thread[cells], strict=True))}  # fmt: skip
        threads = zip(steps["block"][held].tolist(), steps["thread"][held].tolist(), strict=True)
        columns: dict[str, Column] = {f"first_{name}": column for name, column in first.items()}
        columns["step_cell"] = np.array([cell.get(thread, -1) for thread in threads], np.float64)
        columns["step_section"], columns["step_line"] = _placed(steps["site"][held], lines)
        for name in ("turn", "on", "l1_bytes"):
            columns[f"step_{name}"] = steps[name][held].astype(np.float64)
        columns["meetings"] = history.meetings.all().astype(np.float64)
        columns["step_opens"] = history.opens(steps, begin).astype(np.float64)
        columns["step_at"] = (steps["at_ns"][held] - self.feed.origin_ns).astype(np.float64)
        return columns


def _placed(site: Column, lines: Lines) -> tuple[Column, Column]:
    """Return the section and the line of each site, -1 and 0 where it has none."""
    known, inverse = np.unique(site, return_inverse=True)
    table = np.array([lines.get(each, (-1, 0)) for each in known.tolist()], np.float64).reshape(-1, 2)
    return table[inverse, 0], table[inverse, 1]


def _stands(standing: Standing, lines: Lines) -> list[list[int]]:
    """Return section, line, turn and how many threads stand so, for those that have not ended."""
    stands = standing.turn != ThreadState.ENDED
    section, line = _placed(standing.site[stands], lines)
    rows = np.stack([section, line, standing.turn[stands]], axis=1)[section >= 0].astype(np.int64)
    found, count = np.unique(rows, axis=0, return_counts=True)
    return [[*mark, number] for mark, number in zip(found.tolist(), count.tolist(), strict=True)]


def _tone(wait: Wait) -> str:
    """Return the colour that tells what will become of a wait, beside the words."""
    return "failed" if wait.never else "k0" if wait.open else "line"


def _page(standing: Standing, asked: object, moved: tuple[int, int]) -> tuple[int, int]:
    """Return which threads to draw, as a range: whole blocks, from the one asked for, or with the one that moved."""
    change = np.flatnonzero(np.diff(standing.block, prepend=np.int64(-(2**62))))
    if not len(change):
        return 0, 0
    number = int(asked) if isinstance(asked, int | float) and 0 <= asked < 2**40 else 0
    if asked is None and moved[0] in standing.block:
        place = int(np.argmax(standing.block == moved[0]))
        number = int(np.searchsorted(change, place, side="right")) - 1
        number -= number % MOST_BLOCKS
    number = min(number, len(change) - 1)
    ends = np.append(change, len(standing.block))
    last = min(number + MOST_BLOCKS, len(change))
    while last > number + 1 and ends[last] - ends[number] > MOST_THREADS:
        last -= 1
    return int(ends[number]), int(ends[last])


def _blocks(standing: Standing, page: tuple[int, int]) -> dict[str, Any]:
    """Return the blocks of a page: number, cluster, bytes of L2 in use, threads."""
    blocks: list[list[int]] = []
    l2_bytes = standing.l2_bytes
    for at in range(*page):
        block, cluster = int(standing.block[at]), int(standing.cluster[at])
        if not blocks or blocks[-1][0] != block:
            blocks.append([block, cluster, 0, 0])
        own = blocks[-1]
        own[2] = max(own[2], int(l2_bytes[at]) if standing.turn[at] not in OVER else 0)
        own[3] += 1
    before = len(np.unique(standing.block[: page[0]]))
    return {"blocks": blocks, "first": before, "all_blocks": len(np.unique(standing.block))}
