"""The bytes of one allocation, read on demand from a live driver, and told as typed values.

Only while that allocation lives, and a bounded window at a time; no lock is held while bytes are copied. What the
device writes meanwhile may be half seen, as by a debugger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from atops.base.dtypes import as_dtype
from atops.base.errors import AtopsError, IllegalAddress
from atops.device.memory.allocation import Allocation
from atops.runtime.driver import Driver, board_of

__all__ = ("DTYPES", "WINDOW", "Contents", "Look", "rows_of", "told")

WINDOW: Final = 1024  # bytes that are read at once
REMEMBERED: Final = 64  # allocations whose last look is kept, to compare

DTYPES: Final = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
    "float64",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """One reading: `data` from byte `first` of an allocation of `size` bytes, and which of them had changed.

    `error` says why there is nothing; `looks` counts how often these bytes were looked at, so that 1 has no changes.
    """

    generation: int
    first: int = 0
    size: int = 0
    data: bytes = b""
    changed: bytes = b""
    looks: int = 0
    error: str = ""


class Contents:
    """Looks at the memory of a driver (None: of a recorded trace), and what each allocation's last look saw."""

    def __init__(self, driver: Driver | None) -> None:
        self.driver = driver
        self.last: Look | None = None
        self._seen: dict[int, Look] = {}

    def look(self, device: int, offset: int, generation: int, first: int) -> Look:
        """Read the window that byte `first` lies in, of the allocation `generation` at a place. Raises no error."""
        try:
            self.last = self._look(device, offset, generation, first)
        except AtopsError as error:
            self.last = Look(generation, error=str(error))
        return self.last

    def _look(self, device: int, offset: int, generation: int, first: int) -> Look:
        if self.driver is None:
            return Look(generation, error="a recorded trace holds no contents of memory; a live driver shows them")
        allocation = _allocation(self.driver, device, offset, generation)
        first = min(max(0, first), max(0, allocation.size - 1)) // WINDOW * WINDOW
        count = min(WINDOW, allocation.size - first)
        view = allocation.data  # first, then the check: freed by another thread in between, it is still mapped
        allocation.check(first, count, "the memory map")
        data = view[first : first + count].tobytes()
        if not allocation.alive:  # its bytes may have another owner already
            raise IllegalAddress(f"{allocation!r} was freed while it was looked at")
        before = self._seen.pop(generation, None)
        look = Look(generation, first, allocation.size, data, *_changed(before, first, data))
        self._seen[generation] = look
        while len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return look


def rows_of(look: Look, dtype: str) -> list[tuple[int, list[str], list[bool]]]:
    """Return the values as rows: the byte that each begins at, its values as texts, and which of them have changed.

    A row has 16 values of one byte, or 8 others; bytes at the end that make no whole value are left out.
    """
    kind = as_dtype(dtype if dtype in DTYPES else "uint8")
    size = kind.itemsize
    values = np.frombuffer(look.data[: len(look.data) // size * size], kind)
    differs = np.frombuffer(look.changed[: values.nbytes], np.uint8).reshape(-1, size)
    changed: list[bool] = np.logical_or.reduce(differs, axis=1).tolist()
    texts = [_text(value) for value in values]
    across = 16 if size == 1 else 8
    return [
        (look.first + at * size, texts[at : at + across], changed[at : at + across])
        for at in range(0, len(texts), across)
    ]


def told(look: Look | None, dtype: str) -> Mapping[str, object] | None:
    """Return a look as it travels to a page; None stays.

    `parts` are [text, changed] in turn, one after another the text of all rows; what has changed begins with a star.
    """
    if look is None or look.error:
        return None if look is None else {"generation": look.generation, "first": 0, "text": look.error, "parts": []}
    rows = rows_of(look, dtype)
    count = sum(sum(changed) for _, _, changed in rows)
    wide = max((len(text) for _, texts, _ in rows for text in texts), default=1)
    parts: list[tuple[str, bool]] = []
    for first, texts, changed in rows:
        parts.append((f"\n{first:8}  ", False))
        for text, new in zip(texts, changed, strict=True):
            parts.append((f"{'*' * new + text:>{wide + 1}} ", new))
    last = look.first + len(look.data)
    text = f"bytes {look.first:,} to {last:,} of {look.size:,} as {dtype}"
    if look.looks > 1:
        text += f"; {count} values changed since the last look" + (", marked *" if count else "")
    return {"generation": look.generation, "first": look.first, "text": text, "parts": _joined(parts)}


def _joined(parts: list[tuple[str, bool]]) -> list[list[str | bool]]:
    """Return the parts with neighbours that are alike joined."""
    return [["".join(text for text, _ in some), new] for new, some in groupby(parts, key=lambda part: part[1])]


def _allocation(driver: Driver, device: int, offset: int, generation: int) -> Allocation:
    """Return a live allocation by its number. Raises IllegalAddress when it is over."""
    memory = next((context.memory for context in board_of(driver).contexts if context.ordinal == device), None)
    if memory is None:
        raise IllegalAddress(f"device {device} has no memory in use; expected a device that the program has used")
    number = driver.tracer.details.generation
    found = memory.find(memory.base_address + offset, "the memory map")
    if number(found.serial) != generation:  # a later owner of a range that its stream has not freed yet
        same = [each for each in memory.live() if number(each.serial) == generation]
        if not same:
            raise IllegalAddress(f"the range at {offset:#x} of device {device} has a new owner since; select that one")
        found = same[0]
    return found


def _changed(before: Look | None, first: int, data: bytes) -> tuple[bytes, int]:
    """Return which bytes differ from the last look at the same window, and how many looks there were with this one."""
    if before is None or before.first != first or len(before.data) != len(data):
        return bytes(len(data)), 1
    differs = np.frombuffer(before.data, np.uint8) != np.frombuffer(data, np.uint8)
    return differs.tobytes(), before.looks + 1


def _text(value: np.generic) -> str:
    """Return a number as short as it can be told apart; floats with seven digits."""
    if isinstance(value, np.integer):
        return str(int(value))
    return f"{float(value):.7g}"
