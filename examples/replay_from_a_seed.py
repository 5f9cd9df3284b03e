"""A race between two streams, run inline: the seed decides which wins, and the same seed decides it again.

Look at: `atops.run` makes driver, kernels and tasks steps of one loop in one thread. The seed chooses their order, so a
run that went wrong once is a number that can be kept; and with the virtual clock even the times are the same.
"""

from __future__ import annotations

import numpy as np

import atops


async def race() -> tuple[int, list[tuple[object, ...]]]:
    """Let two streams store into one word, unordered. Returns the name of the last one, and the trace."""
    device = atops.Device(0)
    async with device.create_stream(name="one") as one, device.create_stream(name="two") as two:
        word = one.zeros(1, np.int32)
        await one
        one.fill(word, 1)
        two.fill(word, 2)
        await one
        await two
        winner = int((await one.fetch(word))[0])
    records = atops.current_driver().tracer.records()
    return winner, [(each.stream, each.kind, each.started_ns, each.finished_ns) for each in records]


def main() -> None:
    """Run the race from thirty seeds, each of them twice."""
    outcomes = {}
    for seed in range(30):
        options = atops.EmulatorOptions(seed=seed, clock="virtual")
        outcomes[seed], replay = atops.run(race, options), atops.run(race, options)
        assert outcomes[seed] == replay

    winners = {seed: winner for seed, (winner, _) in outcomes.items()}
    print(f"stream one was last with the seeds {[seed for seed, winner in winners.items() if winner == 1]}")
    assert set(winners.values()) == {1, 2}


if __name__ == "__main__":
    main()
