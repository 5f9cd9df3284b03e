"""The scene, SVG and text of the memory map: moments, thinning, what operations touched, and odd wishes of a page."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from atops.base.records import CounterSample, Trace, TraceNames
from atops_widgets import MemoryMap
from atops_widgets.feed import Feed
from atops_widgets.memory_map_lanes import State
from atops_widgets.memory_map_scene import MemoryPicture
from atops_widgets.memory_map_touches import operations_on
from atops_widgets.scene import Scene, Window
from tests.widgets.memory_map_traces import BANK, GIB, MIB, crowded, training
from tests.widgets.traces import US


def picture(trace: Trace | None = None) -> MemoryPicture:
    """Return the picture of a trace."""
    return MemoryPicture(Feed(training() if trace is None else trace))


def states(scene: Scene) -> dict[State, int]:
    """Return how many shapes there are in each state."""
    values, counts = np.unique(scene.columns["state"], return_counts=True)
    return {State(value): count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def test_the_state_is_that_of_the_cursor() -> None:
    """At the end, in the middle and before the first allocation, the lanes and the heading show that moment."""
    shown = picture()
    assert states(shown.scene(Window())) == {State.FREED: 4, State.KEPT: 1, State.LIVE: 7, State.REUSED: 1}
    shown.feed.selection.look_at(100 * US)
    middle = shown.scene(Window())
    assert states(middle) == {State.LIVE: 9}
    assert "392 MiB of 48 GiB in use at 95 µs by 9 allocations" in middle.told["say"]
    shown.feed.selection.look_at(0)
    assert shown.scene(Window()).told["lanes"] == []


def test_a_hundred_thousand_ranges_are_thinned_and_said_so() -> None:
    """At most two shapes a pixel and lane; counts and bytes add up; zoomed in, ranges stand on their own."""
    shown = MemoryPicture(crowded())
    scene = shown.scene(Window(width=1000))
    ranges, shapes = scene.told["shown"]
    assert ranges == 100_000 and shapes <= 3 * 2 * 1000
    assert scene.told["note"] == f"100,000 ranges, thinned to {shapes:,} shapes"
    assert int(scene.columns["size"].sum()) == shown.steps(0).at(None)
    zoom = {"device": 0, "bank": 1, "from": BANK, "to": BANK + MIB}
    near = shown.scene(Window(width=1000, options={"zoom": zoom}))
    inside = near.columns["lane"] == 1
    assert near.told["lanes"][1]["zoomed"] and (near.columns["count"][inside] == 1).all()
    assert 0 < int(inside.sum()) < 100 and int(near.columns["offset"][inside].max()) < BANK + MIB


def test_the_selected_operation_marks_what_it_wrote_and_read() -> None:
    """A copy within the device has two marks in two banks; a kernel's bytes are not recorded, and that is said."""
    shown = picture()
    shown.feed.selection.select(3)
    scene = shown.scene(Window())
    marks = zip(*(scene.columns[f"touch_{name}"].tolist() for name in ("lane", "write", "seq", "bytes")), strict=True)
    assert sorted(marks) == [(0, 0, 3, 24 * MIB), (1, 1, 3, 24 * MIB)]
    assert [text.split(" at ")[0] for text in scene.told["touched"]] == [
        "copy within the device wrote 24 MiB", "copy within the device read 24 MiB",
    ]  # fmt: skip
    shown.feed.selection.select(1)
    scene = shown.scene(Window())
    assert len(scene.columns["touch_seq"]) == 0
    assert scene.told["touched"] == ["which bytes a kernel reads and writes is not recorded"]


def test_touched_bytes_are_in_the_picture_even_where_nothing_lives() -> None:
    """A bank with nothing in it at that moment has a lane as long as the selected operation used it."""
    shown = picture()
    shown.feed.selection.look_at(10 * US)
    assert [lane["bank"] for lane in shown.scene(Window()).told["lanes"]] == [0]
    shown.feed.selection.select(3)
    scene = shown.scene(Window())
    assert [lane["bank"] for lane in scene.told["lanes"]] == [0, 2]
    assert len(scene.columns["touch_seq"]) == 2


def test_a_range_knows_its_operations() -> None:
    """Newest first, only those within its life."""
    shown = picture()
    shown.update()
    row = shown.history.row(13)
    assert operations_on(shown.feed, shown.history, row) == [
        [3, "copy within the device 3 wrote it at 171 µs"], [2, "fill 2 wrote it at 160 µs"],
    ]  # fmt: skip
    assert operations_on(shown.feed, shown.history, shown.history.row(7)) == []  # the same place, an earlier life
    told = shown.scene(Window(options={"generation": 13})).told["chosen"]
    assert told["generation"] == 13 and "model.py:140" in told["text"][0] and "recorded trace" in told["text"][1]


@pytest.mark.parametrize("options", [
    {"zoom": 7}, {"zoom": {"device": 0}}, {"zoom": {"device": 0, "bank": 0, "from": 5, "to": 5}},
    {"zoom": {"device": 0, "bank": "x", "from": 0, "to": 9}}, {"zoom": {"device": 9, "bank": 0, "from": 0, "to": 9}},
    {"zoom": {"device": 0, "bank": 0, "from": float("nan"), "to": 9.0}}, {"first": "a"}, {"first": 1e300},
    {"generation": None}, {"generation": 10**12}, {"dtype": ["x"]}, {"touches": 3},
])  # fmt: skip
def test_odd_wishes_are_ignored(options: dict[str, object]) -> None:
    """What a page should not ask for changes nothing."""
    usual, odd = picture().scene(Window()), picture().scene(Window(options=options))
    assert dict(usual.told) == dict(odd.told)


def test_a_zoom_far_away_keeps_its_lane() -> None:
    """A bank is zoomed to addresses where nothing is: its lane stays, empty."""
    zoom = {"device": 0, "bank": 3, "from": 3 * BANK, "to": 3 * BANK + GIB}
    lanes = picture().scene(Window(options={"zoom": zoom})).told["lanes"]
    assert [(lane["bank"], lane["live"]) for lane in lanes] == [(0, 6), (2, 2), (3, 0)]


def test_a_trace_without_changes_has_a_curve_of_its_samples() -> None:
    """Samples of memory in use are enough for the curve; nobody is known to hold anything."""
    samples = tuple(CounterSample(at * US, 1, at * MIB) for at in (1, 5, 3))
    shown = picture(Trace(counters=samples))
    scene = shown.scene(Window())
    assert shown.devices() == [1] and shown.steps(1).peak() == (5 * MIB, 5 * US)
    assert scene.told["lanes"] == [] and len(scene.told["curves"]) == 1


def test_sizes_of_a_device_are_not_invented() -> None:
    """A trace without the device's name: known where only one kind fits, else no capacity is told."""
    trace = training()
    unnamed = replace(trace, names=TraceNames({}, {}, {}, trace.names.sites))
    assert picture(unnamed).scene(Window()).told["say"].startswith("device 0, gcu300: 328 MiB of 48 GiB")
    small = replace(unnamed, changes=trace.changes[:4])
    assert "of" not in picture(small).scene(Window()).told["say"].split(" in use")[0]


def test_nothing_is_a_picture_too() -> None:
    """An empty trace has a scene, an SVG and a text that say so."""
    widget = MemoryMap(Trace())
    assert "No memory was allocated yet." in widget.to_svg()
    assert widget.to_text() == "nothing is known of any memory yet"
    widget.close()


def test_a_scene_travels() -> None:
    """What is told is JSON, whatever is selected, and the snapshot can be packed."""
    widget = MemoryMap(training())
    widget.feed.selection.select(3)
    widget.feed.selection.look_at(120 * US)
    json.dumps(widget.scene(Window(options={"generation": 5})).told, allow_nan=False)
    assert len(widget.packed()) > 500
    widget.close()


@pytest.mark.parametrize("theme", [None, "light", "dark"])
def test_svg_has_every_range_with_its_line(theme: str | None) -> None:
    """The SVG is well-formed and its titles name who holds each range; a selected copy is marked."""
    widget = MemoryMap(training())
    widget.feed.selection.select(3)
    root = ElementTree.fromstring(widget.to_svg(theme=theme))  # type: ignore[arg-type]
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sum("by train.py:12" in text for text in titles) == 4
    assert any("freed by pipeline.py:88" in text for text in titles)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"wrote", "read", "kept for reuse"} <= set(texts)
    widget.close()


def test_text_tells_who_holds_what() -> None:
    """A terminal is told the figures, and the largest ranges of each bank with their lines; the rest in a sum."""
    widget = MemoryMap(training())
    text = widget.to_text(60)
    assert "device 0: 328 MiB of 48 GiB in use, peak 416 MiB" in text
    lines = "# live: allocation 13: 80 MiB", "= kept: allocation 14", "x freed: allocation 5"
    assert all(line in text for line in lines)
    widget.close()
    many = MemoryMap(crowded(1000)).to_text()
    assert many.count("smaller ones") == 3 and len(many.splitlines()) < 80
