"""Kernel signals: values modulo 2**32, their conditions, and who is woken."""

from __future__ import annotations

import pytest

from atops.base.errors import InvalidValue
from atops.device.memory.value_wait import Condition, satisfied
from atops.device.signals import KernelSignals
from tests.every import every


class Waiter:
    def __init__(self, condition, value, log=None):
        self.condition, self.value, self.log = condition, value, log if log is not None else []

    def met(self, now):
        return satisfied(now, self.value, Condition.of(self.condition))

    def wake(self):
        self.log.append(self)


TABLE = [
    ("gte", 5, 5, True),
    ("gte", 4, 5, False),
    ("gte", 0, 0xFFFFFFFF, True),  # cyclic: 0 comes just after the largest
    ("gte", 0xFFFFFFFF, 0, False),
    ("gte", 0x7FFFFFFF, 0, True),
    ("gte", 0x80000000, 0, False),
    ("gteunsigned", 0, 0xFFFFFFFF, False),
    ("gteunsigned", 0xFFFFFFFF, 0, True),
    ("gteunsigned", 5, 5, True),
    ("eq", 5, 5, True),
    ("eq", 5, 6, False),
    ("and", 6, 2, True),
    ("and", 6, 1, False),
    ("and", 6, 0, False),
    ("nor", 0, 0, True),
    ("nor", 0xFFFFFFFF, 0, False),
    ("nor", 0xFFFF0000, 0x0000FFFF, False),
    ("nor", 0xFFFF0000, 0x0000FFFE, True),
]


@every("condition, now, value, met", TABLE)
def test_conditions(condition, now, value, met):
    """Each condition compares as the runtime's wait-value does."""
    assert Waiter(condition, value).met(now) is met


def test_values_wrap_and_add_returns_the_value_before():
    """Values are 32 bits wide."""
    signals = KernelSignals(4)
    signals.set(1, -1)
    assert signals.read(1) == 0xFFFFFFFF
    assert signals.add(1, 2) == 0xFFFFFFFF
    assert [signals.read(index) for index in range(4)] == [0, 1, 0, 0]
    assert len(signals) == 4


def test_waiters_are_woken_in_order_when_their_own_condition_is_met():
    """A store wakes those it satisfies, the longest-waiting first; the others stay."""
    signals, log = KernelSignals(2), []
    waiters = [Waiter("gte", value, log) for value in (3, 1, 2)]
    assert not any(signals.park(0, waiter) for waiter in waiters)
    signals.set(1, 9)
    assert log == []
    signals.set(0, 2)
    assert log == [waiters[1], waiters[2]]
    signals.add(0)
    assert log == [waiters[1], waiters[2], waiters[0]]
    signals.set(0, 0)
    signals.set(0, 9)
    assert len(log) == 3


def test_a_condition_already_met_does_not_park():
    """Whoever comes late goes on at once, and nothing is left in the lot."""
    signals = KernelSignals(1)
    signals.set(0, 7)
    assert signals.park(0, Waiter("eq", 7))
    assert "0 waiting" in repr(signals)


def test_a_waiter_that_gave_up_is_not_woken():
    """A discarded waiter is forgotten."""
    signals, log = KernelSignals(1), []
    waiter = Waiter("eq", 1, log)
    signals.park(0, waiter)
    signals.discard(0, waiter)
    signals.set(0, 1)
    assert log == []


def test_waiters_may_use_the_signals_when_they_are_woken():
    """No lock is held while somebody is woken."""
    signals = KernelSignals(2)

    class Chain(Waiter):
        def wake(self):
            signals.set(1, 5)

    signals.park(0, Chain("eq", 1))
    signals.set(0, 1)
    assert signals.read(1) == 5


@pytest.mark.parametrize("index", [-1, 4])
def test_there_are_no_other_signals(index):
    """An index out of range is refused everywhere, with the right ones."""
    signals = KernelSignals(4)
    for use in (signals.read, lambda i: signals.set(i, 1), signals.add, lambda i: signals.park(i, Waiter("eq", 9))):
        with pytest.raises(InvalidValue, match=f"kernel signal is {index}; this chip has 0 to 3"):
            use(index)


def test_reset_stores_zero_everywhere():
    """After a reset every signal is 0 again."""
    signals = KernelSignals(3)
    signals.set(2, 5)
    signals.reset()
    assert [signals.read(index) for index in range(3)] == [0, 0, 0]
