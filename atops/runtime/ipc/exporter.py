"""What this process lends to others: a request with a sealed handle gets a descriptor, and a lease while it is in use.

One thread serves an abstract Unix socket (Linux). A lease is an open connection, so the end of a borrower, by kill -9
too, ends its leases. It knows neither memory nor events, only what can be lent.
"""

from __future__ import annotations

import logging
import os
import secrets
import selectors
import socket
import struct
import threading
from typing import Final, Protocol

from atops.base.errors import AtopsError, InvalidHandle, NotSupported
from atops.base.locks import fork_safe
from atops.runtime.ipc.handle import HANDLE_SIZE, Handle, Kind

__all__ = ("EXPORTER", "GRANTED", "Exporter", "Lendable", "address_of", "exporter", "is_ours", "same_user")

log = logging.getLogger("atops.ipc")

GRANTED, REFUSED = b"\x01", b"\x00"  # the first byte of an answer; the loan's description, or the reason, follows
CREDENTIALS: Final = struct.Struct("3i")
BACKLOG: Final = 64
KEPT: Final = 256  # exports below this many are not looked through for dead ones


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
        self._exports: dict[tuple[Kind, int], Lendable] = {}
        self._sweep = KEPT
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(address_of(self.token))
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._leases: dict[socket.socket, Lendable | None] = {}
        threading.Thread(target=self._serve, name="atops ipc", daemon=True).start()

    def export(self, kind: Kind, serial: int, device: int, size: int, thing: Lendable) -> bytes:
        """Return the handle of a thing, the same each time."""
        with self._lock:
            self._exports.setdefault((kind, serial), thing)
            if len(self._exports) > self._sweep:
                self._exports = {key: each for key, each in self._exports.items() if each.alive}
                self._sweep = 2 * len(self._exports) + KEPT
        return Handle(kind, self.process, device, serial, size, self.token).sealed(self._secret).pack()

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
        connection, _ = self._listener.accept()
        if not same_user(connection):
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
            except AtopsError as error:
                connection.send(REFUSED + str(error).encode())
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
        kind = Kind.EVENT if data[6:7] == bytes([Kind.EVENT]) else Kind.MEMORY
        handle = Handle.unpack(data, kind)
        if handle.token != self.token or not handle.is_sealed(self._secret):
            raise InvalidHandle(f"process {self.process} did not make this handle")
        with self._lock:
            thing = self._exports.get((kind, handle.serial))
        if thing is None or not thing.alive:
            raise InvalidHandle(f"what the handle named in process {self.process} is freed or destroyed")
        return thing, *thing.lend()


def address_of(token: bytes) -> str:
    """Return where the exporter of a token listens: an abstract name, which goes with the process."""
    return f"\0atops-{token.hex()}"


def same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end runs as this user."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return bool(CREDENTIALS.unpack(found)[1] == os.geteuid())


EXPORTER: list[Exporter] = []
LOCK = fork_safe(threading.Lock())


def exporter() -> Exporter:
    """Return the lender of this process, started on first use. Raises NotSupported where the system has no memfd."""
    if not hasattr(os, "memfd_create"):
        raise NotSupported("memory and events between processes need memfd and abstract sockets, which Linux has")
    with LOCK:
        if not EXPORTER:
            EXPORTER.append(Exporter())
        return EXPORTER[0]


def is_ours(token: bytes) -> bool:
    """Whether this very process made the handles of a token."""
    return bool(EXPORTER) and EXPORTER[0].token == token


def _forked() -> None:
    for each in EXPORTER:
        each.disown()
    EXPORTER.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
