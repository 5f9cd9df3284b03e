"""What names an allocation or an event in other processes: 64 bytes that only the process which made them accepts."""

from __future__ import annotations

import hashlib
import hmac
import struct
from enum import IntEnum
from typing import Final, NamedTuple

from atops.base.errors import InvalidHandle

__all__ = ("HANDLE_SIZE", "Handle", "Kind")

# magic, version, kind, process, device, generation, size, token, seal
LAYOUT: Final = struct.Struct("<4sHHIIQQ16s16s")
HANDLE_SIZE: Final = LAYOUT.size
MAGIC, VERSION = b"TOPS", 1
SEAL: Final = 16


class Kind(IntEnum):
    """What a handle names."""

    MEMORY = 1
    EVENT = 2


class Handle(NamedTuple):
    """One handle: `token` leads to the exporter, `serial` is the generation, which no two things of it share.

    `seal` proves that the exporter made it: it is keyed with a secret that never leaves that process.
    """

    kind: Kind
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
    def unpack(cls, data: bytes, kind: Kind) -> Handle:
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
