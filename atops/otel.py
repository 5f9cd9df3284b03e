"""Commands as OpenTelemetry spans: the extra `atops[otel]`.

    with atops.otel.instrument():
        ...

A span's parent is the span that was current where the command was submitted, so that a request's trace shows what it
had done on the board, also what ran after it had been answered.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

try:
    from opentelemetry import context as otel_context
    from opentelemetry import trace
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "atops.otel needs the package opentelemetry-api: pip install 'atops[otel]'", name=missing.name
    ) from missing

import atops
from atops.base.errors import InvalidType
from atops.base.trace.event_log import Closable
from atops.base.trace.records import MOVES, WAITS, ExportRecord, Kind, Status
from atops.runtime.driver import Driver, current_driver
from atops.trace.words import KIND_NAMES

__all__ = ("KINDS", "Instrumentation", "instrument")

# What becomes a span: all that takes time. Allocations, frees and records of events are points.
KINDS: Final = frozenset({*MOVES, *WAITS, Kind.LAUNCH, Kind.CALL, Kind.WRITE_VALUE})
SUPPRESSED: Final = "suppress_instrumentation"  # what OpenTelemetry's exporters set while they send


def instrument(
    driver: Driver | None = None,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    kinds: Collection[Kind] = KINDS,
) -> Instrumentation:
    """Make a span of each command that ends on `driver` (the current one unless told) until the answer is closed.

    `tracer_provider`: the global one unless told. `kinds`: of which commands. Raises InvalidType for what is none of
    these. Spans are made on the thread that hands out the trace, never on the driver's.
    """
    driver = current_driver() if driver is None else driver
    if not isinstance(driver, Driver):
        raise InvalidType(f"cannot instrument {driver!r}; expected a Driver, or None for the current one")
    if wrong := [each for each in kinds if not isinstance(each, Kind)]:
        raise InvalidType(f"cannot make spans of {wrong[0]!r}; expected kinds of commands, such as atops.Kind.LAUNCH")
    return Instrumentation(driver, tracer_provider, frozenset(kinds))


class Instrumentation(Closable):
    """The spans of one driver's commands, until it is closed. A context manager; made by `instrument`."""

    __slots__ = ("_driver", "_kinds", "_offset", "_spans", "_subscription")

    def __init__(self, driver: Driver, provider: trace.TracerProvider | None, kinds: frozenset[Kind]) -> None:
        super().__init__(self._finish)
        self._driver = driver
        self._kinds = kinds
        self._spans = trace.get_tracer("atops", atops.__version__, provider)
        self._offset = time.time_ns() - driver.clock.now()  # of a virtual clock for good
        self._subscription = driver.tracer.subscribe(self._export, contexts=True)

    def flush(self, patience: float = 1.0) -> bool:
        """Make the spans of what has ended so far, at most `patience` seconds. Returns whether all are made."""
        return self._driver.tracer.deliver(patience)

    def _finish(self) -> None:
        self.flush()
        self._subscription.close()

    def _export(self, records: list[ExportRecord]) -> None:
        if self._driver.tracer.anchor_ns is not None:
            self._offset = time.time_ns() - self._driver.clock.now()  # the time of day may have been set
        for record in records:
            if record.kind in self._kinds:
                self._span(record)

    def _span(self, record: ExportRecord) -> None:
        known = record.context
        parent = otel_context.Context() if known is None else known.run(otel_context.get_current)
        if otel_context.get_value(SUPPRESSED, parent):
            return
        kind, end = KIND_NAMES[record.kind], self._offset + record.finished_ns
        span = self._spans.start_span(
            f"{kind} {record.name}" if record.name else kind,
            parent,
            attributes=self._attributes(record, kind),
            start_time=self._offset + record.started_ns,
        )
        if span.is_recording() and record.status is not Status.DONE:
            failure = record.failure
            name = record.status.name.lower() if failure is None else f"atops.errors.{type(failure).__name__}"
            span.set_attribute("error.type", name)
            if failure is not None:
                span.record_exception(failure, timestamp=end)
            span.set_status(trace.StatusCode.ERROR, record.status.name.lower() if failure is None else str(failure))
        span.end(end)

    def _attributes(self, record: ExportRecord, kind: str) -> dict[str, str | int | float]:
        """Return what is known of a command: OpenTelemetry's own names where it has some, else atops.* ones."""
        driver = self._driver
        known: dict[str, str | int | float] = {
            "atops.driver.id": driver.number,
            "atops.device.id": record.device,
            "atops.stream.id": record.stream,
            "atops.stream.name": driver.tracer.label_of(record.device, record.stream) or f"stream {record.stream}",
            "atops.command.id": record.seq,
            "atops.command.kind": kind,
            "atops.command.status": record.status.name.lower(),
            "atops.command.queue.duration": max(0, record.queued_ns) / 1e9,  # in seconds, as OpenTelemetry has them
        }
        if record.bytes:
            known["atops.command.size"] = record.bytes
        if record.name and record.kind in (Kind.LAUNCH, Kind.CALL):
            known["code.function.name"] = record.name
        if driver.options.seed is not None:
            known["atops.seed"] = driver.options.seed
        return known

    def __repr__(self) -> str:
        return f"<Instrumentation of {self._driver!r}{', closed' if self.closed else ''}>"
