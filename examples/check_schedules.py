"""Find a race, replay it, shrink it, mend it, prove it: one program under many schedules by `atops.check`.

Look at: two streams share a row, and nothing says that the fill comes before the fetch. First come, first served it
goes well. The check finds a schedule under which it does not, makes it as small as it can, and gives it as a string
that fails again. The mended program has so few schedules that differ that all of them are run, which is a proof.
"""

from __future__ import annotations

import numpy as np

import atops


async def share(mended: bool) -> None:
    """Fill a row on one stream and fetch it on another one, which waits for the first if `mended`."""
    device = atops.Device(0)
    async with device.create_stream(name="fill") as filling, device.create_stream(name="fetch") as fetching:
        row = device.zeros(4, np.int32)
        filling.fill(row, 7)
        if mended:
            fetching.wait(filling)
        result = await fetching.fetch(row)
    assert result.tolist() == [7, 7, 7, 7], "the row was fetched before it was filled"


async def careless() -> None:
    """Share without an order."""
    await share(mended=False)


async def careful() -> None:
    """Share in order."""
    await share(mended=True)


def main() -> None:
    """Find, replay, mend, prove."""
    atops.run(careless)  # goes well

    report = atops.check(careless, schedules=200)
    print(report)
    assert report.verdict == "failed" and len(report.forced) <= 3

    failures = 0
    for _ in range(3):
        try:
            atops.run(careless, atops.EmulatorOptions(schedule=report.schedule))
        except AssertionError:
            failures += 1
    assert failures == 3

    proof = atops.check(careful, schedules=1000, strategy="dpor")
    print(f"\n{proof}")
    assert proof.verdict == "proved"


if __name__ == "__main__":
    main()
