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
# # 1 · A stream is a queue
#
# A device works beside your program. You hand it commands by way of a **stream**: `stream.copy(...)` does not copy, it
# puts a copy at the end of a queue and returns at once. The device takes the commands of one stream in the order in
# which you gave them, one after the other. Of two streams it takes whichever it likes: there is **no order between
# them**.
#
# What a command will have done is there when you `await` it, and not before.

# %%
import numpy as np

import atops

# %% tags=["judge"]
from atops.lessons import Lesson, Question, commands


async def program(task, rows, size):
    board = np.random.default_rng(rows).integers(0, 99, (rows, size)).astype(np.float32)
    board.setflags(write=False)
    history = await task(atops.Device(0), board)
    assert isinstance(history, (list, tuple)), f"expected a list of {rows} arrays, got {history!r}"
    assert len(history) == rows, f"expected {rows} arrays, got {len(history)}"
    for number, (got, wanted) in enumerate(zip(history, board, strict=True)):
        assert isinstance(got, np.ndarray), f"history[{number}] is {got!r}; expected an array: was it awaited?"
        assert np.array_equal(got, wanted), f"history[{number}] is {got[:3]}..., and row {number} is {wanted[:3]}..."


def work(seen, rows, size):
    written = len(commands(seen, atops.Kind.COPY_H2D, atops.Kind.COPY_D2D))
    fetched = len(commands(seen, atops.Kind.COPY_D2H))
    assert written >= rows and fetched >= rows, f"the device has written {written} and fetched {fetched} of {rows} rows"


async def two_streams():
    device = atops.Device(0)
    async with device.create_stream(name="red") as red, device.create_stream(name="blue") as blue:
        x = device.zeros(1, np.int32)
        red.fill(x, 1)
        red.fill(x, 2)
        blue.fill(x, 3)
        await red
        last = (await blue.fetch(x))[0]
        assert last == 2, f"x is {last}"


lesson = Lesson(
    "A stream is a queue",
    program,
    cases=[(2, 8), (3, 100), (1, 5), (5, 33), (4, 1000)],
    hints={
        "race": (
            "Which commands use `x`, one after the other, and in which streams are they? What puts them in order?",
            "One stream is one queue: commands that must come one after the other belong in one stream.",
            "Put the copy and the fetch of each row in the same stream, and `await` each fetch before it goes "
            "into the list.",
        )
    },
    work=work,
    question=Question("Which order of the three fills leaves 3 in x?", two_streams),
)

# %% [markdown]
# **Your task.** `board` has a few rows. Write each row into the buffer `x` on the device, fetch `x` back after each,
# and return the list of what was fetched. Whoever wrote this thought that two streams are faster than one.


# %% tags=["task"]
async def keep_history(device, board):
    async with device.create_stream(name="red") as red, device.create_stream(name="blue") as blue:
        x = red.empty(board.shape[1], np.float32)
        history = []
        for row in board:
            red.copy(x, row)
            history.append(blue.fetch(x))
        return history


# %% tags=["solution"]
async def keep_history(device, board):
    async with device.create_stream(name="red") as red:
        x = red.empty(board.shape[1], np.float32)
        history = []
        for row in board:
            red.copy(x, row)
            history.append(await red.fetch(x))
        return history


# %%
lesson.picture(keep_history)

# %%
lesson.check(keep_history)
