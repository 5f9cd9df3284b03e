# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 8 · Deadlock
#
# Your own tasks run at the same time, too: while one of them awaits the device, another one goes on. Where several
# steps belong together, a lock keeps others out. With two locks there is a trap: one task holds the first and waits for
# the second, another holds the second and waits for the first. Most of the time they miss each other. You are the
# scheduler: make them meet.

# %%
import asyncio

import numpy as np

import atops

# %% tags=["judge"]
from atops.lessons import Lesson, Question


class Account:
    """A number on the device, a stream to reach it by, and a lock for what belongs together."""

    def __init__(self, number, stream, amount, seconds):
        self.number, self.stream, self.lock, self.seconds = number, stream, asyncio.Lock(), seconds
        self.cell = stream.upload(np.array([amount], np.int32))

    async def read(self):
        await self.answer()
        return int((await self.stream.fetch(self.cell))[0])

    async def write(self, amount):
        await self.answer()
        self.stream.fill(self.cell, amount)
        await self.stream

    async def answer(self):
        """Take the bank's time."""
        if self.seconds:
            await asyncio.sleep(self.seconds)


async def program(task, accounts, transfers, seconds):
    device, rng = atops.Device(0), np.random.default_rng(transfers)
    async with device.create_stream(name="bank") as stream:
        bank = [Account(number, stream, 100, seconds) for number in range(accounts)]
        wanted = [100] * accounts
        pairs = [(0, 1), (1, 0)] + [tuple(rng.permutation(accounts)[:2].tolist()) for _ in range(transfers - 2)]
        async with asyncio.TaskGroup() as group:
            for amount, (source, target) in enumerate(pairs, 1):
                group.create_task(task(bank[source], bank[target], amount), name=f"transfer {amount}")
                wanted[source] -= amount
                wanted[target] += amount
        got = [await account.read() for account in bank]
    lost = "where another transfer comes between a read and the write that belongs to it, an amount is lost"
    moved = got != [100] * accounts or wanted == got
    assert moved, f"the accounts hold what they held before, and should hold {wanted}: nothing was written"
    assert got == wanted, f"the accounts hold {got}, and should hold {wanted}; {lost}"


async def two_locks():
    left, right = asyncio.Lock(), asyncio.Lock()

    async def both(first, second, late=0):
        for _ in range(late):
            await asyncio.sleep(0)
        async with first:
            await asyncio.sleep(0)
            async with second:
                pass

    async with asyncio.TaskGroup() as group:
        group.create_task(both(left, right), name="left first")
        group.create_task(both(right, left, late=3), name="right first")


lesson = Lesson(
    "Deadlock",
    program,
    cases=[(2, 2, 0), (3, 3, 0), (2, 4, 86_400), (4, 4, 0), (3, 5, 0)],
    hints={
        "deadlock": (
            "Where a task waits for its second lock: which lock does it hold there, and who holds the other one?",
            "If every task takes the locks in one and the same order, the one that has the first lock finds the "
            "second free, or its holder goes on.",
            "Take the lock of the account with the smaller `number` first, whichever of the two is the source.",
        )
    },
    question=Question("Two tasks, two locks. In which order does neither of them end?", two_locks, kind="deadlock"),
)

# %% [markdown]
# **Your task.** `transfer` moves an amount from one account to another. Nothing may be lost when many run at once, and
# all of them have to end.


# %% tags=["task"]
async def transfer(source, target, amount):
    async with source.lock:
        held = await source.read()
        async with target.lock:
            await source.write(held - amount)
            await target.write(await target.read() + amount)


# %% tags=["solution"]
async def transfer(source, target, amount):
    first, second = sorted((source, target), key=lambda account: account.number)
    async with first.lock, second.lock:
        await source.write(await source.read() - amount)
        await target.write(await target.read() + amount)


# %%
lesson.picture(transfer)

# %%
lesson.check(transfer)
