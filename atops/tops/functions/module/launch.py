"""Launches of a kernel with all that they need in one call: TOPS Runtime API, 2.8 and 2.9.

gridDim counts blocks, blockDim threads. Arguments are taken at the call; what a pointer becomes, the kernel's
parameters say (`_launch_arguments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.runtime.stream import Stream
from atops.tops.bridge.call import call
from atops.tops.bridge.handles import live
from atops.tops.bridge.pointers import is_null
from atops.tops.functions.module.launch_arguments import arguments_in, arguments_of, extra_bytes
from atops.tops.functions.module.launching import LoadedFunction, function_of, geometry_of, start
from atops.tops.types.structs import dim3

__all__ = ("topsLaunchCooperativeKernel", "topsLaunchKernel", "topsModuleLaunchKernel")

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
    kernelParams: Sequence[Any] | None,
    extra: Sequence[Any] | None,
) -> None:
    """Launch a module's function, with arguments by `kernelParams` or by `extra`, which is (1, buffer, 2, size, 3).

    InvalidHandle: null or dead; InvalidDevice: the stream is of another device than the module; InvalidValue: both
    forms of arguments, arguments or dimensions that are wrong, too much shared memory.
    """
    function = live(f, LoadedFunction)
    grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
    geometry = geometry_of(grid, block, sharedMemBytes, stream)
    if is_null(extra):
        arguments = arguments_of(function.kernel, kernelParams)
    elif is_null(kernelParams):
        arguments = arguments_in(function.kernel, extra_bytes(extra))
    else:
        raise InvalidValue("kernelParams and extra are both given; one of them is right, and None for the other")
    start(function, geometry, arguments)


@call
def topsLaunchCooperativeKernel(
    f: Any, gridDim: Dims, blockDimX: Dims, kernelParams: Sequence[Any] | None, sharedMemBytes: int, stream: Handle
) -> None:
    """Launch a kernel, or the function of a handle, whose blocks start together and may wait for each other.

    CooperativeLaunchTooLarge: more blocks than clusters. InvalidDeviceFunction: `f` is null or no kernel; the rest as
    topsModuleLaunchKernel.
    """
    function = function_of(f)
    geometry = geometry_of(gridDim, blockDimX, sharedMemBytes, stream)
    start(function, geometry, arguments_of(function.kernel, kernelParams), cooperative=True)


@call.instead({Result.InvalidConfiguration: Result.InvalidConfiguration})
def topsLaunchKernel(
    function_address: Any,
    numBlocks: Dims,
    dimBlocks: Dims,
    args: Sequence[Any] | None,
    sharedMemBytes: int = 0,
    stream: Handle = 0,
) -> None:
    """Launch a kernel, or the function of a handle.

    InvalidConfiguration: a block has too many threads. InvalidDeviceFunction: `function_address` is null or no kernel;
    the rest as topsModuleLaunchKernel.
    """
    function = function_of(function_address)
    geometry = geometry_of(numBlocks, dimBlocks, sharedMemBytes, stream)
    arguments = arguments_of(function.kernel, args)
    start(function, geometry, arguments, too_large=Result.InvalidConfiguration)
