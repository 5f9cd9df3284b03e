"""Launches of a kernel with all that they need in one call: TOPS Runtime API, 2.8 and 2.9.

gridDim counts blocks, blockDim threads. Arguments are taken at the call; what a pointer becomes, the kernel's
parameters say (`launch_arguments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from atops.base.dims import Dim3
from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.device.arch import Architecture
from atops.kernels.kernel import Kernel
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.board.context import DeviceContext
from atops.runtime.stream import Stream
from atops.tops.bridge.arguments import dims_of, size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.handles import live, usable_stream_of
from atops.tops.bridge.pointers import is_null
from atops.tops.functions.module.launch_arguments import arguments_in, arguments_of, extra_bytes
from atops.tops.types.structs import dim3

__all__ = (
    "Geometry", "LoadedFunction", "function_of", "geometry_of", "is_too_large", "start", "stream_for",
    "topsLaunchCooperativeKernel", "topsLaunchKernel", "topsModuleLaunchKernel",
)  # fmt: skip

Dims = dim3 | int | Sequence[int]
Handle = Stream | int | None


@call
def topsModuleLaunchKernel(
    f: int,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int,
    stream: Handle,
    kernelParams: Sequence[object] | None,
    extra: Sequence[object] | None,
) -> None:
    """Launch a module's function, with arguments by `kernelParams` or by `extra`, which is (1, buffer, 2, size, 3).

    InvalidHandle: null or dead; InvalidDevice: the stream is of another device than the module; InvalidValue: both
    forms of arguments, wrong arguments or dimensions, too much shared memory.
    """
    function = live(f, LoadedFunction)
    grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
    geometry = geometry_of(grid, block, sharedMemBytes, stream)
    if is_null(extra):
        arguments = arguments_of(function.kernel, kernelParams)
    elif is_null(kernelParams):
        arguments = arguments_in(function.kernel, extra_bytes(extra))
    else:
        raise InvalidValue("kernelParams and extra are both given; pass None for one of them")
    start(function, geometry, arguments)


@call
def topsLaunchCooperativeKernel(
    f: object,
    gridDim: Dims,
    blockDimX: Dims,
    kernelParams: Sequence[object] | None,
    sharedMemBytes: int,
    stream: Handle,
) -> None:
    """Launch a kernel, or the function of a handle, whose blocks start together and may wait for each other.

    CooperativeLaunchTooLarge: more blocks than clusters. InvalidDeviceFunction: `f` is null or not a kernel; the rest
    as topsModuleLaunchKernel.
    """
    function = function_of(f)
    geometry = geometry_of(gridDim, blockDimX, sharedMemBytes, stream)
    start(function, geometry, arguments_of(function.kernel, kernelParams), cooperative=True)


@call.instead({Result.InvalidConfiguration: Result.InvalidConfiguration})
def topsLaunchKernel(
    function_address: object,
    numBlocks: Dims,
    dimBlocks: Dims,
    args: Sequence[object] | None,
    sharedMemBytes: int = 0,
    stream: Handle = 0,
) -> None:
    """Launch a kernel, or the function of a handle.

    InvalidConfiguration: a block has too many threads. InvalidDeviceFunction: `function_address` is null or not a
    kernel; the rest as topsModuleLaunchKernel.
    """
    function = function_of(function_address)
    geometry = geometry_of(numBlocks, dimBlocks, sharedMemBytes, stream)
    arguments = arguments_of(function.kernel, args)
    start(function, geometry, arguments, too_large=Result.InvalidConfiguration)


MOST_THREADS = 1 << 32


class LoadedFunction:
    """The kernel behind a function handle: of a module, on the device that loaded it.

    A kernel of the program itself, the counterpart of a C++ stub function, belongs to no device: `context` is None.
    """

    __slots__ = ("__weakref__", "context", "kernel")

    def __init__(self, kernel: Kernel, context: DeviceContext | None) -> None:
        self.kernel = kernel
        self.context = context

    def __repr__(self) -> str:
        return f"<function {self.kernel.name}>"


class Geometry(NamedTuple):
    """The configuration of a launch, checked as far as that needs no device; `stream` is a handle."""

    grid: Dim3
    block: Dim3
    shared: int
    stream: object


def function_of(func: object) -> LoadedFunction:
    """Return the function that a kernel, or the handle of a module's kernel, stands for.

    Raises CodeError InvalidDeviceFunction for null and other arguments, InvalidHandle for a dead handle.
    """
    if isinstance(func, Kernel):
        return LoadedFunction(func, None)
    if is_null(func) or isinstance(func, bool) or not hasattr(func, "__index__"):
        raise CodeError(Result.InvalidDeviceFunction, f"expected a kernel, or the handle of one, got {func!r}")
    return live(func, LoadedFunction)


def geometry_of(grid: object, block: object, shared: object, stream: object) -> Geometry:
    """Return the geometry of a launch: `grid` counts blocks, `block` threads, `shared` bytes.

    Raises InvalidType, InvalidValue for extents below 1 or whose product in one dimension is 2**32 or more.
    """
    blocks, threads = dims_of(grid, "gridDim"), dims_of(block, "blockDim")
    for axis, count, each in zip("xyz", blocks, threads, strict=True):
        if count * each >= MOST_THREADS:
            raise InvalidValue(f"gridDim.{axis} * blockDim.{axis} must be below 2**32, got {count * each}")
    return Geometry(blocks, threads, size_of(shared, "sharedMemBytes"), stream)


def is_too_large(block: Dim3, arch: Architecture) -> bool:
    """Return whether a block has more threads than the architecture's, in all or in one dimension."""
    return block.volume > arch.max_threads_per_block or any(
        extent > most for extent, most in zip(block, arch.max_block, strict=True)
    )


def start(
    function: LoadedFunction,
    geometry: Geometry,
    arguments: list[object],
    cooperative: bool | None = None,
    too_large: Result = Result.InvalidValue,
) -> None:
    """Enqueue a launch; `too_large` is the code of a block with too many threads.

    Raises InvalidHandle for the stream, or its failure; CodeError InvalidDevice where the function's module
    was loaded on another device than the stream's; InvalidValue for what the device cannot have; NotSupported where
    the kernel is compiled for another chip; CooperativeLaunchTooLarge.
    """
    kernel = function.kernel
    stream = stream_for(function, geometry, too_large)
    config = LaunchConfig(geometry.grid, geometry.block, geometry.shared)
    split = len(kernel.parameters) - len(kernel.keyword_only)  # which come last
    named = dict(zip(list(kernel.parameters)[split:], arguments[split:], strict=False))
    stream.submit(stream.prepare_launch(kernel, config, tuple(arguments[:split]), named, None, cooperative))


def stream_for(function: LoadedFunction, geometry: Geometry, too_large: Result = Result.InvalidValue) -> Stream:
    """Return the stream of a launch whose geometry its device can have. Raises as `start` does."""
    kernel = function.kernel
    stream = usable_stream_of(geometry.stream)
    if function.context is not None and function.context is not stream.context:
        raise CodeError(
            Result.InvalidDevice,
            f"cannot launch {kernel.name}, loaded on device {function.context.ordinal}, in a stream of device "
            f"{stream.context.ordinal}",
        )
    arch, resources = stream.context.arch, stream.context.resources
    if resources is not None:
        arch = resources.geometry
    if is_too_large(geometry.block, arch):
        raise CodeError(
            too_large,
            f"{kernel.name}: blockDim must be within {tuple(arch.max_block)} and {arch.max_threads_per_block} threads "
            f"on {arch.name}, got {tuple(geometry.block)}",
        )
    if geometry.shared > arch.l2_usable:
        most = f"{arch.l2_usable} on {arch.name}"
        raise InvalidValue(f"{kernel.name}: sharedMemBytes must be at most {most}, got {geometry.shared}")
    return stream
