"""Memory and events between processes: TOPS Runtime API, 2.2, the topsIpc functions.

An imported pointer is a second name; the bytes are the exporter's. They stay valid until the last close, even if the
exporter frees them or ends; opening a handle of freed memory or of an ended process is an error.
"""

from __future__ import annotations

import threading
from typing import Final
from weakref import WeakKeyDictionary

from atops.base.errors import InvalidConfiguration, InvalidHandle, InvalidType, InvalidValue
from atops.base.fork_locks import fork_safe
from atops.base.result_codes import Result
from atops.device.memory.host_memory import SLOT_SHIFT
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.deferred_free import free_when_idle
from atops.runtime.ipc.event import export_event, import_event
from atops.runtime.ipc.handle import Handle, Kind
from atops.runtime.ipc.memory import BorrowedMemory, export_memory
from atops.runtime.memory.buffer import Buffer
from atops.tops.bridge.aliases import Alias, add_alias, alias_at, remove_alias
from atops.tops.bridge.arguments import flags_in, member, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device, current_driver
from atops.tops.bridge.handles import event_of, register
from atops.tops.bridge.pointers import address_of, bad_pointer, check_range, find_device, owned
from atops.tops.types.enumerations import topsTopologyMapType
from atops.tops.types.structs import topsIpcEventHandle_t, topsIpcMemHandle_t

__all__ = (
    "topsIpcCloseMemHandle", "topsIpcGetEventHandle", "topsIpcGetMemHandle", "topsIpcOpenEventHandle",
    "topsIpcOpenEventHandleExt", "topsIpcOpenMemHandle",
)  # fmt: skip

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


# ---- memory


@call.instead(NO_POINTER)
def topsIpcGetMemHandle(devPtr: int) -> topsIpcMemHandle_t:
    """Return a name of an allocation of topsMalloc for other processes, the same at each call.

    InvalidHandle: `devPtr` is not the start of such an allocation, is imported itself, of a pool, or of size 0.
    """
    driver = current_driver()
    address = address_of(devPtr, "devPtr")
    if alias_at(driver, address) is not None:
        raise InvalidHandle(f"devPtr must be a pointer of topsMalloc, got {address:#x}, a second name")
    allocation = find_device(driver, address, "devPtr")
    if address != allocation.address or allocation.device is None or not allocation.size or owned(allocation) is None:
        raise InvalidHandle(f"devPtr must begin an allocation of topsMalloc, got {address:#x} in {allocation!r}")
    context = driver.context(allocation.device)
    if any(allocation in pool for pool in context.known_pools()):
        raise InvalidHandle(f"devPtr must be memory of topsMalloc, got {allocation!r} of a pool")
    return topsIpcMemHandle_t(export_memory(context, allocation))


@call
def topsIpcOpenMemHandle(handle: topsIpcMemHandle_t, flags: int) -> int:
    """Return a pointer in the current device's space to memory that another process has exported.

    Opening it again gives the same pointer; each open needs its close. InvalidHandle: forged, its memory freed, its
    process ended. InvalidContext: of this very process. MapFailed: its board is another, or no link joins the devices.
    InvalidValue: flags other than topsIpcMemLazyEnablePeerAccess (0), which is implied.
    """
    flags_in(flags, 0)
    context = current_device().context
    name = Handle.unpack(_bytes_of(handle, topsIpcMemHandle_t), Kind.MEMORY)
    with _OPENING:
        imports = IMPORTS.setdefault(context, {})
        imported = imports.get(name)
        if imported is not None:
            imported.memory.count += 1
            return imported.alias.address
        imported = imports[name] = _Imported(context, BorrowedMemory(name, context))
        with context.driver.lock:
            assert imported.memory.allocation is not None
            context.grant(imported.memory.allocation)  # no more than these bytes of a peer
        return imported.alias.address


@call.instead(NO_POINTER)
def topsIpcCloseMemHandle(devPtr: int) -> None:
    """Close once what topsIpcOpenMemHandle opened; the last close unmaps, after the work enqueued by then.

    InvalidHandle: another pointer, or closed as often as opened.
    """
    driver = current_driver()
    address = address_of(devPtr, "devPtr")
    with _OPENING:
        alias = alias_at(driver, address)
        if alias is None or alias.address != address or not isinstance(alias.owner, _Imported):
            raise InvalidHandle(f"devPtr must be an open pointer of topsIpcOpenMemHandle, got {address:#x}")
        memory = alias.owner.memory
        memory.count -= 1
        if memory.count:
            return
        remove_alias(driver, alias)
        context = driver.context((address >> SLOT_SHIFT) >> 1)
        del IMPORTS[context][memory.handle]
    assert memory.allocation is not None
    with driver.lock:
        context.revoke(memory.allocation)
    free_when_idle(context, memory.end, memory.allocation, None)


# ---- events


@call
def topsIpcGetEventHandle(event: int) -> topsIpcEventHandle_t:
    """Return a name of an event for other processes, the same at each call.

    InvalidConfiguration: it was made without topsEventInterprocess and topsEventDisableTiming. InvalidHandle: none.
    """
    found = event_of(event)
    if not found.interprocess:
        raise InvalidConfiguration(f"{found!r} was made without topsEventInterprocess")
    driver = current_driver()
    context = current_device().context if found.device is None else driver.context(found.device)
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
    event, board = import_event(context, name), context.driver.topology
    if not 0 <= name.device < board.devices or name.device == context.ordinal:
        raise InvalidValue(f"the event must be of a peer of device {context.ordinal}, got one of device {name.device}")
    if board.route(context.ordinal, name.device, wanted, ports) is None:
        raise InvalidValue(f"no link joins device {context.ordinal} to device {name.device}")
    return register(event, context)


def _event_name(handle: object) -> Handle:
    """Return an event's handle in its parts. Raises InvalidHandle."""
    return Handle.unpack(_bytes_of(handle, topsIpcEventHandle_t), Kind.EVENT)


def _bytes_of(handle: object, kind: type[topsIpcMemHandle_t] | type[topsIpcEventHandle_t]) -> bytes:
    """Return the bytes of a handle: the struct, or 64 bytes as they came from another process."""
    data = handle.reserved if isinstance(handle, kind) else handle
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidType(f"handle must be a {kind.__name__} or its 64 bytes, got {handle!r}")
    return bytes(data)
