"""What there is where a run waits for a choice: the memory that the program names, the queues, and what comes next."""

from __future__ import annotations

import asyncio
import linecache
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from atops.base.agenda import Agenda
from atops.base.choice import PASSING, Name
from atops.base.footprint import Range, StepAccesses
from atops.base.trace.records import Phase
from atops.checking.actors import owner
from atops.checking.variables import Variable, program_frames, threads_of, variables
from atops.device.call_site import file_shown
from atops.device.dte.transfer import DteEvent
from atops.device.exec.thread import KernelThread
from atops.device.geometry import Array
from atops.runtime.commands.fill import Fill
from atops.runtime.core.commands import row_of, words_of
from atops.runtime.core.completion import RUNNING, Completion
from atops.runtime.driver_board import Board
from atops.runtime.executors.standing import UNNAMED, frames_of, stands_at
from atops.runtime.queues.queue import StreamQueue

__all__ = ("Look", "Memory", "Queue", "Queued", "Touched", "look", "what_changed")

SHOWN = 64  # elements of a variable
MOST_BYTES = 1 << 20  # of a variable that are compared


class Memory(NamedTuple):
    """A variable of the program's, and what it holds."""

    name: str
    where: str
    """"global", "shared" (L2), "local" (L1) or "host"."""
    owner: str
    """Of a block's or a thread's own memory, whose it is: "block 1 thread 3"."""
    type: str
    size: int
    """Elements."""
    first: int
    """The place of the first one in `values`."""
    values: tuple[str, ...]
    """64 at most."""
    changed: tuple[int, ...]
    """The places in `values` of what the last pick has changed."""
    was: tuple[str, ...]
    """What those held before."""


class Queued(NamedTuple):
    """A command of a stream."""

    words: str
    place: str
    """The file and line at which it was enqueued; empty where this is not known."""
    running: bool


class Queue(NamedTuple):
    """A stream that has work, the command at its head first."""

    name: str
    commands: tuple[Queued, ...]


class Touched(NamedTuple):
    """What a step does to memory, by the names of the program."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def with_more(self, more: Touched) -> Touched:
        """Return what either has."""
        return Touched(tuple(dict.fromkeys(self.reads + more.reads)), tuple(dict.fromkeys(self.writes + more.writes)))

    def __str__(self) -> str:
        parts = [f"reads {', '.join(self.reads)}"] if self.reads else []
        parts += [f"writes {', '.join(self.writes)}"] if self.writes else []
        return "; ".join(parts)


class Look:
    """What there is at one place of a run."""

    def __init__(
        self,
        found: Sequence[Variable],
        queues: Sequence[Queue],
        doing: Mapping[Name, tuple[str, str]],
        streams: Mapping[Name, str],
    ) -> None:
        self.queues = tuple(queues)
        self.streams = dict(streams)
        """What the program calls its streams, those that it has given a name."""
        self.doing = dict(doing)
        """Of what could come: what it does, as far as this is known before, and the place of that in the program."""
        self._kept = [(each, _bytes(each.array)) for each in found]

    def __bool__(self) -> bool:
        """Return whether the program had any memory there."""
        return bool(self._kept)

    def memory(self, before: Look | None = None) -> list[Memory]:
        """Return what the program's variables hold; of those that were there `before`, what has changed since."""
        was = {} if before is None else {_key(each): kept for each, kept in before._kept}
        return [_memory(each, kept, was.get(_key(each))) for each, kept in self._kept]

    def touched(self, accesses: Iterable[StepAccesses]) -> Touched:
        """Return what steps have touched, by the names of variables."""
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}
        for step in accesses:
            for ranges, names in ((step.reads, reads), (step.writes, writes)):
                names |= dict.fromkeys(said for each in ranges for said in self._names(each))
        return Touched(tuple(reads), tuple(writes))

    def _names(self, touched: Range) -> list[str]:
        """Return the names of what a range of a footprint meets."""
        thing, start, stop = touched
        found = []
        for variable, _ in self._kept:
            begin, size = variable.place, variable.array.itemsize
            if variable.memory == thing and start < begin + variable.array.nbytes and begin < stop:
                low, high = max(0, start - begin) // size, -(-(stop - begin) // size)
                found.append(_sliced(variable, low, min(high, variable.array.size)))
        return found


def look(agenda: Agenda, board: Board) -> Look:
    """Look at a run between two steps: on the thread that runs it."""
    threads = threads_of(agenda, board)
    found = variables(program_frames(threads), threads)
    places = _places(board)
    with board.lock:
        active = sorted(board.active_streams(), key=lambda queue: (queue.context.ordinal, queue.number))
    queues, heads = [], dict[Name, tuple[str, str]]()
    for queue in active:
        items = [item for part in queue.snapshot() for item in part]
        said = tuple(
            Queued(_told(item, found), places.get(item.seq, ""), item.stage == RUNNING) for item in items
        )  # fmt: skip
        if said:
            queues.append(Queue(queue.label, said))
            heads[queue.choice] = said[0].words, said[0].place
    doing: dict[Name, tuple[str, str]] = {}
    for name, step in zip(agenda.names, agenda.steps, strict=True):
        doing[name] = _doing(name, step, found, heads)
    for thread in threads:  # also in the middle of its turn
        doing.setdefault(thread.name, _thread_doing(thread))
        for event in thread.transfers or ():
            if event.into is not None and (choice := getattr(event, "choice", None)) is not None:  # still to come
                doing.setdefault(choice, (_transfer(event, found), ""))
    labels = board.tracer.names().streams
    return Look(found, queues, doing, {("stream", *which): label for which, label in labels.items() if label})


def _source(place: tuple[str, int]) -> str:
    """Return a line of a program's text."""
    return linecache.getline(*place).strip()


def _doing(
    name: Name, step: Any, found: Sequence[Variable], heads: Mapping[Name, tuple[str, str]]
) -> tuple[str, str]:  # fmt: skip
    """Return what a step does, as far as it is known before, and where that stands."""
    if isinstance(step, partial) and step.args and isinstance(step.args[-1], KernelThread):
        return _thread_doing(step.args[-1])
    own = getattr(step, "__self__", None)
    if isinstance(own, DteEvent):
        return _transfer(own, found), ""
    if isinstance(own, StreamQueue):
        return heads.get(name, ("", ""))
    if name == PASSING:
        return "what takes time ends", ""
    if (task := _task_of(step)) is not None:
        frame, _ = frames_of(task)
        if frame is not None:
            line, called = _source((frame.f_code.co_filename, frame.f_lineno or 0)), _given_name(task)
            return f"{called}: {line}" if called and line else line, stands_at(task)
    actor = owner(name)
    if actor != name and actor in heads:
        words, place = heads[actor]
        return f"goes on with {words}", place
    return "", ""


def _task_of(step: Any) -> Any:
    """Return the task of which this is a step, asyncio's or trio's; None for any other step."""
    task = getattr(getattr(step, "_callback", None), "__self__", step)
    return task if isinstance(task, asyncio.Task) or hasattr(task, "coro") else None


def _given_name(task: Any) -> str:
    """Return the name that the program has given a task; "" where it has given none."""
    name = task.get_name() if isinstance(task, asyncio.Task) else ""
    return "" if UNNAMED.fullmatch(name) else str(name)


def _thread_doing(thread: KernelThread) -> tuple[str, str]:
    if thread.coro is None:
        return f"begins kernel {thread.grid.name}", ""
    file, line = thread.where()
    return _source((file, line)), f"{file_shown(file)}:{line}" if line else ""


def _transfer(event: DteEvent, found: Sequence[Variable]) -> str:
    into, out = _name_of(event.into, found), "" if event.out is None else _name_of(event.out, found)
    return f"{event.operation.name} {into}" + (f" from {out}" if out else "")


def _name_of(array: Array, found: Sequence[Variable]) -> str:
    first = int(array.__array_interface__["data"][0])
    return _part(first, first + max(1, array.nbytes), found)


def _part(start: int, stop: int, found: Sequence[Variable]) -> str:
    """Return how the program would call some bytes: by the smallest variable that holds them all."""
    holding = [each for each in found if each.first <= start and stop <= each.first + each.array.nbytes]
    if not holding:
        return "memory"
    best = min(holding, key=lambda each: each.array.nbytes)
    size = best.array.itemsize
    return _sliced(best, (start - best.first) // size, -(-(stop - best.first) // size))


def _sliced(variable: Variable, low: int, high: int) -> str:
    if (low == 0 and high >= variable.array.size) or variable.array.ndim != 1 or not variable.array.flags.c_contiguous:
        return variable.name
    return f"{variable.name}[{low}]" if high - low == 1 else f"{variable.name}[{low}:{high}]"


def _told(item: Completion, found: Sequence[Variable]) -> str:
    """Return a command in words: "fill x with 3", "copy x from a", "launch of kernel add"."""
    command, words = item.command, words_of(item.command)
    names: dict[bool, list[str]] = {True: [], False: []}
    for memory, start, stop, written in row_of(command).touches(command):
        first = _real_address(memory)
        names[written].append("the host" if first is None else _part(first + start, first + stop, found))
    words = " ".join([words, " to ".join(", ".join(each) for each in (names[False], names[True]) if each)]).strip()
    if isinstance(command, Fill) and len(command.pattern) in (1, 2, 4, 8):
        start = (_real_address(command.dst) or 0) + command.offset
        types = [each.array.dtype for each in found if each.first <= start < each.first + max(1, each.array.nbytes)]
        kind = next((each for each in types if each.itemsize == len(command.pattern)), None)
        if kind is not None:
            words += f" with {np.frombuffer(command.pattern, kind)[0]}"
    return words


def _real_address(memory: object) -> int | None:
    """Return where bytes of the device lie in this process; None for those of the host, and of freed memory."""
    data = getattr(memory, "data", None) if getattr(memory, "device", None) is not None else None
    return int(data.__array_interface__["data"][0]) if isinstance(data, np.ndarray) and data.size else None


def _places(board: Board) -> dict[int, str]:
    """Return where commands were enqueued, by their numbers."""
    details, sites = board.tracer.details_since(), board.tracer.names().sites
    return {
        each.seq: f"{file_shown(place.file)}:{place.line}" for each in details.moments
        if each.phase is Phase.SUBMITTED and (place := sites.get(each.site)) is not None
    }  # fmt: skip


# ---- what memory holds


def _bytes(array: Array) -> bytes:
    if array.nbytes <= MOST_BYTES:
        return array.tobytes()
    return array.reshape(-1)[: MOST_BYTES // array.itemsize].tobytes()


def _key(variable: Variable) -> tuple[str, str, str, str]:
    return variable.name, variable.where, variable.owner, variable.type


def _memory(variable: Variable, kept: bytes, was: bytes | None) -> Memory:
    now = np.frombuffer(kept, variable.array.dtype)
    then = now if was is None or len(was) != len(kept) else np.frombuffer(was, variable.array.dtype)
    size = variable.array.itemsize
    one, other = (np.frombuffer(each, np.uint8).reshape(-1, size) for each in (kept, was or kept))
    apart = np.flatnonzero((one != other).any(axis=1)) if one.shape == other.shape else np.empty(0, np.intp)
    first = 0 if not apart.size or apart[0] < SHOWN else int(apart[0])
    shown = [int(each) - first for each in apart if first <= each < first + SHOWN]
    return Memory(
        variable.name, variable.where, variable.owner, variable.type, int(variable.array.size), first,
        tuple(map(_brief, now[first : first + SHOWN])), tuple(shown), tuple(_brief(then[first + at]) for at in shown),
    )  # fmt: skip


def _brief(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def what_changed(memory: Sequence[Memory]) -> list[str]:
    """Return what has changed, in words: "x[0]: 1 to 3"."""
    lines = []
    for each in memory:
        for at, was in zip(each.changed, each.was, strict=True):
            place = f"[{each.first + at}]" if each.size > 1 else ""
            mine = f" of {each.owner}" if each.owner else ""
            lines.append(f"{each.name}{place}{mine}: {was} to {each.values[at]}")
    return lines
