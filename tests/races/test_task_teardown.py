"""How tasks end that a deadlock leaves: those that wait for each other, and those that wait again when cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

import atops
from atops.base.errors import WouldDeadlock

Program = Callable[[], Coroutine[Any, Any, None]]


async def await_each_other() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def wait_for(other: int) -> None:
        await asyncio.sleep(0)
        await tasks[other]

    tasks += [asyncio.create_task(wait_for(1)), asyncio.create_task(wait_for(0))]
    await tasks[0]


async def gather_its_waiter() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def wait_for_all() -> None:
        await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    tasks += [asyncio.create_task(wait_for_all()), asyncio.create_task(wait_for_all())]
    await asyncio.gather(*tasks)


async def child_awaits_its_group() -> None:
    parent = asyncio.current_task()
    assert parent is not None

    async def child() -> None:
        await asyncio.sleep(0)
        await parent

    async with asyncio.TaskGroup() as group:
        group.create_task(child())


async def crossed(take: Callable[[asyncio.Lock], Coroutine[Any, Any, None]]) -> None:
    one, two = asyncio.Lock(), asyncio.Lock()

    async def hold(first: asyncio.Lock, second: asyncio.Lock) -> None:
        async with first:
            await asyncio.sleep(0)
            await take(second)

    await asyncio.gather(hold(one, two), hold(two, one))


async def wait_in_finally() -> None:
    async def take(lock: asyncio.Lock) -> None:
        try:
            await lock.acquire()
        finally:
            await lock.acquire()  # again

    await crossed(take)


async def wait_for_ever() -> None:
    async def take(lock: asyncio.Lock) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await lock.acquire()  # again

    await crossed(take)


async def spin_for_ever() -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # again


NAMED = {wait_in_finally: "were cancelled again", wait_for_ever: "were abandoned", spin_for_ever: "were abandoned"}
PROGRAMS: list[Program] = [await_each_other, gather_its_waiter, child_awaits_its_group, *NAMED]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("schedule", [None, "plain"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_task_of_a_deadlock_ends(
    program: Program, schedule: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    """The run ends with its report, and says which tasks did not take their cancellation; nothing else is logged."""
    monkeypatch.setattr("threading.active_count", lambda: 1)  # those that the tests' runner may have are not the run's
    monkeypatch.setattr("atops.runtime.executors.inline.MOST_TURNS", 2000)
    monkeypatch.setattr("atops.runtime.schedules.choosing.MORE_STEPS", 2000)
    with pytest.raises(WouldDeadlock, match=r"waits at test_task_teardown\.py") as raised:
        atops.run(program, atops.EmulatorOptions(detect=True, schedule=schedule))
    [race] = atops.report().races
    assert race.kind == "deadlock" and race.first.site is not None
    notes = [note for note in getattr(raised.value, "__notes__", ()) if "test_task_teardown.py" in note]
    assert [NAMED[program] in note for note in notes] == ([True] if program in NAMED else [])
    assert {record.name for record in caplog.records} <= {"atops.races", "atops.stall"}


@pytest.mark.parametrize("program", PROGRAMS)
def test_check_finds_the_deadlock(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not held up by what the tasks do then."""
    monkeypatch.setattr("atops.runtime.schedules.choosing.MORE_STEPS", 2000)
    failure = atops.check(program, 2).failure
    assert failure is not None and failure.kind == "deadlock"


def test_a_task_that_is_left_by_the_program_ends() -> None:
    """One that waits again when it is cancelled, in a run that found no deadlock before."""
    async def program() -> None:
        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.Event().wait()  # again

        left.append(asyncio.create_task(wait()))
        await asyncio.sleep(0)

    left = list[asyncio.Task[None]]()

    failure = atops.check(program, 2).failure
    assert failure is not None and failure.kind == "deadlock" and "were cancelled again" in failure.text
