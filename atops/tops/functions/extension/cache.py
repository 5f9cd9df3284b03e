"""The L2 prefetch buffer of gcu300 (TOPS Runtime API, 2.11). Elsewhere both functions succeed without effect.

Strict mode reports what is read after it was written, without an invalidation in between.
"""

from __future__ import annotations

from atops.base.errors import InvalidValue
from atops.runtime.device import Device
from atops.runtime.memory.buffer import Buffer
from atops.runtime.memory.prefetch import PrefetchBuffer
from atops.tops.bridge.arguments import size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_driver
from atops.tops.bridge.pointers import device_memory

__all__ = ("topsMemCacheInvalidate", "topsMemCachePrefetch")

WITH_PREFETCH = 300  # the architecture that has the buffer


@call
def topsMemCachePrefetch(dptr: int, size: int) -> None:
    """Enter a range of one live allocation into the prefetch buffer of its device; 0 bytes enter nothing.

    MemoryAllocation: it does not fit beside the other entries. InvalidValue: not device memory, a range that leaves its
    allocation or overlaps an entry.
    """
    if (found := _buffer_and_range(dptr, size)) is not None:
        prefetched, memory = found
        prefetched.enter(memory)


@call
def topsMemCacheInvalidate(dptr: int, size: int) -> None:
    """Drop every entry of the prefetch buffer that a range touches; memory keeps its contents.

    InvalidValue: not device memory, or a range that leaves its allocation.
    """
    if (found := _buffer_and_range(dptr, size)) is not None:
        prefetched, memory = found
        prefetched.drop(memory)


def _buffer_and_range(dptr: int, size: int) -> tuple[PrefetchBuffer, Buffer] | None:
    """Return the prefetch buffer and the memory of a call; None where there is no such buffer."""
    driver = current_driver()
    nbytes = size_of(size)
    if driver.arch.gcu_arch != WITH_PREFETCH:
        return None
    memory = device_memory(dptr, nbytes, "dptr")
    if memory.device is None:
        raise InvalidValue(f"dptr must be memory of a device, got {memory.allocation!r}")
    return Device(memory.device, driver).context.prefetched, memory
