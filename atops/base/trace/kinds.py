"""What a command is and how it ends, as the numbers that records, details and trace files share."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ("COPIES", "MOVES", "WAITS", "Kind", "Status")


class Kind(IntEnum):
    """What a record is about."""

    COPY_H2D = 0
    COPY_D2H = 1
    COPY_D2D = 2
    COPY_H2H = 3
    COPY_PEER = 4
    FILL = 5
    LAUNCH = 6
    RECORD = 7
    WAIT_EVENT = 8
    WAIT_VALUE = 9
    WRITE_VALUE = 10
    CALL = 11
    ALLOC = 12
    FREE = 13
    API = 14


WAITS: Final = frozenset({Kind.WAIT_EVENT, Kind.WAIT_VALUE})
COPIES: Final = frozenset({Kind.COPY_H2D, Kind.COPY_D2H, Kind.COPY_D2D, Kind.COPY_H2H, Kind.COPY_PEER})
MOVES: Final = COPIES | {Kind.FILL}  # what copy engines carry out


class Status(IntEnum):
    """How it ended."""

    DONE = 0
    FAILED = 1
    SKIPPED = 2
    ABORTED = 3
