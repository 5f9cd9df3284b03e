"""Programs made of a number: streams, kernels, tasks, host calls and sleeps that all race, run from a schedule.

It prints, for each number of a range, a checksum of what was chosen, of what happened, and of the trace.
"""

from __future__ import annotations

import asyncio
import random
import sys
import zlib
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions


@k.kernel
async def scramble(x: Any, order: Any) -> None:
    """Let threads note in which order they pass a barrier, and race by DTE for what they add to."""
    ctx = k.tops_dte_ctx_t()
    mine = k.local(1, np.int32)
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, mine, order)
        mine[0] += 1
        event = k.memcpy_async(ctx, order, mine)
        await k.syncthreads()
        x[k.thread_id()] = order[0]
        await event


async def cancel_a_group(said: list[str]) -> None:
    """Cancel tasks by the failure of their group, which has them in a set and cancels them in its order."""

    async def cancelled(name: str) -> None:
        try:
            await asyncio.sleep(1)
        finally:
            said.append(f"{name} cancelled")

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for nth in range(6):
                group.create_task(cancelled(f"task {nth}"))
            await asyncio.sleep(1e-3)
            raise ValueError("the end of the group")


async def main(number: int) -> list[str]:
    """Run the program of a number, and return what happened in order."""
    drawn = random.Random(number)
    said: list[str] = []
    device = atops.Device(0)
    shared = device.allocate(256)

    def note(text: str, event: object) -> None:
        said.append(text)

    async def host(name: str) -> None:
        await asyncio.sleep(0)
        said.append(f"{name} host")

    async def worker(name: str, verbs: list[str]) -> None:
        async with device.create_stream(name=name) as stream:
            x, order = stream.zeros(24, "int32"), stream.zeros(1, "int32")
            event = None
            for nth, verb in enumerate(verbs):
                if verb == "launch":
                    stream.launch(scramble, (2, 3), x, order)
                elif verb == "fill":
                    stream.fill(shared, nth)
                elif verb in ("call", "host"):
                    stream.call(host if verb == "host" else said.append, f"{name} {verb} {nth}")
                elif verb == "record":
                    event = stream.record()
                elif verb == "await" and event is not None:
                    await event
                    said.append(f"{name} woke {nth}")
                elif verb == "sleep":
                    await asyncio.sleep(drawn.choice((0, 1e-6, 1e-3)))
                    said.append(f"{name} slept {nth}")
                elif verb == "done":
                    stream.record().add_done_callback(partial(note, f"{name} done {nth}"))
            said.append(f"{name} {(await stream.fetch(x)).tolist()} {(await stream.fetch(order)).tolist()}")

    verbs = ("launch", "fill", "call", "host", "record", "await", "sleep", "done")
    plans = [drawn.choices(verbs, k=drawn.randrange(1, 7)) for _ in range(drawn.randrange(1, 4))]
    await asyncio.gather(*(worker(f"stream {letter}", plan) for letter, plan in zip("abc", plans, strict=False)))
    await cancel_a_group(said)
    records = atops.current_driver().tracer.records()
    return [*said, *map(repr, records), str(atops.current_driver().schedule)]


def options(schedule: str, seed: int | None = None) -> EmulatorOptions:
    """Return the options of a run of these programs."""
    return EmulatorOptions(schedule=schedule, seed=seed, clock="virtual")


if __name__ == "__main__":
    schedule = sys.argv[3] if len(sys.argv) > 3 else "random"
    for each in range(int(sys.argv[1]), int(sys.argv[2])):
        lines = atops.run(main, options(schedule, each), each)
        print(each, zlib.crc32("\n".join(lines).encode()), lines[-1])
