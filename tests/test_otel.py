"""Commands as OpenTelemetry spans: parents from where they were submitted, times of day, failures, and no losses."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import atops
from atops.errors import InvalidType
from atops.otel import instrument
from atops.runtime.driver import board_of
from tests.architecture.source_tree import ROOT


class Spans:
    """A provider of its own, and what it was given."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("the program")

    def of_commands(self) -> list[ReadableSpan]:
        """Return the spans of commands, in the order in which they ended."""
        scopes = [(span, span.instrumentation_scope) for span in self.exporter.get_finished_spans()]
        return [span for span, scope in scopes if scope is not None and scope.name == "atops"]


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Return spans that go nowhere else."""
    found = Spans()
    yield found
    found.provider.shutdown()


def work() -> None:
    """Do nothing."""


def fail() -> None:
    """Raise."""
    raise ValueError("no")


@pytest.mark.anyio
async def test_the_parent_is_the_span_at_the_submission(spans: Spans):
    """Commands are children of the span that was current where they were enqueued, also once that has ended."""
    async with atops.Driver() as driver, atops.Device(0).create_stream(name="load") as stream:
        with instrument(tracer_provider=spans.provider) as made:
            before = time.time_ns()
            with spans.tracer.start_as_current_span("one") as one:
                x = stream.upload(np.ones(1000, np.float32))
            with spans.tracer.start_as_current_span("two") as two:
                stream.fill(x, 2.0)
                inner = stream.call(work)
            stream.fetch(x)
            await stream
            after = time.time_ns()
        assert made.closed
        stream.fill(x, 3.0)
        await stream
    parents = [(span.name, None if span.parent is None else span.parent.span_id) for span in spans.of_commands()]
    assert parents == [
        ("copy host to device", one.get_span_context().span_id),
        ("fill", two.get_span_context().span_id),
        ("host call work", two.get_span_context().span_id),
        ("copy device to host", None),
    ]
    copy, fill, call, _ = spans.of_commands()
    assert copy.attributes is not None and call.attributes is not None
    assert dict(copy.attributes) | {"atops.command.queue.duration": 0.0} == {
        "atops.driver.id": board_of(driver).serial, "atops.device.id": 0, "atops.stream.id": stream.number,
        "atops.stream.name": "load", "atops.command.id": 2, "atops.command.kind": "copy host to device",
        "atops.command.status": "done", "atops.command.queue.duration": 0.0, "atops.command.size": 4000,
    }  # fmt: skip
    assert call.attributes["code.function.name"] == "work" and inner.done()
    times = [before, copy.start_time, copy.end_time, fill.start_time, fill.end_time, call.end_time, after]
    assert times == sorted(times)
    assert copy.instrumentation_scope is not None and copy.instrumentation_scope.version == atops.__version__


def test_a_failure_is_told_with_its_exception(spans: Spans):
    """The span of a command that failed has the error; those behind it name what skipped them."""

    async def main() -> None:
        stream = atops.Device(0).create_stream()
        with instrument(tracer_provider=spans.provider):
            completions = [stream.call(fail), stream.call(int)]
            for each in completions:
                with pytest.raises(atops.errors.ExecutionError):
                    await each

    atops.run(main, atops.EmulatorOptions(seed=7))
    failed, skipped = spans.of_commands()
    assert failed.attributes is not None and skipped.attributes is not None
    assert failed.attributes["error.type"] == "atops.errors.HostCallFailure" and failed.attributes["atops.seed"] == 7
    assert skipped.attributes["error.type"] == "atops.errors.PriorLaunchFailure"
    assert failed.status.status_code is StatusCode.ERROR and "ValueError('no')" in (failed.status.description or "")
    (event,) = failed.events
    assert event.name == "exception" and "in fail" in str((event.attributes or {})["exception.stacktrace"])


def test_what_is_suppressed_or_not_asked_for_has_no_span(spans: Spans):
    """Commands of an exporter itself, and those of other kinds, make none."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            with instrument(tracer_provider=spans.provider, kinds=[atops.Kind.FILL]):
                x = stream.zeros(10)
                token = otel_context.attach(otel_context.set_value("suppress_instrumentation", True))
                stream.fill(x, 1.0)
                otel_context.detach(token)
                stream.call(int)
                await stream

    atops.run(main)
    assert [span.name for span in spans.of_commands()] == ["fill"]


def test_two_runs_under_the_virtual_clock_have_the_same_spans(spans: Spans):
    """The length of a copy is the model's, and a span begins at the time of day of the first look at the clock."""

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            with instrument(tracer_provider=spans.provider):
                stream.upload(np.ones(1 << 20, np.uint8))
                await stream

    lengths = []
    for _ in range(2):
        before = time.time_ns()
        atops.run(main, atops.EmulatorOptions(clock="virtual"))
        span = spans.of_commands()[-1]
        assert span.start_time is not None and span.end_time is not None
        assert before <= span.start_time <= time.time_ns()
        lengths.append(span.end_time - span.start_time)
    assert lengths[0] == lengths[1] > 0


def test_every_command_of_many_has_its_span(spans: Spans):
    """Short copies, which run in batches, have their own parents; nothing is lost at the end."""
    driver = atops.Driver()
    try:
        stream = atops.Device(0, driver).create_stream()
        x = stream.empty(1000)
        with instrument(driver, tracer_provider=spans.provider):
            expected = []
            for number in range(500):
                with spans.tracer.start_as_current_span(f"request {number}") as span:
                    stream.copy(x, np.ones(1000, np.float32))
                    expected.append(span.get_span_context().span_id)
            stream.sync()
        assert [span.parent and span.parent.span_id for span in spans.of_commands()] == expected
        assert driver.tracer.contexts == 0 and not driver.tracer.observed
    finally:
        driver.close()


def test_what_is_no_driver_is_refused():
    """The error names what was given."""
    with pytest.raises(InvalidType, match="cannot instrument 3; expected a Driver"):
        instrument(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="cannot make spans of 'fill'"):
        instrument(kinds=["fill"])  # type: ignore[list-item]


@pytest.mark.slow
def test_without_the_package_the_extra_is_named():
    """The message says what to install."""
    program = "import sys; sys.modules['opentelemetry'] = None; import atops.otel"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100)
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: atops.otel needs the package opentelemetry-api: pip install 'atops[otel]'"
