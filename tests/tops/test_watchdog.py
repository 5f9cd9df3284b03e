"""What looks after random calls sees what is wrong."""

from __future__ import annotations

import threading

import pytest

import atops.tops as tops
from tests.runtime.boards import PATIENCE, Latch
from tests.tops import watchdog
from tests.tops.watchdog import Watchdog, books, check_answer

SUCCESS, INVALID = tops.topsSuccess, tops.topsErrorInvalidValue


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (SUCCESS, "expected a tuple"),
        ([SUCCESS, 1], "expected a tuple"),
        ((0, 1), "expected a topsError_t in front"),
        ((tops.TOPSRTC_SUCCESS, 1), "expected a topsError_t in front"),
        ((SUCCESS,), "expected 1 results"),
        ((SUCCESS, 1, 2), "expected 1 results"),
        ((INVALID, 1), "failed and has results"),
        ((INVALID, None), "left another last error"),
        ((tops.topsErrorUnknown, None), "unexpected error"),
    ],
)
def test_answers_of_another_shape(world, answer, complaint: str):
    """An answer is a tuple of a code and as many results as the table says; a failure has none, and is remembered."""
    with pytest.raises(AssertionError, match=complaint):
        check_answer("topsMalloc", "topsMalloc(8)", answer)
    check_answer("topsMalloc", "topsMalloc(8)", (SUCCESS, 1))


def test_a_call_that_raises_is_named(world, monkeypatch):
    """What a call raises fails the run, with the call's name and arguments."""
    def raising(*arguments):
        raise KeyError("x")

    monkeypatch.setattr(watchdog, "implementation", lambda name: raising)
    dog = Watchdog(world.driver)
    with pytest.raises(AssertionError, match=r"topsMalloc\(8\) raised KeyError"):
        dog.run(lambda: dog.call("topsMalloc", (8,)))


def test_what_waits_is_let_go(world):
    """A call that waits for what never happens returns all the same: its stream is aborted."""
    latch, dog = Latch(world.device), Watchdog(world.driver)
    latch.hold(world.device.null_stream)
    answers = []
    dog.run(lambda: answers.append(dog.call("topsStreamSynchronize", (None,))))
    assert answers == [(SUCCESS,)]  # dropped commands poison no stream
    assert dog.let_go


def test_a_call_that_never_returns_is_named(world, monkeypatch, capfd):
    """Where letting go does not help the call is named, and the test goes on."""
    gate = threading.Event()
    monkeypatch.setattr(watchdog, "implementation", lambda name: lambda size: gate.wait(PATIENCE) and (SUCCESS, 1))
    monkeypatch.setattr(watchdog, "LIMIT", 0.1)
    dog = Watchdog(world.driver)
    with pytest.raises(AssertionError, match=r"topsMalloc\(8\) does not come back"):
        dog.run(lambda: dog.call("topsMalloc", (8,)))
    gate.set()


def test_books_that_do_not_agree(world):
    """A byte too many in a figure, or an allocation without a range, is seen."""
    pointer = tops.check(tops.topsMalloc(1000))
    books(world.driver)
    memory = world.device.context.memory
    memory._banks.used += 256
    with pytest.raises(AssertionError, match="1280 bytes are used, 1024 are set aside"):
        books(world.driver)
    memory._banks.used -= 256
    assert tops.topsFree(pointer) == (SUCCESS,)
    books(world.driver)
