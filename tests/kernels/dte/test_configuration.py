"""Contexts that are configured once: each operation, patches, triggers, chains, and what is refused where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError, IllegalAddress, LaunchFailure, MissingAwait
from atops.device.dte.operations import OPERATIONS
from tests.device.transform_cases import EXAMPLES, random_array
from tests.device.transform_oracles import cells, expected
from tests.every import every
from tests.kernel_bench import Bench, benches

NAMES = list(OPERATIONS)
MODES = [{}, {"dte": "eager"}, {"dte": "seeded", "seed": 5}, {"strict": True}, {"workers": "sip"}]
TILE = 8


@pytest.fixture
def make_bench() -> Iterator[Callable[..., Bench]]:
    """Make benches with options."""
    yield from benches()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """A gcu300 bench."""
    return make_bench()


def refused(bench: Bench, said: str, *, config: tuple[int, int] = (1, 1)) -> Callable[..., Any]:
    """Return a decorator that runs a kernel on one array of eight and demands that it fails so, naming the thread."""

    def run(function: Callable[..., Any]) -> None:
        with pytest.raises(LaunchFailure, match=rf"thread \(\d,0,0\).*test_configuration.py:\d+.*{said}"):
            bench.launch(k.kernel(function), config, bench.upload(np.arange(TILE, dtype=np.float32)))

    return run


@pytest.mark.slow
@every("mode", MODES, ids=str)
@every("name", NAMES)
def test_each_operation_is_configured_once_and_triggered_often(make_bench: Callable[..., Bench], name: str, mode: dict):
    """Triggered twice, and a third time at other addresses, an operation does each time what its oracle says."""
    bench, case = make_bench(**mode), EXAMPLES[name]
    before = random_array(case.dst, case.dst_kind, 2)
    sources = [random_array(case.src or (1,), case.src_kind, seed) for seed in (3, 4)]
    x, y = bench.upload(np.stack(sources)), bench.upload(np.stack([before] * 3))

    @k.kernel
    async def run(x, y):
        tile = k.local(before.shape, before.dtype)
        with k.dte_scope() as copy, k.dte_scope() as dte:
            configure = getattr(dte, f"config_{name}")
            configure(tile, *(() if case.src is None else (x[0],)), **case.parameters)
            k.memcpy(copy, tile, y[0])
            await dte.trigger()
            k.memcpy(copy, tile, y[0])
            dte.trigger_and_wait()
            k.memcpy(copy, y[0], tile)
            if case.src is not None:
                dte.set_src_addr(x[1])
            dte.set_dst_addr(y[1])
            event = dte.trigger()
            await event
            await event

    bench.launch(run, (1, 1), x, y)
    for result, source in zip(y.host[:2], sources, strict=True):
        assert cells(result) == expected(name, before, None if case.src is None else source, **case.parameters)
    assert cells(y.host[2]) == cells(before)


@pytest.mark.slow
@every("role", ["src", "dst"])
@every("name", NAMES)
def test_offsets_are_patched(bench: Bench, name: str, role: str):
    """Each window moves where a patch says, also where it leaves src; an operation without one says what it has."""
    case = EXAMPLES[name]
    before, source = random_array(case.dst, case.dst_kind, 2), random_array(case.src or (1,), case.src_kind)
    x, y = bench.upload(source), bench.upload(before)
    seen: list[Any] = []

    @k.kernel
    async def run(x, y, offset):
        tile = k.local(before.shape, before.dtype)
        with k.dte_scope() as copy, k.dte_scope() as dte:
            getattr(dte, f"config_{name}")(tile, *(() if case.src is None else (x,)), **case.parameters)
            for row in (0, offset):
                getattr(dte, f"set_{role}_offset")(0, row)
                k.memcpy(copy, tile, y)
                await dte.trigger()
                seen.append(cells(tile))

    if role not in OPERATIONS[name].work.offsets:
        has = " and ".join(f"{each} offsets" for each in OPERATIONS[name].work.offsets) or "no offsets at all"
        with pytest.raises(DteError, match=f"{name} has no {role} offsets; it has {has}"):
            bench.launch(run, (1, 1), x, y, 1)
        return
    bench.launch(run, (1, 1), x, y, 1)
    key = OPERATIONS[name].work.offsets[role]
    for offset, result in enumerate(seen):
        given = {**case.parameters, key: (offset, *case.parameters[key][1:])}
        assert result == expected(name, before, source, **given)
    if role == "dst":
        said = rf"{name}: in dimension 0 the window from 99 to \d+ leaves dst, whose extent is {case.dst[0]}.*config"
        with pytest.raises(DteError, match=rf"thread \(0,0,0\).*test_configuration.py:\d+.*{said}"):
            bench.launch(run, (1, 1), x, y, 99)
    with pytest.raises(DteError, match=f"{name}: .*dimension 0 is -1; expected 0 or more"):
        bench.launch(run, (1, 1), x, y, -1)


@pytest.mark.parametrize("name", [row.name for row in OPERATIONS.values() if row.gcu_arch == 300])
def test_gcu210_cannot_configure_what_it_lacks(make_bench: Callable[..., Bench], name: str):
    """The operations of gcu300 are refused where they are configured."""
    bench, case = make_bench(arch="gcu210"), EXAMPLES[name]

    @k.kernel
    def run(x, y):
        with k.dte_scope() as dte:
            getattr(dte, f"config_{name}")(y, x, **case.parameters)

    with pytest.raises(DteError, match=rf"thread \(0,0,0\).*{name} needs gcu300; this is gcu210"):
        bench.launch(run, (1, 1), bench.empty(case.src), bench.empty(case.dst))


def test_addresses_take_the_configured_form(bench: Bench):
    """A patched operand is the start of its memory, in the configured shape and type; too little and gaps fail."""
    x = bench.upload(np.arange(2 * TILE, dtype=np.float32))

    @k.kernel
    async def run(x):
        tile = k.local((2, TILE // 2), np.float32)
        with k.dte_scope() as dte:
            dte.config_memcpy(tile, k.mdspan(x, 2, TILE // 2))
            dte.set_src_addr(x[TILE:])
            dte.trigger_and_wait()
            dte.set_dst_addr(x.view(np.int32))
            dte.set_src_addr(tile)
            dte.trigger_and_wait()
            for wrong, said in (
                (x[: TILE - 1], r"src of memcpy: float32\[2, 4\] has 32 bytes; float32\[7\] has 28"),
                (x[::2], r"src of memcpy has gaps or another order: shape \(8,\) .* sub_sample each n-th element"),
                (np.zeros(TILE, np.float32), "outside this thread's memories"),
                (None, "src of memcpy is None; expected a span"),
            ):
                with pytest.raises(DteError, match=said):
                    dte.set_src_addr(wrong)

    bench.launch(run, (1, 1), x)
    assert list(x.host) == [*range(TILE, 2 * TILE)] * 2


def test_a_total_size_is_of_memcpy(bench: Bench):
    """A memcpy moves so many bytes from then on, of patched memory too; 0 is fine, more than there are fails."""
    x, y = bench.upload(np.arange(TILE, dtype=np.float32)), bench.empty((2, TILE))

    @k.kernel
    async def run(x, y):
        with k.dte_scope() as dte:
            dte.config_memcpy(y[0], x)
            dte.set_total_size(12)
            await dte.trigger()
            dte.set_dst_addr(y[1])
            dte.set_total_size(4 * TILE)
            await dte.trigger()
            dte.set_total_size(0)
            await dte.trigger()
            for wrong, said in ((33, "has 33 bytes; float32.* has 32"), (-1, "0 or more"), (1.5, "number of bytes")):
                with pytest.raises(DteError, match=said):
                    dte.set_total_size(wrong)
            dte.config_transpose(y, y, (0, 1))
            with pytest.raises(DteError, match="transpose has no total size, only memcpy has"):
                dte.set_total_size(8)

    bench.launch(run, (1, 1), x, y)
    assert y.host.tolist() == [[0, 1, 2, 0, 0, 0, 0, 0], [*range(TILE)]]


def test_a_trigger_needs_a_configuration(bench: Bench):
    """Triggers and patches before it, after destroy and after an operation that configures for itself are named."""

    @refused(bench, "trigger on <private DTE context.*not configured; call config_memcpy")
    async def early(x):
        with k.dte_scope() as dte:
            await dte.trigger()

    @refused(bench, "set_src_offset on <private DTE context.*not configured")
    async def patch(x):
        with k.dte_scope() as dte:
            dte.set_src_offset(0, 1)

    @refused(bench, "trigger on .*not configured.*again after an operation that configures for itself")
    async def replaced(x):
        with k.dte_scope() as dte:
            dte.config_memset(x, 1)
            k.memset(dte, x, 2)
            dte.trigger_and_wait()

    @refused(bench, "trigger on .*not configured")
    async def destroyed(x):
        dte = k.tops_dte_ctx_t()
        dte.init()
        dte.config_memset(x, 1)
        dte.destroy()
        dte.init()
        dte.trigger_and_wait()

    @refused(bench, "config_memset on .*not initialised")
    async def raw(x):
        k.tops_dte_ctx_t().config_memset(x, 1)


def test_a_context_in_flight_is_left_alone(bench: Bench):
    """A second trigger, a patch, a new configuration and a connection wait until the event was waited for."""
    names, seen = ("trigger", "set_dst_addr", "config_memset", "connect", "set_total_size"), []
    for each in names:

        @refused(bench, f"{each} on .*in flight: memcpy of test_configuration.py")
        async def busy(x):
            what = names[len(seen)]
            seen.append(what)
            tile = k.local(TILE, np.float32)
            with k.dte_scope() as dte, k.dte_scope() as other:
                dte.config_memcpy(tile, x)
                event = dte.trigger()
                arguments = {"set_dst_addr": (tile,), "config_memset": (tile, 0), "connect": (other,),
                             "set_total_size": (4,)}  # fmt: skip
                getattr(dte, what)(*arguments.get(what, ()))
                await event


def test_what_a_trigger_demands(bench: Bench):
    """What cannot be done is found at the trigger, which names where it was configured; so is dead memory."""

    @refused(bench, r"memcpy: dst float32\[4\] has 16 bytes.*configured at test_configuration.py")
    async def small(x):
        with k.dte_scope() as dte:
            dte.config_memcpy(k.local(4, np.float32), x)
            await dte.trigger()

    @refused(bench, "overlap in memory")
    async def overlaps(x):
        with k.dte_scope() as dte:
            dte.config_deslice(x, x[2:4], [2])
            dte.trigger_and_wait()  # each element onto itself
            dte.set_dst_offset(0, 3)
            await dte.trigger()

    @refused(bench, "overlap in memory")
    async def grows(x):
        with k.dte_scope() as dte:
            dte.config_memcpy(x[4:], x)
            dte.set_total_size(16)
            dte.trigger_and_wait()  # the first half into the second
            dte.set_dst_addr(x[2:])
            dte.set_total_size(16)
            await dte.trigger()

    @refused(bench, r"deslice has the dst offsets \[0\] and no dimension -1")
    async def axis(x):
        with k.dte_scope() as dte:
            dte.config_deslice(x, k.local(2, np.float32), [0])
            dte.set_dst_offset(-1, 0)

    @refused(bench, "dimension 0 and offset 1.5; expected two ints")
    async def fraction(x):
        with k.dte_scope() as dte:
            dte.config_deslice(x, k.local(2, np.float32), [0])
            dte.set_dst_offset(0, 1.5)

    @refused(bench, "memset has no src; it has dst")
    async def nothing(x):
        with k.dte_scope() as dte:
            dte.config_memset(x, 0)
            dte.set_src_addr(x)

    x = bench.upload(np.arange(TILE, dtype=np.float32))

    @k.kernel
    async def dead(x, free):
        with k.dte_scope() as dte:
            dte.config_memcpy(k.local(TILE, np.float32), x)
            free()
            await dte.trigger()

    with pytest.raises(LaunchFailure, match=r"memcpy of thread \(0,0,0\).*freed by the test") as caught:
        bench.launch(dead, (1, 1), x, lambda: bench.memory.free(x.allocation, "the test"))
    assert isinstance(caught.value.__cause__, IllegalAddress)


def test_a_trigger_that_is_owed_an_await_is_named(bench: Bench):
    """`event.wait()` alone does nothing; the next trigger names its line."""

    @k.kernel
    async def lazy(x):
        with k.dte_scope() as dte, k.dte_scope() as other:
            dte.config_memset(x, 1)
            other.config_memset(x, 1)
            dte.trigger().wait()
            other.trigger()

    with pytest.raises(MissingAwait, match=r"memset.*test_configuration.py:\d+ and never awaited it"):
        bench.launch(lazy, (1, 1), bench.empty(TILE))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_ping_pong(make_bench: Callable[..., Bench], mode: dict):
    """Two input and two output contexts, configured once, patched and triggered a tile ahead of the sums."""
    bench, tiles = make_bench(**mode), 13
    x, y = bench.upload(np.arange(tiles * TILE, dtype=np.float32)), bench.empty(tiles * TILE)

    @k.kernel
    async def scale(x, y):
        inputs, outputs = k.local((2, TILE), np.float32), k.local((2, TILE), np.float32)
        arriving, leaving = [k.event(), k.event()], [k.event(), k.event()]
        with k.dte_scope() as in0, k.dte_scope() as in1, k.dte_scope() as out0, k.dte_scope() as out1:
            readers, writers = (in0, in1), (out0, out1)
            for side in range(2):
                readers[side].config_slice(inputs[side], x, (0,))
                writers[side].config_deslice(y, outputs[side], (0,))
            mine = list(range(k.thread_id() * TILE, x.size, k.thread_count() * TILE))
            for turn, start in enumerate(mine):
                now, other = turn % 2, 1 - turn % 2
                if turn == 0:
                    readers[now].set_src_offset(0, start)
                    arriving[now] = readers[now].trigger()
                for following in mine[turn + 1 : turn + 2]:
                    readers[other].set_src_offset(0, following)
                    arriving[other] = readers[other].trigger()
                await arriving[now]
                await leaving[now]
                np.multiply(inputs[now], 3, out=outputs[now])
                writers[now].set_dst_offset(0, start)
                leaving[now] = writers[now].trigger()
            await leaving[0]
            await leaving[1]

    bench.launch(scale, (1, 4), x, y)
    assert np.array_equal(y.host, x.host * 3)


@pytest.mark.slow
@every("mode", [*MODES, *({"dte": dte, "offload": True} for dte in ("eager", "seeded"))], ids=str)
@every("backwards", [False, True])
def test_a_chain_is_waited_for_at_its_end(make_bench: Callable[..., Bench], mode: dict, backwards: bool):
    """Three connected contexts, started in either order and often: the last wait sees all three, in their order."""
    options = {name: value for name, value in mode.items() if name != "offload"}
    bench = make_bench(**options)
    x, y = bench.upload(np.arange(4 * TILE, dtype=np.float32)), bench.empty(4 * TILE)

    @k.kernel
    async def run(x, y):
        tile, turned = k.local(TILE, np.float32), k.local(TILE, np.float32)
        with k.dte_scope() as first, k.dte_scope() as second, k.dte_scope() as third:
            first.config_slice(tile, x, (0,))
            second.config_mirror_tb(turned, tile)
            third.config_deslice(y, turned, (0,))
            second.connect(third)
            first.connect(second)
            first.connect(second)
            for part in range(4):
                first.set_src_offset(0, part * TILE)
                third.set_dst_offset(0, part * TILE)
                order = (third, second, first) if backwards else (first, second, third)
                events = [context.trigger() for context in order]
                await events[0 if backwards else 2]
                for event in events:
                    await event

    with ThreadPoolExecutor(2) as pool:
        grid = bench.launch(run, (1, 2), x, y, offload=pool.submit if "offload" in mode else None)
    assert grid.warnings == []
    assert np.array_equal(y.host.reshape(4, TILE), x.host.reshape(4, TILE)[:, ::-1])


def test_a_chain_takes_effect_at_its_wait(bench: Bench):
    """Nothing has moved before the last one is waited for, and the first one of a chain may be waited for alone."""
    x = bench.upload(np.ones(TILE, np.float32))

    @k.kernel
    async def run(x):
        a, b = k.local(TILE, np.float32), k.local(TILE, np.float32)
        a[...] = b[...] = 0
        with k.dte_scope() as one, k.dte_scope() as two:
            one.connect(two)
            one.config_memcpy(a, x)
            two.config_memcpy(b, a)
            event, last = one.trigger(), two.trigger()
            assert a[0] == b[0] == 0
            await event
            assert a[0] == 1 and b[0] == 0
            await last
            assert b[0] == 1
            one.trigger()
            a[...] = 0
            two.trigger_and_wait()
            assert a[0] == b[0] == 1
            k.memcpy_async(one, a, x)  # plain operations keep the order, too
            b[...] = 0
            k.memcpy(two, b, a)
            assert b[0] == 1

    bench.launch(run, (1, 1), x)


def test_contexts_meet_in_one_and_part_from_one(make_bench: Callable[..., Bench]):
    """Two may come before one, one before two, and a destroyed one is in no order; strict mode keeps sources whole."""
    bench = make_bench(strict=True)
    x = bench.upload(np.arange(TILE, dtype=np.float32))

    @k.kernel
    async def run(x):
        left, right = k.local(TILE, np.float32), k.local(TILE, np.float32)
        with k.dte_scope() as a, k.dte_scope() as b, k.dte_scope() as c, k.dte_scope() as d:
            a.config_memcpy(left, x)
            b.config_memcpy(right, x)
            c.config_broadcast(left, right[:1])
            d.config_memcpy(x, left)
            for early, late in ((a, c), (b, c), (a, d), (c, d)):
                early.connect(late)
            for context in (a, b, c, d):
                event = context.trigger()
            await event
            assert x[TILE - 1] == 0
            with k.dte_scope() as e:
                e.connect(d)
            a.trigger(), b.trigger(), c.trigger()
            d.trigger_and_wait()

    bench.launch(run, (1, 1), x)
    assert list(x.host) == [0] * TILE


def test_chains_that_never_begin_are_named(bench: Bench):
    """A wait for a transfer whose predecessor was not started, and connections in a circle, name thread and context."""

    @k.kernel
    async def lone(x):
        with k.dte_scope() as one, k.dte_scope() as two:
            one.connect(two)
            two.config_memset(x, 1)
            await two.trigger()

    said = "waits for the memset of test_configuration.py.*after a transfer of <private DTE context.*trigger that"
    with pytest.raises(DteError, match=rf"thread \(0,0,0\).*{said}"):
        bench.launch(lone, (1, 1), bench.empty(TILE))

    @refused(bench, "connect of .* whose transfers come first already")
    async def circle(x):
        with k.dte_scope() as one, k.dte_scope() as two, k.dte_scope() as three:
            one.connect(two)
            two.connect(three)
            three.connect(one)

    @refused(bench, "connect of .* whose transfers come first already")
    async def itself(x):
        with k.dte_scope() as one:
            one.connect(one)

    @refused(bench, "connect expects a DTE context.*got 3")
    async def number(x):
        with k.dte_scope() as one:
            one.connect(3)

    contexts: list[Any] = []

    @refused(bench, r"connect on <private DTE context of thread \(0,0,0\).*only its own thread", config=(1, 2))
    async def foreign(x):
        ctx = k.tops_dte_ctx_t()
        ctx.init()
        contexts.append(ctx)
        await k.syncthreads()
        if k.threadIdx.x == 1:
            ctx.connect(contexts[0])


@pytest.mark.parametrize("mode", [{}, {"workers": "sip"}, {"dte": "eager"}], ids=str)
def test_a_blocks_context_is_configured_once(make_bench: Callable[..., Bench], mode: dict):
    """Thread 0 configures and triggers it, private ones of each thread take over, and another thread goes on."""
    bench = make_bench(**mode)
    x, y = bench.upload(np.arange(4 * TILE, dtype=np.float32)), bench.empty(4 * TILE)

    @k.kernel
    async def stage(x, y):
        panel, block, me = k.shared(4 * TILE, np.float32), k.shared_dte_ctx(), k.threadIdx.x
        if me == 0:
            block.init()
            block.config_memcpy(panel, x)
            with pytest.raises(DteError, match="local memory; a shared DTE context"):
                block.set_dst_addr(k.local(4 * TILE, np.float32))
            await block.trigger()
        await k.syncthreads()
        tile = k.local(TILE, np.float32)
        with k.dte_scope() as own:
            own.config_slice(tile, panel, (me * TILE,))
            own.trigger_and_wait()
            own.config_deslice(y, tile, (me * TILE,))
            await own.trigger()
        await k.syncthreads()
        if me == 1:
            block.set_dst_addr(panel)
            block.set_src_addr(y)
            block.trigger_and_wait()
            block.destroy()

    bench.launch(stage, (1, 4), x, y)
    assert np.array_equal(y.host, x.host)


LAST = [
    *MODES, {"workers": 2}, *({"dte": "seeded", "seed": seed} for seed in range(6)),
    *({"workers": "sip", "dte": dte, "seed": 1} for dte in ("eager", "seeded")),
    *({"strict": True, "dte": dte, "seed": 2} for dte in ("eager", "seeded")),
    *({"offload": True, "dte": dte, "seed": 3} for dte in ("eager", "seeded")),
]  # fmt: skip


@pytest.mark.slow
@every("shared", [False, True], ids=["private", "shared"])
@every("backwards", [False, True], ids=["in order", "backwards"])
@every("mode", LAST, ids=str)
def test_the_last_event_of_a_chain_is_enough(
    make_bench: Callable[..., Bench], mode: dict, backwards: bool, shared: bool
):  # fmt: skip
    """In every mode a wait for the last sets all contexts before it free, time after time, and nothing is forgotten."""
    bench = make_bench(**{name: value for name, value in mode.items() if name != "offload"})
    x, y = bench.upload(np.arange(4 * TILE, dtype=np.float32)), bench.empty(4 * TILE)

    @k.kernel
    async def run(x, y):
        tile, turned = k.shared(TILE, np.float32), k.shared(TILE, np.float32)
        if k.threadIdx.x == 0:
            made = (k.shared_dte_ctx(), k.shared_dte_ctx(), k.shared_dte_ctx()) if shared else (None, None, None)
            with k.dte_scope(made[0]) as first, k.dte_scope(made[1]) as second, k.dte_scope(made[2]) as third:
                first.config_slice(tile, x, (0,))
                second.config_mirror_tb(turned, tile)
                third.config_deslice(y, turned, (0,))
                first.connect(second)
                second.connect(third)
                for part in range(4):
                    first.set_src_offset(0, part * TILE)
                    third.set_dst_offset(0, part * TILE)
                    order = (third, second, first) if backwards else (first, second, third)
                    events = [context.trigger() for context in order]
                    await events[0 if backwards else 2]
                first.set_src_offset(0, 0)
                third.set_dst_offset(0, 0)
                first.trigger(), second.trigger()
                third.trigger_and_wait()

    with ThreadPoolExecutor(2) as pool:
        grid = bench.launch(run, (1, 2), x, y, offload=pool.submit if "offload" in mode else None)
    assert grid.warnings == []
    assert np.array_equal(y.host.reshape(4, TILE), x.host.reshape(4, TILE)[:, ::-1])


@pytest.mark.slow
@every("mode", LAST, ids=str)
def test_rows_are_flipped_by_two_contexts(make_bench: Callable[..., Bench], mode: dict):
    """What the guide shows: fetch and store are connected, each thread has several rows, only stores are awaited."""
    bench = make_bench(**{name: value for name, value in mode.items() if name != "offload"})
    x, y = bench.upload(np.arange(60, dtype=np.float32).reshape(30, 2)), bench.empty((30, 2))

    @k.kernel
    async def flip_rows(x, y):
        row = k.local((1, x.shape[1]), np.float32)
        with k.dte_scope() as fetch, k.dte_scope() as store:
            fetch.config_slice(row, x, (0, 0))
            store.config_deslice(y, row, (0, 0))
            fetch.connect(store)
            for r in range(k.thread_id(), x.shape[0], k.thread_count()):
                fetch.set_src_offset(0, r)
                store.set_dst_offset(0, x.shape[0] - 1 - r)
                fetch.trigger()
                await store.trigger()

    with ThreadPoolExecutor(2) as pool:
        bench.launch(flip_rows, (2, 4), x, y, offload=pool.submit if "offload" in mode else None)
    assert np.array_equal(y.host, x.host[::-1])


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("again", [k.tops_dte_ctx_t.init, k.tops_init_dte, lambda ctx: k.dte_scope(ctx).__enter__()])
def test_a_context_in_flight_is_not_initialised_again(bench: Bench, again: Callable[..., object], shared: bool):
    """In either spelling, and by a scope, it names the transfer; before and after one it changes nothing."""

    @refused(bench, f"init on <{'shared' if shared else 'private'} DTE context.*in flight: memset of test_conf")
    async def busy(x):
        ctx = k.shared_dte_ctx() if shared else k.tops_dte_ctx_t()
        again(ctx)
        await k.memset_async(ctx, x, 1)
        again(ctx)
        k.memset_async(ctx, x, 2)
        again(ctx)


def test_bools_are_no_offsets(bench: Bench):
    """A layout, a window and a patch take ints; True is none."""

    @refused(bench, r"transpose: layout is \(True, False\); expected an int for each of 2")
    def layout(x):
        with k.dte_scope() as dte:
            k.transpose(dte, k.local((2, 4), np.float32), k.mdspan(x, 4, 2), (True, False))

    @refused(bench, r"slice: offsets is \(True,\); expected an int for each of 1")
    def offset(x):
        with k.dte_scope() as dte:
            k.slice(dte, k.local(4, np.float32), x, (True,))

    @refused(bench, "dimension 0 and offset True; expected two ints")
    def patch(x):
        with k.dte_scope() as dte:
            dte.config_slice(k.local(4, np.float32), x, (0,))
            dte.set_src_offset(0, True)
