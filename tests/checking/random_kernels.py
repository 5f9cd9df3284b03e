"""Random kernels of two or three threads: what they do is drawn, and few enough interleavings to count them all."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from atops import kernels as k
from atops.device.dte.transfer import DteEvent
from tests.checking.exploring import Program, on_a_bare_grid

KINDS = (
    "load", "store", "add", "branch", "turn", "turn", "shared", "get", "put", "start", "write", "raise", "wait",
    "sync", "meet", "arrive", "leave",
)  # fmt: skip
Script = tuple[tuple[str, int, int], ...]


def kernel_of(scripts: tuple[Script, ...], blocks: int) -> k.Kernel:  # noqa: C901  # a branch for each kind
    """Return a kernel of which each thread does what its script says."""

    @k.kernel
    async def drawn(x: Any) -> None:  # noqa: C901  # as above
        me = k.blockIdx.x if blocks > 1 else k.threadIdx.x
        ctx, mine, s = k.tops_dte_ctx_t(), k.local(2, np.int32), k.shared_variable(2, np.int32)
        meeting = k.barrier(k.BarrierScope.SIP, len(scripts)) if blocks == 1 else None
        mine[:] = 0
        s[:] = 0
        if blocks == 1:
            await k.syncthreads()
        value = me + 1
        event = None
        with k.dte_scope(ctx):
            for kind, place, other in scripts[me]:
                if kind == "load":
                    value = int(x[place])
                elif kind == "store":
                    x[place] = value + other
                elif kind == "add":
                    x[place] = x[place] * 3 + value
                elif kind == "branch":
                    if x[place]:
                        x[other] = value
                elif kind == "turn":
                    await DteEvent()
                elif kind == "shared":
                    s[place % 2] = s[place % 2] * 3 + value
                elif kind == "get":
                    if event is not None:
                        await event
                    event = k.memcpy_async(ctx, mine[:1], x[place : place + 1])
                    value += int(mine[other % 2])
                elif kind == "put":
                    if event is not None:
                        await event
                    event = k.memcpy_async(ctx, x[place : place + 1], mine[:1])
                    mine[other % 2] = value
                elif kind == "start":
                    if event is not None:
                        await event
                    await k.memcpy_async(ctx, mine[1:], x[place : place + 1])
                    event = None
                    value += int(mine[1])
                elif kind == "write":
                    k.signal_write(place, other)
                elif kind == "raise":
                    value += k.signal_add(place, 1)
                elif kind == "wait":
                    await k.signal_wait(place, 1)
                elif kind == "sync" and blocks == 1:
                    await k.syncthreads()
                elif kind == "meet" and meeting is not None:
                    await meeting.arrive_and_wait()
                elif kind == "arrive" and meeting is not None:
                    value += meeting.arrive()
                elif kind == "leave" and other == 0 and place == 0:
                    break
            if event is not None:
                await event
        x[3 + me] = value

    return drawn


def drawn(seed: int) -> Program:
    """Return a random program."""
    rng = random.Random(seed)
    threads = rng.choice((2, 2, 2, 3))
    blocks = rng.choice((1, 1, threads))
    kinds = rng.sample(KINDS, rng.randint(2, 6))
    most = 4 if threads == 2 else 2
    scripts = tuple(
        tuple((rng.choice(kinds), rng.randrange(3), rng.randrange(3)) for _ in range(rng.randint(1, most)))
        for _ in range(threads)
    )
    return on_a_bare_grid(kernel_of(scripts, blocks), (blocks, threads // blocks), 8)
