"""The log of atops: records with fields for device, stream and command. A failing handler of the program ends no work.

Also: text for objects of the program whose `repr` or `str` may raise.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final

__all__ = ("FIELDS", "Log", "first_line", "get_logger", "message_of", "said_of")

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


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger of atops, for the runtime.

    What a handler or a filter of the program raises is printed, as `logging` prints errors of handlers, and goes no
    further: most records are made by threads of the runtime, in the middle of a command.
    """

    def log(self, level: int, msg: object, *args: object, **keywords: Any) -> None:
        """Make a record, if anybody wants it."""
        if not self.logger.isEnabledFor(level):
            return
        keywords["stacklevel"] = keywords.get("stacklevel", 1) + 1  # the caller's line, and not this one
        try:
            super().log(level, msg, *args, **keywords)
        except Exception:
            _show()
        except BaseException:
            if threading.current_thread() is threading.main_thread():  # Ctrl-C, or a handler that ends the program
                raise
            _show()

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Leave the record's fields as they are given."""
        return msg, kwargs


def get_logger(name: str) -> Log:
    """Return the log of this name, by which the program finds it in `logging`, too.

    All its records have all of `FIELDS`, None where `extra` leaves one out, those that the program makes as well.
    """
    logger = logging.getLogger(name)
    if _complete not in logger.filters:
        logger.addFilter(_complete)
    return Log(logger, None)


def _complete(record: logging.LogRecord) -> bool:
    for field in FIELDS:
        record.__dict__.setdefault(field, None)
    return True


def _show() -> None:
    """Show what a handler raised, where the program has not switched that off, as `logging.Handler.handleError`."""
    if logging.raiseExceptions and sys.stderr is not None:
        with suppress(Exception):
            print("--- Logging error ---", traceback.format_exc(), sep="\n", file=sys.stderr)


# ---- what the program's own exceptions and objects say

def said_of(thing: object) -> str:
    """Return the repr of an object of the program, or its type's name where that raises: no command may hang by it."""
    return _told(repr, thing)


def message_of(error: BaseException) -> str:
    """Return the message of an exception of the program's, or its type's name, as `said_of`."""
    return _told(str, error)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message."""
    return message_of(error).partition("\n")[0]


def _told(how: Callable[[Any], str], thing: object) -> str:
    try:
        return how(thing)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"{type(thing).__name__} ({how.__name__}() of it raised)"
