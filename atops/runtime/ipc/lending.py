"""Lending to other processes, and borrowing from one: a sealed handle goes in, a descriptor and a lease come back.

A handle has 64 bytes, which only the process that made them accepts. One thread of it serves an abstract Unix socket
(Linux). A lease is an open connection, so the end of a borrower, by kill -9 too, ends its leases.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import selectors
import socket
import struct
import threading
import time
import weakref
from contextlib import suppress
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from atops.base.errors import AtopsError, InvalidHandle, NotSupported, OutOfMemory
from atops.base.locks import fork_safe
from atops.base.log_fields import get_logger
from atops.base.result_codes import Result

__all__ = (
    "EXPORTER", "HANDLE_SIZE", "Exporter", "Handle", "HandleKind", "Lease", "Lendable", "MapFailed", "OtherBoard",
    "OwnHandle", "address_of", "borrow", "exporter", "no_descriptor",
)  # fmt: skip

log = get_logger("atops.ipc")

# magic, version, kind, process, device, generation, size, token, seal
LAYOUT: Final = struct.Struct("<4sHHIIQQ16s16s")
HANDLE_SIZE: Final = LAYOUT.size
MAGIC, VERSION = b"TOPS", 1
SEAL: Final = 16
# The first byte of an answer; the loan's description, or the reason, follows.
REFUSED, GRANTED, FAILED = b"\x00", b"\x01", b"\x02"
CREDENTIALS: Final = struct.Struct("3i")
BACKLOG: Final = 64
KEPT: Final = 256  # exports below this many are not looked through for dead ones
PATIENCE: Final = 5.0  # seconds; an exporter answers in well under a millisecond unless it is stopped
ANSWER: Final = 4096
PAUSE: Final = 0.05  # seconds to the next try to answer, when no descriptor is left


# ---- handles


class HandleKind(IntEnum):
    """What a handle names."""

    MEMORY = 1
    EVENT = 2
    POOL = 3
    POOL_MEMORY = 4


class Handle(NamedTuple):
    """One handle: `token` leads to the exporter, `serial` is the generation, which no two things of it share.

    `seal` proves that the exporter made it: it is keyed with a secret that never leaves that process.
    """

    kind: HandleKind
    process: int
    device: int
    serial: int
    size: int
    token: bytes
    seal: bytes = bytes(SEAL)

    def pack(self) -> bytes:
        """Return the 64 bytes."""
        return LAYOUT.pack(
            MAGIC, VERSION, self.kind, self.process, self.device, self.serial, self.size, self.token, self.seal
        )

    @classmethod
    def unpack(cls, data: bytes, kind: HandleKind) -> Handle:
        """Read 64 bytes. Raises InvalidHandle for what is no handle of this kind."""
        if len(data) != HANDLE_SIZE:
            raise InvalidHandle(f"a handle between processes has {len(data)} bytes; expected {HANDLE_SIZE}")
        magic, version, found, *rest = LAYOUT.unpack(data)
        if magic != MAGIC or version != VERSION or found != kind:
            raise InvalidHandle(f"{data[:8].hex()}... begins no handle of {kind.name.lower()} between processes")
        return cls(kind, *rest)

    def sealed(self, secret: bytes) -> Handle:
        """Return the handle with the seal that `secret` makes."""
        body = self._replace(seal=bytes(SEAL)).pack()
        return self._replace(seal=hashlib.blake2b(body, key=secret, digest_size=SEAL).digest())

    def is_sealed(self, secret: bytes) -> bool:
        """Whether the seal is the one that `secret` makes."""
        return hmac.compare_digest(self.seal, self.sealed(secret).seal)


# ---- the lender


class Lendable(Protocol):
    """Something that this process may lend."""

    @property
    def alive(self) -> bool:
        """Whether it can still be lent."""

    def lend(self) -> tuple[int, bytes]:
        """Begin a loan: return a new descriptor, which the caller closes, and what the borrower must know."""

    def end_loan(self) -> None:
        """End one loan."""


class Exporter:
    """The lender of one process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.token = secrets.token_bytes(16)
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._exports: dict[tuple[HandleKind, int], Lendable] = {}
        self._sweep = KEPT
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._selector = selectors.DefaultSelector()
        except OSError:
            self._listener.close()
            raise
        self._listener.bind(address_of(self.token))
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._leases: dict[socket.socket, Lendable | None] = {}
        threading.Thread(target=self._serve, name="atops ipc", daemon=True).start()

    def export(self, kind: HandleKind, serial: int, device: int, size: int, thing: Lendable) -> bytes:
        """Return the handle of a thing, the same each time."""
        with self._lock:
            self._exports.setdefault((kind, serial), thing)
            if len(self._exports) > self._sweep:
                for key, each in self._exports.copy().items():
                    if not each.alive:
                        self.withdraw(*key)
                self._sweep = 2 * len(self._exports) + KEPT
        return Handle(kind, self.process, device, serial, size, self.token).sealed(self._secret).pack()

    def own(self, handle: Handle) -> Lendable:
        """Return what a handle of this very process names. Raises InvalidHandle as a loan does."""
        if handle.token != self.token or not handle.is_sealed(self._secret):
            raise InvalidHandle(f"process {self.process} did not make this handle")
        with self._lock:
            thing = self._exports.get((handle.kind, handle.serial))
        if thing is None or not thing.alive:
            raise InvalidHandle(f"what the handle named in process {self.process} is freed or destroyed")
        return thing

    def withdraw(self, kind: HandleKind, serial: int) -> None:
        """Forget an export; what is lent stays so. Takes no lock: finalizers call it."""
        self._exports.pop((kind, serial), None)

    @property
    def leases(self) -> int:
        """How many loans are open."""
        return sum(thing is not None for thing in self._leases.copy().values())

    def disown(self) -> None:
        """Let go, in a forked child, of the connections that are the parent's."""
        for end in (self._listener, *self._leases):
            end.close()
        self._selector.close()

    # ---- the thread

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                try:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._answer(key.fileobj)
                except Exception:
                    log.exception("lending to another process failed")

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:  # no descriptor is left
            log.warning("cannot lend to another process: %s", error)
            time.sleep(PAUSE)
            return
        if not _same_user(connection):
            connection.close()
            return
        connection.setblocking(False)
        self._leases[connection] = None
        self._selector.register(connection, selectors.EVENT_READ)

    def _answer(self, connection: socket.socket) -> None:
        """Read from a borrower: a handle begins its loan, the end of the connection ends it."""
        try:
            data = connection.recv(HANDLE_SIZE + 1)
        except OSError:
            data = b""
        if data and self._leases[connection] is None:
            try:
                thing, descriptor, description = self._lend(data)
            except (AtopsError, OSError) as error:
                connection.send((FAILED if isinstance(error, OSError) else REFUSED) + str(error).encode())
                return
            self._leases[connection] = thing
            try:
                socket.send_fds(connection, [GRANTED + description], [descriptor])
                return
            except OSError:
                pass  # the borrower is gone
            finally:
                os.close(descriptor)
        self._selector.unregister(connection)
        connection.close()
        lent = self._leases[connection]
        try:
            if lent is not None:
                lent.end_loan()
        finally:
            del self._leases[connection]  # last: a loan that is not counted any more is over in every respect

    def _lend(self, data: bytes) -> tuple[Lendable, int, bytes]:
        known = {bytes([kind]): kind for kind in HandleKind}
        thing = self.own(Handle.unpack(data, known.get(data[6:7], HandleKind.MEMORY)))
        return thing, *thing.lend()


def address_of(token: bytes) -> str:
    """Return where the exporter of a token listens: an abstract name, which goes with the process."""
    return f"\0atops-{token.hex()}"


def _same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end runs as this user."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return bool(CREDENTIALS.unpack(found)[1] == os.geteuid())


EXPORTER: list[Exporter] = []
LOCK = fork_safe(threading.Lock())


def exporter() -> Exporter:
    """Return the lender of this process, started on first use.

    Raises NotSupported where the system has no memfd, OutOfMemory where no descriptor is left.
    """
    if not hasattr(os, "memfd_create"):
        raise NotSupported("memory and events between processes need memfd and abstract sockets, which Linux has")
    with LOCK:
        if not EXPORTER:
            try:
                EXPORTER.append(Exporter())
            except OSError as error:
                raise no_descriptor("the socket of handles between processes", error) from error
        return EXPORTER[0]


def no_descriptor(what: str, error: OSError) -> OutOfMemory:
    """Return the error for a descriptor that the system does not give."""
    return OutOfMemory(f"the system has no descriptor for {what}: {error}; close some, or raise the limit (ulimit -n)")


# ---- the borrower


class MapFailed(AtopsError):
    """The exporter does not answer, or what it lends cannot be mapped here."""

    code = Result.MapFailed


class OtherBoard(MapFailed):
    """The exporter's board does not fit this one."""


class OwnHandle(AtopsError):
    """A handle was opened in the very process that made it."""

    code = Result.InvalidContext


class Lease:
    """One loan from another process. It ends when it is closed, collected, or when this process ends."""

    __slots__ = ("__weakref__", "_end", "description", "descriptor")

    def __init__(self, connection: int, descriptor: int, description: bytes) -> None:
        self.descriptor = descriptor
        self.description = description
        self._end = weakref.finalize(self, _close, connection, descriptor)
        LEASES.add(self)

    def close(self) -> None:
        """End the loan. Idempotent."""
        self._end()


LEASES: weakref.WeakSet[Lease] = weakref.WeakSet()


def borrow(handle: Handle) -> Lease:
    """Ask the exporter for what a handle names.

    Raises OwnHandle when this process made it, InvalidHandle when it is forged or stale or its exporter has ended,
    MapFailed when the exporter does not answer, or one of the two has no descriptor left.
    """
    if EXPORTER and EXPORTER[0].token == handle.token:
        raise OwnHandle("this process made the handle itself; use what it names directly")
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise MapFailed(f"cannot ask process {handle.process} for what the handle names: {error}") from error
    try:
        connection.settimeout(PATIENCE)
        try:
            connection.connect(address_of(handle.token))
        except ConnectionRefusedError:
            raise InvalidHandle(f"process {handle.process}, which made the handle, has ended") from None
        if not _same_user(connection):
            raise InvalidHandle("the handle leads to a process of another user")
        connection.send(handle.pack())
        answer, descriptors, _, _ = socket.recv_fds(connection, ANSWER, 1, socket.MSG_CMSG_CLOEXEC)
    except OSError as error:
        connection.close()
        raise MapFailed(f"process {handle.process} did not lend what the handle names: {error}") from error
    except BaseException:
        connection.close()
        raise
    if answer[:1] != GRANTED or not descriptors:
        connection.close()
        if answer[:1] in (GRANTED, FAILED):
            reason = answer[1:].decode(errors="replace") if answer[:1] == FAILED else "no descriptor is left here"
            raise MapFailed(f"process {handle.process} did not lend what the handle names: {reason}")
        raise InvalidHandle(answer[1:].decode(errors="replace") or f"process {handle.process} ended meanwhile")
    return Lease(connection.detach(), descriptors[0], answer[1:])


def _close(*descriptors: int) -> None:
    for each in descriptors:
        with suppress(OSError):
            os.close(each)


def _forked() -> None:
    """In a forked child: what is lent and borrowed is the parent's; a copy of a connection would keep it open."""
    for each in EXPORTER:
        each.disown()
    EXPORTER.clear()
    for lease in list(LEASES):
        lease.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
