"""A trace that is always the same: a million records and as many details, made as columns, for pictures to bear."""

from __future__ import annotations

import numpy as np

from atops.base.trace.records import Change, Kind, Phase, Place, Status, ThreadState, TraceNames
from atops_widgets.feed.feed import CAPACITY, Feed

EVERY_NS = 1000  # a command ends
CYCLE = (
    Kind.COPY_H2D, Kind.RECORD, Kind.WAIT_EVENT, Kind.LAUNCH, Kind.RECORD, Kind.WAIT_EVENT, Kind.COPY_D2H, Kind.CALL,
)  # fmt: skip
STREAMS = (1, 1, 2, 2, 2, 3, 3, 3)
LIVE = 2000  # ranges of memory held at a time
THREADS = 24  # of a launch, in two blocks
TURNS = (ThreadState.RUNS, ThreadState.DTE, ThreadState.RUNS, ThreadState.BARRIER)
SIZE = 1 << 20


def million(count: int = CAPACITY) -> Feed:
    """Return a feed of `count` records over two devices, moments of the newer half, and changes and steps to match."""
    feed = Feed()
    scale = feed.texts.number("scale")
    seq = np.arange(count, dtype=np.int64)
    kind = np.array(CYCLE)[seq % len(CYCLE)]
    stream = np.array(STREAMS)[seq % len(STREAMS)]
    device = seq // len(CYCLE) % 2
    begun, name = seq * EVERY_NS, np.where(kind == Kind.LAUNCH, scale, 0)
    feed.records.extend_columns({
        "seq": seq, "kind": kind, "device": device, "stream": stream, "submitted_ns": np.maximum(0, begun - 20_000),
        "started_ns": begun, "finished_ns": begun + 3 * EVERY_NS, "bytes": np.full(count, SIZE),
        "status": np.where(seq % 99_991 == 5, int(Status.FAILED), int(Status.DONE)), "name": name,
        "correlation": np.where(kind == Kind.WAIT_EVENT, seq - 1, -1),
        "engine": np.where(kind == Kind.LAUNCH, seq % 2, -1),
    })  # fmt: skip
    late = seq[count // 2 :]
    for phase, at_ns in ((Phase.SUBMITTED, begun - 20_000), (Phase.STARTED, begun)):
        feed.moments.extend_columns({
            "at_ns": at_ns[late], "seq": late, "phase": np.full(len(late), phase), "kind": kind[late],
            "device": device[late], "stream": stream[late], "bytes": np.full(len(late), SIZE), "name": name[late],
            "site": np.zeros(len(late)),
        })  # fmt: skip
    _changes(feed, count)
    _steps(feed, count)
    called = {1: "load", 2: "compute", 3: "store"}
    feed.names = TraceNames(
        streams={(ordinal, each): text for ordinal in (0, 1) for each, text in called.items()},
        sites={0: Place("train.py", 12, "step"), 1: Place("kernels.py", 7, "scale")},
    )
    feed.version += 1
    return feed


def _changes(feed: Feed, count: int) -> None:
    """Have ranges of memory come and go: each range is freed when `LIVE` others have come."""
    half = np.arange(count // 2, dtype=np.int64)
    own = {
        "device": 0 * half, "offset": half % LIVE * SIZE, "size": 0 * half + SIZE, "bank": 0 * half,
        "generation": half, "site": 0 * half, "stream": 0 * half + 1,
    }  # fmt: skip
    begun, ended = 2 * half * EVERY_NS, 2 * (half + LIVE) * EVERY_NS - 1
    used = np.minimum(half + 1, LIVE) * SIZE
    table = {field: np.concatenate([values, values]) for field, values in own.items()}
    table |= {
        "at_ns": np.concatenate([begun, ended]), "used_bytes": np.concatenate([used, used - SIZE]),
        "change": np.repeat([int(Change.ALLOCATED), int(Change.FREED)], len(half)),
    }  # fmt: skip
    order = np.argsort(table["at_ns"], kind="stable")[:-LIVE]  # the newest are held at the end
    feed.changes.extend_columns({field: values[order] for field, values in table.items()})


def _steps(feed: Feed, count: int) -> None:
    """Have the threads of some launches take steps, thousands each."""
    number = np.arange(count, dtype=np.int64)
    launches = feed.records["seq"][feed.records["kind"] == Kind.LAUNCH][-8:]
    which = number * len(launches) // count
    within = number - which * count // len(launches)
    block, turn = within % THREADS // 12, np.array(TURNS)[within // THREADS % len(TURNS)]
    feed.steps.extend_columns({
        "at_ns": launches[which] * EVERY_NS + within, "launch": launches[which], "block": block,
        "thread": within % 12, "turn": turn, "on": np.where(turn == ThreadState.BARRIER, block, within // THREADS),
        "site": 0 * number + 1, "l1_bytes": 0 * number + 32_768, "l2_bytes": 0 * number, "cluster": block,
    })  # fmt: skip
