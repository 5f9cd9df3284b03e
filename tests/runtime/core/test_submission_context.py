"""Records for exporters: the context of submission and the failure, for as long as a subscriber wants them."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextvars import ContextVar

import numpy as np
import pytest

import atops
from atops.base.trace.records import ExportRecord, TraceRecord
from tests.runtime.boards import PATIENCE

REQUEST: ContextVar[object] = ContextVar("request", default=None)


def fail() -> None:
    """Raise."""
    raise ValueError("no")


async def submissions(records: list[ExportRecord], ask: bool) -> list[TraceRecord]:
    """Enqueue commands in contexts of their own, and return what the trace holds of them."""
    device = atops.Device(0)
    tracer = device.driver.tracer
    stream = device.create_stream()
    x = stream.empty(1000)
    await stream
    subscription = tracer.subscribe(records.extend, contexts=True) if ask else tracer.subscribe(len)
    with subscription:
        REQUEST.set("copies")
        for _ in range(3):
            stream.copy(x, np.ones(1000, np.float32))
        REQUEST.set("launched together")
        atops.launch_together([(stream, nothing, (1, 1))])
        REQUEST.set("call")
        completion = stream.call(fail)
        REQUEST.set("behind the failure")
        stream.fill(x, 1.0)
        with pytest.raises(atops.errors.ExecutionError):
            await completion
        with pytest.raises(atops.errors.ExecutionError):
            await stream
        assert tracer.deliver(PATIENCE)
    return tracer.records()


@atops.kernels.kernel
def nothing() -> None:
    """Do nothing."""


@pytest.mark.asyncio
async def test_records_have_the_context_of_submission_and_the_failure():
    """Each way to enqueue keeps the submitter's context; without a subscriber that asks there is none."""
    records: list[ExportRecord] = []
    async with atops.Driver():
        held = await submissions(records, ask=True)
    told = [(each.kind.name, each.context and each.context[REQUEST], type(each.failure).__name__) for each in records]
    assert told == [
        *[("COPY_H2D", "copies", "NoneType")] * 3,
        ("LAUNCH", "launched together", "NoneType"),
        ("CALL", "call", "HostCallFailure"),
        ("FILL", "behind the failure", "PriorLaunchFailure"),
    ]
    assert [each for each in held if each.kind is not atops.Kind.ALLOC] == records
    assert {type(each) for each in held} == {TraceRecord}


def test_a_run_is_the_same_with_contexts():
    """Asking for contexts changes no order and no virtual time."""
    options = atops.EmulatorOptions(seed=3, clock="virtual")
    assert atops.run(submissions, options, [], True) == atops.run(submissions, options, [], False)


def test_contexts_are_let_go_once_they_are_delivered():
    """The ring holds a record for long, and nothing of the program with it."""

    class Request:
        pass

    async def main() -> weakref.ref[Request]:
        stream = atops.Device(0).create_stream()
        x = atops.Device(0).empty(10)
        tracer = stream.driver.tracer
        request = Request()
        with tracer.subscribe(len, contexts=True):
            token = REQUEST.set(request)
            completion = stream.fill(x, 1.0)
            await completion
            REQUEST.reset(token)
            known = weakref.ref(request)
            del request, token
            assert tracer.deliver(PATIENCE)
            for _ in range(5):
                await asyncio.sleep(0)  # the loop has handles with contexts of their own
            gc.collect()
            assert known() is None and len(tracer.records()) == 1 and completion.done()
        return known

    atops.run(main)
