"""Kernels in TOPS C++: transfers, barriers and launches beside numpy and asyncio, and what their compilation takes."""

from __future__ import annotations

import asyncio
import os
import runpy
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

import atops
from atops import kernels as k
from atops.base.errors import NotSupported
from benchmarks.bare.native_add import BareNativeAdd
from benchmarks.measuring.figures import Budget, Figure, Skipped, at_most, compared, value_at_most
from benchmarks.measuring.measure import Effort, board, interleave, numpy_on_one_thread, timed
from benchmarks.rows.commands import round_trips
from benchmarks.rows.kernels import FOLDER, NUMPY, example_times, importable

__all__ = ("compile_times", "native_barriers", "native_kernels", "native_launch", "native_vector_add", "native_watched")

CACHE = "ATOPS_CACHE"
CHIP = (2, 12)
LIMITS = {"softmax": 1.5, "layer_norm": 1.5, "matrix_multiply": 1.5}  # times numpy; the others have none
SHARED_OUT = "matrix_multiply"  # what numpy does on all cores
TILE, SLICE = 8192, 43712  # floats: 32 and 171 KiB
SOURCE = f"constexpr int TILE = {TILE}, SLICE = {SLICE};" + """

__global__ void empty() {}

__global__ void rounds(int count) { for (int i = 0; i < count; ++i) __syncthreads(); }

__global__ __cooperative__ void grid_rounds(int count) { for (int i = 0; i < count; ++i) __syncblocks(); }

template <int SIZE>
__device__ void add(float *z, float *x, float *y, int n) {  // tile by tile: the next is on its way while one is added
    __local__ float a[2][SIZE], b[2][SIZE], c[2][SIZE];
    tops_dte_ctx_t contexts[6];
    for (auto &each : contexts) each.init();
    tops::event first[2], second[2], leaving[2];
    int me = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    auto load = [&](int side, int from) {
        int count = n - from < SIZE ? n - from : SIZE;
        tops::mdspan to_a(a[side], count), to_b(b[side], count);
        first[side] = tops::memcpy_async(contexts[side], to_a, tops::mdspan(x + from, count));
        second[side] = tops::memcpy_async(contexts[2 + side], to_b, tops::mdspan(y + from, count));
    };
    if (me * SIZE < n) load(0, me * SIZE);
    for (int from = me * SIZE, side = 0; from < n; from += threads * SIZE, side = 1 - side) {
        if (from + threads * SIZE < n) load(1 - side, from + threads * SIZE);
        tops::wait(first[side]);
        tops::wait(second[side]);
        tops::wait(leaving[side]);
        int count = n - from < SIZE ? n - from : SIZE;
        for (int i = 0; i < count; ++i) c[side][i] = a[side][i] + b[side][i];
        tops::mdspan to(z + from, count), sums(c[side], count);
        leaving[side] = tops::memcpy_async(contexts[4 + side], to, sums);
    }
    for (auto &each : leaving) tops::wait(each);
    for (auto &each : contexts) each.destroy();
}

__global__ void add_elements(float *z, float *x, float *y, int n) {
    int me = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = me; i < n; i += threads) z[i] = x[i] + y[i];
}

__global__ void sum_shared(float *z, float *x, float *y, int n) {
    __shared__ float s[4096];
    int me = threadIdx.x;
    float sum = 0;
    for (int from = blockIdx.x * 4096; from < n; from += gridDim.x * 4096) {
        for (int i = me; i < 4096; i += blockDim.x) s[i] = x[from + i];
        __syncthreads();
        for (int step = 2048; step > 0; step /= 2, __syncthreads())
            for (int i = me; i < step; i += blockDim.x) s[i] += s[i + step];
        sum += s[0];
        __syncthreads();
    }
    if (me == 0) z[blockIdx.x] = sum;
}

__global__ void add_tiles(float *z, float *x, float *y, int n) { add<TILE>(z, x, y, n); }
__global__ void add_slices(float *z, float *x, float *y, int n) { add<SLICE>(z, x, y, n); }
"""


def native_vector_add(effort: Effort) -> Iterator[Figure]:
    """Yield the times of adding two vectors by tiles and by slices, on one OS thread and on two.

    Against a plain loop in C++ on as many OS threads that does the same copies and sums, which sets the budgets, and
    beside numpy.add on one, which copies nothing.
    """
    module = _module()
    size = effort.size(1 << 20, 1 << 12)
    left, right = np.random.default_rng(1).random((2, size), np.float32)
    total = np.empty_like(left)
    bare = BareNativeAdd(left, right, CHIP[0] * CHIP[1])
    sides: dict[str, Callable[[], float]] = {
        "numpy": timed(lambda: np.add(left, right, out=total)),
        "bare_tiles": timed(bare.by(TILE)),
        "bare_slices": timed(bare.by(SLICE)),
    }
    with ExitStack() as boards:
        pool = boards.enter_context(ThreadPoolExecutor(1))
        sides |= {"bare_tiles 2": timed(bare.by_two(TILE, pool)), "bare_slices 2": timed(bare.by_two(SLICE, pool))}
        for workers in (1, 2):
            stream = boards.enter_context(board(workers=workers)).create_stream()
            x, y = stream.upload(left), stream.upload(right)
            for name in ("add_tiles", "add_slices"):
                z = stream.empty_like(left)
                launch = _launch(stream, module.function(name), z, x, y, size)
                launch()
                assert np.array_equal(stream.fetch(z).wait_sync(), left + right), f"{name} does not add"
                sides[f"{name} {workers}"] = timed(launch)
        times = interleave(effort.times(5), **sides)
    assert np.array_equal(bare.result, left + right), "the bare loop does not add"
    rows = (
        ("C++ vector add 1M, 32 KiB tiles by DTE", "add_tiles 1", "bare_tiles", at_most(1.4)),
        ("  beside numpy", "add_tiles 1", "numpy", None),
        ("  on two OS threads", "add_tiles 2", "bare_tiles 2", at_most(1.4)),
        ("  on two beside numpy on one", "add_tiles 2", "numpy", None),
        ("C++ vector add 1M, 170 KiB slices by DTE", "add_slices 1", "bare_slices", at_most(1.4)),
        ("  beside numpy", "add_slices 1", "numpy", None),
        ("  on two OS threads", "add_slices 2", "bare_slices 2", at_most(1.4)),
        ("  on two beside numpy on one", "add_slices 2", "numpy", None),
    )
    for what, side, other, budget in rows:
        reference = "numpy.add" if other == "numpy" else "bare loop"
        yield compared(what, times, side, other, reference=reference, unit="ms", count=1, budget=budget)


def native_watched(effort: Effort) -> Iterator[Figure]:
    """Yield the times of kernels whose every access is watched, against the same kernels as they are."""
    module = _module()
    size = effort.size(1 << 20, 1 << 12)
    values = np.random.default_rng(1).random(size, np.float32)
    for what, name in (("vector add 1M, 32 KiB tiles", "add_tiles"), ("an element at a time, 1M", "add_elements"),
                       ("a sum in shared memory, 1M", "sum_shared")):  # fmt: skip
        sides: dict[str, Callable[[], float]] = {}
        with ExitStack() as boards:
            for mode, options in (("plain", {}), ("strict", {"strict": True})):
                stream = boards.enter_context(board(**options)).create_stream()
                x, z = stream.upload(values), stream.upload(values)
                launch = _launch(stream, module.function(name), z, x, x, size)
                launch()
                sides[mode] = timed(launch)
            times = interleave(effort.times(3), **sides)
        yield compared(f"C++ {what}, strict", times, "strict", "plain", reference="default", unit="ms", count=1,
                       budget=at_most(150))  # fmt: skip


def native_barriers(effort: Effort) -> Iterator[Figure]:
    """Yield the times of a round of 12 threads in a block, and of 2 blocks of 12 threads."""
    module, count = _module(), effort.size(20_000, 20)
    with board() as device:
        stream = device.create_stream()
        times = interleave(
            effort.times(),
            block=timed(lambda: stream.launch(module.function("rounds"), (1, 12), count).wait_sync()),
            grid=timed(lambda: stream.launch(module.function("grid_rounds"), CHIP, count).wait_sync()),
        )
    for what, side, limit in (
        ("C++ barrier round, 12 threads", "block", 0.3),
        ("C++ grid barrier round, 2×12", "grid", 0.6),
    ):
        yield Figure(what, times.least(side) / count * 1e6, "µs", budget=value_at_most(limit))


def native_launch(effort: Effort) -> Iterator[Figure]:
    """Yield the time of an awaited launch of an empty kernel on 2 blocks of 12 threads."""
    kernel = _module().function("empty")
    with board() as device:
        stream = device.create_stream()
        times, count = round_trips(effort, lambda: stream.launch(kernel, CHIP))
    yield compared(
        "C++ empty kernel 2×12, awaited", times, "command", "thread",
        reference="to_thread(noop)", unit="µs", count=count, budget=at_most(1.2),
    )  # fmt: skip


def native_kernels(effort: Effort) -> Iterator[Figure]:
    """Yield the time of each example kernel in C++ against numpy. Raises Skipped in an installed package."""
    _module()
    if not FOLDER.is_dir():
        raise Skipped("the example kernels come with the source tree, and this is an installed package")
    with importable(FOLDER):
        space = runpy.run_path(str(FOLDER / "in_cxx.py"))
        examples = {name: space["example"](name) for name in space["PROGRAMS"]}
    for name, example in examples.items():
        with numpy_on_one_thread() as alone:
            times = asyncio.run(example_times(example, effort))
        limit: Budget | None = at_most(LIMITS[name]) if name in LIMITS else None
        yield compared(
            example.name, times, "kernel", "numpy", reference=NUMPY[alone], unit="ms", count=1, budget=limit
        )  # fmt: skip
        if name == SHARED_OUT:
            times = asyncio.run(example_times(example, effort, workers=2))
            yield compared("  on two OS threads", times, "kernel", "numpy", reference=NUMPY[False], unit="ms", count=1)


def compile_times(effort: Effort) -> Iterator[Figure]:
    """Yield the time of compiling a plain kernel, and of taking it from the cache."""
    _module()
    text = "__global__ void plain(float *x, int n) { for (int i = 0; i < n; ++i) x[i] *= 2; }  // "
    turns = iter(range(1000))
    with _cache_of_its_own():
        k.compile_source(f"{text} first: the runtime is built", "plain.tops").module()
        times = interleave(
            effort.times(),
            cold=timed(lambda: k.compile_source(f"{text} {next(turns)}", "plain.tops").module()),
            kept=timed(lambda: k.compile_source(f"{text} first: the runtime is built", "plain.tops").module()),
        )
    for what, side, limit in (("C++ compile of a plain kernel", "cold", 600.0), ("  that is kept", "kept", 15.0)):
        yield Figure(what, times.least(side) * 1e3, "ms", budget=value_at_most(limit))


def _module() -> Any:
    try:
        return k.compile_source(SOURCE, "bench.tops").module()
    except NotSupported as error:
        raise Skipped(str(error)) from None


def _launch(stream: atops.Stream, kernel: Any, *arguments: Any) -> Callable[[], object]:
    return lambda: stream.launch(kernel, CHIP, *arguments).wait_sync()


@contextmanager
def _cache_of_its_own() -> Iterator[None]:
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[CACHE]
            else:
                os.environ[CACHE] = before
