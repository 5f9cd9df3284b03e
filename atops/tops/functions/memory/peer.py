"""Peer access: TOPS Runtime API, 2.7. A region is a second name; the board's topology knows the links."""

from __future__ import annotations

from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from atops.base.errors import InvalidValue, PeerAccessAlreadyEnabled
from atops.base.result_codes import Result
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import Completion
from atops.runtime.current_driver import current_driver
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.stream import Stream
from atops.tops.bridge.aliases import Alias, add_alias, remove_alias
from atops.tops.bridge.arguments import flags_in, member, size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device, device_at
from atops.tops.bridge.handles import usable_stream_of
from atops.tops.bridge.pointers import address_of, bad_pointer, device_memory
from atops.tops.bridge.waiting import until
from atops.tops.types.enumerations import topsTopologyMapType

__all__ = (
    "topsDeviceCanAccessPeer", "topsDeviceDisablePeerAccessRegion", "topsDeviceEnablePeerAccess",
    "topsDeviceEnablePeerAccessRegion", "topsMemcpyPeer", "topsMemcpyPeerAsync", "topsMemcpyPeerExt",
    "topsMemcpyPeerExtAsync",
)  # fmt: skip

WORD: Final = (1 << 32) - 1
UNLINKED: Final = {Result.NotSupported: Result.InvalidValue}  # no other code is documented for a missing link


class _Region(NamedTuple):
    """A part of a peer's allocation that a device has a name of its own for."""

    allocation: Allocation
    offset: int
    size: int

    def resolve(self, offset: int, nbytes: int) -> Buffer:
        """Return bytes of the region. Raises CodeError when the peer has freed them, InvalidValue beyond its end."""
        if not self.allocation.alive:
            raise bad_pointer(f"the region is in {self.allocation!r}, freed by {self.allocation.freed_by}")
        if nbytes < 0 or offset + nbytes > self.size:
            raise InvalidValue(f"{nbytes} bytes at offset {offset} are not inside the region's {self.size} bytes")
        return Buffer(self.allocation, self.offset + offset, nbytes)


REGIONS: WeakKeyDictionary[DeviceContext, dict[tuple[int, int, int], Alias]] = WeakKeyDictionary()


# ---- access


@call
def topsDeviceCanAccessPeer(deviceId: int, peerDeviceId: int) -> int:
    """Return the access word from a device to another: 0 without a link, and from a device to itself.

    Bits 7..0 are the first device's ESL ports that lead to the other; 15..8 are 1 under one PCIe switch, 2 across root
    complexes; 23..16 are 1 where clusters are devices. InvalidValue: no such device.
    """
    return device_at(deviceId).can_access_peer(device_at(peerDeviceId))


@call.instead(UNLINKED)
def topsDeviceEnablePeerAccess(peerDeviceId: int, flags: int) -> None:
    """Let kernels of the current device reach another's memory, until the current device is reset.

    InvalidValue: no such device, the current one itself, no link, flags other than 0. PeerAccessAlreadyEnabled: twice.
    """
    flags_in(flags, 0)
    current_device().enable_peer_access(device_at(peerDeviceId))


@call
def topsDeviceEnablePeerAccessRegion(peerDeviceId: int, peerDevPtr: int, size: int) -> int:
    """Return an address in the current device's space for `size` bytes at `peerDevPtr` of another device.

    Kernels of the current device reach the bytes through it, without access to the rest of the peer. InvalidValue: no
    such device, the current one itself, no link, size 0, bytes that are not inside one live allocation of the peer.
    PeerAccessAlreadyEnabled: this very region has a name.
    """
    device, key = _region_key(peerDeviceId, peerDevPtr, size)
    peer, address, nbytes = key
    buffer = device_memory(address, nbytes, "peerDevPtr", device=peer)
    if not nbytes or not device.can_access_peer(device_at(peer)):
        raise InvalidValue(f"expected 1 byte or more of a device with a link, got {nbytes} of device {peer}")
    context, region = device.context, _Region(buffer.allocation, buffer.offset, nbytes)
    with context.driver.lock:
        regions = REGIONS.setdefault(context, {})
        if key in regions:
            raise PeerAccessAlreadyEnabled(f"{nbytes} bytes at {address:#x} have the name {regions[key].address:#x}")
        alias = regions[key] = add_alias(context, nbytes, region.resolve, region)
        context.grant(region.allocation)
    return alias.address


@call
def topsDeviceDisablePeerAccessRegion(peerDeviceId: int, peerDevPtr: int, size: int) -> None:
    """Take the address of a region away; every later use of it is an error. Work enqueued before still runs.

    InvalidValue: this very region (device, pointer and size) has no name in the current device's space.
    """
    device, key = _region_key(peerDeviceId, peerDevPtr, size)
    context = device.context
    with context.driver.lock:
        alias = REGIONS.get(context, {}).pop(key, None)
        if alias is not None:
            region = alias.owner
            assert isinstance(region, _Region)
            context.revoke(region.allocation)
    if alias is None:
        raise InvalidValue(f"device {device.ordinal} has no region of {key[2]} bytes at {key[1]:#x} of device {key[0]}")
    remove_alias(current_driver(), alias)


def _region_key(peer: object, pointer: object, size: object) -> tuple[Device, tuple[int, int, int]]:
    """Return the current device and the key of a region of a peer. Raises InvalidDevice, InvalidValue, InvalidType."""
    device, other = current_device(), device_at(peer)
    if other.ordinal == device.ordinal:
        raise InvalidValue(f"expected a peer of device {device.ordinal}, got the device itself")
    return device, (other.ordinal, address_of(pointer, "peerDevPtr"), size_of(size))


# ---- copies


@call
async def topsMemcpyPeer(dst: int, dstDevice: int, src: int, srcDevice: int, sizeBytes: int) -> None:
    """Copy between the memories of two devices and wait for it; through the host where no link joins them.

    InvalidValue: no such device, a pointer that is not on its device, a range that leaves its allocation, an overlap.
    """
    await until(_copy(usable_stream_of(None), (dst, dstDevice), (src, srcDevice), sizeBytes))


@call
def topsMemcpyPeerAsync(
    dst: int, dstDevice: int, src: int, srcDevice: int, sizeBytes: int, stream: int | None
) -> None:
    """As topsMemcpyPeer, in the order of a stream."""
    _copy(usable_stream_of(stream), (dst, dstDevice), (src, srcDevice), sizeBytes)


@call
async def topsMemcpyPeerExt(
    dst: int, dstDevice: int, src: int, srcDevice: int, sizeBytes: int, map: topsTopologyMapType, port: int
) -> None:
    """As topsMemcpyPeer, over a chosen kind of link: Auto takes the first there is of Local, ClsAsDev, ESL and P2P.

    ESL goes by a port of the source device whose bit is set in `port`: a mask as the low byte of
    topsDeviceCanAccessPeer's word, so `1 << 1` is port 1, and -1 any. Other kinds ignore it.

    InvalidValue: no such link.
    """
    stream = usable_stream_of(None)
    _check_route(srcDevice, dstDevice, map, port)
    await until(_copy(stream, (dst, dstDevice), (src, srcDevice), sizeBytes))


@call
def topsMemcpyPeerExtAsync(
    dst: int, dstDevice: int, src: int, srcDevice: int, sizeBytes: int, map: topsTopologyMapType, port: int,
    stream: int | None,
) -> None:  # fmt: skip
    """As topsMemcpyPeerExt, in the order of a stream."""
    queue = usable_stream_of(stream)
    _check_route(srcDevice, dstDevice, map, port)
    _copy(queue, (dst, dstDevice), (src, srcDevice), sizeBytes)


def _copy(stream: Stream, to: tuple[object, object], source: tuple[object, object], size: object) -> Completion:
    """Enqueue a copy between pointers that lie where the call says. Returns its completion."""
    nbytes = size_of(size, "sizeBytes")
    dst, src = (
        device_memory(pointer, nbytes, what, device=device_at(device).ordinal, plain=False)
        for (pointer, device), what in ((to, "dst"), (source, "src"))
    )
    return stream.copy(dst, src)


def _check_route(source: object, target: object, kind: object, port: object) -> None:
    """Raise InvalidValue for a link that does not exist. Auto may have none: the copy goes through the host then."""
    wanted, ports = member(topsTopologyMapType, kind, "map"), whole(port, "port")
    if not -1 <= ports <= WORD:
        raise InvalidValue(f"port must have a bit for each port (1 << 0 is port 0), or be -1 for any, got {ports}")
    current_driver().topology.route(device_at(source).ordinal, device_at(target).ordinal, wanted, ports)
