"""The memory that a kernel declares: local in L1, shared in L2, private on the stack, and mdspans of any.

TOPS C++, 8.2 and 8.7. The default mode hands out plain arrays, strict mode spans that observe each access.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from atops.base.dtypes import DTypeLike, as_dtype, element_name
from atops.base.errors import IllegalAddress, InvalidType, InvalidValue, LaunchFailure, LaunchOutOfResources
from atops.device.call_site import caller
from atops.device.chip import POISON
from atops.device.dte.transfer import PRIVATE_ARRAYS
from atops.device.exec.thread import KernelThread, current_thread
from atops.device.geometry import Array
from atops.device.span.span import Space, Span
from atops.kernels.memory.device_variables import Shape, Variable, extents_of
from atops.kernels.memory.pointer import Pointer
from atops.kernels.memory.sharing import dynamic_bytes, shared_object, shared_once
from atops.kernels.memory.spaces import AnySpace, LanguageSpace, is_below, space_in

__all__ = (
    "Constant", "Generic", "Global", "Local", "Private", "Shared", "dynamic_shared", "local", "mdspan", "private",
    "shared",
)  # fmt: skip

Global, Shared, Local = Space.GLOBAL, Space.SHARED, Space.LOCAL
Generic, Constant, Private = LanguageSpace.GENERIC, LanguageSpace.CONSTANT, LanguageSpace.PRIVATE

ALIGNMENT = 128  # of vector loads


def local(shape: Shape, dtype: DTypeLike) -> Any:
    """Return memory of the running thread's L1: `shape` elements of `dtype`, 128-byte aligned, contents stale.

    It lives as long as the thread; every call takes more. Raises LaunchOutOfResources, naming the thread and what is
    in use, when the L1 has no room left (TOPS C++, 8.2, `__local__`).
    """
    thread = current_thread()
    extents, element, size = extents_of(shape, dtype)
    memory = thread.sip.l1
    start = -(-thread.l1_top // ALIGNMENT) * ALIGNMENT
    if start + size > len(memory):
        raise LaunchOutOfResources(
            f"{thread} at {caller()}: local memory of {size} bytes was asked for; {thread.l1_top} of the "
            f"{len(memory)} bytes of L1 are in use, and each call takes more"
        )
    thread.l1_top = start + size
    return _carve(thread, memory, start, extents, element, Space.LOCAL)


def shared(shape: Shape, dtype: DTypeLike) -> Any:
    """Return memory of the block's L2, one and the same for all its threads: `shape` elements of `dtype`.

    Threads share what they get from the same line of the program, called for the same time; contents are stale.
    Raises LaunchFailure where another thread asked for another shape or type there, and LaunchOutOfResources when the
    L2 has no room left (TOPS C++, 8.2, `__shared__`).
    """
    thread = current_thread()
    extents, element, size = extents_of(shape, dtype)

    def make() -> Array | Span:
        block = thread.block
        memory = block.cluster.l2
        used = max(block.l2_top, dynamic_bytes(thread))  # dynamic shared memory comes first
        start = -(-used // ALIGNMENT) * ALIGNMENT
        if start + size > len(memory):
            raise LaunchOutOfResources(
                f"{thread} at {caller()}: shared memory of {size} bytes was asked for; {used} of the {len(memory)} "
                "bytes of L2 are in use"
            )
        block.l2_top = start + size
        return _carve(thread, memory, start, extents, element, Space.SHARED)

    array = shared_object(thread, make)
    if array.shape != extents or array.dtype != element:
        raise LaunchFailure(
            f"{thread} at {caller()}: shared memory was asked for as {element_name(element)}{list(extents)}, and by "
            f"another thread of the block as {element_name(array.dtype)}{list(array.shape)}"
        )
    return array


def dynamic_shared(dtype: DTypeLike) -> Any:
    """Return the shared memory whose size the launch gives, as one row: `extern __shared__ T x[]` (TOPS C++, 8.2).

    A kernel may have one such line: its definition refuses a second one, and one that the definition cannot see is a
    LaunchFailure here. Raises InvalidValue where the launch gave no size; a launch may give one that is not used.
    """
    thread = current_thread()
    element, size = as_dtype(dtype), dynamic_bytes(thread)
    if not size:
        raise InvalidValue(f"{thread} at {caller()}: dynamic shared memory is used, but the launch gave no size")
    whole = size // element.itemsize

    def make() -> Array | Span:
        return _carve(thread, thread.block.cluster.l2, 0, (whole,), element, Space.SHARED)

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


def _carve(
    thread: KernelThread, memory: Array, start: int, extents: tuple[int, ...], element: np.dtype[np.generic],
    space: Space,
) -> Array | Span:  # fmt: skip
    """Return a part of a scratchpad: a plain view, or in strict mode a span."""
    array = np.ndarray(extents, element, memory, start)  # its base is `memory` itself
    if not thread.grid.options.strict:
        return array
    if space is Space.SHARED:  # so that a block cannot read what an earlier one left
        memory[start : start + array.nbytes] = POISON
    return Span(None, array, start, space)


def private(shape: Shape, dtype: DTypeLike) -> Any:
    """Return an array of the running thread's stack: `shape` elements of `dtype`, for this thread and no DTE.

    It lives as long as the thread; every call takes more. It begins as zeros, in strict mode as 0xA5. Raises
    LaunchOutOfResources, naming the thread and what is in use, when the stack has no room left; IllegalState on the
    host (TOPS C++, 8.2).
    """
    thread = current_thread()
    extents, element, size = extents_of(shape, dtype)
    if thread.sites is None:
        thread.sites = {}
    held = thread.sites.setdefault(PRIVATE_ARRAYS, [])
    used, room = sum(each.nbytes for each in held), thread.grid.arch.stack_bytes
    if used + size > room:
        raise LaunchOutOfResources(
            f"{thread} at {caller()}: private memory of {size} bytes was asked for; {used} of the {room} bytes of its "
            "stack are in use, and each call takes more"
        )
    memory = np.full(size, POISON if thread.grid.options.strict else 0, np.uint8)
    held.append(memory)
    return np.ndarray(extents, element, memory)
