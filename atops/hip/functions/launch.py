"""Launches of kernels (004): by grid and by work-items, with events, and several at once, cooperative ones too.

Arguments are taken at the call, by `kernelParams`, one value for each parameter (or `byref` of it, or C's array of
pointers to them), or by `extra`: the values one after the other, as hip-python has it, a struct of them all, or C's
(HIP_LAUNCH_PARAM_BUFFER_POINTER, buffer, HIP_LAUNCH_PARAM_BUFFER_SIZE, size, HIP_LAUNCH_PARAM_END). What becomes of
them is as in `atops.tops.functions.launch`. A function is the handle of one of a module; where C takes the address of a
kernel, the kernel itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

import numpy as np

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.bridge.arguments import flags_in, instance, listed, size_of, whole
from atops.bridge.handles import event_of, usable_stream_of
from atops.bridge.pointers import is_null, pointed
from atops.hip.functions.api import call
from atops.hip.functions.host import REFERENCE, host_bytes_of, value_from
from atops.hip.header.constants import (
    HIP_LAUNCH_PARAM_BUFFER_POINTER,
    HIP_LAUNCH_PARAM_BUFFER_SIZE,
    HIP_LAUNCH_PARAM_END,
    hipCooperativeLaunchMultiDeviceNoPostSync,
    hipCooperativeLaunchMultiDeviceNoPreSync,
    hipExtAnyOrderLaunch,
)
from atops.hip.header.structs import dim3, hipFunctionLaunchParams, hipLaunchParams
from atops.runtime.core.event import Event
from atops.tops.functions.launch import (
    Geometry,
    LoadedFunction,
    arguments_at,
    arguments_in,
    arguments_of,
    function_of,
    geometry_of,
    start_launch,
    start_together,
)

__all__ = (
    "hipExtLaunchKernel", "hipExtLaunchMultiKernelMultiDevice", "hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel",
    "hipLaunchCooperativeKernel", "hipLaunchCooperativeKernelMultiDevice", "hipLaunchKernel",
    "hipModuleLaunchCooperativeKernel", "hipModuleLaunchCooperativeKernelMultiDevice", "hipModuleLaunchKernel",
)  # fmt: skip

Dims = dim3 | int | Sequence[int]
Values = Sequence[object] | None
KEYS: Final = [HIP_LAUNCH_PARAM_BUFFER_POINTER, HIP_LAUNCH_PARAM_BUFFER_SIZE, HIP_LAUNCH_PARAM_END]
SYNC_FLAGS: Final = hipCooperativeLaunchMultiDeviceNoPreSync | hipCooperativeLaunchMultiDeviceNoPostSync
MOST_LAUNCHES: Final = 1024


def _arguments(function: LoadedFunction, kernelParams: object, extra: object) -> list[object]:
    """Return what a launch passes."""
    if is_null(extra):
        return _values(function, kernelParams)
    if not is_null(kernelParams):
        raise InvalidValue("kernelParams and extra are both given; pass None for one of them")
    if isinstance(extra, ctypes.Array) and extra._type_ is ctypes.c_void_p and list(extra)[::2] == KEYS:
        extra = [each if at % 2 == 0 else ctypes.c_void_p(each) for at, each in enumerate(extra)]  # as C has it
    if isinstance(extra, tuple | list) and len(extra) == 5:
        keys = extra[::2]
        if list(keys) == KEYS and all(type(each) is int for each in keys):
            return arguments_in(function.kernel, _bytes_of(extra[1], extra[3]))
    extra = _referred(extra)
    match extra:
        case ctypes.Structure() as struct:
            return arguments_in(function.kernel, bytes(struct))
        case [ctypes.Structure() as struct] if len(function.kernel.parameters) > 1:
            return arguments_in(function.kernel, bytes(struct))  # hip-python packs values: a struct may be them all
    return _values(function, extra, "extra")


def _values(function: LoadedFunction, values: object, what: str = "kernelParams") -> list[object]:
    """Return what a launch passes for values, some of them by `byref`, or for C's array of pointers to them."""
    if isinstance(values, ctypes.Array) and values._type_ is ctypes.c_void_p:
        return arguments_at(function.kernel, [each or 0 for each in values])
    if isinstance(values, tuple | list):
        values = [_value(each) for each in values]
    return arguments_of(function.kernel, values, what)


def _value(value: object) -> object:
    """Return what `byref` refers to, and the address of an array of another library; other values as they are."""
    if (referred := _referred(value)) is not value:
        return referred
    return value if isinstance(value, ctypes.c_void_p) else pointed(value)


def _referred(value: object) -> object:
    """Return what `byref` refers to; other values as they are."""
    return value._obj if isinstance(value, REFERENCE) else value  # type: ignore[attr-defined]  # not in typeshed


def _bytes_of(buffer: object, size: object) -> bytes:
    """Return the bytes of C's form: `size` is a number, or points to a size_t; `buffer` is host memory of any kind."""
    if isinstance(size, REFERENCE | ctypes._Pointer | ctypes.c_void_p):
        nbytes = value_from(size, ctypes.sizeof(ctypes.c_size_t), "the size in extra")
    else:
        nbytes = size_of(size.value if isinstance(size, ctypes._SimpleCData) else size, "the size in extra")
    if isinstance(buffer, np.generic):
        buffer = np.asarray(buffer)  # its bytes; an integer of numpy is no address here
    return host_bytes_of(buffer, nbytes, "the buffer in extra").tobytes()[:nbytes] if nbytes else b""


def _function(f: object) -> LoadedFunction:
    """Return the function of a handle; a kernel stands for itself. Raises InvalidValue for null."""
    if is_null(f):
        raise InvalidValue("the function is null")
    return function_of(f)


def _event(event: object) -> Event | None:
    return None if is_null(event) else event_of(event)


@call.instead({Result.InvalidDeviceFunction: Result.InvalidValue})
def hipModuleLaunchKernel(
    f: int,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int,
    stream: int | None,
    kernelParams: Values,
    extra: Values,
) -> None:
    """Launch a function; the grid counts blocks.

    InvalidValue: null, both forms of arguments, wrong arguments or dimensions, too much shared memory.
    """
    function = _function(f)
    geometry = geometry_of(
        (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ), sharedMemBytes, stream
    )  # fmt: skip
    start_launch(function, geometry, _arguments(function, kernelParams, extra))


def _by_items(
    f: object, items: tuple[int, int, int], block: tuple[int, int, int], shared: int, stream: object,
    kernelParams: Values, extra: Values, startEvent: object, stopEvent: object,
) -> None:  # fmt: skip
    """Launch a function over so many work-items, which blocks must divide."""
    function = _function(f)
    blocks = []
    for axis, count, each in zip("XYZ", items, block, strict=True):
        total, size = whole(count, f"globalWorkSize{axis}"), whole(each, f"localWorkSize{axis}")
        if size < 1 or total < 1 or total % size:
            raise InvalidValue(f"globalWorkSize{axis} must be a multiple of localWorkSize{axis}, {size}, got {total}")
        blocks.append(total // size)
    geometry = geometry_of(tuple(blocks), block, shared, stream)
    arguments = _arguments(function, kernelParams, extra)
    start_launch(function, geometry, arguments, start=_event(startEvent), stop=_event(stopEvent))


@call.instead({Result.InvalidDeviceFunction: Result.InvalidValue})
def hipExtModuleLaunchKernel(
    f: int,
    globalWorkSizeX: int,
    globalWorkSizeY: int,
    globalWorkSizeZ: int,
    localWorkSizeX: int,
    localWorkSizeY: int,
    localWorkSizeZ: int,
    sharedMemBytes: int,
    hStream: int | None,
    kernelParams: Values,
    extra: Values,
    startEvent: int | None = None,
    stopEvent: int | None = None,
    flags: int = 0,
) -> None:
    """Launch a function over work-items; `startEvent` is stamped when the kernel begins, `stopEvent` at its end.

    The blocks are global / local work-items, which must divide. `flags` may have hipExtAnyOrderLaunch: a permission,
    which changes nothing. InvalidValue: null, other flags, sizes that do not divide, and as hipModuleLaunchKernel.
    """
    flags_in(flags, hipExtAnyOrderLaunch)
    items = globalWorkSizeX, globalWorkSizeY, globalWorkSizeZ
    block = localWorkSizeX, localWorkSizeY, localWorkSizeZ
    _by_items(f, items, block, sharedMemBytes, hStream, kernelParams, extra, startEvent, stopEvent)


@call.instead({Result.InvalidDeviceFunction: Result.InvalidValue})
def hipHccModuleLaunchKernel(
    f: int,
    globalWorkSizeX: int,
    globalWorkSizeY: int,
    globalWorkSizeZ: int,
    localWorkSizeX: int,
    localWorkSizeY: int,
    localWorkSizeZ: int,
    sharedMemBytes: int,
    hStream: int | None,
    kernelParams: Values,
    extra: Values,
    startEvent: int | None = None,
    stopEvent: int | None = None,
) -> None:
    """As hipExtModuleLaunchKernel, without flags. InvalidValue."""
    items = globalWorkSizeX, globalWorkSizeY, globalWorkSizeZ
    block = localWorkSizeX, localWorkSizeY, localWorkSizeZ
    _by_items(f, items, block, sharedMemBytes, hStream, kernelParams, extra, startEvent, stopEvent)


@call.instead({Result.InvalidConfiguration: Result.InvalidConfiguration})
def hipLaunchKernel(
    function_address: object, numBlocks: Dims, dimBlocks: Dims, args: Values, sharedMemBytes: int = 0,
    stream: int | None = 0,
) -> None:  # fmt: skip
    """Launch a kernel, or the function of a handle.

    InvalidConfiguration: a block has too many threads; InvalidDeviceFunction: null or not a kernel; InvalidValue as
    hipModuleLaunchKernel.
    """
    function = function_of(function_address)
    geometry = geometry_of(numBlocks, dimBlocks, sharedMemBytes, stream)
    start_launch(function, geometry, _values(function, args), too_large=Result.InvalidConfiguration)


@call.instead({Result.InvalidConfiguration: Result.InvalidConfiguration})
def hipExtLaunchKernel(
    function_address: object, numBlocks: Dims, dimBlocks: Dims, args: Values, sharedMemBytes: int, stream: int | None,
    startEvent: int | None, stopEvent: int | None, flags: int,
) -> None:  # fmt: skip
    """As hipLaunchKernel, with events and flags as hipExtModuleLaunchKernel.

    InvalidConfiguration; InvalidDeviceFunction; InvalidValue.
    """
    flags_in(flags, hipExtAnyOrderLaunch)
    function = function_of(function_address)
    geometry = geometry_of(numBlocks, dimBlocks, sharedMemBytes, stream)
    start_launch(
        function, geometry, _values(function, args), too_large=Result.InvalidConfiguration,
        start=_event(startEvent), stop=_event(stopEvent),
    )  # fmt: skip


# ---- cooperative launches


@call.instead({Result.InvalidDeviceFunction: Result.InvalidHandle, Result.InvalidDevice: Result.InvalidContext})
def hipModuleLaunchCooperativeKernel(
    f: int,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int,
    stream: int | None,
    kernelParams: Values,
) -> None:
    """Launch a function whose blocks start together and may wait for each other.

    CooperativeLaunchTooLarge: more blocks than clusters, or too much shared memory; LaunchOutOfResources: more threads
    than the stream's mask has SIPs; InvalidContext: the function was loaded on another device than the stream's;
    InvalidHandle: not a function, a dead stream; InvalidValue as hipModuleLaunchKernel; the fault of a stream that has
    failed.
    """
    function = function_of(f)
    geometry = geometry_of(
        (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ), sharedMemBytes, stream
    )  # fmt: skip
    start_launch(function, geometry, _values(function, kernelParams), cooperative=True)


@call.instead({Result.InvalidDeviceFunction: Result.InvalidValue})
def hipLaunchCooperativeKernel(
    f: object, gridDim: Dims, blockDimX: Dims, kernelParams: Values, sharedMemBytes: int, stream: int | None
) -> None:
    """As hipModuleLaunchCooperativeKernel, of a kernel or a handle. CooperativeLaunchTooLarge; InvalidValue."""
    function = function_of(f)
    geometry = geometry_of(gridDim, blockDimX, sharedMemBytes, stream)
    start_launch(function, geometry, _values(function, kernelParams), cooperative=True)


Prepared = tuple[LoadedFunction, Geometry, list[object]]
Params = hipLaunchParams | hipFunctionLaunchParams


def _prepared(launchParamsList: object, numDevices: int, kind: type[Params]) -> list[Prepared]:
    """Return the launches of a list, one for each device."""
    count = whole(numDevices, "numDevices")
    if count < 1:
        raise InvalidValue(f"numDevices must be 1 or more, got {count}")
    listed_ = [launchParamsList] if isinstance(launchParamsList, kind) else launchParamsList
    made, devices = [], set()
    for each in listed(listed_, count, "launchParamsList", MOST_LAUNCHES):
        given: Params = instance(each, kind, "one of launchParamsList")
        if isinstance(given, hipLaunchParams):
            function = _function(pointed(given.func))
            geometry = geometry_of(given.gridDim, given.blockDim, given.sharedMem, pointed(given.stream))
            arguments = _values(function, given.args)
        else:
            function = _function(pointed(given.function))
            geometry = geometry_of(
                (given.gridDimX, given.gridDimY, given.gridDimZ), (given.blockDimX, given.blockDimY, given.blockDimZ),
                given.sharedMemBytes, pointed(given.hStream),
            )  # fmt: skip
            arguments = _values(function, given.kernelParams)
        if is_null(geometry.stream):
            raise InvalidValue("a launch on several devices needs a stream of its own for each; got the null stream")
        devices.add(usable_stream_of(geometry.stream).device_id)
        made.append((function, geometry, arguments))
    if len(devices) < len(made):
        raise InvalidValue(f"{len(made)} launches on {len(devices)} devices; expected one for each device")
    return made


def _alike(prepared: list[Prepared]) -> list[Prepared]:
    """Return the launches of a cooperative call: one kernel, by one geometry. Raises InvalidValue for others."""
    launches = [(function.kernel.name, *geometry[:3]) for function, geometry, _ in prepared]
    for name, grid, block, shared in launches:
        if (name, grid, block, shared) != launches[0]:
            raise InvalidValue(
                f"all devices must get the same kernel, extents and shared memory, got {launches[0][0]} with "
                f"{launches[0][1:]} and {name} with {(grid, block, shared)}"
            )
    return prepared


@call.instead({Result.InvalidDeviceFunction: Result.InvalidValue, Result.InvalidDevice: Result.InvalidContext})
def hipModuleLaunchCooperativeKernelMultiDevice(
    launchParamsList: Sequence[hipFunctionLaunchParams], numDevices: int, flags: int
) -> None:
    """Launch functions on several devices, all blocks of which start together and may wait for each other.

    `flags` may have the two bits that leave a synchronisation out; streams keep their order in any case.
    Codes as hipModuleLaunchCooperativeKernel; InvalidValue, too: not such a list, two of one device, a null stream,
    different kernels, extents or shared memory.
    """
    flags_in(flags, SYNC_FLAGS)
    start_together(_alike(_prepared(launchParamsList, numDevices, hipFunctionLaunchParams)), cooperative=True)


@call.instead({Result.InvalidDeviceFunction: Result.InvalidValue})
def hipLaunchCooperativeKernelMultiDevice(
    launchParamsList: Sequence[hipLaunchParams], numDevices: int, flags: int
) -> None:
    """As hipModuleLaunchCooperativeKernelMultiDevice, of kernels or handles.

    CooperativeLaunchTooLarge; InvalidValue.
    """
    flags_in(flags, SYNC_FLAGS)
    start_together(_alike(_prepared(launchParamsList, numDevices, hipLaunchParams)), cooperative=True)


@call.instead({Result.InvalidDeviceFunction: Result.InvalidValue})
def hipExtLaunchMultiKernelMultiDevice(
    launchParamsList: Sequence[hipLaunchParams], numDevices: int, flags: int
) -> None:
    """Launch kernels on several devices at once: nothing of another thread comes between.

    InvalidValue: not such a list, two of one device, a null stream, other flags.
    """
    flags_in(flags, SYNC_FLAGS)
    start_together(_prepared(launchParamsList, numDevices, hipLaunchParams), cooperative=False)
