"""Stream-ordered memory of one device: found at the call, and given out again in stream order.

A pool keeps what is freed, and its rules say which stream may have it next. It enqueues nothing: streams report what
they enqueue and what has run. Inside its lock only the lock of the device memory is taken.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from atops.base.errors import InvalidDevice, InvalidHandle, InvalidType, InvalidValue, OutOfMemory
from atops.base.locks import reentered
from atops.base.neighbours import answers
from atops.base.waiting.current_loop import checkpoint
from atops.device.call_site import caller
from atops.device.memory.allocation import Allocation
from atops.runtime.board.context import DeviceContext
from atops.runtime.core.completion import Completion
from atops.runtime.core.future import InProcess
from atops.runtime.core.order import group_of, order_of
from atops.runtime.executors.executor import Collectable
from atops.runtime.pools.blocks import ANY, Origin, PoolBlock
from atops.runtime.pools.ledger import Ledger

if TYPE_CHECKING:
    from atops.runtime.device import Device
    from atops.runtime.owning_queue import OwningQueue

__all__ = ("Access", "Flags", "MemoryPool", "PoolStatistics")


class Access(IntEnum):
    """What a device may do with a pool's memory, with the values of topsMemAccessFlags."""

    none = 0
    read = 1
    readwrite = 3


Flags: TypeAlias = "Access | int | str"


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """A pool at one moment, in bytes; `live` counts allocations that were taken and not freed.

    Of what is reserved, `idle` is free for every stream, and `promised` was freed by commands that have still to run,
    or that found it still in use. The last five count allocations by the source of their memory: the device, the same
    stream, another stream that had run the free, one whose event the stream waits for, or one that the allocation must
    wait for.
    """

    device: int
    name: str
    max_size: int | None
    release_threshold: int
    reserved_current: int
    reserved_high: int
    used_current: int
    used_high: int
    idle: int
    promised: int
    live: int
    fresh: int
    same_stream: int
    opportunistic: int
    after_event: int
    internal_dependency: int


# Memory, and what must be over before it is used: commands of other streams, and of the stream that it is for.
Taken = tuple[Allocation, tuple[Completion, ...], tuple[Completion, ...]]
Found: TypeAlias = tuple[PoolBlock | tuple[PoolBlock, ...], Origin]


@answers("MemoryPool")
class MemoryPool(InProcess, Collectable):
    """Memory of one device for allocations in stream order (TOPS Runtime API, topsMemPoolAttr).

    A freed block is given out again to a request of its size or down to about four fifths of it, by the first rule that
    finds one:

    1. It was freed in the same stream: at once, whether or not the stream has come to the free; neighbours are joined.
    2. `reuse_allow_opportunistic`: the stream that freed it has come to the free.
    3. `reuse_follow_event_dependencies`: the stream comes after the free, by events, through other streams too, and by
       null-stream order.
    4. Otherwise memory is fresh; if there is none, idle blocks go back to the device first, the oldest first.
    5. When the device or `max_size` is exhausted, rules 1 and 3 again, for larger blocks too, which are cut, and for
       neighbours of several streams; then, with `reuse_allow_internal_dependencies`, what other streams have freed, and
       the allocation waits for those frees. This comes last because it makes independent streams wait for each other.

    What a stream was to wait for and did not may still use what it frees: until that is over no rule gives it out.

    All switches are on by default; what the host has synchronised behind is free for every stream without them. Idle
    memory goes back to the device, until at most `release_threshold` bytes (0) are reserved, when a stream, an event or
    the device is synchronised; up to then 32 MiB more may be idle. Any thread may call anything.
    """

    __slots__ = (
        "__weakref__", "_granted", "_ledger", "_max_size", "_name", "context", "lock",
        "reuse_allow_internal_dependencies",
    )  # fmt: skip

    def __init__(
        self, context: DeviceContext | None = None, *, max_size: int | None = None, name: str = "",
        default: bool = False,
    ) -> None:  # fmt: skip
        """Make a pool on `context`'s device that reserves at most `max_size` bytes (None: all). Raises InvalidValue.

        `default`: it is the device's own, whose blocks the detectors keep apart; those of others have to fit together.
        """
        if not isinstance(context, DeviceContext):
            raise InvalidType(f"MemoryPool({context!r}) makes no pool; use device.create_pool()")
        if max_size is not None and (not isinstance(max_size, int) or max_size < 1):
            raise InvalidValue(f"max_size is {max_size!r}; expected bytes, 1 or more, or None")
        self.context = context
        self._max_size = max_size
        self._name = name or f"pool of device {context.ordinal}"
        self.reuse_allow_internal_dependencies = True
        self._granted: dict[int, Access] = {}  # the rights of other devices than its own
        self.lock = context.pool_lock
        limit = max_size or context.memory.total
        self._ledger = Ledger(context.memory, context.arch.malloc_alignment, limit, beside=not default)
        self._ledger.blocks.host = context.order.host
        self.when_collected(context.board.executor, partial(self._ledger.shrink, 0))  # its memory keeps a pool alive
        with self.lock:
            context.pools.add(self)
            context.has_pools = context.has_pools or not default

    # ---- lifecycle

    def destroy(self) -> None:
        """Give back what is idle and refuse to allocate from now on. Idempotent.

        What is allocated stays valid and goes back to the device when it is freed. If this was the device's current
        pool, the default pool is current again. Raises InvalidValue for a default pool.
        """
        context = self.context
        if self is context.default_pool:
            raise InvalidValue(f"{self!r} is the default pool of device {context.ordinal}; it cannot be destroyed")
        if self.lock.is_owned():  # a finalizer or a signal handler in the middle of an allocation
            context.board.post(self.destroy)
            return
        with context.board.lock:
            if context.pool is self:
                context.pool = None
        with self.lock:
            self._ledger.destroyed = True
            self._ledger.catch_up()
            self._ledger.shrink(0)

    async def aclose(self) -> None:
        """As `destroy`."""
        self.destroy()
        await checkpoint()

    async def __aenter__(self) -> MemoryPool:
        return self

    async def __aexit__(self, *failure: object) -> None:
        self.destroy()
        if failure[0] is None:
            await checkpoint()

    @property
    def is_destroyed(self) -> bool:
        """Whether `destroy` was called."""
        return self._ledger.destroyed

    # ---- for streams

    def take(self, nbytes: int, stream: OwningQueue) -> Taken:
        """Find `nbytes` bytes for `stream`, at the call; the second part is what must be over before they are used.

        The third: the free in the stream's own order that is to come before. Raises OutOfMemory, InvalidValue for a
        negative size or no int, InvalidHandle when the pool is destroyed or not to be used there.
        """
        context, ledger = self.context, self._ledger
        if self.lock.is_owned():
            raise reentered(f"{nbytes!r} bytes were asked of {self.name}")
        if stream.context is not context or ledger.destroyed or context.dead is not None:
            self._check_user(stream)
        size = nbytes if type(nbytes) is int and nbytes >= 0 else self._check_size(nbytes)
        site = caller()
        try:
            return self._find(size, stream, site)
        except OutOfMemory:
            if not context.trim_pools(but=self):  # with no lock held: two pools may be here at once
                raise
            return self._find(size, stream, site)

    def _find(self, size: int, stream: OwningQueue, site: object) -> Taken:
        ledger = self._ledger
        allocation: Allocation | None = None
        now = self.context.board.seq  # no command up to this one uses what is not allocated yet
        try:
            with self.lock:
                if ledger.given:
                    ledger.catch_up()
                blocks = ledger.blocks
                need = ledger.rounded(size)
                order = stream.number or order_of(stream)
                most = need + (need >> 2) + 2048
                found: Found | None = (blocks.find(need, most, order, stream)
                         or blocks.neighbours(need, most, order, stream, Origin.SAME_STREAM))  # fmt: skip
                if found is None:
                    if (allocation := ledger.fresh(size, need, site, stream.number, now, False)) is not None:
                        return allocation, (), ()
                    # Before idle blocks go back to the device: what follows them may be promised.
                    found = blocks.neighbours(need, ANY, order, stream, Origin.AFTER_EVENT)
                if found is None:
                    if (allocation := ledger.fresh(size, need, site, stream.number, now, True)) is not None:
                        return allocation, (), ()
                    found = self._find_last(need, order, stream)
                    if found is None:
                        raise self._out_of_memory(size)
                taken, origin = found
                block, allocation = ledger.reissue(taken, size, most, origin, site, stream.number, now)
                if not block.left:
                    return allocation, (), ()
                frees = blocks.frees_of(block)
                own = frees.pop(order, None)
            return allocation, tuple(frees.values()), () if own is None else (own,)
        except BaseException:
            if allocation is not None:  # Ctrl-C: it was not given out
                self.cancel(allocation)
            raise

    def give(self, allocation: Allocation, stream: OwningQueue, item: Completion) -> None:
        """Note that a free of `allocation` was enqueued on `stream` as `item`: it counts as used no more.

        Raises InvalidHandle when it is not memory of this pool, or was freed before and that is known by now. Takes no
        lock.
        """
        ledger = self._ledger
        serial = allocation.serial
        if serial not in ledger.lent:
            if not allocation.alive:
                return  # a reset has ended it
            raise InvalidHandle(f"{allocation!r} was freed already, or is no memory of {self!r}")
        self.context.board.frees = True
        if serial in ledger.shared:
            return  # nothing else gets it
        ledger.given.append((serial, order_of(stream), group_of(stream), item))  # the next holder of the lock does it

    def returned(self, allocation: Allocation, by: object) -> None:
        """End `allocation`: its stream has come to the free. `by` says in words what freed it, and where."""
        ledger, serial = self._ledger, allocation.serial
        spoiled = not ledger.memory.set_aside(allocation, by)  # without the lock: it may wake value waits there
        with self.lock:
            if ledger.given:
                ledger.catch_up()
            shared = serial in ledger.shared
            if shared:
                ledger.leave(serial)
            else:
                ledger.ran(serial, spoiled)
        if shared and not spoiled:
            ledger.memory.release(allocation)  # to the device, once no other process has it mapped

    def share(self, allocation: Allocation) -> None:
        """Note that other processes may have `allocation`: freed, its range goes to the device and not to the pool.

        There it is used again when the last of them has let go. Raises InvalidHandle for other memory, and freed.
        """
        with self.lock:
            ledger = self._ledger
            ledger.catch_up()
            if allocation.serial not in ledger.lent:
                raise InvalidHandle(f"{allocation!r} was freed already, or is no memory of {self!r}")
            ledger.shared.add(allocation.serial)

    def since(self, allocation: Allocation) -> int:
        """Return the number of a command up to which none uses the memory that `allocation` has. Takes no lock."""
        ledger, serial = self._ledger, allocation.serial
        block = ledger.lent.get(serial) or ledger.freed.get(serial)
        return 0 if block is None else block.since

    def put_off(self, allocation: Allocation) -> None:
        """Give `allocation` to nothing else until `returned`: its stream has come to the free, but it may be in use."""
        with self.lock:
            self._ledger.catch_up()
            self._ledger.put_off(allocation.serial)

    def cancel(self, allocation: Allocation) -> None:
        """Undo a `take` whose allocation could not be enqueued."""
        self.withdraw(allocation, "an allocation that could not be enqueued")

    def withdraw(self, allocation: Allocation, by: object) -> None:
        """End an allocation that no command has used, freed or not, and take its memory back."""
        ledger = self._ledger
        spoiled = not ledger.memory.set_aside(allocation, by)
        with self.lock:
            ledger.catch_up()
            ledger.undo(allocation, spoiled)

    # ---- keeping and giving back

    def trim(self, min_bytes_to_keep: int = 0) -> int:
        """Give idle memory back to the device, the oldest first, and leave at least so many bytes reserved.

        Returns the bytes given. Raises InvalidValue for a negative number, InvalidType for no int.
        """
        if not isinstance(min_bytes_to_keep, int) or isinstance(min_bytes_to_keep, bool):
            raise InvalidType(f"{min_bytes_to_keep!r} bytes to keep; expected an int")
        if min_bytes_to_keep < 0:
            raise InvalidValue(f"{min_bytes_to_keep} bytes to keep; expected 0 or more")
        return self._give_back(lambda ledger: ledger.trim(min_bytes_to_keep))

    def release_excess(self) -> int:
        """Give back what exceeds the release threshold, after synchronising. Returns the bytes given."""
        ledger = self._ledger
        if ledger.reserved <= ledger.threshold and not ledger.given:
            return 0  # a snapshot, which a lock would not make more exact
        return self._give_back(lambda ledger: ledger.shrink(ledger.threshold))

    def _give_back(self, shrink: Callable[[Ledger], None]) -> int:
        """Return how many bytes `shrink` gives back to the device."""
        ledger = self._ledger
        if self.lock.is_owned():  # a finalizer or a signal handler in the middle of an allocation
            return 0
        with self.lock:
            ledger.catch_up()
            before = ledger.reserved
            shrink(ledger)
            return before - ledger.reserved

    # ---- access

    def set_access(self, devices: int | Device | Iterable[int | Device], flags: Flags) -> None:
        """Let devices use the pool's memory: "none", "read" or "readwrite". By default only its own device does.

        Devices are ordinals or Device objects.

        Their streams may then allocate from it, and their kernels reach what it has given out, without peer access;
        copies and fills need no access. "read" is kept and not enforced: a kernel's stores go through. All devices get
        these rights, or none does. Raises InvalidDevice for an unknown device, more devices than there are, or less
        than "readwrite" for its own; InvalidValue for other flags.
        """
        try:
            access = Access[flags] if isinstance(flags, str) else Access(flags)
        except (KeyError, ValueError):
            raise InvalidValue(f"access {flags!r}; expected 'none', 'read' or 'readwrite'") from None
        owner, count = self.context.ordinal, self.context.board.options.devices
        chosen = [self._ordinal(each) for each in (devices if isinstance(devices, Iterable) else (devices,))]
        if len(chosen) > count:
            raise InvalidDevice(f"access for {len(chosen)} devices; the board has {count}")
        for ordinal in chosen:
            if ordinal == owner and access is not Access.readwrite:
                raise InvalidDevice(f"device {ordinal} owns the pool and keeps 'readwrite', not {access.name!r}")
        self._granted.update(dict.fromkeys(chosen, access))

    def get_access(self, device: int | Device) -> Access:
        """Return what a device, by its ordinal or itself, may do with the pool's memory.

        Raises InvalidDevice for an unknown one.
        """
        ordinal = self._ordinal(device)
        return Access.readwrite if ordinal == self.context.ordinal else self._granted.get(ordinal, Access.none)

    def _ordinal(self, device: int | Device) -> int:
        board = self.context.board
        count = board.options.devices
        if isinstance(device, int) and 0 <= device < count:
            return device
        if isinstance(device, int | str | float) or not isinstance(device, board.device_type):
            raise InvalidDevice(f"there is no device {device!r}; expected 0 to {count - 1}, or a Device")
        if device.driver is not board.driver:
            raise InvalidDevice(f"{device!r} is of {device.driver!r}; {self!r} is of {board!r}")
        return device.ordinal

    def opens(self, serial: int, ordinal: int) -> bool:
        """Whether the allocation of this serial is from here, free or not, and a device has access. Takes no lock."""
        ledger = self._ledger
        return (serial in ledger.lent or serial in ledger.freed) and self.get_access(ordinal) is not Access.none

    # ---- attributes

    @property
    def is_host_accessible(self) -> bool:
        """False: the host reads its memory by copies only."""
        return False

    @property
    def is_device_accessible(self) -> bool:
        """True: kernels read and write its memory."""
        return True

    @property
    def max_size(self) -> int | None:
        """The most bytes that it reserves, None: all of the device. Given when it is made."""
        return self._max_size

    @property
    def name(self) -> str:
        """Its name. Given when it is made."""
        return self._name

    @property
    def device(self) -> Device:
        """The device whose memory it is."""
        return self.context.board.device(self.context.ordinal)

    @property
    def device_id(self) -> int:
        """The ordinal of its device."""
        return self.context.ordinal

    @property
    def reuse_follow_event_dependencies(self) -> bool:
        """Whether rule 3 applies."""
        return self._ledger.blocks.events

    @reuse_follow_event_dependencies.setter
    def reuse_follow_event_dependencies(self, on: bool) -> None:
        self._ledger.blocks.events = bool(on)

    @property
    def reuse_allow_opportunistic(self) -> bool:
        """Whether rule 2 applies."""
        return self._ledger.blocks.opportunistic

    @reuse_allow_opportunistic.setter
    def reuse_allow_opportunistic(self, on: bool) -> None:
        self._ledger.blocks.opportunistic = bool(on)
        self.context.order.host_asked |= not on

    @property
    def release_threshold(self) -> int:
        """Reserved bytes that synchronising leaves alone. Setting it raises InvalidValue for a negative number."""
        return self._ledger.threshold

    @release_threshold.setter
    def release_threshold(self, nbytes: int) -> None:
        if not isinstance(nbytes, int) or nbytes < 0:
            raise InvalidValue(f"release_threshold is {nbytes!r}; expected bytes, 0 or more")
        self._ledger.threshold = nbytes

    @property
    def reserved_current(self) -> int:
        """Bytes that the pool has from the device."""
        return self.statistics().reserved_current

    @property
    def reserved_high(self) -> int:
        """The most bytes reserved since it was set to 0, which is all it can be set to (else InvalidValue)."""
        return self.statistics().reserved_high

    @reserved_high.setter
    def reserved_high(self, zero: int) -> None:
        self._check_zero("reserved_high", zero)
        with self.lock:
            self._ledger.reserved_high = self._ledger.reserved

    @property
    def used_current(self) -> int:
        """Bytes of allocations that are not freed, as they were asked for. A free counts when it is enqueued."""
        return self.statistics().used_current

    @property
    def used_high(self) -> int:
        """The most bytes used since it was set to 0, which is all it can be set to (else InvalidValue)."""
        return self.statistics().used_high

    @used_high.setter
    def used_high(self, zero: int) -> None:
        self._check_zero("used_high", zero)
        self._catch_up()
        with self.lock:
            self._ledger.used_high = self._ledger.used

    # ---- looking

    def statistics(self) -> PoolStatistics:
        """Return a snapshot of sizes, peaks and counts."""
        self._catch_up()
        with self.lock:
            ledger = self._ledger
            return PoolStatistics(
                self.context.ordinal, self.name, self.max_size, ledger.threshold, ledger.reserved, ledger.reserved_high,
                ledger.used, ledger.used_high, ledger.blocks.idle.total,
                ledger.blocks.promised_bytes + ledger.blocks.held.total, len(ledger.lent),
                *ledger.counts,
            )  # fmt: skip

    def __contains__(self, allocation: Allocation) -> bool:
        """Tell whether an allocation was taken here and not freed."""
        self._catch_up()
        return self._ledger.lent.get(allocation.serial) is not None

    def __repr__(self) -> str:
        self._catch_up()
        books = self._ledger
        limit = "" if self.max_size is None else f" of at most {self.max_size}"
        fate = ", destroyed" if books.destroyed else ""
        return f"<MemoryPool {self.name!r}: {books.used} bytes used, {books.reserved} reserved{limit}{fate}>"

    def _catch_up(self) -> None:
        """Catch up with the frees, unless this thread interrupted a call of its own that holds the lock."""
        if self.lock.is_owned():
            return
        if self.context.dropped:
            self.context.free_dropped()
        if self._ledger.given:
            with self.lock:
                self._ledger.catch_up()

    # ---- under the lock

    def _find_last(self, need: int, order: int, stream: OwningQueue) -> Found | None:
        """Find what is left where the device is exhausted: blocks of any size, and behind any free."""
        blocks = self._ledger.blocks
        found: Found | None = (blocks.find(need, ANY, order, stream)
                 or blocks.neighbours(need, ANY, order, stream, Origin.AFTER_EVENT, True))  # fmt: skip
        if found is not None or not self.reuse_allow_internal_dependencies:
            return found
        if (block := blocks.elsewhere(need, order)) is not None:
            return block, Origin.INTERNAL_DEPENDENCY
        return blocks.neighbours(need, ANY, order, stream, Origin.INTERNAL_DEPENDENCY, True)

    # ---- checks

    def _check_size(self, nbytes: int) -> int:
        try:
            size = -1 if isinstance(nbytes, bool) else operator.index(nbytes)
        except TypeError:
            size = -1
        if size < 0:
            raise InvalidValue(f"an allocation of {nbytes!r} bytes; expected an int, 0 or more")
        return size

    def _check_user(self, stream: OwningQueue) -> None:
        context, user = self.context, stream.context
        if context.dead is not None:
            raise context.dead.fresh()
        if self._ledger.destroyed:
            raise InvalidHandle(f"{self!r} is destroyed")
        if user.board is not context.board or user.ordinal == context.ordinal:
            raise InvalidHandle(f"{self!r} cannot serve {stream!r}: another board's, or made before a reset")
        if self.get_access(user.ordinal) is Access.none:
            raise InvalidHandle(f"device {user.ordinal} of {stream!r} has no access to {self!r}; set_access gives it")

    def _check_zero(self, name: str, value: int) -> None:
        if value != 0:
            raise InvalidValue(f"{name} of {self!r} set to {value!r}; expected 0, which starts it from what is current")

    def _out_of_memory(self, size: int) -> OutOfMemory:
        books, device = self._ledger, self._ledger.memory.statistics()
        limit = "no limit" if self.max_size is None else f"a limit of {self.max_size}"
        if promised := books.blocks.promised_bytes:
            limit += f" ({promised} were freed in streams that have still to come to it: await those, and ask again)"
        if held := books.blocks.held.total:
            limit += (
                f" ({held} were freed in streams that left out waits, and may be in use: they come back when that is "
                "over which was to be waited for)"
            )
        return OutOfMemory(
            f"{self.name} has no {size} bytes: {books.used} are used and {books.reserved} reserved, in blocks of whole "
            f"{books.granule} bytes, with {limit}; "
            f"device {self.context.ordinal} has {device.free} bytes free, the largest free range has "
            f"{device.largest_free} (fragmentation {device.fragmentation:.0%})"
        )
