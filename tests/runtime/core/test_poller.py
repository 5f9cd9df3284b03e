"""The timer of polled value waits: one, and only while there is a waiter."""

from __future__ import annotations

from atops.device.memory.value_wait import Condition, Watch
from atops.runtime.core.poller import Poller
from tests.runtime.boards import device


class Timers:
    """An executor whose timers the test lets run."""

    def __init__(self):
        self.due = []

    def later(self, delay, function):
        """Keep a timer."""
        self.due.append(function)


class Lock:
    """A lock that lets another thread in behind each holder."""

    def __init__(self):
        self.behind = []

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if self.behind:
            self.behind.pop(0)()


def watches(board, count=2):
    """Return armed waits for words that are 0."""
    memory = board.allocate(64)
    board.create_stream().fill(memory, 0).wait_sync()
    made = [Watch(memory.allocation, 8 * each, 32, 1, Condition.Eq, None, lambda: None) for each in range(count)]
    for watch in made:
        watch.arm()
    return made


def test_one_timer_runs_for_all_and_ends_with_the_last():
    """It is asked for by the first wait, again while any is armed, and no more then."""
    with device() as board:
        timers, (one, other) = Timers(), watches(board)
        poller = Poller(Lock(), timers, 1, Watch.test)
        poller.add(one)
        poller.add(other)
        assert len(timers.due) == 1
        timers.due.pop()()
        assert len(timers.due) == 1 and len(poller) == 2
        one.cancel()
        other.cancel()
        timers.due.pop()()
        assert timers.due == [] and len(poller) == 0


def test_a_wait_that_comes_as_the_last_one_goes_has_one_timer():
    """Between the look at what is left and the next timer another thread adds a wait: it alone starts one."""
    with device() as board:
        timers, lock, (one, other) = Timers(), Lock(), watches(board)
        poller = Poller(lock, timers, 1, Watch.test)
        poller.add(one)
        one.cancel()
        lock.behind = [lambda: None, lambda: poller.add(other)]
        timers.due.pop()()
        assert len(timers.due) == 1 and len(poller) == 1
