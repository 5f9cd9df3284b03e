"""The FIFO of what the kernels of one device have printed: bounded, it loses its oldest texts when it is full."""

from __future__ import annotations

import operator
import threading
from collections import deque
from typing import NamedTuple

from atops.base.errors import InvalidType, InvalidValue

__all__ = ("DEFAULT_SIZE", "RECORD_BYTES", "PrintFifo", "Printed")

DEFAULT_SIZE = 1 << 20  # as CUDA's
RECORD_BYTES = 16  # what a text takes beside its characters, so that the number of texts is bounded too


class Printed(NamedTuple):
    """The text of one call of printf; `origin` is hashable, and as a rule the bound kernel."""

    text: str
    origin: object


class PrintFifo:
    """At most `size` bytes of texts, in the order they came. Every method is safe from any OS thread.

    One at a time takes the texts, shows them and says so with `settle`; until then `owes` their origins.
    """

    __slots__ = ("_held", "_lock", "_lost", "_size", "_taken", "_texts", "_used", "lost")

    def __init__(self, size: int = DEFAULT_SIZE) -> None:
        self._lock = threading.Lock()
        self._texts: deque[tuple[Printed, int]] = deque()
        self._size = size
        self._used = 0
        self._lost = 0  # since the last `take`
        self.lost = 0  # ever
        self._held: set[object] = set()  # whose texts are here, or were until they were lost
        self._taken: set[object] = set()  # whose texts are being shown

    @property
    def size(self) -> int:
        """How many bytes it holds. Making it smaller loses the oldest texts that have no room any more.

        Raises InvalidType for what is no int, InvalidValue below 1.
        """
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        try:
            size = operator.index(size)
        except TypeError:
            raise InvalidType(f"the size of a printf FIFO is {size!r}; expected a number of bytes") from None
        if size < 1:
            raise InvalidValue(f"the size of a printf FIFO is {size}; expected at least 1 byte")
        with self._lock:
            self._size = size
            self._overwrite()

    def put(self, text: str, origin: object = None) -> None:
        """Append a text; the oldest make room for it. A text that is larger than the whole FIFO is lost itself."""
        if not text:
            return
        nbytes = RECORD_BYTES + (len(text) if text.isascii() else len(text.encode("utf-8", "replace")))
        with self._lock:
            self._held.add(origin)
            if nbytes > self._size:
                self._lose()
                return
            self._texts.append((Printed(text, origin), nbytes))
            self._used += nbytes
            if self._used > self._size:
                self._overwrite()

    def take(self) -> tuple[list[Printed], int]:
        """Remove and return every text, the oldest first, and how many were lost before them since the last time."""
        with self._lock:
            texts = [printed for printed, _ in self._texts]
            lost, self._lost = self._lost, 0
            self._texts.clear()
            self._used = 0
            self._taken |= self._held  # before clearing: `owes` reads _held, then _taken, without the lock
            self._held.clear()
        return texts, lost

    def settle(self) -> None:
        """Note that everything taken has been shown."""
        with self._lock:
            self._taken.clear()

    def owes(self, origin: object) -> bool:
        """Return whether a text of `origin` is not shown yet; call only once `origin` has stopped printing."""
        return origin in self._held or origin in self._taken

    @property
    def quiet(self) -> bool:
        """Whether every text that was put has been shown."""
        return not self._held and not self._taken

    def _overwrite(self) -> None:
        """Lose the oldest texts until the rest fits. The lock is held."""
        while self._used > self._size:
            _, nbytes = self._texts.popleft()
            self._used -= nbytes
            self._lose()

    def _lose(self) -> None:
        self._lost += 1
        self.lost += 1

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"<PrintFifo: {len(self._texts)} texts, {self._used} of {self._size} bytes, {self.lost} lost>"
