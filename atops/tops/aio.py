"""The awaitable twin of every C-style function that can block: `(err,) = await aio.topsStreamSynchronize(stream)`.

They take and return what the functions do, on asyncio and trio; the loop goes on meanwhile, and cancelling one cancels
the wait and never the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from atops.tops import (
    const_buffers,
    device,
    event,
    executable_launch,
    executable_refit,
    host_memory,
    memory,
    memory_copy,
    memory_set,
    peer,
    resource_bundle,
    scatter,
    stream,
    symbols,
)
from atops.tops._call import TWINS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    def __getattr__(name: str) -> Callable[..., Coroutine[Any, Any, tuple[Any, ...]]]:
        """Tell type checkers what every name here is."""

# Whoever imports the twins has imported those that make them.
FAMILIES = (
    device, stream, event, host_memory, memory, memory_copy, memory_set, symbols, const_buffers, peer, resource_bundle,
    scatter, executable_launch, executable_refit,
)

globals().update(TWINS)
__all__ = tuple(sorted(TWINS))
