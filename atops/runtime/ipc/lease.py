"""Borrowing from another process: a sealed handle goes in, a descriptor and a lease come back. It maps nothing."""

from __future__ import annotations

import os
import socket
import weakref
from contextlib import suppress
from typing import Final

from atops.base.errors import AtopsError, InvalidHandle
from atops.base.result_codes import Result
from atops.runtime.ipc.exporter import GRANTED, address_of, is_ours, same_user
from atops.runtime.ipc.handle import Handle

__all__ = ("Lease", "MapFailed", "OwnHandle", "borrow")

PATIENCE: Final = 5.0  # seconds; an exporter answers in well under a millisecond unless it is stopped
ANSWER: Final = 4096


class MapFailed(AtopsError):
    """The exporter does not answer, or what it lends cannot be mapped here."""

    code = Result.MapFailed


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
    MapFailed when the exporter does not answer.
    """
    if is_ours(handle.token):
        raise OwnHandle("this process made the handle itself; use what it names directly")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(PATIENCE)
    try:
        try:
            connection.connect(address_of(handle.token))
        except ConnectionRefusedError:
            raise InvalidHandle(f"process {handle.process}, which made the handle, has ended") from None
        if not same_user(connection):
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
        raise InvalidHandle(answer[1:].decode(errors="replace") or f"process {handle.process} ended meanwhile")
    return Lease(connection.detach(), descriptors[0], answer[1:])


def _close(*descriptors: int) -> None:
    for each in descriptors:
        with suppress(OSError):
            os.close(each)


def _forked() -> None:
    """In a forked child: the loans are the parent's; a copy of the connection here would keep them open."""
    for lease in list(LEASES):
        lease.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
