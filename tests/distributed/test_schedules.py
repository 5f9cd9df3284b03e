"""Checks on a cluster: the report is that of one process, to the letter."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidType, InvalidValue, NotSupported
from atops.base.options import EmulatorOptions
from atops.checking.search import Progress
from tests.every import every

distributed = pytest.importorskip("distributed", exc_type=ImportError)
pytestmark = pytest.mark.slow
ORDER = (3, 2, 3, 1, 2, 0, 3, 1)


async def rare(length: int) -> list[int]:
    """Fail under few orders, the fewer the longer `length` is."""
    order = []

    async def task(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(task(number))
    assert tuple(order[:length]) != ORDER[:length], order
    return order


@k.kernel
async def lose(x: k.Span[np.int32]):
    """Add to a number without any order."""
    seen = x[0]
    x[0] = seen + 1


async def lost_update() -> None:
    """Find that an update was lost."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.zeros(1, np.int32)
        stream.launch(lose, (1, 2), x)
        assert (await stream.fetch(x))[0] == 2


async def always() -> None:
    """Fail under every schedule."""
    raise ValueError("always")


async def single() -> int:
    """Have nothing that could come in another order."""
    return 5


async def never_again() -> None:
    """Be another program each time."""
    for _ in range(random.randrange(1, 1000)):
        await asyncio.sleep(0)


@every("program, schedules, how", [
    (rare, 400, {"arguments": (3,)}),
    (rare, 1000, {"arguments": (5,)}),
    (rare, 700, {"arguments": (8,)}),
    (rare, 300, {"arguments": (4,), "seed": 70}),
    (rare, 200, {"arguments": (8,), "same_result": True}),
    (rare, 1, {"arguments": (3,)}),
    (rare, 200, {"arguments": (3,), "replays": 0}),
    (rare, 100, {"arguments": (8,), "options": EmulatorOptions(strict=True)}),
    (lost_update, 50, {"options": EmulatorOptions(detect=True)}),
    (always, 50, {}),
    (single, 50, {}),
])  # fmt: skip
def test_the_report_is_that_of_one_process(client: Any, program: Any, schedules: int, how: dict[str, Any]) -> None:
    """Verdict, runs, schedule and picture."""
    _compare(client, program, schedules, how)


@pytest.mark.soak
@every("schedules, length", [(6000, 5), (3000, 8)])
def test_the_report_of_many_schedules_is_that_of_one_process(client: Any, schedules: int, length: int) -> None:
    """With a failure that only the 5309th finds, and with none."""
    _compare(client, rare, schedules, {"arguments": (length,)})


def _compare(client: Any, program: Any, schedules: int, how: dict[str, Any]) -> None:
    here = atops.check(program, schedules, **how)
    there = atops.check(program, schedules, client=client, **how)
    assert str(there) == str(here)
    assert (there.schedule, there.runs, there.found.choices) == (here.schedule, here.runs, here.found.choices)
    assert (there.found.names, there.found.passing) == (here.found.names, here.found.passing)


def test_an_asynchronous_client_serves_a_check_in_its_loop(cluster: Any) -> None:
    """`await atops.check.aio(...)`, beside other work of the loop."""

    async def main() -> None:
        async with distributed.Client(cluster.scheduler_address, asynchronous=True, set_as_default=False) as client:
            report = await atops.check.aio(rare, 400, arguments=(3,), client=client)
            with pytest.raises(RuntimeError, match=r"await atops\.check\.aio"):
                atops.check(rare, 400, arguments=(3,), client=client)
        assert str(report) == str(await atops.check.aio(rare, 400, arguments=(3,)))

    asyncio.run(main())


def test_a_check_is_stopped_on_all_workers(client: Any) -> None:
    """By its progress, which tells how far it is."""

    class Stopping(Progress):
        """Stops once a thousand were run."""

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "runs" and self.runs > 1000:
                self.stopped = True

    progress = Stopping()
    report = atops.check(rare, 100_000_000, arguments=(8,), client=client, progress=progress)
    assert report.verdict == "inconclusive" and report.why == "it was stopped" and 1000 < report.runs < 100_000


async def here_only(pid: int) -> None:
    """Fail in other processes, after the plain schedule."""
    if os.getpid() != pid:
        raise OSError("elsewhere")


def test_what_ends_differently_there_is_inconclusive(client: Any) -> None:
    """It says on which worker."""
    report = atops.check(here_only, 50, arguments=(os.getpid(),), client=client)
    assert report.verdict == "inconclusive"
    assert report.why.startswith("seed 0 ended differently on worker tcp://"), report.why


@every("how, error, said", [
    ({"strategy": "pct"}, InvalidValue, "strategy is 'pct'; with a client only 'random' is"),
    ({"strategy": "dpor"}, InvalidValue, "strategy is 'dpor'; with a client only 'random' is"),
    ({"client": 5}, InvalidType, "the client is 5; expected a distributed.Client"),
    ({"arguments": ((each for each in "ab"),)}, InvalidType,
     "the check of rare cannot be sent to a worker: its arguments cannot be pickled: cannot pickle 'generator'"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(client: Any, how: dict[str, Any], error: Any, said: str) -> None:
    """Before anything runs."""
    with pytest.raises(error, match=said):
        atops.check(rare, 50, **{"client": client, "arguments": (3,), **how})


def test_workers_with_other_versions_are_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything runs there."""
    monkeypatch.setattr(atops, "__version__", "99.0")
    with pytest.raises(NotSupported, match=r"worker tcp://.* has atops .*, the client atops 99\.0"):
        atops.check(rare, 50, arguments=(8,), client=client)
