"""Local, shared and dynamic shared memory, and mdspans of any memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, LaunchFailure, LaunchOutOfResources
from atops.device.chip import POISON
from atops.kernels.memory.arrays import Constant, Generic
from atops.kernels.memory.device_variables import constant, device_variable
from atops.kernels.memory.pointer import pointer
from tests.every import every
from tests.kernel_bench import Bench


def place(array: np.ndarray, memory: np.ndarray) -> int:
    """Return where an array begins in a scratchpad."""
    assert array.base is memory
    return array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]


def test_local_memory_is_the_threads_own(bench: Bench):
    """Each call takes the next 128-byte aligned piece of the SIP's L1; other threads have their own."""
    tiles: list[np.ndarray] = []

    @k.kernel
    async def take():
        a, b = k.local(5, np.float32), k.local((3, 4), "int16")
        assert (a.shape, a.dtype, b.shape, b.dtype) == ((5,), np.float32, (3, 4), np.int16)
        a[...] = k.threadIdx.x
        await k.syncthreads()
        assert (a == k.threadIdx.x).all()
        tiles.extend((a, b, k.local(1, np.int8)))

    bench.launch(take, (1, 2))
    sips = bench.chip.clusters[0].sips
    for sip in sips[:2]:
        assert [place(tile, sip.l1) for tile in tiles[3 * sip.ordinal :][:3]] == [0, 128, 256]


def test_local_memory_ends(bench: Bench):
    """All of L1 can be had; one byte more is LaunchOutOfResources with what was asked, used and there."""
    room = bench.arch.l1_usable

    @k.kernel
    def fill(more):
        kept = k.local(room - 256, np.int8)
        assert k.local(128 + more, np.int8).size + kept.size <= room

    bench.launch(fill, (1, 1), 128)
    said = rf"thread \(0,0,0\).*257 bytes.*{room - 256} of the {room} bytes"
    with pytest.raises(LaunchFailure, match=said) as caught:
        bench.launch(fill, (1, 1), 129)
    assert isinstance(caught.value.__cause__, LaunchOutOfResources)


def test_shared_memory_is_the_blocks(bench: Bench):
    """Threads of a block share a line's memory, lines and blocks do not; scalars have no dimension."""
    x = bench.empty((2, 2), np.int32)

    @k.kernel
    async def count(x):
        total, other = k.shared((), np.int32), k.shared((), np.int32)
        if k.threadIdx.x == 0:
            total[...] = 0
            other[...] = 100
        await k.syncthreads()
        total[...] += 1
        await k.syncthreads()
        x[k.blockIdx.x, 0] = total
        x[k.blockIdx.x, 1] = other

    bench.launch(count, (2, 12), x)
    assert x.host.tolist() == [[12, 100], [12, 100]]


@pytest.mark.parametrize("strict", [True, False])
def test_strict_blocks_find_poison_in_shared_memory(make_bench: Callable[..., Bench], strict: bool):
    """In strict mode a block reads nothing that an earlier one left in L2, static or dynamic; else it is stale."""
    bench = make_bench(strict=strict)
    seen: list[tuple[int, int, int]] = []

    @k.kernel
    async def look():
        first, second, dynamic = k.shared(5, np.uint8), k.shared(300, np.uint8), k.dynamic_shared(np.uint8)
        if k.threadIdx.x == 0:
            seen.append((int(first[4]), int(second[299]), int(dynamic[63])))
        await k.syncthreads()
        first[4], second[299], dynamic[63] = 1, 2, 3

    for _ in range(3):
        bench.launch(look, (1, 2, 64))
    assert seen[1:] == [(POISON,) * 3 if strict else (1, 2, 3)] * 2
    assert seen[0] == ((POISON,) * 3 if strict else (0, 0, 0))


def test_strict_mode_poisons_no_more_than_is_handed_out(make_bench: Callable[..., Bench]):
    """The L2 has tens of megabytes: what was not asked for is left alone."""
    bench = make_bench(strict=True)

    @k.kernel
    def little():
        k.shared(100, np.uint8)

    bench.launch(little, (1, 1))
    l2 = bench.chip.clusters[0].l2
    assert (l2[:100] == POISON).all() and not l2[100:].any()


def test_a_line_passed_again_gives_other_shared_memory(bench: Bench):
    """In a loop or a function called twice, the n-th time of each thread is the same memory."""

    def helper():
        return k.shared(4, np.int32)

    @k.kernel
    async def rounds():
        rows = [k.shared(4, np.int32) for _ in range(3)] + [helper(), helper()]
        for number, row in enumerate(rows):
            row[k.threadIdx.x] = number
        await k.syncthreads()
        assert [list(row) for row in rows] == [[number] * 4 for number in range(5)]

    bench.launch(rounds, (1, 4))


def test_threads_agree_on_shared_memory(bench: Bench):
    """Another shape or type at the same line is a fault that shows both."""

    @k.kernel
    def differ(typed):
        k.shared(4 if typed or k.threadIdx.x == 0 else 5, np.int8 if typed and k.threadIdx.x else np.int32)

    with pytest.raises(LaunchFailure, match=r"thread \(1,0,0\).*as int32\[5\], and by another.*as int32\[4\]"):
        bench.launch(differ, (1, 2), False)
    with pytest.raises(LaunchFailure, match=r"thread \(1,0,0\).*as int8\[4\], and by another.*as int32\[4\]"):
        bench.launch(differ, (1, 2), True)


def test_a_line_that_the_compiler_repeats_is_one(bench: Bench):
    """Threads that leave by `return` and those that go on come to one line of a `finally`, and share its memory."""
    x = bench.empty(4, np.int32)

    @k.kernel
    def leave(x):
        try:
            if k.threadIdx.x < 2:
                return
        finally:
            counts = k.shared(4, np.int32)
            counts[k.threadIdx.x] = k.threadIdx.x + 1
            if k.threadIdx.x == 3:
                x[:] = counts

    bench.launch(leave, (1, 4), x)
    assert x.host.tolist() == [1, 2, 3, 4]


def test_shared_memory_ends(bench: Bench):
    """L2 has its capacity, and dynamic shared memory is part of it."""
    room = bench.arch.l2_usable

    @k.kernel
    def fill(size):
        k.shared(size, np.int8)

    bench.launch(fill, (1, 1), room)
    bench.launch(fill, (1, 1, 1024), room - 1024)
    with pytest.raises(LaunchFailure, match=rf"{room - 1023} bytes was asked for; 1024 of the {room}"):
        bench.launch(fill, (1, 1, 1024), room - 1023)


def test_dynamic_shared_memory_has_the_launches_size(bench: Bench):
    """It is one row for the block, seen alike at each pass of its line, apart from other shared memory."""
    x = bench.empty(4, np.int32)

    @k.kernel
    async def stage(x):
        for _ in range(2):
            row, other = k.dynamic_shared(np.int32), k.shared(4, np.int32)
            row[k.threadIdx.x] = 7 + k.threadIdx.x
            other[k.threadIdx.x] = 0
            await k.syncthreads()
        assert row.shape == (4,) and row.base is other.base
        x[k.threadIdx.x] = row[3 - k.threadIdx.x]

    bench.launch(stage, (1, 4, 18), x)
    assert list(x.host) == [10, 9, 8, 7]


def test_dynamic_shared_memory_has_one_line(bench: Bench):
    """A second line that no look at the code could find is a fault that names both; so is another type."""

    def second():
        return k.dynamic_shared(np.int8)

    @k.kernel
    def twice(call):
        k.dynamic_shared(np.int8)
        call()

    with pytest.raises(LaunchFailure, match=r"in .*second.*a second dynamic shared memory.*this one has .*twice"):
        bench.launch(twice, (1, 1, 64), second)

    @k.kernel
    def typed():
        k.dynamic_shared(np.int8 if k.threadIdx.x else np.int16)

    with pytest.raises(LaunchFailure, match="asked for as int8, and by another thread as int16"):
        bench.launch(typed, (1, 2, 64))


def test_dynamic_shared_memory_without_a_size(bench: Bench):
    """Where no look at the code found it, the use itself is the fault."""

    def use():
        k.dynamic_shared(np.int8)

    @k.kernel
    def hidden(call):
        call()

    with pytest.raises(LaunchFailure, match="the launch gave no size"):
        bench.launch(hidden, (1, 1), use)


@every("take", [k.local, k.shared])
@every("shape, dtype, error", [(-1, "int8", InvalidValue), ((2, -3), "int8", InvalidValue),
                                                      (2.5, "int8", InvalidType), (4, "float33", InvalidType),
                                                      (4, object, InvalidType)])  # fmt: skip
def test_shapes_and_types_without_meaning(bench: Bench, take: Callable, shape: object, dtype: object, error: type):
    """Negative extents and unknown types are faults that show the value."""

    @k.kernel
    def wrong():
        take(shape, dtype)

    with pytest.raises(LaunchFailure) as caught:
        bench.launch(wrong, (1, 1))
    assert isinstance(caught.value.__cause__, error)


def test_mdspan_in_both_forms(bench: Bench):
    """Extents flat or as one sequence, of spans and arrays, with a space or without; fewer elements are the first."""
    x = bench.upload(np.arange(24, dtype=np.int32))

    @k.kernel
    def shapes(x):
        tile = k.local(24, np.int32)
        with k.dte_scope() as dte:
            k.memcpy(dte, tile, x)
        for memory, space in ((x, k.Global), (tile, k.Local)):
            flat, whole = k.mdspan(memory, 2, 3, 4), k.mdspan(space, memory, (2, 3, 4))
            assert flat.shape == whole.shape == (2, 3, 4) and flat[1, 0, 2] == whole[1, 0, 2] == 14
            assert k.mdspan(memory, [6]).shape == (6,) and k.mdspan(memory, 2, 2)[1, 1] == 3
            assert k.mdspan(memory[8:], np.int64(4), 2)[0, 0] == 8
        assert isinstance(k.mdspan(x, 4), k.Span) and k.mdspan(k.Shared, k.shared(4, np.int8), 2, 2).shape == (2, 2)
        k.mdspan(tile, 24)[5] = 99
        assert tile[5] == 99

    bench.launch(shapes, (1, 1), x)


@pytest.mark.parametrize(
    ("build", "error", "why"),
    [
        (lambda x, t: k.mdspan(x, 5, 5), IllegalAddress, "needs 25 elements"),
        (lambda x, t: k.mdspan(t, 5, 5), IllegalAddress, "needs 25 elements"),
        (lambda x, t: k.mdspan(k.Local, x, 4), InvalidValue, "in local memory of what lies in global memory"),
        (lambda x, t: k.mdspan(k.Global, t, 4), InvalidValue, "in global memory of what lies in local memory"),
        (lambda x, t: k.mdspan(t[:20].reshape(4, 5)[:, :3], 3, 2), InvalidValue, "with gaps cannot have shape"),
        (lambda x, t: k.mdspan(x), InvalidType, "expects an optional space"),
        (lambda x, t: k.mdspan([1, 2], 2), InvalidType, "expects an optional space"),
        (lambda x, t: k.mdspan(x, 2.5), InvalidType, "shape expects an int, or one for each dimension, got 2.5"),
    ],
)
def test_mdspans_that_cannot_be(bench: Bench, build: Callable, error: type, why: str):
    """Shapes beyond the memory, wrong spaces, gaps and wrong arguments are faults."""

    @k.kernel
    def wrong(x):
        build(x, k.local(24, np.int32)[:23])

    with pytest.raises(LaunchFailure, match=why) as caught:
        bench.launch(wrong, (1, 1), bench.empty(24, np.int32))
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.slow
def test_local_and_shared_memory_end_with_their_owners(make_bench: Callable[..., Bench]):
    """Blocks that follow on the same cluster have all of L1 and L2 again, and find nothing of the blocks before."""
    bench = make_bench(strict=True)
    local, shared = bench.arch.l1_usable, bench.arch.l2_usable

    @k.kernel
    def fill():
        tile, row = k.local(local, np.uint8), k.shared(shared, np.uint8)
        assert tile[0] == row[0] == 0xA5
        tile[0] = row[0] = 1

    bench.launch(fill, (6, 1))


def test_each_block_and_thread_has_an_instance(bench: Bench):
    """What one block shares no other block sees, and what is local no other thread sees, at the same time."""
    x = bench.empty((2, 3, 2), np.int32)

    @k.kernel
    async def meet(x):
        tile, row = k.local(1, np.int32), k.shared(3, np.int32)
        tile[0] = row[k.threadIdx.x] = k.thread_id()
        await k.syncblocks()
        x[k.blockIdx.x, k.threadIdx.x] = tile[0], row.sum()

    bench.launch(k.cooperative(meet), (2, 3), x)
    assert x.host.tolist() == [[[0, 3], [1, 3], [2, 3]], [[3, 12], [4, 12], [5, 12]]]


@pytest.mark.parametrize("strict", [False, True])
def test_mdspans_of_variables_and_pointers(make_bench: Callable[..., Bench], strict: bool):
    """A variable and what a pointer points to are memory as well; a space may be a parent of the one they lie in."""
    bench = make_bench(strict=strict)
    table, counts = constant(np.int32, np.arange(6)), device_variable(np.int32, np.arange(6))

    @k.kernel
    def shapes(x):
        row = k.local(6, np.int32)
        row[...] = counts
        for memory in (counts, row, x, table, pointer(row), pointer(table), pointer(counts)):
            assert k.mdspan(memory, 2, 3)[1, 0] == 3
        assert k.mdspan(k.Global, counts, 3)[2] == 2 and k.mdspan(Constant, table, 3)[2] == 2
        assert k.mdspan(Generic, row, 3)[2] == 2 and k.mdspan(pointer(row) + 2, (2, 2))[1, 1] == 5
        k.mdspan(k.Global, counts, 2, 3)[1, 2] = 50
        assert counts[5] == 50

    bench.launch(shapes, (1, 1), bench.upload(np.arange(6, dtype=np.int32)))

    @k.kernel
    def wrong(kind):
        if kind == 0:
            k.mdspan(Generic, table, 3)
        elif kind == 1:
            k.mdspan(pointer(table) + 2, 5)
        else:
            k.mdspan(k.Shared, pointer(k.local(6, np.int32)), 3)

    for kind, why in enumerate(("in generic memory of what lies in constant", "needs 5 elements", "in shared memory")):
        with pytest.raises(LaunchFailure, match=why):
            bench.launch(wrong, (1, 1), kind)


def test_a_host_array_is_no_mdspan(bench: Bench):
    """With and without a space named, memory outside the thread's is refused; private memory has mdspans."""

    @k.kernel
    def run(named):
        assert k.mdspan(k.private(8, np.float32), 2, 4).shape == (2, 4)
        k.mdspan(*([k.Local] if named else []), np.ones(8), 8)

    said = r"thread \(0,0,0\).*mdspan of an array outside this thread's"
    for named in (0, 1):
        with pytest.raises(LaunchFailure, match=said) as caught:
            bench.launch(run, (1, 1), named)
        assert isinstance(caught.value.__cause__, IllegalAddress)


@pytest.mark.parametrize("make", [k.local, k.shared, k.private])
def test_a_shape_has_so_many_dimensions(bench: Bench, make: Callable[..., object]):
    """64 are valid, one more is not."""

    @k.kernel
    def run(rank, kind):
        make((tuple, list)[kind]([1] * rank), np.float32)

    bench.launch(run, (1, 1), 64, 0)
    for kind in range(2):
        with pytest.raises(LaunchFailure, match="shape has 65 dimensions; it has at most 64") as caught:
            bench.launch(run, (1, 1), 65, kind)
        assert isinstance(caught.value.__cause__, InvalidValue)


@pytest.mark.parametrize("strict", [False, True])
def test_what_refers_to_itself_is_given_back(make_bench: Callable[..., Bench], strict: bool):
    """A closure that names itself holds no memory of L1 for good."""

    def once():
        memory = k.local(200_000, np.float32)

        def again():
            return memory, again

        return again

    @k.kernel
    def run():
        for _ in range(4):  # each needs what the one before held
            once()

    make_bench(strict=strict).launch(run, (1, 1))


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("workers", [1, "sip"])
def test_memory_is_given_back_when_nothing_refers_to_it(
    make_bench: Callable[..., Bench], strict: bool, workers: int | str
):
    """Helpers and loops take as often as they are called; a view or a transfer in flight keeps what it needs."""
    bench = make_bench(strict=strict, workers=workers)
    x = bench.upload(np.arange(4096, dtype=np.float32))
    y = bench.empty(2, np.float32)

    async def load(dte, x):
        tile = k.local(x.size, np.float32)
        await k.memcpy_async(dte, tile, x)
        return tile[5:7]

    def started(dte, x):
        tile = k.local(x.size, np.float32)
        return k.memcpy_async(dte, tile, x)

    @k.kernel
    async def many(x, y):
        with k.dte_scope() as dte:
            kept = await load(dte, x)
            for _ in range(500):
                part = await load(dte, x)
                event = started(dte, x)
                other = k.local(4096, np.float32)
                other[...] = -1
                await event
                assert (other == -1).all() and part[0] == kept[0] == 5 and k.private(4096, np.float32).size
            k.memcpy(dte, y, kept)
        whole = k.private(bench.arch.stack_bytes, np.int8)
        del kept, part, event, other
        assert whole.size and k.local(bench.arch.l1_usable, np.int8).size

    bench.launch(many, (1, 1), x, y)
    assert list(y.host) == [5, 6]


@pytest.mark.parametrize("workers", [1, "sip"])
def test_shared_memory_is_kept_until_every_thread_has_come(make_bench: Callable[..., Bench], workers: int | str):
    """A reference that goes early takes nothing from threads that have not come; then the memory is used again."""
    bench = make_bench(workers=workers)
    size = bench.arch.l2_usable // 8
    x = bench.empty((12, 40), np.int32)

    def row_of(turn):
        row = k.shared(size // 4, np.int32)
        if k.threadIdx.x == 0:
            row[:12] = 100 * turn
        return int(row[k.threadIdx.x])

    @k.kernel
    async def early(x):
        for turn in range(40):
            if k.threadIdx.x == 0:
                x[0, turn] = row_of(turn)  # its reference is gone before the others come
            await k.syncthreads()
            if k.threadIdx.x:
                x[k.threadIdx.x, turn] = row_of(turn)
            other = k.shared(size // 4, np.int32)
            other[:12] = -1
            await k.syncthreads()

    @k.kernel
    async def lockstep(x):
        for turn in range(40):
            row, pair = k.shared(size // 4, np.int32), [k.shared(4, np.int32) for _ in range(2)]
            row[k.threadIdx.x], pair[0][0], pair[1][0] = turn, 1, 2
            await k.syncthreads()
            x[k.threadIdx.x, turn] = row[11 - k.threadIdx.x] + pair[0][0] + pair[1][0]
            await k.syncthreads()

    bench.launch(lockstep, (1, 12), x)
    assert (x.host == np.arange(40) + 3).all()
    bench.launch(early, (1, 12), x)
    assert (x.host == 100 * np.arange(40)).all()


def test_what_threads_that_ended_never_came_to_is_given_back(bench: Bench):
    """Threads that leave at the top need not come to what the others take in a loop."""
    room = bench.arch.l2_usable // 4

    @k.kernel
    async def some():
        if k.threadIdx.x >= 2:
            return
        both = k.barrier(k.BarrierScope.SIP, 2)
        for turn in range(40):
            row = k.shared(room, np.int8)
            row[k.threadIdx.x] = turn
            await both.arrive_and_wait()
            assert row[0] == row[1] == turn
            await both.arrive_and_wait()

    bench.launch(some, (1, 12))


def test_shared_memory_of_some_threads_says_the_cure(bench: Bench):
    """What not every thread comes to is kept for those that may come; the refusal says what to do instead."""
    room = bench.arch.l2_usable // 4

    @k.kernel
    async def alone():
        if k.threadIdx.x == 0:
            for _ in range(5):
                k.shared(room, np.int8)
        await k.syncthreads()

    with pytest.raises(LaunchFailure, match=r"not every thread of the block has come to.*k\.shared_variable"):
        bench.launch(alone, (1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_variables_of_a_line(make_bench: Callable[..., Bench], strict: bool):
    """Each line has one memory, however often it runs, for the life of the thread or block; scalars too."""
    bench = make_bench(strict=strict)
    x = bench.empty((2, 12), np.int32)

    def counter():
        return k.local_variable((), np.int32), k.shared_variable((), np.int32)

    @k.kernel
    async def count(x):
        own, total = counter()
        own[...] = 0
        if k.threadIdx.x == 0:
            total[...] = 0
        await k.syncthreads()
        for _ in range(200):
            own, total = counter()
            own[...] += 1
            total[...] += 1
            other = k.local_variable(5000, np.float32), k.shared_variable(500_000, np.float32)
        await k.syncthreads()
        x[k.blockIdx.x, k.threadIdx.x] = own + total + other[0].size - 5000

    bench.launch(count, (2, 12), x)
    assert (x.host == 200 + 2400).all()

    @k.kernel
    def differ(shared):
        for size in (3, 4):
            (k.shared_variable if shared else k.local_variable)(size, np.int8)

    for shared in (False, True):
        with pytest.raises(LaunchFailure, match=r"asked for as int8\[4\], and before.* as int8\[3\]"):
            bench.launch(differ, (1, 1), shared)


def test_a_loop_that_needs_both_says_the_cure(bench: Bench):
    """A name holds the memory of the pass before while the next is taken."""

    @k.kernel
    def large():
        for _ in range(2):
            tile = k.local(bench.arch.l1_usable - 128, np.int8)
            tile[0] = 1

    with pytest.raises(LaunchFailure, match=r"before the loop, use k\.local_variable, or `del` the name first"):
        bench.launch(large, (1, 1))


def test_strict_mode_poisons_what_is_handed_out_again(make_bench: Callable[..., Bench]):
    """What was given back is no channel: it comes as 0xA5 each time."""
    bench = make_bench(strict=True)

    @k.kernel
    def again():
        for _ in range(4):
            tile, row = k.local(64, np.uint8), k.shared(64, np.uint8)
            assert (tile == POISON).all() and (row == POISON).all()
            tile[...] = row[...] = 1
            del tile, row

    bench.launch(again, (1, 1))


async def use(out: Any, memory: Any, how: int) -> None:
    """Read memory: by a load, by one of a view, or by a transfer."""
    if how < 2:
        out[0:4] = memory[0] if how else memory.reshape(8)[4:]
    else:
        with k.dte_scope() as context:
            await k.memcpy_async(context, out, memory[1])


KEPT: list[Any] = []


@k.kernel
async def hand_on(out, how: np.int32) -> None:
    """Take local memory in the first thread, and use it in the last one."""
    if k.threadIdx.x == 0:
        own = k.local((2, 4), np.int32)
        own[:] = 7
        assert own.reshape(8)[3:][0] == own.T[3][1] == 7
        KEPT.append(own)
    await k.syncthreads()
    if k.threadIdx.x == k.blockDim.x - 1:
        await use(out, KEPT[0], how)


@k.kernel
async def use_later(out, how: np.int32) -> None:
    """Use what an earlier launch has taken."""
    k.local((2, 4), np.int32)[:] = 9
    await use(out, KEPT[0], how)


@every("options", [atops.EmulatorOptions(detect=True), atops.EmulatorOptions(strict=True)])
def test_local_memory_is_for_the_thread_that_took_it(options: atops.EmulatorOptions) -> None:
    """Where accesses are looked at: in the same launch, and in a later one."""

    async def main(threads: int, how: int) -> None:
        KEPT.clear()
        device = atops.Device(0)
        stream, out = device.create_stream(), device.zeros(4, np.int32)
        stream.launch(hand_on, (1, threads), out, how)
        if threads == 1:
            await stream
            stream.launch(use_later, (1, 1), out, how)
        await stream

    for how in range(3):
        with pytest.raises(LaunchFailure, match=r"use_later .*is k.local memory of another thread, or of one that has"):
            atops.run(main, options, 1, how)
        refused = "expected k.local, k.shared or" if how == 2 else "is k.local memory of another thread"
        with pytest.raises(LaunchFailure, match=f"thread .1,0,0. .*{refused}"):
            atops.run(main, options, 2, how)
