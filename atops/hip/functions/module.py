"""Modules, their functions and variables (004), and what is known of a function before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from inspect import unwrap
from typing import Final, Never

import numpy as np

from atops.base.errors import InvalidValue, NotFound
from atops.base.result_codes import Result
from atops.bridge.arguments import instance, listed, member, size_of, text_of, whole
from atops.bridge.call import Wait
from atops.bridge.handles import current_device, live
from atops.bridge.pointers import is_null
from atops.hip.functions.api import call, derived, made_or_given
from atops.hip.functions.host import host_bytes_of, pointer_of
from atops.hip.header.enumerations import hipFuncAttribute, hipFunction_attribute, hipJitOption, hipMemcpyKind
from atops.hip.header.structs import hipFuncAttributes
from atops.kernels.memory.device_variables import Variable
from atops.kernels.programs.image import HEADER_BYTES, image_size
from atops.kernels.programs.program import Module
from atops.tops.functions import module as tops
from atops.tops.functions.launch import function_of

__all__ = (
    "hipFuncGetAttribute", "hipFuncGetAttributes", "hipFuncSetAttribute", "hipGetFuncBySymbol", "hipGetSymbolAddress",
    "hipGetSymbolSize", "hipMemcpyFromSymbol", "hipMemcpyFromSymbolAsync", "hipMemcpyToSymbol",
    "hipMemcpyToSymbolAsync", "hipModuleGetFunction", "hipModuleGetGlobal", "hipModuleGetTexRef", "hipModuleLoad",
    "hipModuleLoadData", "hipModuleLoadDataEx", "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
    "hipModuleUnload", "hipOccupancyMaxActiveBlocksPerMultiprocessor",
)  # fmt: skip

H2D: Final = hipMemcpyKind.hipMemcpyHostToDevice
D2H: Final = hipMemcpyKind.hipMemcpyDeviceToHost
Symbol = Variable | str
COPIES: Final[Mapping[str, Callable[..., Wait | None]]] = {
    each.__name__: unwrap(each)
    for each in (
        tops.topsMemcpyToSymbol, tops.topsMemcpyToSymbolAsync, tops.topsMemcpyFromSymbol,
        tops.topsMemcpyFromSymbolAsync,
    )
}  # fmt: skip

hipModuleLoad = derived(tops.topsModuleLoad, call.instead({Result.InvalidImage: Result.SharedObjectInitFailed}))
hipModuleUnload = derived(tops.topsModuleUnload)
hipModuleGetFunction = derived(tops.topsModuleGetFunction)
hipModuleGetGlobal = derived(tops.topsModuleGetGlobal)
hipGetSymbolAddress = derived(tops.topsGetSymbolAddress)
hipGetSymbolSize = derived(tops.topsGetSymbolSize)


@call
def hipModuleLoadData(image: object) -> int:
    """Load a code image in host memory: bytes, a buffer, or a pointer to them in this process.

    InvalidImage: not a code image, or damaged; InvalidValue: null, or not memory.
    """
    made: int = unwrap(tops.topsModuleLoadData)(_image(image))
    return made


def _image(image: object) -> object:
    """Return the bytes of an image behind a pointer to memory of this process; everything else as it is."""
    if is_null(image) or not isinstance(pointer_of(image, HEADER_BYTES), np.ndarray) or isinstance(image, np.ndarray):
        return image
    return host_bytes_of(image, image_size(host_bytes_of(image, HEADER_BYTES, "image").tobytes()), "image")


@call
def hipModuleLoadDataEx(
    image: object, numOptions: int, options: Sequence[hipJitOption] | None, optionValues: Sequence[object] | None
) -> int:
    """As hipModuleLoadData. The options have no effect; their count and types are checked.

    InvalidImage: not a code image, or damaged; InvalidValue: not options, or another count.
    """
    for each in listed(() if options is None else options, None, "options"):
        member(hipJitOption, each, "an option")
    made: int = unwrap(tops.topsModuleLoadDataEx)(_image(image), numOptions or None, options, optionValues)
    return made


@call
def hipModuleGetTexRef(hmod: int, name: str | bytes) -> Never:
    """Answer NotFound: the chip has no textures, so no module has one.

    InvalidValue: null, not a module, no name.
    """
    try:
        module = live(hmod, Module)
    except Exception as error:
        raise InvalidValue(f"hmod: {error}") from error
    if not (wanted := text_of(name, "name")):
        raise InvalidValue("name must be the name of a texture, got an empty text")
    raise NotFound(f"module {module.name} has no texture {wanted!r}: the chip has none")


# ---- functions


@made_or_given(hipFuncAttributes)
@call
def hipFuncGetAttributes(attr: hipFuncAttributes, func: object) -> None:
    """Fill in what is known of a function (a handle or a kernel) before it runs; sizes in bytes.

    `localSizeBytes` is L1 for each thread, `sharedSizeBytes` L2 beside dynamic shared memory; a size that the text does
    not tell is 0. `hipFuncGetAttributes(func)` returns new ones. InvalidDeviceFunction: null, or not a function;
    InvalidValue: `attr` is no hipFuncAttributes.
    """
    into = instance(attr, hipFuncAttributes, "attr")
    figures = unwrap(tops.topsFuncGetAttributes)(func)
    for each in fields(hipFuncAttributes):
        setattr(into, each.name, getattr(figures, each.name))


@call
def hipFuncGetAttribute(attrib: hipFunction_attribute, hfunc: int) -> int:
    """Return one of the figures of hipFuncGetAttributes. InvalidValue: not an attribute; InvalidDeviceFunction."""
    which = member(hipFunction_attribute, attrib, "attrib")
    found: int = unwrap(tops.topsFuncGetAttribute)(which, hfunc)
    return found


@call
def hipFuncSetAttribute(func: object, attr: hipFuncAttribute, value: int) -> None:
    """Check a limit on dynamic shared memory, or a preference of caches: the chip has no caches, and grants all of L2.

    InvalidDeviceFunction: null, or not a function; InvalidValue: not an attribute, or more bytes than L2 has.
    """
    kernel, which, number = function_of(func).kernel, member(hipFuncAttribute, attr, "attr"), whole(value, "value")
    most = current_device().geometry.l2_usable
    if which is hipFuncAttribute.hipFuncAttributeMaxDynamicSharedMemorySize and not 0 <= number <= most:
        raise InvalidValue(f"{kernel.name}: value must be 0 to {most} bytes of dynamic shared memory, got {number}")
    if which is hipFuncAttribute.hipFuncAttributeMax:
        raise InvalidValue("attr must be an attribute, got hipFuncAttributeMax, which is their end")


@call
def hipGetFuncBySymbol(symbolPtr: object) -> int:
    """Return the function of a kernel: the kernel stands for itself, and the handle of a function for that one.

    InvalidDeviceFunction: null, or not a kernel.
    """
    function_of(symbolPtr)
    return symbolPtr  # type: ignore[return-value]  # a kernel is as good as a handle in every call


def _resident(func: object, blockSize: int, dynSharedMemPerBlk: int) -> int:
    """Return how many blocks of a function a cluster runs at once: one, if it can have it at all."""
    function_of(func)
    threads, shared = whole(blockSize, "blockSize"), size_of(dynSharedMemPerBlk, "dynSharedMemPerBlk")
    if threads < 1:
        raise InvalidValue(f"blockSize must be 1 or more, got {threads}")
    geometry = current_device().geometry
    return int(threads <= geometry.max_threads_per_block and shared <= geometry.l2_usable)


@call
def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(f: int, blockSize: int, dynSharedMemPerBlk: int) -> int:
    """Return how many blocks a cluster runs at once: 1, or 0 where a block is too large for one.

    InvalidDeviceFunction; InvalidValue: a size below 1, or negative memory.
    """
    return _resident(f, blockSize, dynSharedMemPerBlk)


@call
def hipOccupancyMaxActiveBlocksPerMultiprocessor(f: object, blockSize: int, dynSharedMemPerBlk: int) -> int:
    """As hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, of a kernel or a handle.

    InvalidDeviceFunction; InvalidValue.
    """
    return _resident(f, blockSize, dynSharedMemPerBlk)


# ---- variables


@call
def hipMemcpyToSymbol(
    symbol: Symbol, src: object, sizeBytes: int, offset: int = 0, kind: hipMemcpyKind = H2D
) -> Wait | None:
    """Copy into a symbol of the current device, `offset` bytes from its start; waits as hipMemcpy does.

    InvalidSymbol; InvalidMemcpyDirection: the kind is not HostToDevice, DeviceToDevice or Default, or not that of
    `src`; InvalidValue: a range outside the symbol, bad memory.
    """
    source = pointer_of(src, size_of(sizeBytes, "sizeBytes"))
    waits: Wait | None = COPIES["topsMemcpyToSymbol"](symbol, source, sizeBytes, offset, kind)
    return waits


@call
def hipMemcpyToSymbolAsync(
    symbol: Symbol, src: object, sizeBytes: int, offset: int, kind: hipMemcpyKind, stream: int | None = 0
) -> Wait | None:
    """As hipMemcpyToSymbol for the device of a stream, enqueued; waits as hipMemcpyAsync does.

    InvalidSymbol; InvalidMemcpyDirection; InvalidValue.
    """
    source = pointer_of(src, size_of(sizeBytes, "sizeBytes"))
    waits: Wait | None = COPIES["topsMemcpyToSymbolAsync"](symbol, source, sizeBytes, offset, kind, stream)
    return waits


@call
def hipMemcpyFromSymbol(
    dst: object, symbol: Symbol, sizeBytes: int, offset: int = 0, kind: hipMemcpyKind = D2H
) -> Wait | None:
    """Copy from a symbol of the current device, `offset` bytes from its start; waits as hipMemcpy does.

    InvalidSymbol; InvalidMemcpyDirection: the kind is not DeviceToHost, DeviceToDevice or Default, or not that of
    `dst`; InvalidValue: a range outside the symbol, bad memory.
    """
    target = pointer_of(dst, size_of(sizeBytes, "sizeBytes"))
    waits: Wait | None = COPIES["topsMemcpyFromSymbol"](target, symbol, sizeBytes, offset, kind)
    return waits


@call
def hipMemcpyFromSymbolAsync(
    dst: object, symbol: Symbol, sizeBytes: int, offset: int, kind: hipMemcpyKind, stream: int | None = 0
) -> Wait | None:
    """As hipMemcpyFromSymbol for the device of a stream, enqueued; waits as hipMemcpyAsync does.

    InvalidSymbol; InvalidMemcpyDirection; InvalidValue.
    """
    target = pointer_of(dst, size_of(sizeBytes, "sizeBytes"))
    waits: Wait | None = COPIES["topsMemcpyFromSymbolAsync"](target, symbol, sizeBytes, offset, kind, stream)
    return waits
