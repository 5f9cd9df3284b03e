"""Kernel threads in an export: a process for each launch, a track for each thread, a slice for each thing it did.

Pure functions from steps to events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from atops.base.trace.events import ThreadEvent, ThreadState
from atops.base.trace.records import Kind, TraceNames, TraceRecord
from atops.device.call_site import file_shown
from atops.trace.chrome_events import Event, micros, track

__all__ = ("thread_tracks",)

FIRST_PROCESS: Final = 100  # behind those of the host and the devices
FIRST_TRACK: Final = 1000
WORDS: Final[Mapping[ThreadState, str]] = {
    ThreadState.RUNS: "runs",
    ThreadState.BARRIER: "waits at the block barrier",
    ThreadState.GRID_BARRIER: "waits at the grid barrier",
    ThreadState.COUNTED_BARRIER: "waits at counted barrier",
    ThreadState.DTE: "waits for transfer",
    ThreadState.SIGNAL: "waits for signal",
    ThreadState.ENDED: "ended",
    ThreadState.FAILED: "failed",
}
NUMBERED: Final = frozenset({ThreadState.COUNTED_BARRIER, ThreadState.DTE, ThreadState.SIGNAL})
OVER: Final = frozenset({ThreadState.ENDED, ThreadState.FAILED})


def thread_tracks(
    steps: Iterable[ThreadEvent], records: Sequence[TraceRecord], names: TraceNames, origin: int
) -> tuple[list[Event], list[tuple[int, Event]]]:
    """Return the names of the tracks, and (time in nanoseconds, event) for all that the threads did.

    A step lasts until the thread's next one; the last one that is no end is a point.
    """
    threads: dict[tuple[int, int, int], list[ThreadEvent]] = defaultdict(list)
    for step in steps:
        threads[step.launch, step.block, step.thread].append(step)
    kernels = {record.seq: record.name for record in records if record.kind is Kind.LAUNCH}
    launches = {launch: pid for pid, launch in enumerate(sorted({key[0] for key in threads}), FIRST_PROCESS)}
    metadata: list[Event] = []
    for launch, pid in launches.items():
        label = f"threads of {kernels.get(launch, 'launch')} (command {launch})"
        metadata.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": label}})
        metadata.append({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}})
    timed: list[tuple[int, Event]] = []
    for number, ((launch, block, thread), own) in enumerate(sorted(threads.items()), FIRST_TRACK):
        place = (launches[launch], number)
        metadata += track(place, f"block {block} thread {thread}")
        for step, end in zip(own, [*(each.at_ns for each in own[1:]), own[-1].at_ns], strict=True):
            timed.append((step.at_ns, _turn(step, end, place, names, origin)))
    return metadata, timed


def _turn(step: ThreadEvent, end: int, place: tuple[int, int], names: TraceNames, origin: int) -> Event:
    arguments: dict[str, object] = {"l1_bytes": step.l1_bytes, "l2_bytes": step.l2_bytes}
    if (site := names.sites.get(step.site)) is not None:
        arguments["at"] = f"{file_shown(site.file)}:{site.line} in {site.function}"
    name = WORDS[step.turn] + (f" {step.on}" if step.turn in NUMBERED else "")
    where = {"name": name, "cat": "kernel thread", "ts": micros(step.at_ns - origin), "pid": place[0], "tid": place[1]}
    if step.turn in OVER:
        return {"ph": "i", "s": "t", **where, "args": arguments}
    return {"ph": "X", **where, "dur": micros(max(0, end - step.at_ns)), "args": arguments}
