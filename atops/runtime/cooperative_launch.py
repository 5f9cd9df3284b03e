"""Launches on several streams in one atomic submission, cooperative ones too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atops.base.errors import CooperativeLaunchTooLarge, InvalidType, InvalidValue
from atops.runtime.commands.launch import Launch, Rendezvous
from atops.runtime.core.completion import Completion
from atops.runtime.owning_queue import OwningQueue
from atops.runtime.queues.queue import StreamQueue, submit_items
from atops.runtime.stream import queue_of, stream_from
from atops.runtime.stream_work import prepare_launch

__all__ = ("launch_together",)


def launch_together(
    launches: Sequence[tuple[Any, ...]], *, cooperative: bool = False, shared: int | None = None
) -> list[Completion[None]]:
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
        named = isinstance(entry, Sequence) and len(entry) > 2 and hasattr(type(entry[0]), "__tops_stream__")
        if not named:
            raise InvalidType(f"a launch {entry!r}; expected (stream, kernel, config, *arguments)")
    queues = [queue_of(stream_from(entry[0])) for entry in launches]
    if cooperative:
        _check_streams(queues)
    meeting = Rendezvous(len(launches), min((each.priority for each in queues), default=0)) if cooperative else None
    prepared = []
    for queue, (_, kernel, config, *arguments) in zip(queues, launches, strict=True):
        launch = prepare_launch(queue, kernel, config, tuple(arguments), {}, shared, cooperative or None)
        prepared.append((queue, launch.of_meeting(meeting)))
    if cooperative:
        _check_clusters(prepared)
    if len({queue.board for queue in queues}) > 1:
        raise InvalidValue("streams of several drivers cannot be given launches together")
    items = [Completion(queue, launch) for queue, launch in prepared]
    if meeting is not None:
        meeting.expect(items)  # first: no grid is enqueued that would not hear of the end of another
    if items:
        submit_items(items)
    for item, (queue, launch) in zip(items, prepared, strict=True):
        if isinstance(queue, OwningQueue):
            queue.keep(item, launch.bound.allocations)
    return items


def _check_streams(streams: Sequence[StreamQueue]) -> None:
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


def _check_clusters(launches: Sequence[tuple[StreamQueue, Launch]]) -> None:
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
