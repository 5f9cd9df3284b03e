"""The fields of log records: what a record of atops is about, beside its text, for handlers and formatters."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ("FIELDS", "get_logger")

# On every record of a logger `atops.*`, None where it is not known or has no meaning.
FIELDS: Final[dict[str, str]] = {
    "driver": "number of the driver in the process, as its repr has it",
    "device": "ordinal of the device",
    "stream": "label of the stream",
    "command": "number of the command, `seq` of its completion and of its trace record",
    "kernel": "name of the kernel",
    "function": "name of the C-style function",
    "seed": "the driver's seed",
}


def get_logger(name: str) -> logging.Logger:
    """Return the logger of this name, whose records have all of `FIELDS`: those that `extra` leaves out are None."""
    logger = logging.getLogger(name)
    if _complete not in logger.filters:
        logger.addFilter(_complete)
    return logger


def _complete(record: logging.LogRecord) -> bool:
    for field in FIELDS:
        record.__dict__.setdefault(field, None)
    return True
