"""Device management: TOPS Runtime API, 2.2, without the functions between processes."""

from __future__ import annotations

from atops.base.errors import InvalidValue
from atops.base.result_codes import Result
from atops.runtime.current_driver import current_driver
from atops.runtime.resources.bundle import resources_of
from atops.tops.bridge.arguments import flags_in, instance, member, size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.codes import CodeError
from atops.tops.bridge.context import current_device, device_at
from atops.tops.bridge.waiting import Wait, schedule_of, set_schedule, until, until_reset
from atops.tops.functions.device.properties import attribute_of, mismatch, properties_of
from atops.tops.types.constants import topsDeviceLmemResizeToMax, topsDeviceMapHost, topsDeviceScheduleMask
from atops.tops.types.enumerations import topsDeviceAttribute_t, topsLimit_t
from atops.tops.types.structs import topsDeviceProp_t, topsResourceRequestV2_t

__all__ = (
    "topsChooseDevice", "topsDeviceGetAttribute", "topsDeviceGetLimit", "topsDeviceReset", "topsDeviceSynchronize",
    "topsGetDevice", "topsGetDeviceCount", "topsGetDeviceFlags", "topsGetDeviceProperties", "topsSetDevice",
    "topsSetDeviceAndResourceReservation", "topsSetDeviceFlags",
)  # fmt: skip

@call
def topsDeviceSynchronize() -> Wait | None:
    """Wait for all work of the current device, and answer the first failure of one of its streams."""
    device = current_device()
    context = device.context
    if context.active:
        return until(device)
    device.settle(context)  # there is nothing to wait for, in either form
    return None


@call
async def topsDeviceReset() -> None:
    """Discard everything on the current device: work, streams, events, memory. Waits for it end with an error."""
    await until_reset(current_device())


@call
def topsSetDevice(deviceId: int) -> None:
    """Make a device the current one of this task, and the default of this thread. InvalidDevice."""
    device_at(deviceId).set_current()


@call
def topsGetDevice() -> int:
    """Return the current device. InvalidDevice: the board has none."""
    return current_device().ordinal


@call
def topsGetDeviceCount() -> int:
    """Return how many devices the board has. NoDevice: none."""
    count = current_driver().devices
    if not count:
        raise CodeError(Result.NoDevice, "the board has no device; ATOPS_DEVICES sets how many it has")
    return count


@call
def topsDeviceGetAttribute(attr: topsDeviceAttribute_t, deviceId: int) -> int:
    """Return one figure of a device. InvalidDevice; InvalidValue: not an attribute."""
    device = device_at(deviceId)
    return attribute_of(device, member(topsDeviceAttribute_t, attr, "attr"))


@call
def topsGetDeviceProperties(deviceId: int) -> topsDeviceProp_t:
    """Return all figures of a device. InvalidDevice."""
    return properties_of(device_at(deviceId))


@call
def topsDeviceGetLimit(limit: topsLimit_t) -> int:
    """Return a limit of the current device: topsLimitMallocHeapSize is its memory. UnsupportedLimit: any other."""
    device = current_device()
    if whole(limit, "limit") != topsLimit_t.topsLimitMallocHeapSize:
        raise CodeError(Result.UnsupportedLimit, f"limit must be topsLimitMallocHeapSize, got {limit!r}")
    return device.memory_info()[1]


@call
def topsGetDeviceFlags() -> int:
    """Return the schedule flag of the current device: 0 (topsDeviceScheduleAuto) until it is set."""
    return schedule_of(current_device().context)


@call
def topsSetDeviceFlags(flags: int) -> None:
    """Choose how blocking waits of the current device pass their time.

    One of topsDeviceScheduleAuto, Spin (polls), Yield and BlockingSync (sleep); LmemResizeToMax and MapHost are
    ignored. InvalidValue: more than one, or other bits. SetOnActiveProcess: the flag changes while a command of the
    device is unfinished.
    """
    device = current_device()
    word = whole(flags, "flags")
    if word & topsDeviceLmemResizeToMax == topsDeviceLmemResizeToMax:
        word &= ~topsDeviceLmemResizeToMax
    word = flags_in(word & ~topsDeviceMapHost, topsDeviceScheduleMask)
    if word.bit_count() > 1:
        raise InvalidValue(f"flags must have at most one of Spin (1), Yield (2) and BlockingSync (4), got {flags:#x}")
    if word == schedule_of(device.context):
        return
    if device.outstanding():
        raise CodeError(Result.SetOnActiveProcess, f"{device!r} has unfinished work; call topsDeviceSynchronize first")
    set_schedule(device.context, word)


@call
def topsChooseDevice(prop: object) -> int:
    """Return the device that matches most of what `prop` asks for; a field of 0, "" or the like asks for nothing.

    A size or a number asks for at least that much, compute capability and names for exactly this. The first of equals
    wins. InvalidValue: not a topsDeviceProp_t.
    """
    wanted = instance(prop, topsDeviceProp_t, "prop")
    current_device()
    driver = current_driver()
    return min(range(driver.devices), key=lambda ordinal: mismatch(properties_of(device_at(ordinal)), wanted))


@call
def topsSetDeviceAndResourceReservation(deviceId: int, resRequest: topsResourceRequestV2_t) -> None:
    """As topsSetDevice, and have all launches on the device use only `reserved_threads` SIP threads, until its reset.

    Up to one cluster's SIPs on one cluster, more in whole clusters, rounded up; the device's properties tell what is
    reserved. 0 reserves nothing. InvalidDevice; InvalidValue: more than the device has, not a request;
    DeviceAlreadyInUse: another number is reserved, or exclusive bundles leave too few. On failure the current device
    stays.
    """
    device = device_at(deviceId)
    request = instance(resRequest, topsResourceRequestV2_t, "resRequest")
    threads = size_of(request.reserved_threads, "reserved_threads")
    if threads:
        resources_of(device.context).reserve(threads)
    device.set_current()
