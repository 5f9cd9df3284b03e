"""The devices of all workers of a cluster together: their statistics, and one trace of what all have done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from distributed import Client

from atops.base.html_table import columns
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Trace
from atops.distributed.cluster import check_client, open_boards, reaching
from atops.distributed.worker import NAME, report, trace
from atops.runtime.device import DeviceStatistics
from atops.runtime.stream_reports import StreamStatistics
from atops.trace.join import join

__all__ = ("ClusterBoard", "ClusterStatistics", "WorkerBoard", "board")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerBoard:
    """A snapshot of the board of one worker."""

    address: str
    devices: tuple[DeviceStatistics, ...]
    streams: tuple[tuple[StreamStatistics, ...], ...]
    """Of each device, the streams that have something to do."""


@dataclass(frozen=True, slots=True)
class ClusterStatistics:
    """A snapshot of the boards of all workers, in the order of their addresses."""

    workers: tuple[WorkerBoard, ...]

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (worker.address, str(device.ordinal), device.arch, f"{device.memory.used:,}", str(device.active_streams),
             str(device.pending_commands))
            for worker in self.workers for device in worker.devices
        ]  # fmt: skip

    def __str__(self) -> str:
        rows = [HEADS, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return str(columns(HEADS, self._rows()))


HEADS = ("worker", "device", "arch", "bytes in use", "streams", "commands")


def board(client: Client, options: EmulatorOptions | None = None) -> ClusterBoard:
    """Return the boards of all workers as one; each worker without a board gets one, from `options`.

    `options` are what boards are opened with: None is what each worker's environment says. Raises InvalidType for what
    is no client, IllegalState for one that is closed, ClusterError for one that has lost its scheduler, NotSupported in
    trio.
    """
    return ClusterBoard(check_client(client), options)


class ClusterBoard:
    """The devices of all workers. With an asynchronous client its methods are awaited, as all of Dask's are."""

    def __init__(self, client: Client, options: EmulatorOptions | None = None) -> None:
        self._client, self._options = client, options

    def __repr__(self) -> str:
        return f"<ClusterBoard of {self._client!r}>"

    def statistics(self) -> ClusterStatistics | Awaitable[ClusterStatistics]:
        """Return a snapshot of all devices, and of the streams that have something to do.

        Raises NotSupported where a worker has other versions, ClusterError where the scheduler is lost.
        """
        found: ClusterStatistics | Awaitable[ClusterStatistics] = self._client.sync(self._statistics)
        return found

    def trace(self) -> Trace | Awaitable[Trace]:
        """Return what the boards remember of what they did, on one axis of time: the clocks of their machines.

        `atops.trace` and the widgets take it as any other. Raises as `statistics`.
        """
        found: Trace | Awaitable[Trace] = self._client.sync(self._trace)
        return found

    def close(self) -> Awaitable[None] | None:
        """Close the boards of all workers: what runs on them ends. The next pipeline opens new ones."""
        done: Awaitable[None] | None = self._client.sync(self._close)
        return done

    async def _statistics(self) -> ClusterStatistics:
        found = await self._asked(report)
        return ClusterStatistics(tuple(
            WorkerBoard(address, tuple(devices), tuple(map(tuple, streams)))
            for address, (devices, streams) in sorted(found.items())
        ))  # fmt: skip

    async def _trace(self) -> Trace:
        found = await self._asked(trace)
        return join([each for _, each in sorted(found.items())])

    async def _close(self) -> None:
        with reaching(self._client, "the board of the cluster"):
            await self._client.unregister_worker_plugin(NAME)

    async def _asked(self, question: Callable[..., T]) -> dict[str, T]:
        with reaching(self._client, "the board of the cluster"):
            await open_boards(self._client, self._options)
            found: dict[str, T] = await self._client.run(question)
        return found
