"""Modules, their functions (TOPS Runtime API, 2.8) and variables (2.6), and runtime compilation (2.10).

A module is a code image, loaded on the current device until its reset. A symbol is the declared variable itself, or its
name, of device or constant memory alike. A program's language is Python; one in C++ is refused in its log.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from atops.base.errors import AtopsError, CompilationError, InvalidType, InvalidValue, UsageError
from atops.base.locks import fork_safe
from atops.base.result_codes import Result
from atops.bridge.arguments import contents_of, listed, member, size_of, text_of
from atops.bridge.call import Wait
from atops.bridge.codes import CodeError
from atops.bridge.handles import current_board, current_device, drop, live, register, take, usable_stream_of
from atops.bridge.pointers import find_host, is_null
from atops.kernels.kernel import Kernel
from atops.kernels.memory.device_variables import Variable
from atops.kernels.programs.image import MOST_BYTES, image_size
from atops.kernels.programs.kernel_attributes import function_attributes
from atops.kernels.programs.program import Module, Program, load_module
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.symbols import Symbol, forget
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.stream import Stream
from atops.tops.functions.api import call, rtc_call
from atops.tops.functions.copy import Started, start_copy
from atops.tops.functions.launch import LoadedFunction, function_of
from atops.tops.header.constants import RTC_VERSION
from atops.tops.header.enumerations import topsFunction_attribute, topsJitOption, topsMemcpyKind
from atops.tops.header.error_codes import topsrtcResult
from atops.tops.header.structs import topsFuncAttributes

__all__ = (
    "TOPS_SYMBOL", "topsFuncGetAttribute", "topsFuncGetAttributes", "topsGetSymbolAddress", "topsGetSymbolSize",
    "topsMemcpyFromSymbol", "topsMemcpyFromSymbolAsync", "topsMemcpyToSymbol", "topsMemcpyToSymbolAsync",
    "topsModuleGetFunction", "topsModuleGetGlobal", "topsModuleLoad", "topsModuleLoadData", "topsModuleLoadDataEx",
    "topsModuleUnload", "topsrtcAddNameExpression", "topsrtcCompileProgram", "topsrtcCreateProgram",
    "topsrtcDestroyProgram", "topsrtcGetCode", "topsrtcGetCodeSize", "topsrtcGetErrorString", "topsrtcGetLoweredName",
    "topsrtcGetProgramLog", "topsrtcGetProgramLogSize", "topsrtcVersion",
)  # fmt: skip

# ---- modules (2.8)


class _Loaded:
    """The device that a module was loaded on, and the handles of its functions."""

    def __init__(self, context: DeviceContext) -> None:
        self.context = context
        self.lock = fork_safe(threading.Lock())
        self.handles: dict[Kernel, tuple[LoadedFunction, int]] = {}


LOADED: Final[WeakKeyDictionary[Module, _Loaded]] = WeakKeyDictionary()


@call.instead({Result.InvalidImage: Result.SharedObjectInitFailed})
def topsModuleLoad(fname: str | bytes | os.PathLike[str]) -> int:
    """Load the code image in a file (`CodeImage.save` writes one; the bytes of topsrtcGetCode are one).

    FileNotFound: it cannot be read. SharedObjectInitFailed: not a code image, or damaged. InvalidValue: not a path.
    """
    current_device()
    return _load(contents_of(fname, "fname", MOST_BYTES))


@call
def topsModuleLoadData(image: object) -> int:
    """Load a code image in host memory: bytes, a buffer, or a pinned host pointer.

    InvalidImage: not a code image, or a damaged one. InvalidValue: null, or not memory.
    """
    return _load(_image(image))


@call
def topsModuleLoadDataEx(
    image: object,
    numOptions: int | None,
    options: Sequence[topsJitOption] | None,
    optionValues: Sequence[object] | None,
) -> int:
    """As topsModuleLoadData. The options have no effect; their count and types are checked.

    `numOptions` may be None, and so may both sequences where there are no options. Values are numbers, None or buffers.
    InvalidValue.
    """
    data = _image(image)
    names = listed(() if options is None else options, numOptions, "options")
    values = listed(() if optionValues is None else optionValues, len(names), "optionValues")
    for name, value in zip(names, values, strict=True):
        if member(topsJitOption, name, "an option") is topsJitOption.topsJitOptionNumOptions:
            raise InvalidValue("topsJitOptionNumOptions is the number of options, not an option")
        if value is not None and not isinstance(value, int | float):
            try:
                memoryview(value)  # type: ignore[arg-type]  # TypeError is the answer
            except TypeError:
                raise InvalidType(f"the value of an option must be a number, None or a buffer, got {value!r}") from None
    return _load(data)


@call.instead({Result.InvalidHandle: Result.InvalidValue})
def topsModuleUnload(module: int) -> None:
    """Unload a module with its functions and variables. Launches that are enqueued keep what they use.

    InvalidValue: not a live module.
    """
    taken = take(module, Module)
    loaded = LOADED[taken]
    variables = taken.variables.values()
    with loaded.lock:
        taken.unload()
        drop({function for function, _ in loaded.handles.values()})
    for context in current_board().contexts:
        for variable in variables:
            forget(context, variable)


def _load(data: bytes) -> int:
    """Return a handle of a module, which is compiled now, so that its errors are reported now."""
    context = current_device().context
    module = load_module(data)
    _ = module.kernels
    LOADED[module] = _Loaded(context)
    return register(module, context)


def _image(image: object) -> bytes:
    """Return the bytes of an image in host memory; at a pointer, as many as its header says."""
    if is_null(image):
        raise InvalidValue("image must be the bytes of a code image, got null")
    if hasattr(image, "__index__") and not isinstance(image, np.ndarray):
        host, offset = find_host(image, "image")
        data = host.data[offset:].tobytes()
        return data[: image_size(data)]
    try:
        return memoryview(image).tobytes()  # type: ignore[arg-type]  # TypeError is the answer
    except TypeError:
        raise InvalidType(f"image must be the bytes of a code image, got {image!r}") from None


# ---- functions (2.8)


@call
def topsModuleGetFunction(module: int, kname: str | bytes) -> int:
    """Return the kernel of this name, plain or lowered; the same handle each time.

    InvalidHandle; NotFound: no kernel of this name; InvalidValue: null, not a text.
    """
    found = live(module, Module)
    name = text_of(kname, "kname")
    if not name:
        raise InvalidValue("kname must be the name of a kernel, got an empty text")
    loaded = LOADED[found]
    with loaded.lock:
        kernel = found.function(name)
        if kernel not in loaded.handles:
            function = LoadedFunction(kernel, loaded.context)
            loaded.handles[kernel] = function, register(function, loaded.context)
        return loaded.handles[kernel][1]


@call
def topsFuncGetAttributes(func: object) -> topsFuncAttributes:
    """Return what is known of a function (a handle or a kernel) before it runs; sizes in bytes.

    localSizeBytes is L1 for each thread, sharedSizeBytes L2 beside dynamic shared memory; a size that the text does not
    tell is 0. numRegs counts the slots of its frame. There are no cache modes and no carve-outs: 0.
    InvalidDeviceFunction: null, or not a function; InvalidHandle.
    """
    return _attributes(func)


@call
def topsFuncGetAttribute(attrib: topsFunction_attribute, hfunc: int) -> int:
    """Return one of the figures of topsFuncGetAttributes.

    InvalidValue: not an attribute; InvalidDeviceFunction: null, or not a function; InvalidHandle.
    """
    which = member(topsFunction_attribute, attrib, "attrib")
    if which >= len(FIELDS):
        raise InvalidValue(f"attrib must be an attribute, got {which.name}, which is their number")
    return int(getattr(_attributes(hfunc), FIELDS[which]))


# The fields of topsFuncAttributes in the order of topsFunction_attribute.
FIELDS: Final = (
    "maxThreadsPerBlock", "sharedSizeBytes", "constSizeBytes", "localSizeBytes", "numRegs", "ptxVersion",
    "binaryVersion", "cacheModeCA", "maxDynamicSharedSizeBytes", "preferredShmemCarveout",
)  # fmt: skip


def _attributes(func: object) -> topsFuncAttributes:
    kernel = function_of(func).kernel
    figures = function_attributes(kernel, kernel.target or current_device().geometry)
    return topsFuncAttributes(
        binaryVersion=figures.binary_version,
        constSizeBytes=figures.constant_bytes,
        localSizeBytes=figures.local_bytes or 0,
        maxDynamicSharedSizeBytes=figures.max_dynamic_shared_bytes or 0,
        maxThreadsPerBlock=figures.max_threads_per_block,
        numRegs=figures.registers,
        ptxVersion=figures.virtual_version,
        sharedSizeBytes=figures.shared_bytes or 0,
    )


# ---- variables (2.6)

H2D: Final = topsMemcpyKind.topsMemcpyHostToDevice
D2H: Final = topsMemcpyKind.topsMemcpyDeviceToHost
D2D: Final = topsMemcpyKind.topsMemcpyDeviceToDevice
ANY: Final = topsMemcpyKind.topsMemcpyDefault

T = TypeVar("T")


def TOPS_SYMBOL(symbol: T) -> T:
    """Return the symbol: the macro that C code puts around one."""
    return symbol


@call
def topsModuleGetGlobal(hmod: int, name: str | bytes) -> tuple[int, int]:
    """Return the device pointer and the size of a module's variable on the module's device.

    InvalidHandle; NotFound: no such variable; InvalidValue: not a text.
    """
    module = live(hmod, Module)
    wanted = text_of(name, "name")
    if not wanted:
        raise InvalidValue("name must be the name of a variable, got an empty text")
    found = Device(LOADED[module].context.ordinal).symbol(module.variable(wanted))
    return found.address, found.nbytes


@call
def topsGetSymbolAddress(symbol: Variable | str) -> int:
    """Return the device pointer of a symbol on the current device. InvalidSymbol; InvalidValue: not a symbol."""
    return _instance(symbol, current_device()).address


@call
def topsGetSymbolSize(symbol: Variable | str) -> int:
    """Return the size of a symbol in bytes. InvalidSymbol: unknown; InvalidValue: other types."""
    return _instance(symbol, current_device()).nbytes


@call
def topsMemcpyToSymbol(
    symbol: Variable | str, src: object, sizeBytes: int, offset: int = 0, kind: topsMemcpyKind = H2D
) -> Wait | None:
    """Copy into a symbol of the current device, `offset` bytes from its start; waits as topsMemcpy does.

    InvalidSymbol; InvalidMemcpyDirection: the kind is not HostToDevice, DeviceToDevice or Default, or not that of
    `src`; InvalidValue: a range outside the symbol, bad memory.
    """
    return _to(usable_stream_of(None), symbol, src, sizeBytes, offset, kind).plain_wait()


@call
def topsMemcpyToSymbolAsync(
    symbol: Variable | str, src: object, sizeBytes: int, offset: int, kind: topsMemcpyKind, stream: int | None = 0
) -> Wait | None:
    """As topsMemcpyToSymbol for the device of a stream, enqueued; waits as topsMemcpyAsync does. InvalidHandle."""
    return _to(usable_stream_of(stream), symbol, src, sizeBytes, offset, kind).async_wait()


@call
def topsMemcpyFromSymbol(
    dst: object, symbol: Variable | str, sizeBytes: int, offset: int = 0, kind: topsMemcpyKind = D2H
) -> Wait | None:
    """Copy from a symbol of the current device, `offset` bytes from its start; waits as topsMemcpy does.

    InvalidSymbol; InvalidMemcpyDirection: the kind is not DeviceToHost, DeviceToDevice or Default, or not that of
    `dst`; InvalidValue: a range outside the symbol, bad memory.
    """
    return _from(usable_stream_of(None), dst, symbol, sizeBytes, offset, kind).plain_wait()


@call
def topsMemcpyFromSymbolAsync(
    dst: object, symbol: Variable | str, sizeBytes: int, offset: int, kind: topsMemcpyKind, stream: int | None = 0
) -> Wait | None:
    """As topsMemcpyFromSymbol for the device of a stream, enqueued; waits as topsMemcpyAsync does. InvalidHandle."""
    return _from(usable_stream_of(stream), dst, symbol, sizeBytes, offset, kind).async_wait()


def _to(stream: Stream, symbol: Variable | str, src: object, nbytes: int, offset: int, kind: object) -> Started:
    part = _part(stream, symbol, nbytes, offset, kind, H2D)
    return start_copy(stream, part, src, part.nbytes, kind)


def _from(stream: Stream, dst: object, symbol: Variable | str, nbytes: int, offset: int, kind: object) -> Started:
    part = _part(stream, symbol, nbytes, offset, kind, D2H)
    return start_copy(stream, dst, part, part.nbytes, kind)


def _part(
    stream: Stream, symbol: Variable | str, nbytes: int, offset: int, kind: object, usual: topsMemcpyKind
) -> Buffer:
    whole = _instance(symbol, Device(stream.device_id))
    if member(topsMemcpyKind, kind, "kind", Result.InvalidMemcpyDirection) not in (usual, D2D, ANY):
        raise CodeError(Result.InvalidMemcpyDirection, f"kind must be {usual.name} or DeviceToDevice, got {kind!r}")
    size, start = size_of(nbytes, "sizeBytes"), size_of(offset, "offset")
    if start + size > whole.nbytes:
        raise InvalidValue(f"sizeBytes and offset must lie in {whole!r} of {whole.nbytes} bytes, got {size} at {start}")
    return Buffer(whole.allocation, whole.offset + start, size, board=current_board())


def _instance(symbol: Variable | str, device: Device) -> Symbol:
    """Return a device's instance of a symbol. Raises CodeError InvalidSymbol for null and unknown names."""
    if symbol is None or (isinstance(symbol, str | int) and not symbol):
        raise CodeError(Result.InvalidSymbol, "the symbol must be a declared variable or its name, got null")
    return device.symbol(symbol)


# ---- runtime compilation (2.10)

Text = str | bytes


@rtc_call
def topsrtcGetErrorString(result: object) -> str:
    """Return the name of a code; "Invalid TOPSRTC error code" for other values."""
    try:
        return topsrtcResult(result).name  # type: ignore[arg-type]  # ValueError for other types too
    except ValueError:
        return "Invalid TOPSRTC error code"


@rtc_call
def topsrtcVersion() -> tuple[int, int]:
    """Return the major and the minor number of the version."""
    return RTC_VERSION


@rtc_call
def topsrtcCreateProgram(
    source: Text,
    name: Text | None,
    num_headers: int | None,
    headers: Sequence[Text] | None,
    include_names: Sequence[Text] | None,
) -> int:
    """Return a program of a source text. `name` is what its log calls it; None is "program".

    A name that ends as C++ does (.cu, .cpp, ...) says that the text is C++, which does not compile here.

    `headers` are texts that it may import, by the names that `include_names` has in the same order; both may be None.
    INVALID_INPUT: not texts, or another count.
    """
    texts, names = _texts(headers, num_headers, "headers"), _texts(include_names, num_headers, "include_names")
    if len(texts) != len(names) or len(set(names)) < len(names):
        raise InvalidValue(f"include_names must have a name of its own for each of {len(texts)} headers, got {names}")
    called = "program" if is_null(name) else text_of(name, "name")
    return register(Program(text_of(source, "source"), called, dict(zip(names, texts, strict=True))), None)


@rtc_call
def topsrtcDestroyProgram(program: int) -> None:
    """End a program. INVALID_INPUT: null; INVALID_PROGRAM: not a live program."""
    if is_null(program):
        raise InvalidValue("program is null")
    take(program, Program)


@rtc_call.instead({Result.IllegalState: topsrtcResult.TOPSRTC_ERROR_INVALID_INPUT})
def topsrtcAddNameExpression(program: int, name_expression: Text) -> None:
    """Ask for the lowered name of a kernel or a variable, as "scale" or "&scale", before the program is compiled.

    INVALID_INPUT: null, not a name, or after the compilation; INVALID_PROGRAM.
    """
    live(program, Program).add_name_expression(text_of(name_expression, "name_expression"))


@rtc_call
def topsrtcCompileProgram(program: int, num_options: int | None, options: Sequence[Text] | None) -> None:
    """Compile a program, for the current device's architecture where no option names another.

    The log has the errors, each with its place.

    COMPILATION: errors in the text; INVALID_OPTION; INVALID_INPUT: not texts, or another count;
    INVALID_PROGRAM.
    """
    found = live(program, Program)
    texts = _texts(options, num_options, "options")
    try:
        found.compile(texts, target=current_board().arch.name)
    except CompilationError as error:  # InvalidOption is one
        first, *others = found.log.errors
        more = f"\n{len(others)} more in topsrtcGetProgramLog" if others else ""
        raise type(error)(f"{first}{more}") from None


@rtc_call
def topsrtcGetLoweredName(program: int, name_expression: Text) -> str:
    """Return the lowered name of a name expression that was added; topsModuleGetFunction takes it.

    NAME_EXPRESSION_NOT_VALID: it was not added; COMPILATION: not compiled, or with errors; INVALID_INPUT: null;
    INVALID_PROGRAM.
    """
    return live(program, Program).lowered_name(text_of(name_expression, "name_expression"))


@rtc_call
def topsrtcGetProgramLog(program: int) -> str:
    """Return the log of the last compilation, "" if it is empty. INVALID_PROGRAM."""
    return str(live(program, Program).log)


@rtc_call
def topsrtcGetProgramLogSize(program: int) -> int:
    """Return the size of the log in bytes, with the end of the text in C. INVALID_PROGRAM."""
    return len(str(live(program, Program).log).encode(errors="replace")) + 1


@rtc_call
def topsrtcGetCode(program: int) -> bytes:
    """Return the code image of the compiled program. COMPILATION: not compiled, or with errors; INVALID_PROGRAM."""
    return live(program, Program).image().to_bytes()


@rtc_call
def topsrtcGetCodeSize(program: int) -> int:
    """Return the size of the code image in bytes. COMPILATION: not compiled, or with errors; INVALID_PROGRAM."""
    return len(live(program, Program).image().to_bytes())


def _texts(values: object, count: object, what: str) -> list[str]:
    try:
        found = listed(() if is_null(values) else values, count, what)
    except UsageError:
        raise
    except AtopsError as error:  # numbers of a launch that is not over, or has failed
        raise InvalidValue(f"{what} cannot be read: {error}") from error
    return [text_of(each, f"one of {what}") for each in found]
