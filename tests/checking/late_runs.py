"""Prints for each program whether the last of many runs of one check is the run that a fresh process has by its seed.

A run is what it returns or how it fails, its schedule, and its trace. `python -m tests.checking.late_runs [RUNS]`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import atops
from atops.base.choice import Random
from atops.base.errors import AtopsError
from atops.checking.runner import Runner
from tests.checking.random_programs import Drawn
from tests.checking.seeded_bugs import BUGS

NAMES = (
    "update_over_an_await", "last_item_taken_twice", "full_stream_and_who_opens_it", "stores_of_two_streams",
    "event_recorded_too_early", "value_written_before_the_data", "coroutine_of_another_stream", "missing_barrier",
    "update_lost_between_threads", "update_lost_between_blocks", "source_overwritten_in_flight", "broken_lock",
)  # fmt: skip
DRAWN = range(8)  # random programs of streams, kernels and tasks
SERIAL = re.compile(r"#\d+|0x[0-9a-f]+")  # what numbers objects of a process, and addresses

Program = Callable[[], Any]


def programs() -> dict[str, Program]:
    """Return the programs, by name."""
    wrong: dict[str, Program] = {name: BUGS[name].wrong for name in NAMES}
    return wrong | {f"drawn {seed}": Drawn(seed, 4).run for seed in DRAWN}


class Noted:
    """A program that notes the driver of its run."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.driver: atops.Driver

    async def __call__(self) -> Any:
        """Run it."""
        self.driver = atops.current_driver()
        return await self.program()

    def digest(self, came_to: object, schedule: str) -> str:
        """Return what stands for the run."""
        records = [repr(record) for record in self.driver.tracer.records()]
        choices = schedule.split(".")[2:-1]  # without the checksum of the program, which is not this object
        text = repr((SERIAL.sub("", repr(came_to)), choices, records))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def late(program: Program, options: atops.EmulatorOptions, seed: int) -> str:
    """Return the digest of the run of a seed that comes behind those of all seeds before it."""
    noted = Noted(program)

    async def main() -> Any:
        return await noted()

    with Runner(main, (), options, options.steps) as runner:
        for each in range(seed + 1):
            ended = runner(Random(each))
        error = ended.failure and ended.failure.error
        return noted.digest(ended.result if error is None else error, runner.string())


def fresh(program: Program, options: atops.EmulatorOptions, seed: int) -> str:
    """Return the digest of the same run in a process that has run nothing before."""
    source, sink = os.pipe()
    if not os.fork():
        noted = Noted(program)

        async def main() -> Any:
            return await noted()

        came_to: object
        try:
            came_to = atops.run(main, replace(options, schedule="random", seed=seed, clock="virtual"))
        except (AssertionError, IndexError, AtopsError) as error:
            came_to = error
        os.write(sink, noted.digest(came_to, noted.driver.schedule or "").encode())
        os._exit(0)
    os.close(sink)
    os.wait()
    with os.fdopen(source) as pipe:
        return pipe.read()


def main(runs: int) -> None:
    """Print a line for each program that has another run, and how many have the same."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    both = [atops.EmulatorOptions(detect=detect) for detect in (False, True)]
    plan = [(*each, both[at % 2]) for at, each in enumerate(programs().items())]
    expected = [fresh(program, options, runs - 1) for _, program, options in plan]  # before this process runs anything
    same = 0
    for (name, program, options), first in zip(plan, expected, strict=True):
        if late(program, options, runs - 1) == first != "":
            same += 1
        else:
            print(name)
    print(f"{same} the same")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
