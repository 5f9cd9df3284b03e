"""The pace of reading and sending: often enough to look live, seldom enough not to slow down the program shown.

One thread, a daemon, reads traces and sends frames for all widgets, so that neither the user's loop nor the driver's
threads do. A widget sends at most 30 frames a second, and at most two that no view has acknowledged: a silent view (a
hidden tab, a kernel with a busy cell) slows it down to one frame a second. What a reading and its pictures cost of the
processor decides when the next may be: they take a small share of the time while the program uses the processor, a
larger one while it does not, or the share that was asked for; the first news after a rest are drawn at once.
Each frame is the whole picture, so nothing is lost when frames are skipped.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import ref

from atops.base.locks import fork_safe
from atops.base.log_fields import get_logger

if TYPE_CHECKING:
    from atops_widgets.feed.feed import Feed, Watcher

__all__ = ("FRAME_S", "PATIENCE_S", "Flow", "Pace", "call_later", "call_soon", "tried")

LOCK: Final = fork_safe(threading.Lock())
END_S: Final = 5.0  # that a reading may take which is under way when the interpreter ends
LOOPS: dict[int, asyncio.AbstractEventLoop] = {}  # by process: a forked child has a thread of its own


def _loop() -> asyncio.AbstractEventLoop:
    """Return this process's loop; start its thread if there is none."""
    with LOCK:
        loop = LOOPS.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            LOOPS.clear()
            LOOPS[os.getpid()] = loop
            thread = threading.Thread(target=loop.run_forever, name="atops-widgets", daemon=True)
            thread.start()
            atexit.register(_end, os.getpid(), loop, thread)
        return loop


def _end(process: int, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """End the thread before the interpreter does: one that is ended inside numpy's C++ code aborts the process."""
    if process == os.getpid():
        loop.call_soon_threadsafe(loop.stop)
        thread.join(END_S)


def call_soon(function: Callable[..., object], *arguments: object) -> None:
    """Call a function on the widgets' thread, soon, in order. From any thread; returns at once."""
    _loop().call_soon_threadsafe(function, *arguments)


def call_later(seconds: float, function: Callable[..., object]) -> asyncio.TimerHandle:
    """Call a function in some seconds. On the widgets' thread only."""
    return asyncio.get_running_loop().call_later(seconds, function)


FRAME_S: Final = 1 / 30
MOST_UNACKNOWLEDGED: Final = 2
PATIENCE_S: Final = 1.0  # how long a view may stay silent before frames go out without its acknowledgement


@dataclass(slots=True)
class Flow:
    """The frames of one widget: their numbers, which view has acknowledged which, and when the next may go."""

    frame: int = 0
    sent_at: float = float("-inf")
    views: dict[str, int] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)  # views out of sight: they are sent nothing

    def hello(self, view: str, last: int) -> bool:
        """Note a view that has seen frame `last` (0: none); return whether it needs the picture anew."""
        self.away.discard(view)
        self.views[view] = self.frame
        return last != self.frame

    def leave(self, view: str) -> None:
        """Send a view nothing until it says hello again: it is out of sight."""
        self.views.pop(view, None)
        self.away.add(view)

    def acknowledge(self, view: str, frame: int) -> None:
        """Note that a view has received a frame."""
        if view not in self.away:
            self.views[view] = max(self.views.get(view, 0), min(frame, self.frame))

    def bye(self, view: str) -> None:
        """Forget a view that was closed."""
        self.views.pop(view, None)
        self.away.discard(view)

    def wait(self, now: float) -> float | None:
        """Return in how many seconds the next frame may go, 0.0 for now, None without a view in sight."""
        if not self.views:
            return None
        unacknowledged = self.frame - min(self.views.values())
        pause = PATIENCE_S if unacknowledged >= MOST_UNACKNOWLEDGED else FRAME_S
        return max(0.0, self.sent_at + pause - now)

    def sent(self, now: float) -> int:
        """Count a frame that goes out now, and return its number."""
        self.frame += 1
        self.sent_at = now
        return self.frame


LOG: Final = get_logger("atops.widgets")

SHARE: Final = 0.05  # of one processor while the program uses it; details cost it more, in its own threads
IDLE_SHARE: Final = 0.15  # while it does not: the program is not slowed down
RESTS, WORKS = 0.05, 0.25  # of a processor: what a program uses that does not work, and one that does
PORTION: Final = 1024  # rows of a kind that are read at once after the first time; the rest waits in the driver's ring
IDLE_S: Final = 0.1  # between readings while nothing happens
LONGEST_PAUSE_S: Final = 1.0  # what cost more is not made up for: the picture would stand; longer for a smaller share
NEWEST: Final = 256  # rows that are read where reading is behind
BEHIND_S: Final = 0.1  # behind by more than this, only the newest is read, until nothing is left out any more
QUIET_S: Final = 1.0  # without news for so long, the widgets write what a saved notebook shows


class Pace:
    """The timer of one feed, on the widgets' thread. It does not keep the feed alive.

    `share` is the part of one processor that it may take, always; None: SHARE while the program works, up to
    IDLE_SHARE where it takes hardly any of it.
    """

    def __init__(self, feed: Feed, share: float | None = None) -> None:
        self._feed = ref(feed)
        self._share = share
        self._used: tuple[float, float, float] | None = None  # at the last news, or the first turn: this thread's clock
        self._longest = LONGEST_PAUSE_S * max(1.0, SHARE / (share or SHARE))
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._news_at = self._even_at = time.monotonic()
        self._rested = -1
        self._woken = False
        self._skips = False  # whether it reads only the newest, until it has caught up
        self._followed = False  # whether it has read what there was at the first turn, all at once

    def wake(self) -> None:
        """Read and send soon: at once, or when the share of the processor allows it. From any thread."""
        if not self._woken:
            self._woken = True
            call_soon(self._set_timer, 0.0)

    def _set_timer(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._woken = False
        self._timer = call_later(max(delay, self._not_before - time.monotonic(), 0.0), self._turn)

    def _turn(self) -> None:
        feed = self._feed()
        self._timer = None
        if feed is None or not feed.watchers():
            return  # a feed without widgets is read by its owner
        if self._used is None:
            self._used = _clocks()
        began, at, waiting = time.thread_time(), time.monotonic(), feed.unread()
        self._skips = waiting > PORTION and (self._skips or feed.behind_s > BEHIND_S)
        if self._skips and self._followed:
            feed.skip(NEWEST)
            waiting = NEWEST
        try:
            fresh = feed.poll(PORTION if self._followed else None)
            self._note_lag(feed, at, waiting)
        except Exception:
            LOG.exception("reading the trace failed; %r stops", feed)
            feed.stop()
            return
        now = time.monotonic()
        asked = [tried("%r could not be drawn", each, each.tick, now) for each in feed.watchers()]
        waits = [wait for wait in asked if wait is not None]
        if fresh:
            self._news_at = now
            self._not_before = at + min((time.thread_time() - began) / self._share_now(), self._longest)
        else:
            self._rest(feed, now)
        if feed.live and not feed.paused:
            waits.append(FRAME_S if fresh else IDLE_S)
        if waits:
            self._set_timer(min(waits))

    def _share_now(self) -> float:
        """Return the share that was asked for, or one by what the rest of the process has used since the last news."""
        if self._share is not None:
            return self._share
        now = _clocks()
        then, self._used = self._used or now, now
        passed, used, own = (late - early for late, early in zip(now, then, strict=True))
        busy = (used - own) / max(passed, 1e-9)
        rests = (WORKS - busy) / (WORKS - RESTS)
        return SHARE + (IDLE_SHARE - SHARE) * min(1.0, max(0.0, rests))

    def _note_lag(self, feed: Feed, at: float, waiting: int) -> None:
        """Note how long ago all that there was had been read; what came meanwhile is no lag."""
        if waiting <= PORTION or not self._followed:
            self._even_at = at
            self._followed = True
        feed.behind_s = at - self._even_at

    def _rest(self, feed: Feed, now: float) -> None:
        """Let the widgets write what a saved notebook shows, once after each burst of news."""
        if now - self._news_at >= QUIET_S and self._rested != feed.version and (feed.version or not feed.live):
            self._rested = feed.version
            for watcher in feed.watchers():
                tried("%r could not be saved", watcher, watcher.rest)


def _clocks() -> tuple[float, float, float]:
    """Return the time, and the processor time of the process and of this thread, in seconds."""
    return time.monotonic(), time.process_time(), time.thread_time()


def tried(complaint: str, watcher: Watcher, act: Callable[..., float | None], *arguments: float) -> float | None:
    """Return what a function returns; None, and a complaint in the log, where it fails."""
    try:
        return act(*arguments)
    except Exception:
        LOG.exception(complaint, watcher)
        return None
