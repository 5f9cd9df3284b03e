"""Kernels with few enough interleavings that all of them can be run."""

from __future__ import annotations

from typing import Any

import numpy as np

from atops import kernels as k
from atops.device.dte.transfer import DteEvent


@k.kernel
async def apart(x: Any) -> None:
    for nth in range(3):
        x[k.blockIdx.x * 8 + k.threadIdx.x * 4 + nth] = nth + 1
        await DteEvent()


@k.kernel
async def lost_update(x: Any) -> None:
    mine = x[0]
    await DteEvent()
    x[0] = mine + 1


@k.kernel
async def ordered_writes(x: Any) -> None:
    x[0] = x[0] * 3 + k.blockIdx.x * 2 + k.threadIdx.x + 1
    await DteEvent()
    x[1] = x[1] * 3 + k.blockIdx.x * 2 + k.threadIdx.x + 1


@k.kernel
async def behind_a_barrier(x: Any) -> None:
    s, me = k.shared(4, np.int32), k.threadIdx.x
    s[me] = me + 1
    await k.syncthreads()
    x[me] = s[(me + 1) % k.blockDim.x]
    await k.syncthreads()
    x[4 + me] = x[(me + 1) % k.blockDim.x]


@k.kernel
async def without_the_barrier(x: Any) -> None:
    s, me = k.shared_variable(4, np.int32), k.threadIdx.x
    s[me] = me + 1
    await DteEvent()
    x[me] = s[(me + 1) % k.blockDim.x]


@k.kernel
async def by_dte(x: Any) -> None:
    ctx, mine = k.tops_dte_ctx_t(), k.local(1, np.int32)
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, mine, x)
        mine[0] += 1
        await k.memcpy_async(ctx, x, mine)


@k.kernel
async def fetched_apart(x: Any) -> None:
    ctx, mine = k.tops_dte_ctx_t(), k.local(2, np.int32)
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, mine, x[:2])
        mine[:] += k.blockIdx.x + 1
        await k.memcpy_async(ctx, x[2 + 2 * k.blockIdx.x :], mine)


@k.kernel
async def source_overwritten(x: Any) -> None:
    ctx, mine = k.tops_dte_ctx_t(), k.local(1, np.int32)
    mine[0] = 1
    with k.dte_scope(ctx):
        event = k.memcpy_async(ctx, x, mine)
        mine[0] = 2
        await DteEvent()
        mine[0] = 3
        await event


@k.kernel
async def read_in_flight(x: Any) -> None:
    ctx, mine = k.tops_dte_ctx_t(), k.local(2, np.int32)
    if k.threadIdx.x:
        x[0] = 5
        await DteEvent()
        x[0] = 6
        return
    mine[0] = 9
    with k.dte_scope(ctx):
        event = k.memcpy_async(ctx, mine, x[:1])
        x[1] = mine[0]
        await DteEvent()
        x[2] = mine[0]
        await event
        x[3] = mine[0]


@k.kernel
async def two_in_flight(x: Any) -> None:
    one, two, mine = k.tops_dte_ctx_t(), k.tops_dte_ctx_t(), k.local(2, np.int32)
    mine[0], mine[1] = 1, 2
    with k.dte_scope(one), k.dte_scope(two):
        first = k.memcpy_async(one, x[:1], mine[:1])
        second = k.memcpy_async(two, x[:1], mine[1:])
        await first
        x[1] = x[0]
        await second


@k.kernel
async def chained(x: Any) -> None:
    one, two, mine = k.tops_dte_ctx_t(), k.tops_dte_ctx_t(), k.local(2, np.int32)
    mine[0] = k.threadIdx.x + 1
    with k.dte_scope(one), k.dte_scope(two):
        two.connect(one)
        k.memcpy_async(one, mine[1:], mine[:1])
        last = k.memcpy_async(two, x[:1], mine[1:])
        await last


@k.kernel
async def never_waited_for(x: Any) -> None:
    ctx, mine = k.tops_dte_ctx_t(), k.local(1, np.int32)
    mine[0] = k.threadIdx.x + 1
    with k.dte_scope(ctx):
        k.memcpy_async(ctx, x[:1], mine)
        await DteEvent()


@k.kernel
async def one_context_for_all(x: Any) -> None:
    ctx, mine = k.shared_dte_ctx(), k.shared_variable(1, np.int32)
    if k.threadIdx.x == 0:
        with k.dte_scope(ctx):
            await k.memcpy_async(ctx, mine, x[:1])
    await k.syncthreads()
    x[1 + k.threadIdx.x] = mine[0] + 1


@k.kernel
async def signalled(x: Any) -> None:
    if k.threadIdx.x == 0:
        x[0] = 7
        await DteEvent()
        k.signal_write(0, 1)
    else:
        await k.signal_wait(0, 1)
        x[1] = x[0]


@k.kernel
async def signalled_too_early(x: Any) -> None:
    if k.threadIdx.x == 0:
        k.signal_write(0, 1)
        await DteEvent()
        x[0] = 7
    else:
        await k.signal_wait(0, 1)
        x[1] = x[0]


@k.kernel
async def counted_by_a_signal(x: Any) -> None:
    before = k.signal_add(1, 1)
    x[k.threadIdx.x] = before + 1
    await k.signal_wait(1, 2)
    x[4 + k.threadIdx.x] = k.signal_read(1)


@k.kernel
async def signals_taken_back(x: Any) -> None:
    if k.threadIdx.x == 0:
        k.signal_write(0, 1)
        await DteEvent()
        k.signal_write(0, 0)
        await DteEvent()
        k.signal_write(0, 1)
    else:
        await k.signal_wait(0, 1, "eq")
        x[0] = k.signal_read(0) + 1


@k.kernel
async def counted(x: Any) -> None:
    meeting = k.barrier(k.BarrierScope.SIP, k.blockDim.x)
    x[k.threadIdx.x] = k.threadIdx.x + 1
    await meeting.arrive_and_wait()
    x[4 + k.threadIdx.x] = x[(k.threadIdx.x + 1) % k.blockDim.x]


@k.kernel
async def counted_twice(x: Any) -> None:
    meeting = k.barrier(k.BarrierScope.SIP, k.blockDim.x)
    for nth in range(2):
        x[k.threadIdx.x] = nth + 1
        await meeting.arrive_and_wait()


@k.kernel
async def counted_too_few(x: Any) -> None:
    meeting = k.barrier(k.BarrierScope.SIP, 1 if k.blockDim.x == 2 else 2)
    x[k.threadIdx.x] = k.threadIdx.x + 1
    await meeting.arrive_and_wait()
    x[4 + k.threadIdx.x] = x[(k.threadIdx.x + 1) % k.blockDim.x]


@k.kernel
async def two_of_three(x: Any) -> None:
    meeting = k.barrier(k.BarrierScope.SIP, 2)
    x[k.threadIdx.x] = meeting.arrive() + 1
    if k.threadIdx.x == 2:
        await meeting.wait(0)
        x[4] = 1


@k.kernel
async def arrives_and_looks_later(x: Any) -> None:
    meeting = k.barrier(k.BarrierScope.SIP, k.blockDim.x)
    token = meeting.arrive()
    x[k.threadIdx.x] = token + 1
    await DteEvent()
    await meeting.wait(token)


@k.cooperative
@k.kernel
async def over_blocks(x: Any) -> None:
    x[k.blockIdx.x] = k.blockIdx.x + 1
    await k.syncblocks()
    x[4 + k.blockIdx.x] = x[(k.blockIdx.x + 1) % k.gridDim.x]


@k.cooperative
@k.kernel
async def early_over_blocks(x: Any) -> None:
    x[4 + k.blockIdx.x] = x[(k.blockIdx.x + 1) % k.gridDim.x]
    await DteEvent()
    x[k.blockIdx.x] = k.blockIdx.x + 1
    await k.syncblocks()


@k.kernel
async def divergent(x: Any) -> None:
    x[k.threadIdx.x] = 1
    await DteEvent()
    if x[0] + x[1] == 2:
        await k.syncthreads()
    x[2 + k.threadIdx.x] = 1


@k.kernel
async def fails_by_order(x: Any) -> None:
    if k.threadIdx.x == 0:
        x[0] = 1
    else:
        await DteEvent()
        k.assert_(x[0] == 1)
    await DteEvent()
    x[1] = 1


@k.kernel
async def early_exit(x: Any) -> None:
    if k.threadIdx.x == 1 and x[0] == 0:
        return
    x[0] = 1
    await k.syncthreads()
    x[1] = 1


@k.kernel
async def spins(x: Any) -> None:
    if k.threadIdx.x == 0:
        x[0] = 1
        await DteEvent()
        x[1] = 1
    else:
        for _ in range(3):
            if x[1]:
                x[2] = x[0]
            await DteEvent()


@k.kernel
async def window(x: Any) -> None:
    grid = k.mdspan(x, 4, 4)
    ctx, mine = k.tops_dte_ctx_t(), k.local((4, 2), np.int32)
    mine[...] = k.threadIdx.x + 1
    with k.dte_scope(ctx):
        await k.deslice_async(ctx, k.mdspan(grid, 4, 4), mine, (0, 2 * k.threadIdx.x))


@k.kernel
async def masked(x: Any) -> None:
    me = k.threadIdx.x
    x[np.arange(4) * 2 + me] = me + 1
    await DteEvent()
    x[8:12][np.array([True, False, me == 0, False])] = me + 5


@k.kernel
async def two_memories(x: Any) -> None:
    first, second = k.shared(1, np.int32), k.shared(1, np.int32)
    first[0] = 3
    await k.syncthreads()
    second[0] = first[0] + k.threadIdx.x
    await k.syncthreads()
    x[k.threadIdx.x] = second[0]


@k.kernel
async def taken_by_turns(x: Any) -> None:
    me = k.threadIdx.x
    if me == 0:  # noqa: SIM108  # two lines
        mine = k.shared_variable(1, np.int32)  # another line than that of the other thread
    else:
        mine = k.shared_variable(1, np.int32)
    mine[0] = me + 1
    await DteEvent()
    x[me] = mine[0]


@k.kernel
async def synchronous(x: Any) -> None:
    ctx, mine = k.tops_dte_ctx_t(), k.local(1, np.int32)
    with k.dte_scope(ctx):
        k.memcpy(ctx, mine, x[:1])
        await DteEvent()
        mine[0] = mine[0] * 2 + k.threadIdx.x + 1
        k.memcpy(ctx, x[:1], mine)


@k.kernel
def plain_function(x: Any) -> None:
    x[0] = x[0] * 2 + k.threadIdx.x


LOG: list[Any] = []  # of one run


@k.kernel
async def tells_the_host(x: Any) -> None:
    LOG.append(int(k.threadIdx.x))
    await DteEvent()
    x[k.threadIdx.x] = len(LOG)
    LOG.append(int(k.threadIdx.x))


@k.kernel
async def escapes(x: Any) -> None:
    plain = np.asarray(x)
    await DteEvent()
    plain[0] = plain[0] * 2 + k.threadIdx.x


KERNELS: list[tuple[k.Kernel, Any, tuple[Any, ...]]] = [
    (apart, (1, 2), (16,)), (apart, (2, 1), (16,)), (lost_update, (1, 3), (1,)), (lost_update, (3, 1), (1,)),
    (ordered_writes, (1, 2), (2,)), (ordered_writes, (2, 1), (2,)),
    (behind_a_barrier, (1, 3), (8,)), (without_the_barrier, (1, 2), (4,)),
    (by_dte, (1, 2), (1,)), (by_dte, (2, 1), (1,)), (fetched_apart, (2, 1), (8,)),
    (source_overwritten, (1, 1), (1,)), (read_in_flight, (1, 2), (4,)), (two_in_flight, (1, 1), (2,)),
    (chained, (1, 1), (1,)), (never_waited_for, (1, 1), (1,)), (one_context_for_all, (1, 2), (4,)),
    (signalled, (1, 2), (2,)), (signalled_too_early, (1, 2), (2,)), (counted_by_a_signal, (1, 2), (8,)),
    (signals_taken_back, (1, 2), (1,)),
    (counted, (1, 2), (8,)), (counted, (1, 3), (8,)), (counted_twice, (1, 2), (2,)),
    (counted_too_few, (1, 2), (8,)), (counted_too_few, (1, 3), (8,)), (two_of_three, (1, 3), (8,)),
    (arrives_and_looks_later, (1, 2), (2,)),
    (over_blocks, (2, 1), (8,)), (over_blocks, (2, 2), (8,)), (early_over_blocks, (2, 1), (8,)),
    (divergent, (1, 2), (4,)), (fails_by_order, (1, 2), (2,)), (early_exit, (1, 2), (2,)), (spins, (1, 2), (3,)),
    (masked, (1, 2), (12,)), (two_memories, (1, 2), (2,)), (taken_by_turns, (1, 2), (2,)),
    (synchronous, (1, 2), (1,)), (tells_the_host, (1, 2), (2,)), (plain_function, (1, 3), (1,)),
    (escapes, (1, 2), (1,)),
]  # fmt: skip
