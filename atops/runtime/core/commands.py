"""What the runtime knows of each kind of command, in one row a kind.

A command is a frozen record: a queue of them can be printed, traced and drawn. Its class and its row stand together in
the file of its family, in `atops.runtime.commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from atops.base.log_fields import get_logger
from atops.base.trace.records import Kind
from atops.device.memory.allocation import Allocation

if TYPE_CHECKING:
    from atops.runtime.core.completion import Completion

__all__ = (
    "ENDED",
    "HOST",
    "NOWHERE",
    "PERHAPS_NOTHING",
    "ROWS",
    "SILENT",
    "Command",
    "CommandRow",
    "Described",
    "Ended",
    "ReadRange",
    "Touch",
    "UsedRange",
    "always",
    "define",
    "ended",
    "has_effect",
    "how_to_run",
    "never",
    "nothing",
    "place",
    "row_of",
    "words_of",
)

log = get_logger("atops.cache")

C = TypeVar("C")
Command: TypeAlias = tuple[object, ...]  # a record with a row
# (kind, bytes, dst_device, dst_offset, src_device, src_offset, correlation, name)
Described: TypeAlias = tuple[int, int, int, int, int, int, int, str]
UsedRange: TypeAlias = tuple[int, int, int]  # device, offset in its memory, size in bytes
ReadRange: TypeAlias = tuple[Allocation, int, int]  # memory, first byte, end
Touch: TypeAlias = tuple[object, int, int, bool]  # memory or host bytes, first byte, end, whether they are written
Run: TypeAlias = "Callable[[Any, Completion], bool]"

HOST = (-1, 0)
NOWHERE = (-1, -1)


class CommandRow(NamedTuple):
    """What `define` was given."""

    words: Callable[[Any], str]
    run: Run
    run_timed: Run
    describe: Callable[[Any, Completion], Described]
    uses: Callable[[Any], Iterable[UsedRange]]
    reads: Callable[[Any], Iterable[ReadRange]]
    touches: Callable[[Any], Iterable[Touch]]
    effect: Callable[[Any], bool]
    waits: Callable[[Completion], bool]


class Ended(NamedTuple):
    """What is left of a command that is over: what messages call it, and what pools ask of one that is a record.

    Otherwise a completion that the program keeps would keep everything that the command was given.
    """

    words: str
    kernel: str | None = None
    seen: object = None

    @property
    def name(self) -> str:
        """As of a call: what messages call it."""
        return self.words

    @property
    def holds(self) -> bool:
        """As of a call that its stream waits for."""
        return True

    @property
    def adapter(self) -> None:
        """No loop must run for it."""


ROWS: dict[type, CommandRow] = {}
ENDED: dict[type, Ended | Callable[[Any], Ended]] = {}  # what is left of a kind: always the same, or made of it
RUNS: dict[tuple[bool, bool], dict[type, Run]] = {  # timed, strict
    (False, False): {}, (False, True): {}, (True, False): {}, (True, True): {}
}  # fmt: skip
PERHAPS_NOTHING: set[type] = set()  # kinds that may be nothing to null-stream order
SILENT: set[type] = set()  # kinds of whose beginning their family tells a viewer, or their record


def define(
    kind: type[C],
    *,
    words: Callable[[C], str],
    run: Callable[[C, Completion], bool],
    run_timed: Callable[[C, Completion], bool],
    describe: Callable[[C, Completion], Described],
    uses: Callable[[C], Iterable[UsedRange]],
    reads: Callable[[C], Iterable[ReadRange]],
    touches: Callable[[C], Iterable[Touch]],
    effect: Callable[[C], bool],
    waits: Callable[[Completion], bool],
    silent: bool,
    ended: Ended | Callable[[C], Ended],
) -> None:
    """Enter a kind of command. No part has a default: a kind without one of them is a TypeError at import.

    - `words`: what messages call a command.
    - `run`: run the head of its stream, on the driver. Returns True when the command is over, False when it goes on
      elsewhere and will call `stream.finish`; what it raises fails the command. `run_timed`: the same under a virtual
      clock, taking the time that the chip would take.
    - `describe`: its trace record, without the times.
    - `uses`: the ranges of device memory that it was given, beyond those in its trace record.
    - `reads`: the bytes that it reads, or may read; strict mode compares those that were prefetched.
    - `touches`: the bytes that it reads and writes, as far as that is known when it begins; races are found by them.
    - `effect`: whether null-stream order waits for it; not for a copy of no bytes.
    - `waits`: whether it does nothing but wait, once it is the head of its stream.
    - `silent`: whether the queue leaves its begin out of the trace, for its family records it, or it is over at once.
    - `ended`: what is left of it when it is over.
    """
    ENDED[kind] = ended
    ROWS[kind] = CommandRow(words, run, run_timed, describe, uses, reads, touches, effect, waits)
    for (timed, strict), table in RUNS.items():
        chosen = run_timed if timed else run
        table[kind] = _looking(chosen, reads) if strict and reads is not nothing else chosen
    if effect is not always:
        PERHAPS_NOTHING.add(kind)
    if silent:
        SILENT.add(kind)


def how_to_run(timed: bool, strict: bool) -> Mapping[type, Run]:
    """Return how commands of each kind run; with `strict` they first compare what they read of prefetched memory."""
    return RUNS[timed, strict]


def ended(command: object) -> Ended:
    """Return what is left of a command that is over."""
    left = ENDED[command.__class__]
    return left if left.__class__ is Ended else left(command)  # type: ignore[operator]  # the rest is callable


def row_of(command: object) -> CommandRow:
    """Return the row of a command's kind."""
    return ROWS[command.__class__]


def words_of(command: object) -> str:
    """Return what messages call a command: `copy`, `launch of kernel add`."""
    return ROWS[command.__class__].words(command)


def has_effect(command: object) -> bool:
    """Return whether null-stream order waits for a command: not for a copy of no bytes, nor a wait for no record."""
    return ROWS[command.__class__].effect(command)


# ---- parts of rows


def nothing(command: object) -> Iterable[Any]:
    """Return no range."""
    return ()


def always(*_: object) -> bool:
    """Return True."""
    return True


def never(_: object) -> bool:
    """Return False."""
    return False


def place(end: object, offset: int) -> tuple[int, int]:
    """Return (device, offset) of an end of a copy: never a bare address."""
    if type(end) is Allocation and end.device is not None:
        return end.device, end.offset + offset
    return HOST


def _looking(run: Run, reads: Callable[[Any], Iterable[ReadRange]]) -> Run:
    """Return a function that logs which prefetched bytes a command reads that were written since, then runs it.

    Data are coherent here, so such a program works; where the L2 buffer is not, it reads old bytes (TOPS Runtime API,
    2.11).
    """

    def look_and_run(command: object, item: Completion) -> bool:
        for memory, start, end in reads(command):
            if memory.device is not None:
                for entry in item.queue.board.context(memory.device).prefetched.stale(memory, start, end):
                    log.warning(
                        "%r reads bytes %d to %d of %r, which were written after they were prefetched; "
                        "call topsMemCacheInvalidate before that", item, entry.start, entry.end, memory,
                        extra={"driver": item.queue.board.serial, "device": memory.device, "command": item.seq},
                    )  # fmt: skip
        return run(command, item)

    return look_and_run


def _has_ended(*_: object) -> bool:
    raise AssertionError("a command that is over runs no more")


define(
    Ended,
    words=lambda left: left.words if left.kernel is None else f"{left.words} {left.kernel}",
    run=_has_ended,
    run_timed=_has_ended,
    describe=lambda left, _: (int(Kind.CALL), 0, *NOWHERE, *NOWHERE, -1, left.words),
    uses=nothing,
    reads=nothing,
    touches=nothing,
    effect=always,
    waits=never,
    silent=True,
    ended=lambda left: left,
)
