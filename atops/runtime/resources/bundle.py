"""Resource bundles of a device, and its reservation: where work may run, and what is left for the rest (2.11).

A bundle's work runs on its part of the clusters only; an exclusive part runs nothing else. A cluster runs one block at
a time, so that bundles which have SIPs of one cluster take turns on it. Where it claims copy engines its copies hold no
more of them at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial

from atops.base.dims import Dim3
from atops.base.errors import IllegalState, InvalidHandle, InvalidType, InvalidValue, LaunchOutOfResources, OutOfMemory
from atops.base.result_codes import Result
from atops.device.arch import Architecture
from atops.device.call_site import caller
from atops.device.copy_engine import CopyEngines
from atops.device.memory.allocation import Allocation
from atops.device.memory.device_memory import DeviceMemory
from atops.runtime.board.context import DeviceContext
from atops.runtime.board.current_device import repeat_after_cell
from atops.runtime.board.deferred_free import free_when_idle, when_over
from atops.runtime.commands.launch import Launch
from atops.runtime.core.completion import Completion
from atops.runtime.memory.buffer import Buffer
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.resources.placement import (
    BundleRequest,
    Claimed,
    Part,
    banks_of,
    choose_part,
    choose_reservation,
    left_by,
    near_banks,
)

__all__ = (
    "ReservedMemory", "ResourceBundle", "Resources", "bundle_of", "chosen_bundle",
    "create_bundle", "resources_of", "set_chosen_bundle", "within",
)  # fmt: skip


# ---- which bundle is meant when none is named: a context variable, as the current device is

TASK: ContextVar[ResourceBundle | None] = ContextVar("atops_default_bundle", default=None)


def chosen_bundle() -> ResourceBundle | None:
    """Return the default bundle of this task, which may be of any device, or None."""
    return TASK.get()


def set_chosen_bundle(bundle: ResourceBundle | None) -> None:
    """Make a bundle, or none, the default of this task, or of this thread outside of tasks."""
    TASK.set(bundle)
    repeat_after_cell(partial(set_chosen_bundle, bundle))


@contextmanager
def within(bundle: ResourceBundle | None) -> Iterator[None]:
    """Let what this task enqueues in the block be the bundle's; with None, as it is without."""
    token = None if bundle is None else TASK.set(bundle)
    try:
        yield
    finally:
        if token is not None:
            TASK.reset(token)


# ---- bundles


def create_bundle(context: DeviceContext, request: BundleRequest) -> ResourceBundle:
    """Claim what `request` says of a device. `ResourceBundle.close` ends it.

    Raises LaunchOutOfResources or OutOfMemory for what cannot be had now, and then holds nothing; InvalidValue for
    clusters that the device does not have.
    """
    context.check_alive()
    return resources_of(context).create(request)


def resources_of(context: DeviceContext) -> Resources:
    """Return the bundles and the reservation of a device, made when first asked for."""
    with context.board.lock:
        if context.resources is None:
            context.resources = Resources(context)
        return context.resources


def bundle_of(context: DeviceContext, bundle: ResourceBundle | None = None) -> ResourceBundle | None:
    """Return the bundle that work on a device runs in: the one given, else the caller's default; None for neither.

    A default of another device, or of before a reset, does not count. Raises InvalidHandle for one that was destroyed,
    and for a given one of another device.
    """
    if bundle is None:
        bundle = chosen_bundle()
        if bundle is None or bundle.context is not context:
            return None
    elif bundle.context is not context:
        raise InvalidHandle(f"{bundle!r} is of another device than device {context.ordinal} is now")
    if bundle.closed:
        raise InvalidHandle(f"{bundle!r} was destroyed; name another one, or make none the default")
    return bundle


class ResourceBundle:
    """Clusters, or SIPs of one, and memory of a device. `part` has a mask of SIPs for each of the device's clusters.

    `engines` are places for as many of its copies as may hold engines of the device at once; None where it claims none,
    and they use any.
    """

    __slots__ = ("claimed", "closed", "clusters", "context", "engines", "memory", "part")

    def __init__(self, context: DeviceContext, claimed: Claimed, memory: ReservedMemory) -> None:
        self.context = context
        self.claimed = claimed
        self.part = claimed.part
        self.clusters = tuple(ordinal for ordinal, mask in enumerate(claimed.part) if mask)
        self.memory = memory
        engines = context.engines
        self.engines = CopyEngines(claimed.engines, engines.lock, engines.offer) if claimed.engines else None
        self.closed = False

    @property
    def processors(self) -> int:
        """On how many clusters it is; a part of one counts as one (topsResourceBundleProcessorCount)."""
        return len(self.clusters)

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate of what is reserved for it, else by its policy. `close` of the buffer gives it back to the bundle.

        Raises OutOfMemory, InvalidValue for a negative size, InvalidHandle when the bundle was destroyed.
        """
        context = self.context
        if self.closed:
            raise InvalidHandle(f"{self!r} was destroyed and allocates no more")
        site = caller()
        try:
            allocation = self.memory.allocate(nbytes, site)
        except OutOfMemory:
            if not context.trim_pools():
                raise
            allocation = self.memory.allocate(nbytes, site)
        context.board.executor.start()
        return Buffer(allocation, 0, nbytes, partial(free_when_idle, context, self.memory.give_back), context.board)

    def close(self) -> None:
        """Be of no use any more. What it claims goes when the work that was enqueued in it is over. Idempotent."""
        board = self.context.board
        with board.lock:
            if self.closed:
                return
            self.closed = True
            streams = list(self.context.active)
        items = [item for stream in streams for item in stream.pending() if self._has(item)]
        when_over(items, self._release)

    def _has(self, item: Completion) -> bool:
        if isinstance(command := item.command, Launch):
            return command.options.bundle is self
        return item.share is not None and item.share is self.engines

    def _release(self) -> None:
        resources_of(self.context).drop(self)
        self.memory.close()

    def __repr__(self) -> str:
        """Return its clusters, and the SIPs that it has of each."""
        sips = [f"{ordinal} ({self.part[ordinal].bit_count()} SIPs)" for ordinal in self.clusters]
        exclusive = "exclusive, " if self.claimed.exclusive else ""
        return (
            f"<ResourceBundle on device {self.context.ordinal}: {exclusive}clusters {', '.join(sips)}"
            f"{', destroyed' if self.closed else ''}>"
        )


class Resources:
    """What of one device is claimed: its bundles, and the reservation of this process. Safe from any thread."""

    def __init__(self, context: DeviceContext) -> None:
        arch = context.arch
        self._context = context
        self._lock = threading.Lock()
        self._whole: Part = ((1 << arch.sips_per_cluster) - 1,) * arch.clusters
        self._base = self._whole  # what is reserved, else everything
        self._bundles: tuple[ResourceBundle, ...] = ()
        self._reserved = 0  # SIP threads that were asked for; 0: no reservation

    # ---- bundles

    def create(self, request: BundleRequest) -> ResourceBundle:
        """Claim what a request says. Raises as `create_bundle` does."""
        arch = self._context.arch
        with self._lock:
            part = choose_part(request, self._base, self._claims(), arch.copy_engines_per_cluster)
            claimed = Claimed(part, request.engines, request.exclusive)
            memory = ReservedMemory(self._context.memory, _banks(arch, request.policy, part))
            bundle = ResourceBundle(self._context, claimed, memory)
            self._bundles = (*self._bundles, bundle)
        try:
            self._reserve(memory, request.memory)
        except BaseException:
            self.drop(bundle)
            raise
        self._context.clusters.restrict(self._left)
        return bundle

    def _reserve(self, memory: ReservedMemory, nbytes: int) -> None:
        try:
            memory.reserve(nbytes)
        except OutOfMemory:
            if not self._context.trim_pools():
                raise
            memory.reserve(nbytes)

    def drop(self, bundle: ResourceBundle) -> None:
        """Let what a bundle claims be used by others."""
        with self._lock:
            self._bundles = tuple(each for each in self._bundles if each is not bundle)
        self._context.clusters.restrict(self._left)

    def admit(self, stream: StreamQueue, launch: Launch) -> Launch:
        """Return a launch with the bundle that it runs in: the one that its options name, else the caller's default.

        Raises LaunchOutOfResources or CooperativeLaunchTooLarge where its part, or what is left to work without one,
        cannot hold the blocks; InvalidHandle for a default bundle that was destroyed.
        """
        config, options = launch.config, launch.options
        bundle = bundle_of(self._context, options.bundle)
        self._context.clusters.check(
            launch.bound.name, config.block.volume, config.grid.volume, config.cooperative, stream.cluster_mask,
            stream.sip_mask, options.pinned, None if bundle is None else bundle.part,
        )  # fmt: skip
        return launch if bundle is options.bundle else launch.in_bundle(bundle)

    @property
    def engines(self) -> CopyEngines | None:
        """What a copy that the caller enqueues now shares of the copy engines: its default bundle's, if that has some.

        None for any engine, also with a default that was destroyed: copies run on no cluster.
        """
        bundle = chosen_bundle()
        if bundle is None or bundle.context is not self._context or bundle.closed:
            return None
        return bundle.engines

    # ---- the reservation

    def reserve(self, threads: int) -> None:
        """Have the launches of this process use only so many SIP threads: of one cluster, or else whole clusters.

        0 reserves nothing; the number in force succeeds. Bundles that were made before keep what they have. Raises
        InvalidValue for more than the device has, and IllegalState with the code DeviceAlreadyInUse where another
        number is reserved or too few are left beside exclusive bundles (2.11 topsSetDeviceAndResourceReservation).
        """
        arch = self._context.arch
        if not isinstance(threads, int):
            raise InvalidType(f"reserved threads are {threads!r}; expected an int")
        if not 0 <= threads <= arch.sips:
            raise InvalidValue(f"{threads} SIP threads of device {self._context.ordinal}; expected 0 to {arch.sips}")
        with self._lock:
            if not threads or threads == self._reserved:
                return
            if self._reserved:
                raise _in_use(f"device {self._context.ordinal} has {self._reserved} threads reserved, not {threads}")
            try:
                self._base = choose_reservation(threads, self._whole, self._claims())
            except LaunchOutOfResources as error:
                raise _in_use(f"device {self._context.ordinal}: {error}") from None
            self._reserved = threads
        self._context.clusters.restrict(self._left)

    @property
    def geometry(self) -> Architecture:
        """The architecture's figures, with the clusters and SIPs that are reserved."""
        arch, base = self._context.arch, self._base
        if base == self._whole:
            return arch
        width = max(mask.bit_count() for mask in base)
        return replace(
            arch,
            clusters=sum(map(bool, base)),
            sips_per_cluster=width,
            max_threads_per_block=min(arch.max_threads_per_block, width),
            max_block=Dim3(*(min(extent, width) for extent in arch.max_block)),
        )

    # ---- the figures

    def _claims(self) -> tuple[Claimed, ...]:
        return tuple(each.claimed for each in self._bundles)

    def _left(self) -> Part | None:
        """Return what work without a bundle may use; None for everything."""
        left = left_by(self._base, self._claims())
        return None if left == self._whole else left

    def __repr__(self) -> str:
        return f"<Resources of device {self._context.ordinal}: {len(self._bundles)} bundles, {self._reserved} reserved>"


def _banks(arch: Architecture, policy: str, part: Part) -> tuple[int, ...]:
    """Return the banks that a policy takes memory from for a bundle with this part of the device, in its order."""
    if policy == "none":
        return tuple(range(arch.banks))
    clusters = [number for number, sips in enumerate(part) if sips]
    return banks_of(arch, clusters) if policy == "affinity_only" else near_banks(arch, clusters)


def _in_use(message: str) -> IllegalState:
    error = IllegalState(message)
    error.code = Result.DeviceAlreadyInUse  # type: ignore[misc]  # this one carries its own code
    return error


# ---- memory: what is reserved for a bundle, and where it allocates once that is used up

LABEL = "reserved by a resource bundle"


class ReservedMemory:
    """Ranges of a device's memory for one bundle, taken from `banks` in this order, and allocations of them."""

    def __init__(self, memory: DeviceMemory, banks: tuple[int, ...]) -> None:
        self.banks = banks
        self._memory = memory
        self._lock = threading.Lock()
        self._pieces: list[Allocation] = []  # what is free, by address
        self._inside: set[int] = set()  # by serial, what was allocated of them

    @property
    def free(self) -> int:
        """The reserved bytes that are not allocated."""
        with self._lock:
            return sum(piece.size for piece in self._pieces)

    def reserve(self, nbytes: int) -> None:
        """Take so many bytes, in as many ranges as it needs. Raises OutOfMemory; then it holds nothing."""
        site, left = "a resource bundle", nbytes
        try:
            for bank in self.banks:
                while left:
                    most = self._memory.statistics().banks[bank].largest_free
                    if not most:
                        break
                    part = min(left, most)
                    try:
                        piece = self._memory.allocate(part, bank=bank, site=site, label=LABEL)
                    except OutOfMemory:  # another thread was faster; what is left is looked at again
                        continue
                    self._pieces.append(piece)
                    left -= part
            if left:
                raise OutOfMemory(f"{nbytes} bytes for a resource bundle on banks {self.banks}: {left} are not there")
        except BaseException:
            self.close()
            raise
        self._pieces.sort(key=lambda piece: piece.offset)

    def allocate(self, nbytes: int, site: object) -> Allocation:
        """Allocate of what is reserved, or outside of it by the same order of banks. Raises OutOfMemory."""
        if nbytes:
            with self._lock:
                rank = self.banks.index
                able = [each for each in self._pieces if each.size >= nbytes]
                if able:
                    piece = min(able, key=lambda each: (rank(each.bank), each.size))
                    self._pieces.remove(piece)
                    found, rest = self._memory.cut(piece, nbytes, "the bundle it was reserved for", site)
                    self._keep(rest)
                    self._inside.add(found.serial)
                    return found
        return self._outside(nbytes, site)

    def _outside(self, nbytes: int, site: object) -> Allocation:
        for bank in self.banks:
            try:
                return self._memory.allocate(nbytes, bank=bank, site=site)
            except OutOfMemory:
                continue
        if len(self.banks) == len(self._memory.statistics().banks):
            return self._memory.allocate(nbytes, site=site)  # across the ends of banks
        raise OutOfMemory(f"none of banks {self.banks} has {nbytes} bytes in one piece")

    def give_back(self, allocation: Allocation, by: object) -> None:
        """End an allocation: its range is reserved again, as long as the bundle lives. Raises IllegalAddress.

        Not where another process has mapped it: it goes to the device then, once none has.
        """
        with self._lock:
            inside = allocation.serial in self._inside
            self._inside.discard(allocation.serial)
            if inside and not self._memory.is_pinned(allocation):
                self._keep(self._memory.cut(allocation, None, by, allocation.site, LABEL)[0])
                return
        self._memory.free(allocation, by)

    def close(self) -> None:
        """Give back what is reserved. What is allocated stays valid until it is freed."""
        with self._lock:
            pieces, self._pieces, self._inside = self._pieces, [], set()
        for piece in pieces:
            if piece.alive:  # a reset may have been faster
                self._memory.free(piece, "the end of its resource bundle")

    def _keep(self, piece: Allocation | None) -> None:
        """Put a free range among the others, joined with its neighbours. The lock is held."""
        if piece is None:
            return
        for other in self._pieces.copy():
            low, high = (other, piece) if other.offset < piece.offset else (piece, other)
            whole = self._memory.join(low, high, "its resource bundle")
            if whole is not None:
                self._pieces.remove(other)
                piece = whole
        self._pieces.append(piece)
        self._pieces.sort(key=lambda each: each.offset)
