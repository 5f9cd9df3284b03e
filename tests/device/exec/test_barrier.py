"""Grid barriers, counted barriers with phases, and waits for kernel signals, in every mode."""

from __future__ import annotations

import threading

import pytest

from atops.base.errors import IllegalState, InvalidValue, KernelDeadlock, LaunchFailure
from atops.device.exec.barrier import Barrier, Scope, SignalWait
from atops.device.exec.grid import GridBarrier
from atops.device.exec.thread import current_thread
from tests.device.kernel_host import MODES, Host, line_of, signal, syncblocks, syncthreads


class Counted:
    """A counted barrier as a kernel uses one: shared by the threads of a block, or of a grid."""

    def __init__(self, scope, count):
        self.scope, self.count = scope, count
        self.made = {}
        self.lock = threading.Lock()

    def here(self):
        thread = current_thread()
        of_grid = self.scope == Scope.CLUSTER and thread.grid.cooperative
        with self.lock:
            key = thread.grid if of_grid else thread.block
            return self.made.setdefault(key, None) or self.make(key, thread)

    def make(self, key, thread):
        made = self.made[key] = Barrier(self.scope, self.count, thread)
        return made

    def arrive(self):
        return self.here().arrive(current_thread())

    def wait(self, token=None):
        return self.here().wait(current_thread(), token).made_by(current_thread())

    def arrive_and_wait(self):
        return self.here().arrive_and_wait(current_thread()).made_by(current_thread())


@pytest.mark.parametrize("workers", MODES)
def test_no_thread_passes_the_grid_barrier_before_all_have_arrived(workers):
    """What the other block wrote before a grid barrier is read after it, round after round."""
    host = Host(workers)
    board, wrong = {}, []

    async def kernel(thread):
        me = (thread.block.linear, thread.linear)
        for step in range(15):
            board[me] = step
            await syncblocks()
            if set(board.values()) != {step}:
                wrong.append(me)
            await syncblocks()

    assert host.run(host.grid(kernel, 2, cooperative=True)).error is None
    assert len(board) == 24
    assert not wrong


@pytest.mark.parametrize("workers", MODES)
def test_block_and_grid_barriers_mix(workers):
    """Rounds of block barriers of different length between grid barriers."""
    host = Host(workers)
    board, wrong = {}, []

    async def kernel(thread):
        for step in range(8):
            for _ in range(step % 3 + thread.block.linear):
                await syncthreads()
            board[thread.block.linear, thread.linear] = step
            await syncblocks()
            if set(board.values()) != {step}:
                wrong.append(step)
            await syncblocks()

    assert host.run(host.grid(kernel, 2, 5, cooperative=True)).error is None
    assert not wrong


@pytest.mark.parametrize("workers", MODES)
def test_grids_on_two_devices_share_one_barrier(workers):
    """A barrier for two grids opens when every thread of both devices stands at it."""
    host = Host(workers, devices=2)
    shared = GridBarrier(grids=2)
    board, wrong = {}, []

    async def kernel(thread):
        me = (thread.grid.chip.ordinal, thread.block.linear, thread.linear)
        for step in range(6):
            board[me] = step
            await syncblocks()
            if len(board) != 24 or set(board.values()) != {step}:
                wrong.append(me)
            await syncblocks()

    grids = [host.grid(kernel, 2, 6, device=device, cooperative=True, barrier=shared) for device in range(2)]
    host.run(*grids)
    assert [grid.error for grid in grids] == [None, None]
    assert not wrong


@pytest.mark.parametrize("workers", MODES)
def test_an_error_in_one_grid_ends_those_that_share_its_barrier(workers):
    """Grids that run as one fail as one: with the first error, and all threads closed."""
    host = Host(workers, devices=2)
    shared = GridBarrier(grids=2)

    async def kernel(thread):
        await syncblocks()
        if thread.grid.chip.ordinal == 1 and thread.linear == 2:
            raise ValueError("on device 1")
        await syncblocks()

    grids = [host.grid(kernel, 1, 4, device=device, cooperative=True, barrier=shared) for device in range(2)]
    host.run(*grids)
    assert "on device 1" in str(grids[0].error)
    assert grids[0].error is grids[1].error


@pytest.mark.parametrize("workers", MODES)
def test_a_grid_that_leaves_a_shared_barrier_deadlocks_the_other(workers):
    """One device's grid has ended without coming to the barrier where the other's stands."""
    host = Host(workers, devices=2)
    shared = GridBarrier(grids=2)

    async def kernel(thread):
        if thread.grid.chip.ordinal == 0:
            await syncblocks()

    grids = [host.grid(kernel, 1, 4, device=device, cooperative=True, barrier=shared) for device in range(2)]
    host.run(*grids)
    assert grids[1].error is None
    assert type(grids[0].error) is KernelDeadlock
    assert "threads 0-3 wait at syncblocks" in str(grids[0].error)
    assert "every block has left the kernel" in str(grids[0].error)


def test_a_barrier_takes_no_more_grids_than_it_was_made_for():
    """One grid too many is refused when it is built."""
    host = Host()
    shared = GridBarrier()

    def kernel():
        pass

    host.grid(kernel, 1, barrier=shared)
    with pytest.raises(IllegalState, match="made for 1 grids was given one more"):
        host.grid(kernel, 1, barrier=shared)


@pytest.mark.parametrize("workers", MODES)
def test_syncblocks_needs_a_cooperative_launch(workers):
    """The first call in another grid fails, naming kernel and line."""

    async def kernel():
        await syncblocks()

    host = Host(workers)
    error = host.run(host.grid(kernel, 2)).error
    assert type(error) is LaunchFailure
    assert "kernel kernel calls syncblocks, but its launch is not cooperative" in str(error)
    assert line_of(kernel, "await syncblocks") in str(error)


@pytest.mark.parametrize("workers", MODES)
@pytest.mark.parametrize("scope", [Scope.SIP, Scope.CLUSTER])
def test_a_counted_barrier_opens_at_its_count(workers, scope):
    """Producers arrive without waiting; consumers go on when all have arrived, phase after phase."""
    host = Host(workers)
    threads = 6 if scope is Scope.SIP else 12
    counted = Counted(scope, threads)
    board, wrong = {}, []

    async def kernel(thread):
        key = (thread.block.linear, thread.linear)
        for step in range(6):
            board[key] = step
            await counted.arrive_and_wait()
            blocks = [thread.block.linear] if scope is Scope.SIP else [0, 1]
            if {board[block, other] for block in blocks for other in range(6)} != {step}:
                wrong.append(key)
            await counted.arrive_and_wait()

    assert host.run(host.grid(kernel, 2, 6, cooperative=True)).error is None
    assert not wrong


@pytest.mark.parametrize("workers", MODES)
def test_arrive_and_wait_are_separate(workers):
    """Eleven threads arrive and go on; only the one that waits, with a token, needs their arrival."""
    host = Host(workers)
    counted = Counted(Scope.SIP, 11)
    seen = []

    async def kernel(thread):
        if thread.linear == 11:
            await counted.wait(0)
            seen.append(sorted(seen.copy()))
        else:
            seen.append(thread.linear)
            assert counted.arrive() == 0

    grid = host.run(host.grid(kernel, 1))
    assert grid.error is None
    assert seen[-1] == list(range(11))


def test_wait_is_for_the_phase_of_the_last_arrival():
    """A thread whose phase is over goes on, though the next phase has begun; a token names the phase."""
    host = Host()
    counted = Counted(Scope.SIP, 2)
    seen = []

    async def kernel(thread):
        token = counted.arrive()
        await syncthreads()  # both have arrived: phase 0 is over
        await counted.wait()
        if thread.linear == 0:
            counted.arrive()
            await counted.wait(token)
            seen.append("the old phase is over")
            await syncthreads()
            await counted.wait()
            seen.append("the new one too")
        else:
            await syncthreads()
            seen.append("the last arrival")
            counted.arrive()

    assert host.run(host.grid(kernel, 1, 2)).error is None
    assert seen == ["the old phase is over", "the last arrival", "the new one too"]


def test_a_token_from_the_future_is_refused():
    """Only phases that have begun can be waited for."""
    host = Host()
    counted = Counted(Scope.SIP, 1)

    async def kernel():
        await counted.wait(1)

    error = host.run(host.grid(kernel, 1, 1)).error
    assert isinstance(error.__cause__, InvalidValue)
    assert "token is 1" in str(error)


BAD_COUNTS = [
    (Scope.SIP, 0, True, "1 to 6 threads of one block"),
    (Scope.SIP, 7, True, "1 to 6 threads of one block"),
    (Scope.CLUSTER, 13, True, "1 to 12 threads of the grid"),
    (Scope.CLUSTER, 7, False, "1 to 6 threads of one block, since the grid is not cooperative"),
    (2, 1, True, "scope is 2; expected SIP (0) or CLUSTER (1)"),
]


@pytest.mark.parametrize(("scope", "count", "cooperative", "message"), BAD_COUNTS)
def test_a_count_below_one_or_above_the_threads_of_the_scope_is_an_error(scope, count, cooperative, message):
    """The message says what would have been right."""
    host = Host()

    async def kernel(thread):
        Barrier(scope, count, thread)

    error = host.run(host.grid(kernel, 2, 6, cooperative=cooperative)).error
    assert isinstance(error.__cause__, InvalidValue)
    assert message in str(error)


def test_an_arrival_from_outside_the_scope_is_an_error():
    """A thread of another block cannot arrive at a block's barrier, nor wait there."""
    host = Host()
    held = []

    async def kernel(thread):
        if not held:
            held.append(Barrier(Scope.SIP, 1, thread))
        held[0].arrive(thread)

    error = host.run(host.grid(kernel, 2, 1)).error
    assert isinstance(error.__cause__, IllegalState)
    assert "thread (0,0,0) of block (1,0,0) of kernel kernel used a SIP barrier of <Block (0, 0, 0)" in str(error)


@pytest.mark.parametrize("workers", MODES)
def test_signals_pass_values_between_blocks(workers):
    """One block waits for what the other adds up; a set from the host starts both."""
    host = Host(workers)
    signals = host.chips[0].signals
    seen = []

    async def kernel(thread):
        await signal(0, "eq", 1)
        if thread.block.linear == 0:
            signals.add(1)
        else:
            await signal(1, "gte", 6)
            seen.append(signals.read(1))

    grid = host.submit(host.grid(kernel, 2, 6))
    if workers == 1:
        host.drain()
        assert not grid.done
    else:
        host.start()
    signals.set(0, 1)
    if workers == 1:
        host.drain()
    host.wait(grid)
    host.stop()
    assert grid.error is None
    assert seen == [6] * 6


def test_two_grids_meet_at_a_signal():
    """A grid may wait for another grid of the same device."""
    host = Host()
    order = []

    async def waiter():
        await signal(3, "and", 4)
        order.append("waiter")

    async def setter(thread):
        order.append("setter")
        thread.grid.chip.signals.set(3, 6)

    host.run(host.grid(waiter, 1, 1), host.grid(setter, 1, 1))
    assert order == ["setter", "waiter"]


def test_a_signal_request_is_one_threads():
    """A request that another thread made cannot be awaited."""
    host = Host()
    held = []

    async def kernel(thread):
        if thread.linear == 0:
            held.append(SignalWait(thread.grid.chip.signals, 0, "eq", 1))
        await held[0]

    error = host.run(host.grid(kernel, 1, 2)).error
    assert isinstance(error.__cause__, IllegalState)
    assert error.thread == (1, 0, 0)


def test_an_unknown_condition_is_refused():
    """The message lists the conditions there are."""
    with pytest.raises(InvalidValue, match="'lt'; expected one of Gte, Eq, And, Nor, GteUnsigned"):
        SignalWait(Host().chips[0].signals, 0, "lt", 1)
