"""The floor under the vector add: coroutines on one worker thread that do the same copies and sums and nothing else.

They share no code with the runtime: no checks, no addresses, no faults, no trace. Their vectors lie in pages of the
same kind as a device's memory. Their time is what the machine
allows; the budgets of the kernels that do the same are tied to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bare.pages import in_device_pages

__all__ = ("BareAdd", "Wait")

Floats = npt.NDArray[np.float32]
Copy = tuple[memoryview, memoryview]


class Wait:
    """What a coroutine awaits: copies that are done when it does."""

    __slots__ = ("copies",)

    def __init__(self, *copies: Copy) -> None:
        self.copies = copies

    def __await__(self) -> Generator[Wait, None, None]:
        yield self


class BareAdd:
    """`threads` coroutines, each with its share of x + y, on a worker thread that `close` ends; `result` is the sum."""

    def __init__(self, x: Floats, y: Floats, threads: int, tile: int) -> None:
        x, y, z = (in_device_pages(each) for each in (x, y, np.zeros_like(x)))
        self._vectors = x, y, z
        self.result = z
        self._bytes = [vector.data.cast("B") for vector in (x, y, z)]
        share = -(-len(x) // threads)
        self._shares = [(start, min(len(x), start + share)) for start in range(0, len(x), share)]
        self._tile = tile
        self._local = [np.empty((2, 3, tile), np.float32) for _ in self._shares]
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        Thread(target=self._serve, name="bare add", daemon=True).start()

    def tiles(self) -> None:
        """Add in double-buffered tiles, and wait for it."""
        self._run(self._add_tiles)

    def slices(self) -> None:
        """Add each share at once, and wait for it."""
        self._run(self._add_slices)

    def close(self) -> None:
        """End the worker thread."""
        self._work.put(None)

    def _run(self, work: Callable[[], None]) -> None:
        self._work.put(work)
        self._done.get()

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            self._done.put(None)

    def _add_slices(self) -> None:
        x, y, z = self._vectors
        for start, stop in self._shares:
            np.add(x[start:stop], y[start:stop], out=z[start:stop])

    def _add_tiles(self) -> None:
        """Resume the coroutines round robin; each gets what it waits for when it has its turn."""
        ready: deque[tuple[Coroutine[Any, Any, None], tuple[Copy, ...]]] = deque(
            (self._thread(*share, local), ()) for share, local in zip(self._shares, self._local, strict=True)
        )
        while ready:
            coroutine, copies = ready.popleft()
            for target, source in copies:
                target[:] = source
            try:
                ready.append((coroutine, coroutine.send(None).copies))
            except StopIteration:
                continue

    async def _thread(self, start: int, stop: int, local: Floats) -> None:
        x, y, z = self._bytes
        room = [[local[side, part].data.cast("B") for part in range(3)] for side in range(2)]
        parts = [(first, min(stop, first + self._tile)) for first in range(start, stop, self._tile)]

        def load(side: int, first: int, last: int) -> tuple[Copy, Copy]:
            size, where = (last - first) * 4, slice(first * 4, last * 4)
            return (room[side][0][:size], x[where]), (room[side][1][:size], y[where])

        arriving = load(0, *parts[0])
        leaving: tuple[Copy, ...] = ()
        for turn, (first, last) in enumerate(parts):
            side, size = turn % 2, last - first
            coming = load(1 - side, *parts[turn + 1]) if turn + 1 < len(parts) else arriving
            await Wait(*arriving, *leaving)
            arriving = coming
            a, b, c = local[side, :, :size]
            np.add(a, b, out=c)
            leaving = ((z[first * 4 : last * 4], room[side][2][: size * 4]),)
        await Wait(*leaving)
