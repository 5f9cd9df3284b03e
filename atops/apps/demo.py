"""`atops demo`: an awaitable pipeline over real data, every result checked against numpy."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from atops.apps.corpus import Chunk, chunks, files_of, standard_library
from atops.apps.demo_report import Progress, report
from atops.apps.histogram import BINS, count_bytes
from atops.apps.outcome import Outcome
from atops.base.errors import AtopsError
from atops.base.options import EmulatorOptions
from atops.base.records import Trace
from atops.runtime.device import Device
from atops.runtime.driver import Driver
from atops.runtime.pipeline import pipeline
from atops.runtime.running import run
from atops.runtime.trace_export import write_chrome

__all__ = (
    "add_arguments",
    "count",
    "demo_options",
    "inline_program",
    "main",
    "positive",
    "sequence",
    "start",
    "with_driver",
)

TRACED = 1 << 20  # records that the demo keeps
SWITCH_INTERVAL = 500e-6  # reading and kernels are both Python: at the usual 5 ms each would wait for the other


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the demo takes."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="files or folders (default: the standard library)")
    parser.add_argument("--trace", metavar="OUT.json", help="write a Chrome/Perfetto trace (.gz compresses it)")
    parser.add_argument("--records", metavar="OUT.txt", help="write the sequence of trace records, wall times aside")
    parser.add_argument("--inline", action="store_true", help="run everything in one thread, in a replayable order")
    parser.add_argument("--seed", type=int, help="of the order of an inline run (default: first come, first served)")
    parser.add_argument("--arch", choices=("gcu210", "gcu300"), help="architecture (default: ATOPS_ARCH, or gcu300)")
    parser.add_argument("--streams", type=positive, default=4, metavar="N", help="streams (default: 4)")
    parser.add_argument("--in-flight", type=positive, default=8, metavar="N", help="chunks in flight (default: 8)")
    parser.add_argument("--chunk", type=positive, default=1024, metavar="KIB", help="KiB in a chunk (default: 1024)")


def positive(text: str) -> int:
    """Return a number of at least 1. Raises ArgumentTypeError."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return number


def main(arguments: argparse.Namespace) -> int:
    """Run the demo and print its report. Returns 0, 1 for a wrong result, 2 for a bad file, 130 when interrupted."""
    console = Console()
    try:
        files = files_of(arguments.files) if arguments.files else standard_library()
        options = demo_options(arguments)
        outcome = start(arguments, options, files, console)
        if arguments.trace:
            trace = outcome.trace
            write_chrome(arguments.trace, trace.records, counters=trace.counters, names=trace.names)
        if arguments.records:
            Path(arguments.records).write_text(sequence(outcome.trace))
    except (OSError, AtopsError) as error:
        console.print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted: what was in flight was dropped, nothing is left allocated")
        return 130
    report(console, outcome)
    if arguments.trace:
        console.print(f"trace written to {arguments.trace}; ui.perfetto.dev and chrome://tracing open it")
    return 1 if outcome.mismatches else 0


def demo_options(arguments: argparse.Namespace) -> EmulatorOptions:
    """Return the emulator's options for these arguments."""
    changes: dict[str, Any] = {"trace": TRACED, "seed": arguments.seed, "switch_interval": SWITCH_INTERVAL}
    if arguments.arch:
        changes["arch"] = arguments.arch
    return EmulatorOptions.from_environment(**changes)


def start(arguments: argparse.Namespace, options: EmulatorOptions, files: list[Path], console: Console) -> Outcome:
    """Run the pipeline, threaded or inline, behind a progress bar."""
    with Progress(console, sum(path.stat().st_size for path in files)) as progress:
        if arguments.inline:
            outcome: Outcome = run(inline_program(arguments, files, progress), options)
            return outcome
        return asyncio.run(with_driver(arguments, options, files, progress))


def inline_program(arguments: argparse.Namespace, files: list[Path], progress: Progress) -> Any:
    """Return the program as a coroutine function without parameters."""

    async def program() -> Outcome:
        return await count(arguments, files, progress, False, Device(0))

    return program


async def with_driver(
    arguments: argparse.Namespace, options: EmulatorOptions, files: list[Path], progress: Progress
) -> Outcome:
    """Run the program with a driver of its own."""
    async with Driver(options) as driver:
        return await count(arguments, files, progress, True, Device(0, driver))


async def count(
    arguments: argparse.Namespace, files: list[Path], progress: Progress, threads: bool, device: Device
) -> Outcome:
    """Send every chunk through the device and compare what comes back with `numpy.bincount`."""
    outcome = Outcome(len(files))
    sent: deque[Chunk] = deque()

    async def source() -> AsyncIterator[Chunk]:
        async for chunk in chunks(files, arguments.chunk << 10, threads):
            sent.append(chunk)
            yield chunk

    began = time.perf_counter()
    results = pipeline(
        source(), count_bytes, device=device, streams=arguments.streams, in_flight=arguments.in_flight
    )
    async with results:
        async for counts in results:
            chunk = sent.popleft()
            found = counts.reshape(-1, BINS).sum(axis=0)
            if not np.array_equal(found, np.bincount(chunk, minlength=BINS)):
                outcome.mismatches.append(outcome.chunks)
            outcome.counts += found
            outcome.bytes += chunk.size
            outcome.chunks += 1
            progress.advance(chunk.size)
    outcome.seconds = time.perf_counter() - began
    outcome.trace = device.driver.tracer.snapshot()
    return outcome


def sequence(trace: Trace) -> str:
    """Return the records as lines without their times: what two runs of one program have in common."""
    lines: Sequence[str] = [
        f"{record.seq} {record.kind.name} device {record.device} stream {record.stream} {record.status.name} "
        f"{record.bytes} bytes {record.dst_device}:{record.dst_offset} <- {record.src_device}:{record.src_offset} "
        f"{record.name}"
        for record in trace.records
    ]
    return "\n".join(lines) + "\n"
