"""One device's hardware: clusters of SIP threads, scratchpads, kernel signals, the FIFO of what kernels print.

The runtime gives the chip its memory when it builds it.
"""

from __future__ import annotations

import mmap
import operator
import platform
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol

import numpy as np

from atops.base.errors import InvalidType, InvalidValue
from atops.base.locks import check_entry, fork_safe, make_lock
from atops.base.options import EmulatorOptions
from atops.base.waiting.parking_lot import ParkingLot, wake
from atops.device.arch import Architecture
from atops.device.cost import NS, SignalTimes

__all__ = (
    "DEFAULT_SIZE", "POISON", "RECORD_BYTES", "Chip", "Cluster", "KernelSignals", "PrintFifo", "Printed", "Scratch",
    "Scratchpad", "SignalWaiter", "Sip", "keeping_clusters",
)  # fmt: skip

POISON = 0xA5
_LARGE = 4 << 20  # bytes
_L1 = 2 << 20  # bytes; no L1 has more, and no L2 less
_LOW = 0x40 if sys.platform == "linux" and platform.machine() == "x86_64" else 0  # MAP_32BIT
_CLEARED = 256 << 10  # bytes of a scratchpad that are cleared by hand for the next chip; with more it is made anew
MASK = 0xFFFFFFFF  # of a kernel signal
DEFAULT_SIZE = 1 << 20  # of the FIFO of printed text, as CUDA's
RECORD_BYTES = 16  # what a text takes beside its characters, so that the number of texts is bounded too


class Scratch(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of an L1 or L2. A plain array that is made of a part of them is the base of all its views.

    numpy names as the base of a view the farthest array of the view's own type. With plain arrays alone that would be
    all of the scratchpad, and nothing would tell how long a part of it is in use. `used` is the end of what kernels
    have ever taken of it: what lies behind is 0.
    """

    __slots__ = ("used",)

    used: int


class Scratchpad:
    """The usable bytes of an L1 or L2, made when first touched and kept between kernels: their contents are stale."""

    __slots__ = ("_bytes", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._bytes: Scratch | None = None

    @property
    def bytes(self) -> Scratch:
        """The memory, as one array of bytes, aligned to a page; zeros at first, so that runs are alike."""
        held = self._bytes
        if held is None:
            held = self._bytes = _scratch(self.capacity)
        return held

    def replace(self) -> None:
        """Leave the memory to the kernel that may still write to it, and have fresh memory from now on."""
        self._bytes = None

    def clear(self) -> None:
        """Have all bytes 0 again: fresh memory where they are many, or where something else refers to a part of it."""
        held = self._bytes
        if held is not None:
            if held.used <= _CLEARED and sys.getrefcount(held) == 3:  # of this, the name here, and the call
                held[: held.used] = held.used = 0
            else:
                self._bytes = None


def _scratch(size: int) -> Scratch:
    """Return the bytes of a scratchpad, all 0."""
    scratch = Scratch((size,), np.uint8, _pages(size))
    scratch.used = 0
    return scratch


def _pages(size: int) -> mmap.mmap:
    """Return zeroed pages, large ones where that pays: numpy asks for them from the same size on.

    Those of an L1 have addresses of 31 bits while there are any, as on the chip: kernels in C++ keep them in an int.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        pages = mmap.mmap(-1, size, flags=flags | (_LOW if size <= _L1 else 0))
    except OSError:  # there are none any more
        pages = mmap.mmap(-1, size, flags=flags)
    if size >= _LARGE and hasattr(mmap, "MADV_HUGEPAGE") and not _keepers[0]:
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


_keepers = [0]  # blocks of `keeping_clusters` that go on
_kept: list[tuple[Architecture, list[Cluster]]] = []  # of chips that were closed, as new
_keeping = fork_safe(threading.Lock())


@contextmanager
def keeping_clusters() -> Iterator[None]:
    """For the block, have chips take the clusters of closed ones, as good as new, instead of making their own.

    For hundreds of short runs, each on a chip of its own: to make them, and new pages, takes long. Several threads may.
    """
    with _keeping:
        _keepers[0] += 1
    try:
        yield
    finally:
        with _keeping:
            _keepers[0] -= 1
            if not _keepers[0]:
                _kept.clear()


def _clusters(arch: Architecture) -> list[Cluster]:
    """Return the clusters of a new chip."""
    if _keepers[0] and _kept:
        try:
            of, clusters = _kept.pop()
        except IndexError:  # another thread took them
            pass
        else:
            if of is arch:
                return clusters
    return [Cluster(cluster, arch) for cluster in range(arch.clusters)]


class Sip:
    """One hardware thread of a cluster, with its L1. `sync` and `grid_sync` are for what runs threads on it."""

    __slots__ = ("_l1", "cluster", "grid_sync", "ordinal", "sync")

    def __init__(self, cluster: Cluster, ordinal: int, l1_bytes: int) -> None:
        self.cluster = cluster
        self.ordinal = ordinal
        self._l1 = Scratchpad(l1_bytes)
        self.sync: Any = None
        self.grid_sync: Any = None

    @property
    def l1(self) -> Scratch:
        """The usable bytes of this SIP's L1."""
        held = self._l1._bytes
        return held if held is not None else self._l1.bytes

    def __repr__(self) -> str:
        return f"<Sip {self.ordinal} of cluster {self.cluster.ordinal}>"


class Cluster:
    """SIP threads that share an L2. It runs one block at a time."""

    __slots__ = ("_l2", "native", "ordinal", "sips")

    def __init__(self, ordinal: int, arch: Architecture) -> None:
        self.native: Any = None  # its memories as machine code has them, until they are renewed
        self.ordinal = ordinal
        self.sips = [Sip(self, sip, arch.l1_usable) for sip in range(arch.sips_per_cluster)]
        self._l2 = Scratchpad(arch.l2_usable)

    @property
    def l2(self) -> Scratch:
        """The usable bytes of this cluster's L2."""
        return self._l2.bytes

    def renew(self) -> None:
        """Leave L1, L2 and requests to a kernel that was abandoned, so that nothing it does reaches the next one."""
        self.native = None
        self._l2.replace()
        for sip in self.sips:
            sip._l1.replace()
            sip.sync = sip.grid_sync = None

    def clear(self) -> bool:
        """Be as a new one. Returns False where a thread of a kernel may still be on it."""
        self.native = None
        self._l2.clear()
        for sip in self.sips:
            if sys.getrefcount(sip) > 3:  # the list, the name here, and the call
                return False
            sip._l1.clear()
            for request in (sip.sync, sip.grid_sync):
                if request is not None:
                    request.frame = None
        return True

    def __repr__(self) -> str:
        return f"<Cluster {self.ordinal}: {len(self.sips)} SIPs>"


class SignalWaiter(Protocol):
    """A wait for a signal: `met` tests a value, `wake` is called once, with no lock held."""

    def met(self, now: int) -> bool:
        """Return whether the waiter may go on when the signal is `now`."""

    def wake(self) -> None:
        """Let the waiter go on."""


class KernelSignals:
    """`count` signals, all 0 at first. Every method is safe from any OS thread; raises InvalidValue for others.

    Under a virtual clock `now` tells its nanoseconds: then each signal keeps when it had which value. Kernel threads
    give their own time, in picoseconds, with what they store.
    """

    __slots__ = ("_lock", "_lots", "_times", "_values", "now")

    def __init__(self, count: int) -> None:
        self.now: Callable[[], int] | None = None
        self._times: dict[int, SignalTimes] = {}
        self._values = [0] * count
        self._lots: dict[int, ParkingLot[SignalWaiter]] = {}
        self._lock = make_lock()

    def set(self, index: int, value: int, time: int | None = None) -> None:
        """Store `value`, modulo 2**32, and wake those whose condition it meets."""
        self._store(self.check(index), value, 0, time)

    def add(self, index: int, value: int = 1, time: int | None = None) -> int:
        """Add `value`, modulo 2**32, wake those whose condition is met, and return the value before."""
        return self._store(self.check(index), value, 1, time)

    def times(self, index: int) -> SignalTimes:
        """Return when a signal had which value, under a virtual clock."""
        found = self._times.get(index)
        if found is None:
            found = self._times[index] = SignalTimes()
        return found

    def read(self, index: int) -> int:
        """Return the value, 0 to 2**32 - 1."""
        return self._values[self.check(index)]

    def park(self, index: int, waiter: SignalWaiter) -> bool:
        """Return whether the waiter's condition is met already; where it is not, park the waiter."""
        with self._lock:
            if waiter.met(self._values[self.check(index)]):
                return True
            lot = self._lots.get(index)
            if lot is None:
                lot = self._lots[index] = ParkingLot(f"signal {index}")
            lot.park(waiter)
            return False

    def host_waits(self, index: int) -> bool:
        """Return whether something else than kernel threads waits for the signal."""
        lot = self._lots.get(self.check(index))
        return lot is not None and any(getattr(waiter, "thread", None) is None for waiter in lot)

    def discard(self, index: int, waiter: SignalWaiter) -> None:
        """Forget a waiter that gave up."""
        with self._lock:
            if (lot := self._lots.get(index)) is not None:
                lot.discard(waiter)

    def reset(self) -> None:
        """Store 0 in every signal, as a device reset does; waiters whose condition that meets are woken."""
        for index in range(len(self._values)):
            self.set(index, 0)

    def check(self, index: int) -> int:
        """Return `index`. Raises InvalidValue where there is no such signal."""
        if not 0 <= index < len(self._values):
            raise InvalidValue(f"kernel signal is {index!r}; this chip has 0 to {len(self._values) - 1}")
        return index

    def _store(self, index: int, value: int, keep: int, time: int | None) -> int:
        """Store `value` plus `keep` times the old value; wake the waiters that it satisfies, with the lock released."""
        check_entry(self._lock, "a kernel signal was written")
        with self._lock:
            before = self._values[index]
            now = self._values[index] = (before * keep + value) & MASK
            if self.now is not None:
                clock = self.now() * NS
                self.times(index).store(now, clock if time is None else time, clock)
            met = self._met(index, now)
        wake(met)
        return before

    def _met(self, index: int, now: int) -> list[SignalWaiter]:
        """Take those out of the signal's lot whose condition `now` meets. The lock is held."""
        lot = self._lots.get(index)
        met = [waiter for waiter in lot or () if waiter.met(now)]
        for waiter in met:
            lot.discard(waiter)  # type: ignore[union-attr]  # there is a lot where a waiter was met
        return met

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        waiting = sum(len(lot) for lot in self._lots.values())
        return f"<KernelSignals: {len(self._values)} signals, {waiting} waiting>"


class Printed(NamedTuple):
    """The text of one call of printf; `origin` is hashable, and as a rule the bound kernel."""

    text: str
    origin: object


class PrintFifo:
    """At most `size` bytes of texts, in the order they came. Every method is safe from any OS thread.

    One at a time takes the texts, shows them and says so with `settle`; until then `owes` their origins.
    """

    __slots__ = ("_held", "_lock", "_lost", "_size", "_taken", "_texts", "_used", "lost")

    def __init__(self, size: int = DEFAULT_SIZE) -> None:
        self._lock = threading.Lock()
        self._texts: deque[tuple[Printed, int]] = deque()
        self._size = size
        self._used = 0
        self._lost = 0  # since the last `take`
        self.lost = 0  # ever
        self._held: set[object] = set()  # whose texts are here, or were until they were lost
        self._taken: set[object] = set()  # whose texts are being shown

    @property
    def size(self) -> int:
        """How many bytes it holds. Making it smaller loses the oldest texts that have no room any more.

        Raises InvalidType for what is no int, InvalidValue below 1.
        """
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        try:
            size = operator.index(size)
        except TypeError:
            raise InvalidType(f"the size of a printf FIFO is {size!r}; expected a number of bytes") from None
        if size < 1:
            raise InvalidValue(f"the size of a printf FIFO is {size}; expected at least 1 byte")
        with self._lock:
            self._size = size
            self._overwrite()

    def put(self, text: str, origin: object = None) -> None:
        """Append a text; the oldest make room for it. A text that is larger than the whole FIFO is lost itself."""
        if not text:
            return
        nbytes = RECORD_BYTES + (len(text) if text.isascii() else len(text.encode("utf-8", "replace")))
        with self._lock:
            self._held.add(origin)
            if nbytes > self._size:
                self._lose()
                return
            self._texts.append((Printed(text, origin), nbytes))
            self._used += nbytes
            if self._used > self._size:
                self._overwrite()

    def take(self) -> tuple[list[Printed], int]:
        """Remove and return every text, the oldest first, and how many were lost before them since the last time."""
        with self._lock:
            texts = [printed for printed, _ in self._texts]
            lost, self._lost = self._lost, 0
            self._texts.clear()
            self._used = 0
            self._taken |= self._held  # before clearing: `owes` reads _held, then _taken, without the lock
            self._held.clear()
        return texts, lost

    def mark_shown(self) -> None:
        """Note that everything taken has been shown."""
        with self._lock:
            self._taken.clear()

    def owes(self, origin: object) -> bool:
        """Return whether a text of `origin` is not shown yet; call only once `origin` has stopped printing."""
        return origin in self._held or origin in self._taken

    @property
    def quiet(self) -> bool:
        """Whether every text that was put has been shown."""
        return not self._held and not self._taken

    def _overwrite(self) -> None:
        """Lose the oldest texts until the rest fits. The lock is held."""
        while self._used > self._size:
            _, nbytes = self._texts.popleft()
            self._used -= nbytes
            self._lose()

    def _lose(self) -> None:
        self._lost += 1
        self.lost += 1

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"<PrintFifo: {len(self._texts)} texts, {self._used} of {self._size} bytes, {self.lost} lost>"


class Chip:
    """The hardware of device `ordinal`. `memory` is what the runtime gives its kernels as global memory.

    `variables` belongs to the kernel language: the instances of declared variables, until their memory is closed.
    """

    __slots__ = (
        "__weakref__", "arch", "clusters", "detects", "memory", "options", "ordinal", "print_fifo", "signals",
        "variables", "waits_move",
    )  # fmt: skip

    def __init__(
        self, arch: Architecture, ordinal: int, options: EmulatorOptions | None = None, memory: Any = None
    ) -> None:
        self.arch = arch
        self.ordinal = ordinal
        self.options = options = options if options is not None else EmulatorOptions(arch=arch.name)
        self.detects = options.detect or options.strict  # whether its launches are looked at for races
        # Whether a transfer may be done at its await, by the thread that awaits it.
        self.waits_move = options.dte == "wait" and not options.strict and options.workers != "sip"
        self.memory = memory
        self.clusters = _clusters(arch)
        self.signals = KernelSignals(arch.kernel_signals)
        self.print_fifo = PrintFifo()
        self.variables: dict[object, Any] = {}

    def close(self) -> None:
        """Forget the instances of declared variables, and give up all L1 and L2, which another chip may get.

        They go now: the objects around them may wait long for the collector, or for the last dead handle to go.
        """
        self.variables.clear()
        clusters, self.clusters = self.clusters, []
        if _keepers[0] and all(cluster.clear() for cluster in clusters):
            _kept.append((self.arch, clusters))
        else:
            for cluster in clusters:
                cluster.renew()

    def __repr__(self) -> str:
        return f"<Chip {self.ordinal}: {self.arch.name}, {len(self.clusters)} clusters>"
