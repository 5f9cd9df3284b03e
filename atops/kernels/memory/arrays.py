"""The memory that a kernel declares: local in L1, shared in L2, private on the stack, and mdspans of any.

TOPS C++, 8.2 and 8.7. The default mode hands out plain arrays, strict mode spans that observe each access and
do what arrays do: to type checkers both are arrays.
"""

from __future__ import annotations

import gc
import math
import sys
from typing import Any, overload
from weakref import ref

import numpy as np
import numpy.typing as npt

from atops.base.dtypes import DTypeLike, Scalar, Typed, element_name, kernel_dtype
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, LaunchFailure, LaunchOutOfResources
from atops.device.call_site import caller, expression_at
from atops.device.chip import POISON
from atops.device.dte.transfer import PRIVATE_ARRAYS
from atops.device.exec.thread import KernelThread, current_thread
from atops.device.geometry import Array, Space
from atops.device.memory.pieces import Pieces
from atops.device.span.span import Span
from atops.kernels.memory.device_variables import Shape, Variable, extents_of
from atops.kernels.memory.pointer import Pointer
from atops.kernels.memory.sharing import dynamic_bytes, release_left, shared_object, shared_once
from atops.kernels.memory.spaces import AnySpace, LanguageSpace, is_below, space_in

__all__ = (
    "Constant", "Generic", "Global", "Local", "Private", "Shared", "dynamic_shared", "local", "local_variable",
    "mdspan", "private", "shared", "shared_variable",
)  # fmt: skip

Global, Shared, Local = Space.GLOBAL, Space.SHARED, Space.LOCAL
Generic, Constant, Private = LanguageSpace.GENERIC, LanguageSpace.CONSTANT, LanguageSpace.PRIVATE

@overload
def local(shape: Shape, dtype: Typed[Scalar]) -> npt.NDArray[Scalar]: ...
@overload
def local(shape: Shape, dtype: DTypeLike) -> Array: ...
def local(shape: Shape, dtype: DTypeLike) -> Any:
    """Return memory of the running thread's L1: `shape` elements of `dtype`, 128-byte aligned, contents stale.

    It is given back when nothing refers to it or to a view of it any more, at the end of the thread at the latest;
    `local_variable` lasts as long as the thread. Raises LaunchOutOfResources, naming the thread and what is in use,
    when the L1 has no room left (TOPS C++, 8.2, `__local__`).
    """
    return _local(current_thread(), shape, dtype)


@overload
def local_variable(shape: Shape, dtype: Typed[Scalar]) -> npt.NDArray[Scalar]: ...
@overload
def local_variable(shape: Shape, dtype: DTypeLike) -> Array: ...
def local_variable(shape: Shape, dtype: DTypeLike) -> Any:
    """Return the running thread's memory of this line: one array for every pass, as long as the thread.

    That is what `__local__ T x[n]` declares in C++. Arguments and errors are those of `local`; LaunchFailure where
    the line asked for another shape or type before (TOPS C++, 8.2, `__local__`).
    """
    thread, frame = current_thread(), sys._getframe(1)
    site = ("local variable", id(frame.f_code), expression_at(frame.f_code, frame.f_lasti))
    if thread.sites is None:
        thread.sites = {}
    if site not in thread.sites:
        thread.sites[site] = _local(thread, shape, dtype), frame.f_code  # which keeps its id
    return _agreed(thread, thread.sites[site][0], shape, dtype, "local", "before")


@overload
def shared(shape: Shape, dtype: Typed[Scalar]) -> npt.NDArray[Scalar]: ...
@overload
def shared(shape: Shape, dtype: DTypeLike) -> Array: ...
def shared(shape: Shape, dtype: DTypeLike) -> Any:
    """Return memory of the block's L2, one and the same for all its threads: `shape` elements of `dtype`.

    Threads share what they get from the same line of the program, passed for the same time; contents are stale. The
    block keeps it until each of its threads has come there, or has ended; then it is given back as soon as no thread
    refers to it or to a view of it any more. `shared_variable` lasts as long as the block.

    Raises LaunchFailure where another thread asked for another shape or type there, and LaunchOutOfResources when the
    L2 has no room left (TOPS C++, 8.2, `__shared__`).
    """
    thread = current_thread()
    array = shared_object(thread, lambda: _shared(thread, shape, dtype))
    return _agreed(thread, array, shape, dtype, "shared", "by another thread of the block")


@overload
def shared_variable(shape: Shape, dtype: Typed[Scalar]) -> npt.NDArray[Scalar]: ...
@overload
def shared_variable(shape: Shape, dtype: DTypeLike) -> Array: ...
def shared_variable(shape: Shape, dtype: DTypeLike) -> Any:
    """Return the block's memory of this line: one array for all its threads and every pass, as long as the block.

    That is what `__shared__ T x[n]` declares in C++; `()` is the shape of a single value. Arguments and errors are
    those of `shared` (TOPS C++, 8.2, `__shared__`).
    """
    thread = current_thread()
    array = shared_object(thread, lambda: _shared(thread, shape, dtype), once=True)
    return _agreed(thread, array, shape, dtype, "shared", "before or by another thread of the block")


def _local(thread: KernelThread, shape: Shape, dtype: DTypeLike) -> Array | Span:
    extents, element, size = extents_of(shape, dtype)
    pieces = thread.pieces
    if pieces is None:
        pieces = thread.pieces = Pieces(thread.sip.l1)
    taken = pieces.take(extents, element, size)
    if taken is None:
        gc.collect()  # of what refers to itself, such as a closure or an exception that is kept
        taken = pieces.take(extents, element, size)
    if taken is None:
        raise LaunchOutOfResources(
            f"{thread} at {caller()}: {pieces.refusal(f'local memory of {size} bytes', 'L1')}; what a name still "
            "holds is in use: in a loop, take it before the loop, use k.local_variable, or `del` the name first"
        )
    if thread.race is not None:
        thread.race.taken(taken[1], taken[1] + size)
    return _observed(thread, *taken, Space.LOCAL)


def _shared(thread: KernelThread, shape: Shape, dtype: DTypeLike) -> Array | Span:
    """Take memory of the block's L2. The lock of `shared_object` is held."""
    extents, element, size = extents_of(shape, dtype)
    block = thread.block
    pieces = block.pieces
    if pieces is None:  # dynamic shared memory comes first
        pieces = block.pieces = Pieces(block.cluster.l2, dynamic_bytes(thread))
    taken = pieces.take(extents, element, size)
    if taken is None and release_left(thread):
        taken = pieces.take(extents, element, size)
    if taken is None:
        raise LaunchOutOfResources(
            f"{thread} at {caller()}: {pieces.refusal(f'shared memory of {size} bytes', 'L2')}; what a name still "
            "holds is in use, and so is what not every thread of the block has come to: in a loop, take it before "
            "the loop or use k.shared_variable"
        )
    if (races := block.races) is not None:
        races.taken(taken[1], taken[1] + size)
    return _observed(thread, *taken, Space.SHARED)


def _agreed(
    thread: KernelThread, array: Array | Span, shape: Shape, dtype: DTypeLike, kind: str, otherwise: str
) -> Array | Span:  # fmt: skip
    """Return the memory of a line. Raises LaunchFailure unless it is what was asked for now."""
    extents, element, _ = extents_of(shape, dtype)
    if array.shape != extents or array.dtype != element:
        raise LaunchFailure(
            f"{thread} at {caller()}: {kind} memory was asked for as {element_name(element)}{list(extents)}, and "
            f"{otherwise} as {element_name(array.dtype)}{list(array.shape)}"
        )
    return array


@overload
def dynamic_shared(dtype: Typed[Scalar]) -> npt.NDArray[Scalar]: ...
@overload
def dynamic_shared(dtype: DTypeLike) -> Array: ...
def dynamic_shared(dtype: DTypeLike) -> Any:
    """Return the shared memory whose size the launch gives, as one row: `extern __shared__ T x[]` (TOPS C++, 8.2).

    A kernel may have one such line: its definition refuses a second one, and one that the definition cannot see is a
    LaunchFailure here. Raises InvalidValue where the launch gave no size; a launch may give one that is not used.
    """
    thread = current_thread()
    element, size = kernel_dtype(dtype), dynamic_bytes(thread)
    if not size:
        raise InvalidValue(f"{thread} at {caller()}: dynamic shared memory is used, but the launch gave no size")
    whole = size // element.itemsize

    def make() -> Array | Span:
        l2 = thread.block.cluster.l2
        l2.used = max(l2.used, size)
        array: Array = np.ndarray((whole,), element, l2)
        return _observed(thread, array, 0, Space.SHARED)

    array = shared_once(thread, "dynamic shared memory", make)
    if array.dtype != element:
        raise LaunchFailure(
            f"{thread} at {caller()}: dynamic shared memory was asked for as {element_name(element)}, and by another "
            f"thread as {element_name(array.dtype)}"
        )
    return array


def mdspan(*arguments: object) -> Any:
    """Return memory in another shape: `mdspan(x, n, h, w, c)`, `mdspan(x, shape)`, or either after a memory space.

    `x` is a span, a variable, a pointer or an array of the thread's; the leading elements that the shape needs are
    taken, as of a pointer, and no byte is touched. A space (`k.Global`, `k.Shared`, `k.Local` ...) must be the one that
    `x` lies in, or a parent of it. Raises IllegalAddress where the shape needs more elements than `x` has and for an
    array outside the thread's memories, InvalidValue and InvalidType for wrong arguments (TOPS C++, 8.7).
    """
    rest = list(arguments)
    space = rest[0] if rest and isinstance(rest[0], Space | LanguageSpace) else None
    rest = rest[space is not None :]
    given = rest.pop(0) if rest else None
    if not rest or not isinstance(given, Span | np.ndarray | Variable | Pointer):
        raise InvalidType(f"mdspan expects an optional space, memory and a shape, got {arguments!r}")
    memory = given.memory() if isinstance(given, Pointer) else given.span() if isinstance(given, Variable) else given
    if space is not None or not isinstance(memory, Span):  # a span lies where it says
        _check_space(memory, space)
    shape: Any = rest[0] if len(rest) == 1 else rest
    extents, _, _ = extents_of(shape, memory.dtype)
    count = math.prod(extents)
    if count > memory.size:
        raise IllegalAddress(
            f"{current_thread()} at {caller()}: mdspan of shape {extents} needs {count} elements; memory of shape "
            f"{memory.shape} has {memory.size}"
        )
    if count == memory.size:
        return _reshaped(memory, extents)
    return _reshaped(_reshaped(memory, (memory.size,))[:count], extents)


def _reshaped(memory: Array | Span, extents: tuple[int, ...]) -> Array | Span:
    """Return another view, never a copy. Raises InvalidValue where there is none."""
    if isinstance(memory, Span):
        return memory.reshape(extents)
    try:
        return memory.reshape(extents, copy=False)
    except ValueError:
        raise InvalidValue(f"an array of shape {memory.shape} with gaps cannot have shape {extents}") from None


def _check_space(memory: object, space: AnySpace | None) -> None:
    """Raise InvalidValue unless `memory` lies in `space`, or below it; IllegalAddress where it is not the thread's."""
    thread = current_thread()
    lies = space_in(thread, memory, "an mdspan")
    if space is not None and not is_below(lies, space):
        raise InvalidValue(f"{thread} at {caller()}: mdspan in {space} memory of what lies in {lies} memory")


def _observed(thread: KernelThread, array: Array, start: int, space: Space) -> Array | Span:
    """Return memory of a scratchpad: as a span where accesses are looked at, in strict mode without what was there."""
    if thread.grid.options.strict:
        array.reshape(-1).view(np.uint8).fill(POISON)
    return Span(None, array, start, space) if thread.race is not None else array


@overload
def private(shape: Shape, dtype: Typed[Scalar]) -> npt.NDArray[Scalar]: ...
@overload
def private(shape: Shape, dtype: DTypeLike) -> Array: ...
def private(shape: Shape, dtype: DTypeLike) -> Any:
    """Return an array of the running thread's stack: `shape` elements of `dtype`, for this thread and no DTE.

    It is given back when nothing refers to it any more. It begins as zeros, in strict mode as 0xA5. Raises
    LaunchOutOfResources, naming the thread and what is in use, when the stack has no room left; IllegalState on the
    host (TOPS C++, 8.2).
    """
    thread = current_thread()
    extents, element, size = extents_of(shape, dtype)
    if thread.sites is None:
        thread.sites = {}
    arrays = [each for each in thread.sites.get(PRIVATE_ARRAYS, ()) if each() is not None]
    used, room = sum(each().nbytes for each in arrays), thread.grid.arch.stack_bytes
    if used + size > room:
        raise LaunchOutOfResources(
            f"{thread} at {caller()}: private memory of {size} bytes was asked for; {used} of the {room} bytes of its "
            "stack are in use; what a name still holds is in use"
        )
    memory = np.full(size, POISON if thread.grid.options.strict else 0, np.uint8)
    thread.sites[PRIVATE_ARRAYS] = [*arrays, ref(memory)]
    return np.ndarray(extents, element, memory)
