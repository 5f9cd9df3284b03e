"""The drawing of a run: a lane for each actor, and where it stood when its turns came."""

from __future__ import annotations

from atops.base.choice import Name, told
from atops.checking.actors import short
from atops.checking.drawing import WIDTH, difference, drawing


def test_a_long_place_keeps_its_line() -> None:
    """What does not fit into a lane is cut at its front: the number of the line stands whole."""
    places = ["a_service_with_a_long_name.py:1234", "short.py:5"]
    lines = drawing([("task", 0), ("task", 1)], places)
    cut = next(line for line in lines if "1234" in line)
    assert "…service_with_a_long_name.py:1234"[-WIDTH + 1 :] in cut and "a_service_with" not in cut
    assert any(line.rstrip().endswith("short.py:5") for line in lines)


def test_a_second_step_of_a_stream_is_told_as_the_stream() -> None:
    """Its name has a number behind it, to be another one while both are ready."""
    assert told(("stream", 0, 4, 2)) == short(("stream", 0, 4, 2)) == "stream 4"
    lines = drawing([("stream", 0, 3), ("stream", 0, 4, 2), ("stream", 0, 4), ("time", "goes on")])
    assert lines[0].split() == ["stream", "3", "stream", "4", "time", "goes", "on"]
    assert lines[2].split() == ["2", "|", "*", "x", "2", "|"]


def test_a_long_name_stands_whole_above_its_lane() -> None:
    """It takes as many lines as it needs, of the lane's width."""
    lines = drawing([("task", 0), ("timer", "of the watch for streams that stand still")])
    name = [line.split("  ")[-1].strip() for line in lines[:2]]
    assert name == ["timer of the watch for", "streams that stand still"]
    assert lines[0].split()[:2] == ["task", "0"] and lines[2].split() == ["1", "*", "|"]


def test_the_head_of_a_difference_fits_its_number() -> None:
    """None, one and several choices that are the same are told in their own words."""
    one: list[Name] = [("stream", 1)] * 3
    heads = [difference(one, [*one[:at], ("stream", 2)])[0] for at in range(3)]
    assert heads == ["the first choice differs:", "the first choice of both runs is the same; then",
                     "the first 2 choices of both runs are the same; then"]  # fmt: skip
