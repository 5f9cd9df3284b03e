"""The floor under the vector add in C++: a loop on one OS thread or two with the same copies and sums, and no more.

It shares no code with the runtime: no fibers, no checks, no range table, no trace. Its vectors lie in pages of the
same kind as a device's memory. Its time is what this machine's memory and the C library's memcpy allow; the budgets of
the kernels that do the same are tied to it.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from atops.device.native.toolchain import find_toolchain
from benchmarks.bare.pages import in_device_pages

__all__ = ("BareNativeAdd",)

Floats = npt.NDArray[np.float32]
SOURCE = """
#include <cstring>

// Tiles go round the threads, as many floats each. A thread has two rooms for each of x, y and z, and loads its next
// tile before it adds the one that is there.
extern "C" __attribute__((visibility("default")))
void add(float *z, const float *x, const float *y, long n, long tile, long threads, float *rooms) {
    auto part = [&](long thread, long side, long which) { return rooms + ((thread * 2 + side) * 3 + which) * tile; };
    auto load = [&](long thread, long side, long from) {
        long count = n - from < tile ? n - from : tile;
        memcpy(part(thread, side, 0), x + from, count * 4);
        memcpy(part(thread, side, 1), y + from, count * 4);
    };
    for (long each = 0; each < threads; ++each)
        if (each * tile < n) load(each, 0, each * tile);
    for (long round = 0, side = 0; round < n; round += threads * tile, side = 1 - side)
        for (long each = 0; each < threads; ++each) {
            long from = round + each * tile, next = from + threads * tile;
            if (from >= n) break;
            if (next < n) load(each, 1 - side, next);
            long count = n - from < tile ? n - from : tile;
            float *a = part(each, side, 0), *b = part(each, side, 1), *c = part(each, side, 2);
            for (long i = 0; i < count; ++i) c[i] = a[i] + b[i];
            memcpy(z + from, c, count * 4);
        }
}
"""


class BareNativeAdd:
    """`result` = x + y by tiles of so many floats, as `threads` kernel threads do. Raises NotSupported: no compiler."""

    def __init__(self, x: Floats, y: Floats, threads: int) -> None:
        self._vectors = in_device_pages(x), in_device_pages(y)
        self._threads = threads
        self.result = in_device_pages(np.zeros_like(x))
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "add.cpp"), Path(folder, "add.so")
            source.write_text(SOURCE)
            find_toolchain().library([source], library, ["-O3", "-march=native"])
            self._add = ctypes.CDLL(str(library)).add

    def by(self, tile: int) -> Callable[[], None]:
        """Return a call that adds by tiles of this size, and returns when it is done."""
        return self._part(slice(None), tile, self._threads)

    def by_two(self, tile: int, pool: ThreadPoolExecutor) -> Callable[[], None]:
        """Return a call that adds by tiles of this size on two OS threads: the caller's, and one of the pool."""
        half = len(self.result) // 2
        first, second = (self._part(part, tile, self._threads // 2) for part in (slice(half), slice(half, None)))

        def add() -> None:
            other = pool.submit(second)
            first()
            other.result()

        return add

    def _part(self, part: slice, tile: int, threads: int) -> Callable[[], None]:
        """Return a call that adds a part of the vectors as so many kernel threads do."""
        vectors = [each[part] for each in (self.result, *self._vectors)]
        rooms = np.zeros(threads * 6 * tile, np.float32)
        pointers = [ctypes.c_void_p(each.ctypes.data) for each in (*vectors, rooms)]
        figures = [ctypes.c_long(each) for each in (len(vectors[0]), tile, threads)]

        def add(held: Floats = rooms) -> None:  # the default keeps the rooms
            self._add(*pointers[:3], *figures, pointers[3])

        return add
