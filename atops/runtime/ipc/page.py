"""A page that processes share for one event: its newest record, and which records are over.

Records have tickets, counted over all processes. Each change of the page wakes those that wait on it, by futex: a
change is seen in tens of microseconds, and waiting costs nothing. Processes that end are noticed by looking.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from atops.base.errors import NotSupported
from atops.device.memory.allocation import Allocation

__all__ = ("EventPage", "TicketState", "is_running", "started_at")

FUTEX: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}  # the number of the system call
WAIT, WAKE, EVERYBODY = 0, 1, (1 << 31) - 1
SLOTS: Final = 1024  # so many records are told apart; a wait for an older one ends with the one in its place
HEADER: Final = 64
SLOT: Final = struct.Struct("<IIIIQ")  # newest ticket done, newest ticket failed, ticket, process, its start
SIZE: Final = HEADER + SLOTS * SLOT.size
WORD: Final = struct.Struct("<I")
GENERATION, LATEST = 0, 4
MASK: Final = (1 << 32) - 1
STARTED: Final = 19  # the field of /proc/<pid>/stat, counted from the one after the name


class TicketState:
    """What became of a record."""

    PENDING, DONE, FAILED, LOST = range(4)


class EventPage:
    """One event's page: made here, or mapped from the descriptor that its exporter lent, which is duplicated."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Make or map. Raises NotSupported where there is no futex or no memfd, OSError where no descriptor is left."""
        self._call = FUTEX.get(platform.machine())
        if self._call is None or not hasattr(os, "memfd_create"):
            raise NotSupported("events between processes need Linux on x86-64, AArch64 or RISC-V")
        if descriptor is None:
            self.descriptor = os.memfd_create("event", os.MFD_CLOEXEC)
            os.ftruncate(self.descriptor, SIZE)
        else:
            self.descriptor = os.dup(descriptor)
        self._view = memoryview(mmap.mmap(self.descriptor, SIZE))
        self._lock = threading.Lock()
        array = np.frombuffer(self._view, np.uint8)
        self._address = int(array.__array_interface__["data"][0])
        self.words = Allocation(self._address, SIZE, None, 0, 0, 0, (array, self._view), "an interprocess event")

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # `close` is held here: at the interpreter's end modules may be gone before this page is.
        descriptor, self.descriptor = getattr(self, "descriptor", -1), -1
        if descriptor >= 0:
            close(descriptor)

    # ---- records

    @property
    def latest(self) -> int:
        """The ticket of the newest record of any process; 0 if there is none."""
        return self._read(LATEST)

    def submit(self) -> int:
        """Enter a record of this process. Returns its ticket."""
        with self._alone():
            ticket = self.latest % MASK + 1
            done, failed, *_ = SLOT.unpack_from(self._view, self.slot(ticket))
            SLOT.pack_into(self._view, self.slot(ticket), done, failed, ticket, os.getpid(), started_at(os.getpid()))
            self._write(LATEST, ticket)
        return ticket

    def finish(self, ticket: int, failed: bool) -> None:
        """Say that a record is over, and wake those that wait."""
        with self._alone():
            at = self.slot(ticket) + (WORD.size if failed else 0)
            if _reached(ticket, self._read(at)):
                self._write(at, ticket)
            self._write(GENERATION, (self.generation + 1) & MASK)
        _syscall(self._call, self._address + GENERATION, WAKE, EVERYBODY, None)

    def state(self, ticket: int, *, look: bool = False) -> int:
        """Return what became of a record. `look`: whether the process that owes it still runs, too."""
        done, failed, owner, process, start = SLOT.unpack_from(self._view, self.slot(ticket))
        if failed == ticket:
            return TicketState.FAILED
        if _reached(done, ticket):
            return TicketState.DONE
        if look and owner == ticket and not is_running(process, start):
            # It may have finished the record after the words were read, and ended then.
            return self.state(ticket) or TicketState.LOST
        return TicketState.PENDING

    def process(self, ticket: int) -> int:
        """Return which process recorded."""
        return int(SLOT.unpack_from(self._view, self.slot(ticket))[3])

    def slot(self, ticket: int) -> int:
        """Return where the word is that reaches `ticket` when its record is over."""
        return HEADER + ticket % SLOTS * SLOT.size

    # ---- waiting

    @property
    def generation(self) -> int:
        """What `wait` compares: it changes with each record that is over."""
        return self._read(GENERATION)

    def wait(self, seen: int, timeout: float) -> None:
        """Block while the generation is `seen`, at most `timeout` seconds."""
        limit = _Time(int(timeout), int(timeout % 1 * 1e9))
        _syscall(self._call, self._address + GENERATION, WAIT, seen, ctypes.byref(limit))

    # ---- parts

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep threads and other processes out for a few microseconds; a process that dies lets go."""
        with self._lock:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def _read(self, offset: int) -> int:
        return int(WORD.unpack_from(self._view, offset)[0])

    def _write(self, offset: int, value: int) -> None:
        WORD.pack_into(self._view, offset, value)


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64))


def _syscall(number: int | None, address: int, operation: int, value: int, limit: object) -> None:
    _LIBC.syscall(
        ctypes.c_long(number or 0), ctypes.c_void_p(address), ctypes.c_int(operation), ctypes.c_uint32(value), limit,
        None, ctypes.c_int(0),
    )  # fmt: skip


def _reached(found: int, ticket: int) -> bool:
    """Whether a counter that wraps around has come to `ticket`."""
    return (found - ticket) & MASK <= MASK >> 1


def is_running(process: int, start: int) -> bool:
    """Whether the process that had this number since then still runs."""
    return started_at(process) == start != 0


def started_at(process: int) -> int:
    """Return when a process began, in ticks since the system did; 0 if it has ended."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in b"ZX" else int(fields[STARTED])


_LIBC = ctypes.CDLL(None)
