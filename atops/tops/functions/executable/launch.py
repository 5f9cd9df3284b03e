"""Launching executables, in six forms (TOPS Runtime API, 2.11).

Operator mode (V2) takes no dims but the built ones, graph mode what is between the built minimum and maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from atops.runtime.core.completion import Completion
from atops.runtime.stream import Stream
from atops.tops.bridge.call import call
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import device_memory
from atops.tops.bridge.waiting import until
from atops.tops.functions.executable.arguments import (
    LaterNumbers,
    bundle_for,
    executable_of,
    pointers_in,
    room_at,
    shapes_in,
    typed_memory,
)

__all__ = (
    "topsLaunchExecutable",
    "topsLaunchExecutableV2",
    "topsLaunchExecutableV3",
    "topsLaunchExecutableWithConstData",
    "topsLaunchExecutableWithConstDataV2",
    "topsLaunchExecutableWithConstDataV3",
)


class _Launch(NamedTuple):
    """What all forms take: C's lists of pointers, dims and ranks beside their counts."""

    exe: Any
    res: Any
    inputs: Any
    input_count: Any
    input_dims: Any
    input_rank: Any
    outputs: Any
    output_count: Any
    stream: Any
    constants: Any = None
    constants_count: Any = None
    own_constants: bool = True

    def start(self, exact: bool = False) -> tuple[Stream, Completion]:
        """Enqueue it; the completion's result is the outputs' shapes. Raises whatever is wrong with the arguments."""
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
    too short or no device's. InvalidHandle. OutOfMemory: no room for its constants. LaunchFailure: evaluation failed;
    IllegalAddress: an output did not fit, or memory was freed meanwhile.
    """
    launch = _Launch(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream)
    return _dims_and_ranks(await until(launch.start()[1]))


@call
def topsLaunchExecutableV2(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, stream: int | None,
) -> None:  # fmt: skip
    """Run an executable in stream order, for the dims that it was built for.

    InvalidValue: other dims, and as for topsLaunchExecutable. What fails in the run is the stream's failure.
    """
    _Launch(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream).start(exact=True)


@call
def topsLaunchExecutableV3(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, stream: int | None,
) -> tuple[Sequence[int], Sequence[int]]:  # fmt: skip
    """Run an executable in stream order; what it returns can be read once the stream has come there.

    They are the dims of its outputs, flat, and their ranks: a host callback that holds the stream fills them. Reading
    them before raises NotReady. InvalidValue: as for topsLaunchExecutable. What fails in the run is the stream's.
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
    """Enqueue the callback that fills dims and ranks, and return what will show them."""

    def output_dims() -> tuple[list[int], list[int]]:
        return _dims_and_ranks(launched.result())

    filled = queue.call(output_dims)
    return LaterNumbers(filled, 0), LaterNumbers(filled, 1)
