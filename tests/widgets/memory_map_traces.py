"""Traces with memory: a small training step on two banks, and a hundred thousand ranges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atops.base.trace.records import (
    AllocationEvent,
    Change,
    Kind,
    MemoryUse,
    Place,
    ThreadEvent,
    ThreadState,
    Trace,
    TraceNames,
    TraceRecord,
)
from atops_widgets.feed.columns import Column
from atops_widgets.feed.feed import Feed
from tests.widgets.traces import US, record

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BANK = 12 * GIB  # of a gcu300
GRANULE = 256

SITES = {
    0: Place("train.py", 12, "load_weights"),
    1: Place("train.py", 27, "step"),
    2: Place("train.py", 31, "step"),
    3: Place("pipeline.py", 88, "Stage.release"),
    4: Place("model.py", 140, "attention"),
}


class Ledger:
    """Writes changes as a device's memory would: with the bytes set aside after each."""

    def __init__(self) -> None:
        self.changes: list[AllocationEvent] = []
        self.used = 0
        self._at: dict[int, tuple[int, int, int]] = {}

    def take(self, at: int, offset: int, size: int, site: int, stream: int = 1, again: bool = False) -> int:
        """Begin an allocation at a microsecond, and return its number; `again`: in a range that a pool has kept."""
        number = len(self.changes)
        bank = offset // BANK
        self._at[number] = offset, size, bank
        self.used += 0 if again else -(-size // GRANULE) * GRANULE
        change = Change.REUSED if again else Change.ALLOCATED
        self.changes.append(AllocationEvent(at * US, 0, offset, size, bank, change, number, self.used, site, stream))
        return number

    def free(self, at: int, number: int, site: int = 3, kept: bool = False) -> None:
        """End an allocation; `kept`: its range stays set aside."""
        offset, size, bank = self._at[number]
        self.used -= 0 if kept else -(-size // GRANULE) * GRANULE
        change = AllocationEvent(at * US, 0, offset, size, bank, Change.FREED, number, self.used, site)
        self.changes.append(change)


def training() -> Trace:
    """Return weights in bank 0, activations that come and go in banks 0 and 2, a pool that keeps one, and a kernel."""
    book = Ledger()
    for layer in range(4):
        book.take(5 + layer, layer * 48 * MIB, 40 * MIB, 0)
    batches = [book.take(20, 3 * GIB, 24 * MIB, 1, 2)]
    inputs = book.take(30, 2 * BANK, 64 * MIB, 2, 2)
    batches.append(book.take(50, 3 * GIB + 24 * MIB, 24 * MIB, 1, 2))
    scores = book.take(60, 2 * BANK + 64 * MIB, 96 * MIB, 4, 2)
    batches += [book.take(80 + 30 * step, 3 * GIB + (48 + 24 * step) * MIB, 24 * MIB, 1, 2) for step in range(2)]
    book.free(112, batches[0])
    book.free(140, scores, kept=True)
    book.free(150, batches[2])
    book.take(160, 2 * BANK + 64 * MIB, 80 * MIB, 4, 3, again=True)
    spare = book.take(170, 2 * BANK + 5 * GIB, 16 * MIB, 4, 3)
    book.free(188, spare, kept=True)
    book.take(200, 2 * BANK + 160 * MIB, 8 * MIB, 2, 2)
    book.free(210, inputs)
    common = {"bytes": 24 * MIB, "engine": 0}
    records: list[TraceRecord] = [
        record(0, Kind.COPY_H2D, 2, 40, 70, dst_device=0, dst_offset=3 * GIB + 24 * MIB, src_offset=0, **common),
        record(1, Kind.LAUNCH, 2, 74, 130, name="attention", engine=1),
        record(2, Kind.FILL, 3, 165, 172, bytes=80 * MIB, dst_device=0, dst_offset=2 * BANK + 64 * MIB),
        record(3, Kind.COPY_D2D, 3, 176, 206, bytes=24 * MIB, dst_device=0, dst_offset=2 * BANK + 64 * MIB,
               src_device=0, src_offset=3 * GIB + 24 * MIB, engine=2),
        record(4, Kind.COPY_D2H, 2, 208, 220, bytes=8 * MIB, src_device=0, src_offset=2 * BANK + 160 * MIB,
               dst_offset=0, engine=3),
    ]  # fmt: skip
    streams = {(0, 1): "weights", (0, 2): "compute", (0, 3): "score"}
    names, steps = TraceNames({0: "gcu300"}, streams, {}, SITES), kernel_steps(1, 76, 125)
    return Trace(tuple(records), names=names, changes=tuple(book.changes), steps=steps)


def given() -> Trace:
    """Return the same, and what its kernel was given: weights, a part of a batch and the scores, one of them twice."""
    weights, batch, scores = (0, 40 * MIB), (3 * GIB + 24 * MIB, 12 * MIB), (2 * BANK + 64 * MIB, 96 * MIB)
    return replace(training(), uses=tuple(MemoryUse(1, 0, *place) for place in (weights, batch, scores, weights)))


def kernel_steps(launch: int, begin: int, end: int) -> tuple[ThreadEvent, ...]:
    """Return the steps of a launch of two blocks of six threads: they take L1 and L2 and end."""
    steps: list[ThreadEvent] = []
    for block in range(2):
        for thread in range(6):
            at = (begin + thread) * US
            steps.append(ThreadEvent(at, launch, block, thread, ThreadState.RUNS))
            l1 = (thread + 1) * 192 * KIB
            l2 = (block + 1) * 20 * MIB
            steps.append(ThreadEvent(at + 4 * US, launch, block, thread, ThreadState.DTE, 0, 4, l1, l2))
            if block:
                steps.append(ThreadEvent(end * US, launch, block, thread, ThreadState.ENDED, -1, -1, 0, 0))
    return tuple(sorted(steps))


def crowd(count: int = 100_000, seed: int = 7) -> Column:
    """Return the fields of `count` live ranges in three banks, in the order of `AllocationEvent`, as rows."""
    draw = np.random.default_rng(seed)
    bank = np.sort(draw.integers(0, 3, count))
    size = draw.integers(1, 64, count) * KIB
    gap = draw.integers(0, 8, count) * KIB
    ends = np.cumsum(size + gap)
    opens = np.append(True, bank[1:] != bank[:-1])
    base = np.maximum.accumulate(np.where(opens, ends - size - gap, 0))
    offset = bank * BANK + ends - size - gap - base
    used = np.cumsum(size)
    zero = np.zeros(count, np.int64)
    numbers, sites = np.arange(count), draw.integers(0, 5, count)
    return np.stack([numbers * 10, zero, offset, size, bank, zero, numbers, used, sites, zero + 1], 1)


def crowded(count: int = 100_000) -> Feed:
    """Return a feed that has been told of so many live ranges."""
    feed = Feed(Trace(names=TraceNames({0: "gcu300"}, {}, {}, SITES)))
    feed.changes.extend_columns(dict(zip(feed.changes.fields, crowd(count).T, strict=True)))
    feed.version += 1
    return feed
