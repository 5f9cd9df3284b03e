"""The constants of an executable: loaded for launches, and changed step by step (TOPS Runtime API, 2.11).

A refit goes GetConstManagedData, GetSubFuncInfo, CallSubFunc, UpdateRuntimeResource, UpdateConstantKey; functions are
needed only where constants are computed. Out of this order a step is IllegalState, without refit NotSupported.
"""

from __future__ import annotations

from collections.abc import Sequence

from atops.base.errors import InvalidValue
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.tops.bridge.arguments import text_of
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device, current_driver
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import address_of, host_address, operand, own, owned
from atops.tops.bridge.waiting import until
from atops.tops.functions.executable.executable import bundle_for, executable_of, pointers_in, shapes_in
from atops.tops.functions.memory.host_memory import ORIGINS

__all__ = (
    "topsExecutableCallSubFunc", "topsExecutableGetConstManagedData", "topsExecutableGetRefitFlag",
    "topsExecutableGetSubFuncInfo", "topsExecutableLoadConstData", "topsExecutableUpdateConstantKey",
    "topsExecutableUpdateRuntimeResource",
)  # fmt: skip


@call
async def topsExecutableLoadConstData(exe: int, res: int | None) -> tuple[list[int], int]:
    """Upload every constant to memory of its own on the current device; return the pointers, and how many.

    The launches WithConstData take them in this order. topsFree frees each. OutOfMemory: then nothing is left
    allocated. InvalidHandle.
    """
    found = executable_of(exe)
    device = current_device()
    bundle = bundle_for(res, device.context)
    queue = device.create_stream(nonblocking=True, name="constants of an executable")
    loaded: list[Buffer] = []
    try:
        loaded = found.load_constants(queue, bundle)
        await until(queue)
    except BaseException:  # the caller gets no pointers
        for each in loaded:
            each.close()
        raise
    finally:
        queue.close()
    return [own(each).address for each in loaded], len(loaded)


@call
def topsExecutableGetRefitFlag(exe: int) -> int:
    """Return 1 where the executable was built so that its constants can be changed, else 0. InvalidHandle."""
    return int(executable_of(exe).refittable)


@call
def topsExecutableGetConstManagedData(
    exe: int,
) -> tuple[int, list[str], list[int], list[int], list[int], list[int]]:
    """Return how many constants can be changed, and of each: name, host pointer, size, uid, pointer to its flag.

    All in one call, where C needs two. The memory is pinned, and the executable's: write the bytes, store 1 in the one
    byte of the flag (`host_view` gives both as arrays), then call topsExecutableUpdateRuntimeResource. It begins a
    refit. NotSupported: it was built without. OutOfMemory, InvalidHandle.
    """
    found = executable_of(exe).managed_constants(current_driver())
    records = [each.record for each in found]
    return (
        len(found),
        [each.name for each in records],
        [host_address(each.data) for each in found],
        [each.nbytes for each in records],
        [each.uid for each in records],
        [host_address(each.flag) for each in found],
    )


@call
def topsExecutableGetSubFuncInfo(exe: int) -> tuple[bytes, int, list[int], int]:
    """Return a description of the functions: JSON text, its size, how many inputs and outputs each has, and how many.

    The third is flat: two numbers a function. topsExecutableCallSubFunc may be called from now on. IllegalState: no
    refit has begun. NotSupported: it was built without. InvalidHandle.
    """
    found = executable_of(exe)
    text = found.function_text().encode()
    counts = [number for each in found.functions for number in (len(each.inputs), len(each.outputs))]
    return text, len(text), counts, len(counts)


@call
def topsExecutableCallSubFunc(
    exe: int, func_name: str | bytes, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, stream: int | None,
) -> None:  # fmt: skip
    """Run a function of the executable in stream order, from and to memory of topsMalloc or topsHostMalloc.

    IllegalState: topsExecutableGetSubFuncInfo was not called in this refit. NotFound: no such function. InvalidValue:
    other memory, another number of inputs or outputs. NotSupported: it was built without refit. InvalidHandle.
    """
    queue = usable_stream_of(stream)
    found = executable_of(exe)
    found.check_call()
    name = text_of(func_name, "func_name")
    function = found.function(name)
    sources = pointers_in(inputs, input_count, len(function.inputs), "input")
    targets = pointers_in(outputs, output_count, len(function.outputs), "output")
    shapes = shapes_in(input_dims, input_rank, len(sources))
    arrays: list[DeviceArray] = []
    for pointer, record, shape in zip(sources, function.inputs, shapes, strict=True):
        room = _allocated(pointer, f"input {record.name}")
        count = 1
        for extent in shape:
            count *= extent
        arrays.append(_cut(room, count * record.kind.itemsize, record.name).view(record.kind, shape))
    results = [
        _allocated(pointer, f"output {record.name}")
        for pointer, record in zip(targets, function.outputs, strict=True)
    ]
    found.call(queue, name, arrays, results)


@call
def topsExecutableUpdateRuntimeResource(exe: int, res: int | None, stream: int | None) -> None:
    """Take over the constants whose flag is set, and upload those alone in the order of a stream; clear the flags.

    Launches that are enqueued later see them. IllegalState: no refit has begun. NotSupported: it was built without.
    OutOfMemory: the old ones stay. InvalidHandle.
    """
    queue = usable_stream_of(stream)
    executable_of(exe).update(queue, bundle_for(res, queue.context))


@call
def topsExecutableUpdateConstantKey(exe: int) -> None:
    """Compute the key of the constants from their bytes now, so that the executable can be saved.

    IllegalState: topsExecutableUpdateRuntimeResource was not called since the last time. NotSupported: it was built
    without refit. InvalidHandle.
    """
    executable_of(exe).renew_key()


def _allocated(pointer: object, what: str) -> Buffer:
    """Return all that follows a pointer in memory of topsMalloc or topsHostMalloc. Raises InvalidValue for other."""
    found = operand(address_of(pointer, what), 0, what)
    assert isinstance(found, Buffer)  # ints never stand for pageable memory
    allocation = found.allocation
    origin = ORIGINS.get(allocation)
    if owned(allocation) is None or (origin is not None and origin.registered):
        raise InvalidValue(f"{what} must be memory of topsMalloc or topsHostMalloc, got {allocation!r}")
    room = Buffer(allocation, found.offset)
    room.driver = found.driver
    return room


def _cut(room: Buffer, nbytes: int, name: str) -> Buffer:
    if nbytes > room.nbytes:
        raise InvalidValue(f"input {name} has {nbytes} bytes; {room!r} has {room.nbytes}")
    return room[:nbytes]
