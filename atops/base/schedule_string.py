"""What a run chose, as a string: the same choices again in another process, and a refusal where they cannot be.

    v1.<program and options>.<choices>.<checksum>      each part base64url, without padding

The choices are varints, deflated where that is shorter: how many there were where two names or more could come, a
checksum of the names, then in turn how often the run went on with what it had, and the position and the number of
options of the next one, where it did not.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from atops.base.choice import Choice, Chooser, Name, Plain, told
from atops.base.errors import InvalidValue

__all__ = ("Recorded", "RecordedReplay", "read_schedule", "schedule_string")

VERSION = "v1"
MOST_CHOICES = 1 << 24  # that a string may claim: more than any run makes


class Recorded(NamedTuple):
    """A schedule string, read: how many real choices, and what they were as `schedule_string` packs them."""

    program: bytes
    choices: int
    whole: bool  # whether the run was over then; else what comes after is not said
    switches: tuple[int, ...]
    digest: int  # of the names that were chosen


def schedule_string(choices: Iterable[Choice], program: bytes, whole: bool = True) -> str:
    """Return the string of a run, which is over, or not.

    `program` says what it is a run of: a replay of anything else is refused.
    """
    switches: list[int] = []
    last: Name = ()
    went_on = made = digest = 0
    for name, position, options in choices:
        if options > 1:
            made += 1
            if name == last:
                went_on += 1
            else:
                switches += (went_on, position, options)
                went_on = 0
        digest = _digest(digest, name)
        last = name
    body = b"".join(map(_varint, (made << 1 | whole, digest, *switches)))
    packed = zlib.compress(body, 9)
    body = b"z" + packed if len(packed) < len(body) else b"p" + body
    text = ".".join((VERSION, _text(program), _text(body)))
    return f"{text}.{_text(zlib.crc32(text.encode()).to_bytes(4, 'big'))}"


def read_schedule(text: str) -> Recorded:
    """Read a schedule string. Raises InvalidValue that says what is wrong with it."""
    shown = text if len(text) <= 40 else f"{text[:18]}...{text[-18:]}"
    version, _, rest = text.partition(".")
    if version != VERSION:
        raise InvalidValue(f"schedule is {shown!r}, of version {version!r}; expected {VERSION!r}")
    parts = rest.split(".")
    if len(parts) != 3:
        raise InvalidValue(f"schedule is {shown!r}, which has {len(parts) + 1} parts; expected 4: it was cut")
    begun = text.rpartition(".")[0]
    try:
        program, body, checksum = map(_bytes, parts)
    except (binascii.Error, ValueError):
        raise InvalidValue(f"schedule is {shown!r}, which is no base64url: it was changed") from None
    if checksum != zlib.crc32(begun.encode("utf-8", "replace")).to_bytes(4, "big"):
        raise InvalidValue(f"schedule is {shown!r}, whose checksum is another: it was cut or changed")
    try:
        numbers = list(_numbers(zlib.decompress(body[1:]) if body[:1] == b"z" else body[1:]))
    except zlib.error:
        raise InvalidValue(f"schedule is {shown!r}, whose choices cannot be read") from None
    if len(numbers) < 2 or (len(numbers) - 2) % 3 or numbers[0] >> 1 > MOST_CHOICES:
        raise InvalidValue(f"schedule is {shown!r}, whose choices cannot be read")
    return Recorded(program, numbers[0] >> 1, bool(numbers[0] & 1), tuple(numbers[2:]), numbers[1])


class RecordedReplay:
    """Choose as a string says; `departure` says where the run is another one, None as long as it is not."""

    def __init__(self, recorded: Recorded, then: Chooser | None = None) -> None:
        self.departure: str | None = None
        self.then = then or Plain()
        self._recorded = recorded
        self._switches: Sequence[int] = recorded.switches
        self._next = 0  # switch
        self._went_on = 0  # choices since the last one
        self._made = self._digest = 0
        self._free = False  # the recorded part is over, and the run was not then
        self._last: Name = ()

    def choose(self, kind: str, names: Sequence[Name], /) -> int:
        """Return the position of what was chosen, as long as the run is the same."""
        place = 0
        if self.departure is not None or self._free:
            return self.then.choose(kind, names)
        if len(names) > 1:
            place = self._choose(names)
            if self.departure is not None or self._free:
                return self.then.choose(kind, names)
        self._last = names[place]
        self._digest = _digest(self._digest, self._last)
        return place

    def _choose(self, names: Sequence[Name]) -> int:
        made, at = self._made, self._next
        if made == self._recorded.choices and not self._recorded.whole:
            self._free = True
            return 0
        if made == self._recorded.choices:
            self._depart(f"the schedule ends here, and {len(names)} could come next: {told(names[0])}, ...")
            return 0
        self._made = made + 1
        if at < len(self._switches) and self._went_on == self._switches[at]:
            position, options = self._switches[at + 1 : at + 3]
            self._next, self._went_on = at + 3, 0
            if options != len(names):
                self._depart(f"the schedule has one of {options}; {len(names)} could come: {told(names[0])}, ...")
                return 0
            return min(position, len(names) - 1)
        self._went_on += 1
        if self._last not in names:
            self._depart(f"the schedule goes on with {told(self._last)}, which cannot come: {told(names[0])}, ... can")
            return 0
        return names.index(self._last)

    def _depart(self, what: str) -> None:
        self.departure = f"choice {self._made}: {what}"

    def ended(self) -> str | None:
        """Return where the run has departed, now that it is over; None if it was the same."""
        if self.departure is None and self._made < self._recorded.choices:
            self._depart(f"the run is over; the schedule has {self._recorded.choices} choices")
        if self.departure is None and self._recorded.whole and self._digest != self._recorded.digest:
            self._depart("the run is over, and other things were done than those that the schedule was made of")
        return self.departure


def _digest(before: int, name: Name) -> int:
    """Return a number for a sequence of names, the same in every process."""
    return zlib.crc32(repr(name).encode(), before)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _numbers(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
