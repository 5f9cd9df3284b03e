"""A block whose every turn a schedule chooses: its threads, and their transfers in flight, are entries of the agenda.

What could come next is all threads that can go on, of every block on the agenda, and all transfers between issue and
wait. A thread that is chosen runs to its next `await`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from atops.base.agenda import Agenda
from atops.base.choice import NEXT, THREAD, TRANSFER, Name
from atops.device.chip import Cluster, Sip
from atops.device.exec.block import Block, Task, serve
from atops.device.exec.grid import Grid
from atops.device.exec.interpreter import StepBlock
from atops.device.exec.thread import KernelThread, ThreadSlot, slot_here

__all__ = ("ScheduledBlock",)

END = "block"  # a block that is to end, and has no thread that can go on


def _nothing() -> None:
    """Take no turn: the thread's block is over."""


class ScheduledBlock(StepBlock):
    """A block that steps one thread at a time, as the grid's agenda has it."""

    __slots__ = ("_agenda", "_can_go_on", "_issued", "_own")

    def __init__(self, grid: Grid, linear: int, cluster: Cluster, sips: list[Sip]) -> None:
        assert grid.agenda is not None
        self._agenda: Agenda = grid.agenda
        self._can_go_on = 0  # threads that are on the agenda
        self._issued: dict[int, int] = {}  # transfers, by thread
        super().__init__(grid, linear, cluster, sips)

    def tasks(self) -> list[Task]:
        """Put every thread on the agenda, and return nothing to step."""
        label, linear = self.grid.label, self.linear
        context = self.context
        # Of the context in which all its turns are taken: one thread runs all that a schedule chooses.
        self._own: ThreadSlot = slot_here() if context is None else context.run(slot_here)
        for thread in self.threads:
            thread.send = thread.begin
            thread.name = (THREAD, label, linear, thread.linear)
            thread.turn = partial(self._go, thread) if context is None else partial(context.run, self._go, thread)
        self._go_on(self.threads)
        return []

    def in_flight(self, thread: KernelThread, move: Callable[[], object]) -> None:
        """Have a transfer take effect when it is chosen: perhaps at once, before its thread goes on."""
        nth = self._issued.get(thread.linear, 0)
        self._issued[thread.linear] = nth + 1
        name = (TRANSFER, self.grid.label, self.linear, thread.linear, nth)
        agenda = self._agenda
        if self._own.thread is thread and agenda.log.choose(NEXT, (thread.name, name)):
            move()
        else:  # the name is like no other
            agenda.names.append(name)
            agenda.steps.append(move)
            agenda.others += 1

    def open_barrier(self) -> None:
        """Let every thread at the block barrier go on."""
        if self.cost is not None:
            self.cost.open()
        if self.races is not None:
            self.races.pass_barrier()
        arrived, self.arrived = self.arrived, []
        self._go_on(arrived)

    def make_ready(self, threads: Iterable[KernelThread]) -> bool:
        """Let woken threads go on."""
        woken = list(threads)
        for thread in woken:
            thread.waiting = None
        self._go_on(woken)
        return self.cancel()

    def pass_grid_barrier(self) -> bool:
        """Let those at the grid barrier go on."""
        return Block.pass_grid_barrier(self)

    def reschedule(self) -> None:
        """Have a block end that is to. Threads that can go on are on the agenda already."""
        if self.grid.error is not None:
            look = self._look if self.context is None else partial(self.context.run, self._look)
            self._agenda.add((END, self.grid.label, self.linear), look)

    def _go_on(self, threads: list[KernelThread]) -> None:
        agenda = self._agenda
        agenda.names += [thread.name for thread in threads]
        agenda.steps += [thread.turn for thread in threads]
        self._can_go_on += len(threads)

    def _go(self, thread: KernelThread) -> None:
        """Resume a thread, serve its request, and see what that leaves of the block."""
        grid, slot = self.grid, self._own
        if grid.error is not None:
            self._can_go_on -= 1
            self._look()
            return
        slot.thread = thread
        if (observer := grid.observer) is not None:
            observer("run", thread, None)
        try:
            request = thread.send(None)
        except StopIteration as error:
            self.ended(thread, error.value)
        except BaseException as error:
            self.fault(thread, error)
        else:
            if request is thread.sync and request is thread.unawaited and observer is None:
                thread.unawaited = slot.thread = None  # without the calls
                arrived = self.arrived
                arrived.append(thread)
                self._can_go_on = left = self._can_go_on - 1
                if len(arrived) == self.size:
                    self.open_barrier()
                elif not left:
                    self._look()
                return
            self._serve(thread, request)
        self._can_go_on -= 1
        slot.thread = None
        if not self._can_go_on or grid.error is not None:
            self._look()

    def _serve(self, thread: KernelThread, request: object) -> None:
        """Serve a request. Where the thread goes on at once, or others do, they are ready."""
        if (observer := self.grid.observer) is not None:
            observer("ask", thread, request)
        if serve(thread, request):
            self._agenda.names.append(thread.name)
            self._agenda.steps.append(thread.turn)
            self._can_go_on += 1
        elif len(self.at_grid) == self.size and self.grid.barrier.arrive(self):
            passed, self.at_grid = self.at_grid, []
            self._go_on(passed)

    def running(self) -> list[KernelThread]:
        """Return the thread that has the turn, if any."""
        thread = self._own.thread
        return [thread] if thread is not None and thread.block is self else []

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
            place: Name = (self.grid.label, self.linear)
            self._agenda.drop_all([(kind, *place) for kind in (THREAD, TRANSFER, END)])
        self._can_go_on = 0
        self.over()
