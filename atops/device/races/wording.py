"""Accesses that race in words: the two sides, what kind of race it is, and what would order them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Final

from atops.device.call_site import Site
from atops.device.races.access_log import Entry, Flight
from atops.device.races.clocks import before
from atops.device.races.race import Access, Race, merged

if TYPE_CHECKING:
    from atops.device.exec.thread import KernelThread

__all__ = (
    "Side", "access_of", "advice", "at_once", "flown_over", "meet", "meets_itself", "once_more", "race_in",
    "race_of", "reach", "site_of",
)  # fmt: skip

Side = tuple[Entry, bool]  # an access, and whether it stores
Advised = Callable[[Side, Side], str]
WHAT_TRANSFERS_DO: Final = {False: "reads", True: "writes"}


def at_once(entry: Entry) -> bool:
    """Tell whether an access is one moment, and no transfer in flight."""
    return entry.end is entry.begin and entry.end_turn == entry.begin_turn


def flown_over(first: Entry, second: Entry) -> bool:
    """Tell whether the first access is a transfer that is known to have been issued when the second one comes."""
    if at_once(first):
        return False
    return first.begin.thread == second.begin.thread or before(first.begin, second.begin)


def site_of(entry: Entry) -> Site | None:
    """Return where the program asked for an access."""
    return None if entry.code is None else Site(entry.code, entry.instruction)


def race_in(
    space: str, first: Side, second: Side, memory: str, device: int, ranges: Iterable[tuple[int, int]],
    advised: Advised, offset: int = -1,
) -> Race:  # fmt: skip
    """Return the race of two accesses to some bytes of "shared" or "global" memory.

    The first side is that whose line comes first in the kernel, whichever thread was quicker. `advised` says what
    would order two accesses.
    """
    one, other = first[0], second[0]
    if at_once(one) and at_once(other) and one.code is other.code and one.instruction > other.instruction:
        first, second, one, other = second, first, other, one
    kind = "transfer in flight" if flown_over(one, other) else f"race in {space} memory"
    return race_of(kind, first, second, memory, device, ranges, advised(first, second), offset)


def race_of(
    kind: str, first: Side, second: Side, memory: str, device: int, ranges: Iterable[tuple[int, int]], remedy: str,
    offset: int = -1,
) -> Race:  # fmt: skip
    """Return a race, with both sides in words. Threads of two devices are told apart by these."""
    chips = {each[0].actor.grid.chip for each in (first, second)}  # type: ignore[attr-defined]  # each is a thread's
    one, other = (access_of(*each, len(chips) > 1) for each in (first, second))
    return Race(kind, one, other, memory, device, merged(ranges), remedy, offset)


def reach(race: Race) -> int:
    """Return how far apart the threads of a race are: 0 for one, 1 in a block, 2 in two blocks, or on two devices."""
    one, other = race.first, race.second
    if one.thread is None or other.thread is None or (one.thread == other.thread and one.command == other.command):
        return 0
    return 1 if one.thread[0] == other.thread[0] and one.command == other.command else 2


def access_of(entry: Entry, write: bool, names_device: bool = False) -> Access:
    """Return one side of a race."""
    what = f"{entry.what} {WHAT_TRANSFERS_DO[write]}" if isinstance(entry, Flight) else entry.what
    thread: KernelThread = entry.actor  # type: ignore[assignment]  # a kernel has no others
    where = thread.block.linear, thread.linear
    device = f" on device {thread.grid.chip.ordinal}" if names_device else ""
    return Access(f"{thread}{device}", what, write, site_of(entry), f"kernel {thread.grid.name}{device}", -1, where)


def advice(first: Side, second: Side, history: Iterable[Entry] = ()) -> str:
    """Say what would order two accesses of threads. `history` has what the threads accessed until now, in order."""
    (one, stores), (other, too) = first, second
    thread: KernelThread = one.actor  # type: ignore[assignment]  # both are a thread's
    sites = [site for each in (one, other) if (site := site_of(each)) is not None]
    lines = " and ".join(dict.fromkeys(f"line {site.line}" for site in sites))
    if flown_over(one, other):
        event = f"`await` the event of the transfer of {sites[0]}"
        if other.begin.thread == one.begin.thread:
            return f"{event} before the other access"
        return f"{event} before the barrier or signal that the other access comes behind, in the thread that issues it"
    same = one.begin.block == other.begin.block
    cooperative = same or thread.grid.cooperative
    barrier = "`await k.syncthreads()`" if same else "`await k.syncblocks()`"
    if " and " not in lines:
        return meets_itself(lines, stores and too, barrier if cooperative else "", ", or use `k.signal_add`")
    if (found := _in_order(one, other, same, history)) is not None:
        again, now, by_barrier = found
        if by_barrier and cooperative:
            return once_more(again, now, barrier)
        return (
            f"{_here(again, now)}: `k.signal_add` behind {now}, and `await k.signal_wait` for it before {again} comes "
            "again, would order them, where every wait in a loop, also one that is there, is for a value of its own "
            "pass"
        )
    if cooperative:
        return meet(lines, barrier)
    return (
        f"blocks of one launch run in any order ({lines}): give each block bytes of its own, launch a second "
        "kernel, or launch cooperatively and `await k.syncblocks()` between them; or let the first "
        "`k.signal_write` behind its access, and the second `await k.signal_wait` before its own"
    )


def meet(lines: str, barrier: str) -> str:
    """Say that a barrier would order two lines."""
    return (
        f"{barrier} between them ({lines}), in every thread, would order them; in a loop that comes back to them, one "
        "before each of the two"
    )


def once_more(again: str, now: str, barrier: str) -> str:
    """Say that a barrier lacks between a line and the next pass of one that a barrier puts before it."""
    return f"{_here(again, now)}: {barrier} behind {now}, before {again} comes again, in every thread, would order them"


def _here(again: str, now: str) -> str:
    return f"{now} comes first here, and then {again} once more"


def meets_itself(line: str, stores: bool, barrier: str, counting: str = "") -> str:
    """Say what would order what threads do at one line, where both store or one loads. `barrier` is "" without one.

    `counting` is what else adds numbers up.
    """
    if stores:
        return (
            f"{line} meets itself, and both store: the bytes overlap; give each thread bytes of its own, and where it "
            f"is a sum, let one thread add them up later{counting}"
        )
    if not barrier:
        return (
            f"{line} meets itself, and blocks of one launch run in any order: where it is a sum, give each thread "
            f"bytes of its own and add them up in a second kernel{counting}; where it stores what other threads load, "
            "store to other bytes than those"
        )
    return (
        f"{line} meets itself: {barrier} between what all threads load there and what they store (in a loop between "
        "its passes, too) would order them; where all of them store to the same bytes, as a sum does, give each thread "
        f"bytes of its own, and let one add them up behind the barrier{counting}"
    )


def _in_order(first: Entry, second: Entry, same: bool, history: Iterable[Entry]) -> tuple[str, str, bool] | None:
    """Return two lines of which the one is before the other already: what races is the other, and then the one again.

    This is so if it was when threads first came to the other one, so that only the way back lacks an order. The third
    is whether barriers put it there. `same`: two threads of one block race, not of two.
    """
    lines = [each.line for side in (first, second) if (each := site_of(side)) is not None]
    places: dict[tuple[CodeType | None, int], int] = {}
    by_line: dict[int, list[Entry]] = {line: [] for line in lines}
    for entry in history:
        place = entry.code, entry.instruction
        if place not in places:
            site = site_of(entry) if entry.code in (first.code, second.code) else None
            places[place] = -1 if site is None else site.line
        if (line := places[place]) in by_line:
            by_line[line].append(entry)
    for (again, side), now in zip(zip(lines, (first, second), strict=True), lines[::-1], strict=True):
        began = side.begin  # what its thread did there before it last met others
        if (
            by_line[now]
            and any(each.begin.thread == began.thread and each.begin is not began for each in by_line[again])
            and (by_barrier := _is_before(by_line[again], by_line[now], same)) is not None
        ):
            return f"line {again}", f"line {now}", by_barrier
    return None


def _is_before(early: Sequence[Entry], late: Sequence[Entry], same: bool) -> bool | None:
    """Tell whether barriers put some of the early accesses before the first of the late ones; None: nothing does."""
    begin = late[0].begin
    if all(each.begin.thread == begin.thread for each in early):  # one thread does all of these
        begin = next((each.begin for each in late if each.begin.thread != begin.thread), begin)
    for each in early:
        end = each.end
        if end is None or end.thread == begin.thread or (end.block == begin.block) is not same:
            continue
        if before(end, begin):
            return end.grid_phase < begin.grid_phase or (same and end.block_phase < begin.block_phase)
    return None
