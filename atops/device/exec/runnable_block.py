"""A block with its threads, and what every way to run them has in common: serving, ending, failing and closing.

What a kernel raises ends in its grid.
"""

from __future__ import annotations

from typing import Any

from atops.base.errors import LaunchFailure
from atops.device.chip import Cluster, Sip
from atops.device.exec.barrier import equip
from atops.device.exec.block import Block, Progress
from atops.device.exec.grid import Grid
from atops.device.exec.launch_failure import failure_of
from atops.device.exec.thread import KernelThread, Request, ThreadSlot, make_threads, missing_await

__all__ = ("ThreadedBlock", "serve")


class ThreadedBlock(Block):
    """A block with its threads, and what every way to run them has in common."""

    __slots__ = ()

    threads: list[KernelThread]

    def __init__(self, grid: Grid, linear: int, cluster: Cluster, sips: list[Sip]) -> None:
        super().__init__(grid, linear, cluster)
        if sips[0].sync is None:
            equip(cluster.sips)
        self.threads = make_threads(self, grid, sips)
        if grid.options.strict:
            cluster.poison()
        grid.opened(self)

    def ended(self, thread: KernelThread, value: object = None) -> None:
        """Settle with a thread whose kernel has returned `value`."""
        thread.ended = True
        self.left += 1
        try:
            if thread.unawaited is not None:
                raise missing_await(thread)
            if value is not None or thread.transfers:
                thread.grid.entry.finish(thread, value)
        except BaseException as error:
            self.grid.stop(failure_of(thread, error))
            thread.unawaited = None
        _forget_frames(thread)

    def fault(self, thread: KernelThread, error: BaseException) -> None:
        """End the grid with what a thread's kernel raised."""
        thread.ended = True
        self.left += 1
        self.grid.stop(failure_of(thread, error))
        _forget_frames(thread)
        thread.unawaited = None

    def close_thread(self, thread: KernelThread, slot: ThreadSlot) -> None:
        """Close a thread that has not ended; a kernel that refuses is left suspended and named in the warnings."""
        slot.thread = thread
        if self.grid.observer is not None:
            self.grid.observer("close", thread, None)
        if not thread.close():
            self.grid.warnings.append(f"{thread} awaits again whenever it is closed; it was left suspended")
        _forget_frames(thread)
        thread.unawaited = None
        self.left += 1

    def over(self) -> Progress:
        """End the block, once all its threads have left."""
        self.threads = []  # threads know their block; without this the two would keep each other alive
        self.shared = {}
        self.grid.block_done(self)
        return Progress.DONE


def serve(thread: KernelThread, request: Any) -> bool:
    """Serve what `thread` awaits. Return whether it goes on at once; else it is parked and somebody wakes it.

    What is wrong with the request, or goes wrong in serving it, is raised at the kernel's `await` when it goes on.
    """
    try:
        if request is thread.unawaited and request is not None:
            thread.unawaited = None
        elif not isinstance(request, Request):
            raise LaunchFailure(f"{thread} awaited {_foreign(thread, request)}; kernels may only await kernel requests")
        elif thread.unawaited is not None:
            raise missing_await(thread)
        thread.waiting = request
        if not request.serve(thread):
            return False
    except BaseException as error:
        thread.raise_at_await(error)
    thread.waiting = None
    return True


def _forget_frames(thread: KernelThread) -> None:
    """Let go of the frames that the barrier requests noted, which outlive the thread."""
    thread.sync.frame = None
    if thread.grid_sync is not None:
        thread.grid_sync.frame = None


def _foreign(thread: KernelThread, request: Any) -> str:
    """Name what a kernel awaits that is no kernel request: the coroutine it called, or the object itself."""
    awaited: Any = thread.coro
    names = []
    while (awaited := getattr(awaited, "cr_await", None)) is not None:
        if (code := getattr(awaited, "cr_code", None)) is not None:
            module = awaited.cr_frame.f_globals.get("__name__", "?") if awaited.cr_frame is not None else "?"
            names.append(f"{module}.{code.co_qualname}")
    said = f"{type(request).__name__} {request!r}" if request is not None else "None"
    return f"{said} in {names[-1]}" if names else said
