"""What the threads of a block share: objects made at the same line, and what their block has of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from atops.base.errors import LaunchFailure
from atops.base.locks import fork_safe
from atops.device.call_site import Site, caller, expression_at
from atops.device.exec.grid import Grid
from atops.device.exec.thread import KernelThread

__all__ = ("CONSTANTS", "DYNAMIC_BYTES", "dynamic_bytes", "release_left", "shared_object", "shared_once")

T = TypeVar("T")

# Held while the first thread makes something: threads may be OS threads. No other lock is taken under it.
_making = fork_safe(threading.RLock())
_grids: WeakKeyDictionary[Grid, dict[object, Any]] = WeakKeyDictionary()


class _Entry:
    """What a line gave at one pass, until every thread has come there: how many of them have not."""

    __slots__ = ("code", "made", "missing")

    def __init__(self, made: Any, code: CodeType, missing: int) -> None:
        self.made = made
        self.code = code  # kept alive, as its id stands for it
        self.missing = missing


def shared_object(
    thread: KernelThread, make: Callable[[], T], depth: int = 2, of_grid: bool = False, once: bool = False
) -> T:  # fmt: skip
    """Return what `make` returned to the first thread of the block at the line `depth` frames above.

    `of_grid`: to the first thread of the whole grid. A line that a thread passes several times gives another object
    each time, unless it is made `once`; the n-th time of one thread and the n-th time of another give the same. It is
    kept until each thread has come there for that time; what is made once, as long as the block or the grid.
    """
    frame = sys._getframe(depth)
    code = frame.f_code
    # By id, as hashing the code would read all of it.
    site = (id(code), expression_at(code, frame.f_lasti))
    shared = _of_grid(thread) if of_grid else thread.block.shared
    if once:
        turn = -1
    else:
        sites = thread.sites
        if sites is None:
            sites = thread.sites = {}
        turn = sites.get(site, 0)
        sites[site] = turn + 1
    key = (*site, turn)
    if (agenda := thread.grid.agenda) is not None and agenda.footprint is not None:
        place = thread.grid.label, -1 if of_grid else thread.block.linear
        agenda.footprint.group(("shared", *place), (code.co_filename, code.co_firstlineno, *site[1:], turn))
    with _making:
        entry = shared.get(key)
        if entry is None:
            threads = thread.block.size * (thread.grid.total_blocks if of_grid else 1)
            entry = shared[key] = _Entry(make(), code, threads)
        if not once:
            entry.missing -= 1
            if not entry.missing:
                del shared[key]
                shared[site] = code  # threads still count by its id
    made: T = entry.made
    return made


def release_left(thread: KernelThread) -> bool:
    """Let go what the block keeps for threads that have ended; tell whether there was any. `_making` is held."""
    shared, threads = thread.block.shared, thread.block.threads
    released = False
    for key, each in list(shared.items()):
        if isinstance(key, tuple) and len(key) == 3 and isinstance(each, _Entry) and key[2] >= 0:
            site, turn = key[:2], key[2]
            if all(other.ended or (other.sites or {}).get(site, 0) > turn for other in threads):
                del shared[key]
                shared[site] = each.code
                released = True
    return released


def shared_once(thread: KernelThread, what: str, make: Callable[[], T], depth: int = 2) -> T:
    """Return what `make` returned to the first thread of the block at the only line that may ask for `what`.

    Raises LaunchFailure, naming both lines, when another line asks for it too.
    """
    frame = sys._getframe(depth)
    site = Site(frame.f_code, frame.f_lasti)
    shared = thread.block.shared
    with _making:
        first, found = shared.get(what) or shared.setdefault(what, (site, make()))
    if first != site:
        raise LaunchFailure(f"{thread} at {caller()}: a second {what}; a kernel has one, and this one has {first}")
    result: T = found
    return result


def _of_grid(thread: KernelThread) -> dict[object, Any]:
    with _making:
        return _grids.setdefault(thread.grid, {})


CONSTANTS: Final = "constants of the block"  # by variable, the span that stands for its instance; None: no difference
DYNAMIC_BYTES: Final = "dynamic shared bytes of the block"


def dynamic_bytes(thread: KernelThread) -> int:
    """Return how many bytes of dynamic shared memory the thread's block has."""
    size: int = thread.block.shared.get(DYNAMIC_BYTES, thread.grid.shared_bytes)
    return size
