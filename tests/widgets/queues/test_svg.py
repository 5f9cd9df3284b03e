"""Where the tokens of a queue stand in the SVG: the same rules as the script's, tested on all sorts of queues."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import Kind, Status, Trace, TraceNames, TraceRecord
from atops_widgets import Queues
from atops_widgets.queues.svg import layout, token_width


@pytest.mark.slow
@given(st.integers(0, 70), st.integers(0, 20_000), st.sets(st.integers(0, 30_000), max_size=3), st.integers(700, 1500))
def test_every_command_is_drawn_or_counted(front: int, more: int, kept: set[int], room: int) -> None:
    """Tokens and gaps stand beside each other in order, add up to the queue, and what must be seen is drawn."""
    total = front + more
    positions = sorted({*range(front), *(each for each in kept if each < total)})
    tokens = [(position, 22.0, position in kept) for position in positions]
    spots = layout(tokens, total, room)
    drawn = [which for what, _, _, which in spots if what == "token"]
    assert len(drawn) + sum(which for what, _, _, which in spots if what == "gap") == total
    assert {positions[which] for which in drawn} >= {each for each in kept if each < total}
    edges = [edge for _, x, width, _ in spots for edge in (x, x + width)]
    assert edges == sorted(edges)
    assert not edges or edges[-1] <= room


def test_long_names_are_cut() -> None:
    """A token has room for its label, up to a bound."""
    assert token_width("") < token_width("scale") < token_width("x" * 16) == token_width("x" * 99)


def test_names_have_the_room_that_they_need() -> None:
    """Short names leave it to the queues; in a narrow picture long ones are cut."""
    def head(name: str, width: int) -> float:
        fill = TraceRecord(0, Kind.FILL, 0, 1, 0, 0, 1, Status.DONE)
        picture = Queues(Trace((fill,), names=TraceNames(streams={(0, 1): name}))).to_svg(width=width)
        found = re.search(r'<rect x="([\d.]+)"[^>]* width="2.0"[^>]*var\(--line\)', picture)
        assert found is not None
        return float(found[1])

    assert head("s", 960) < head("a stream with a name", 960) < head("n" * 99, 960)
    assert head("n" * 99, 400) < head("n" * 99, 960)
