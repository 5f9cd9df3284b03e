"""What this service counts and measures: the metrics of /metrics, and the two blocks that feed them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

import atops
from examples.service.batcher import Batcher

__all__ = ("Reading", "Readings")

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
ITEMS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(slots=True)
class Reading:
    """One request while it is served; its status is set before the block ends, unless it was cancelled."""

    status: int | None = None


class Readings:
    """The metrics of one batcher and one device, in a registry of their own."""

    def __init__(self, batcher: Batcher[Any, Any], device: atops.Device) -> None:
        registry = self.registry = CollectorRegistry()
        self._requests = Counter(
            "service_requests", "Requests to /embed that are over, by status.", ["status"], registry=registry
        )
        self._latency = Histogram(
            "service_request_seconds", "Time from request to response.", buckets=SECONDS, registry=registry
        )
        self._batches = Counter("service_batches", "Batches that are over, by outcome.", ["outcome"], registry=registry)
        self._sizes = Histogram("service_batch_size", "Photographs in a batch.", buckets=ITEMS, registry=registry)
        self._times = Histogram(
            "service_batch_seconds", "Time of a batch on the device.", buckets=SECONDS, registry=registry
        )
        for name, about, read in (
            ("service_queue_depth", "Requests that wait for a batch.", lambda: batcher.waiting),
            ("service_queue_capacity", "Requests that may wait.", lambda: batcher.capacity),
            ("service_requests_on_device", "Requests in batches on the device.", lambda: batcher.running),
        ):
            Gauge(name, about, registry=registry).set_function(read)
        registry.register(DeviceFigures(device))

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
            self._requests.labels(outcome).inc()
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
            self._batches.labels(outcome).inc()
            self._sizes.observe(size)
            self._times.observe(time.perf_counter() - began)


class DeviceFigures:
    """What the device says of itself, read once for each scrape, so that its figures belong together."""

    def __init__(self, device: atops.Device) -> None:
        self._device = device

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the device."""
        figures = self._device.statistics()
        memory = GaugeMetricFamily("atops_memory_bytes", "Device memory by what is counted.", labels=["kind"])
        for kind in ("used", "free", "peak", "largest_free"):
            memory.add_metric([kind], getattr(figures.memory, kind))
        yield memory
        yield GaugeMetricFamily("atops_allocations", "Live allocations of device memory.", figures.memory.live)
        streams = GaugeMetricFamily("atops_streams", "Streams that have work, or have failed.", labels=["state"])
        streams.add_metric(["active"], figures.active_streams)
        streams.add_metric(["poisoned"], figures.poisoned_streams)
        yield streams
        yield GaugeMetricFamily(
            "atops_commands_pending", "Commands of all streams that are not over.", figures.pending_commands
        )
