"""The wait graph: what must be over before a command can be, and refusing a blocking wait that could never end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from atops.base.errors import WouldDeadlock
from atops.base.waiting.current_loop import running_loop_adapter
from atops.base.waiting.locks import OwnedLock
from atops.runtime.commands.call import Call
from atops.runtime.commands.events import WaitEvent
from atops.runtime.core.completion import Completion
from atops.runtime.executors.executor import HERE

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("check_blocking", "check_locks", "upstream")


def upstream(target: Completion) -> Iterator[Completion]:
    """Yield every unfinished command that must be over before `target` is, `target` included. Each queue as found."""
    todo = [target]
    seen: set[Completion] = set()
    walked: dict[tuple[StreamQueue, int], int] = {}
    while todo:
        item = todo.pop()
        if item in seen:
            continue
        seen.add(item)
        if item.over:
            continue
        yield item
        # First its own stream: the queue before it and, for a call, the detached calls before it, for which only later
        # calls wait.
        for part in (0, 1) if isinstance(item.command, Call) else (1,):
            since = walked.get((item.stream, part), 0)
            if item.seq > since:
                walked[item.stream, part] = item.seq
                todo += [each for each in item.stream.snapshot()[part] if since < each.seq < item.seq]
        todo += item.deps or ()
        if isinstance(item.command, WaitEvent) and (record := item.command.record) is not None:
            todo.append(record)


def check_locks(target: Completion, *locks: OwnedLock) -> None:
    """Raise WouldDeadlock where this thread holds a lock that the work may need.

    Only a finalizer or a signal handler can be there: it runs in the middle of another call, which may hold one.
    """
    for lock in locks:
        if lock._is_owned():
            raise WouldDeadlock(
                f"a finalizer or a signal handler waits for {target!r} in the middle of a call that its thread was "
                "making; the work may need what that call holds: wait when it is over, or in another thread"
            )


def check_blocking(target: Completion) -> None:
    """Raise WouldDeadlock if blocking this thread until `target` is done would block what `target` needs.

    1. The runtime's own threads never block.
    2. A callback must not wait for a command that waits for the callback.
    3. A loop must not be blocked by a wait for a coroutine that it runs itself.
    """
    if HERE.role is not None and HERE.role != "callback":
        raise WouldDeadlock(f"a blocking wait for {target!r} on the runtime's own {HERE.role} thread would never end")
    adapter = running_loop_adapter()
    callback = HERE.callback
    if callback is None and adapter is None:
        return
    for item in upstream(target):
        if item is callback:
            raise WouldDeadlock(
                f"a callback waits for {target!r}, which waits for the callback, or what a signal handler came in the "
                f"middle of: {item!r}"
            )
        if adapter is not None and isinstance(item.command, Call) and item.command.adapter is adapter:
            raise WouldDeadlock(
                f"blocking this event loop until {target!r} is done would never end: the loop itself owes {item!r}; "
                "await it"
            )
