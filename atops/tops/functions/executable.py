"""Executables: made of bytes or files, asked, launched, refitted, saved (Runtime API, 2.11). Opening one runs nothing.

Operator mode (V2) takes no dims but the built ones, graph mode what is between the built minimum and maximum.

A refit goes GetConstManagedData, GetSubFuncInfo, CallSubFunc, UpdateRuntimeResource, UpdateConstantKey; functions are
needed only where constants are computed. Out of this order a step is IllegalState, without refit NotSupported.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, overload

import numpy as np

from atops.base.errors import InvalidValue, NotSupported
from atops.base.result_codes import Result
from atops.bridge.arguments import contents_of, index_in, listed, member, numbers, path_of, size_of, text_of
from atops.bridge.call import until
from atops.bridge.codes import CodeError
from atops.bridge.handles import current_board, current_device, live, register, take, usable_stream_of
from atops.bridge.pointers import (
    address_of,
    alias_at,
    device_memory,
    find_device,
    host_address,
    host_copy,
    is_null,
    operand,
    own,
    owned,
)
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import Completion
from atops.runtime.executables.executable import Executable
from atops.runtime.executables.file import MOST_BYTES, TensorRecord
from atops.runtime.memory.buffer import Buffer, DeviceArray
from atops.runtime.resources.bundle import ResourceBundle, bundle_of
from atops.runtime.stream import Stream, queue_of
from atops.tops.functions.api import call
from atops.tops.functions.memory import ORIGINS
from atops.tops.header.enumerations import topsExecutableInfoType_t, topsExtExecutableSectionHeaderType_t
from atops.tops.header.structs import topsExtExecutableSectionInfo_t

__all__ = (
    "executable_of", "topsCreateExecutable", "topsCreateExecutableFromFile", "topsDestroyExecutable",
    "topsExecutableCallSubFunc", "topsExecutableGetConstManagedData", "topsExecutableGetRefitFlag",
    "topsExecutableGetSectionCount", "topsExecutableGetSectionInfo", "topsExecutableGetSubFuncInfo",
    "topsExecutableLoadConstData", "topsExecutableQueryInfo", "topsExecutableQueryInfoV2",
    "topsExecutableQueryInputName", "topsExecutableQueryOutputName", "topsExecutableSaveToFile",
    "topsExecutableUpdateConstantKey", "topsExecutableUpdateRuntimeResource", "topsLaunchExecutable",
    "topsLaunchExecutableV2", "topsLaunchExecutableV3", "topsLaunchExecutableWithConstData",
    "topsLaunchExecutableWithConstDataV2", "topsLaunchExecutableWithConstDataV3",
)  # fmt: skip

# ---- executables


@call
def topsCreateExecutable(bin: object, size: int) -> int:
    """Open the executable in `size` bytes of host memory, such as `Executable.to_bytes` returns.

    InvalidImage: not an executable, or a damaged one. InvalidValue: null, or memory of fewer bytes. NotSupported: the
    package onnx is not installed.
    """
    nbytes = size_of(size)
    if is_null(bin):
        raise InvalidValue("bin must be the bytes of an executable, got null")
    return _open(host_copy(bin, nbytes, "bin"))


@call
def topsCreateExecutableFromFile(filepath: str | bytes | os.PathLike[str]) -> int:
    """Open the executable in a file.

    FileNotFound: it cannot be read. InvalidImage: not an executable, or damaged. InvalidValue: not a path.
    NotSupported: the package onnx is not installed.
    """
    return _open(contents_of(filepath, "filepath", MOST_BYTES))


@call
def topsDestroyExecutable(exe: int) -> None:
    """End an executable. Launches that are enqueued keep what they use, and pointers of loaded constants stay valid.

    InvalidHandle.
    """
    take(exe, Executable).close()


@call
def topsExecutableSaveToFile(exe: int, path: str | bytes | os.PathLike[str]) -> None:
    """Write an executable to a file, with its constants as they are.

    IllegalState: constants were refitted, and topsExecutableUpdateConstantKey was not called since. OperatingSystem:
    the file cannot be written. InvalidValue: not a path. InvalidHandle.
    """
    found = executable_of(exe)
    target = path_of(path, "path")
    try:
        found.save(target)
    except OSError as error:
        raise CodeError(Result.OperatingSystem, f"cannot write path {target!r}: {error.strerror}") from None


def _open(data: bytes) -> int:
    current_board()
    return register(Executable.from_bytes(data), None)


# ---- shared by the functions of executables


def executable_of(handle: object) -> Executable:
    """Return the executable of a handle, or one of the object API itself. Raises InvalidHandle."""
    return handle if isinstance(handle, Executable) else live(handle, Executable)


def _bundle_for(res: object, context: DeviceContext) -> ResourceBundle | None:
    """Return the bundle of a handle; None for null, which means the caller's default."""
    return None if is_null(res) else bundle_of(context, live(res, ResourceBundle))


def _pointers_in(values: object, count: object, wanted: int, what: str) -> list[object]:
    """Return a list of pointers, of the number that is wanted; `count` is None or their number."""
    found = listed(values, count, f"{what}s")
    if len(found) != wanted:
        raise InvalidValue(f"expected {wanted} {what}s, got {len(found)}")
    return found


def _shapes_in(dims: object, ranks: object, count: int) -> list[tuple[int, ...]]:
    """Return shapes, given as a flat list of extents and a list of ranks."""
    flat, lengths = numbers(dims, None, "input_dims"), numbers(ranks, None, "input_rank")
    if len(lengths) != count or any(each < 0 for each in lengths) or sum(lengths) != len(flat):
        raise InvalidValue(
            f"input_rank must have a rank for each of {count} inputs, and input_dims that many extents in all, "
            f"got {lengths} and {len(flat)} extents"
        )
    if any(each < 0 for each in flat):
        raise InvalidValue(f"input_dims must not be negative, got {flat}")
    rest = iter(flat)
    return [tuple(next(rest) for _ in range(length)) for length in lengths]


# ---- figures

Figures = int | list[int]
Info = topsExecutableInfoType_t
SectionType = topsExtExecutableSectionHeaderType_t


def _flat(values: Sequence[Sequence[int]]) -> list[int]:
    return [extent for each in values for extent in each]


def _sizes(records: Sequence[TensorRecord]) -> list[int]:
    return [each.nbytes for each in records]


ANSWERS: Final[Mapping[Info, Callable[[Executable], Figures]]] = MappingProxyType({
    Info.topsExecutableInfoInputCount: lambda exe: len(exe.inputs),
    Info.topsExecutableInfoOutputCount: lambda exe: len(exe.outputs),
    Info.topsExecutableInfoInputSizeList: lambda exe: _sizes(exe.inputs),
    Info.topsExecutableInfoOutputSizeList: lambda exe: _sizes(exe.outputs),
    Info.topsExecutableInfoInputRank: lambda exe: [len(each.dims) for each in exe.inputs],
    Info.topsExecutableInfoInputDimsList: lambda exe: _flat([each.dims for each in exe.inputs]),
    Info.topsExecutableInfoOutputRank: lambda exe: [len(each.dims) for each in exe.outputs],
    Info.topsExecutableInfoOutputDimsList: lambda exe: _flat([each.dims for each in exe.outputs]),
    Info.topsExecutableInfoInputDataTypeList: lambda exe: [each.element for each in exe.inputs],
    Info.topsExecutableInfoOutputDataTypeList: lambda exe: [each.element for each in exe.outputs],
    Info.topsExecutableInfoTensorTableSize: lambda exe: len(exe.constants),
    Info.topsExecutableInfoInputMinDimsList: lambda exe: _flat([each.minimum for each in exe.inputs]),
    Info.topsExecutableInfoInputMaxDimsList: lambda exe: _flat([each.maximum for each in exe.inputs]),
    Info.topsExecutableInfoOutputMaxDimsList: lambda exe: _flat([each.maximum for each in exe.outputs]),
    Info.topsExecutableInfoBlockCount: lambda exe: exe.geometry[0],
    Info.topsExecutableInfoInputBankList: lambda exe: [each.bank for each in exe.inputs],
    Info.topsExecutableInfoOutputBankList: lambda exe: [each.bank for each in exe.outputs],
    Info.topsExecutableInfoThreadNumberPerBlock: lambda exe: exe.geometry[1],
})


@call
def topsExecutableQueryInfo(exe: int, info_type: topsExecutableInfoType_t) -> int | list[int]:
    """Return a figure of an executable, or a list with one for each input or output; dims follow each other.

    Sizes are in bytes, data types are ONNX's numbers of them, the tensor table's size is the number of constants.
    NotSupported: it depends on dims that only a launch tells. InvalidValue: no such figure. InvalidHandle.
    """
    found = executable_of(exe)
    which = member(Info, info_type, "info_type")
    figures = ANSWERS[which](found)
    if isinstance(figures, list) and -1 in figures:
        raise NotSupported(f"{which.name} of {found!r} depends on the launch; topsExecutableQueryInfoV2 gives -1")
    return figures


@call
def topsExecutableQueryInfoV2(exe: int, info_type: topsExecutableInfoType_t) -> int | list[int]:
    """As topsExecutableQueryInfo, with -1 for what only a launch tells. InvalidValue: no such figure. InvalidHandle."""
    return ANSWERS[member(Info, info_type, "info_type")](executable_of(exe))


@call
def topsExecutableQueryInputName(exe: int, index: int) -> str:
    """Return the name of an input. InvalidValue: no such input. InvalidHandle."""
    return _named(executable_of(exe).inputs, index, "inputs")


@call
def topsExecutableQueryOutputName(exe: int, index: int) -> str:
    """Return the name of an output. InvalidValue: no such output. InvalidHandle."""
    return _named(executable_of(exe).outputs, index, "outputs")


@call
def topsExecutableGetSectionCount(exe: int, sh_type: topsExtExecutableSectionHeaderType_t) -> int:
    """Return how many sections of a type there are; SHT_LAST_TYPE counts all.

    InvalidValue: not a type. InvalidHandle.
    """
    sections = executable_of(exe).sections
    which = member(SectionType, sh_type, "sh_type")
    return len(sections) if which is SectionType.SHT_LAST_TYPE else sum(int(each.kind) == which for each in sections)


@call
def topsExecutableGetSectionInfo(
    exe: int, sh_type: topsExtExecutableSectionHeaderType_t, mc: int
) -> topsExtExecutableSectionInfo_t:
    """Return where the section of a type is in the file, and its copy on bank `mc` of the current device.

    `loaded_address` is 0 while there is no copy on that bank: constants are loaded by the first launch on a device, by
    topsExecutableUpdateRuntimeResource and by topsExecutableLoadConstData. `key` is that of constants. NotFound: the
    executable has no such section. InvalidValue: not a type, not a bank. InvalidHandle.
    """
    found = executable_of(exe)
    which, device = member(SectionType, sh_type, "sh_type"), current_device()
    bank = index_in(mc, device.arch.banks, "mc")
    if which is SectionType.SHT_LAST_TYPE:
        raise InvalidValue("sh_type must be the type of one section, got SHT_LAST_TYPE, which is their number")
    position, section, address = found.section(which, device.context, bank)
    return topsExtExecutableSectionInfo_t(
        index=position,
        sh_type=which,
        size=len(section.content),
        device_load_size=section.device_bytes,
        offset_in_exe=section.offset,
        loaded_address=address,
        key=section.key,
    )


def _named(records: Sequence[TensorRecord], index: object, what: str) -> str:
    return records[index_in(index, len(records), f"the index of {what}")].name


# ---- launches


def _launch(
    exe: object, res: object, inputs: object, input_count: object, input_dims: object, input_rank: object,
    outputs: object, output_count: object, stream: object, constants: tuple[object, object] | None = None, *,
    exact: bool = False,
) -> tuple[Stream, Completion]:  # fmt: skip
    """Enqueue a launch; the result of the completion is the shapes of the outputs. Raises as the functions below do.

    `constants` are the pointers of a launch WithConstData and their count.
    """
    queue = usable_stream_of(stream)
    found = executable_of(exe)
    bundle = _bundle_for(res, queue_of(queue).context)
    sources = _pointers_in(inputs, input_count, len(found.inputs), "input")
    targets = _pointers_in(outputs, output_count, len(found.outputs), "output")
    shapes = _shapes_in(input_dims, input_rank, len(sources))
    arrays = [
        _typed_memory(pointer, record.kind, shape, f"input {record.name}")
        for pointer, record, shape in zip(sources, found.inputs, shapes, strict=True)
    ]
    results = [
        _room_at(pointer, record.nbytes, f"output {record.name}")
        for pointer, record in zip(targets, found.outputs, strict=True)
    ]
    given: list[Buffer] | None = None
    if constants is not None:
        given = [
            device_memory(pointer, record.nbytes, f"constant {record.name}", plain=False)
            for pointer, record in zip(
                _pointers_in(*constants, len(found.constants), "const_data"), found.constants, strict=True
            )
        ]
    return queue, found.launch(queue, arrays, results, constants=given, exact=exact, bundle=bundle)


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
    _, launched = _launch(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream)
    return _dims_and_ranks(await until(launched))


@call
def topsLaunchExecutableV2(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, stream: int | None,
) -> None:  # fmt: skip
    """Run an executable in stream order, for the dims that it was built for.

    InvalidValue: other dims, and as for topsLaunchExecutable. A failure of the run is a failure of the stream.
    """
    _launch(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream, exact=True)


@call
def topsLaunchExecutableV3(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, stream: int | None,
) -> tuple[Sequence[int], Sequence[int]]:  # fmt: skip
    """Run an executable in stream order; return the dims of its outputs, flat, and their ranks, which are filled later.

    A host callback in the stream fills them. Reading them before that raises NotReady. InvalidValue: as for
    topsLaunchExecutable. A failure of the run is a failure of the stream.
    """
    return _later(*_launch(exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream))


@call
async def topsLaunchExecutableWithConstData(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, const_datas: Sequence[int],
    const_datas_count: int | None, stream: int | None,
) -> tuple[list[int], list[int]]:  # fmt: skip
    """As topsLaunchExecutable, with the constants at these pointers, in the order of topsExecutableLoadConstData."""
    _, launched = _launch(
        exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream,
        (const_datas, const_datas_count),
    )  # fmt: skip
    return _dims_and_ranks(await until(launched))


@call
def topsLaunchExecutableWithConstDataV2(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, const_datas: Sequence[int],
    const_datas_count: int | None, stream: int | None,
) -> None:  # fmt: skip
    """As topsLaunchExecutableV2, with the constants at these pointers, in the order of topsExecutableLoadConstData."""
    _launch(
        exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream,
        (const_datas, const_datas_count), exact=True,
    )  # fmt: skip


@call
def topsLaunchExecutableWithConstDataV3(
    exe: int, res: int | None, inputs: Sequence[int], input_count: int | None, input_dims: Sequence[int],
    input_rank: Sequence[int], outputs: Sequence[int], output_count: int | None, const_datas: Sequence[int],
    const_datas_count: int | None, stream: int | None,
) -> tuple[Sequence[int], Sequence[int]]:  # fmt: skip
    """As topsLaunchExecutableV3, with the constants at these pointers, in the order of topsExecutableLoadConstData."""
    queued = _launch(
        exe, res, inputs, input_count, input_dims, input_rank, outputs, output_count, stream,
        (const_datas, const_datas_count),
    )  # fmt: skip
    return _later(*queued)


def _dims_and_ranks(shapes: Sequence[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    return _flat(shapes), [len(shape) for shape in shapes]


def _later(queue: Stream, launched: Completion) -> tuple[Sequence[int], Sequence[int]]:
    """Enqueue the callback that fills dims and ranks, and return both."""

    def output_dims() -> tuple[list[int], list[int]]:
        return _dims_and_ranks(launched.result())

    filled = queue.call(output_dims)
    return _LaterNumbers(filled, 0), _LaterNumbers(filled, 1)


class _LaterNumbers(Sequence[int]):
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


def _typed_memory(pointer: object, dtype: np.dtype[np.generic], shape: tuple[int, ...], what: str) -> DeviceArray:
    nbytes = math.prod(shape) * dtype.itemsize
    return device_memory(pointer, nbytes, what, plain=False).view(dtype, shape)


def _room_at(pointer: object, nbytes: int, what: str) -> Buffer:
    """Return the memory at a pointer for a result of `nbytes`; with -1 (not known yet), all that follows it."""
    if nbytes >= 0:
        return device_memory(pointer, nbytes, what, plain=False)
    board, address = current_board(), address_of(pointer, what)
    found = alias_at(board, address) or find_device(board, address, what)
    return device_memory(pointer, found.size - (address - found.address), what, plain=False)


# ---- constants


@call
async def topsExecutableLoadConstData(exe: int, res: int | None) -> tuple[list[int], int]:
    """Upload every constant to memory of its own on the current device; return the pointers, and how many.

    The launches WithConstData take them in this order. topsFree frees each. OutOfMemory: then nothing is left
    allocated. InvalidHandle.
    """
    found = executable_of(exe)
    device = current_device()
    bundle = _bundle_for(res, device.context)
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
    found = executable_of(exe).managed_constants(current_board().driver)
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
    sources = _pointers_in(inputs, input_count, len(function.inputs), "input")
    targets = _pointers_in(outputs, output_count, len(function.outputs), "output")
    shapes = _shapes_in(input_dims, input_rank, len(sources))
    arrays: list[DeviceArray] = []
    for pointer, record, shape in zip(sources, function.inputs, shapes, strict=True):
        room = _allocated(pointer, f"input {record.name}")
        nbytes = math.prod(shape) * record.kind.itemsize
        if nbytes > room.nbytes:
            raise InvalidValue(f"input {record.name} has {nbytes} bytes; {room!r} has {room.nbytes}")
        arrays.append(room[:nbytes].view(record.kind, shape))
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
    executable_of(exe).update(queue, _bundle_for(res, queue_of(queue).context))


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
    return Buffer(allocation, found.offset, board=current_board())
