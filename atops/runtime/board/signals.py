"""The kernel signals of a device as the host has them: handed out, read, written, taken back (Runtime API, 2.11)."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from atops.base.errors import InvalidHandle, InvalidType, LaunchOutOfResources
from atops.base.locks import check_entry, make_lock
from atops.device.chip import KernelSignals

__all__ = ("Signals",)


class Signals:
    """The signals of one chip; `len` says how many there are. A handle is a number, and is passed to kernels as one.

    Handing out is the host's affair alone: kernels reach every signal of the chip. Safe from any OS thread.
    """

    __slots__ = ("_chip", "_held", "_lock")

    def __init__(self, chip: KernelSignals) -> None:
        self._chip = chip
        self._held: set[int] = set()
        self._lock = make_lock()

    @property
    def available(self) -> int:
        """How many can still be allocated (2.11 topsKernelSignalAvailableNumGet)."""
        return len(self) - len(self._held)

    def allocate(self) -> int:
        """Return the handle of a free signal; its value is 0 (2.11 topsKernelSignalAlloc).

        Raises LaunchOutOfResources when all are taken.
        """
        check_entry(self._lock, "a kernel signal was asked for")
        with self._lock:
            handle = next((each for each in range(len(self)) if each not in self._held), None)
            if handle is None:
                raise LaunchOutOfResources(f"all {len(self)} kernel signals of the device are taken; free one first")
            self._held.add(handle)
        self._chip.set(handle, 0)
        return handle

    def free(self, handle: SupportsIndex) -> None:
        """Take a signal back; threads that wait on it go on waiting (2.11 topsKernelSignalFree).

        Raises InvalidHandle, as `read` and `write` do, for a handle that is not allocated; InvalidType for no integer.
        """
        check_entry(self._lock, f"kernel signal {handle!r} was freed")
        with self._lock:
            self._held.discard(self._check(handle))

    def read(self, handle: SupportsIndex) -> int:
        """Return the value, 0 to 2**32 - 1 (2.11 topsKernelSignalRead)."""
        return self._chip.read(self._check(handle))

    def write(self, handle: SupportsIndex, value: SupportsIndex) -> None:
        """Store `value`, modulo 2**32; kernel threads whose wait it satisfies go on (2.11 topsKernelSignalWrite)."""
        self._chip.set(self._check(handle), _whole(value, "value"))

    def _check(self, handle: SupportsIndex) -> int:
        index = _whole(handle, "handle")
        if index not in self._held:
            held = ", ".join(map(str, sorted(self._held))) or "none"
            raise InvalidHandle(f"kernel signal {index} is not allocated; {held} of the device's {len(self)} is")
        return index

    def __len__(self) -> int:
        return len(self._chip)

    def __repr__(self) -> str:
        return f"<Signals: {len(self._held)} of {len(self)} allocated>"


def _whole(value: SupportsIndex, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidType(f"signal {what} is {type(value).__name__} {value!r}; expected an integer") from None
