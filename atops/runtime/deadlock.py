"""Who waits for what: walking from a command to everything that must be over before it can be.

Used to refuse a blocking wait that could never end, and to report streams that all stand still.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from atops.base.errors import WouldDeadlock
from atops.base.loops import running_home
from atops.runtime.commands import WaitEvent
from atops.runtime.completion import Completion
from atops.runtime.executor import HERE

if TYPE_CHECKING:
    from atops.runtime.driver import Driver

__all__ = ("check_blocking", "upstream")


def upstream(target: Completion) -> Iterator[Completion]:
    """Yield every unfinished command that must be over before `target` is, itself included. A snapshot walk."""
    todo = [target]
    seen: set[Completion] = set()
    while todo:
        item = todo.pop()
        if item in seen or item.done:
            continue
        seen.add(item)
        yield item
        todo += [earlier for earlier in item.stream.pending() if earlier.seq < item.seq and earlier not in seen]
        todo += item.deps or ()
        if isinstance(item.command, WaitEvent) and item.command.record is not None:
            todo.append(item.command.record)


def check_blocking(driver: Driver, target: Completion) -> None:
    """Raise WouldDeadlock if blocking this thread until `target` is done would block what `target` needs.

    1. The runtime's own threads never block.
    2. A callback must not wait for a command that waits for the callback.
    3. A loop must not be blocked by a wait for a coroutine that it owes itself.
    """
    if HERE.role is not None and HERE.role != "callback":
        raise WouldDeadlock(f"a blocking wait for {target!r} on the runtime's own {HERE.role} thread would never end")
    home = running_home()
    owed = driver.debts.of(home) if home is not None else []
    callback = HERE.callback
    if callback is None and not owed:
        return
    for item in upstream(target):
        if item is callback:
            raise WouldDeadlock(f"a callback waits for {target!r}, which waits for the callback: {item!r}")
        if item in owed:
            raise WouldDeadlock(
                f"blocking this event loop until {target!r} is done would never end: the loop itself owes {item!r}; "
                "await it"
            )
