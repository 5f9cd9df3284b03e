"""The constant buffers of one device, memory that several users share under a key: TOPS extension (2.11)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atops.base.errors import InvalidValue, NotFound
from atops.runtime.core.event import Event
from atops.runtime.memory.buffer import Buffer

if TYPE_CHECKING:
    from atops.runtime.stream import Stream

__all__ = ("ConstantBuffer", "ConstantBuffers")


@dataclass(slots=True)
class ConstantBuffer:
    """Memory under a key: how many have got it, and the event that is complete once its contents are there."""

    memory: Buffer
    uploaded: Event
    users: int = 1


class ConstantBuffers:
    """The table of one device. Safe from any OS thread: of several first users exactly one uploads."""

    __slots__ = ("_by_key", "_lock")

    def __init__(self) -> None:
        self._by_key: dict[int, ConstantBuffer] = {}
        self._lock = threading.Lock()

    def get(self, key: int, size: int, stream: Stream, allocate: Callable[[], Buffer], source: object) -> Buffer:
        """Return the memory of `key` and count one more user; new memory takes its contents from `source`.

        `stream` uploads, or waits for the upload. Raises NotFound for a new key without a source, InvalidValue for a
        known one of another size, and what `allocate` and the stream raise; then nothing has changed.
        """
        with self._lock:
            known = self._by_key.get(key)
            if known is None:
                known = self._by_key[key] = self._upload(key, stream, allocate, source)
                return known.memory
            if known.memory.nbytes != size:
                raise InvalidValue(f"constant buffer {key:#x} has {known.memory.nbytes} bytes; {size} were asked for")
            stream.wait(known.uploaded)
            known.users += 1
            return known.memory

    def put(self, key: int, stream: Stream) -> None:
        """Count one user less; the last one's memory is freed in the order of `stream`. Raises NotFound."""
        with self._lock:
            known = self._by_key.get(key)
            if known is None:
                raise NotFound(f"there is no constant buffer {key:#x}; topsConstBufferGet makes one")
            known.users -= 1
            if not known.users:
                del self._by_key[key]
                stream.free(known.memory)

    def _upload(self, key: int, stream: Stream, allocate: Callable[[], Buffer], source: object) -> ConstantBuffer:
        if source is None:
            raise NotFound(f"there is no constant buffer {key:#x}, and no init_data to make one of")
        memory = allocate()
        try:
            stream.copy(memory, source)
            return ConstantBuffer(memory, stream.record())
        except BaseException:
            memory.close()
            raise

    def __len__(self) -> int:
        return len(self._by_key)

    def __repr__(self) -> str:
        return f"<ConstantBuffers: {len(self)} in use>"
