"""Frames go out at most 30 times a second, two ahead of a view at most, and never stop for a view that is silent."""

from __future__ import annotations

import pytest

from atops_widgets.feed.pace import FRAME_S, PATIENCE_S, Flow


def test_nobody_looks() -> None:
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


def test_hello_tells_who_needs_the_picture() -> None:
    """A view that has the newest frame needs nothing; a new one, or one of another kernel's life, does."""
    flow = Flow()
    frame = flow.sent(0.0)
    assert flow.hello("a", 0)
    assert not flow.hello("b", frame)
    assert flow.hello("c", frame + 5)
    flow.acknowledge("c", 99)
    assert flow.views["c"] == frame
