"""A trace with everything in it: a pipeline of three streams under way, its memory, and the threads of one kernel."""

from __future__ import annotations

from dataclasses import replace

from atops.base.trace.records import Kind, MemoryUse, Phase, Trace, TraceNames
from tests.widgets.cluster_grid_traces import summing
from tests.widgets.memory_map_traces import MIB, Ledger
from tests.widgets.queue_traces import COMPUTE, LOAD, STORE, Story

LAUNCH = 11  # whose threads are traced
STEP = 171  # of its steps, where they do all sorts of things
OURS = 100  # where the numbers of the kernel's places begin


def pipeline() -> Trace:
    """Return chunks that are loaded, summed and stored, with two more queued, and a buffer for each."""
    story, book, uses = Story(), Ledger(), list[MemoryUse]()
    free = 0
    for chunk in range(4):
        begin = chunk * 44
        loaded, waits_from = begin + 40, max(begin + 1, free)
        computed = max(loaded, free) + 36
        slot = book.take(max(1, begin), chunk * 24 * MIB, 24 * MIB, LOAD, LOAD)
        copy = story.ran(begin, loaded, Kind.COPY_H2D, LOAD, size=24 * MIB)
        waits = story.submit(begin + 1, Kind.WAIT_EVENT, COMPUTE)
        story.phase(waits_from, waits, Phase.STARTED)
        if waits_from < loaded:
            story.phase(waits_from, waits, Phase.PARKED, copy)
        story.end(max(waits_from, loaded), waits, waits_from, correlation=copy)
        kernel = story.ran(max(loaded, free), computed, Kind.LAUNCH, COMPUTE, name="total")
        uses.append(MemoryUse(kernel, 0, chunk * 24 * MIB, 24 * MIB))
        free = computed
        story.ran(computed, computed + 6, Kind.COPY_D2H, STORE, size=64)
        book.free(computed + 6, slot, STORE)
    for chunk in range(2):
        copy = story.submit(176 + chunk, Kind.COPY_H2D, LOAD, size=24 * MIB)
        waits = story.submit(178 + chunk, Kind.WAIT_EVENT, COMPUTE)
        story.submit(179 + chunk, Kind.LAUNCH, COMPUTE, name="total")
        story.submit(180 + chunk, Kind.COPY_D2H, STORE, size=64)
        if not chunk:
            book.take(176, 4 * 24 * MIB, 24 * MIB, LOAD, LOAD)
            story.phase(176, copy, Phase.STARTED)
            story.phase(179, waits, Phase.STARTED)
            story.phase(179, waits, Phase.PARKED, copy)
    trace, threads = story.trace(), summing()
    traced = next(record for record in trace.records if record.seq == LAUNCH)
    length = traced.finished_ns - traced.started_ns
    steps = tuple(
        step._replace(
            launch=traced.seq, at_ns=traced.started_ns + length * at // len(threads.steps),
            site=step.site + OURS if step.site >= 0 else -1,
        )
        for at, step in enumerate(threads.steps)
    )  # fmt: skip
    sites = {**trace.names.sites, **{number + OURS: place for number, place in threads.names.sites.items()}}
    streams = {(0, LOAD): "load", (0, COMPUTE): "compute", (0, STORE): "store"}
    names = TraceNames({0: "gcu300"}, streams, {}, sites)
    return replace(trace, names=names, changes=tuple(sorted(book.changes)), steps=steps, uses=tuple(uses))


def moment(trace: Trace, step: int = STEP) -> int:
    """Return when the kernel took a step, in nanoseconds."""
    return trace.steps[step - 1].at_ns
