"""Launches in steps, as compilers make them of `kernel<<<...>>>(...)`: configure, set up arguments, launch (2.9).

Configurations form a stack, which nests. Each thread has one of its own, and so has each task.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any, Final, NamedTuple
from weakref import ref

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.kernels.kernel import Kernel
from atops.tops.bridge.arguments import size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.handles import stream_of
from atops.tops.bridge.last_error import running_task
from atops.tops.functions.module.launch import Dims, Geometry, Handle, function_of, geometry_of, start
from atops.tops.functions.module.launch_arguments import arguments_in, bytes_at, places_of
from atops.tops.types.structs import dim3

__all__ = (
    "__topsPopCallConfiguration", "__topsPushCallConfiguration", "topsConfigureCall", "topsLaunchByPtr",
    "topsSetupArgument",
)  # fmt: skip

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
    piece = start_, bytes_at(arg, length, "arg")
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
    start(function, newest.geometry, arguments_in(function.kernel, _assembled(function.kernel, newest.pieces)))


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
