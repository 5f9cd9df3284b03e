"""`atops demo`: real data through an awaitable pipeline, and every result checked against numpy."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import sysconfig
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOENT
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import numpy.typing as npt
from rich.console import Console

import atops
from atops.apps.demo_report import Outcome, ProgressBar, report, sequence
from atops.apps.histogram import VALUES, count_bytes
from atops.base.errors import AtopsError, InvalidValue, UsageError
from atops.base.options import MAX_DEVICES
from atops.device.arch import ARCHITECTURES
from atops.trace.file import write

__all__ = ("Chunk", "Plan", "add_arguments", "count", "files_of", "main", "read", "size_of", "standard_library")

TRACED = 1 << 18  # records kept, seven a chunk: enough for 37,000 chunks

Aside = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to count and how: `chunk` is in bytes, `in_flight` chunks are between reader and checker of a device."""

    files: list[Path]
    chunk: int = 1 << 20
    streams: int = 4
    in_flight: int = 8


def main(arguments: argparse.Namespace) -> int:
    """Run the demo and print its report.

    Returns 0; 1 for a wrong count or a kernel that failed; 2 for what cannot be read or written; 130 when interrupted.
    """
    console = Console()
    progress = ProgressBar(Console(stderr=True))
    try:
        files = files_of(arguments.files) if arguments.files else standard_library()
        plan = Plan(files, arguments.chunk, arguments.streams, arguments.in_flight)
        options = _options(arguments)
        _check_targets(arguments)
        progress.begin(size_of(files))
        with progress:
            outcome = _run(plan, options, progress, arguments.inline)
        what = "" if arguments.files else "Python's standard library"
        report(console, outcome, what, _setting(plan, options, arguments.inline))
        _write(arguments, outcome, console)
    except KeyboardInterrupt:
        print(f"atops demo: interrupted after {progress.done:,} bytes; what was in flight is dropped", file=sys.stderr)
        return 130
    except (OSError, AtopsError) as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            raise  # the report cannot be written, or its reader has gone: the command line handles both
        print(f"atops demo: error: {_one_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, OSError | UsageError) else 1
    return 1 if outcome.mismatches else 0


def _options(arguments: argparse.Namespace) -> atops.EmulatorOptions:
    """Return the emulator's options. Raises InvalidValue for a board without devices, or a seed without --inline."""
    if arguments.seed is not None and not arguments.inline:
        raise InvalidValue("a seed chooses the order of an inline run; pass --inline --seed N")
    changes = {name: value for name in ("arch", "devices", "seed") if (value := getattr(arguments, name)) is not None}
    options = atops.EmulatorOptions.from_environment(trace=TRACED, **changes)
    if options.devices == 0:
        raise InvalidValue("the board has no device to count on; pass --devices 1 to 8, or set ATOPS_DEVICES")
    return options


def _check_targets(arguments: argparse.Namespace) -> None:
    """Raise InvalidValue where a file would be written over one that was named to be counted, or over the other."""
    trace, records = arguments.trace, arguments.records
    if trace and records and Path(trace).resolve() == Path(records).resolve():
        raise InvalidValue(f"--trace and --records must be two files, got {trace} for both")
    for option, target in ("--trace", trace), ("--records", records):
        if target and any(Path(name).resolve() == Path(target).resolve() for name in arguments.files):
            raise InvalidValue(f"{option} would overwrite {target}, which is to be counted; pass another file")


def _run(plan: Plan, options: atops.EmulatorOptions, progress: ProgressBar, inline: bool) -> Outcome:
    """Count on a board of its own: beside the event loop, or inline in this one thread."""
    if inline:

        async def program() -> Outcome:
            return await count(plan, atops.current_driver(), progress, _here)

        return atops.run(program, options)

    async def main() -> Outcome:
        async with atops.Driver(options) as driver:
            return await count(plan, driver, progress, anyio.to_thread.run_sync)

    return asyncio.run(main())


async def _here(function: Callable[..., object], *arguments: object) -> Any:
    """Call a function that blocks at once: with one thread nothing else could run meanwhile."""
    return function(*arguments)


async def count(plan: Plan, driver: atops.Driver, progress: ProgressBar, aside: Aside) -> Outcome:
    """Send all chunks through the devices of a board, which take turns, and check what comes back.

    `aside(function, *arguments)` runs a function that blocks, such as reading, beside the event loop.
    """
    outcome, chunks, turn = Outcome(len(plan.files)), enumerate(read(plan.files, plan.chunk)), anyio.Lock()

    async def through(device: atops.Device) -> None:
        sent: deque[tuple[int, Chunk]] = deque()

        async def source() -> AsyncIterator[Chunk]:
            while True:
                async with turn:  # one reader at a time
                    taken = await aside(next, chunks, None)
                if taken is None:
                    return
                sent.append(taken)
                yield taken[1]

        async with atops.pipeline(
            source(), count_bytes, device=device, streams=plan.streams, in_flight=plan.in_flight
        ) as results:
            async for rows in results:
                number, chunk = sent.popleft()
                expected = await aside(_expected, chunk)
                outcome.add(number, chunk.size, rows.sum(axis=0), expected)
                progress.advance(chunk.size)

    began = time.perf_counter()
    try:
        async with anyio.create_task_group() as group:
            for ordinal in range(driver.devices):
                group.start_soon(through, atops.Device(ordinal, driver))
    except ExceptionGroup as failures:
        raise _first(failures) from None
    outcome.seconds = time.perf_counter() - began
    outcome.trace = driver.tracer.snapshot()
    return outcome


def _expected(chunk: Chunk) -> Any:
    return np.bincount(chunk, minlength=VALUES)


def _first(error: Exception) -> Exception:
    """Return the first failure of a group: one device's failure ends the others' work too."""
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


def _setting(plan: Plan, options: atops.EmulatorOptions, inline: bool) -> str:
    """Say what it ran on, and how."""
    board = options.arch if options.devices == 1 else f"{options.devices} x {options.arch}, each"
    how = f"{board} with {plan.streams} stream{'s' * (plan.streams != 1)} and up to {plan.in_flight} chunks in flight"
    if not inline:
        return how
    return f"{how}, inline" + ("" if options.seed is None else f" with seed {options.seed}")


def _write(arguments: argparse.Namespace, outcome: Outcome, console: Console) -> None:
    """Write the files that were asked for. Raises OSError."""
    trace, say = outcome.trace, partial(console.print, markup=False, highlight=False, soft_wrap=True)
    if arguments.trace:
        with _naming(arguments.trace):
            write(arguments.trace, trace)
        say(f"trace: {arguments.trace} (ui.perfetto.dev opens .json, `python -m atops trace` shows it)")
    if arguments.records:
        with _naming(arguments.records):
            Path(arguments.records).write_text(sequence(trace.records), encoding="utf-8")
        say(f"records: {arguments.records}")


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Name the file in what the system raises: it does so only where a file cannot be opened."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise


def _one_line(error: Exception) -> str:
    """Return what to tell of an error: for one of the system what and where, without its number.

    A path may hold anything: what would break the line or steer the terminal is shown as a question mark.
    """
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return "".join(letter if letter.isprintable() else "?" for letter in text)


# ---- the command line

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}
MOST = 1 << 30  # bytes of a chunk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the demo takes."""
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="files and folders (default: Python's standard library)")
    add("--trace", metavar="OUT.json", type=_target, help="write the trace, .json or .html (.gz: compressed)")
    add("--records", metavar="OUT.txt", type=_target, help="write the trace's records in order, without their times")
    add("--inline", action="store_true", help="run everything in one thread, in an order that can be replayed")
    add("--seed", type=int, metavar="N", help="choose the order of an inline run (default: first come, first served)")
    add("--arch", choices=ARCHITECTURES, help="architecture (default: ATOPS_ARCH, or gcu300)")
    add("--devices", type=_positive, metavar="N", help=f"1 to {MAX_DEVICES} devices (default: ATOPS_DEVICES, or 1)")
    add("--streams", type=_positive, default=4, metavar="N", help="streams of each device (default: 4)")
    add("--in-flight", type=_positive, default=8, metavar="N", help="chunks in flight on each device (default: 8)")
    add("--chunk", type=_size, default=1 << 20, metavar="SIZE", help="bytes of a chunk: 65536, 64K, 4M (default: 1M)")


def _positive(text: str) -> int:
    """Return a number of at least 1. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def _size(text: str) -> int:
    """Return a size in bytes. Raises ArgumentTypeError."""
    digits = text.rstrip("kKmM")
    unit = UNITS.get(text[len(digits) :].upper())
    if unit is None or not (digits.isascii() and digits.isdigit() and 0 < int(digits) * unit <= MOST):
        most = f"{MOST // UNITS['M']}M"
        raise argparse.ArgumentTypeError(f"expected 1 to {most}, such as 65536, 64K or 4M, got {text!r}")
    return int(digits) * unit


def _target(text: str) -> str:
    """Return a path to write to. Raises ArgumentTypeError, before anything is counted, where no file can be."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, got {text!r}")
    return text


# ---- what it reads

Chunk = npt.NDArray[np.uint8]

INSTALLED = frozenset(("site-packages", "dist-packages"))  # folders of what does not come with Python


def standard_library() -> list[Path]:
    """Return every Python source file of the running Python's standard library, always in the same order."""
    root = Path(sysconfig.get_path("stdlib"))
    return [path for path in _below(root, INSTALLED) if path.suffix == ".py"]


def files_of(paths: Sequence[str]) -> list[Path]:
    """Return the files that are named and those in folders that are named, each folder's always in the same order.

    Raises OSError for a path that is not there, that is neither a file nor a folder, or whose folder cannot be read.
    """
    found: list[Path] = []
    for name in paths:
        path = Path(name)
        if not name:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), name)  # a Path of nothing would be the folder here
        if path.is_dir():
            found += _below(path)
        elif path.is_file():
            found.append(path)
        else:
            if name == "-":
                raise OSError("-: the standard input is not read; pass files and folders")
            path.stat()  # raises where there is nothing
            raise OSError(f"{path} is neither a file nor a folder")
    return found


def size_of(files: Sequence[Path]) -> int:
    """Return the bytes of all files together. Raises OSError."""
    return sum(path.stat().st_size for path in files)


def read(files: Sequence[Path], size: int) -> Iterator[Chunk]:
    """Yield the bytes of all files, one after another, in new arrays of `size` bytes; the last may be shorter.

    It blocks while it reads. Raises OSError, naming the file, for one that cannot be read.
    """
    chunk, filled = np.empty(size, np.uint8), 0
    for path in files:
        with path.open("rb", buffering=0) as file:
            while got := _fill(chunk.data[filled:], file):
                filled += got
                if filled == size:
                    yield chunk
                    chunk, filled = np.empty(size, np.uint8), 0
    if filled:
        yield chunk[:filled]


def _fill(room: memoryview, file: FileIO) -> int:
    """Read what there is, and no more than there is room. Raises OSError naming the file, 0 is its end."""
    try:
        return file.readinto(room) or 0
    except OSError as error:
        error.filename = file.name  # the system names it only where it cannot be opened
        raise


def _below(folder: Path, without: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield every regular file below a folder, but those in folders called as in `without`. Links are not followed."""
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(set(folders) - without)
        yield from (path for name in sorted(names) if (path := Path(place, name)).is_file())


def _refuse(error: OSError) -> None:
    """Raise what kept a folder from being listed; os.walk alone would leave the folder out."""
    raise error
