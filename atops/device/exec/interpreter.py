"""The interpreter: it resumes the threads of a block and serves their requests, a block at a time on one OS thread.

The fast loop is first come, first served; with another policy, or an observer, every turn is chosen and seen. What a
kernel raises ends in its grid and never comes out of `step`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from atops.device.chip import Cluster, Sip
from atops.device.exec.block import AGAIN, PARKED, Block, Progress, Task, serve
from atops.device.exec.failures import block_deadlock
from atops.device.exec.grid import Grid, RoundRobin
from atops.device.exec.thread import KernelThread, Reach, ThreadSlot, slot_here

__all__ = ("StepBlock",)

NOTHING = object()  # in place of a request


class StepBlock(Block):
    """A block that one OS thread steps at a time; it is its own task."""

    __slots__ = ("begun", "context", "inbox", "ready", "slot", "straight")

    def __init__(self, grid: Grid, linear: int, cluster: Cluster, sips: list[Sip]) -> None:
        self.inbox: list[KernelThread] = []  # woken by others; changes under the barrier's lock
        self.slot: ThreadSlot | None = None  # of the OS thread that steps it
        self.ready: list[KernelThread] = []
        self.begun = False
        self.straight: object = None  # closes the kernel that it awaits when it is dropped
        self.context = None if grid.context is None else grid.context.copy()
        Block.__init__(self, grid, linear, cluster, sips)  # quicker than by super()

    def tasks(self) -> list[Task]:
        """Return the block itself."""
        return [self]

    @property
    def ahead(self) -> int:
        """The time that its threads have come to under a virtual clock."""
        return 0 if self.cost is None else self.cost.reached

    def step(self, budget: int) -> Progress:
        """Run threads until all are parked or ended, or about `budget` suspensions were served.

        It goes idle outside of its context: another OS thread may step it from then on, and enters the context.
        """
        while True:
            progress = self._step(budget) if self.context is None else self.context.run(self._step, budget)
            if progress is not PARKED or self._go_idle():
                return progress

    def _step(self, budget: int) -> Progress:
        """As `step`, but PARKED says only that no thread is ready."""
        grid = self.grid
        slot = self.slot = slot_here()
        if self.cost is not None:
            self.cost.rebase()
        plain = grid.observer is None and type(grid.policy) is RoundRobin
        try:
            if not self.begun:
                self.begun = True
                if plain:
                    budget = self._begin(slot, budget)
                    if self.at_grid:
                        self._try_grid_barrier()
                else:
                    for thread in self.threads:
                        thread.send = thread.begin  # so that the policy chooses the first thread, too
                    self.ready = list(self.threads)
            while True:
                if self.inbox:
                    self._collect()
                if not self.ready or grid.error is not None:
                    return self._rest(slot)
                elif budget <= 0:
                    return AGAIN
                else:
                    budget = self._round(slot, budget) if plain else self._turn(slot, budget)
        finally:
            slot.thread = None
            self.slot = None

    def _begin(self, slot: ThreadSlot, budget: int) -> int:
        """Start the kernel in every thread and run it to its first request. Return what is left of the budget."""
        grid, threads = self.grid, iter(self.threads)
        straight = self._run_straight(slot, threads)
        request = next(straight.__await__(), NOTHING)
        if request is NOTHING:
            return budget - self.size  # none of them asked for anything
        thread = slot.thread
        assert thread is not None
        self.straight = straight
        thread.coro = coro = straight.cr_await  # type: ignore[attr-defined]  # the kernel's: now resumed directly
        thread.send = coro.send
        budget = self._attend(thread, request, budget)
        for thread in threads:
            if grid.error is not None:
                break
            slot.thread = thread
            try:
                request = thread.begin(None)
            except StopIteration as error:
                self.ended(thread, error.value)
            except BaseException as error:
                self.fault(thread, error)
            else:
                budget = self._attend(thread, request, budget)
        return budget - self.size

    async def _run_straight(self, slot: ThreadSlot, threads: Iterator[KernelThread]) -> None:
        """Run the kernel in one thread after the other until one suspends. It is not resumed then, but kept.

        Awaiting a coroutine that ends without a suspension costs a third of starting it from outside, where an
        exception says that it has ended: that was half of what an empty launch takes.
        """
        grid = self.grid
        entry, strict = grid.entry, grid.options.strict
        make, suspends = entry.make, entry.suspends
        for thread in threads:
            if grid.error is not None:
                break
            slot.thread = thread
            try:
                if make is None:
                    coro = entry.start(thread)
                    value = None if coro is None else await coro  # None: a plain function, which has run to its end
                else:
                    value = await make() if suspends else make()  # type: ignore[misc]  # a coroutine, where it does
            except BaseException as error:
                if thread.coro is not None:  # it was suspended, and the block is over now
                    raise
                self.fault(thread, error)
                continue
            if value is None and thread.unawaited is None and thread.transfers is None and not strict:
                thread.ended = True  # it asked for nothing and owes nothing: nothing to settle
                self.left += 1
            else:
                self.ended(thread, value)

    def _round(self, slot: ThreadSlot, budget: int) -> int:  # noqa: C901  # a call would cost more than what it saves
        """Run every ready thread, first come, first served: the hot loop. Return what is left of the budget."""
        grid, batch, at_grid = self.grid, self.ready, self.at_grid  # which is another list once all have passed
        self.ready, told = [], self.cost is not None or self.races is not None
        elsewhere, whole = list[KernelThread](), len(batch) == self.size  # elsewhere: at neither of the two barriers
        while budget > 0:
            budget -= len(batch)
            for thread in batch:
                if grid.error is not None:
                    return 0
                slot.thread = thread
                try:
                    request = thread.send(None)
                except StopIteration as error:
                    elsewhere.append(thread)
                    self.ended(thread, error.value)
                except BaseException as error:
                    elsewhere.append(thread)
                    self.fault(thread, error)
                else:
                    if request is thread.unawaited and request is thread.sync:
                        thread.unawaited = None
                    elif request is thread.grid_sync and request is thread.unawaited and request is not None:
                        thread.unawaited = None
                        at_grid.append(thread)
                    else:
                        elsewhere.append(thread)
                        budget = self._attend(thread, request, budget)
            if elsewhere or at_grid or not whole:
                if len(at_grid) < self.size:
                    self._arrive_at_block(batch, elsewhere)
                elif grid.barrier.arrive(self):  # no other thread is ready: all run on at once
                    batch, elsewhere, whole = at_grid, [], True
                    self.at_grid = at_grid = []
                    continue
                return budget
            if told:
                self._tell_open()
        self.ready = batch  # they all arrived, so the barrier is open: the same may run again
        return budget

    def _arrive_at_block(self, batch: list[KernelThread], elsewhere: list[KernelThread]) -> None:
        """Put all of `batch` that did not go elsewhere at the block barrier, and open it when no thread is missing."""
        if len(elsewhere) < len(batch):
            self.arrived += [thread for thread in batch if thread not in elsewhere and thread not in self.at_grid]
        if len(self.arrived) == self.size:
            self.open_barrier()

    def _turn(self, slot: ThreadSlot, budget: int) -> int:
        """Run the thread that the policy chooses, and show it to the observer. Return what is left of the budget."""
        policy, ready = self.grid.policy, self.ready
        thread = ready.pop(policy.choose(len(ready)))
        slot.thread = thread
        turn = min(budget, policy.slice)
        left = turn - 1
        if self.grid.observer is not None:
            self.grid.observer("run", thread, None)
        try:
            request = thread.send(None)
        except StopIteration as error:
            self.ended(thread, error.value)
        except BaseException as error:
            self.fault(thread, error)
        else:
            left = self._attend(thread, request, left)
        self._try_grid_barrier()
        return budget - turn + left

    def _attend(self, thread: KernelThread, request: object, budget: int) -> int:
        """Serve a thread's requests until it is parked, ends or has used up the budget. Return what is left of it."""
        grid = self.grid
        observer, turns = grid.observer, grid.turns
        if observer is None and request is thread.unawaited and request is thread.grid_sync and request is not None:
            thread.unawaited = None  # without the calls
            self.at_grid.append(thread)
            return budget
        try:
            while True:
                if observer is not None:
                    observer("ask", thread, request)
                if not serve(thread, request):
                    break
                if thread.turns < turns:  # each wait that was over at once counts as a suspension, too
                    budget -= turns - thread.turns
                    thread.turns = turns
                if budget <= 0 or grid.error is not None:
                    self.ready.append(thread)
                    break
                budget -= 1
                if observer is not None:
                    observer("run", thread, None)
                request = thread.send(None)
        except StopIteration as error:
            self.ended(thread, error.value)
        except BaseException as error:
            self.fault(thread, error)
        return budget

    def open_barrier(self) -> None:
        """Make every thread at the block barrier runnable: no other thread can be ready."""
        self._tell_open()
        self.ready += self.arrived
        self.arrived = []

    def _tell_open(self) -> None:
        """Tell the clocks, and the detector of races, that the block barrier opens."""
        if self.cost is not None:
            self.cost.open()
        if self.races is not None:
            self.races.pass_barrier()

    def arrive_at_grid(self) -> None:
        """Do nothing: `step` looks."""

    def _try_grid_barrier(self) -> None:
        """Arrive at the grid barrier when every thread stands there. The last block there runs on."""
        if len(self.at_grid) == self.size and self.grid.barrier.arrive(self):
            self.ready, self.at_grid = self.at_grid, []

    def _collect(self) -> None:
        """Take in the threads that others woke."""
        with self.grid.barrier.lock:
            woken, self.inbox = self.inbox, []
        self.ready.extend(woken)

    def _rest(self, slot: ThreadSlot) -> Progress:
        """End the block where all its threads have ended, or are to; else it is parked."""
        grid = self.grid
        if grid.error is not None:
            for thread in self.threads:
                if not thread.ended:
                    self.close_thread(thread, slot)
        if self.left == self.size:
            self.straight = None
            return self.over()
        return PARKED

    def _go_idle(self) -> bool:
        """Be idle, where no thread is ready, until one is woken. False means to look again."""
        grid = self.grid
        barrier = grid.barrier
        with barrier.lock:
            if self.inbox or grid.error is not None:
                return False
            dead = self.reach() is Reach.BLOCK
            if not dead:
                stuck = barrier.note_idle(self)
                if not stuck:
                    return True
                barrier.note_busy(self)
        if dead:
            grid.stop(block_deadlock(self))
        else:
            grid.deadlocked()
        return False

    def make_ready(self, threads: Iterable[KernelThread]) -> bool:
        """Put woken threads in the inbox."""
        for thread in threads:
            thread.waiting = None
            self.inbox.append(thread)
        return self.cancel()

    def pass_grid_barrier(self) -> bool:
        """Put those at the grid barrier in the inbox."""
        self.inbox += self.at_grid
        self.at_grid = []
        return self.idle and self.cancel()

    def cancel(self) -> bool:
        """Wake the block, if it is idle."""
        if not self.idle:
            return False
        self.grid.barrier.note_busy(self)
        return True

    def reschedule(self) -> None:
        """Hand the block out to be stepped."""
        self.resume(self)

    def running(self) -> list[KernelThread]:
        """Return the thread that has the turn, if any."""
        slot = self.slot
        return [slot.thread] if slot is not None and slot.thread is not None else []


# What calls a kernel's code: its frames are between the driver's and the program's.
CALLS_KERNELS = (
    StepBlock._run_straight, StepBlock._begin, StepBlock._round, StepBlock._turn, StepBlock._attend,
)  # fmt: skip
