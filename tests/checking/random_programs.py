"""Programs of random commands on two or three streams, by one task or two, small enough to be run in all orders."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np

import atops
from atops import kernels as k

SIZE = 8  # int32 of a row; the last two are words that are waited for


@k.kernel
async def adds(x: Any) -> None:
    """Add one to the first numbers, each thread to its own and to the one that all have in common."""
    x[k.threadIdx.x + 1] += 1
    x[0] += 1


@k.kernel
async def moves(x: Any, y: Any) -> None:
    """Copy by DTE."""
    ctx = k.tops_dte_ctx_t()
    with k.dte_scope(ctx):
        await k.memcpy_async(ctx, y[0:2], x[0:2])


class Drawn:
    """A random program: `await drawn.run()` returns what it has seen and what memory holds at its end."""

    def __init__(self, seed: int, most: int = 3, streams: int = 2) -> None:
        self.seed = seed
        draw = self.draw = random.Random(seed)
        self.streams = streams
        self.rows = draw.choice((1, 2, 2))
        self.tasks = draw.choice((1, 1, 2))
        self.commands = [self._command() for _ in range(draw.randint(2, most))]

    def _command(self) -> tuple[Any, ...]:
        draw = self.draw
        kinds = (
            "fill", "fill", "fill", "part", "copy", "upload", "fetch", "event", "event", "value", "write", "call",
            "lock", "await", "kernel", "dte", "zeros", "sleep", "done",
        )  # fmt: skip
        kind = draw.choice(kinds)
        rows = range(self.rows)
        return kind, draw.randrange(self.streams), draw.choice(rows), draw.choice(rows), draw.randint(1, 9)

    def __repr__(self) -> str:
        return f"Drawn({self.seed}): {self.tasks} tasks, {self.rows} rows, {self.commands}"

    async def run(self) -> Any:  # noqa: C901  # a table of commands
        """Run it."""
        device = atops.Device(0)
        streams = [device.create_stream() for _ in range(self.streams)]
        rows = [device.zeros(SIZE, np.int32) for _ in range(self.rows)]
        seen: list[Any] = []
        lock = asyncio.Lock()
        value = iter(range(1, 100))

        async def work(mine: list[tuple[Any, ...]]) -> None:  # noqa: C901  # as above
            for kind, number, row, other, which in mine:
                stream, x = streams[number], rows[row]
                y = rows[other]
                match kind:
                    case "fill":
                        stream.fill(x, which)
                    case "part":
                        stream.fill(x[0:2], which)
                    case "copy":
                        if row != other:
                            stream.copy(y[0:4], x[2:6])
                    case "upload":
                        stream.copy(x[0:4], np.full(4, which, np.int32))
                    case "fetch":
                        seen.append((await stream.fetch(x)).tolist())
                    case "event":
                        streams[(number + 1) % self.streams].wait(stream.record())
                    case "write":
                        stream.write_value(x, 6, which)
                    case "value":
                        wanted = next(value)
                        stream.wait_value(x, 6, wanted)
                        streams[(number + 1) % self.streams].write_value(x, 6, wanted)
                    case "call":
                        stream.call(seen.append, which)
                    case "lock":
                        async with lock:
                            seen.append(which)
                            await asyncio.sleep(0)
                            seen.append(-which)
                    case "await":
                        await stream
                    case "kernel":
                        stream.launch(adds, (1, 1), x)
                    case "dte":
                        if row != other:
                            stream.launch(moves, (1, 1), x, y)
                    case "zeros":
                        fresh = stream.zeros(2, np.int32)
                        seen.append((await stream.fetch(fresh)).tolist())
                        stream.free(fresh)
                    case "sleep":
                        await asyncio.sleep(0)
                        seen.append(which)
                    case "done":
                        seen.append(stream.fill(x[7:8], which).done())

        share = [self.commands[at :: self.tasks] for at in range(self.tasks)]
        await asyncio.gather(*(work(each) for each in share))
        for stream in streams:
            await stream
        held = [(await streams[0].fetch(row)).tolist() for row in rows]
        return seen, held


