"""What this service counts and measures: the metrics of /metrics, and the two blocks that feed them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import atops
from examples.service.batcher import Batcher
from examples.service.metrics import Counter, Gauge, Histogram, Labels, Metric

__all__ = ("Reading", "Readings")

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
ITEMS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(slots=True)
class Reading:
    """One request while it is served; its status is set before the block ends, unless it was cancelled."""

    status: int | None = None


class Readings:
    """The metrics of one batcher and one device."""

    def __init__(self, batcher: Batcher[Any, Any], device: atops.Device) -> None:
        self._batcher, self._device = batcher, device
        self._requests = Counter("service_requests_total", "Requests to /embed that are over, by status.", "status")
        self._latency = Histogram("service_request_seconds", "Time from request to response.", SECONDS)
        self._batches = Counter("service_batches_total", "Batches that are over, by outcome.", "outcome")
        self._sizes = Histogram("service_batch_size", "Photographs in a batch.", ITEMS)
        self._times = Histogram("service_batch_seconds", "Time of a batch on the device.", SECONDS)
        self.metrics: tuple[Metric, ...] = (
            self._requests,
            self._latency,
            self._batches,
            self._sizes,
            self._times,
            Gauge("service_queue_depth", "Requests that wait for a batch.", lambda: {(): batcher.waiting}),
            Gauge("service_queue_capacity", "Requests that may wait.", lambda: {(): batcher.capacity}),
            Gauge("service_requests_on_device", "Requests in batches on the device.", lambda: {(): batcher.running}),
            Gauge("atops_memory_bytes", "Device memory by what is counted.", self._memory),
            Gauge("atops_allocations", "Live allocations of device memory.", self._allocations),
            Gauge("atops_streams", "Streams of the device that have work, or have failed.", self._streams),
            Gauge("atops_commands_pending", "Commands of all streams that are not over.", self._commands),
        )

    @contextmanager
    def request(self) -> Iterator[Reading]:
        """Time a request and count it by its status; one that ends without a status is counted as cancelled or 500."""
        began, reading = time.perf_counter(), Reading()
        outcome = "cancelled"
        try:
            yield reading
            outcome = str(reading.status)
        except Exception:
            outcome = "500"
            raise
        finally:
            self._requests.add(outcome)
            self._latency.observe(time.perf_counter() - began)

    @contextmanager
    def batch(self, size: int) -> Iterator[None]:
        """Time a batch, and count it by how it ended."""
        began = time.perf_counter()
        outcome = "cancelled"
        try:
            yield
            outcome = "done"
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._batches.add(outcome)
            self._sizes.observe(size)
            self._times.observe(time.perf_counter() - began)

    def _memory(self) -> dict[Labels, float]:
        memory = self._device.statistics().memory
        return {(("kind", kind),): getattr(memory, kind) for kind in ("used", "free", "peak", "largest_free")}

    def _allocations(self) -> dict[Labels, float]:
        return {(): self._device.statistics().memory.live}

    def _streams(self) -> dict[Labels, float]:
        figures = self._device.statistics()
        return {(("state", "active"),): figures.active_streams, (("state", "poisoned"),): figures.poisoned_streams}

    def _commands(self) -> dict[Labels, float]:
        return {(): self._device.statistics().pending_commands}
