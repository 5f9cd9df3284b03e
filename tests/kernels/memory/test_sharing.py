"""What threads of a block share by asking on the same line, where each thread is an OS thread too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError
from tests.kernel_bench import Bench


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, "sip"])
def test_one_line_is_one_object(make_bench: Callable[..., Bench], tiny_switch_interval: None, workers: int | str):
    """Memory, contexts and barriers of one line are the same for all threads of a block, and others for each line."""
    bench = make_bench(workers=workers)
    x = bench.empty((2, 12), np.int32)

    @k.kernel
    async def meet(x):
        row, ctx = k.shared(12, np.int32), k.shared_dte_ctx()
        other, gate = k.shared(12, np.int32), k.barrier(k.BarrierScope.SIP, 12)
        row[k.threadIdx.x] = 1 + k.threadIdx.x
        other[k.threadIdx.x] = 0
        await gate.arrive_and_wait()
        if k.threadIdx.x == 5:
            ctx.init()
        await k.syncthreads()
        if k.threadIdx.x == 7:
            await k.memcpy_async(ctx, x[k.blockIdx.x], row)

    for _ in range(3):
        x.host[...] = 0
        bench.launch(meet, (2, 12), x)
        assert x.host.tolist() == [list(range(1, 13))] * 2


@pytest.mark.slow
def test_os_threads_may_share_an_event(make_bench: Callable[..., Bench], tiny_switch_interval: None):
    """However many OS threads wait for one transfer, its bytes move once, before any of them goes on."""
    bench = make_bench(workers="sip")
    x, seen = bench.upload(np.full(64, 3, np.int32)), bench.empty(12, np.int32)
    events: list[k.event] = []

    @k.kernel
    async def share(x, seen):
        ctx, row = k.shared_dte_ctx(), k.shared(64, np.int32)
        if k.threadIdx.x == 0:
            ctx.init()
            events[:] = [k.memcpy_async(ctx, row, x)]
        await k.syncthreads()
        await events[0]
        row[k.threadIdx.x] += 1
        await k.syncthreads()
        seen[k.threadIdx.x] = row[k.threadIdx.x]

    for _ in range(5):
        bench.launch(share, (1, 12), x, seen)
        assert list(seen.host) == [4] * 12


def test_a_shared_context_in_use_refuses_other_os_threads(make_bench: Callable[..., Bench], tiny_switch_interval: None):
    """Of many threads that trigger one context at the same time, one is served and another is named."""
    bench = make_bench(workers="sip")
    x = bench.empty(12, np.int32)

    @k.kernel
    async def crowd(x):
        ctx, row = k.shared_dte_ctx(), k.shared(12, np.int32)
        if k.threadIdx.x == 0:
            ctx.init()
        await k.syncthreads()
        event = k.memcpy_async(ctx, row, x)
        await k.syncthreads()
        await event

    with pytest.raises(DteError, match="in flight"):
        bench.launch(crowd, (1, 12), x)
