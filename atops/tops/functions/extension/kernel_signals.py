"""Kernel signals: words that the host and running kernels of a device share (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from atops.base.errors import InvalidValue
from atops.tops.bridge.arguments import whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device

__all__ = (
    "topsKernelSignalAlloc",
    "topsKernelSignalAvailableNumGet",
    "topsKernelSignalFree",
    "topsKernelSignalMaxNumGet",
    "topsKernelSignalRead",
    "topsKernelSignalWrite",
)


@call
def topsKernelSignalMaxNumGet() -> int:
    """Return how many kernel signals the current device has."""
    return len(current_device().signals)


@call
def topsKernelSignalAvailableNumGet() -> int:
    """Return how many kernel signals of the current device can still be allocated."""
    return current_device().signals.available


@call
def topsKernelSignalAlloc() -> int:
    """Return the handle of a signal that nobody has, whose value is 0; kernels take it as an int.

    LaunchOutOfResources: all are taken.
    """
    return current_device().signals.allocate()


@call
def topsKernelSignalFree(handle: int) -> None:
    """Take a signal back; threads that wait on it go on waiting. InvalidHandle: it is not allocated."""
    current_device().signals.free(whole(handle, "handle"))


@call
def topsKernelSignalRead(handle: int) -> int:
    """Return the value of a signal. InvalidHandle: it is not allocated."""
    return current_device().signals.read(whole(handle, "handle"))


@call
def topsKernelSignalWrite(handle: int, value: int) -> None:
    """Store the value of a signal; kernel threads whose wait it satisfies go on.

    InvalidHandle: it is not allocated. InvalidValue: a value that 32 bits do not hold.
    """
    word = whole(value, "value")
    if not 0 <= word < 1 << 32:
        raise InvalidValue(f"value is {word}; 0 to {(1 << 32) - 1} is right")
    current_device().signals.write(whole(handle, "handle"), word)
