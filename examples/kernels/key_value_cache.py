"""Key-value cache: attention appends a step's keys and values by `deslice` and reads the latest ones back by `slice`.

Look at: how little a thread does. It computes nothing and stages nothing: the DTE moves global memory to global memory,
keys by one context and values by another, at the same time. A thread has whole heads: what it reads it has appended
itself and awaited, so no barrier is needed. What does not fit behind the cache is an error that says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from measured import Array, Measured

import atops
from atops import kernels as k


@k.kernel
async def append_and_read(windows: k.Span, keys: k.Span, values: k.Span, fresh: k.Span, length: int) -> None:
    """Append to the first `length` positions of the caches `keys` and `values`, and store their latest into `windows`.

    Caches have shape (heads, positions, dim), `fresh` and `windows` (2, heads, positions, dim): keys, then values.
    """
    heads, new, latest = keys.shape[0], fresh.shape[2], windows.shape[2]
    start = max(0, length + new - latest)  # the first position of the window
    with k.dte_scope() as one, k.dte_scope() as two:
        for part in k.tiles(heads, -(-heads // k.thread_count())):  # a single share
            appended = k.deslice_async(one, keys, fresh[0, part], (part.start, length, 0))
            also = k.deslice_async(two, values, fresh[1, part], (part.start, length, 0))
            await appended
            await also
            read = k.slice_async(one, windows[0, part], keys, (part.start, start, 0))
            also = k.slice_async(two, windows[1, part], values, (part.start, start, 0))
            await read
            await also


def problem(
    generator: np.random.Generator, heads: int, capacity: int, dim: int, new: int, latest: int
) -> tuple[Any, ...]:
    """Return half-filled caches of keys and values, what comes next, how many there are, and how many to read."""
    keys, values = generator.random((2, heads, capacity, dim), np.float32).astype(np.float16)
    fresh = generator.random((2, heads, new, dim), np.float32).astype(np.float16)
    return keys, values, fresh, capacity // 2, latest


def reference(keys: Array, values: Array, fresh: Array, length: int, latest: int) -> Array:
    """Do the same in numpy, in place as the kernel does."""
    stop = length + fresh.shape[2]
    start = max(0, stop - latest)
    windows = np.empty((2, keys.shape[0], latest, keys.shape[2]), keys.dtype)
    for cache, tokens, window in zip((keys, values), fresh, windows, strict=True):
        cache[:, length:stop] = tokens
        window[...] = cache[:, start : start + latest]
    return windows


async def program(keys: Array, values: Array, fresh: Array, length: int, latest: int) -> Array:
    """Upload, launch on the whole chip, fetch the windows."""
    async with atops.Device(0).create_stream() as stream:
        caches = stream.upload(keys), stream.upload(values)
        windows = stream.empty((2, keys.shape[0], latest, keys.shape[2]), keys.dtype)
        stream.launch(append_and_read, (2, 12), windows, *caches, stream.upload(fresh), length)
        return await stream.fetch(windows)


EXAMPLE = Measured(
    "key-value cache, deslice and slice",
    program,
    reference,
    problem,
    size=(48, 512, 128, 16, 256),  # four sequences of twelve heads
    others=((1, 2, 1, 1, 1), (5, 33, 7, 3, 16), (48, 100, 24, 50, 60), (50, 64, 8, 1, 64)),
)

if __name__ == "__main__":
    EXAMPLE.main()
