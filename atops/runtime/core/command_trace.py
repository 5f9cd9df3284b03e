"""What a tracer is told of commands: the record of one that is over, and, for viewers, what becomes of it before.

Callers of the second part check `Tracer.detail` and hold the lock that guards the command. Nothing here takes the
driver's lock, except the function that `teller` returns, which shows a new viewer what is queued and allocated.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING

from atops.base.errors import AtopsError, PriorLaunchFailure, StreamAborted
from atops.base.trace.records import ContextTuple, Kind, Phase, Status, TraceTuple
from atops.base.trace.tracer import Tracer
from atops.device.call_site import calling_place
from atops.runtime.core.commands import NOWHERE, ROWS, nothing, row_of
from atops.runtime.core.completion import PENDING, Completion

if TYPE_CHECKING:
    from atops.runtime.driver_board import Board

__all__ = (
    "WENT_WELL", "begin", "call_record", "in_context", "park", "start", "submit", "teller", "trace_tuple",
)  # fmt: skip

API, WENT_WELL, FAILED = int(Kind.API), int(Status.DONE), int(Status.FAILED)
SUBMITTED, STARTED, PARKED = (int(phase) for phase in Phase)
WAIT_VALUE = int(Kind.WAIT_VALUE)
ENQUEUEING = 3  # frames to skip, which are always the package's own: this one, `append`, and its caller


# ---- records: sixteen integers each


def call_record(device: int, started: int, finished: int, failed: bool, name: int, newest: int) -> TraceTuple:
    """Return the trace record of an API call; `name` is what the tracer calls it, `newest` what it enqueued last."""
    status = FAILED if failed else WENT_WELL
    return -1, API, device, -1, started, started, finished, status, 0, -1, 0, -1, 0, newest, name, -1


def trace_tuple(item: Completion, error: AtopsError | None, now: int, tracer: Tracer) -> TraceTuple:
    """Return the trace record of a command that settles now."""
    command = item.command
    kind, size, dst, dst_at, src, src_at, correlation, name = ROWS[command.__class__].describe(command, item)
    stream = item.queue
    started = now if item.started_ns < 0 else item.started_ns
    status = WENT_WELL if error is None else _status_of(error)
    return (
        item.seq, kind, stream.context.ordinal, stream.number, item.submitted_ns, started, now,
        status, size, dst, dst_at, src, src_at, correlation, tracer.intern(name), item.engine,
    )  # fmt: skip


def in_context(record: TraceTuple, item: Completion, error: AtopsError | None) -> TraceTuple:
    """Return a record with the context of its command, which forgets it, and its failure, for subscribers."""
    told = ContextTuple(record)
    told.context, told.failure = item.context, error
    item.context = None
    return told  # type: ignore[return-value]  # sixteen integers, as they were


def _status_of(error: AtopsError | None) -> Status:
    if error is None:
        return Status.DONE
    if isinstance(error, StreamAborted):
        return Status.ABORTED
    return Status.SKIPPED if isinstance(error, PriorLaunchFailure) else Status.FAILED


# ---- events for viewers


def submit(item: Completion) -> None:
    """Keep the context in which a command is enqueued; tell that it is, where in the program, with what memory.

    Each where a reader wants it.
    """
    tracer = item.queue.board.tracer
    if tracer.contexts:
        item.context = copy_context()
    if not tracer.detail:
        return
    code, instruction = calling_place(ENQUEUEING)
    _tell(item, SUBMITTED, item.submitted_ns, -1, tracer.details.site(code, instruction))
    _tell_uses(item)


def start(item: Completion, at: int | None = None) -> None:
    """Tell that a command runs now, or since `at`."""
    _tell(item, STARTED, item.queue.board.now() if at is None else at)


def begin(item: Completion, skipped: object) -> None:
    """Tell that the head of a stream begins, unless it is `skipped` after a failure. Not called for `SILENT` kinds."""
    if (skipped is None and item.aborted is None) or item.duty:
        start(item, item.started_ns)


def park(item: Completion, cause: Completion | None = None) -> None:
    """Tell that a command waits: for the command `cause`, or for something else."""
    _tell(item, PARKED, item.queue.board.now(), -1 if cause is None else cause.seq)


def teller(board: Board) -> Callable[[], None]:
    """Return a function that tells a new viewer what is queued and allocated. It keeps no driver alive."""
    known = weakref.ref(board)

    def tell() -> None:
        if (owner := known()) is not None:
            _tell_standing(owner)

    return tell


def _tell_standing(board: Board) -> None:
    with board.lock:  # so that no command ends before it is told of
        _tell_queued(board)
    for context in board.contexts:
        memory = context.memory
        if memory.log is not None:
            memory.log.standing(memory.live(), memory.used)


def _tell_queued(board: Board) -> None:
    streams = board.active_streams()
    items = [item for stream in streams for item in stream.pending()]
    for item in sorted(items, key=lambda item: item.seq):
        _stand(item)


def _stand(item: Completion) -> None:
    now, waits_for = item.queue.board.now(), item.parked
    since = now if item.started_ns < 0 else item.started_ns
    _tell(item, SUBMITTED, item.submitted_ns or now)
    _tell_uses(item)
    if item.stage == PENDING:
        if isinstance(waits_for, Completion):  # one that comes first in the null stream's order
            _tell(item, PARKED, since, waits_for.seq)
        return
    if row_of(item.command).waits(item):
        _tell(item, PARKED, since, waits_for.seq if isinstance(waits_for, Completion) else -1)
    else:
        _tell(item, STARTED, since)


def _tell_uses(item: Completion) -> None:
    """Tell what memory a command uses, if its trace record does not."""
    try:
        command = item.command
        uses = ROWS[command.__class__].uses
        if uses is nothing:
            return
        for device, offset, size in uses(command):
            item.queue.board.tracer.details.uses.add((item.seq, device, offset, size))
    except Exception as failure:  # it must not end the drain; the command fails with it
        item.untold = failure


def _tell(item: Completion, phase: int, at: int, cause: int = -1, site: int = -1) -> None:
    stream = item.queue
    tracer = stream.board.tracer
    try:
        kind, size, number, src, src_at = item.told or _described(item, tracer)
    except Exception as failure:  # as above
        item.untold = failure
        return
    tracer.details.moments.add((
        at, item.seq, phase, kind, stream.context.ordinal, stream.number, cause, size, number, site, src, src_at,
    ))  # fmt: skip


def _described(item: Completion, tracer: Tracer) -> tuple[int, int, int, int, int]:
    """Return and keep what all events of a command share: kind, bytes, name, and the word that it waits for."""
    command = item.command
    kind, size, _, _, src, src_at, _, name = ROWS[command.__class__].describe(command, item)
    word = (src, src_at) if kind == WAIT_VALUE else NOWHERE
    item.told = told = (kind, size, tracer.intern(name), *word)
    return told
