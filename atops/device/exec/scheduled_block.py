"""A block whose every turn a schedule chooses: its threads, and their transfers in flight, are entries of the agenda.

What could come next is all threads that can go on, of every block on the agenda, and all transfers between issue and
wait. A thread that is chosen runs to its next `await`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial

from atops.base.agenda import Agenda
from atops.base.choice import THREAD, TRANSFER, Name
from atops.base.footprint import RUNTIME, Footprint
from atops.device.chip import Cluster, Sip
from atops.device.exec.block import Task, Transfer, serve
from atops.device.exec.grid import Grid
from atops.device.exec.interpreter import StepBlock
from atops.device.exec.self_contained import self_contained
from atops.device.exec.thread import KernelThread, Reach, Request, ThreadSlot, slot_here
from atops.device.races.touches import ThreadTouches

__all__ = ("ScheduledBlock",)

END = "block"  # the end of a block; a choice where that is to end, and has no thread that can go on


def _nothing() -> None:
    """Take no turn: the thread's block is over."""


class ScheduledBlock(StepBlock):
    """A block that steps one thread at a time, as the grid's agenda has it."""

    __slots__ = (
        "_agenda", "_asked", "_can_go_on", "_footprint", "_issued", "_needs", "_own", "_phase", "_place",
        "_standing", "_told", "_wakes",
    )  # fmt: skip

    def __init__(self, grid: Grid, linear: int, cluster: Cluster, sips: list[Sip]) -> None:
        assert grid.agenda is not None
        self._agenda: Agenda = grid.agenda
        self._can_go_on = 0  # threads that are on the agenda
        self._issued: dict[int, int] = {}  # transfers, by thread
        self._asked: dict[int, Request] = {}  # by thread, what it is parked at, where it asks once more
        self._place: Name = (grid.label, linear)
        self._phase = 0  # barriers that were passed
        self._needs: dict[int, list[Hashable]] = {}  # by thread, what its next turn needs, for the footprint
        self._footprint: Footprint | None = grid.agenda.footprint
        self._wakes: dict[int, int] = {}  # by thread, of such as no need is known of
        self._standing = False  # whether nothing will ever wake one of its threads
        self._told = False  # whether all that its threads touch is told to that
        super().__init__(grid, linear, cluster, sips)

    def tasks(self) -> list[Task]:
        """Put every thread on the agenda, and return nothing to step."""
        context, place = self.context, self._place
        # Of the context in which all its turns are taken: one thread runs all that a schedule chooses.
        self._own: ThreadSlot = slot_here() if context is None else context.run(slot_here)
        footprint = self._footprint
        if footprint is not None:
            footprint.give(("begins", place))
            self._told = self_contained(self.grid.entry)
        for thread in self.threads:
            thread.send = thread.begin
            thread.name = (THREAD, *place, thread.linear)
            thread.turn = partial(self._go, thread) if context is None else partial(context.run, self._go, thread)
            if footprint is not None:
                thread.race = ThreadTouches(footprint, thread, thread.race)  # type: ignore[arg-type]  # the detector's
                self._needs[thread.linear] = [("begins", place)]
        self._go_on(self.threads)
        return []

    def in_flight(self, transfer: Transfer) -> None:
        """Have a transfer take effect when it is chosen: perhaps at once, before its thread goes on."""
        thread, footprint = transfer.thread, self._footprint
        nth = self._issued.get(thread.linear, 0)
        self._issued[thread.linear] = nth + 1
        transfer.choice = name = (TRANSFER, *self._place, thread.linear, nth)
        if footprint is not None:
            footprint.give(name)
        agenda = self._agenda
        issues = self._own.thread is thread
        if issues and footprint is not None:
            footprint.within = True
        if issues and agenda.takes_effect(thread.name, name):
            transfer.move()
            if footprint is not None:
                footprint.resumed(thread.name)
        else:  # the name is like no other
            agenda.names.append(name)
            agenda.steps.append(transfer.move)
            agenda.transfers += 1
        if footprint is not None and issues and self._told:
            footprint.begin(thread.name)

    def open_barrier(self) -> None:
        """Let every thread at the block barrier go on."""
        if self.cost is not None:
            self.cost.open()
        if self.races is not None:
            self.races.pass_barrier()
        arrived, self.arrived = self.arrived, []
        if self._footprint is not None:
            self._need(arrived, ("syncthreads", self._place, self._phase))
        self._phase += 1
        self._go_on(arrived)

    def make_ready(self, threads: Iterable[KernelThread]) -> bool:
        """Let woken threads go on."""
        agenda, footprint = self._agenda, self._footprint
        for thread in threads:
            thread.waiting = None
            if footprint is not None and not self._needs.get(thread.linear):  # it is not known by whom it can be
                nth = self._wakes[thread.linear] = self._wakes.get(thread.linear, 0) + 1
                footprint.give(("woken", thread.name, nth))
                self._need((thread,), ("woken", thread.name, nth))
            agenda.names.append(thread.name)
            agenda.steps.append(thread.turn)
            self._can_go_on += 1
        return self.idle and self.cancel()

    def pass_grid_barrier(self) -> bool:
        """Let those at the grid barrier go on."""
        passed, self.at_grid = self.at_grid, []
        self._need_grid_barrier(passed)
        for thread in passed:
            thread.waiting = None
        self._go_on(passed)
        return self.cancel()

    def reschedule(self) -> None:
        """Have a block end that is to. Threads that can go on are on the agenda already."""
        if self.grid.error is not None:
            self._offer_end()

    def _offer_end(self) -> None:
        look = self._look_last if self.context is None else partial(self.context.run, self._look_last)
        self._agenda.add((END, *self._place), look)

    def _go_on(self, threads: Sequence[KernelThread]) -> None:
        names, steps = self._agenda.names, self._agenda.steps
        for thread in threads:
            names.append(thread.name)
            steps.append(thread.turn)
        self._can_go_on += len(threads)

    def _go(self, thread: KernelThread) -> None:  # noqa: C901  # the hot path: spelled out, not called
        """Resume a thread, serve its request, and see what that leaves of the block."""
        grid, slot, footprint = self.grid, self._own, self._footprint
        if grid.error is not None:
            self._can_go_on -= 1
            self._look()
            return
        if footprint is not None:
            self._tell_turn(thread, footprint)
        slot.thread = thread
        if (observer := grid.observer) is not None:
            observer("run", thread, None)
        request: object = self._asked.pop(thread.linear, None) if self._asked else None
        try:
            if request is None or self._serve(thread, request):  # else the kernel would only yield that anew
                request = thread.send(None)
                if request is thread.sync and request is thread.unawaited and observer is None:
                    thread.unawaited = slot.thread = None  # without the calls
                    if footprint is not None:
                        footprint.give(("syncthreads", self._place, self._phase))
                    (arrived := self.arrived).append(thread)
                    self._can_go_on = left = self._can_go_on - 1
                    if len(arrived) == self.size:
                        self.open_barrier()
                    elif not left:
                        self._rest_or_end()
                    return
                if self._serve(thread, request):
                    self._go_on((thread,))
        except StopIteration as error:
            if footprint is not None:
                self._tell_end(thread, footprint, error.value)
            self.ended(thread, error.value)
        except BaseException as error:
            if footprint is not None:
                footprint.opaque()
            self.fault(thread, error)
        self._can_go_on -= 1
        slot.thread = None
        if not self._can_go_on or grid.error is not None:
            self._rest_or_end()

    def _rest_or_end(self) -> None:
        """See what is left of the block, in the turn after which no thread of it can go on, or which has failed."""
        footprint = self._footprint
        if self.left == self.size:  # what comes now is the block's: which thread is the last makes no difference
            self._agenda.current = end = (END, *self._place)
            if footprint is not None:
                footprint.resumed(end)
                footprint.begin(end)
                footprint.need(("left", self._place))
                footprint.write(RUNTIME)  # the clusters, the clock, and what waits for them
        self._look()
        if footprint is not None and self.grid.error is not None:
            footprint.opaque()

    def _tell_turn(self, thread: KernelThread, footprint: Footprint) -> None:
        """Tell what a turn needs and gives, whatever it does."""
        if self._told:
            footprint.begin(thread.name)
        footprint.give(self._stands())
        for need in self._needs.pop(thread.linear, ()):
            footprint.need(need)

    def _tell_end(self, thread: KernelThread, footprint: Footprint, value: object) -> None:
        """Tell that a thread has left its kernel, which may have left something undone."""
        footprint.give(("left", self._place))
        if thread.transfers or thread.unawaited is not None or value is not None:
            footprint.opaque()

    def _serve(self, thread: KernelThread, request: object) -> bool:
        """Serve what a thread awaits. Returns whether it can go on; else it is parked, or has passed a barrier."""
        grid, footprint = self.grid, self._footprint
        if grid.observer is not None:
            grid.observer("ask", thread, request)
        goes_on = serve(thread, request)
        if footprint is not None and isinstance(request, Request):
            if (awaited := request.awaits) is not None:
                self._need((thread,), awaited)
            elif request is thread.sync:
                footprint.give(("syncthreads", self._place, self._phase - (thread not in self.arrived)))
            elif request is thread.grid_sync:
                footprint.give(self._grid_phase())
        if goes_on:
            return True
        if isinstance(request, Request) and request.asks_again:
            self._asked[thread.linear] = request
        elif len(self.at_grid) == self.size and grid.barrier.arrive(self):
            passed, self.at_grid = self.at_grid, []
            self._need_grid_barrier(passed)
            self._go_on(passed)
        return False

    def _need(self, threads: Iterable[KernelThread], what: Hashable) -> None:
        """Note what the next turns of threads need, for the footprint."""
        for thread in threads:
            self._needs.setdefault(thread.linear, []).append(what)

    def _grid_phase(self, which: int = 0) -> Hashable:
        barrier = self.grid.barrier
        return "syncblocks", barrier.grids[0].label if barrier.grids else "", barrier.phase + which

    def _need_grid_barrier(self, passed: list[KernelThread]) -> None:
        """Note that these threads pass the grid barrier, which has just opened."""
        if self._footprint is not None:
            self._need(passed, self._grid_phase(-1))

    def running(self) -> list[KernelThread]:
        """Return the thread that has the turn, if any."""
        thread = self._own.thread
        return [thread] if thread is not None and thread.block is self else []

    def _look_last(self) -> None:
        """End the block, which is to."""
        if self._footprint is not None:
            self._footprint.need(self._stands())
        self._standing = True
        self._look()

    def _stands(self) -> Hashable:
        """Return what all threads give that stand when those of all blocks of the launch do."""
        grids = self.grid.barrier.grids
        return "stands", grids[0].label if grids else self.grid.label

    def _go_idle(self) -> bool:
        """Be idle until a thread is woken. Where none will be, the end of the launch is one of what could come next.

        Transfers in flight may come before it.
        """
        if not self._standing:
            barrier = self.grid.barrier
            with barrier.lock:
                idle = self.grid.error is None and self.reach() is not Reach.BLOCK
                stuck = idle and barrier.note_idle(self)
            if idle and not stuck:
                return True
            if stuck:
                self.grid.offer_deadlock()
                return True
            if self.grid.error is None:
                self._standing = True
                self._offer_end()
                return True
        return super()._go_idle()

    def _look(self) -> None:
        """End the block where it is over or is to be; where nothing of it can go on, have it idle."""
        while self.threads:
            if self.grid.error is not None or self.left == self.size:
                self._end()
                return
            if self._can_go_on or self._go_idle():
                return

    def _end(self) -> None:
        """Close what has not ended, take all of the block off the agenda, and give the cluster back."""
        slot = self._own
        before = slot.thread
        for thread in self.threads:
            if not thread.ended:
                self.close_thread(thread, slot)
            thread.turn = _nothing  # what was there holds the thread
        slot.thread = before
        if self.grid.error is not None:  # else each has left, and done what it issued
            place = self._place
            self._agenda.drop_all([(kind, *place) for kind in (THREAD, TRANSFER, END)])
        self._can_go_on = 0
        self._asked.clear()
        threads = self.threads
        self.over()
        for thread in threads:
            thread.race = None  # which holds the thread


CALLS_KERNELS = (ScheduledBlock._go,)  # as those of a block without a schedule
