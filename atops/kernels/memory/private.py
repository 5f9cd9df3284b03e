"""The private variables of a kernel thread that have an address: automatic variables, on its stack. TOPS C++, 8.2."""

from __future__ import annotations

from typing import Any

import numpy as np

from atops.base.dtypes import DTypeLike
from atops.base.errors import LaunchOutOfResources
from atops.device.call_site import caller
from atops.device.chip import POISON
from atops.device.dte.operands import PRIVATE_ARRAYS
from atops.device.exec.thread import current_thread
from atops.kernels.memory.extents import Shape, extents_of

__all__ = ("private",)


def private(shape: Shape, dtype: DTypeLike) -> Any:
    """Return an array of the running thread's stack: `shape` elements of `dtype`, for this thread and no DTE.

    It lives as long as the thread; every call takes more. It begins as zeros, in strict mode as 0xA5. Raises
    LaunchOutOfResources, naming the thread and what is in use, when the stack has no room left; IllegalState on the
    host (TOPS C++, 8.2).
    """
    thread = current_thread()
    extents, element, size = extents_of(shape, dtype)
    if thread.sites is None:
        thread.sites = {}
    held = thread.sites.setdefault(PRIVATE_ARRAYS, [])
    used, room = sum(each.nbytes for each in held), thread.grid.arch.stack_bytes
    if used + size > room:
        raise LaunchOutOfResources(
            f"{thread} at {caller()}: private memory of {size} bytes was asked for; {used} of the {room} bytes of its "
            "stack are in use, and each call takes more"
        )
    memory = np.full(size, POISON if thread.grid.options.strict else 0, np.uint8)
    held.append(memory)
    return np.ndarray(extents, element, memory)
