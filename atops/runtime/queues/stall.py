"""Noticing that nothing moves: once every stream with work has been parked for a second, a report says on what."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from atops.device.exec.grid import Grid
from atops.runtime.commands.call import Call
from atops.runtime.commands.events import WaitEvent
from atops.runtime.commands.launch import Launch
from atops.runtime.commands.values import WaitValue
from atops.runtime.core.completion import Completion
from atops.runtime.core.services import DriverServices

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("StallWatch", "why")

log = logging.getLogger("atops.stall")

PATIENCE_NS = 1_000_000_000


def why(item: Completion) -> str:
    """Say in words what a command waits for now."""
    command = item.command
    if isinstance(command, WaitEvent):
        return f"waits for {command.event!r}, recorded by {command.record!r}"
    if isinstance(command, WaitValue):
        return f"waits for a value: {item.parked!r}"
    if isinstance(command, Call):
        return f"waits for the host callable {command.name}"
    if isinstance(item.parked, Completion):
        return f"waits for {item.parked!r} (null-stream order)"
    if isinstance(command, Launch):
        waits = [] if (grid := item.parked) is None else grid.waits()
        return f"runs kernel {command.bound.name}" + "".join(f"; {wait}" for wait in waits)
    return f"waits for {item.parked!r}" if item.parked is not None else item.state


class StallWatch:
    """A check, once a second while a stream of the driver is parked, whether any stream has moved."""

    def __init__(self, driver: DriverServices) -> None:
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
                log.warning("%s", self.report(heads))
            self._looking = False  # reported; the next head that parks starts it again
            return
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
