"""Kernel signals: words that the host and running kernels of a device share (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from atops.tops.bridge.arguments import size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device

__all__ = (
    "topsKernelSignalAlloc", "topsKernelSignalAvailableNumGet", "topsKernelSignalFree", "topsKernelSignalMaxNumGet",
    "topsKernelSignalRead", "topsKernelSignalWrite",
)  # fmt: skip


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
    """Allocate a signal of value 0 and return its handle, which kernels take as an int.

    LaunchOutOfResources: all are allocated.
    """
    return current_device().signals.allocate()


@call
def topsKernelSignalFree(handle: int) -> None:
    """Free a signal; threads that wait on it go on waiting. InvalidHandle: it is not allocated."""
    current_device().signals.free(whole(handle, "handle"))


@call
def topsKernelSignalRead(handle: int) -> int:
    """Return the value of a signal. InvalidHandle: it is not allocated."""
    return current_device().signals.read(whole(handle, "handle"))


@call
def topsKernelSignalWrite(handle: int, value: int) -> None:
    """Store the value of a signal; kernel threads whose wait it satisfies continue.

    InvalidHandle: it is not allocated. InvalidValue: a value that 32 bits do not hold.
    """
    current_device().signals.write(whole(handle, "handle"), size_of(value, "value", 32))
