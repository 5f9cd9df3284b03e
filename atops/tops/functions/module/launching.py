"""Functions that can be launched, and the launch that all C-style calls share: TOPS Runtime API, 2.8 and 2.9."""

from __future__ import annotations

from typing import Any, NamedTuple

from atops.base.dims import Dim3
from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.device.arch import Architecture
from atops.kernels.kernel import Kernel
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.board.context import DeviceContext
from atops.runtime.stream import Stream
from atops.tops.bridge.arguments import dims_of, size_of
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.handles import live, usable_stream_of
from atops.tops.bridge.pointers import is_null

__all__ = ("Geometry", "LoadedFunction", "function_of", "geometry_of", "is_too_large", "start", "stream_for")

MOST_THREADS = 1 << 32


class LoadedFunction:
    """A kernel as a function handle stands for it: of a module, on the device that loaded it.

    A kernel of the program itself, the counterpart of a C++ stub function, belongs to no device: `context` is None.
    """

    __slots__ = ("__weakref__", "context", "kernel")

    def __init__(self, kernel: Kernel, context: DeviceContext | None) -> None:
        self.kernel = kernel
        self.context = context

    def __repr__(self) -> str:
        return f"<function {self.kernel.name}>"


class Geometry(NamedTuple):
    """What a launch is configured with, checked as far as no device matters; `stream` is a handle."""

    grid: Dim3
    block: Dim3
    shared: int
    stream: Any


def function_of(func: Any) -> LoadedFunction:
    """Return what a `const void*` function is: a kernel itself, or the handle of a module's.

    Raises CodeError InvalidDeviceFunction for null and for what is neither, InvalidHandle for a dead handle.
    """
    if isinstance(func, Kernel):
        return LoadedFunction(func, None)
    if is_null(func) or isinstance(func, bool) or not hasattr(func, "__index__"):
        raise CodeError(
            Result.InvalidDeviceFunction, f"the function is {func!r}; a kernel, or the handle of one, is right"
        )
    return live(func, LoadedFunction)


def geometry_of(grid: Any, block: Any, shared: Any, stream: Any) -> Geometry:
    """Return the geometry of a launch: `grid` counts blocks, `block` threads, `shared` bytes.

    Raises InvalidType, InvalidValue for extents below 1 or whose product in one dimension is 2**32 or more.
    """
    blocks, threads = dims_of(grid, "gridDim"), dims_of(block, "blockDim")
    for axis, count, each in zip("xyz", blocks, threads, strict=True):
        if count * each >= MOST_THREADS:
            raise InvalidValue(f"gridDim.{axis} * blockDim.{axis} is {count * each}; below 2**32 is right")
    return Geometry(blocks, threads, size_of(shared, "sharedMemBytes"), stream)


def is_too_large(block: Dim3, arch: Architecture) -> bool:
    """Return whether a block has more threads than the architecture's, in all or in one dimension."""
    return block.volume > arch.max_threads_per_block or any(
        extent > most for extent, most in zip(block, arch.max_block, strict=True)
    )


def start(
    function: LoadedFunction,
    geometry: Geometry,
    arguments: list[Any],
    cooperative: bool | None = None,
    too_large: Result = Result.InvalidValue,
) -> None:
    """Enqueue a launch; `too_large` is the code of a block with too many threads.

    Raises InvalidHandle for the stream, or what has poisoned it; CodeError InvalidDevice where the function's module
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
    """Return the stream of a launch, once it is clear that its device can have the geometry. Raises as `start`."""
    kernel = function.kernel
    stream = usable_stream_of(geometry.stream)
    if function.context is not None and function.context is not stream.context:
        raise CodeError(
            Result.InvalidDevice,
            f"{kernel.name} was loaded on device {function.context.ordinal}; the stream is of device "
            f"{stream.context.ordinal}",
        )
    arch, resources = stream.context.arch, stream.context.resources
    if resources is not None:
        arch = resources.geometry
    if is_too_large(geometry.block, arch):
        raise CodeError(
            too_large,
            f"{kernel.name}: blockDim is {tuple(geometry.block)}; {arch.name} has {tuple(arch.max_block)} and "
            f"{arch.max_threads_per_block} threads at most",
        )
    if geometry.shared > arch.l2_usable:
        raise InvalidValue(f"{kernel.name}: sharedMemBytes is {geometry.shared}; {arch.name} has {arch.l2_usable}")
    return stream
