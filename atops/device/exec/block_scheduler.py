"""The block scheduler of one device: which block of which launch gets the next free cluster.

Launches are served by (priority, ticket), the smaller first. Those of a gang start together or not at all.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count

from atops.base.errors import CooperativeLaunchTooLarge, InvalidValue, LaunchOutOfResources
from atops.base.locks import make_lock
from atops.device.chip import Cluster, Sip
from atops.device.exec.block import Block
from atops.device.exec.grid import Grid
from atops.device.exec.interpreter import StepBlock
from atops.device.exec.os_threads import SipBlock
from atops.device.exec.scheduled_block import ScheduledBlock

__all__ = ("ClusterArray", "Gang", "GridLaunch", "block_maker", "match")

ANY = 1 << 30  # as a limit: launches of any priority
NUMBERS = count()  # of arrays, in whose order their locks are taken


def block_maker(grid: Grid) -> Callable[[Grid, int, Cluster, list[Sip]], Block]:
    """Return what makes the blocks of a grid, ready to be stepped as the grid's options say."""
    if (native := grid.entry.native) is not None:
        return native
    if grid.agenda is not None:
        return ScheduledBlock
    return SipBlock if grid.options.workers == "sip" else StepBlock


def _places(mask: int) -> list[int]:
    """Return the places of the bits that are set, the lowest first."""
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def _ignore(block: Block) -> None:
    """Place nothing: the runtime has not set `place` yet."""


def _at_once(step: Callable[[], None], priority: int) -> None:
    """Run a step now: the runtime has not set `offer` yet."""
    step()


class GridLaunch:
    """A grid with blocks that are not placed. Launches compare by (priority, ticket)."""

    __slots__ = ("clusters", "gang", "grid", "masks", "order", "pinned", "sips", "unplaced")

    def __init__(
        self,
        grid: Grid,
        order: tuple[int, int],
        clusters: Sequence[int],
        masks: Sequence[int] | None = None,
        pinned: bool = False,
        gang: Gang | None = None,
    ) -> None:
        self.grid = grid
        self.order = order
        self.clusters = clusters  # ordinals it may use, the first choice first
        self.sips: dict[int, list[int]] | None = None  # by cluster, those it may use; None: all
        self.masks = masks  # of one that lives on what is open: what it could use of each cluster if all were
        self.pinned = pinned
        self.gang = gang  # with whose other members it starts
        self.unplaced = range(grid.total_blocks)

    def confine(self, clusters: Sequence[int], masks: Sequence[int]) -> None:
        """Let the blocks that are not placed use these clusters, and of each the SIPs of its mask."""
        self.clusters = clusters
        chosen = {ordinal: _places(masks[ordinal]) for ordinal in clusters}
        self.sips = {**(self.sips or {}), **chosen}  # a block that was placed just now may still be looking for its own

    def __lt__(self, other: GridLaunch) -> bool:
        return self.order < other.order


class ClusterArray:
    """The clusters of one device. The runtime sets `place`, which is called with no lock held for each block placed.

    A block gets a free cluster, in order of (priority, ticket); a launch that is more urgent gets the next free one
    before what is left of an earlier launch. What a block leaves goes to a launch less urgent than its own in a step of
    its own, which `offer` runs after all that is more urgent: so the next launch of a stream comes in time. A
    cooperative launch gets all its clusters at once; while it waits it holds none, and the clusters it may use go to no
    launch that is less urgent or later. Safe from any OS thread.
    """

    __slots__ = (
        "_all", "_held", "_waiting", "_whole", "_width", "clusters", "lock", "number", "offer", "open", "place",
    )  # fmt: skip

    def __init__(self, clusters: Iterable[Cluster]) -> None:
        self.clusters = list(clusters)
        self._all = range(len(self.clusters))
        self._width = len(self.clusters[0].sips)
        self._whole = (1 << self._width) - 1
        self.open: tuple[int, ...] | None = None  # for work that is bound to no part: SIPs of each cluster; None: all
        self.place: Callable[[Block], None] = _ignore
        self.offer: Callable[[Callable[[], None], int], None] = _at_once
        self.number = next(NUMBERS)
        self.lock = make_lock()
        self._waiting: list[GridLaunch] = []  # sorted
        self._held: dict[int, Grid] = {}  # the grid that holds each cluster that is not free

    def waits(self, ticket: int) -> bool:
        """Return whether blocks of the launch with this ticket wait for a cluster: a snapshot."""
        with self.lock:
            return any(launch.order[1] == ticket for launch in self._waiting)

    def submit(
        self,
        grid: Grid,
        priority: int,
        ticket: int,
        cluster_mask: int | None = None,
        sip_mask: int | None = None,
        pinned: Sequence[int] | None = None,
        within: Sequence[int] | None = None,
        gang: Gang | None = None,
    ) -> None:
        """Queue the blocks of a grid, and place what can be placed; those of a gang wait until it starts.

        Masks have a bit for each cluster, and for each SIP of a cluster, that may be used. `pinned` gives the cluster
        of each block of a cooperative grid. `within` binds it to a part of the clusters, by a mask of SIPs for each;
        without, it uses what is open. Raises as `check` does.
        """
        masked = cluster_mask is not None or sip_mask is not None or pinned is not None or within is not None
        if not masked and gang is None and self._take_all(grid, priority):
            return
        plain = not masked and not grid.cooperative
        order, open_ = (priority if gang is None else gang.priority, ticket), self.open
        if plain and open_ is None and grid.threads_per_block <= self._width:
            launch = GridLaunch(grid, order, self._all)
        else:
            clusters, masks, own = self.check(
                grid.name, grid.threads_per_block, grid.total_blocks, grid.cooperative, cluster_mask, sip_mask, pinned,
                within,
            )  # fmt: skip
            launch = GridLaunch(grid, order, clusters, None if within is not None else own, pinned is not None, gang)
            launch.confine(clusters, masks)
        grid.placement, grid.priority = self, order[0]
        with self.lock:
            if self.open is not open_:
                self._move(launch)  # something was claimed, or given back, meanwhile
            if gang is not None:
                gang.add(self, launch)
            insort(self._waiting, launch)
            placed = self._dispatch(order[0])
        self.open_placed(placed)

    def _take_all(self, grid: Grid, priority: int) -> bool:
        """Give a grid a cluster for each of its blocks at once. Returns whether the device was idle, and could."""
        count = grid.total_blocks
        if count > len(self.clusters) or grid.threads_per_block > self._width:
            return False
        with self.lock:
            if self._held or self._waiting or self.open is not None:
                return False
            self._held = dict.fromkeys(range(count), grid)
        grid.placement, grid.priority = self, priority
        make, cost = block_maker(grid), grid.cost
        for cluster in self.clusters[:count]:
            if cost is not None:
                cost.share(len(self.clusters))
            self.place(make(grid, cluster.ordinal, cluster, cluster.sips))
        return True

    def retire(self, block: Block) -> int | None:
        """Take back the cluster of a block that is done, and place the next blocks that are as urgent.

        Returns the priority of the next launch to `give_later` to, if there is one.
        """
        limit = block.priority
        with self.lock:
            del self._held[block.cluster.ordinal]
            if not self._waiting:
                return None
            placed, gangs, rest = self._dispatch(limit), self._gangs(limit), self._behind(limit)
        if placed or gangs:
            self._go_on(placed, gangs)
        return rest

    def next_of(self, block: Block) -> int | None:
        """Give the cluster of a block that is done to the next block of its launch, if no other launch comes first.

        Returns the number of that block; None where `retire` is to say who gets the cluster.
        """
        if not self._waiting:
            return None
        with self.lock:
            ordinal = block.cluster.ordinal
            launch = self._waiting[0] if self._waiting else None
            if launch is None or launch.grid is not self._held.get(ordinal) or launch.sips is not None:
                return None
            linear, launch.unplaced = launch.unplaced[0], launch.unplaced[1:]
            if not launch.unplaced:
                del self._waiting[0]
        return linear

    def give_later(self, priority: int) -> None:
        """Give free clusters to launches of this priority once nothing more urgent is to be done."""
        self.offer(partial(self._give, priority), priority)

    def _give(self, priority: int) -> None:
        with self.lock:
            placed, gangs, rest = self._dispatch(priority), self._gangs(priority), self._behind(priority)
        self._go_on(placed, gangs)
        if rest is not None:
            self.give_later(rest)

    def _behind(self, limit: int) -> int | None:
        """Return the priority of the first launch that waits and is less urgent than this. The lock is held."""
        if len(self._held) == len(self.clusters) or not self._waiting or self._waiting[-1].order[0] <= limit:
            return None
        return next(launch.order[0] for launch in self._waiting if launch.order[0] > limit)

    def withdraw(self, grid: Grid) -> None:
        """Drop the blocks of a grid that were not placed; the grid is told how many."""
        with self.lock:
            launch, dropped = self._waiting_of(grid), 0
            if launch is not None:
                dropped, launch.unplaced = len(launch.unplaced), range(0)
                self._waiting.remove(launch)
            placed = self._dispatch() if dropped else []
            gangs = self._gangs() if dropped else []
        if dropped:
            grid.dropped(dropped)
        self._go_on(placed, gangs)

    @property
    def idle(self) -> bool:
        """Whether no block is placed or waits to be: a snapshot."""
        return not self._held and not self._waiting

    def _waiting_of(self, grid: Grid) -> GridLaunch | None:
        """Return what waits of a grid. The lock is held."""
        return next((launch for launch in self._waiting if launch.grid is grid), None)

    def stranded(self, grid: Grid) -> int:
        """Return how many blocks of a grid wait while its own blocks hold every cluster it may use."""
        with self.lock:
            launch = self._waiting_of(grid)
            if launch is None or any(self._held.get(ordinal) is not grid for ordinal in launch.clusters):
                return 0
            return len(launch.unplaced)

    def holders(self, grid: Grid) -> dict[int, Grid]:
        """Return which grid holds each cluster that a grid may use, if no block of it has one yet; else nothing."""
        with self.lock:
            launch = self._waiting_of(grid)
            if launch is None or grid in self._held.values():
                return {}
            return {place: self._held[place] for place in launch.clusters if place in self._held}

    def check(
        self,
        name: str,
        threads: int,
        blocks: int,
        cooperative: bool,
        cluster_mask: int | None = None,
        sip_mask: int | None = None,
        pinned: Sequence[int] | None = None,
        within: Sequence[int] | None = None,
    ) -> tuple[list[int], list[int], list[int]]:
        """Return where the blocks of a grid may run: clusters, and SIPs of each as masks, now and if all were open.

        Raises LaunchOutOfResources where no cluster has SIPs enough, CooperativeLaunchTooLarge where a cooperative grid
        has more blocks than clusters, InvalidValue for a bad pin. Arguments are those of `submit`.
        """
        sips = self._whole if sip_mask is None else sip_mask
        own = [sips if cluster_mask is None or cluster_mask >> ordinal & 1 else 0 for ordinal in self._all]
        part = within if within is not None else self.open
        masks = own if part is None else [mine & there for mine, there in zip(own, part, strict=True)]
        clusters = [ordinal for ordinal in self._all if masks[ordinal].bit_count() >= threads]
        if not clusters:
            some = [mask.bit_count() for mask in masks if mask]
            raise LaunchOutOfResources(
                f"kernel {name} has blocks of {threads} threads; "
                f"{max(some, default=self._width)} SIP threads on each of {len(some)} clusters may be used"
            )
        if pinned is not None:
            if not cooperative or len(pinned) != blocks or len({*pinned}) < len(pinned):
                raise InvalidValue(f"clusters {pinned!r}; expected one for each block of a cooperative grid")
            if not {*pinned} <= {*clusters}:
                raise InvalidValue(f"clusters {pinned!r}; expected some of {clusters}")
            clusters = list(pinned)
        if cooperative and blocks > len(clusters):
            raise CooperativeLaunchTooLarge(
                f"cooperative kernel {name} has {blocks} blocks; at most {len(clusters)} run at once"
            )
        return clusters, masks, own

    def restrict(self, left: Callable[[], tuple[int, ...] | None]) -> None:
        """Let work that is bound to no part use only the SIPs of each cluster that `left()` gives; None: all of them.

        What waits already moves there if it can start there, and else stays where it was admitted. Of several calls the
        last one asks last.
        """
        with self.lock:
            self.open = left()
            for launch in self._waiting:
                self._move(launch)
            placed = self._dispatch() if self._waiting else []
            gangs = self._gangs()
        self._go_on(placed, gangs)

    def _move(self, launch: GridLaunch) -> None:
        """Let a launch that waits use what is open now. The lock is held."""
        grid, own = launch.grid, launch.masks
        if launch.sips is None:  # an ordinary one
            own = [self._whole] * len(self._all)
        if own is None:
            return
        masks = own if self.open is None else [mine & there for mine, there in zip(own, self.open, strict=True)]
        able = [ordinal for ordinal in self._all if masks[ordinal].bit_count() >= grid.threads_per_block]
        if launch.pinned:
            able = list(launch.clusters) if {*launch.clusters} <= {*able} else []
        if able and not (grid.cooperative and len(able) < grid.total_blocks):
            launch.masks = own
            launch.confine(able, masks)

    def _dispatch(self, limit: int = ANY) -> list[tuple[GridLaunch, int, int]]:
        """Give free clusters to launches up to this priority, and return (launch, block, cluster). The lock is held."""
        placed: list[tuple[GridLaunch, int, int]] = []
        kept: set[int] = set()  # for cooperative launches that wait
        for launch in self._waiting:
            if launch.order[0] > limit or len(kept.union(self._held)) == len(self.clusters):
                break
            free = [ordinal for ordinal in launch.clusters if ordinal not in self._held and ordinal not in kept]
            if launch.gang is not None or (launch.grid.cooperative and len(free) < len(launch.unplaced)):
                kept.update(launch.clusters)
                continue
            placed += self._take(launch, free)
        if placed:
            self._waiting = [launch for launch in self._waiting if launch.unplaced]
        return placed

    def _take(self, launch: GridLaunch, free: Sequence[int]) -> list[tuple[GridLaunch, int, int]]:
        """Give a launch as many of these clusters as it has blocks left. The lock is held."""
        placed = []
        for linear, ordinal in zip(launch.unplaced, free):  # noqa: B905  # whichever ends first; a keyword costs more
            self._held[ordinal] = launch.grid
            placed.append((launch, linear, ordinal))
        launch.unplaced = launch.unplaced[len(placed) :]
        return placed

    def _go_on(self, placed: list[tuple[GridLaunch, int, int]], gangs: list[Gang]) -> None:
        """Make the blocks that got clusters, and start the gangs that can start now. No lock is held."""
        self.open_placed(placed)
        for gang in gangs:
            gang.try_start()

    # ---- for gangs

    def _gangs(self, limit: int = ANY) -> list[Gang]:
        """Return those up to this priority that wait here, in their order. The lock is held."""
        waiting = (each.gang for each in self._waiting if each.gang is not None and each.gang.priority <= limit)
        return list(dict.fromkeys(waiting))

    def room_for(self, members: Sequence[GridLaunch]) -> dict[GridLaunch, list[int]] | None:
        """Return clusters for every block of these launches, None where there are not enough. The lock is held."""
        kept: set[int] = set()  # for those that come first
        for launch in self._waiting:
            if launch in members:
                break
            if launch.grid.cooperative:
                kept.update(launch.clusters)
        free = set(self._all) - kept - self._held.keys()
        found = match([(len(each.unplaced), [place for place in each.clusters if place in free]) for each in members])
        return None if found is None else dict(zip(members, found, strict=True))

    def give(self, chosen: dict[GridLaunch, list[int]]) -> list[tuple[GridLaunch, int, int]]:
        """Take the clusters for these launches. The lock is held."""
        placed = [each for launch, clusters in chosen.items() for each in self._take(launch, clusters)]
        self._waiting = [launch for launch in self._waiting if launch.unplaced]
        return placed

    def open_placed(self, placed: list[tuple[GridLaunch, int, int]]) -> None:
        """Make the blocks and hand them to `place`. No lock is held."""
        for launch, linear, ordinal in placed:
            cluster = self.clusters[ordinal]
            sips = cluster.sips
            if launch.grid.cost is not None:
                launch.grid.cost.share(len(launch.clusters))
            if launch.sips is not None and (own := launch.sips.get(ordinal)) is not None and len(own) < len(sips):
                sips = [sips[sip] for sip in own]
            self.place(block_maker(launch.grid)(launch.grid, linear, cluster, sips))

    def __repr__(self) -> str:
        count = len(self.clusters)
        return f"<ClusterArray: {count - len(self._held)} of {count} clusters free, {len(self._waiting)} waiting>"


class Gang:
    """The launches of one cooperative launch of several grids: all have their clusters at once, or none holds any.

    Two such launches that each held half of their clusters would wait for each other for ever. So a gang takes the
    locks of all the arrays that its launches wait in together. `priority` is that of the most urgent launch.
    """

    def __init__(self, priority: int = 0) -> None:
        self.priority = priority
        self._members: list[tuple[ClusterArray, GridLaunch]] = []
        self._complete = False
        self._started = False

    def add(self, array: ClusterArray, launch: GridLaunch) -> None:
        """Take in a launch that waits in an array."""
        self._members.append((array, launch))

    def start(self) -> None:
        """Start as soon as it can: all members are there."""
        self._complete = True
        self.try_start()

    def try_start(self) -> None:
        """Start if all clusters are free now. No lock is held; called again whenever one may have become free."""
        if not self._complete:
            return
        arrays = sorted({array for array, _ in self._members}, key=lambda array: array.number)
        with ExitStack() as locks:
            for array in arrays:  # always in the same order
                locks.enter_context(array.lock)
            if self._started or not all(launch.unplaced for _, launch in self._members):
                return  # or one of them was withdrawn: then none starts
            chosen = []
            for array in arrays:
                found = array.room_for([launch for its, launch in self._members if its is array])
                if found is None:
                    return
                chosen.append((array, found))
            self._started = True
            placed = [(array, array.give(found)) for array, found in chosen]
        for array, each in placed:
            array.open_placed(each)


def match(wants: Sequence[tuple[int, Sequence[int]]]) -> list[list[int]] | None:
    """Return for each (count, clusters) so many of its clusters, none twice; None where that cannot be.

    By augmenting paths: a seat whose clusters are all taken makes the seat that took one look for another.
    """
    seats = [place for place, (count, _) in enumerate(wants) for _ in range(count)]
    taken: dict[int, int] = {}  # the seat of each cluster

    def seek(seat: int, seen: set[int]) -> bool:
        for cluster in wants[seats[seat]][1]:
            if cluster not in seen:
                seen.add(cluster)
                if cluster not in taken or seek(taken[cluster], seen):
                    taken[cluster] = seat
                    return True
        return False

    if not all(seek(seat, set()) for seat in range(len(seats))):
        return None
    return [
        [cluster for cluster in clusters if cluster in taken and seats[taken[cluster]] == place]
        for place, (_, clusters) in enumerate(wants)
    ]
