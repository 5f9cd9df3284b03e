"""The language that kernels are written in: `from atops import kernels as k`. TOPS C++ in Python.

    @k.kernel                   a function that runs in every thread of a launch; `async def` where it can be suspended
    k.device                    functions that only kernels call
    k.threadIdx, k.tiles(...)   where a thread stands, and its share of the work
    k.local, k.shared           memory in L1 and L2; global memory arrives as k.Span
    k.dte_scope(), k.memcpy     data moved by the DTE, at once or `_async` with an event to await
    await k.syncthreads()       barriers; each point where a thread can be suspended is an `await`

It stands on the chip alone: whoever launches a kernel knows the language, the language knows no stream.
"""

from __future__ import annotations

from atops.device.span import Space, Span
from atops.kernels.bound import BoundKernel
from atops.kernels.definition import Kernel, cooperative, kernel
from atops.kernels.device_function import device
from atops.kernels.dte import (
    dte_scope,
    event,
    shared_dte_ctx,
    tops_destroy_dte,
    tops_dte_ctx_t,
    tops_init_dte,
    wait,
)
from atops.kernels.dte_operations import (
    broadcast,
    broadcast_async,
    deslice,
    deslice_async,
    memcpy,
    memcpy_async,
    memset,
    memset_async,
    mirror_lr,
    mirror_lr_async,
    mirror_tb,
    mirror_tb_async,
    pad,
    pad_async,
    slice,
    slice_async,
    slice_transpose,
    slice_transpose_async,
    transpose,
    transpose_async,
    transpose_deslice,
    transpose_deslice_async,
)
from atops.kernels.index import blockDim, blockIdx, gridDim, thread_count, thread_id, threadIdx, tiles
from atops.kernels.launch_config import LaunchConfig
from atops.kernels.memory import Global, Local, Shared, dynamic_shared, local, mdspan, shared
from atops.kernels.sync import (
    BarrierScope,
    CountedBarrier,
    __syncblocks,
    __syncthreads,
    barrier,
    syncblocks,
    syncthreads,
)

__all__ = (
    "BarrierScope",
    "BoundKernel",
    "CountedBarrier",
    "Global",
    "Kernel",
    "LaunchConfig",
    "Local",
    "Shared",
    "Space",
    "Span",
    "__syncblocks",
    "__syncthreads",
    "barrier",
    "blockDim",
    "blockIdx",
    "broadcast",
    "broadcast_async",
    "cooperative",
    "deslice",
    "deslice_async",
    "device",
    "dte_scope",
    "dynamic_shared",
    "event",
    "gridDim",
    "kernel",
    "local",
    "mdspan",
    "memcpy",
    "memcpy_async",
    "memset",
    "memset_async",
    "mirror_lr",
    "mirror_lr_async",
    "mirror_tb",
    "mirror_tb_async",
    "pad",
    "pad_async",
    "shared",
    "shared_dte_ctx",
    "slice",
    "slice_async",
    "slice_transpose",
    "slice_transpose_async",
    "syncblocks",
    "syncthreads",
    "threadIdx",
    "thread_count",
    "thread_id",
    "tiles",
    "tops_destroy_dte",
    "tops_dte_ctx_t",
    "tops_init_dte",
    "transpose",
    "transpose_async",
    "transpose_deslice",
    "transpose_deslice_async",
    "wait",
)
