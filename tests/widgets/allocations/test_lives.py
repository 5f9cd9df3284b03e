"""Lives of allocations, what lines held, and where bytes stand: against a count of every byte at every moment."""

from __future__ import annotations

import random
from collections import defaultdict

from atops.base.trace.records import AllocationEvent, Change, Place, Trace, TraceNames
from atops_widgets import Allocations
from atops_widgets.allocations.lives import Line, lines_of, lives_of, stacked
from tests.every import every

SITES = {number: Place(f"{number}.py", number, "main") for number in range(3)}
END = 100


def drawn(seed: int) -> Trace:
    """Return a trace of allocations at random moments and places, some of which are freed."""
    chance = random.Random(seed)
    changes = []
    for number in range(12):
        born, died = sorted(chance.sample(range(END), 2))
        place, size = 8 * chance.randrange(6), chance.randint(1, 6)
        fields = {"device": number % 2, "offset": place, "size": size, "bank": 0, "generation": number, "used_bytes": 0}
        begun = Change.REUSED if chance.random() < 0.3 else Change.ALLOCATED
        changes.append(AllocationEvent(at_ns=born, change=begun, site=chance.randint(-1, 2), **fields))
        if chance.random() < 0.7:
            changes.append(AllocationEvent(at_ns=died, change=Change.FREED, site=chance.randint(-1, 2), **fields))
    changes.sort(key=lambda each: (each.at_ns, each.generation))
    return Trace(changes=tuple(changes), names=TraceNames(sites=SITES))


@every("seed", range(100))
def test_lines_held_what_their_bytes_say(seed: int) -> None:
    """The most at once, the area, how many, and how many live on."""
    lives = lives_of(drawn(seed))
    held: dict[tuple[int, Place | None], list[int]] = defaultdict(lambda: [0] * END)
    for life in lives:
        for moment in range(life.born_ns, END if life.died_ns is None else life.died_ns):
            held[life.device, life.place][moment] += life.size
    found = {(line.device, line.place): line for line in lines_of(lives, END)}
    assert found.keys() == {(life.device, life.place) for life in lives}
    for (device, place), line in found.items():
        own = [life for life in lives if (life.device, life.place) == (device, place)]
        moments = held[device, place]
        still = sum(life.died_ns is None for life in own)
        assert line == Line(device, place, len(own), max(moments), sum(moments), still)


@every("seed", range(100))
def test_bytes_stand_where_nothing_else_does(seed: int) -> None:
    """Each byte in use has one place, in the order of addresses, without gaps."""
    lives = lives_of(drawn(seed))
    found, total = stacked(lives)
    assert found.keys() == {life.offset for life in lives}
    places = {life.offset + byte: found[life.offset] + byte for life in lives for byte in range(life.size)}
    assert [place for _, place in sorted(places.items())] == list(range(total))


def test_a_life_ends_once() -> None:
    """What is freed before it is known, twice, or is empty makes no life and changes none."""
    def event(at: int, change: Change, number: int, size: int = 4) -> AllocationEvent:
        return AllocationEvent(at, 0, 0, size, 0, change, number, 0, 0)

    events = [event(1, Change.FREED, 7), event(2, Change.ALLOCATED, 1), event(3, Change.ALLOCATED, 2, 0),
              event(5, Change.FREED, 1), event(6, Change.FREED, 1)]  # fmt: skip
    [life] = lives_of(Trace(changes=tuple(events), names=TraceNames(sites=SITES)))
    assert (life.born_ns, life.died_ns, life.place, life.freed) == (2, 5, SITES[0], SITES[0])


def test_memory_that_is_promised_begins_when_its_holder_ends() -> None:
    """In stream order the same bytes are asked for again before they are free: one life follows the other."""
    def event(at: int, change: Change, number: int) -> AllocationEvent:
        return AllocationEvent(at, 0, 0, 4, 0, change, number, 0, 0)

    events = [event(0, Change.ALLOCATED, 1), event(0, Change.ALLOCATED, 2), event(5, Change.FREED, 1),
              event(9, Change.FREED, 2)]  # fmt: skip
    lives = lives_of(Trace(changes=tuple(events), names=TraceNames(sites=SITES)))
    assert [(life.born_ns, life.died_ns) for life in lives] == [(0, 5), (5, 9)]
    assert lines_of(lives, 9)[0].most == 4


def test_a_line_has_the_stack_that_asked_most_often() -> None:
    """Lives of one line and different callers are one line's; the bands tell each its own."""
    names = TraceNames(sites={**SITES, 3: SITES[0], 4: SITES[0]}, callers={3: 1, 4: 2, 2: 1})
    changes = [
        AllocationEvent(at, 0, 8 * at, 8, 0, Change.ALLOCATED, at, 8, site) for at, site in enumerate((3, 4, 4, 0))
    ]
    trace = Trace(changes=tuple(changes), names=names)
    (line,) = lines_of(lives_of(trace), END)
    assert (line.place, line.callers, line.stacks) == (SITES[0], (SITES[2], SITES[1]), 3)
    shown = Allocations(trace)
    assert "from 2.py:2 in main, from 1.py:1 in main; 2 other stacks" in shown.to_text()
    assert "allocated at 0.py:0 in main, from 1.py:1 in main at 0 ns" in shown.to_svg()
