"""Thousands of schedules of each program that is right, under the detectors: none of them may say anything.

`python -m tests.races.soak [NAME ...] [--schedules N] [--processes N] [--into FILE]`. Each part that is done has its
line in the file, and a part with a line there is not done again: a soak that was ended goes on where it stood.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import atops
from atops.base.choice import Random
from tests.races.certificate import Judge, quiet, quietly
from tests.races.programs import PROGRAMS
from tests.races.seeded import OPTIONS, PAIRS, on_a_device
from tests.runtime.races.right_programs import RIGHT, THREADED

__all__ = ("RUNS", "Part", "checked", "done", "main")

PART = 200  # schedules that a line of the file stands for, at most

Runs = Callable[[int, int], str]  # so many schedules, from a seed on: what was said, "" for nothing


def checked(program: Callable[[], Any], schedules: int, seed: int) -> str:
    """Run a program under so many schedules, and return what is said of it, "" for nothing."""
    with warnings.catch_warnings(), quietly():
        warnings.simplefilter("ignore")
        report = atops.check(program, schedules, options=OPTIONS, seed=seed, replays=0)
    return "" if report else str(report)


def _ordered(name: str, schedules: int, seed: int) -> str:
    report = quiet(PROGRAMS[name], schedules, seed)
    return "" if report else str(report)


@cache
def _judge(name: str) -> Judge:
    return Judge(PROGRAMS[name])


def _unordered(name: str, schedules: int, seed: int) -> str:
    """A program whose figures depend on the order may end as it likes, but with no race that it does not show."""
    judge, program = _judge(name), PROGRAMS[name]
    for each in range(seed, seed + schedules):
        _, races, _ = judge.run(ast.parse(program.text), program.options, Random(each))
        if new := [race for race in races if race.key not in judge.known]:
            return f"seed {each}: {new[0]}"
    return ""


def _runs() -> Iterator[tuple[str, Runs]]:
    for name, pair in PAIRS.items():
        yield name, partial(checked, pair.right)
    for name, right in RIGHT.items():
        if name not in THREADED:
            yield f"right/{name}", partial(checked, on_a_device(right))
    for name, each in PROGRAMS.items():
        yield f"program/{name}", partial(_ordered if each.ordered else _unordered, name)


RUNS: dict[str, Runs] = dict(_runs())


class Part(NamedTuple):
    """Some schedules of one program."""

    name: str
    seed: int
    schedules: int

    def run(self) -> dict[str, object]:
        """Run them. Returns the line of the file."""
        began = time.perf_counter()
        said = RUNS[self.name](self.schedules, self.seed)
        return {**self._asdict(), "said": said, "seconds": round(time.perf_counter() - began, 2)}


def done(into: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the lines of a file, by program and first seed. A last line that was cut counts for nothing."""
    found = {}
    for line in into.read_text().splitlines() if into.exists() else ():
        try:
            part = json.loads(line)
        except ValueError:
            continue
        found[part["name"], part["seed"]] = part
    return found


def main() -> int:
    """Run what is left. Returns how many programs said something."""
    parser = argparse.ArgumentParser(prog="python -m tests.races.soak", description=__doc__)
    parser.add_argument("names", nargs="*", help="how the names begin, such as twin/ or program/p0")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--into", type=Path, default=Path("out/soak_of_schedules.jsonl"))
    arguments = parser.parse_args()
    wanted = tuple(arguments.names) or ("",)
    names = [name for name in RUNS if name.startswith(wanted)]
    parts = [
        Part(name, seed, min(PART, arguments.schedules - seed))
        for seed in range(0, arguments.schedules, PART) for name in names  # some of each, then more of each
    ]  # fmt: skip
    lines = done(arguments.into)
    arguments.into.parent.mkdir(parents=True, exist_ok=True)
    with (
        arguments.into.open("a") as file,
        ProcessPoolExecutor(arguments.processes, multiprocessing.get_context("spawn")) as pool,
    ):
        left = [pool.submit(part.run) for part in parts if (part.name, part.seed) not in lines]
        for future in as_completed(left):
            line = future.result()
            file.write(json.dumps(line) + "\n")
            file.flush()
            if line["said"]:
                print(f"{line['name']}, from seed {line['seed']}:\n{line['said']}", flush=True)
    lines, runs = done(arguments.into), Counter[str]()
    for (name, _), line in lines.items():
        runs[name] += 0 if line["said"] else line["schedules"]
    loud = sorted({name for (name, _), line in lines.items() if line["said"]})
    print(f"{len(runs)} programs, {runs.total():,} schedules without a word, {min(runs.values())} of each at least")
    for name in loud:
        print(f"not silent: {name}")
    return len(loud)


if __name__ == "__main__":
    sys.exit(main())
