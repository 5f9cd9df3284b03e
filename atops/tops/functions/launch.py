"""Launches of kernels: in one call (TOPS Runtime API, 2.8, 2.9), in steps (2.9), one grid of several kernels (2.11).

gridDim counts blocks, blockDim threads. Arguments are taken at the call: values by position, or one buffer in which
each lies at its natural alignment. A pointer is an int. The kernel's parameter says what it becomes; the value is never
used to guess:

- `x: k.Span` gets the memory from the pointer to the end of its allocation, as bytes (uint8);
- `x: k.Span[np.float32]` and `x: k.restrict[np.float32]` get the same memory as elements of that type, which is
  `float* x`; bytes behind the last whole element are left out;
- an element type gets a number; a parameter without a type gets a number too, and refuses the address of live memory,
  unless that comes as `ctypes.c_void_p`.

A numpy array in pinned or registered memory stands for its own pointer, and so does a registered buffer. Arrays,
buffers and symbols of the object API keep their own type and shape.

Compilers make steps of `kernel<<<...>>>(...)`: configure, set up arguments, launch. Configurations form a stack, which
nests. Each thread has one of its own, and so has each task.
"""

from __future__ import annotations

import ctypes
import operator
import threading
from collections.abc import Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Final, NamedTuple
from weakref import ref

import numpy as np

from atops.base.dims import Dim3
from atops.base.errors import AtopsError, CooperativeLaunchTooLarge, InvalidType, InvalidValue, NotSupported
from atops.base.result_codes import Result
from atops.bridge.arguments import dims_of, instance, listed, size_of, whole
from atops.bridge.codes import CodeError
from atops.bridge.handles import live, stream_of, usable_stream_of
from atops.bridge.last_error import running_task
from atops.bridge.pointers import bytes_at, contents, host_address, host_view, is_null, memory_from, pinned_at
from atops.kernels.arguments import Parameter
from atops.kernels.bound import BlockKernel, BlockKernels, BoundKernel, Segment
from atops.kernels.kernel import Kernel
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.board.context import DeviceContext
from atops.runtime.commands.launch import Launch, LaunchOptions
from atops.runtime.cooperative_launch import launch_together
from atops.runtime.core.event import Event
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.scatter import Scattered
from atops.runtime.owning_queue import OwningQueue
from atops.runtime.stream import Stream, queue_of
from atops.runtime.stream_work import bound_events, prepare_launch, submit_launch
from atops.tops.functions.api import call
from atops.tops.header.constants import (
    TOPS_LAUNCH_PARAM_BUFFER_POINTER,
    TOPS_LAUNCH_PARAM_BUFFER_SIZE,
    TOPS_LAUNCH_PARAM_END,
)
from atops.tops.header.structs import dim3, topsExtLaunchParams_t, topsKernelDescriptor_t

__all__ = (
    "Geometry", "LoadedFunction", "__topsPopCallConfiguration", "__topsPushCallConfiguration", "arguments_at",
    "arguments_in", "arguments_of", "extra_bytes", "function_of", "geometry_of", "places_of", "start_launch",
    "start_together", "topsConfigureCall", "topsExtLaunchCooperativeKernelMultiCluster", "topsLaunchByPtr",
    "topsLaunchCooperativeKernel", "topsLaunchKernel", "topsModuleLaunchKernel", "topsSetupArgument",
)  # fmt: skip

# ---- launches in one call (2.8, 2.9)

Dims = dim3 | int | Sequence[int]
Handle = Stream | int | None
MOST_THREADS: Final = 1 << 32


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

    InvalidHandle: dead; InvalidDevice: the stream is of another device than the module; InvalidValue: null, both forms
    of arguments, wrong arguments or dimensions, too much shared memory.
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
    start_launch(function, geometry, arguments)


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

    CooperativeLaunchTooLarge: more blocks than clusters, or too much shared memory. InvalidDeviceFunction: `f` is null
    or not a kernel; the rest as topsModuleLaunchKernel.
    """
    function = function_of(f)
    geometry = geometry_of(gridDim, blockDimX, sharedMemBytes, stream)
    start_launch(function, geometry, arguments_of(function.kernel, kernelParams), cooperative=True)


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
    start_launch(function, geometry, arguments, too_large=Result.InvalidConfiguration)


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


def start_launch(
    function: LoadedFunction,
    geometry: Geometry,
    arguments: list[object],
    cooperative: bool | None = None,
    too_large: Result = Result.InvalidValue,
    start: Event | None = None,
    stop: Event | None = None,
) -> None:
    """Enqueue a launch; `too_large` is the code of a block with too many threads, the events are bound to it.

    Raises InvalidHandle for the stream, or its failure; CodeError InvalidDevice where the function's module
    was loaded on another device than the stream's; InvalidValue for what the device cannot have; NotSupported where
    the kernel is compiled for another chip; CooperativeLaunchTooLarge.
    """
    kernel = function.kernel
    queue = _queue_for(function, geometry, too_large, cooperative)
    options, events = bound_events(queue, start, stop)
    launch = prepare_launch(queue, kernel, geometry[:3], *_split(kernel, arguments), None, cooperative, options)
    queue.keep(submit_launch(queue, launch, events), launch.bound.allocations)


def start_together(launches: Sequence[tuple[LoadedFunction, Geometry, list[object]]], cooperative: bool) -> None:
    """Enqueue launches on several streams in one submission; `cooperative` ones start together. Raises as one does."""
    for function, geometry, _ in launches:
        _queue_for(function, geometry, cooperative=cooperative)
    entries = []
    for function, geometry, arguments in launches:
        entries.append((usable_stream_of(geometry.stream), function.kernel, geometry[:3], *arguments))
    launch_together(entries, cooperative=cooperative)


def _split(kernel: Kernel, arguments: list[object]) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments by position and by name. Parameters that are keyword-only come last."""
    if not kernel.keyword_only:
        return tuple(arguments), {}
    split = len(kernel.parameters) - len(kernel.keyword_only)
    named = dict(zip(list(kernel.parameters)[split:], arguments[split:], strict=False))
    return tuple(arguments[:split]), named


def _queue_for(
    function: LoadedFunction, geometry: Geometry, too_large: Result = Result.InvalidValue,
    cooperative: bool | None = None,
) -> OwningQueue:  # fmt: skip
    """Return the queue of a launch whose geometry its device can have. Raises as `start_launch` does."""
    kernel = function.kernel
    queue = queue_of(usable_stream_of(geometry.stream))
    if function.context is not None and function.context is not queue.context:
        raise CodeError(
            Result.InvalidDevice,
            f"cannot launch {kernel.name}, loaded on device {function.context.ordinal}, in a stream of device "
            f"{queue.context.ordinal}",
        )
    arch, resources = queue.context.arch, queue.context.resources
    if resources is not None:
        arch = resources.geometry
    block = geometry.block
    if block.volume > arch.max_threads_per_block or any(map(operator.gt, block, arch.max_block)):
        raise CodeError(
            too_large,
            f"{kernel.name}: blockDim must be within {tuple(arch.max_block)} and {arch.max_threads_per_block} threads "
            f"on {arch.name}, got {tuple(block)}",
        )
    if geometry.shared > arch.l2_usable:
        most = f"{arch.l2_usable} on {arch.name}"
        error = CooperativeLaunchTooLarge if cooperative or kernel.cooperative else InvalidValue
        raise error(f"{kernel.name}: sharedMemBytes must be at most {most}, got {geometry.shared}")
    return queue


# ---- arguments

KEYS: Final = (TOPS_LAUNCH_PARAM_BUFFER_POINTER, TOPS_LAUNCH_PARAM_BUFFER_SIZE, TOPS_LAUNCH_PARAM_END)
POINTER: Final = np.dtype(np.uint64)
# The types of Python's own numbers in a buffer.
PLAIN: Final[dict[type, np.dtype[Any]]] = {
    int: np.dtype(np.int64), float: np.dtype(np.float64), bool: np.dtype(np.bool_),
}  # fmt: skip


class _ParameterPlace(NamedTuple):
    """Where a parameter lies in a buffer of arguments, and the type of its bytes there."""

    parameter: Parameter
    offset: int
    type: np.dtype[Any]


def arguments_of(kernel: Kernel, values: object, what: str = "kernelParams") -> list[object]:
    """Return what a launch passes for `kernelParams`: one value for each parameter, in order; none for null.

    A value is a number, a numpy or ctypes scalar, an array of one element, a pointer, or memory of the object API. It
    is taken now. Raises InvalidType, InvalidValue, CodeError InvalidDevicePointer.
    """
    if is_null(values):
        return []
    given, parameters = listed(values, None, what), list(kernel.parameters.values())
    if len(given) > len(parameters):
        raise InvalidType(f"kernel {kernel.name} has {len(parameters)} parameters, got {len(given)} values")
    return [_argument(each, value) for each, value in zip(parameters, given, strict=False)]


def _argument(parameter: Parameter, value: object) -> object:
    pointer = parameter.memory
    if isinstance(value, ctypes.c_void_p):
        pointer, value = pointer or parameter.dtype is None, value.value or 0
    elif isinstance(value, ctypes._SimpleCData):
        value = value.value
        if isinstance(value, bytes) and isinstance(parameter.dtype, np.dtype) and parameter.dtype.itemsize == 1:
            value = np.frombuffer(value, parameter.dtype)[0]
    elif isinstance(value, np.ndarray):
        if parameter.dtype is None and pinned_at(host_address(value)) is not None:
            pointer = True
        elif value.size == 1:
            value = value.reshape(1)[0]
    if pointer:
        return _memory(parameter, value)
    if parameter.dtype is None and isinstance(value, int | np.integer) and _is_address(int(value)):
        raise InvalidValue(
            f"kernel {parameter.kernel}: parameter {parameter.name} has no type and got {int(value):#x}, an address; "
            f"annotate it ({parameter.name}: k.Span, or k.Span[np.float32]; np.uint64 for a number), or pass a "
            "ctypes.c_void_p"
        )
    return value


def _memory(parameter: Parameter, pointer: object) -> object:
    if type(pointer) is Buffer:
        found = pointer
    elif hasattr(pointer, "__kernel_argument__"):
        return pointer
    else:
        found = memory_from(pointer, f"kernel {parameter.kernel}: parameter {parameter.name}")
    elements = parameter.elements or np.dtype(np.uint8)
    return found[: found.nbytes // elements.itemsize * elements.itemsize].view(elements)


def _is_address(value: int) -> bool:
    try:
        memory_from(value)
    except AtopsError:
        return False
    return True


def places_of(kernel: Kernel) -> tuple[list[_ParameterPlace], int, int]:
    """Return where each parameter lies in a buffer, where the last one ends, and that rounded up as sizeof does.

    A pointer has 8 bytes, Python's int and float have 8 and bool has 1. Raises InvalidValue for a parameter without a
    type, because its size is not known.
    """
    places: list[_ParameterPlace] = []
    end, widest = 0, 1
    for each in kernel.parameters.values():
        type_ = _type_in_buffer(each)
        offset = end + -end % type_.alignment
        places.append(_ParameterPlace(each, offset, type_))
        end, widest = offset + type_.itemsize, max(widest, type_.alignment)
    return places, end, end + -end % widest


def _type_in_buffer(parameter: Parameter) -> np.dtype[Any]:
    if parameter.memory:
        return POINTER
    if parameter.dtype is None:
        raise InvalidValue(
            f"kernel {parameter.kernel}: parameter {parameter.name} has no type, so its place in a buffer is not "
            "known; annotate it, or use kernelParams"
        )
    return PLAIN[parameter.dtype] if isinstance(parameter.dtype, type) else parameter.dtype


def arguments_in(kernel: Kernel, data: bytes) -> list[object]:
    """Return what a launch passes for a buffer of arguments. Raises InvalidValue for one of another size."""
    places, end, size = places_of(kernel)
    if not end <= len(data) <= size:
        expected = f"{end}" if end == size else f"{end} to {size}"
        raise InvalidValue(f"kernel {kernel.name}: the arguments need a buffer of {expected} bytes, got {len(data)}")
    return [_argument(each.parameter, _read(data, each)) for each in places]


def arguments_at(kernel: Kernel, addresses: Sequence[int]) -> list[object]:
    """Return what a launch passes for host addresses, one of each argument. Raises InvalidValue."""
    places, end, _ = places_of(kernel)
    if len(addresses) < len(places):
        raise InvalidValue(f"kernel {kernel.name} needs {len(places)} arguments, got {len(addresses)} pointers to them")
    data = bytearray(end)
    for place, address in zip(places, addresses, strict=False):
        size = place.type.itemsize
        data[place.offset : place.offset + size] = bytes_at(address, size).tobytes()
    return arguments_in(kernel, bytes(data))


def _read(data: bytes, place: _ParameterPlace) -> object:
    if place.type.kind == "b":
        return bool(data[place.offset])
    value = np.frombuffer(data, place.type, 1, place.offset)[0]
    return int(value) if place.parameter.memory else value


def extra_bytes(extra: object) -> bytes:
    """Return the bytes of (1, buffer, 2, size, 3), copied. Raises InvalidType, InvalidValue for any other form."""
    if not isinstance(extra, tuple | list) or len(extra) != 5:
        raise InvalidType(f"extra must be (1, buffer, 2, size, 3), got {extra!r}")
    if tuple(each if type(each) is int else None for each in extra[::2]) != KEYS:
        raise InvalidValue(f"extra must have the keys 1 (pointer), 2 (size) and 3 (end), got {list(extra[::2])}")
    size = extra[3].value if isinstance(extra[3], ctypes._SimpleCData) else extra[3]
    return _bytes_at(extra[1], size_of(size, "the size in extra"), "the buffer in extra")


def _bytes_at(pointer: object, size: int, what: str) -> bytes:
    """Return a copy of `size` bytes in host memory: of a buffer, an array, a scalar, or at a pinned host pointer.

    Raises InvalidType for other types, InvalidValue for too few bytes and for unknown pointers.
    """
    if type(pointer) is int:
        return host_view(pointer, size).tobytes()
    if isinstance(pointer, np.ndarray | np.generic):
        data, whole = pointer.tobytes(), pointer.flags.c_contiguous
    else:
        try:
            view = memoryview(pointer)  # type: ignore[arg-type]  # TypeError is the answer
        except TypeError:
            raise InvalidType(f"{what} must be a buffer, an array or a pinned host pointer, got {pointer!r}") from None
        data, whole = view.tobytes(), view.c_contiguous
    if not whole:
        raise InvalidValue(f"{what} must be a contiguous array, got one with gaps")
    if size > len(data):
        raise InvalidValue(f"{what} must have {size} bytes, got {len(data)}")
    return data[:size]


# ---- launches in steps (2.9)

MOST_BYTES: Final = 4096  # of arguments


class _Configured(NamedTuple):
    """A launch that is being configured: its geometry, and the bytes set up so far, each piece with its offset."""

    geometry: Geometry
    pieces: tuple[tuple[int, bytes], ...] = ()


class _Stack(NamedTuple):
    """The configurations of one task or thread. A new task copies its parent's context, but has none of these."""

    owner: ref[Any]
    configured: tuple[_Configured, ...]


STACK: ContextVar[_Stack | None] = ContextVar("atops_tops_launch_configurations", default=None)


@call
def topsConfigureCall(gridDim: Dims, blockDim: Dims, sharedMem: int = 0, stream: Handle = 0) -> None:
    """Push the configuration of the next launch. InvalidValue: wrong dimensions or sizes; InvalidHandle."""
    _push(gridDim, blockDim, sharedMem, stream)


@call
def __topsPushCallConfiguration(gridDim: Dims, blockDim: Dims, sharedMem: int = 0, stream: Handle = 0) -> None:
    """Push the configuration of a launch, as topsConfigureCall does. InvalidValue; InvalidHandle."""
    _push(gridDim, blockDim, sharedMem, stream)


@call
def __topsPopCallConfiguration() -> tuple[dim3, dim3, int, object]:
    """Pop the newest configuration: grid, block, bytes of shared memory, stream. MissingConfiguration: none."""
    geometry = _pop().geometry
    return dim3(*geometry.grid), dim3(*geometry.block), geometry.shared, geometry.stream


@call
def topsSetupArgument(arg: object, size: int, offset: int) -> None:
    """Copy an argument of `size` bytes to `offset` of the argument stack of the newest configuration.

    `arg` is a buffer, an array, a scalar of numpy or ctypes, or a pinned host pointer. InvalidValue: not memory, a size
    of 0, or an end beyond 4096 bytes. MissingConfiguration: nothing is configured.
    """
    length, start_ = size_of(size, "size"), size_of(offset, "offset")
    if not length or start_ + length > MOST_BYTES:
        raise InvalidValue(f"an argument must have 1 byte or more within {MOST_BYTES}, got {length} at offset {start_}")
    piece = start_, _bytes_at(arg, length, "arg")
    *rest, newest = _configured()
    _store(*rest, newest._replace(pieces=(*newest.pieces, piece)))


@call
def topsLaunchByPtr(func: object) -> None:
    """Launch a kernel, or the function of a handle, with the newest configuration and its arguments, and pop that.

    MissingConfiguration: nothing is configured; InvalidDeviceFunction: `func` is null or not a kernel; InvalidValue: an
    argument was not set up; the rest as topsModuleLaunchKernel.
    """
    newest = _pop()
    function = function_of(func)
    start_launch(function, newest.geometry, arguments_in(function.kernel, _assembled(function.kernel, newest.pieces)))


def _assembled(kernel: Kernel, pieces: tuple[tuple[int, bytes], ...]) -> bytes:
    """Return the argument stack. Raises InvalidValue for a parameter of which a byte was not set up."""
    places, end, _ = places_of(kernel)
    size = max([end, *(offset + len(data) for offset, data in pieces)])
    stack, known = bytearray(size), bytearray(size)
    for offset, data in pieces:
        stack[offset : offset + len(data)] = data
        known[offset : offset + len(data)] = b"\1" * len(data)
    for parameter, offset, type_ in places:
        if not all(known[offset : offset + type_.itemsize]):
            raise InvalidValue(
                f"kernel {kernel.name}: parameter {parameter.name} was not set up; its {type_.itemsize} bytes are at "
                f"offset {offset}"
            )
    return bytes(stack)


def _push(grid: object, block: object, shared: object, stream: object) -> None:
    stream_of(stream)
    _store(*_configured(missing=False), _Configured(geometry_of(grid, block, shared, stream or 0)))


def _pop() -> _Configured:
    *rest, newest = _configured()
    _store(*rest)
    return newest


def _configured(missing: bool = True) -> tuple[_Configured, ...]:
    """Return the caller's stack, the newest last. Raises CodeError MissingConfiguration where it is empty."""
    stack = STACK.get()
    if stack is not None and stack.owner() is _owner() and stack.configured:
        return stack.configured
    if missing:
        raise CodeError(Result.MissingConfiguration, "no launch is configured; call topsConfigureCall first")
    return ()


def _store(*configured: _Configured) -> None:
    STACK.set(_Stack(ref(_owner()), configured))


def _owner() -> object:
    return running_task() or threading.current_thread()


# ---- one grid of different kernels (2.11)


@call
def topsExtLaunchCooperativeKernelMultiCluster(
    launchParamsList: Sequence[topsExtLaunchParams_t],
    numClusters: int | None,
    gridDim: Dims,
    blockDim: Dims,
    stream: int | None,
) -> None:
    """Launch one cooperative grid of `numClusters` blocks, of which block i runs entry i on the entry's cluster.

    An entry's `func` is a kernel or a function handle, `args` its arguments in one buffer, `rodata`, if any, the bytes
    of the constants that it refers to, in the order in which it names them, each at its natural alignment. Host memory
    is taken at the call, `rodata` in device memory when the kernel starts. CooperativeLaunchTooLarge: more clusters
    than the device has. NotSupported: an `update_count`. InvalidValue: a repeated or unknown cluster, another number of
    blocks, wrong arguments; the rest as topsLaunchCooperativeKernel.
    """
    entries = _entries(launchParamsList, numClusters)
    geometry = geometry_of(gridDim, blockDim, max(_shared_bytes(each) for each in entries), stream)
    if geometry.grid.volume != len(entries):
        raise InvalidValue(f"gridDim must have {len(entries)} blocks, one for each entry, got {tuple(geometry.grid)}")
    queue = _queue_for(function_of(entries[0].func), geometry)
    if len(entries) > queue.context.arch.clusters:
        raise CooperativeLaunchTooLarge(
            f"{queue.context.arch.name} has {queue.context.arch.clusters} clusters, got {len(entries)} entries"
        )
    clusters = tuple(whole(each.cluster_id, "cluster_id") for each in entries)
    kernels = BlockKernels([_block_kernel(each, geometry, queue) for each in entries])
    config = LaunchConfig(geometry.grid, geometry.block, geometry.shared, True)
    launch = Launch(kernels, config, LaunchOptions(pinned=clusters), copy_context())
    if queue.context.resources is not None:
        launch = queue.context.resources.admit(queue, launch)
    else:
        queue.context.clusters.check(
            kernels.name, config.block.volume, len(entries), True, queue.cluster_mask, queue.sip_mask, clusters
        )
    queue.keep(queue.submit(launch), kernels.allocations)


def _entries(params: object, count: object) -> list[topsExtLaunchParams_t]:
    entries = [instance(each, topsExtLaunchParams_t, "an entry") for each in listed(params, count, "launchParamsList")]
    if not entries:
        raise InvalidValue("launchParamsList must have 1 entry or more, got none")
    for each in entries:
        instance(each.descriptor, topsKernelDescriptor_t, "the descriptor of an entry")
        if size_of(each.update_count, "update_count"):
            raise NotSupported(f"update_count must be 0, got {each.update_count}; launches take no updates of code")
    return entries


def _shared_bytes(entry: topsExtLaunchParams_t) -> int:
    return size_of(entry.descriptor.shared_mem_size, "shared_mem_size")


def _block_kernel(entry: topsExtLaunchParams_t, geometry: Geometry, queue: OwningQueue) -> BlockKernel:
    function, shared = function_of(entry.func), _shared_bytes(entry)
    _queue_for(function, geometry._replace(shared=shared))
    kernel = function.kernel
    kernel.configure(LaunchConfig(geometry.grid, geometry.block, shared), queue.context.arch, None, True)
    size = size_of(entry.args_size, "args_size")
    data = b"" if is_null(entry.args) and not size else _bytes_at(entry.args, size, "args")
    values = arguments_in(kernel, data)
    for value in values:
        queue.check_ours(value)
    bound: BoundKernel = kernel.bind(*_split(kernel, values))
    return BlockKernel(bound, shared, _constants(entry))


def _constants(entry: topsExtLaunchParams_t) -> bytes | Segment | None:
    """Return the constant segment: a copy of host memory, or where it lies on a device; None for none."""
    size = size_of(entry.rodata_size, "rodata_size")
    if is_null(entry.rodata) and not size:
        return None
    found = contents(entry.rodata, size, "rodata")
    if isinstance(found, bytes):
        return found
    if isinstance(found.allocation, Scattered):
        raise InvalidValue(f"rodata must be in one place, such as a part of scatter memory, got {found.allocation!r}")
    return found.allocation, found.offset, size
