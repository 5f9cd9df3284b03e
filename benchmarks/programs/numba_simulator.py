"""The numba CUDA simulator as a peer: answer each line "launch n" or "barrier n" with the seconds that n of them took.

`atops bench` starts it in a process of its own, with NUMBA_ENABLE_CUDASIM=1 in the environment. It imports no atops.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from numba import cuda

THREADS = 12  # in one block


@cuda.jit
def empty() -> None:
    pass


@cuda.jit
def rounds(count: int) -> None:
    for _ in range(count):
        cuda.syncthreads()


def launch(count: int) -> None:
    for _ in range(count):
        empty[1, THREADS]()


def barrier(count: int) -> None:
    rounds[1, THREADS](count)


ACTIONS: Mapping[str, Callable[[int], None]] = {"launch": launch, "barrier": barrier}


def main() -> None:
    for line in sys.stdin:
        what, count = line.split()
        start = time.perf_counter()
        ACTIONS[what](int(count))
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
