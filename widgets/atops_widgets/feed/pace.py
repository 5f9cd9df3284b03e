"""When a feed reads and its widgets send: often enough to look live, seldom enough not to slow down what it shows."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final
from weakref import ref

from atops_widgets.feed.background import call_later, call_soon
from atops_widgets.feed.flow import FRAME_S

if TYPE_CHECKING:
    from atops_widgets.feed.feed import Feed, Watcher

__all__ = ("Pace",)

LOG: Final = logging.getLogger("atops.widgets")

SHARE: Final = 0.015  # of one processor, at most, while the driver works; details cost it more, in its own threads
PORTION: Final = 4096  # rows of a kind that are read at once; what is left waits in the driver's ring
IDLE_S: Final = 0.1  # between readings while nothing happens
QUIET_S: Final = 1.0  # without news for so long, the widgets write what a saved notebook shows


class Pace:
    """The timer of one feed, on the widgets' thread. It does not keep the feed alive."""

    def __init__(self, feed: Feed) -> None:
        self._feed = ref(feed)
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._news_at = time.monotonic()
        self._rested = -1
        self._woken = False

    def wake(self) -> None:
        """Have a turn soon: at once, or when the share of the processor allows it. From any thread."""
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
        began = time.thread_time()
        try:
            fresh = feed.poll(PORTION)
        except Exception:
            LOG.exception("reading the trace failed; %r stops", feed)
            feed.stop()
            return
        now = time.monotonic()
        waits = [wait for watcher in feed.watchers() if (wait := _look_after(watcher, now)) is not None]
        if fresh:
            self._news_at = now
            self._not_before = time.monotonic() + (time.thread_time() - began) / SHARE
        else:
            self._rest(feed, now)
        if feed.live and not feed.paused:
            waits.append(FRAME_S if fresh else IDLE_S)
        if waits:
            self._set_timer(min(waits))

    def _rest(self, feed: Feed, now: float) -> None:
        """Let the widgets write what a saved notebook shows, once after each burst of news."""
        if now - self._news_at >= QUIET_S and self._rested != feed.version and (feed.version or not feed.live):
            self._rested = feed.version
            for watcher in feed.watchers():
                _save(watcher)


def _save(watcher: Watcher) -> None:
    try:
        watcher.rest()
    except Exception:
        LOG.exception("%r could not be saved", watcher)


def _look_after(watcher: Watcher, now: float) -> float | None:
    try:
        return watcher.tick(now)
    except Exception:
        LOG.exception("%r could not be drawn", watcher)
        return None
