"""Choosing a device together with how many of its SIP threads this process uses (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from atops.base.errors import InvalidType
from atops.runtime.resources.bundle import resources_of
from atops.tops.bridge.arguments import size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.context import device_at
from atops.tops.types.structs import topsResourceRequestV2_t

__all__ = ("topsSetDeviceAndResourceReservation",)


@call
def topsSetDeviceAndResourceReservation(deviceId: int, resRequest: topsResourceRequestV2_t) -> None:
    """As topsSetDevice, and have all launches on the device use only `reserved_threads` SIP threads, until its reset.

    Up to one cluster's SIPs on one cluster, more in whole clusters, rounded up; the device's properties tell what is
    reserved. 0 reserves nothing. InvalidDevice; InvalidValue: more than the device has, no request; DeviceAlreadyInUse:
    another number is reserved, or exclusive bundles leave too few. On failure the current device stays.
    """
    device = device_at(deviceId)
    if not isinstance(resRequest, topsResourceRequestV2_t):
        raise InvalidType(f"resRequest is {resRequest!r}; a topsResourceRequestV2_t is right")
    threads = size_of(resRequest.reserved_threads, "reserved_threads")
    if threads:
        resources_of(device.context).reserve(threads)
    device.set_current()
