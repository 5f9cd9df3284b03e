"""What the kernel threads of one launch do, as an observer of its grid tells a tracer: runs, waits, ends, and where.

Under a virtual clock each thread tells its own time, which is ahead of another one's until they meet.

It changes nothing and costs several times what the kernel's own turns do. Called from every OS thread that runs one.
"""

from __future__ import annotations

import threading
from types import CodeType
from typing import Any

from atops.base.trace.records import ThreadState
from atops.base.trace.tracer import Tracer
from atops.device.call_site import PACKAGE
from atops.device.dte.transfer import DteEvent
from atops.device.exec.barrier import BlockSync, GridSync, PhaseWait, SignalWait
from atops.device.exec.thread import KernelThread
from atops.kernels.bound import BoundKernel

__all__ = ("KernelSteps",)

RUNS, BARRIER, GRID_BARRIER, COUNTED_BARRIER, DTE, SIGNAL, ENDED, FAILED = (int(turn) for turn in ThreadState)
WAITS: dict[type, int] = {BlockSync: BARRIER, GridSync: GRID_BARRIER, SignalWait: SIGNAL, DteEvent: DTE}
OVER = {"end": ENDED, "fault": FAILED, "close": FAILED}


class KernelSteps:
    """The observer of one launch, `seq`: call it with (kind, thread, detail)."""

    def __init__(self, tracer: Tracer, seq: int) -> None:
        self._log = tracer.details
        self._now = tracer.clock.now
        self._seq = seq
        self._lock = threading.Lock()
        self._barriers: dict[int, tuple[int, object]] = {}  # by identity: number, and the barrier, so that it stays so
        self._waited: dict[KernelThread, DteEvent] = {}
        self._transfers: dict[int, int] = {}  # by identity, those that a thread waits for
        self._transfer = 0

    def __call__(self, kind: str, thread: KernelThread, detail: Any) -> None:
        """Tell of a turn that begins ("run"), a request ("ask") or an end; accesses and transfers are not told."""
        if kind == "run":
            self._arrived(thread)
            self._tell(thread, RUNS, -1, _stands(thread) or _begins(thread))
        elif kind == "ask":
            turn = WAITS.get(type(detail), COUNTED_BARRIER if isinstance(detail, PhaseWait) else -1)
            if turn >= 0:  # else it awaits what no kernel may, and goes on with an error
                self._tell(thread, turn, self._number(thread, turn, detail), _stands(thread))
        elif kind in OVER:
            self._arrived(thread)
            self._tell(thread, OVER[kind], -1, _raised(detail) if kind == "fault" else _stands(thread))

    def _tell(self, thread: KernelThread, turn: int, on: int, place: tuple[CodeType, int] | None) -> None:
        block, log = thread.block, self._log
        now = self._now() if thread.cost is None else thread.cost.now_ns
        log.steps.add((
            now, self._seq, block.linear, thread.linear, turn, on, -1 if place is None else log.site(*place),
            thread.l1_top, block.l2_top, block.cluster.ordinal,
        ))  # fmt: skip

    def _number(self, thread: KernelThread, turn: int, request: Any) -> int:
        """Number what a thread waits for: block barriers as their blocks, signals as the chip, others as they come."""
        if turn == BARRIER:
            return thread.block.linear
        if turn == SIGNAL:
            return int(request.index)
        if turn == GRID_BARRIER:
            return 0
        with self._lock:
            if turn == COUNTED_BARRIER:
                barrier = request.barrier
                return self._barriers.setdefault(id(barrier), (len(self._barriers), barrier))[0]
            number = self._transfers.get(id(request))
            if number is None:
                number = self._transfers[id(request)] = self._transfer
                self._transfer += 1
            self._waited[thread] = request
            return number

    def _arrived(self, thread: KernelThread) -> None:
        """Forget the transfer that a thread waited for, so that no launch keeps what all its transfers moved."""
        if thread in self._waited:
            with self._lock:
                event = self._waited.pop(thread)
                if all(other is not event for other in self._waited.values()):
                    self._transfers.pop(id(event), None)


def _stands(thread: KernelThread) -> tuple[CodeType, int] | None:
    """Return where a suspended thread stands: its innermost frame outside this package; None before it has begun."""
    place, ours = None, True
    awaited: Any = thread.coro
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        inside = frame.f_code.co_filename.startswith(PACKAGE)
        if ours or not inside:
            place, ours = (frame.f_code, frame.f_lasti), inside
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return place


def _begins(thread: KernelThread) -> tuple[CodeType, int] | None:
    """Return the first line of the kernel of a thread that has not begun; a plain function has no other places."""
    entry = thread.grid.entry
    return (entry.kernel.function.__code__, 0) if isinstance(entry, BoundKernel) else None


def _raised(error: BaseException) -> tuple[CodeType, int] | None:
    """Return where an error was raised: its innermost frame outside this package."""
    place, traceback = None, error.__traceback__
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(PACKAGE):
            place = traceback.tb_frame.f_code, traceback.tb_lasti
        traceback = traceback.tb_next
    return place
