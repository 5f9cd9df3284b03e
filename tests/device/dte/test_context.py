"""DTE contexts and transfers: when a transfer takes effect, which thread may start one, and what is refused where."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError, ExecutionError, IllegalAddress, IllegalState, LaunchFailure, MissingAwait
from atops.device.exec.block import Progress
from atops.device.exec.interpreter import StepBlock
from atops.device.memory.value_wait import Condition, Watch
from tests.kernel_bench import Bench, benches

POISONED = np.frombuffer(b"\xa5" * 4, np.float32)[0]
NUMBERS = np.arange(1, 9, dtype=np.float32)


@pytest.fixture
def make_bench() -> Iterator[Callable[..., Bench]]:
    """Make benches with options."""
    yield from benches()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """A gcu300 bench."""
    return make_bench()


@k.kernel
async def early(x, seen):
    """Read a tile before the wait for it and after."""
    tile = k.local(8, np.float32)
    tile[...] = 0
    with k.dte_scope() as dte:
        event = k.memcpy_async(dte, tile, x)
        seen[0] = tile[0]
        await event
        seen[1] = tile[0]


@pytest.mark.parametrize(
    ("options", "before"),
    [({}, 0), ({"dte": "eager"}, 1), ({"strict": True}, POISONED), ({"dte": "seeded", "seed": 3}, None)],
    ids=["wait", "eager", "strict", "seeded"],
)
def test_when_a_transfer_takes_effect(make_bench: Callable[..., Bench], options: dict, before: float | None):
    """At the wait by default, at the issue when eager, either when seeded; in strict mode the wait shows poison."""
    bench = make_bench(**options)
    x, seen = bench.upload(NUMBERS), bench.empty(2)
    bench.launch(early, (1, 1), x, seen)
    assert seen.host[1] == 1
    assert seen.host[0] in ((0, 1) if before is None else (before,))


def test_seeds_decide_and_repeat(make_bench: Callable[..., Bench]):
    """The same seed gives the same moments, and some seeds differ."""

    @k.kernel
    async def probe(x, seen):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            for turn in range(8):
                tile[...] = 0
                event = k.memcpy_async(dte, tile, x)
                seen[turn] = tile[0]
                await event

    def moments(seed: int) -> tuple[float, ...]:
        bench = make_bench(dte="seeded", seed=seed)
        seen = bench.empty(8)
        bench.launch(probe, (1, 1), bench.upload(NUMBERS), seen)
        return tuple(seen.host)

    runs = [moments(seed) for seed in range(6)]
    assert runs == [moments(seed) for seed in range(6)]
    assert len(set(runs)) > 1 and {0.0, 1.0} == {value for run in runs for value in run}


def test_an_event_is_waited_for_in_every_spelling(bench: Bench):
    """Awaiting, `wait(event)` and `event.wait()` do the same, any number of times; so does the event of no transfer."""
    x, seen = bench.upload(NUMBERS), bench.empty(4)

    @k.kernel
    async def waits(x, seen):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            none = k.event()
            await none
            await k.wait(none)
            for turn, style in enumerate((lambda e: e, k.wait, lambda e: e.wait())):
                tile[...] = 0
                event = k.memcpy_async(dte, tile, x)
                await style(event)
                tile[0] += turn
                await style(event)
                await style(event)
                seen[turn] = tile[0]

    bench.launch(waits, (1, 1), x, seen)
    assert list(seen.host[:3]) == [1, 2, 3]


def test_a_second_trigger_in_flight_is_refused(make_bench: Callable[..., Bench]):
    """A context has one transfer in flight, until it has been waited for, however early the bytes moved."""

    @k.kernel
    async def twice(x):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            k.memcpy_async(dte, tile, x)
            k.memcpy_async(dte, tile, x)

    for options in ({}, {"dte": "eager"}):
        bench = make_bench(**options)
        with pytest.raises(DteError, match=r"thread \(0,0,0\).*in flight: memcpy of test_context.py.*second context"):
            bench.launch(twice, (1, 1), bench.upload(NUMBERS))


@pytest.mark.parametrize("step", ["before", "after", "destroy", "pending"])
def test_a_context_is_used_between_init_and_destroy(bench: Bench, step: str):
    """Use before init, after destroy, destroying twice and destroying in flight name the context and the line."""

    @k.kernel
    async def misuse(x):
        tile = k.local(8, np.float32)
        ctx = k.tops_dte_ctx_t()
        if step == "before":
            k.memcpy(ctx, tile, x)
        k.tops_init_dte(ctx)
        k.memcpy(ctx, tile, x)
        if step == "pending":
            k.memcpy_async(ctx, tile, x)
        k.tops_destroy_dte(ctx)
        if step == "destroy":
            ctx.destroy()
        k.memcpy_async(ctx, tile, x)

    why = {"before": "memcpy on .*not initialised", "after": "memcpy on .*was destroyed",
           "destroy": "destroy on .*was destroyed", "pending": "destroy on .*in flight"}[step]  # fmt: skip
    with pytest.raises(DteError, match=rf"thread \(0,0,0\).*test_context.py:\d+ in .*misuse: {why}") as caught:
        bench.launch(misuse, (1, 1), bench.upload(NUMBERS))
    assert caught.value.thread == (0, 0, 0)


def test_a_context_may_be_initialised_again(bench: Bench):
    """Initialising after destroy makes it ready once more."""
    x = bench.upload(NUMBERS)

    @k.kernel
    def again(x):
        ctx = k.tops_dte_ctx_t()
        for value in (1, 2):
            ctx.init()
            k.memset(ctx, x, value)
            ctx.destroy()

    bench.launch(again, (1, 1), x)
    assert list(x.host) == [2] * 8


def test_private_contexts_move_between_any_memories(bench: Bench):
    """Global, shared and local memory in any pair, also two ranges of one."""
    x = bench.upload(np.arange(16, dtype=np.float32))

    @k.kernel
    def around(x):
        local, shared = k.local((2, 8), np.float32), k.shared((2, 8), np.float32)
        with k.dte_scope() as dte:
            k.memcpy(dte, shared[0], x[:8])
            k.memcpy(dte, shared[1], shared[0])
            k.memcpy(dte, local[0], shared[1])
            k.memcpy(dte, local[1], local[0])
            k.memcpy(dte, x[8:], local[1])

    bench.launch(around, (1, 1), x)
    assert list(x.host[8:]) == list(range(8))


def test_shared_contexts_leave_local_memory_alone(bench: Bench):
    """A block's context moves between global and shared memory; local memory is refused."""
    x = bench.upload(NUMBERS)

    @k.kernel
    async def stage(x, wrong: bool):
        ctx, row = k.shared_dte_ctx(), k.shared(8, np.float32)
        if k.threadIdx.x == 0:
            ctx.init()
            await k.memcpy_async(ctx, row, x)
        await k.syncthreads()
        row[k.threadIdx.x] *= 2
        await k.syncthreads()
        if k.threadIdx.x == 1:
            k.memcpy(ctx, x, row)
            if wrong:
                k.memcpy(ctx, k.local(8, np.float32), row)
            k.tops_destroy_dte(ctx)

    bench.launch(stage, (1, 8), x, False)
    assert list(x.host) == list(NUMBERS * 2)
    with pytest.raises(DteError, match=r"thread \(1,0,0\).*dst of memcpy lies in local memory"):
        bench.launch(stage, (1, 8), x, True)


def test_a_shared_context_serves_one_thread_at_a_time(bench: Bench):
    """A trigger by one thread while another's transfer is in flight names both."""
    x = bench.upload(NUMBERS)

    @k.kernel
    async def crowd(x):
        ctx, row = k.shared_dte_ctx(), k.shared(8, np.float32)
        ctx.init()
        event = k.memcpy_async(ctx, row, x)
        await k.syncthreads()
        await event

    with pytest.raises(DteError, match=r"thread \(1,0,0\).*in flight.*issued by thread \(0,0,0\)"):
        bench.launch(crowd, (1, 2), x)


def test_threads_may_share_an_event_of_a_shared_context(bench: Bench):
    """Any thread of the block may wait for it, and the first one to wait moves the bytes once."""
    x, seen = bench.upload(NUMBERS), bench.empty(4)
    events: list[k.event] = []

    @k.kernel
    async def share(x, seen):
        ctx, row = k.shared_dte_ctx(), k.shared(8, np.float32)
        me = k.threadIdx.x
        if me == 0:
            ctx.init()
            events.append(k.memcpy_async(ctx, row, x))
        await k.syncthreads()
        await events[0]
        row[0] += 1
        seen[me] = row[0]
        await k.syncthreads()
        await events[0]

    bench.launch(share, (1, 4), x, seen)
    assert list(seen.host) == [2, 3, 4, 5]


def test_private_contexts_and_events_stay_with_their_thread(bench: Bench):
    """Another thread can neither use a private context nor wait for its event."""
    x = bench.upload(NUMBERS)
    kept: list[object] = []

    @k.kernel
    async def lend(x, use: bool):
        tile = k.local(8, np.float32)
        if k.threadIdx.x == 0:
            ctx = k.tops_dte_ctx_t()
            ctx.init()
            kept[:] = [ctx, k.memcpy_async(ctx, tile, x)]
        await k.syncthreads()
        if k.threadIdx.x == 1:
            if use:
                k.memcpy(kept[0], tile, x)
            await kept[1]
        await k.syncthreads()

    with pytest.raises(DteError, match=r"thread \(1,0,0\).*private DTE context of thread \(0,0,0\).*only its own"):
        bench.launch(lend, (1, 2), x, True)
    with pytest.raises(DteError, match=r"thread \(1,0,0\).*thread \(0,0,0\).*issued in its private DTE context"):
        bench.launch(lend, (1, 2), x, False)


def test_only_its_own_thread_initialises_a_context(bench: Bench):
    """Another thread can no more make a context ready than use it; nor can the host, which finds no kernel thread."""
    kept: list[object] = []

    @k.kernel
    async def lend():
        if k.threadIdx.x == 0:
            kept[:] = [k.tops_dte_ctx_t()]
        await k.syncthreads()
        if k.threadIdx.x == 1:
            kept[0].init()

    with pytest.raises(DteError, match=r"thread \(1,0,0\).*init on <private DTE context of thread \(0,0,0\).*its own"):
        bench.launch(lend, (1, 2))
    with pytest.raises(IllegalState, match="host"):
        kept[0].init()
    assert repr(kept[0]).endswith(", not initialised>")
    with pytest.raises(IllegalState, match="host"):
        k.memset(kept[0], np.zeros(8, np.float32), 0)


def test_wrong_geometry_fails_at_the_guilty_line(bench: Bench):
    """What the operation demands is checked at the issue: the traceback ends in the kernel's own line."""
    x = bench.upload(NUMBERS)

    @k.kernel
    async def small(x):
        tile = k.local(7, np.float32)
        with k.dte_scope() as dte:
            event = k.memcpy_async(dte, tile, x)
            await event

    line = small.function.__code__.co_firstlineno + 4
    with pytest.raises(DteError, match=rf"test_context.py:{line} .*memcpy: dst float32\[7\] has 28 bytes"):
        bench.launch(small, (1, 1), x)

    @k.kernel
    def outside(x):
        with k.dte_scope() as dte:
            k.deslice(dte, x, k.local(4, np.float32), [6])

    with pytest.raises(DteError, match="deslice: in dimension 0 the window from 6 to 10 leaves dst"):
        bench.launch(outside, (1, 1), x)


@pytest.mark.parametrize("operand", ["3.5", "[1, 2]", "None"])
def test_what_is_no_memory_is_refused(bench: Bench, operand: str):
    """Numbers, lists and nothing are no operands, and the message says which would be."""
    value = eval(operand)

    @k.kernel
    def wrong(x):
        with k.dte_scope() as dte:
            k.memcpy(dte, x, [value] if value is None else value)

    with pytest.raises(DteError, match=r"src of memcpy is .*expected a span or a k.local or k.shared array"):
        bench.launch(wrong, (1, 1), bench.upload(NUMBERS))


def test_another_threads_local_memory_is_refused(bench: Bench):
    """A thread's DTE cannot reach another SIP's L1."""
    tiles: list[object] = []

    @k.kernel
    async def steal(x):
        tiles.append(k.local(8, np.float32))
        await k.syncthreads()
        with k.dte_scope() as dte:
            k.memcpy(dte, x, tiles[0])

    with pytest.raises(DteError, match=r"thread \(1,0,0\).*outside this thread's memories"):
        bench.launch(steal, (1, 2), bench.upload(NUMBERS))


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_freed_memory_is_found_at_the_issue_and_at_the_wait(bench: Bench, late: bool, store: bool):
    """An allocation that died before the issue, or between issue and wait, is a fault that names the operation."""
    x = bench.upload(NUMBERS)

    @k.kernel
    async def use(x, free):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            if not late:
                free()
            event = k.memcpy_async(dte, x, tile) if store else k.memcpy_async(dte, tile, x)
            if late:
                free()
            await event

    line = use.function.__code__.co_firstlineno + (9 if late else 6)
    said = rf"memcpy of thread \(0,0,0\).*freed by the test \(.*test_context.py:{line}\)"
    with pytest.raises(LaunchFailure, match=said) as caught:
        bench.launch(use, (1, 1), x, lambda: bench.memory.free(x.allocation, "the test"))
    assert isinstance(caught.value.__cause__, IllegalAddress)


def test_a_transfer_ends_a_wait_for_a_value(bench: Bench):
    """What a transfer stores is told to the watches of its bytes, when it takes effect."""
    x, y = bench.upload(NUMBERS), bench.empty(16)
    seen: list[int] = []
    for place in (3, 12):
        value = int(NUMBERS[3:4].view(np.int32)[0])
        Watch(y.allocation, 4 * place, 32, value, Condition.Eq, None, lambda place=place: seen.append(place)).arm()

    @k.kernel
    async def publish(x, y):
        with k.dte_scope() as dte:
            event = k.memcpy_async(dte, y[:8], x)
            assert seen == []
            await event
            assert seen == [3]

    bench.launch(publish, (1, 1), x, y)
    assert seen == [3]


@k.kernel
async def forget(x, y):
    """Issue a transfer and never wait for it."""
    ctx = k.tops_dte_ctx_t()
    ctx.init()
    k.memcpy_async(ctx, y, x)


@pytest.mark.parametrize("dte", ["wait", "eager"])
def test_what_was_never_waited_for_is_done_and_reported(make_bench: Callable[..., Bench], dte: str):
    """It is performed at the end of the thread; the default warns with thread and line, strict mode raises."""
    bench = make_bench(dte=dte)
    x, y = bench.upload(NUMBERS), bench.empty(8)
    grid = bench.launch(forget, (1, 1), x, y)
    assert list(y.host) == list(NUMBERS)
    assert len(grid.warnings) == 1
    assert "thread (0,0,0)" in grid.warnings[0] and "memcpy of test_context.py" in grid.warnings[0]
    strict = make_bench(dte=dte, strict=True)
    x, y = strict.upload(NUMBERS), strict.empty(8)
    with pytest.raises(DteError, match=r"thread \(0,0,0\).*never waited for the memcpy of test_context.py"):
        strict.launch(forget, (1, 1), x, y)
    assert list(y.host) == list(NUMBERS)


def test_a_wait_that_is_not_awaited_is_named(bench: Bench):
    """`wait(event)` alone does nothing; the next operation names its line."""

    @k.kernel
    async def lazy(x):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            k.wait(k.memcpy_async(dte, tile, x))
            k.memset(dte, tile, 0)

    line = lazy.function.__code__.co_firstlineno + 4
    with pytest.raises(MissingAwait, match=rf"memcpy.*test_context.py:{line} and never awaited it"):
        bench.launch(lazy, (1, 1), bench.upload(NUMBERS))


def test_poison_covers_only_what_the_transfer_writes(make_bench: Callable[..., Bench]):
    """In strict mode a deslice poisons its window and no more, and an in-place move keeps its source."""
    bench = make_bench(strict=True)
    x, seen = bench.upload(NUMBERS), bench.empty(8)

    @k.kernel
    async def window(x, seen):
        tile = k.local(2, np.float32)
        tile[...] = 50
        with k.dte_scope() as dte:
            event = k.deslice_async(dte, x, tile, [3])
            seen[...] = x
            await event
            await k.memcpy_async(dte, x, x)
            await k.memset_async(dte, tile, 4)
            assert tile[1] == 4

    bench.launch(window, (1, 1), x, seen)
    assert [value == POISONED for value in seen.host] == [False] * 3 + [True] * 2 + [False] * 3
    assert list(x.host) == [1, 2, 3, 50, 50, 6, 7, 8]


@k.kernel
async def overlap(x, seen, copy):
    """Thread 0 waits for two transfers; thread 1 does the copy thread's work of the first once thread 0 is parked."""
    tile = k.local(8, np.float32)
    tile[...] = 0
    if k.threadIdx.x == 0:
        with k.dte_scope() as dte:
            for turn in range(2):
                event = k.memcpy_async(dte, tile, x)
                seen[turn] = tile[0]
                await event
            seen[2] = tile[0]
    else:
        copy()


def test_a_thread_parks_until_a_copy_thread_is_done(make_bench: Callable[..., Bench]):
    """The thread goes on at the issue, parks at the wait, and is woken with the context free for the next transfer."""
    bench = make_bench(dte="eager")
    x, seen = bench.upload(NUMBERS), bench.empty(3)
    work: list[Callable[[], None]] = []

    def offload(transfer: Callable[[], None]) -> None:
        work.append(transfer) if not work else transfer()

    bench.launch(overlap, (1, 2), x, seen, lambda: work[0](), offload=offload)
    assert list(seen.host) == [0, 1, 1]


def test_what_fails_on_a_copy_thread_is_raised_at_the_wait(make_bench: Callable[..., Bench]):
    """A thread that was parked when its memory died gets the error at its own `await`."""
    bench = make_bench(dte="eager")
    x, seen = bench.upload(NUMBERS), bench.empty(3)
    work: list[Callable[[], None]] = []
    line = overlap.function.__code__.co_firstlineno + 10

    def copy() -> None:
        bench.memory.free(x.allocation, "the test")
        work[0]()

    with pytest.raises(LaunchFailure, match=rf"freed by the test.*test_context.py:{line}\)"):
        bench.launch(overlap, (1, 2), x, seen, copy, offload=work.append)


def test_copy_threads_of_their_own(make_bench: Callable[..., Bench]):
    """With an OS thread for each transfer every byte arrives, in any order."""
    bench = make_bench(dte="eager")
    x, y = bench.upload(np.arange(1 << 12, dtype=np.float32)), bench.empty(1 << 12)
    copiers: list[threading.Thread] = []

    def offload(work: Callable[[], None]) -> None:
        copiers.append(threading.Thread(target=work))
        copiers[-1].start()

    @k.kernel
    async def through(x, y):
        tile = k.local(64, np.float32)
        with k.dte_scope() as dte:
            for part in k.tiles(x.size, 64):
                await k.memcpy_async(dte, tile, x[part])
                await k.memcpy_async(dte, y[part], tile)

    bench.launch(through, (1, 4), x, y, offload=offload)
    for copier in copiers:
        copier.join()
    assert np.array_equal(x.host, y.host)


def test_events_keep_no_variables_alive(bench: Bench):
    """An event that was waited for holds no frame, so that what a kernel made goes when the kernel ends."""

    class Marker:
        pass

    gone: list[weakref.ref[Marker]] = []

    @k.kernel
    async def hold(x):
        marker = Marker()
        gone.append(weakref.ref(marker))
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            event = k.memcpy_async(dte, tile, x)
            await k.wait(event)
            await k.wait(event)

    gc.disable()
    try:
        bench.launch(hold, (1, 1), bench.upload(NUMBERS))
        assert gone[0]() is None
    finally:
        gc.enable()


def test_contexts_belong_to_kernels():
    """The host has no DTE context."""
    for make in (k.tops_dte_ctx_t, k.shared_dte_ctx, k.dte_scope):
        with pytest.raises(IllegalState, match="host"):
            make()


def test_contexts_and_events_show_their_state(bench: Bench):
    """A context names its kind, owner and state; an event its operation, line and state."""
    texts: list[str] = []

    @k.kernel
    async def show(x):
        ctx = k.tops_dte_ctx_t()
        texts.append(repr(ctx))
        ctx.init()
        event = k.memset_async(ctx, x, 0)
        texts.append(repr(event))
        await event
        texts.append(repr(event))
        texts.append(repr(k.event()))
        texts.append(repr(k.shared_dte_ctx()))

    bench.launch(show, (1, 1), bench.upload(NUMBERS))
    whose, said = "thread (0,0,0) of block (0,0,0) of kernel show", texts[0]
    assert re.fullmatch(rf"<private DTE context of {re.escape(whose)}, declared at .*:\d+ in .*show, not init.*>", said)
    assert texts[1].startswith("<DteEvent memset of test_context.py:") and texts[1].endswith("pending>")
    assert texts[2].endswith("done>") and texts[3] == "<DteEvent idle>"
    assert texts[4].startswith("<shared DTE context of block (0, 0, 0), declared at test_context.py:")


def test_an_abort_leaves_the_rest_alone(bench: Bench):
    """An exception leaves a dte_scope without hiding itself, transfer in flight or not."""

    @k.kernel
    async def fail(x):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            k.memcpy_async(dte, tile, x)
            raise KeyError("mine")

    with pytest.raises(LaunchFailure, match="KeyError") as caught:
        bench.launch(fail, (1, 1), bench.upload(NUMBERS))
    assert isinstance(caught.value.__cause__, KeyError)


SCALES = k.constant(np.float32, NUMBERS)
TOTALS = k.device_variable(np.float32, shape=8)


def test_variables_and_pointers_are_operands(bench: Bench):
    """A declared variable stands for its span, a pointer for its memory from there on; constants are only read."""
    x = bench.empty(8)

    @k.kernel
    async def run(x, wrong: bool):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            await k.memcpy_async(dte, tile, SCALES)
            k.memcpy(dte, TOTALS, tile)
            k.memcpy(dte, x, k.pointer(TOTALS) + 2)
            k.deslice(dte, k.pointer(x), tile[:2], [6])
            if wrong:
                k.memcpy(dte, SCALES, tile)

    bench.launch(run, (1, 1), x, False)
    assert list(x.host) == [3, 4, 5, 6, 7, 8, 1, 2]
    line = run.function.__code__.co_firstlineno + 9
    with pytest.raises(DteError, match=rf"thread \(0,0,0\).*test_context.py:{line} .*memcpy lies in constant memory"):
        bench.launch(run, (1, 1), x, True)


def test_an_array_that_is_only_read_is_no_destination(bench: Bench):
    """A view that numpy made read-only is refused at the issue."""

    @k.kernel
    def run(x):
        rows = np.broadcast_to(k.shared(8, np.float32), (8,))
        with k.dte_scope() as dte:
            k.memcpy(dte, rows, x)

    with pytest.raises(DteError, match="dst of memcpy is an array that kernels only read"):
        bench.launch(run, (1, 1), bench.upload(NUMBERS))


@pytest.mark.parametrize("workers", [1, "sip"])
def test_a_thread_that_polls_by_dte_lets_others_run(make_bench: Callable[..., Bench], workers: object):
    """One thread fetches a flag until it is set, another sets it: waits that are over at once do not keep the turn."""
    bench = make_bench(workers=workers)
    flag = bench.empty(1, np.int32)

    @k.kernel
    async def poll(flag):
        mine = k.local(1, np.int32)
        mine[0] = k.threadIdx.x
        with k.dte_scope() as dte:
            if k.threadIdx.x == 1:
                await k.memcpy_async(dte, flag, mine)
            while mine[0] == 0:
                await k.memcpy_async(dte, mine, flag)

    bench.launch(poll, (1, 2), flag)
    assert flag.host[0] == 1


@pytest.mark.parametrize("how", ["a context each time", "an event of no transfer", "a wait by name"])
def test_any_wait_that_is_over_at_once_lets_others_run(bench: Bench, how: str):
    """What polls with a fresh context each time, or awaits what is over already, gives the turn back, too."""
    flag = bench.empty(1, np.int32)

    @k.kernel
    async def poll(flag):
        mine = k.local(1, np.int32)
        mine[0] = k.threadIdx.x
        over = k.event()
        if k.threadIdx.x == 1:
            with k.dte_scope() as dte:
                await k.memcpy_async(dte, flag, mine)
        while mine[0] == 0:
            with k.dte_scope() as dte:
                if how == "an event of no transfer":
                    k.memcpy(dte, mine, flag)
                    await over
                elif how == "a wait by name":
                    await k.wait(k.memcpy_async(dte, mine, flag))
                else:
                    await k.memcpy_async(dte, mine, flag)

    bench.launch(poll, (1, 2), flag)
    assert flag.host[0] == 1


def test_waits_that_are_over_at_once_count_for_the_slice(bench: Bench):
    """A block that transfers without end is stepped for about its slice: what else the lane has to do gets a turn."""
    done = []

    @k.kernel
    async def forever(x):
        tile = k.local(8, np.float32)
        with k.dte_scope() as dte:
            while True:
                await k.memcpy_async(dte, tile, x)
                done.append(1)

    grid = bench.grid(forever, (1, 1), bench.upload(NUMBERS))
    cluster = bench.chip.clusters[0]
    block = StepBlock(grid, 0, cluster, cluster.sips)
    assert block.step(256) is Progress.AGAIN
    assert 256 <= len(done) < 512
    grid.stop(ExecutionError("enough"))
    assert block.step(256) is Progress.DONE


def test_what_a_closed_kernel_awaits_is_not_served(bench: Bench):
    """The `finally` of a thread that is closed moves nothing more, however it asks for it."""
    seen = []

    @k.kernel
    async def closed(x, y):
        tile = k.local(8, np.float32)
        tile[:] = 7
        with k.dte_scope() as dte:
            if k.threadIdx.x == 1:
                await k.memcpy_async(dte, tile, x)
                raise ValueError("enough")
            try:
                await k.syncthreads()
            finally:
                await k.memcpy_async(dte, y, tile)
                seen.append("went on")

    y = bench.empty(8)
    grid = bench.attempt(closed, (1, 2), bench.upload(NUMBERS), y)
    assert "enough" in str(grid.error)
    assert not y.host.any() and not seen


@pytest.mark.parametrize("bound", [np.uint8, np.int16, np.int32, np.int64, int])
def test_parts_from_bounds_in_memory(bench: Bench, bound: Callable[[int], int]):
    """Bounds read from a table of any integer type give the same part: its offset is counted without that type."""
    offsets = []

    @k.kernel
    async def part(x):
        tile = k.local(40, np.float32)
        tile[:] = 3
        for row in (x[bound(2) : bound(3)], x[2 : bound(3)], x[bound(2) : 3]):
            offsets.append((type(row.offset), row.offset))
            with k.dte_scope() as dte:
                await k.memcpy_async(dte, row.reshape(row.size), tile)

    x = bench.upload(np.zeros((4, 40), np.float32))
    bench.launch(part, (1, 1), x)
    assert offsets == [(int, 2 * 40 * 4)] * 3
    assert (x.host[2] == 3).all() and not x.host[[0, 1, 3]].any()


def test_a_stopped_grid_ends_a_kernel_that_only_moves(bench: Bench):
    """A thread that transfers for ever is closed at a wait once its grid has failed."""

    @k.kernel
    async def forever(x):
        tile = k.local(8, np.float32)
        if k.threadIdx.x == 1:
            raise ValueError("enough")
        with k.dte_scope() as dte:
            while True:
                await k.memcpy_async(dte, tile, x)

    with pytest.raises(LaunchFailure, match="enough"):
        bench.launch(forever, (1, 2), bench.upload(NUMBERS))


@pytest.mark.parametrize("arch", ["gcu300", "gcu210"])
def test_only_contiguous_memory_is_moved(make_bench: Callable[..., Bench], arch: str):
    """What no mdspan describes is refused as either operand, in every form, with the operation that moves it so."""
    views = {
        "mirror_tb reverses": lambda x: x[::-1],
        "transpose permutes": lambda x: x.reshape(8, 8).T,
        "slice takes a window": lambda x: x.reshape(8, 8)[:, 2:4],
        "each n-th element": lambda x: x[::2],
        "broadcast repeats": lambda x: np.broadcast_to(x[:1], (8,)),
    }

    @k.kernel
    async def refuse(x):
        tile = k.local(64, np.float32)
        with k.dte_scope() as dte, k.dte_scope() as other:
            other.config_memcpy(tile, x)
            for said, view in views.items():
                for memory in (x, tile):
                    part = view(memory)
                    if not isinstance(part, k.Span | np.ndarray) or (memory is x and "repeats" in said):
                        continue
                    for act in (
                        lambda part: k.memcpy(dte, tile, part),
                        lambda part: k.memcpy_async(dte, x, part),
                        lambda part: k.slice(dte, x[:1], part, (0,) * part.ndim),
                        lambda part: dte.config_memcpy(tile, part),
                        lambda part: other.set_src_addr(part),
                    ):
                        with pytest.raises(DteError, match=rf"src of .* has gaps or another order.*{said}"):
                            act(part)
            with pytest.raises(DteError, match=r"dst of memcpy has gaps.*deslice writes a window"):
                k.memcpy(dte, tile.reshape(8, 8)[:, :2], x[:16].reshape(8, 2))
            k.memcpy(dte, tile.reshape(8, 8)[2:4], x[:16])  # whole rows are one run
            k.memcpy(dte, tile[3:3], x[5:5])

    bench = make_bench(arch=arch)
    bench.launch(refuse, (1, 1), bench.upload(np.arange(64, dtype=np.float32)))


def test_a_copy_within_one_memory_must_not_overlap(bench: Bench):
    """Parts that lie apart are copied; those that share bytes are refused at the call, of any memory."""
    x, seen = bench.upload(NUMBERS), []

    @k.kernel
    async def within(x):
        tile = k.local(8, np.float32)
        tile[:] = 5
        with k.dte_scope() as dte:
            for memory in tile, x:
                await k.memcpy_async(dte, memory[4:], memory[:4])
                for copy in k.memcpy_async, k.memcpy:
                    with pytest.raises(DteError, match=r"memcpy: dst .* overlap in memory"):
                        copy(dte, memory[2:6], memory[:4])
                    seen.append(copy)

    bench.launch(within, (1, 1), x)
    assert len(seen) == 4 and list(x.host) == [1, 2, 3, 4] * 2
