"""Find a race, replay it, shrink it, mend it, prove it: one program under many schedules by `atops.check`.

Look at: each of two threads fetches a number by DTE, adds one and stores it back, and nothing orders the two. The
result is right, by luck, and the detectors name the race all the same, with both lines and the barrier that is missing.
The check finds an order in which an update is lost, makes it as small as it can, and gives it as a string that loses it
again. Of the mended program every schedule that differs is run, which is a proof.
"""

from __future__ import annotations

import logging

import numpy as np

import atops
from atops import kernels as k


@k.kernel
async def add_one_each(x: k.Span, mended: bool) -> None:
    """Have each of two threads add one to x; in turn, if `mended`."""
    ctx, mine = k.tops_dte_ctx_t(), k.local(1, np.int32)
    with k.dte_scope(ctx):
        for turn in range(2):
            if k.threadIdx.x == turn:
                await k.memcpy_async(ctx, mine, x)
                mine[0] += 1
                await k.memcpy_async(ctx, x, mine)
            if mended:
                await k.syncthreads()


async def count(mended: bool) -> None:
    """Count to two on two threads."""
    async with atops.Device(0).create_stream() as stream:
        x = stream.zeros(1, np.int32)
        stream.launch(add_one_each, (1, 2), x, mended)
        assert (await stream.fetch(x))[0] == 2, "an update was lost"


async def careless() -> None:
    """Count in no order."""
    await count(mended=False)


async def careful() -> None:
    """Count in turn."""
    await count(mended=True)


def main() -> None:
    """Name, find, replay, mend, prove."""
    logging.getLogger("atops.races").setLevel(logging.ERROR)  # it tells races at once; here the report does
    atops.run(careless, atops.EmulatorOptions(detect=True))  # goes well
    print(atops.report())
    assert atops.report().verdict == "race" and "syncthreads" in atops.report().races[0].advice

    report = atops.check(careless, schedules=200)
    print(f"\n{report}")
    assert report.verdict == "failed" and len(report.forced) <= 3

    failures = 0
    for _ in range(3):
        try:
            atops.run(careless, atops.EmulatorOptions(schedule=report.schedule))
        except AssertionError:
            failures += 1
    assert failures == 3

    proof = atops.check(careful, schedules=1000, strategy="dpor", options=atops.EmulatorOptions(detect=True))
    print(f"\n{proof}")
    assert proof.verdict == "proved"


if __name__ == "__main__":
    main()
