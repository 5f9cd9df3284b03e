"""One device's hardware: clusters of SIP threads, their scratchpads, the kernel signals, and what kernels print.

The runtime gives the chip its memory when it builds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from atops.base.options import EmulatorOptions
from atops.device.arch import Architecture
from atops.device.print_fifo import PrintFifo
from atops.device.signals import KernelSignals

__all__ = ("POISON", "Chip", "Cluster", "Scratchpad", "Sip")

POISON = 0xA5
ALIGNMENT = 128  # bytes: of a vector load


class Scratchpad:
    """The usable bytes of an L1 or L2, made when first touched and kept between kernels: their contents are stale."""

    __slots__ = ("_bytes", "_poison", "capacity", "ready")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._bytes: npt.NDArray[np.uint8] | None = None
        self._poison = False
        self.ready: npt.NDArray[np.uint8] | None = None  # `bytes`, where nothing is to be done first

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """The memory, as one array of bytes; poisoned now if that is due."""
        held = self._bytes
        if held is None:
            held = self._bytes = _zeros(self.capacity)  # the same in every run
        if self._poison:
            self._poison = False
            held.fill(POISON)
        self.ready = held
        return held

    def poison(self) -> None:
        """Make the next access find 0xA5 in every byte: nothing that an earlier block left here can be read."""
        self._poison = True
        self.ready = None

    def replace(self) -> None:
        """Leave the memory to the kernel that may still write to it, and have fresh memory from now on."""
        self._bytes = self.ready = None


def _zeros(size: int) -> npt.NDArray[np.uint8]:
    """Return aligned zeros. Views of them have them as their base, for what they lie in is no array.

    Not only for vectors: some processors copy at a tenth of their speed to 1 to 31 bytes behind the source in a page.
    """
    room = np.zeros(size + ALIGNMENT, np.uint8)
    first = -room.ctypes.data % ALIGNMENT
    return np.frombuffer(room.data[first : first + size], np.uint8)


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
    def l1(self) -> npt.NDArray[np.uint8]:
        """The usable bytes of this SIP's L1."""
        held = self._l1.ready
        return held if held is not None else self._l1.bytes

    def __repr__(self) -> str:
        return f"<Sip {self.ordinal} of cluster {self.cluster.ordinal}>"


class Cluster:
    """SIP threads that share an L2. It runs one block at a time."""

    __slots__ = ("_l2", "ordinal", "sips")

    def __init__(self, ordinal: int, arch: Architecture) -> None:
        self.ordinal = ordinal
        self.sips = [Sip(self, sip, arch.l1_usable) for sip in range(arch.sips_per_cluster)]
        self._l2 = Scratchpad(arch.l2_usable)

    @property
    def l2(self) -> npt.NDArray[np.uint8]:
        """The usable bytes of this cluster's L2."""
        return self._l2.bytes

    def poison(self) -> None:
        """Make the next block find 0xA5 in L1 wherever it has not written itself (strict mode).

        Not in L2, which is large: a part of it is poisoned when it is handed out.
        """
        for sip in self.sips:
            sip._l1.poison()

    def renew(self) -> None:
        """Leave L1, L2 and requests to a kernel that was abandoned, so that nothing it does reaches the next one."""
        for pad in self._scratchpads():
            pad.replace()
        for sip in self.sips:
            sip.sync = sip.grid_sync = None

    def _scratchpads(self) -> Iterator[Scratchpad]:
        yield self._l2
        for sip in self.sips:
            yield sip._l1

    def __repr__(self) -> str:
        return f"<Cluster {self.ordinal}: {len(self.sips)} SIPs>"


class Chip:
    """The hardware of device `ordinal`. `memory` is what the runtime gives its kernels as global memory.

    `variables` belongs to the kernel language: the instances of declared variables, until their memory is closed.
    """

    __slots__ = (
        "__weakref__", "arch", "clusters", "memory", "options", "ordinal", "print_fifo", "signals", "variables",
    )  # fmt: skip

    def __init__(
        self, arch: Architecture, ordinal: int, options: EmulatorOptions | None = None, memory: Any = None
    ) -> None:
        self.arch = arch
        self.ordinal = ordinal
        self.options = options if options is not None else EmulatorOptions(arch=arch.name)
        self.memory = memory
        self.clusters = [Cluster(cluster, arch) for cluster in range(arch.clusters)]
        self.signals = KernelSignals(arch.kernel_signals)
        self.print_fifo = PrintFifo()
        self.variables: dict[object, Any] = {}

    def __repr__(self) -> str:
        return f"<Chip {self.ordinal}: {self.arch.name}, {len(self.clusters)} clusters>"
