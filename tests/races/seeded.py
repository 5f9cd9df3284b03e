"""The seeded bugs and their twins, and the table of what it takes to find each.

`python -m tests.races.seeded [NAME ...] [--schedules N] [--twins N]` checks each with the detectors, and those that
fail without them so, too: how it fails, in which run, how many choices have to be forced for it, and by how many
replays that was found. The twin has to be silent.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import atops
from tests.checking import seeded_bugs
from tests.races import kernel_bugs
from tests.races.certificate import quietly
from tests.runtime.races import test_seeded_bugs

__all__ = ("OPTIONS", "PAIRS", "Pair", "Row", "on_a_device", "rows")

OPTIONS = atops.EmulatorOptions(detect=True, devices=2)
FEW = 10  # forced choices

Program = Callable[[], Any]


class Pair(NamedTuple):
    """A program with a bug, and its twin. `plain`: whether it fails without the detectors, too."""

    wrong: Program
    right: Program
    plain: bool = False


def on_a_device(program: Callable[..., Any], *arguments: object) -> Program:
    """Return a program that runs `program(device, *arguments)`."""

    async def main() -> None:
        await program(atops.Device(0), *arguments)

    return main


def _launched(bug: kernel_bugs.Bug, right: int) -> Program:
    config = (*bug.config, 64) if bug.name == "dynamic" else bug.config

    async def main() -> None:
        async with atops.Device(0).create_stream() as stream:
            out = stream.upload(np.zeros(bug.size, np.int32))
            await stream.launch(bug.kernel, config, out, right)

    return main


def _pairs() -> Iterator[tuple[str, Pair]]:
    for name, bug in seeded_bugs.BUGS.items():
        yield f"twin/{name}", Pair(bug.wrong, bug.right, plain=True)
    for name, kernel in kernel_bugs.BUGS.items():
        yield f"kernel/{name}", Pair(_launched(kernel, 0), _launched(kernel, 1))
    for name, program in test_seeded_bugs.PROGRAMS.items():
        yield f"stream/{name}", Pair(on_a_device(program, False), on_a_device(program, True))


PAIRS: dict[str, Pair] = dict(_pairs())


class Row(NamedTuple):
    """What a check says of a bug, and of its twin."""

    name: str
    detect: bool
    failure: str  # "" where it was not found
    runs: int
    forced: int
    replays: int
    twin: str  # "" where it is silent

    def __str__(self) -> str:
        mode = "detectors" if self.detect else "schedules"
        found = f"run {self.runs:3}  {self.forced:2} forced  {self.replays:3} replays" if self.failure else "NOT FOUND"
        return f"{self.name:52} {mode}  {self.failure:18} {found}" + (f"  THE TWIN: {self.twin}" if self.twin else "")


def rows(names: tuple[str, ...], schedules: int, twins: int) -> Iterator[Row]:
    """Check the bugs whose names begin so."""
    for name, pair in PAIRS.items():
        if name.startswith(names):
            yield _row(name, pair, True, schedules, twins)
            if pair.plain:
                yield _row(name, pair, False, schedules, twins)


def _row(name: str, pair: Pair, detect: bool, schedules: int, twins: int) -> Row:
    options = atops.EmulatorOptions(detect=detect, devices=2)
    with warnings.catch_warnings(), quietly():
        warnings.simplefilter("ignore")
        wrong = atops.check(pair.wrong, schedules, options=options)
        right = atops.check(pair.right, twins, options=options, replays=0)
    failure = "" if wrong.failure is None else wrong.failure.kind
    return Row(name, detect, failure, wrong.runs, len(wrong.forced), wrong.replays, "" if right else str(right))


def main() -> int:
    """Print the table. Returns how many bugs were missed, and how many twins were not silent."""
    parser = argparse.ArgumentParser(prog="python -m tests.races.seeded", description=__doc__)
    parser.add_argument("names", nargs="*", help="how the names begin, such as twin/ or kernel/")
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--twins", type=int, default=20, help="schedules of each twin")
    arguments = parser.parse_args()
    found = []
    for row in rows(tuple(arguments.names) or ("",), arguments.schedules, arguments.twins):
        found.append(row)
        print(row, flush=True)
    if not found:
        parser.error(f"no pair's name begins with {' or '.join(arguments.names)}")
    missed, loud = sum(not row.failure for row in found), sum(bool(row.twin) for row in found)
    races = [row.runs for row in found if row.failure == "race"]
    others = [row.runs for row in found if row.failure not in ("race", "")]
    few, replays = sum(row.forced <= FEW for row in found if row.failure), max(row.replays for row in found)
    print(f"{len({row.name for row in found})} bugs, {missed} missed, {loud} twins not silent")
    print(f"named by the detectors: {len(races)}, {sum(runs == 1 for runs in races)} of them in the first run")
    if others:
        print(f"by what they do: {len(others)}; schedules: median {statistics.median(others):g}, at most {max(others)}")
    print(f"{FEW} forced choices or fewer: {few} of {len(found) - missed}; replays: {replays} at most")
    return missed + loud


if __name__ == "__main__":
    sys.exit(main())
