"""The interpreter runs every thread, serves requests in every mode, and keeps what a kernel raises inside its grid."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import traceback
import weakref
from contextvars import copy_context

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops.base.errors import DteError, IllegalAddress, KernelDeadlock, LaunchFailure, MissingAwait, StreamAborted
from atops.base.result_codes import Result
from atops.device.exec.block import Progress
from atops.device.exec.grid import RoundRobin, Seeded
from atops.device.exec.thread import Request, current_thread, maybe_current_thread
from tests.device.kernel_host import MODES, Host, line_of, signal, syncblocks, syncthreads, turn
from tests.every import every


@pytest.mark.parametrize("workers", MODES)
def test_every_thread_of_every_block_runs_once(workers):
    """Five blocks of twelve threads on two clusters: each (block, thread) appears once, and the end is told once."""
    host = Host(workers)
    seen = []

    async def kernel(thread):
        await syncthreads()
        seen.append((thread.block.linear, thread.linear))
        await syncthreads()
        return "something to settle"

    grid = host.run(host.grid(kernel, 5))
    assert sorted(seen) == [(block, thread) for block in range(5) for thread in range(12)]
    assert grid.error is None
    assert host.done == [grid]
    assert sorted(grid.entry.finished) == sorted([*range(12)] * 5)


@pytest.mark.parametrize("workers", MODES)
def test_a_plain_function_runs_to_its_end_in_every_thread(workers):
    """A kernel that never suspends may be a plain `def`."""
    host = Host(workers)
    seen = []

    def kernel(thread):
        assert current_thread() is thread
        seen.append((thread.block.index, thread.index))

    grid = host.run(host.grid(kernel, (1, 2), (3, 2, 2)))
    assert sorted(seen) == sorted(((0, y, 0), index) for y in range(2) for index in grid.block_dim.indices())
    assert grid.error is None


@pytest.mark.slow
@pytest.mark.parametrize("workers", MODES)
def test_no_thread_passes_a_block_barrier_before_all_have_arrived(workers):
    """What threads wrote before a barrier is what all of them read after it, round after round."""
    host = Host(workers)
    wrong = []

    async def kernel(thread):
        board = thread.block.shared
        for step in range(20):
            board[thread.linear] = step
            await syncthreads()
            if {board[other] for other in range(12)} != {step}:
                wrong.append(thread.linear)
            await syncthreads()

    assert host.run(host.grid(kernel, 4)).error is None
    assert not wrong


def test_round_robin_is_first_come_first_served():
    """With one worker the order of turns is that of the threads, block by block, every time."""
    host = Host()
    seen = []

    async def kernel(thread):
        for step in range(3):
            seen.append((step, thread.linear))
            await syncthreads()

    host.run(host.grid(kernel, 1, 4))
    assert seen == [(step, thread) for step in range(3) for thread in range(4)]


def test_a_request_served_at_once_does_not_cost_the_turn():
    """First come, first served lets a thread go on while its requests need no waiting."""
    host = Host()
    seen = []

    async def kernel(thread):
        for _ in range(3):
            seen.append(thread.linear)
            await turn()

    host.run(host.grid(kernel, 1, 3))
    assert seen == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_step_ends_after_about_its_budget():
    """A kernel that spins is interrupted by its budget, and the others of its block get their turn."""
    host = Host()
    go = []

    async def kernel(thread):
        if thread.linear == 0:
            while not go:
                await turn()
        else:
            go.append(thread.linear)

    host.submit(host.grid(kernel, 1, 2))
    host.drain(budget=10)
    assert host.steps == [Progress.AGAIN, Progress.DONE]
    assert go == [1]


def test_current_thread_belongs_to_the_kernel():
    """Outside of a kernel there is no current thread, before, between and after steps."""
    host = Host()
    seen = []

    async def kernel(thread):
        seen.append(current_thread() is thread)
        await signal(0, "eq", 1)
        seen.append(current_thread() is thread)

    grid = host.submit(host.grid(kernel, 1, 2))
    assert maybe_current_thread() is None
    host.drain()
    assert maybe_current_thread() is None
    host.chips[0].signals.set(0, 1)
    host.drain()
    assert maybe_current_thread() is None
    assert seen == [True] * 4
    assert grid.error is None


@pytest.mark.slow
@every("workers", MODES)
@every("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
@every("colour", ["async", "plain"])
def test_what_a_kernel_raises_is_the_failure_of_its_launch(workers, kind, colour):
    """The failure names kernel, block, thread, exception and line, and has the kernel's traceback as its cause."""
    host = Host(workers)

    def plain(thread):
        if (thread.block.linear, thread.linear) == (1, 3):
            raise kind("of my own")

    async def coro(thread):
        await turn()
        plain(thread)
        await syncthreads()

    function = coro if colour == "async" else plain
    error = host.run(host.grid(function, 2)).error
    assert type(error) is LaunchFailure
    assert (error.block, error.thread) == ((1, 0, 0), (3, 0, 0))
    assert f"thread (3,0,0) of block (1,0,0) of kernel {function.__name__} raised " in str(error)
    assert kind.__name__ in str(error)
    line = line_of(coro, "plain(thread)") if colour == "async" else line_of(plain, "raise kind")
    assert line in str(error)
    cause = error.__cause__
    if kind is not StopIteration:  # which Python itself turns into another error where it leaves a coroutine
        assert isinstance(cause, kind)
        assert traceback.extract_tb(cause.__traceback__)[0].name == function.__name__


@pytest.mark.parametrize("workers", MODES)
def test_the_first_error_closes_everybody_else(workers):
    """After a fault the other threads run their `finally`, and nothing after their await."""
    host = Host(workers)
    closed, passed = [], []

    async def kernel(thread):
        if thread.linear == 5:
            await turn()
            raise ValueError("five")
        try:
            await syncthreads()
            passed.append(thread.linear)
            return "something to settle"
        finally:
            closed.append(thread.linear)

    grid = host.run(host.grid(kernel, 1))
    assert "five" in str(grid.error)
    assert not passed
    assert set(closed) <= set(range(12)) - {5}
    if workers != "sip":  # where a thread may not have begun yet
        assert sorted(closed) == [0, 1, 2, 3, 4]
    assert grid.entry.finished == []


@pytest.mark.parametrize("kind", [DteError, MissingAwait, KernelDeadlock, LaunchFailure])
def test_launch_failures_keep_their_class(kind):
    """A kernel's own DteError stays a DteError, with block and thread."""
    host = Host()

    async def kernel():
        raise kind("context in flight")

    error = host.run(host.grid(kernel, 1, 1)).error
    assert type(error) is kind
    assert error.block == error.thread == (0, 0, 0)
    assert isinstance(error.__cause__, kind)
    assert "thread (0,0,0) of block (0,0,0) of kernel kernel: context in flight" in str(error)


def test_other_execution_errors_keep_their_code():
    """An illegal address in a kernel is a LaunchFailure, and still an illegal address at the C edge."""
    host = Host()

    async def kernel():
        raise IllegalAddress("0x40 is in no allocation")

    error = host.run(host.grid(kernel, 1, 1)).error
    assert type(error) is LaunchFailure
    assert error.code == error.fresh().code == Result.IllegalAddress
    assert isinstance(error.__cause__, IllegalAddress)


def test_what_serving_raises_is_raised_at_the_await():
    """A request that fails is an exception in the kernel, at its line; the kernel may handle it."""

    class Faulty(Request):
        __slots__ = ()

        def serve(self, thread):
            raise IllegalAddress("no such byte")

        def describe(self):
            return "faulty"

    def faulty():
        return Faulty().made_by(current_thread())

    async def kernel():
        await faulty()

    async def careful():
        with contextlib.suppress(IllegalAddress):
            await faulty()
        await turn()

    host = Host()
    error = host.run(host.grid(kernel, 1, 2)).error
    assert line_of(kernel, "await faulty()") in str(error)
    assert error.__cause__.__traceback__.tb_frame.f_code is kernel.__code__
    assert host.run(host.grid(careful, 1, 2)).error is None


@pytest.mark.parametrize("workers", MODES)
@pytest.mark.parametrize("after", ["request", "end", "plain end"])
def test_a_request_never_awaited_is_named_with_its_line(workers, after):
    """It is found at the thread's next request or at its end."""

    async def request():
        syncthreads()
        await turn()

    async def end():
        await turn()
        syncthreads()

    def plain():
        syncthreads()

    function = {"request": request, "end": end, "plain end": plain}[after]
    host = Host(workers)
    error = host.run(host.grid(function, 1, 2)).error
    assert type(error) is MissingAwait
    place = line_of(function, "   syncthreads()").rpartition("/")[2]
    assert f"asked for syncthreads at {place} and never awaited it" in str(error)
    assert error.thread is not None


@pytest.mark.parametrize("how", ["dropped", "held", "in a list"])
def test_a_failure_behind_a_request(how: str):
    """One that is held could have been awaited later: the failure is the kernel's own. One that is dropped is named."""

    def dropped():
        turn()
        raise KeyError("own")

    async def held():
        request = turn()
        if request is not None:
            raise KeyError("own")
        await request

    async def in_a_list():
        requests = [turn()]
        raise KeyError(f"own, {len(requests)}")

    host = Host()
    error = host.run(host.grid({"dropped": dropped, "held": held, "in a list": in_a_list}[how], 1, 1)).error
    assert isinstance(error, MissingAwait) == ("asked for turn" in str(error)) == (how == "dropped")
    assert "raised KeyError: 'own" in str(error)


def test_an_earlier_request_awaited_again_does_not_hide_one_that_is_owed():
    """Awaiting an old request while a new one is owed is found too."""

    async def kernel():
        first = syncthreads()
        await first
        turn()
        await first

    host = Host()
    error = host.run(host.grid(kernel, 1, 1)).error
    assert type(error) is MissingAwait
    assert "asked for turn" in str(error)


class Foreign:
    def __await__(self):
        yield self

    def __repr__(self):
        return "<Foreign>"


@pytest.mark.parametrize("workers", MODES)
def test_awaiting_what_is_no_request_is_named(workers):
    """asyncio.sleep(0) and a home-made awaitable: the failure says what was awaited and what is expected."""

    async def sleeper():
        await asyncio.sleep(0)

    async def stranger():
        await Foreign()

    for function, name in ((sleeper, "sleep0"), (stranger, "Foreign <Foreign>")):
        host = Host(workers)
        error = host.run(host.grid(function, 1, 2)).error
        assert type(error) is LaunchFailure
        assert "kernels may only await kernel requests" in str(error)
        assert line_of(function, "await") in str(error)
        if name != "sleep0":
            assert name in str(error)


def test_sleeping_without_a_loop_says_what_kernels_may_await():
    """asyncio.sleep fails by itself where no loop runs; the failure explains it."""

    async def kernel():
        await asyncio.sleep(1)

    host = Host()
    error = host.run(host.grid(kernel, 1, 1)).error
    assert "no running event loop" in str(error)
    assert "kernels may only await kernel requests" in str(error)


def test_sleeping_inside_a_loop_names_the_coroutine():
    """Where the interpreter itself runs in an asyncio loop, the future that sleep awaits is refused by name."""
    host = Host()

    async def kernel():
        await asyncio.sleep(1)

    async def main():
        return host.run(host.grid(kernel, 1, 1)).error

    error = asyncio.run(main())
    assert "in asyncio.tasks.sleep; kernels may only await kernel requests" in str(error)


def test_a_kernel_that_awaits_while_it_is_closed_does_not_hang():
    """A `finally` that awaits is closed again until it has ended; the first error stays."""
    ended = []

    async def kernel(thread):
        if thread.linear == 1:
            raise ValueError("first")
        try:
            await syncthreads()
        finally:
            try:
                await turn()
            finally:
                await turn()
            ended.append("unreachable")

    host = Host()
    grid = host.run(host.grid(kernel, 1, 2))
    assert "first" in str(grid.error)
    assert not ended
    assert not grid.warnings


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("workers", MODES)
def test_a_kernel_that_refuses_to_be_closed_is_left_and_named(workers):
    """A kernel that swallows GeneratorExit for ever costs a warning, not the run."""

    async def kernel(thread):
        if thread.linear == 1:
            await syncthreads()
            raise ValueError("first")
        while True:
            with contextlib.suppress(GeneratorExit):
                await syncthreads()

    host = Host(workers)
    grid = host.run(host.grid(kernel, 1, 2))
    assert "first" in str(grid.error)
    assert any("thread (0,0,0) of block (0,0,0)" in warning for warning in grid.warnings)
    del grid, host
    gc.collect()  # Python itself reports the coroutine when it goes; here, where that is expected


def test_an_error_in_a_finally_does_not_replace_the_first():
    """What a kernel raises while it is closed is dropped."""

    async def kernel(thread):
        if thread.linear == 1:
            raise ValueError("first")
        try:
            await syncthreads()
        finally:
            raise KeyError("second")

    host = Host()
    assert "first" in str(host.run(host.grid(kernel, 1, 2)).error)


def test_an_error_of_finish_fails_the_launch():
    """What settling a thread's leftovers raises is the failure of the launch."""

    async def kernel():
        await turn()
        return "something to settle"

    host = Host()
    grid = host.grid(kernel, 1, 2)

    def finish(thread, value):
        if thread.linear == 1:
            raise DteError("a transfer was never waited for")

    grid.entry.finish = finish
    error = host.run(grid).error
    assert type(error) is DteError
    assert error.thread == (1, 0, 0)


def test_the_frames_of_a_kernel_do_not_outlive_it():
    """What a kernel held in its variables is free when the grid is done, though its barriers noted its frame."""
    class Held:
        pass

    alive = []

    async def kernel(thread):
        held = Held()
        alive.append(weakref.ref(held))
        await syncthreads()
        await syncblocks()

    host = Host()
    grid = host.run(host.grid(kernel, 2, cooperative=True))
    assert grid.error is None
    assert [ref() for ref in alive] == [None] * 24


@pytest.mark.parametrize("workers", MODES)
@pytest.mark.parametrize("park", ["syncthreads", "syncblocks", "signal"])
def test_abort_closes_parked_threads_at_once(workers, park):
    """A grid that waits ends with the abort's error; every thread has run its `finally`."""
    host = Host(workers)
    parked, closed = threading.Semaphore(0), []

    async def kernel(thread):
        held = {"syncthreads": (1, 0), "syncblocks": (1, 0), "signal": None}[park]
        parked.release()
        try:
            if (thread.linear, thread.block.linear) == held:
                await signal(1, "eq", 1)
            await {"syncthreads": syncthreads, "syncblocks": syncblocks, "signal": lambda: signal(0, "eq", 7)}[park]()
        finally:
            closed.append((thread.block.linear, thread.linear))

    grid = host.submit(host.grid(kernel, 2, 3, cooperative=True))
    if workers == 1:
        host.drain()
    else:
        host.start()
    for _ in range(6):
        assert parked.acquire(timeout=30)
    error = StreamAborted("enough")
    grid.abort(error)
    grid.abort(StreamAborted("again"))
    if workers == 1:
        host.drain()
    host.wait(grid)
    host.stop()
    assert grid.error is error is grid.aborted
    assert sorted(closed) == [(block, thread) for block in range(2) for thread in range(3)]
    assert host.done == [grid]
    assert len(host.chips[0].signals._lots) == 0 or all(len(lot) == 0 for lot in host.chips[0].signals._lots.values())


@pytest.mark.slow
@every("workers", [2, "sip"])
@every("when", range(0, 60, 3))
def test_abort_at_any_point_ends_the_grid(workers, when):
    """Whenever the abort comes, between any two suspensions, the grid ends once and nothing hangs."""
    host = Host(workers)
    counted, lock = [0], threading.Lock()
    grid = None

    async def kernel(thread):
        for _ in range(5):
            with lock:
                counted[0] += 1
                mine = counted[0]
            if mine == when:
                grid.abort(StreamAborted("now"))
            await syncthreads()
            await syncblocks()

    grid = host.grid(kernel, 2, 6, cooperative=True)
    if when == 0:
        grid.abort(StreamAborted("now"))
    host.run(grid)
    assert isinstance(grid.error, StreamAborted)
    assert host.done == [grid]


def test_abort_by_the_kernel_itself_stops_at_the_next_suspension():
    """A running thread goes on to its suspension and no further; those not yet begun never begin."""
    host = Host()
    seen = []

    async def kernel(thread):
        seen.append(("begin", thread.linear))
        if thread.linear == 1:
            thread.grid.abort(StreamAborted("by itself"))
            seen.append(("on", thread.linear))
        await turn()
        seen.append(("after", thread.linear))

    grid = host.run(host.grid(kernel, 1, 3))
    assert isinstance(grid.error, StreamAborted)
    assert seen == [("begin", 0), ("after", 0), ("begin", 1), ("on", 1)]


def test_the_observer_sees_every_turn():
    """An observer is told of turns, requests, ends and faults, and changes no order."""

    def run(observer):
        host = Host()
        order = []

        async def kernel(thread):
            order.append(thread.linear)
            await syncthreads()
            order.append(thread.linear)
            await turn()
            order.append(thread.linear)
            if thread.linear == 2:
                raise ValueError("seen")

        host.run(host.grid(kernel, 1, 3, observer=observer))
        return order

    events = []
    observed = run(lambda kind, thread, detail: events.append((kind, thread.linear)))
    assert observed == run(None)
    assert events[:2] == [("run", 0), ("ask", 0)]
    assert ("end", 0) in events or observed[-1] == 2
    assert events[-1][1] == 2


def test_a_seed_gives_the_same_interleaving_and_another_seed_another():
    """The seeded policy is reproducible, and differs from first come, first served."""

    def run(policy):
        host = Host()
        order = []

        async def kernel(thread):
            for step in range(4):
                order.append((step, thread.linear))
                await turn()
            await syncthreads()
            order.append(thread.linear)

        assert host.run(host.grid(kernel, 1, 6, policy=policy)).error is None
        return order

    assert run(Seeded(1)) == run(Seeded(1))
    assert len({tuple(map(str, run(policy))) for policy in (Seeded(1), Seeded(2), Seeded(3), RoundRobin())}) == 4


def test_the_options_seed_chooses_the_policy():
    """A grid without a policy of its own takes the options' seed, plain functions included."""

    def run(seed):
        host = Host(seed=seed)
        order = []

        def kernel(thread):
            order.append(thread.linear)

        host.run(host.grid(kernel, 1))
        return order

    assert run(None) == list(range(12))
    assert run(5) == run(5) != list(range(12))


@pytest.mark.slow
@pytest.mark.parametrize("workers", MODES)
def test_the_shadow_of_a_finished_grid_is_clean(workers):
    """Many grids one after another on the same chip, some failing, leave nothing that the next one sees."""
    host = Host(workers)

    async def good(thread):
        for _ in range(3):
            await syncthreads()
            await syncblocks()

    async def bad(thread):
        await syncthreads()
        if thread.linear == 3:
            raise ValueError("bad")
        await syncblocks()

    for _ in range(5):
        assert host.run(host.grid(good, 2, cooperative=True)).error is None
        assert "bad" in str(host.run(host.grid(bad, 2, cooperative=True)).error)


def test_a_parked_block_is_handed_out_once_for_each_time_it_parked():
    """Wake-ups that come while a block is handed out already do not hand it out again."""
    host = Host()

    async def kernel(thread):
        await signal(thread.linear, "eq", 1)

    grid = host.submit(host.grid(kernel, 1, 4))
    host.drain()
    assert host.steps == [Progress.PARKED]
    for index in range(4):
        host.chips[0].signals.set(index, 1)
    assert host.tasks.qsize() == 1
    host.drain()
    assert grid.done
    assert host.steps == [Progress.PARKED, Progress.DONE]


@pytest.mark.parametrize("alone", [True, False])
def test_requests_of_a_block_are_served_one_at_a_time_unless_they_guard_themselves(alone):
    """With an OS thread each, two threads are inside `serve` at once only where the request allows it."""
    inside, both = [], threading.Event()

    class Slow(Request):
        __slots__ = ()

        def serve(self, thread):
            inside.append(thread.linear)
            if len(inside) == 2:
                both.set()
            met.append(both.wait(30 if not alone else 0.05))
            inside.remove(thread.linear)
            return True

        def describe(self):
            return "slow"

    Slow.alone = alone
    met = []

    async def kernel(thread):
        await Slow().made_by(thread)

    host = Host("sip")
    assert host.run(host.grid(kernel, 1, 2)).error is None
    assert met == [not alone] * 2


OPERATIONS = {"t": turn, "b": syncthreads, "g": syncblocks}
PROGRAM = st.text("".join(OPERATIONS), max_size=5)


@pytest.mark.slow
@settings(max_examples=60)
@given(rule=PROGRAM, exceptions=st.dictionaries(st.integers(0, 3), PROGRAM, max_size=2))
def test_every_mode_and_order_comes_to_the_same_end(rule, exceptions):
    """Whether threads that only meet at barriers finish or deadlock depends on no order; nothing ever hangs."""

    async def kernel(thread):
        for letter in exceptions.get(2 * thread.block.linear + thread.linear, rule):
            await OPERATIONS[letter]()

    def outcome(workers, **options):
        host = Host(workers)
        return type(host.run(host.grid(kernel, 2, 2, cooperative=True, **options)).error)

    expected = outcome(1)
    assert expected in (type(None), KernelDeadlock)
    assert expected is type(None) or exceptions
    ends = [outcome(1, policy=Seeded(seed)) for seed in range(3)] + [outcome(workers) for workers in (2, "sip")]
    assert ends == [expected] * 5


def test_kernels_run_on_the_thread_that_steps_them():
    """With one worker nothing starts an OS thread."""
    host = Host()
    seen = set()

    async def kernel():
        seen.add(threading.get_ident())
        await syncthreads()
        seen.add(threading.get_ident())

    host.run(host.grid(kernel, 3))
    assert seen == {threading.get_ident()}


def test_an_idle_block_can_be_stepped_by_another_thread(monkeypatch):
    """From the moment it is idle it may be woken elsewhere: its context has been left by then."""
    host, entered = Host(), []

    async def kernel():
        for _ in range(3):
            await syncblocks()

    grid = host.grid(kernel, 2, 2, cooperative=True, context=copy_context())
    note_idle = type(grid.barrier).note_idle

    def noting(barrier, block):
        block.context.run(entered.append, block.linear)  # raises while any thread is in it
        return note_idle(barrier, block)

    monkeypatch.setattr(type(grid.barrier), "note_idle", noting)
    assert host.run(grid).error is None
    assert {*entered} == {0, 1}
