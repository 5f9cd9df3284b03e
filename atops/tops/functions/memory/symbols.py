"""Variables of kernels as the host reaches them: their address, their size, copies (TOPS Runtime API, 2.6).

A symbol is the declared variable itself, or its name, of device or constant memory alike.
"""

from __future__ import annotations

from typing import Final, TypeVar

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.kernels.compile.module import Module
from atops.kernels.memory.device_variables import Variable
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.stream import Stream
from atops.runtime.symbols import Symbol
from atops.tops.bridge.arguments import member, size_of, text_of
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.context import current_device
from atops.tops.bridge.handles import live, usable_stream_of
from atops.tops.bridge.waiting import Wait
from atops.tops.functions.memory.copy_operands import Started, start_copy
from atops.tops.functions.module.module import LOADED
from atops.tops.types.enumerations import topsMemcpyKind

__all__ = (
    "TOPS_SYMBOL", "topsGetSymbolAddress", "topsGetSymbolSize", "topsMemcpyFromSymbol", "topsMemcpyFromSymbolAsync",
    "topsMemcpyToSymbol", "topsMemcpyToSymbolAsync", "topsModuleGetGlobal",
)  # fmt: skip

H2D: Final = topsMemcpyKind.topsMemcpyHostToDevice
D2H: Final = topsMemcpyKind.topsMemcpyDeviceToHost
D2D: Final = topsMemcpyKind.topsMemcpyDeviceToDevice
ANY: Final = topsMemcpyKind.topsMemcpyDefault

T = TypeVar("T")


def TOPS_SYMBOL(symbol: T) -> T:
    """Return the symbol: the macro that C code puts around one."""
    return symbol


@call
def topsModuleGetGlobal(hmod: int, name: str) -> tuple[int, int]:
    """Return the device pointer and the size of a module's variable on the module's device.

    InvalidHandle; NotFound: no such variable; InvalidValue: not a text.
    """
    module = live(hmod, Module)
    if not text_of(name, "name"):
        raise InvalidValue("name must be the name of a variable, got an empty text")
    found = Device(LOADED[module].context.ordinal, current_driver()).symbol(module.variable(name))
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
    """Return some bytes of a symbol on the device of a stream, for a copy of the usual kind, or between devices."""
    whole = _instance(symbol, Device(stream.context.ordinal, current_driver()))
    if member(topsMemcpyKind, kind, "kind", Result.InvalidMemcpyDirection) not in (usual, D2D, ANY):
        raise CodeError(Result.InvalidMemcpyDirection, f"kind must be {usual.name} or DeviceToDevice, got {kind!r}")
    size, start = size_of(nbytes, "sizeBytes"), size_of(offset, "offset")
    if start + size > whole.nbytes:
        raise InvalidValue(f"sizeBytes and offset must lie in {whole!r} of {whole.nbytes} bytes, got {size} at {start}")
    part = Buffer(whole.allocation, whole.offset + start, size)
    part.driver = whole.driver
    return part


def _instance(symbol: Variable | str, device: Device) -> Symbol:
    """Return a device's instance of a symbol. Raises CodeError InvalidSymbol for null and unknown names."""
    if symbol is None or (isinstance(symbol, str | int) and not symbol):
        raise CodeError(Result.InvalidSymbol, "the symbol must be a declared variable or its name, got null")
    return device.symbol(symbol)
