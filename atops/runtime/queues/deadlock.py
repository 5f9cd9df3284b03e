"""Waits that cannot end: a blocking one is refused; streams that all stand still for a second are reported."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from atops.base.errors import WouldDeadlock
from atops.base.waiting.current_loop import running_loop_adapter
from atops.device.exec.grid import Grid
from atops.runtime.commands.call import Call
from atops.runtime.commands.events import WaitEvent
from atops.runtime.commands.launch import Launch
from atops.runtime.commands.memory import Alloc
from atops.runtime.commands.values import WaitValue
from atops.runtime.core.completion import Completion
from atops.runtime.executors.executor import HERE

if TYPE_CHECKING:
    from atops.runtime.driver import Driver
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("StallWatch", "check_awaiting", "check_blocking", "why")

log = logging.getLogger("atops.stall")

PATIENCE_NS = 1_000_000_000


def _upstream(targets: Sequence[Completion]) -> Iterator[tuple[Completion, Completion]]:
    """Yield every unfinished command that must be over before one of `targets` is, themselves included, and that one.

    Each queue as found, and each command once: so from the newest target on.
    """
    seen: set[Completion] = set()
    walked: dict[tuple[StreamQueue, int], int] = {}
    for target in sorted(targets, key=lambda item: item.seq, reverse=True):
        for item in _before(target, seen, walked):
            yield item, target


def _before(
    target: Completion,
    seen: set[Completion],
    walked: dict[tuple[StreamQueue, int], int],
    via: dict[Completion, Completion] | None = None,
) -> Iterator[Completion]:
    """As `_upstream` of one target, without what was `seen` and the parts of streams that were `walked`.

    `via` is given for each command the one that waits for it.
    """
    todo = [target]
    while todo:
        item = todo.pop()
        if item in seen:
            continue
        seen.add(item)
        if item.over:
            todo += [item.instead] if item.instead is not None else []
            continue
        yield item
        found: list[Completion] = []
        # First its own stream: the queue before it and, for a call, the detached calls before it, for which only later
        # calls wait.
        for part in (0, 1) if isinstance(item.command, Call) else (1,):
            since = walked.get((item.stream, part), 0)
            if item.seq > since:
                walked[item.stream, part] = item.seq
                found += [each for each in item.stream.snapshot()[part] if since < each.seq < item.seq]
        found += item.deps or ()
        if isinstance(item.command, WaitEvent) and (record := item.command.record) is not None:
            found.append(record)
        found += item.awaits
        if via is not None:
            for each in found:
                via.setdefault(each, item)
        todo += found


def check_blocking(items: Sequence[Completion], holds_a_lock: bool, what: object = None) -> None:
    """Raise WouldDeadlock if blocking this thread until all of `items` are over would block what one of them needs.

    `what` is what the thread waits for, where that is not the items themselves.

    1. A thread that holds a lock of the board, which the work may need, never blocks. Only a finalizer or a signal
       handler can be there: it runs in the middle of another call, which may hold one.
    2. The runtime's own threads never block.
    3. A callback must not wait for a command that waits for the callback.
    4. A loop must not be blocked by a wait for a coroutine that it runs itself.
    """
    if what is None:
        if not items:
            return
        what = items[0]
    if holds_a_lock:
        raise WouldDeadlock(
            f"a finalizer or a signal handler waits for {what!r} in the middle of a call that its thread was "
            "making; the work may need what that call holds: wait when it is over, or in another thread"
        )
    if HERE.role is not None and HERE.role != "callback":
        raise WouldDeadlock(f"a blocking wait for {what!r} on the runtime's own {HERE.role} thread would never end")
    adapter = running_loop_adapter()
    callback = HERE.callback
    if callback is None and adapter is None:
        return
    for item, target in _upstream(items):
        if item is callback:
            raise WouldDeadlock(
                f"a callback waits for {target!r}, which waits for the callback, or what a signal handler came in the "
                f"middle of: {item!r}"
            )
        if adapter is not None and isinstance(item.command, Call) and item.command.adapter is adapter:
            raise WouldDeadlock(
                f"blocking this event loop until {target!r} is done would never end: the loop itself must run "
                f"{item!r}; await it"
            )


def check_awaiting(coroutine: Completion, target: Completion, refuse: bool) -> None:
    """Raise WouldDeadlock, or log a report, if the command that a coroutine in a stream awaits waits for the coroutine.

    No later one can change that: what comes before a command is known when it is enqueued, but for what coroutines
    await; and they are looked at one by one, when each begins to.
    """
    via: dict[Completion, Completion] = {}
    if not any(item is coroutine for item in _before(target, set(), {}, via)):
        return
    cycle = [coroutine]
    while cycle[-1] is not target:
        cycle.append(via[cycle[-1]])
    cycle.append(coroutine)
    cycle.reverse()
    words = [f"{item!r}, which waits for " for item in cycle[1:-1]]
    text = (
        f"the coroutine {coroutine.command.name} in {coroutine.stream.label} awaits what waits for it: {coroutine!r} "
        f"awaits {''.join(words)}{coroutine!r}"
    )
    if refuse:
        raise WouldDeadlock(f"{text}; await it outside of the coroutine, or enqueue it in another stream")
    lines = [f"  {item.stream.label}: {item!r} {why(item)}" for item in dict.fromkeys(cycle)]
    log.warning("%s", f"{text}; none of these can end:\n" + "\n".join(lines))


def why(item: Completion) -> str:
    """Say in words what a command waits for now."""
    command = item.command
    if isinstance(command, WaitEvent):
        return f"waits for {command.event!r}, recorded by {command.record!r}"
    if isinstance(command, WaitValue):
        return f"waits for a value: {item.parked!r}"
    if isinstance(command, Call):
        awaits = ", which awaits " + ", ".join(map(repr, item.awaits)) if item.awaits else ""
        return f"waits for the host callable {command.name}{awaits}"
    if isinstance(item.parked, Completion):
        cause = "its memory" if isinstance(command, Alloc) and item.parked in command.after else "null-stream order"
        return f"waits for {item.parked!r} ({cause})"
    if isinstance(command, Launch):
        waits = [] if (grid := item.parked) is None else grid.waits()
        return f"runs kernel {command.bound.name}" + "".join(f"; {wait}" for wait in waits)
    return f"waits for {item.parked!r}" if item.parked is not None else item.state


class StallWatch:
    """A check, once a second while a stream of the driver is parked, whether any stream has moved."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._looking = False
        self._last: tuple[int, ...] = ()
        self._reported: tuple[int, ...] = ()

    def look_later(self) -> None:
        """Start looking. Called when a head parks; cheap when looking already."""
        if not self._looking:
            self._looking = True
            self._driver.executor.later(PATIENCE_NS, self._look)

    def _look(self) -> None:
        streams = [stream for context in self._driver.contexts for stream in self._active(context.active)]
        heads = [(stream, items[0]) for stream in streams if (items := stream.pending())]
        self._looking = bool(heads)
        if not heads:
            self._last = self._reported = ()
            return
        standing = tuple(sorted(item.seq for _, item in heads))
        parked = all(item.parked is not None and not self._moves(item) for _, item in heads)
        if parked and standing == self._last:
            if standing != self._reported:
                self._reported = standing
                log.warning("%s", report := self.report(heads))
                self._driver.executor.stalled(report, self._driver.host_tasks.runs)
            self._looking = False  # reported; the next head that parks starts it again
            return
        if all(item.parked is not None or isinstance(item.command, Call) for _, item in heads):
            self._driver.executor.stalled(self.report(heads), self._driver.host_tasks.runs)
        self._last = standing if parked else ()
        self._driver.executor.later(PATIENCE_NS, self._look)

    def _active(self, streams: dict[StreamQueue, None]) -> list[StreamQueue]:
        with self._driver.lock:
            return list(streams)

    def _moves(self, item: Completion) -> bool:
        if not isinstance(item.command, Launch):
            return False
        grid = item.parked  # None where it has just ended; a command where null-stream order holds it
        return grid is None or (isinstance(grid, Grid) and grid.moves())

    def report(self, heads: list[tuple[StreamQueue, Completion]]) -> str:
        """Say for each stream what its head waits for."""
        lines = [f"  {stream.label}: {item!r} {why(item)}" for stream, item in heads]
        return "every stream stands still:\n" + "\n".join(lines)
