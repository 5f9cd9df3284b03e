"""Enqueue on several streams at once: commands in one atomic submission, and launches, cooperative ones too.

`submit_together` takes any commands, `launch_together` launches; a `Rendezvous` is what cooperative grids meet at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atops.base.errors import CooperativeLaunchTooLarge, InvalidType, InvalidValue, LaunchFailure
from atops.device.exec.gang import Gang
from atops.device.exec.grid_barrier import GridBarrier
from atops.runtime.core.completion import Completion
from atops.runtime.queues.submission import submit_together
from atops.runtime.stream import Stream

if TYPE_CHECKING:
    from atops.runtime.commands.launch import Launch
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("EndedEarly", "Rendezvous", "check_clusters", "launch_together")


def launch_together(
    launches: Sequence[tuple[Any, ...]], *, cooperative: bool = False, shared: int | None = None
) -> list[Completion]:
    """Enqueue `(stream, kernel, config, *arguments)` for several streams in one atomic submission.

    With `cooperative` the grids start together and `syncblocks` spans them all, on one device or on several. A grid
    that cannot start (its stream has failed, say) fails the others with LaunchFailure. Raises InvalidValue for two
    cooperative grids in one stream, or in a null stream and one that waits for it, CooperativeLaunchTooLarge for more
    blocks than the clusters of a device, or those that the streams' masks leave, can hold at once, and what
    `Stream.launch` raises.
    """
    if not isinstance(launches, Sequence):
        raise InvalidType(f"the launches are {launches!r}; expected a list of (stream, kernel, config, *arguments)")
    for entry in launches:
        if not isinstance(entry, Sequence) or len(entry) < 3 or not isinstance(entry[0], Stream):
            raise InvalidType(f"a launch {entry!r}; expected (stream, kernel, config, *arguments)")
    streams: list[Stream] = [entry[0] for entry in launches]
    if cooperative:
        _check_streams(streams)
    meeting = Rendezvous(len(launches), min((each.priority for each in streams), default=0)) if cooperative else None
    prepared = []
    for stream, kernel, config, *arguments in launches:
        launch = stream.prepare_launch(kernel, config, tuple(arguments), {}, shared, cooperative or None)
        prepared.append((stream, launch.of_meeting(meeting)))
    if cooperative:
        check_clusters(prepared)
    items = submit_together(prepared)
    if meeting is not None:
        meeting.expect(items)
    return items


def _check_streams(streams: list[Stream]) -> None:
    """Raise InvalidValue where the order of streams keeps one grid of a cooperative launch from meeting another."""
    if len(set(streams)) != len(streams):
        raise InvalidValue("two grids of one cooperative launch are in the same stream; they could never meet")
    for null in (each for each in streams if each.null):
        for other in streams:
            if other is not null and other.blocking and other.context is null.context:
                raise InvalidValue(
                    f"two grids of one cooperative launch are in {null.label} and in {other.label}, which waits for "
                    "the null stream; they could never meet: a stream with nonblocking=True would"
                )


def check_clusters(launches: Sequence[tuple[StreamQueue, Launch]]) -> None:
    """Raise CooperativeLaunchTooLarge unless every grid can have its clusters while all others have theirs.

    That is so when for each set of clusters the grids confined to it have no more blocks than it has clusters.
    """
    for context in {stream.context for stream, _ in launches}:
        every = (1 << context.arch.clusters) - 1
        grids = [
            (every if stream.cluster_mask is None else stream.cluster_mask, launch.config.grid.volume)
            for stream, launch in launches
            if stream.context is context
        ]
        for part in range(1, every + 1):
            blocks = sum(volume for mask, volume in grids if not mask & ~part)
            if blocks > part.bit_count():
                where = "" if part == every else f" on clusters {part:#x} (a mask)"
                raise CooperativeLaunchTooLarge(
                    f"cooperative grids of {blocks} blocks were to start together{where}; device {context.ordinal} has "
                    f"{part.bit_count()} clusters for them"
                )


class Rendezvous:
    """Where the grids of one cooperative launch meet: all are built before the first is started."""

    def __init__(self, grids: int, priority: int = 0) -> None:
        self.barrier = GridBarrier(grids)
        self.gang = Gang(priority)
        self._grids = grids
        self._items: list[Completion] = []
        self._starts: list[Callable[[], None]] = []
        self._lock = self.barrier.lock
        self._failed = False

    def expect(self, items: list[Completion]) -> None:
        """Watch the launches: one that ends before all have met fails the others."""
        self._items = items
        for item in items:
            if not item.add_waiter(EndedEarly(self)):
                self.give_up()

    def arrive(self, start: Callable[[], None]) -> None:
        """Note that one grid is built; the last one starts them all. No lock is held while they start."""
        with self._lock:
            if self._failed:
                return
            self._starts.append(start)
            starts = self._starts if len(self._starts) == self._grids else []
        for each in starts:
            each()
        if starts:
            self.gang.start()

    def leave(self) -> bool:
        """Let none of the grids start, because one was aborted. Returns False when all have met and run."""
        with self._lock:
            if len(self._starts) == self._grids:
                return False
            self._failed = True
        return True

    def give_up(self) -> None:
        """Fail every launch that is not over, unless all have met."""
        if not self.leave():
            return
        for item in self._items:
            if not item.over and item.state == "running":
                item.stream.finish(item, LaunchFailure("another grid of the same cooperative launch could not start"))

    @property
    def failed(self) -> bool:
        """Whether a grid could not start."""
        return self._failed


class EndedEarly:
    """Tells a rendezvous that one of its launches is over."""

    __slots__ = ("_meeting",)

    def __init__(self, meeting: Rendezvous) -> None:
        self._meeting = meeting

    def wake(self) -> None:
        """Have the rendezvous look whether all have met."""
        self._meeting.give_up()
