"""How a command came out, in words, as an error of ours and as a trace status; and waking who waited for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from atops.base.errors import AtopsError, ExecutionError, PriorLaunchFailure, StreamAborted
from atops.base.trace.tracer import Status
from atops.base.waiting.parking_lot import Waiter
from atops.runtime.core.commands import words_of
from atops.runtime.core.completion import Completion
from atops.runtime.core.services import DriverServices

__all__ = ("as_failure", "log_if_left", "log_if_unseen", "status_of", "verb", "wake")

log = logging.getLogger("atops.stream")
UNSEEN = "%s ended with a failure that nobody looked at: %s"


def log_if_unseen(label: str, error: AtopsError) -> None:
    """Log a stream's failure if nobody has looked at it. Once."""
    if not getattr(error, "_seen", False):
        error._seen = True  # type: ignore[attr-defined]  # read by nobody but this function and look_at
        log.error(UNSEEN, label, error, exc_info=error)


def log_if_left(
    label: str, message: str, attributes: dict[str, Any], services: Callable[[], DriverServices | None]
) -> None:
    """As `log_if_unseen` for a stream that was collected: of its error only the words and the attributes are left.

    The error itself would keep the stream, by the frames of its traceback. It is collected anywhere, the driver's lock
    held perhaps, and a handler of the log is user code: it is called on a callback thread.
    """
    if attributes.get("_seen"):
        return
    attributes["_seen"] = True
    say = partial(log.error, UNSEEN, label, message)
    driver = services()
    try:
        if driver is not None and driver.closed is None:
            driver.post(partial(driver.run_callback, say))
            return
    except AtopsError:  # inline, and this is another thread
        pass
    say()


def wake(waiters: Collection[Waiter]) -> None:
    """Wake waiters, with no lock held. When Ctrl-C comes in between, all are woken all the same, one perhaps twice."""
    try:
        for waiter in waiters:
            waiter.wake()
    except BaseException:
        for waiter in waiters:
            waiter.wake()
        raise


def as_failure(failure: Exception, item: Completion, doing: str = "") -> AtopsError:
    """Return what a command failed with as an error of ours: what the runtime itself raises by mistake is wrapped.

    `doing` is what was being done with it, if not the command itself.
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


def status_of(error: AtopsError | None) -> Status:
    """Return the trace status for a command's outcome."""
    if error is None:
        return Status.DONE
    if isinstance(error, StreamAborted):
        return Status.ABORTED
    return Status.SKIPPED if isinstance(error, PriorLaunchFailure) else Status.FAILED
