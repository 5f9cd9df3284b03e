"""How waits that cannot end are told, and what would end them, by what is waited for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from atops.device.races.race import Access, Race

__all__ = ("deadlock_of",)

METHOD: Final = re.compile(r"waits in (\w+)\.(\w+)")
# What has to be otherwise, by the end of the name of the class in which a task waits, or of the class and its method.
TASKS: Final = {
    "Lock": "take locks in one order in all tasks, and give them back in `finally`",
    "Semaphore": "release a semaphore once for each time that it was acquired, in `finally`, and wait for nothing "
    "meanwhile that another task does only once it has acquired it",
    "CapacityLimiter": "wait for nothing in a limiter's block that another task does only once it has entered it",
    "Condition": "test the condition before each wait, as `wait_for` does: what was notified before the wait is gone",
    "Event.wait": "have a task set the event that does not wait for this one, and leave it set: what was set and "
    "cleared before the wait is gone",
    "Queue.get": "put an item for each that is to be taken, also for each task that is told its end by one, and not "
    "behind a wait for the task that takes it",
    "Queue.put": "take the items elsewhere than behind this wait, or make the queue larger",
    "Channel.receive": "send an item for each that is to be received, or close the channel, elsewhere than behind a "
    "wait for the task that receives it",
    "Channel.send": "receive the items elsewhere than behind this wait, or make the channel larger",
    "Queue.join": "call `task_done` once for each item that was got from the queue, also where its work fails",
    "Barrier": "have as many tasks come to the barrier as it was made for, each time",
    "Signals": "have the host or a kernel write the signal, and enqueue that before the wait, not behind it",
    "Room": "ask once for all the places that a block needs, and wait for nothing in it that stands behind its places",
}
EACH_OTHER: Final = "have no task await one that awaits it, and set the result of each future that is awaited"
THREADS: Final = (
    "every thread has to come to the same barrier: take it out of the branch, and let no thread leave before it; a "
    "signal is written before its writer waits for another"
)
STREAMS: Final = "enqueue what is waited for before the wait, or in a stream that goes on"
SKIPPED: Final = "mend the failure: what would have ended the wait was skipped after it"
WITHIN: Final = "let a task await no stream as long as a coroutine in it waits for what that task holds, or is to set"
OVERWRITTEN: Final = "what would have ended it was stored, and overwritten before the wait began: see the lost wake-up"
# Of a kernel in a stream that waits for a signal, by what is told of it.
KERNELS: Final = {
    "cannot start": "let no block wait for one that starts when it has ended: launch no more blocks than run at once, "
    "or have only the last one wait",
    "held by kernel": "a launch that is to end the wait of another needs a cluster: enqueue it before the kernel that "
    "waits, or launch fewer blocks of that, or have the host write the signal",
    "left the kernel": "have each thread write the signal before it leaves, or wait for as many as do",
    "at signal": "have the signal written by a thread that does not wait for it itself, by the host, or by a launch "
    "in another stream",
}


def deadlock_of(sides: Sequence[Access], among: str, lost: bool = False) -> Race:
    """Return the report of waits that cannot end: the first two, and the others in words.

    They are among "streams", "threads" or "tasks". `lost`: a wake-up is reported beside them that one of them has lost.
    """
    host = Access("the host", "waits for it", False, None, "")
    first, second, *others = (*sides, host) if len(sides) == 1 else sides
    more = "".join(f"; {each}" for each in others)
    cure = OVERWRITTEN if lost else {"tasks": _of_tasks, "streams": _of_streams}.get(among, lambda _: THREADS)(sides)
    return Race("deadlock", first, second, "none of these waits can end", -1, (), f"{cure}{more}", among=among)


def _of_tasks(sides: Sequence[Access]) -> str:
    """Return the advice for tasks that stand, by what they wait in; what only ends with other tasks is left out."""
    return "; ".join(_task_cures(sides)) or EACH_OTHER


def _task_cures(sides: Sequence[Access]) -> list[str]:
    waits = [found.group(1, 2) for side in sides if (found := METHOD.match(side.what))]
    return [
        cure for end, cure in TASKS.items()
        if any(owner.endswith(end) or f"{owner}.{method}".endswith(end) for owner, method in waits)
    ]  # fmt: skip


def _of_streams(sides: Sequence[Access]) -> str:
    """Return the advice for streams that stand, and tasks that wait for them or in them."""
    tasks = _task_cures(sides)
    if any("was skipped after a failure" in side.what for side in sides):
        return "; ".join((SKIPPED, *tasks))
    if tasks and any("host callable" in side.what for side in sides):
        return WITHIN
    kernels = [side.what for side in sides if "runs kernel" in side.what or "held by kernel" in side.what]
    cure = next((cure for part, cure in KERNELS.items() if any(part in what for what in kernels)), STREAMS)
    return "; ".join((cure, *tasks))
