"""Kernels that run in a process of their own: the same results, and a crash ends that process only."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.runtime.driver import Driver
from tests.kernels.cxx.conftest import run_kernel

pytestmark = pytest.mark.slow
APART = EmulatorOptions(native_process=True)
TEXT = """
#include <sys/syscall.h>
#include <unistd.h>
__device__ int launches = 0;
__cooperative__ __global__ void right(int *x, const int *y) {
    __local__ int tile[12];
    tops_dte_ctx_t ctx; tops::dte_scope scope(ctx);
    tops::memcpy(ctx, tops::mdspan(tile, 12), tops::mdspan(y, 12));
    __syncblocks();
    x[blockIdx.x * 12 + threadIdx.x] = tile[threadIdx.x] + blockIdx.x;
    if (blockIdx.x == 0 && threadIdx.x == 0) printf("launch %d\\n", ++launches);
}
__global__ void signalled(int *x, int number) {
    x[0] = 77;
    syscall(SYS_kill, syscall(SYS_getpid), number);
    while (true) syscall(SYS_sched_yield);
}
__global__ void left(int *x, int code) { syscall(SYS_exit_group, code); }
__global__ void poke(int *x, unsigned long at) { *(volatile char *)at = 1; }
__global__ void jump(int *x, unsigned long at) { ((void (*)())at)(); }
__global__ void wild(int *x) { *(volatile int *)16 = 1; }
__device__ void deeper(int *x, int n) {
    volatile char much[4096]; much[n % 4096] = 1; if (n) deeper(x, n - 1); x[0] += much[0]; }
__global__ void deep(int *x, int n) { deeper(x, n); }
__global__ void spin(volatile int *x) { x[0] = 1; while (x[0]) x[1] += 1; }
"""


@pytest.fixture(scope="module")
def module(request: pytest.FixtureRequest) -> Any:
    request.getfixturevalue("compiler")
    return k.compile_source(TEXT, "apart.tops").module()


def failure(module: Any, name: str, *arguments: Any) -> str:
    """Return what a launch fails with; the next one is right."""
    with pytest.raises(atops.errors.LaunchFailure) as caught:
        run_kernel("", name, (1, 1), *arguments, options=APART, module=module)
    check(module)
    return str(caught.value)


def check(module: Any) -> None:
    y = np.arange(12, dtype=np.int32)
    got = run_kernel("", "right", (2, 12), np.zeros(24, np.int32), y, options=APART, module=module)
    assert got.tolist() == [*y, *(y + 1)]


def test_it_runs_over_the_same_memory(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Buffers, variables of the device, pinned and managed memory; what it prints comes out here."""
    x, y = np.zeros(24, np.int32), np.arange(12, dtype=np.int32)
    for memory in ("host_malloc", "malloc_managed"):

        async def main(memory: str = memory) -> Any:
            device = atops.Device(0)
            async with device.create_stream() as stream:
                out, given = getattr(device, memory)(24, np.int32), stream.upload(y)
                for _ in range(2):
                    stream.launch(module.function("right"), (2, 12), out, given)
                await stream
                return np.array(out).tolist()

        assert atops.run(main, APART) == [*y, *(y + 1)]
        assert capsys.readouterr().out == "launch 1\nlaunch 2\n"
    assert run_kernel("", "right", (2, 12), x, y, options=APART, module=module).tolist() == [*y, *(y + 1)]


def test_a_crash_ends_the_process_only(module: Any) -> None:
    """The failure names signal or code; what the guard catches is a fault with its line, as without a process."""
    x = np.zeros(12, np.int32)
    assert "the process that it ran in was ended by SIGKILL" in failure(module, "signalled", x, 9)
    assert "was ended by SIGTERM" in failure(module, "signalled", x, 15)
    assert "ended with code 3" in failure(module, "left", x, 3)
    assert "apart.tops:21: stored to a null pointer" in failure(module, "wild", x)
    assert "overflowed" in failure(module, "deep", x, 1 << 20)
    assert "kernel jump" in failure(module, "jump", x, 16)


def test_what_it_stores_elsewhere_stays_there(module: Any) -> None:
    """Memory of Python is not the kernel's, though it has the address."""
    here = np.zeros(8, np.uint8)
    run_kernel("", "poke", (1, 1), np.zeros(1, np.int32), here.ctypes.data, options=APART, module=module)
    assert not here.any()


def test_registered_memory_is_refused(module: Any) -> None:
    """It is this process's alone: what a kernel stored to it would be lost."""

    async def main() -> None:
        device = atops.Device(0)
        async with device.create_stream() as stream:
            own = device.register(np.zeros(24, np.int32))
            await stream.launch(module.function("right"), (2, 12), own, stream.zeros(12))

    with pytest.raises(atops.errors.LaunchFailure, match="cannot reach"):
        atops.run(main, APART)


def test_an_abort_ends_it(module: Any) -> None:
    """In the middle of its loop."""

    async def main() -> Any:
        stream = atops.Device(0).create_stream()
        x = stream.upload(np.zeros(12, np.int32))
        await stream
        item = stream.launch(module.function("spin"), (1, 1), x)
        while item.state != "running":
            await asyncio.to_thread(bool)
        stream.abort()
        with pytest.raises(atops.errors.AtopsError):
            await item

    async def whole() -> None:
        async with Driver(APART):
            await asyncio.wait_for(main(), 60)

    asyncio.run(whole())
    check(module)
