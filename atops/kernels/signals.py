"""Kernel signals: 32-bit values of the chip that kernels and the host set, and that kernels wait on.

The host's side of them is TOPS Runtime API, 2.11; the language text has no names for the kernels' side.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from atops.base.errors import InvalidType
from atops.device.exec.barrier import SignalWait
from atops.device.exec.thread import Request, current_thread
from atops.device.memory.value_wait import Condition

__all__ = ("signal_add", "signal_read", "signal_wait", "signal_write")


def signal_read(handle: SupportsIndex) -> int:
    """Return the value of a signal, 0 to 2**32 - 1 (for the host: Runtime API, 2.11).

    All four functions take the handle that the host passed to the kernel. They raise InvalidValue for a handle that the
    chip does not have, InvalidType for what is no integer, IllegalState on the host.
    """
    return current_thread().grid.chip.signals.read(_whole(handle, "handle"))


def signal_write(handle: SupportsIndex, value: SupportsIndex) -> None:
    """Store `value`, modulo 2**32, and let those go on whose condition it meets (for the host: 2.11)."""
    current_thread().grid.chip.signals.set(_whole(handle, "handle"), _whole(value, "value"))


def signal_add(handle: SupportsIndex, value: SupportsIndex = 1) -> int:
    """Add `value`, modulo 2**32, in one step that no other thread can come between; return the value before.

    Neither the language text nor Runtime API, 2.11 has such a function.
    """
    return current_thread().grid.chip.signals.add(_whole(handle, "handle"), _whole(value, "value"))


def signal_wait(handle: SupportsIndex, value: SupportsIndex, condition: Condition | str = "gte") -> Request:
    """Return the request that waits until a signal meets a condition: `await k.signal_wait(handle, value)`.

    Conditions are the runtime's value waits': "gte" (cyclic over 32 bits), "gteunsigned" (not cyclic), "eq", "and" (a
    common bit) and "nor" (a bit that neither has), in any case, or a Condition. Whoever may set it (the host, other
    kernels) is unknown, so such a wait is no deadlock; an abort ends it. Neither the language text nor Runtime API,
    2.11 has such a function. Raises InvalidValue for another condition, MissingAwait when an earlier request was never
    awaited.
    """
    thread = current_thread()
    signals = thread.grid.chip.signals
    return SignalWait(signals, _whole(handle, "handle"), condition, _whole(value, "value")).made_by(thread)


def _whole(value: SupportsIndex, what: str) -> int:
    """Return `value` as an int of any size. Raises InvalidType where it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidType(f"signal {what} is {type(value).__name__} {value!r}; an integer is right") from None
