"""Launching executables, in six forms (TOPS Runtime API, 2.11).

Operator mode (V2) takes no dims but the built ones, graph mode what is between the built minimum and maximum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from atops.runtime.core.completion import Completion
from atops.runtime.current_driver import current_driver
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.stream import Stream
from atops.tops.bridge.aliases import alias_at
from atops.tops.bridge.call import call
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import address_of, device_memory, find_device
from atops.tops.bridge.waiting import until
from atops.tops.functions.executable.executable import bundle_for, executable_of, pointers_in, shapes_in

__all__ = (
    "LaterNumbers", "bundle_for", "executable_of", "pointers_in", "room_at", "shapes_in", "topsLaunchExecutable",
    "topsLaunchExecutableV2", "topsLaunchExecutableV3", "topsLaunchExecutableWithConstData",
    "topsLaunchExecutableWithConstDataV2", "topsLaunchExecutableWithConstDataV3", "typed_memory",
)  # fmt: skip

class _Launch(NamedTuple):
    """The arguments of all forms: C's lists of pointers, dims and ranks beside their counts."""

    exe: object
    res: object
    inputs: object
    input_count: object
    input_dims: object
    input_rank: object
    outputs: object
    output_count: object
    stream: object
    constants: object = None
    constants_count: object = None
    own_constants: bool = True

    def start(self, exact: bool = False) -> tuple[Stream, Completion]:
        """Enqueue it; the result of the completion is the shapes of the outputs. Raises as the functions below do."""
        queue = usable_stream_of(self.stream)
        found = executable_of(self.exe)
        bundle = bundle_for(self.res, queue.context)
        inputs = pointers_in(self.inputs, self.input_count, len(found.inputs), "input")
        outputs = pointers_in(self.outputs, self.output_count, len(found.outputs), "output")
        shapes = shapes_in(self.input_dims, self.input_rank, len(inputs))
        arrays = [
            typed_memory(pointer, record.kind, shape, f"input {record.name}")
            for pointer, record, shape in zip(inputs, found.inputs, shapes, strict=True)
        ]
        results = [
            room_at(pointer, record.nbytes, f"output {record.name}")
            for pointer, record in zip(outputs, found.outputs, strict=True)
        ]
        constants = None
        if not self.own_constants:
            given = pointers_in(self.constants, self.constants_count, len(found.constants), "const_data")
            constants = [
                device_memory(pointer, record.nbytes, f"constant {record.name}", plain=False)
                for pointer, record in zip(given, found.constants, strict=True)
            ]
        return queue, found.launch(queue, arrays, results, constants=constants, exact=exact, bundle=bundle)


@call
async def topsLaunchExecutable(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, stream: int | None,
) -> tuple[list[int], list[int]]:  # fmt: skip
    """Run an executable in stream order, wait for it, and return the dims of its outputs, flat, and their ranks.

    InvalidValue: another number of inputs or outputs than it has, dims outside its minimum and maximum, memory that is
    too short or not of a device. InvalidHandle. OutOfMemory: no room for its constants. LaunchFailure: evaluation
    failed; IllegalAddress: an output did not fit, or memory was freed meanwhile.
    """
    launch = _Launch(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream)
    return _dims_and_ranks(await until(launch.start()[1]))


@call
def topsLaunchExecutableV2(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, stream: int | None,
) -> None:  # fmt: skip
    """Run an executable in stream order, for the dims that it was built for.

    InvalidValue: other dims, and as for topsLaunchExecutable. A failure of the run is a failure of the stream.
    """
    _Launch(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream).start(exact=True)


@call
def topsLaunchExecutableV3(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, stream: int | None,
) -> tuple[Sequence[int], Sequence[int]]:  # fmt: skip
    """Run an executable in stream order; return the dims of its outputs, flat, and their ranks, which are filled later.

    A host callback in the stream fills them. Reading them before that raises NotReady. InvalidValue: as for
    topsLaunchExecutable. A failure of the run is a failure of the stream.
    """
    launch = _Launch(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream)
    return _later(*launch.start())


@call
async def topsLaunchExecutableWithConstData(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, const_datas: Sequence[int],
    const_datas_count: int | None, stream: int | None,
) -> tuple[list[int], list[int]]:  # fmt: skip
    """As topsLaunchExecutable, with the constants at these pointers, in the order of topsExecutableLoadConstData."""
    launch = _Launch(
        exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream, const_datas,
        const_datas_count, own_constants=False,
    )  # fmt: skip
    return _dims_and_ranks(await until(launch.start()[1]))


@call
def topsLaunchExecutableWithConstDataV2(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, const_datas: Sequence[int],
    const_datas_count: int | None, stream: int | None,
) -> None:  # fmt: skip
    """As topsLaunchExecutableV2, with the constants at these pointers, in the order of topsExecutableLoadConstData."""
    _Launch(
        exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream, const_datas,
        const_datas_count, own_constants=False,
    ).start(exact=True)  # fmt: skip


@call
def topsLaunchExecutableWithConstDataV3(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, const_datas: Sequence[int],
    const_datas_count: int | None, stream: int | None,
) -> tuple[Sequence[int], Sequence[int]]:  # fmt: skip
    """As topsLaunchExecutableV3, with the constants at these pointers, in the order of topsExecutableLoadConstData."""
    launch = _Launch(
        exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream, const_datas,
        const_datas_count, own_constants=False,
    )  # fmt: skip
    return _later(*launch.start())


def _dims_and_ranks(shapes: Sequence[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    return [extent for shape in shapes for extent in shape], [len(shape) for shape in shapes]


def _later(queue: Stream, launched: Completion) -> tuple[Sequence[int], Sequence[int]]:
    """Enqueue the callback that fills dims and ranks, and return both."""

    def output_dims() -> tuple[list[int], list[int]]:
        return _dims_and_ranks(launched.result())

    filled = queue.call(output_dims)
    return LaterNumbers(filled, 0), LaterNumbers(filled, 1)


class LaterNumbers(Sequence[int]):
    """The dims or ranks of outputs, which are there once a command of the stream is done.

    Before that, reading raises NotReady; after a failure, what the command failed with.
    """

    __slots__ = ("_completion", "_part")

    def __init__(self, completion: Completion, part: int) -> None:
        self._completion = completion
        self._part = part

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """Return one number, or several. Raises NotReady, or the failure of the launch."""
        found: list[int] = self._completion.result()[self._part]
        return found[index]

    def __len__(self) -> int:
        return len(self[:])

    def __iter__(self) -> Iterator[int]:
        return iter(self[:])

    def __repr__(self) -> str:
        return repr(self[:]) if self._completion.state == "done" else f"<{self._completion.state}>"


def typed_memory(pointer: object, dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> DeviceArray:
    """Return the array at a device pointer. Raises as `device_memory` does."""
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    return device_memory(pointer, nbytes, what, plain=False).view(dtype, shape)


def room_at(pointer: object, nbytes: int, what: str) -> Buffer:
    """Return the memory at a pointer for a result of `nbytes`; with -1 (not known yet), all that follows it.

    Raises as `device_memory` does.
    """
    if nbytes >= 0:
        return device_memory(pointer, nbytes, what, plain=False)
    driver, address = current_driver(), address_of(pointer, what)
    found = alias_at(driver, address) or find_device(driver, address, what)
    return device_memory(pointer, found.size - (address - found.address), what, plain=False)
