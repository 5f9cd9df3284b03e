"""How a command ended: its name in messages, its error, and the log of errors never looked at."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from atops.base.errors import AtopsError, ExecutionError
from atops.runtime.core.commands import words_of

if TYPE_CHECKING:
    from atops.runtime.core.completion import Completion
    from atops.runtime.driver import Driver

__all__ = ("as_failure", "log_if_left", "log_if_unseen", "look_at", "verb")

log = logging.getLogger("atops.stream")
UNSEEN = "%s ended with a failure that was never looked at: %s"


def look_at(error: BaseException | None) -> None:
    """Note that the program was told of a failure, and so of its causes: they need not be logged."""
    while error is not None:
        error.__dict__["_seen"] = True
        error = error.__cause__ if isinstance(error, AtopsError) else None


def log_if_unseen(label: str, error: AtopsError) -> None:
    """Log a stream's failure unless the program has looked at it. Once."""
    if not getattr(error, "_seen", False):
        error._seen = True  # type: ignore[attr-defined]  # as `look_at` does, but for its causes
        log.error(UNSEEN, label, error, exc_info=error)


def log_if_left(
    label: str, message: str, attributes: dict[str, Any], known: Callable[[], Driver | None]
) -> None:
    """As `log_if_unseen` for a stream that was collected, given the message and the attributes of its error.

    Not the error itself, whose traceback would keep the stream alive. A collection may come anywhere, even while the
    driver's lock is held; handlers of the log are user code, so they are called on a callback thread.
    """
    if attributes.get("_seen"):
        return
    attributes["_seen"] = True
    say = partial(log.error, UNSEEN, label, message)
    driver = known()
    try:
        if driver is not None and driver.closed is None:
            driver.post(partial(driver.run_callback, say))
            return
    except AtopsError:  # inline, and this is another thread
        pass
    say()


def as_failure(failure: Exception, item: Completion, doing: str = "") -> AtopsError:
    """Return a command's failure as an AtopsError; any other exception is wrapped in an ExecutionError.

    `doing` says what failed, as a prefix of the message, where it was not the command itself.
    """
    if isinstance(failure, AtopsError):
        return failure
    error = ExecutionError(f"{doing}{verb(item)} on {item.stream.label} failed: {failure!r}")
    error.__cause__ = failure
    return error


def verb(item: Completion) -> str:
    """Name a command for a message."""
    name = words_of(item.command)
    return f"{name} (command {item.seq})" if item.seq else name  # it has no number before it is enqueued
