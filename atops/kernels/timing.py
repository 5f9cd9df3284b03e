"""What a kernel says of its own time: work that a virtual clock cannot see."""

from __future__ import annotations

import math
from typing import SupportsIndex

import numpy as np

from atops.base.dtypes import DTypeLike, kernel_dtype
from atops.base.errors import InvalidType, InvalidValue
from atops.device.call_site import caller
from atops.device.exec.thread import KernelThread, current_thread

__all__ = ("cost",)


def cost(*, flops: SupportsIndex | float = 0, bytes: SupportsIndex | float = 0, dtype: DTypeLike = np.float32) -> None:
    """Say that the thread computes `flops` operations here, and moves `bytes` to or from L3 beside its DTE.

    Under a virtual clock the thread takes the time of both, one after the other: operations at its SIP's share of the
    chip's peak for elements of `dtype` (`device.arch.fp32_flops` and its like), bytes at the launch's share of L3. It
    is added to what is counted anyway: transfers, barriers, vectors, and numpy where memory is seen. Without a virtual
    clock it changes nothing. Parts of one count as one. Raises InvalidType for what is no number, InvalidValue for
    one that is negative or not finite, IllegalState on the host.
    """
    thread = current_thread()
    operations, moved = _amount(thread, flops, "flops"), _amount(thread, bytes, "bytes")
    element = kernel_dtype(dtype)
    if thread.cost is not None:
        thread.cost.work(operations, moved, element.itemsize)


def _amount(thread: KernelThread, given: object, name: str) -> int:
    """Return an amount as an int, rounded up."""
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        raise InvalidType(f"{thread} at {caller()}: {name} of cost is {given!r}; expected a number")
    if not 0 <= given < math.inf:  # of which NaN is none
        raise InvalidValue(f"{thread} at {caller()}: {name} of cost is {given!r}; expected 0 or more, and finite")
    return math.ceil(given)
