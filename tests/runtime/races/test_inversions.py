"""Priority inversion: an urgent stream waits for a less urgent one, before which what is between them goes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.runtime.queues.queue import StreamQueue
from atops.runtime.races.inversions import INVERSION

N = 1 << 16


@k.kernel
async def busy() -> None:
    k.cost(flops=10**9)
    await k.syncthreads()


async def program(
    launches: bool, low: int = 0, mid: int = -1, through: bool = False, waits: bool = True,
    word: bool = False,
) -> None:  # fmt: skip
    """What is between has the clusters, or the link in the other direction, when the wait begins; and more comes."""
    device = atops.Device(0)
    top, middle, slow, between = (device.create_stream(priority=each) for each in (-2, mid, low, 0))
    flag = device.zeros(1, np.uint32)
    x, host, other = device.zeros((3, N)), np.zeros(N, np.float32), np.zeros((3, N), np.float32)

    def urgent(turn: int) -> None:
        if launches:
            middle.launch(busy, (8, 4))
        else:
            middle.copy(other[turn], x[0])

    def work(stream: atops.Stream, row: int) -> None:
        if launches:
            stream.launch(busy, (4, 4))
        else:
            stream.copy(x[row], host)

    for turn in range(3):
        urgent(turn)  # early
    work(slow, 1)
    if word:
        slow.write_value(flag, 3)
    event = slow.record()
    if through:
        between.wait(event)
        event = between.record()
    if waits and word:
        top.wait_value(flag, 3)  # waits for the word
    elif waits:
        top.wait(event)  # waits
    await device.wait()


def races(**how: object) -> list[atops.Race]:
    async def main() -> list[atops.Race]:
        await program(**how)  # type: ignore[arg-type]
        return list(atops.Device(0).driver.report().races)

    return atops.run(main, atops.EmulatorOptions(detect=True, clock="virtual"))


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("launches", [False, True])
def test_an_inversion_is_named(launches: bool, through: bool) -> None:
    """With the wait, what goes first, and what would mend it; through the wait of a third stream, too."""
    lines, first = inspect.getsourcelines(program)
    place = {line.rsplit("# ", 1)[1].strip(): first + at for at, line in enumerate(lines) if "# " in line}
    found = races(launches=launches, through=through)
    assert {race.kind for race in found} == {INVERSION}
    by_word = races(launches=launches, word=True)
    assert {race.first.site.line for race in by_word if race.first.site} == {place["waits for the word"]}
    for race in found:
        assert race.first.site is not None and race.first.site.line == place["waits"]
        assert "priority -2" in race.first.actor and "priority -1" in race.second.actor
        assert "create_stream(priority=-2)" in race.advice


TWINS = {
    "as urgent as what waits for it": {"low": -2},
    "nothing between": {"mid": 0},
    "nothing waits": {"waits": False},
    "as urgent as what waits": {"mid": -2},
    "as urgent as what waits for its word": {"low": -2, "word": True},
    "nothing between, and a word": {"mid": 0, "word": True},
}


@pytest.mark.parametrize("launches", [False, True])
@pytest.mark.parametrize("twin", TWINS)
def test_other_waits_are_none(twin: str, launches: bool) -> None:
    """One of equals, and one that what is between does not hold up."""
    assert races(launches=launches, **TWINS[twin]) == []


def test_a_check_fails_by_it() -> None:
    """It is a report as others are."""

    async def main() -> None:
        await program(launches=True)

    report = atops.check(main, 5, options=atops.EmulatorOptions(detect=True))
    assert report.failure is not None and report.failure.kind == "race" and INVERSION in report.failure.text


def test_queues_are_looked_at_without_the_detectors_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that enqueues has the board's lock and takes the detector's: the other way round two would stand."""
    taken, snapshot = [], StreamQueue.snapshot

    def looked_at(queue: StreamQueue) -> object:
        detector = queue.board.detector
        taken.append(detector is not None and detector._lock._is_owned())
        return snapshot(queue)

    monkeypatch.setattr(StreamQueue, "snapshot", looked_at)
    races(launches=False, through=True)
    assert taken and not any(taken)
