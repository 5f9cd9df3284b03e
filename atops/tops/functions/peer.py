"""Memory and events of other devices (TOPS Runtime API, 2.7) and of other processes (2.2, the topsIpc functions).

A region of a peer and an imported pointer are second names; the board's topology knows the links. Imported bytes are
the exporter's. They stay valid until the last close, even if the exporter frees them or ends; opening a handle of freed
memory or of an ended process is an error.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from atops.base.errors import InvalidConfiguration, InvalidHandle, InvalidType, InvalidValue, PeerAccessAlreadyEnabled
from atops.base.locks import fork_safe
from atops.base.result_codes import Result
from atops.bridge.arguments import flags_in, member, size_of, whole
from atops.bridge.call import until
from atops.bridge.handles import current_board, current_device, device_at, event_of, register, usable_stream_of
from atops.bridge.pointers import (
    Alias,
    add_alias,
    address_of,
    alias_at,
    bad_pointer,
    check_range,
    device_memory,
    find_device,
    lendable,
    remove_alias,
)
from atops.device.memory.allocation import Allocation
from atops.device.memory.host_memory import SLOT_SHIFT
from atops.device.topology import Link
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.deferred_free import free_when_idle
from atops.runtime.core.completion import Completion
from atops.runtime.device import Device
from atops.runtime.ipc.event import export_event, import_event
from atops.runtime.ipc.lending import Handle, HandleKind
from atops.runtime.ipc.memory import BorrowedMemory, export_memory
from atops.runtime.memory.buffer import Buffer
from atops.runtime.stream import Stream
from atops.tops.functions.api import call
from atops.tops.header.enumerations import topsTopologyMapType
from atops.tops.header.structs import topsIpcEventHandle_t, topsIpcMemHandle_t

__all__ = (
    "topsDeviceCanAccessPeer", "topsDeviceDisablePeerAccessRegion", "topsDeviceEnablePeerAccess",
    "topsDeviceEnablePeerAccessRegion", "topsIpcCloseMemHandle", "topsIpcGetEventHandle", "topsIpcGetMemHandle",
    "topsIpcOpenEventHandle", "topsIpcOpenEventHandleExt", "topsIpcOpenMemHandle", "topsMemcpyPeer",
    "topsMemcpyPeerAsync", "topsMemcpyPeerExt", "topsMemcpyPeerExtAsync",
)  # fmt: skip

# ---- peer devices (2.7)

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
    with context.board.lock:
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
    with context.board.lock:
        alias = REGIONS.get(context, {}).pop(key, None)
        if alias is not None:
            region = alias.owner
            assert isinstance(region, _Region)
            context.revoke(region.allocation)
    if alias is None:
        raise InvalidValue(f"device {device.ordinal} has no region of {key[2]} bytes at {key[1]:#x} of device {key[0]}")
    remove_alias(current_board(), alias)


def _region_key(peer: object, pointer: object, size: object) -> tuple[Device, tuple[int, int, int]]:
    """Return the current device and the key of a region of a peer. Raises InvalidDevice, InvalidValue, InvalidType."""
    device, other = current_device(), device_at(peer)
    if other.ordinal == device.ordinal:
        raise InvalidValue(f"expected a peer of device {device.ordinal}, got the device itself")
    return device, (other.ordinal, address_of(pointer, "peerDevPtr"), size_of(size))


# ---- copies between devices (2.7)


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
    """As topsMemcpyPeer, over a chosen kind of link: Auto takes the fastest there is of Local, ClsAsDev, ESL and P2P.

    ESL goes by a port of the source device whose bit is set in `port`: a mask as the low byte of
    topsDeviceCanAccessPeer's word, so `1 << 1` is port 1, and -1 any. Other kinds ignore it.

    InvalidValue: no such link.
    """
    stream = usable_stream_of(None)
    link = _link(srcDevice, dstDevice, map, port)
    await until(_copy(stream, (dst, dstDevice), (src, srcDevice), sizeBytes, link))


@call
def topsMemcpyPeerExtAsync(
    dst: int, dstDevice: int, src: int, srcDevice: int, sizeBytes: int, map: topsTopologyMapType, port: int,
    stream: int | None,
) -> None:  # fmt: skip
    """As topsMemcpyPeerExt, in the order of a stream."""
    queue = usable_stream_of(stream)
    link = _link(srcDevice, dstDevice, map, port)
    _copy(queue, (dst, dstDevice), (src, srcDevice), sizeBytes, link)


def _copy(
    stream: Stream, to: tuple[object, object], source: tuple[object, object], size: object, link: Link | None = None
) -> Completion:
    """Enqueue a copy between pointers that lie where the call says. Returns its completion."""
    nbytes = size_of(size, "sizeBytes")
    dst, src = (
        device_memory(pointer, nbytes, what, device=device_at(device).ordinal, plain=False)
        for (pointer, device), what in ((to, "dst"), (source, "src"))
    )
    return stream.copy(dst, src, link=link)


def _link(source: object, target: object, kind: object, port: object) -> Link | None:
    """Return the link that is named. Raises InvalidValue where it does not exist; Auto has None then: via the host."""
    wanted, ports = member(topsTopologyMapType, kind, "map"), whole(port, "port")
    if not -1 <= ports <= WORD:
        raise InvalidValue(f"port must have a bit for each port (1 << 0 is port 0), or be -1 for any, got {ports}")
    return current_board().topology.route(device_at(source).ordinal, device_at(target).ordinal, wanted, ports)


# ---- memory of other processes (2.2)

_OPENING = fork_safe(threading.Lock())
NO_POINTER: Final = {Result.InvalidDevicePointer: Result.InvalidHandle}
NO_EVENT: Final = {Result.InvalidHandle: Result.InvalidValue, Result.MapFailed: Result.InvalidValue}


class _Imported:
    """Memory of another process under a name of this device."""

    __slots__ = ("__weakref__", "alias", "memory")

    def __init__(self, context: DeviceContext, memory: BorrowedMemory) -> None:
        self.memory = memory
        self.alias: Alias = add_alias(context, memory.size, self.resolve, self)
        memory.place(self.alias.address)

    def resolve(self, offset: int, nbytes: int) -> Buffer:
        """Return bytes of it. Raises CodeError once it is closed, InvalidValue beyond its end."""
        allocation = self.memory.allocation
        if allocation is None or not allocation.alive:
            raise bad_pointer("the imported memory was closed")
        return Buffer(allocation, check_range(allocation, offset, nbytes, "imported memory"), nbytes)


IMPORTS: WeakKeyDictionary[DeviceContext, dict[Handle, _Imported]] = WeakKeyDictionary()


@call.instead(NO_POINTER)
def topsIpcGetMemHandle(devPtr: int) -> topsIpcMemHandle_t:
    """Return a name of an allocation of topsMalloc for other processes, the same at each call.

    InvalidHandle: `devPtr` is not the start of such an allocation, is imported itself, of a pool, or of size 0.
    OutOfMemory: no descriptor is left.
    """
    board = current_board()
    address = address_of(devPtr, "devPtr")
    if alias_at(board, address) is not None:
        raise InvalidHandle(f"devPtr must be a pointer of topsMalloc, got {address:#x}, a second name")
    allocation = find_device(board, address, "devPtr")
    if address != allocation.address or not lendable(board, allocation):
        raise InvalidHandle(f"devPtr must begin memory of topsMalloc, of no pool, got {address:#x} in {allocation!r}")
    assert allocation.device is not None
    return topsIpcMemHandle_t(export_memory(board.context(allocation.device), allocation))


@call
def topsIpcOpenMemHandle(handle: topsIpcMemHandle_t, flags: int) -> int:
    """Return a pointer in the current device's space to memory that another process has exported.

    Opening it again gives the same pointer; each open needs its close. InvalidHandle: forged, its memory freed, its
    process ended. InvalidContext: of this very process. MapFailed: its board is another, no link joins the devices, or
    no descriptor is left.
    InvalidValue: flags other than topsIpcMemLazyEnablePeerAccess (0), which is implied.
    """
    flags_in(flags, 0)
    context = current_device().context
    name = Handle.unpack(_bytes_of(handle, topsIpcMemHandle_t), HandleKind.MEMORY)
    with _OPENING:
        imports = IMPORTS.setdefault(context, {})
        imported = imports.get(name)
        if imported is not None:
            imported.memory.count += 1
            return imported.alias.address
        imported = imports[name] = _Imported(context, BorrowedMemory(name, context))
        with context.board.lock:
            assert imported.memory.allocation is not None
            context.grant(imported.memory.allocation)  # no more than these bytes of a peer
        return imported.alias.address


@call.instead(NO_POINTER)
def topsIpcCloseMemHandle(devPtr: int) -> None:
    """Close once what topsIpcOpenMemHandle opened; the last close unmaps, after the work enqueued by then.

    InvalidHandle: another pointer, or closed as often as opened.
    """
    board = current_board()
    address = address_of(devPtr, "devPtr")
    with _OPENING:
        alias = alias_at(board, address)
        if alias is None or alias.address != address or not isinstance(alias.owner, _Imported):
            raise InvalidHandle(f"devPtr must be an open pointer of topsIpcOpenMemHandle, got {address:#x}")
        memory = alias.owner.memory
        memory.count -= 1
        if memory.count:
            return
        remove_alias(board, alias)
        context = board.context((address >> SLOT_SHIFT) >> 1)
        del IMPORTS[context][memory.handle]
    assert memory.allocation is not None
    with board.lock:
        context.revoke(memory.allocation)
    free_when_idle(context, memory.end, memory.allocation)


# ---- events of other processes (2.2)


@call
def topsIpcGetEventHandle(event: int) -> topsIpcEventHandle_t:
    """Return a name of an event for other processes, the same at each call.

    InvalidConfiguration: it was made without topsEventInterprocess and topsEventDisableTiming. InvalidValue: null.
    InvalidHandle: a dead handle. OutOfMemory: no descriptor is left (each exported event keeps two until it is
    destroyed).
    """
    found = event_of(event)
    if not found.interprocess:
        raise InvalidConfiguration(f"{found!r} was made without topsEventInterprocess")
    board = current_board()
    context = board.context(found.device_id)
    return topsIpcEventHandle_t(export_event(context, found))


@call.instead(NO_EVENT)
def topsIpcOpenEventHandle(handle: topsIpcEventHandle_t) -> int:
    """Return an event of the current device that is shared with another process: each may record it and wait for it.

    A record of a process that ends before it is complete fails. InvalidValue: forged, the event destroyed, its process
    ended. InvalidContext: of this very process.
    """
    context = current_device().context
    return register(import_event(context, _event_name(handle)), context)


@call.instead(NO_EVENT)
def topsIpcOpenEventHandleExt(handle: topsIpcEventHandle_t, map: topsTopologyMapType, port: int) -> int:
    """As topsIpcOpenEventHandle, for an event of another device, over a chosen kind of link (see topsMemcpyPeerExt).

    InvalidValue: also no such link, or an event of the current device.
    """
    wanted, ports = member(topsTopologyMapType, map, "map"), whole(port, "port")
    name, context = _event_name(handle), current_device().context
    event, board = import_event(context, name), context.board.topology
    if not 0 <= name.device < board.devices or name.device == context.ordinal:
        raise InvalidValue(f"the event must be of a peer of device {context.ordinal}, got one of device {name.device}")
    if board.route(context.ordinal, name.device, wanted, ports) is None:
        raise InvalidValue(f"no link joins device {context.ordinal} to device {name.device}")
    return register(event, context)


def _event_name(handle: object) -> Handle:
    """Return an event's handle in its parts. Raises InvalidHandle."""
    return Handle.unpack(_bytes_of(handle, topsIpcEventHandle_t), HandleKind.EVENT)


def _bytes_of(handle: object, kind: type[topsIpcMemHandle_t] | type[topsIpcEventHandle_t]) -> bytes:
    """Return the bytes of a handle: the struct, or 64 bytes as they came from another process."""
    data = handle.reserved if isinstance(handle, kind) else handle
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidType(f"handle must be a {kind.__name__} or its 64 bytes, got {handle!r}")
    return bytes(data)
