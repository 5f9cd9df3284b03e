"""Modules: TOPS Runtime API, 2.8. A module is a code image, loaded for the current device until that is reset."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Final
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
from atops.tops.bridge.arguments import member, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.context import current_device
from atops.tops.bridge.handles import drop, live, register, take
from atops.tops.bridge.pointers import find_host, host_pointer, is_null
from atops.tops.functions.module.launching import LoadedFunction, function_of
from atops.tops.types.enumerations import topsFunction_attribute, topsJitOption
from atops.tops.types.structs import topsFuncAttributes

__all__ = (
    "topsFuncGetAttribute",
    "topsFuncGetAttributes",
    "topsModuleGetFunction",
    "topsModuleLoad",
    "topsModuleLoadData",
    "topsModuleLoadDataEx",
    "topsModuleUnload",
)


class _Loaded:
    """What a module has beside its definitions: the device that it was loaded on, and the functions asked for."""

    def __init__(self, context: DeviceContext) -> None:
        self.context = context
        self.lock = fork_safe(threading.Lock())
        self.handles: dict[Kernel, tuple[LoadedFunction, int]] = {}


LOADED: Final[WeakKeyDictionary[Module, _Loaded]] = WeakKeyDictionary()


# ---- loading


@call.instead({Result.InvalidImage: Result.SharedObjectInitFailed})
def topsModuleLoad(fname: str | bytes | os.PathLike[str]) -> int:
    """Load the code image in a file (`CodeImage.save` writes one; the bytes of topsrtcGetCode are one).

    FileNotFound: it cannot be read. SharedObjectInitFailed: it is no code image, or damaged. InvalidValue: no path.
    """
    if not isinstance(fname, str | bytes | os.PathLike) or not os.fspath(fname):
        raise InvalidType(f"fname is {fname!r}; the path of a code image is right")
    current_device()
    try:
        with open(fname, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CodeError(Result.FileNotFound, f"fname is {os.fspath(fname)!r}: {error.strerror}") from None
    return _load(data)


@call
def topsModuleLoadData(image: Any) -> int:
    """Load a code image in host memory: bytes, a buffer, or a pinned host pointer.

    InvalidImage: it is none, or a damaged one. InvalidValue: null, or no memory.
    """
    return _load(_image(image))


@call
def topsModuleLoadDataEx(
    image: Any, numOptions: int | None, options: Sequence[topsJitOption] | None, optionValues: Sequence[Any] | None
) -> int:
    """As topsModuleLoadData. The options do nothing: they are checked for their count and types.

    `numOptions` may be None, and both sequences, if there are none. Values are numbers, None or buffers. InvalidValue.
    """
    data = _image(image)
    names, values = _listed(options, "options"), _listed(optionValues, "optionValues")
    count = len(names) if numOptions is None else whole(numOptions, "numOptions")
    if not count == len(names) == len(values):
        raise InvalidValue(f"numOptions is {count}; there are {len(names)} options and {len(values)} values")
    for name, value in zip(names, values, strict=True):
        if member(topsJitOption, name, "an option") is topsJitOption.topsJitOptionNumOptions:
            raise InvalidValue("topsJitOptionNumOptions is the number of options, and none itself")
        if value is not None and not isinstance(value, int | float):
            try:
                memoryview(value)
            except TypeError:
                raise InvalidType(f"the value of an option is {value!r}; a number, None or a buffer is right") from None
    return _load(data)


@call.instead({Result.InvalidHandle: Result.InvalidValue})
def topsModuleUnload(module: int) -> None:
    """Let a module, its functions and its variables be gone. Launches that are enqueued keep what they use.

    InvalidValue: no live module.
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
    """Return a handle of a module: compiled now, so that what is wrong with it shows now."""
    context = current_device().context
    module = load_module(data)
    _ = module.kernels
    LOADED[module] = _Loaded(context)
    return register(module, context)


def _image(image: Any) -> bytes:
    """Return the bytes of an image in host memory; at a pointer, as many as its header says."""
    if is_null(image):
        raise InvalidValue("image is null; the bytes of a code image are right")
    if hasattr(image, "__index__") and not isinstance(image, np.ndarray):
        host = find_host(image, "image")
        data = host.data[host_pointer(image) - host.host_address :].tobytes()
        return data[: image_size(data)]
    try:
        return memoryview(image).tobytes()
    except TypeError:
        raise InvalidType(f"image is {image!r}; the bytes of a code image are right") from None


def _listed(values: Any, what: str) -> Sequence[Any]:
    if values is None:
        return ()
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidType(f"{what} are {values!r}; a sequence, or None, is right")
    return values


# ---- functions


@call
def topsModuleGetFunction(module: int, kname: str | bytes) -> int:
    """Return the kernel of this name, plain or lowered; the same handle each time.

    InvalidHandle; NotFound: no kernel of this name; InvalidValue: no text.
    """
    found = live(module, Module)
    name = kname.decode() if isinstance(kname, bytes) else kname
    if not isinstance(name, str) or not name:
        raise InvalidType(f"kname is {kname!r}; the name of a kernel is right")
    loaded = LOADED[found]
    with loaded.lock:
        kernel = found.function(name)
        if kernel not in loaded.handles:
            function = LoadedFunction(kernel, loaded.context)
            loaded.handles[kernel] = function, register(function, loaded.context)
        return loaded.handles[kernel][1]


@call
def topsFuncGetAttributes(func: Any) -> topsFuncAttributes:
    """Return what is known of a function, a handle or a kernel, before it runs; sizes in bytes.

    localSizeBytes is L1 for each thread, sharedSizeBytes L2 beside dynamic shared memory; a size that the text does not
    tell is 0. numRegs counts the slots of its frame. No cache mode and no carve-out exists: 0. InvalidDeviceFunction:
    null, or no function; InvalidHandle.
    """
    return _attributes(func)


@call
def topsFuncGetAttribute(attrib: topsFunction_attribute, hfunc: int) -> int:
    """Return one of the figures of topsFuncGetAttributes.

    InvalidValue: no attribute; InvalidDeviceFunction: null, or no function; InvalidHandle.
    """
    which = member(topsFunction_attribute, attrib, "attrib")
    if which >= len(FIELDS):
        raise InvalidValue(f"attrib is {which.name}, a bound and no attribute")
    return int(getattr(_attributes(hfunc), FIELDS[which]))


# The figures of a function, in the order of the enumeration.
FIELDS: Final = (
    "maxThreadsPerBlock", "sharedSizeBytes", "constSizeBytes", "localSizeBytes", "numRegs", "ptxVersion",
    "binaryVersion", "cacheModeCA", "maxDynamicSharedSizeBytes", "preferredShmemCarveout",
)  # fmt: skip


def _attributes(func: Any) -> topsFuncAttributes:
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
