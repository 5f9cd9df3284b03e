"""A program whose every step depends on the order that the policy chooses. It prints its trace, for one seed."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions


@k.kernel
async def scramble(x: Any, order: Any) -> None:
    """Let threads note in which order they pass a barrier."""
    for _ in range(3):
        await k.syncthreads()
        order[0] += 1
        x[k.thread_id()] = order[0]


async def main() -> list[str]:
    """Run tasks, streams, kernels, callbacks and host coroutines that all race; return what happened, in order."""
    said: list[str] = []
    device = atops.Device(0)

    async def worker(name: str) -> None:
        async with device.create_stream(name=name) as stream:
            x, order = stream.zeros(12, "int32"), stream.zeros(1, "int32")
            for number in range(3):
                stream.launch(scramble, (1, 12), x, order)
                stream.call(said.append, f"{name} callback {number}")
                stream.call(host, name)
                await stream.record()
                said.append(f"{name} woke {number}")
                await asyncio.sleep(0.001 * number)
            values = await stream.fetch(x)
            said.append(f"{name} {values.tolist()}")

    async def host(name: str) -> None:
        await asyncio.sleep(0)
        said.append(f"{name} host")

    await asyncio.gather(*(worker(f"stream {letter}") for letter in "abcd"))
    records = atops.current_driver().tracer.records()
    return said + [repr(np.asarray([record.seq for record in records]).tolist())] + [repr(record) for record in records]


def options(seed: int | None) -> EmulatorOptions:
    """Return the options of an exact replay."""
    return EmulatorOptions(seed=seed, clock="virtual")


if __name__ == "__main__":
    for line in atops.run(main, options(None if sys.argv[1] == "none" else int(sys.argv[1]))):
        print(line)
