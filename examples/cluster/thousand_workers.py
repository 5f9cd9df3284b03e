"""A plan on paper for a thousand workers: what the scheduler of a cluster sees, and where it bends.

A simulation in virtual time, with Dask's parts as queues: a scheduler, which takes SCHEDULER seconds of its one
thread for a task and moves the chunks that travel with tasks at COPIES bytes a second; and workers, each of which
works on one task after another. It prints what part of the time the workers are busy, and how many tasks a second
the scheduler sees. SCHEDULER and COPIES were measured on one machine, with the client in the same process (a thousand
empty tasks; `make bench ARGS="--only cluster"`). Put in your own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import atops

SCHEDULER = 1.0e-3  # seconds of the scheduler's one thread for a small task
COPIES = 1.0e9  # bytes a second that pass through the scheduler, both ways together


@dataclass(frozen=True)
class Plan:
    """Work for a cluster: `seconds` and `size` (bytes there and back) of a task, `ahead` tasks a worker in flight."""

    name: str
    seconds: float
    size: int
    ahead: int = 2


PLANS = [
    Plan("chunks of 4 MiB, 10 ms of kernels", 0.010, 8 << 20),
    Plan("chunks of 4 MiB, 100 ms of kernels", 0.100, 8 << 20),
    Plan("names of files, 100 ms of kernels", 0.100, 200),
    Plan("names of files, 1 s of kernels", 1.0, 200),
    Plan("batches of schedules, 0.5 s", 0.5, 2_000),
    Plan("batches of schedules, 5 s", 5.0, 2_000),
]


async def busy(plan: Plan, workers: int, tasks_each: int = 8) -> float:
    """Return the part of the time that workers are busy."""
    loop = asyncio.get_running_loop()
    at_scheduler = asyncio.Lock()
    cost = SCHEDULER + plan.size / COPIES
    left = workers * tasks_each

    async def worker() -> None:
        nonlocal left
        places = asyncio.Semaphore(plan.ahead)
        working = asyncio.Lock()

        async def task() -> None:
            async with at_scheduler:
                await asyncio.sleep(cost)
            async with working:
                await asyncio.sleep(plan.seconds)
            places.release()

        async with asyncio.TaskGroup() as group:
            while left:
                await places.acquire()
                if left:
                    left -= 1
                    group.create_task(task())

    begun = loop.time()
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())
    return workers * tasks_each * plan.seconds / ((loop.time() - begun) * workers)


def table(sizes: tuple[int, ...] = (2, 10, 100, 1000)) -> list[tuple[str, list[float]]]:
    """Return, for each plan, how busy so many workers are, in virtual time."""
    virtual = atops.EmulatorOptions(clock="virtual")
    return [(plan.name, [atops.run(busy, virtual, plan, size) for size in sizes]) for plan in PLANS]


def main() -> None:
    """Print the table: of so many workers, the part that is busy, and the tasks a second."""
    sizes = (2, 10, 100, 1000)
    print(f"{'workers busy, tasks a second, of':36}" + "".join(f"{size:>14,}" for size in sizes))
    for plan, (name, parts) in zip(PLANS, table(sizes), strict=True):
        cells = [f"{part:.0%}, {part * size / plan.seconds:.3g}" for size, part in zip(sizes, parts, strict=True)]
        print(f"{name:36}" + "".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    main()
