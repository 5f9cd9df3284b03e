"""The pace of a feed: a bounded share of the processor, few frames, one rest after each burst of news."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from atops_widgets.feed import pace
from atops_widgets.feed.pace import (
    FRAME_S,
    IDLE_S,
    IDLE_SHARE,
    LONGEST_PAUSE_S,
    NEWEST,
    PATIENCE_S,
    PORTION,
    QUIET_S,
    SHARE,
    Flow,
    Pace,
)


class Clocks:
    """A wall clock and a clock of processor time that only a test moves, and the timers that were set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wall = self.worked = 0.0
        self.busy = 1.0  # processors that the rest of the program uses
        self.delay: float | None = None
        self.due: Callable[[], object] | None = None
        patch.setattr(pace, "time", SimpleNamespace(
            monotonic=lambda: self.wall, thread_time=lambda: self.worked,
            process_time=lambda: self.busy * self.wall + self.worked,
        ))  # fmt: skip
        patch.setattr(pace, "call_soon", lambda function, *arguments: function(*arguments))
        patch.setattr(pace, "call_later", self._later)

    def turn(self) -> None:
        """Let the time pass until the timer is due, and have the turn."""
        assert self.delay is not None and self.due is not None
        self.wall += self.delay
        due, self.delay, self.due = self.due, None, None
        due()

    def _later(self, seconds: float, function: Callable[[], object]) -> SimpleNamespace:
        self.delay, self.due = seconds, function
        return SimpleNamespace(cancel=lambda: None)


class Fed:
    """A feed whose readings take a given time of the processor and bring a given number of rows."""

    def __init__(self, clocks: Clocks, rows: int, cost: float, *, live: bool = True) -> None:
        self.clocks, self.rows, self.cost, self.live = clocks, rows, cost, live
        self.paused = False
        self.version = 0
        self.rests = self.ticks = 0
        self.behind_s = 0.0
        self.waiting = 0
        self.skipped: list[int] = []
        self.limits: list[int | None] = []  # of each reading
        self.wanted: float | None = None

    def poll(self, limit: int | None) -> int:
        """Bring rows, within what may be asked for at once."""
        self.limits.append(limit)
        self.clocks.worked += self.cost
        self.clocks.wall += self.cost
        rows = (self.rows if limit is None else min(self.rows, limit)) if self.live and not self.paused else 0
        self.version += rows > 0
        return rows

    def unread(self) -> int:
        """Return how many rows wait."""
        return self.waiting

    def skip(self, most: int) -> None:
        """Note what was left out."""
        self.skipped.append(most)

    def watchers(self) -> list[Fed]:
        """Watch itself."""
        return [self]

    def tick(self, now: float) -> float | None:
        """Count a turn."""
        self.ticks += 1
        return self.wanted

    def rest(self) -> None:
        """Count a rest."""
        self.rests += 1


def pace_of(fed: Fed, share: float | None = None) -> Pace:
    """Return the pace of a stand-in for a feed."""
    feed: Any = fed
    return Pace(feed, share)


def test_a_working_driver_keeps_its_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """While records come, reading and drawing take at most their share, and are not stopped; dear pictures, too."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=10**6, cost=0.02)  # four pictures beside a busy program
    paced = pace_of(fed)
    paced.wake()
    for _ in range(50):
        clocks.turn()
        paced.wake()  # a page that asks all the time
    clocks.turn()
    assert fed.ticks == 51
    assert clocks.worked / clocks.wall <= SHARE * 1.05


def test_what_is_behind_reads_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there at first is read at once; later, when reading is behind, all but the newest is left out."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=10**6, cost=0.001)
    paced = pace_of(fed)
    paced.wake()
    fed.waiting = 10**5
    clocks.turn()
    assert fed.limits == [None] and fed.behind_s == 0 and fed.skipped == []
    for _ in range(30):
        clocks.turn()
    assert fed.limits == [None] + [PORTION] * 30
    assert fed.skipped == [NEWEST] * len(fed.skipped) and len(fed.skipped) > 20  # in all turns from the first on
    fed.waiting = PORTION
    fed.skipped.clear()
    clocks.turn()
    assert fed.skipped == [] and fed.behind_s == 0


def test_what_is_out_of_sight_is_sent_nothing() -> None:
    """A view that went out of sight has no frames, nor do late acknowledgements count, until it says hello again."""
    flow = Flow()
    flow.hello("page", 0)
    assert flow.wait(1.0) == 0.0 and flow.sent(1.0) == 1
    flow.leave("page")
    flow.acknowledge("page", 1)
    assert flow.wait(9.0) is None and flow.away == {"page"}
    assert not flow.hello("page", 1) and flow.wait(9.0) == 0.0
    flow.leave("page")
    flow.bye("page")
    assert not flow.away


def test_a_resting_program_is_shown_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The less of the processor the program uses, the more of it pictures may take."""
    shares = []
    for busy in (0.0, 0.04, 0.15, 0.9, 1.7, 0.5):
        clocks = Clocks(monkeypatch)
        clocks.busy = busy
        fed = Fed(clocks, rows=5, cost=0.012)
        paced = pace_of(fed)
        paced.wake()
        for _ in range(100):
            clocks.turn()
        shares.append(clocks.worked / clocks.wall)
    assert shares[0] == pytest.approx(shares[1]) and shares[3] == pytest.approx(shares[4])
    assert IDLE_SHARE * 0.8 < shares[0] <= IDLE_SHARE * 1.02 and SHARE * 0.8 < shares[4] <= SHARE * 1.02
    assert shares[1] > shares[2] > shares[5] == pytest.approx(shares[3])


@pytest.mark.parametrize("busy", [0.0, 1.7])
def test_a_share_that_was_asked_for_is_the_share(monkeypatch: pytest.MonkeyPatch, busy: float) -> None:
    """A share that was given is not changed by what the program does."""
    clocks = Clocks(monkeypatch)
    clocks.busy = busy
    fed = Fed(clocks, rows=5, cost=0.012)
    paced = pace_of(fed, 0.1)
    paced.wake()
    for _ in range(100):
        clocks.turn()
    assert 0.08 < clocks.worked / clocks.wall <= 0.1 * 1.02


def test_only_the_clock_of_the_thread_that_reads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the thread that made the pace has used before is not taken for the reading thread's."""
    clocks = Clocks(monkeypatch)
    clocks.busy = 0.0
    fed = Fed(clocks, rows=5, cost=0.012)
    paced = pace_of(fed)
    monkeypatch.setattr(pace.time, "thread_time", lambda: clocks.worked - 50.0)  # another thread's
    paced.wake()
    clocks.turn()
    assert clocks.delay == pytest.approx(0.012 / IDLE_SHARE - 0.012)  # since the turn began


def test_the_first_news_after_a_rest_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pictures have cost is paid off while nothing happens."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=5, cost=0.02)
    paced = pace_of(fed)
    paced.wake()
    clocks.turn()
    assert clocks.delay is not None and clocks.delay > IDLE_S
    fed.rows, fed.cost = 0, 0.0
    for _ in range(2):
        clocks.turn()
    fed.rows = 5
    assert clocks.delay is not None and clocks.delay <= IDLE_S


def test_what_comes_while_one_reads_is_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that never rests is followed: each reading takes all that was there when it began."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=PORTION, cost=0.001)
    paced = pace_of(fed)
    paced.wake()
    fed.waiting = PORTION  # again each time that one looks
    for _ in range(30):
        clocks.turn()
        assert fed.behind_s == 0
    assert fed.skipped == []


def test_one_costly_reading_does_not_stop_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reading may take long; what a page asks for then is answered within two seconds all the same."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=1, cost=0.5)
    paced = pace_of(fed)
    paced.wake()
    clocks.turn()
    asked_at = clocks.wall
    paced.wake()
    clocks.turn()
    assert fed.ticks == 2
    assert clocks.wall - asked_at <= LONGEST_PAUSE_S + fed.cost


def test_a_cheap_feed_is_read_at_the_rate_of_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little work is looked at thirty times a second; nothing new, ten times; paused or ended, never by itself."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=3, cost=0.0)
    paced = pace_of(fed)
    paced.wake()
    clocks.turn()
    assert clocks.delay == FRAME_S
    fed.rows = 0
    clocks.turn()
    assert clocks.delay == IDLE_S
    fed.paused = True
    clocks.turn()
    assert clocks.delay is None
    paced.wake()
    assert clocks.delay == 0.0


def test_a_widget_that_waits_is_looked_after_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an ended feed only what the widgets wait for is timed."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=0, cost=0.0, live=False)
    fed.wanted = 0.5
    pace_of(fed).wake()
    paced = pace_of(fed)
    paced.wake()
    clocks.turn()
    assert clocks.delay == 0.5


def test_quiet_writes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second after the last news the pictures are written, once, and again only after more news."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=5, cost=0.0)
    paced = pace_of(fed)
    paced.wake()
    for rows, turns, rests in ((5, 3, 0), (0, int(QUIET_S / IDLE_S) - 2, 0), (0, 30, 1), (5, 1, 1), (0, 30, 2)):
        fed.rows = rows
        for _ in range(turns):
            clocks.turn()
        assert fed.rests == rests


def test_a_failing_feed_stops(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A reading that fails is logged, and the feed stops instead of failing for ever."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=0, cost=0.0)
    stopped: list[bool] = []
    fed.poll = lambda limit: 1 // 0  # type: ignore[method-assign]
    fed.stop = lambda: stopped.append(True)  # type: ignore[attr-defined]
    paced = pace_of(fed)
    paced.wake()
    clocks.turn()
    assert stopped == [True] and clocks.delay is None
    assert "reading the trace failed" in caplog.text


def test_a_picture_that_cannot_be_saved_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next news are read and drawn all the same."""
    clocks = Clocks(monkeypatch)
    fed = Fed(clocks, rows=1, cost=0.0)
    fed.rest = lambda: 1 // 0  # type: ignore[method-assign,assignment,return-value]
    paced = pace_of(fed)
    paced.wake()
    clocks.turn()
    fed.rows = 0
    for _ in range(int(QUIET_S / IDLE_S) + 2):
        clocks.turn()
    assert "could not be saved" in caplog.text
    assert clocks.delay is not None


def test_without_a_viewer() -> None:
    """Without a view nothing is sent; a view that says bye is forgotten."""
    flow = Flow()
    assert flow.wait(0.0) is None
    flow.hello("a", 0)
    assert flow.wait(0.0) == 0.0
    flow.bye("a")
    assert flow.wait(0.0) is None


def test_thirty_a_second() -> None:
    """A view that acknowledges everything at once gets a frame every thirtieth of a second."""
    flow = Flow()
    flow.hello("a", 0)
    flow.acknowledge("a", flow.sent(10.0))
    assert flow.wait(10.0) == pytest.approx(FRAME_S)
    assert flow.wait(10.0 + FRAME_S) == pytest.approx(0.0, abs=1e-9)


def test_two_frames_ahead_of_the_slowest_view() -> None:
    """After two frames that one view has not acknowledged, the next waits; the acknowledgement lets it go."""
    flow = Flow()
    flow.hello("a", 0)
    flow.hello("b", 0)
    for at in (0.0, 1.0):
        flow.acknowledge("a", flow.sent(at))
    assert flow.wait(1.5) == pytest.approx(PATIENCE_S - 0.5)
    flow.acknowledge("b", 1)
    assert flow.wait(1.5) == 0.0


def test_a_silent_view_gets_one_frame_a_second() -> None:
    """Without any acknowledgement a frame goes out when the patience is over."""
    flow = Flow()
    flow.hello("a", 0)
    for number in range(5):
        flow.sent(float(number))
        assert flow.wait(number + PATIENCE_S) == 0.0
    assert flow.wait(4.1) == pytest.approx(PATIENCE_S - 0.1)


def test_hello_tells_which_viewer_needs_the_picture() -> None:
    """A view that has the newest frame needs nothing; a new one, or one of another kernel's life, does."""
    flow = Flow()
    frame = flow.sent(0.0)
    assert flow.hello("a", 0)
    assert not flow.hello("b", frame)
    assert flow.hello("c", frame + 5)
    flow.acknowledge("c", 99)
    assert flow.views["c"] == frame


@pytest.mark.slow
def test_the_thread_ends_before_the_interpreter() -> None:
    """One that stands in C++ code when the interpreter ends would abort the process."""
    program = (
        "import atexit, threading\n"
        "atexit.register(lambda: print([each.name for each in threading.enumerate()]))\n"
        "import atops_widgets\n"
        "atops_widgets.Queues()._repr_mimebundle_()\n"
        "print(any(each.name == 'atops-widgets' for each in threading.enumerate()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n['MainThread']\n", done.stderr
