"""Under which keys a block says that it differs from its grid: `block.shared` holds them, and nothing else of them."""

from __future__ import annotations

from typing import Final

from atops.device.exec.thread import KernelThread

__all__ = ("CONSTANTS", "DYNAMIC_BYTES", "dynamic_bytes")

CONSTANTS: Final = "constants of the block"  # by variable, the span that stands for its instance; None: no difference
DYNAMIC_BYTES: Final = "dynamic shared bytes of the block"


def dynamic_bytes(thread: KernelThread) -> int:
    """Return how many bytes of dynamic shared memory the thread's block has."""
    size: int = thread.block.shared.get(DYNAMIC_BYTES, thread.grid.shared_bytes)
    return size
