"""Accesses that race in words: the two sides, what kind of race it is, and what would order them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from atops.device.call_site import Site
from atops.device.races.access_log import Entry, Flight
from atops.device.races.clocks import before
from atops.device.races.race import Access, Race, merged

if TYPE_CHECKING:
    from atops.device.exec.thread import KernelThread

__all__ = ("Side", "access_of", "advice", "at_once", "between_blocks", "flown_over", "race_in", "race_of", "site_of")

Side = tuple[Entry, bool]  # an access, and whether it stores
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
    space: str, first: Side, second: Side, memory: str, device: int, ranges: Iterable[tuple[int, int]], offset: int = -1
) -> Race:  # fmt: skip
    """Return the race of two accesses to some bytes of "shared" or "global" memory.

    The first side is that whose line comes first in the kernel, whichever thread was quicker.
    """
    one, other = first[0], second[0]
    if at_once(one) and at_once(other) and one.code is other.code and one.instruction > other.instruction:
        first, second, one, other = second, first, other, one
    kind = "transfer in flight" if flown_over(one, other) else f"race in {space} memory"
    return race_of(kind, first, second, memory, device, ranges, advice(one, other), offset)


def race_of(
    kind: str, first: Side, second: Side, memory: str, device: int, ranges: Iterable[tuple[int, int]], remedy: str,
    offset: int = -1,
) -> Race:  # fmt: skip
    """Return a race, with both sides in words."""
    return Race(kind, access_of(*first), access_of(*second), memory, device, merged(ranges), remedy, offset)


def between_blocks(race: Race) -> bool:
    """Tell whether the threads of a race are in two blocks, or on two devices."""
    first, second = race.first.thread, race.second.thread
    return first is not None and second is not None and first[0] != second[0]


def access_of(entry: Entry, write: bool) -> Access:
    """Return one side of a race."""
    what = f"{entry.what} {WHAT_TRANSFERS_DO[write]}" if isinstance(entry, Flight) else entry.what
    thread: KernelThread = entry.actor  # type: ignore[assignment]  # a kernel has no others
    where = thread.block.linear, thread.linear
    return Access(str(thread), what, write, site_of(entry), f"kernel {thread.grid.name}", -1, where)


def advice(first: Entry, second: Entry) -> str:
    """Say what would order two accesses of threads."""
    one, other = first.actor, second.actor
    sites = [site for each in (first, second) if (site := site_of(each)) is not None]
    lines = " and ".join(dict.fromkeys(f"line {site.line}" for site in sites))
    if flown_over(first, second):
        return f"`await` the event of the transfer of {sites[0]} before the other access"
    same = getattr(one, "block", None) is getattr(other, "block", None)
    if not same and not getattr(getattr(one, "grid", None), "cooperative", False):
        return (
            f"blocks of one launch run in any order ({lines}): give each block bytes of its own, launch a second "
            "kernel, or launch cooperatively and `await k.syncblocks()` between them; or let the first "
            "`k.signal_write` behind its access, and the second `await k.signal_wait` before its own"
        )
    barrier = "`await k.syncthreads()`" if same else "`await k.syncblocks()`"
    if " and " not in lines:
        return (
            f"{lines} meets itself: {barrier} between what all threads load there and what they store (in a loop "
            "between its passes, too) would order them; where all of them store to the same bytes, as a sum does, give "
            "each thread bytes of its own, and let one add them up behind the barrier, or use `k.signal_add`"
        )
    return f"{barrier} between them ({lines}), in every thread, would order them"
