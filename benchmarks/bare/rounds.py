"""The floor under barriers: coroutines of one thread that wait for each other round by round, and nothing else."""

from __future__ import annotations

from collections.abc import Coroutine, Generator

__all__ = ("bare_rounds",)


class _Arrival:
    """What a bare coroutine awaits: one suspension, and no more."""

    __slots__ = ()

    def __await__(self) -> Generator[_Arrival, None, None]:
        yield self


def bare_rounds(count: int, threads: int) -> None:
    """Run `threads` coroutines through `count` rounds: the least that an interpreter does for a barrier."""
    arrival = _Arrival()

    async def thread() -> None:
        for _ in range(count):
            await arrival

    running: list[Coroutine[object, None, None]] = [thread() for _ in range(threads)]
    while running:
        arrived = []
        for coroutine in running:
            try:
                coroutine.send(None)
            except StopIteration:
                continue
            arrived.append(coroutine)
        running = arrived  # all have arrived: the next round begins
