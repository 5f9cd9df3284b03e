"""The driver, its version and devices, and the last error: TOPS Runtime API, 2.1 and 2.3."""

from __future__ import annotations

import re

from atops.base.errors import InvalidDevice, InvalidValue
from atops.runtime.current_driver import current_driver
from atops.tops.bridge.arguments import flags_in, text_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import device_at
from atops.tops.bridge.last_error import forget, last
from atops.tops.types.constants import DRIVER_VERSION
from atops.tops.types.error_codes import topsError_t

__all__ = (
    "_name_of", "topsDeviceComputeCapability", "topsDeviceGet", "topsDeviceGetByPCIBusId", "topsDeviceGetName",
    "topsDeviceGetPCIBusId", "topsDeviceTotalMem", "topsDriverGetVersion", "topsGetErrorName", "topsGetErrorString",
    "topsGetLastError", "topsInit", "topsPeekAtLastError", "topsRuntimeGetVersion",
)  # fmt: skip

# Domain, bus, device and function; a board's devices are device 0 of the buses from 1 on.
BUS_ID = "0000:{:02x}:00.0"
BUS_ID_ROOM = 13  # its characters and the end that C puts after them
BUS_ID_FORM = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)


@call
def topsInit(flags: int) -> None:
    """Start the runtime, as every other call does. `flags` must be 0."""
    flags_in(flags, 0)
    current_driver()


@call
def topsDriverGetVersion() -> int:
    """Return the driver's version: 1000 * major + 10 * minor."""
    return DRIVER_VERSION


@call
def topsRuntimeGetVersion() -> int:
    """Return the runtime's version: 1000 * major + 10 * minor."""
    return DRIVER_VERSION


@call
def topsDeviceGet(ordinal: int) -> int:
    """Return the handle of device `ordinal`, which is its ordinal. InvalidDevice: there is none."""
    return device_at(ordinal).ordinal


@call
def topsDeviceComputeCapability(device: int) -> tuple[int, int]:
    """Return the major and the minor number of the device's compute capability. InvalidDevice."""
    return device_at(device).arch.compute_capability


@call
def topsDeviceGetName(len: int, device: int) -> str:
    """Return the device's name, of at most `len - 1` characters. InvalidDevice; InvalidValue: `len` below 1."""
    found = device_at(device)
    room = whole(len, "len")
    if room < 1:
        raise InvalidValue(f"len must be 1 or more, with the end of the text, got {room}")
    return found.name[: room - 1]


@call
def topsDeviceGetPCIBusId(len: int, device: int) -> str:
    """Return where the device is on the PCI bus: "0000:01:00.0". InvalidDevice; InvalidValue: `len` below 13."""
    found = device_at(device)
    room = whole(len, "len")
    if room < BUS_ID_ROOM:
        raise InvalidValue(f"len must be {BUS_ID_ROOM} or more, got {room}")
    return BUS_ID.format(found.ordinal + 1)


@call
def topsDeviceGetByPCIBusId(pciBusId: str | bytes) -> int:
    """Return the device at "domain:bus:device.function" (domain and function may be left out).

    InvalidValue: another form. InvalidDevice: no device there.
    """
    text = text_of(pciBusId, "pciBusId")
    match = BUS_ID_FORM.fullmatch(text)
    if match is None:
        raise InvalidValue(f"pciBusId must have the form '0000:01:00.0', got {pciBusId!r}")
    domain, bus, slot, function = (int(part or "0", 16) for part in match.groups())
    if domain or slot or function or not 1 <= bus <= current_driver().devices:
        raise InvalidDevice(f"no device of the board is at {text}")
    return bus - 1


@call
def topsDeviceTotalMem(device: int) -> int:
    """Return the bytes of memory on the device. InvalidDevice."""
    return device_at(device).memory_info()[1]


@call
def topsGetLastError() -> topsError_t | None:
    """Answer the last failure of this context, and reset it. A success in between does not erase it."""
    error = last()
    forget()
    return None if error is None else error.code


@call
def topsPeekAtLastError() -> topsError_t | None:
    """Answer the last failure of this context, and keep it."""
    error = last()
    return None if error is None else error.code


@call
def topsGetErrorName(tops_error: object) -> str:
    """Return the name of a code: "topsErrorUnknown" for other values."""
    return _name_of(tops_error)


@call
def topsGetErrorString(topsError: object) -> str:
    """Return the name of a code, as topsGetErrorName does; `atops.base.result_codes.explain` explains it."""
    return _name_of(topsError)


def _name_of(code: object) -> str:
    """Return the name of a code, or of topsErrorUnknown."""
    try:
        return topsError_t(code).name  # type: ignore[arg-type]  # ValueError for other types too
    except ValueError:
        return topsError_t.topsErrorUnknown.name
