"""What host functions do here and may not on a device: strict mode warns of it, once for each function and rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from atops.base.locks import fork_safe, make_lock
from atops.base.log_fields import get_logger
from atops.runtime.commands.call import Call
from atops.runtime.executors.executor import HERE

if TYPE_CHECKING:
    from atops.runtime.driver import Driver

__all__ = ("CALLS", "WAITS", "warn_in_host_function")

log = get_logger("atops.strict")

WAITS: Final = (
    "waits for %s; on a device host functions run one at a time and may not wait, so it would hang or be refused: let "
    "the stream wait first, stream.wait(...), or make it a coroutine function"
)
CALLS: Final = (
    "calls %s; on a device calls of the API are refused in a host function: do it where the function is enqueued, "
    "behind the function in its stream, or in a coroutine function"
)
WARNED: WeakKeyDictionary[Driver, set[tuple[str, str]]] = WeakKeyDictionary()  # functions, and what they did
LOCK = fork_safe(make_lock())  # a finalizer may come in the middle, and warn, too


def warn_in_host_function(driver: Driver, rule: str, what: object) -> None:
    """Warn, in strict mode and inside a plain host function of a stream, of what breaks a rule. With no lock held."""
    item = HERE.callback
    if item is None or not driver.options.strict:
        return
    command = item.command
    name = command.name if isinstance(command, Call) else repr(item)
    with LOCK:
        known = WARNED.setdefault(driver, set())
        if (name, rule) in known:
            return
        known.add((name, rule))
    log.warning(f"host function %s of %s {rule}", name, item.stream.label, what)  # the rules are constants
