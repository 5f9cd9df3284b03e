"""Modules: TOPS Runtime API, 2.8. A module is a code image, loaded on the current device until its reset."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from atops.base.errors import InvalidType, InvalidValue
from atops.base.fork_locks import fork_safe
from atops.base.result_codes import Result
from atops.kernels.compile.image import MOST_BYTES, image_size
from atops.kernels.compile.kernel_attributes import function_attributes
from atops.kernels.compile.module import Module
from atops.kernels.compile.program import load_module
from atops.kernels.kernel import Kernel
from atops.runtime.board.context import DeviceContext
from atops.runtime.current_driver import current_driver
from atops.runtime.symbols import forget
from atops.tops.bridge.arguments import contents_of, listed, member, text_of
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.bridge.handles import drop, live, register, take
from atops.tops.bridge.pointers import find_host, host_pointer, is_null
from atops.tops.functions.module.launch import LoadedFunction, function_of
from atops.tops.types.enumerations import topsFunction_attribute, topsJitOption
from atops.tops.types.structs import topsFuncAttributes

__all__ = (
    "topsFuncGetAttribute", "topsFuncGetAttributes", "topsModuleGetFunction", "topsModuleLoad", "topsModuleLoadData",
    "topsModuleLoadDataEx", "topsModuleUnload",
)  # fmt: skip


class _Loaded:
    """The device that a module was loaded on, and the handles of its functions."""

    def __init__(self, context: DeviceContext) -> None:
        self.context = context
        self.lock = fork_safe(threading.Lock())
        self.handles: dict[Kernel, tuple[LoadedFunction, int]] = {}


LOADED: Final[WeakKeyDictionary[Module, _Loaded]] = WeakKeyDictionary()


# ---- loading


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
    for context in current_driver().contexts:
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
        host = find_host(image, "image")
        data = host.data[host_pointer(image) - host.host_address :].tobytes()
        return data[: image_size(data)]
    try:
        return memoryview(image).tobytes()  # type: ignore[arg-type]  # TypeError is the answer
    except TypeError:
        raise InvalidType(f"image must be the bytes of a code image, got {image!r}") from None


# ---- functions


@call
def topsModuleGetFunction(module: int, kname: str | bytes) -> int:
    """Return the kernel of this name, plain or lowered; the same handle each time.

    InvalidHandle; NotFound: no kernel of this name; InvalidValue: not a text.
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
    """Return the attributes of a function, as it was compiled, or for the current device."""
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
