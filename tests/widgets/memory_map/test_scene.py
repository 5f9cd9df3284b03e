"""The scene, SVG and text of the memory map: moments, thinning, what operations touched, and odd wishes of a page."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from atops import kernels as k
from atops.base.trace.records import CommandEvent, CounterSample, Kind, MemoryUse, Phase, Trace, TraceNames
from atops.runtime.device import Device
from atops_widgets import MemoryMap
from atops_widgets.drawing.scene import Scene, Window
from atops_widgets.drawing.svg import LETTER
from atops_widgets.feed.feed import Feed, feed_of
from atops_widgets.memory_map.drawing import MARGIN
from atops_widgets.memory_map.lanes import State
from atops_widgets.memory_map.memory_map import LEAST_WIDTH
from atops_widgets.memory_map.scene import MemoryPicture
from atops_widgets.memory_map.words import Touch, operations_on
from tests.every import every
from tests.runtime.boards import PATIENCE, board
from tests.widgets.memory_map_traces import BANK, GIB, MIB, Ledger, crowded, given, training
from tests.widgets.traces import US, record


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


@pytest.mark.slow
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
    marks = zip(*(scene.columns[f"touch_{name}"].tolist() for name in ("lane", "how", "seq", "bytes")), strict=True)
    assert sorted(marks) == [(0, 0, 3, 24 * MIB), (1, 1, 3, 24 * MIB)]
    assert [text.split(" at ")[0] for text in scene.told["touched"]] == [
        "copy within the device wrote 24 MiB", "copy within the device read 24 MiB",
    ]  # fmt: skip
    shown.feed.selection.select(1)
    scene = shown.scene(Window())
    assert len(scene.columns["touch_seq"]) == 0
    assert scene.told["touched"] == ["no memory that was passed to this kernel is recorded"]


def touched(scene: Scene) -> list[tuple[int, int, int, int]]:
    """Return lane, how, seq and bytes of what is marked or could be."""
    names = ("lane", "how", "seq", "bytes")
    return list(zip(*(scene.columns[f"touch_{name}"].tolist() for name in names), strict=True))


def test_the_selected_kernel_marks_what_it_was_given() -> None:
    """Whole allocations and parts of them, each once, in the lanes of their banks; a sentence tells them."""
    shown = picture(given())
    shown.feed.selection.select(1)
    scene = shown.scene(Window())
    uses = int(Touch.USES)
    assert touched(scene) == [(0, uses, 1, 40 * MIB), (0, uses, 1, 12 * MIB), (1, uses, 1, 96 * MIB)]
    left, right = (scene.columns[f"touch_{side}"].tolist() for side in ("left", "right"))
    whole = scene.columns["generation"].tolist().index(0)
    assert (left[0], right[0]) == (scene.columns["left"][whole], scene.columns["right"][whole])
    assert scene.told["touched"] == [
        "kernel attention uses 3 ranges, 148 MiB: 40 MiB at offset 0x0 of device 0, 12 MiB at offset 0xc1800000 of "
        "device 0, 96 MiB at offset 0x604000000 of device 0"
    ]
    shown.feed.selection.select(3)
    assert {how for _, how, *_ in touched(shown.scene(Window()))} == {Touch.READ, Touch.WROTE}


def test_a_live_kernel_marks_the_very_shapes_that_it_was_given() -> None:
    """Of a driver that runs: an array and a part of another stand where the allocations do."""

    @k.kernel
    def take(whole: k.Span[np.uint8], part: k.Span[np.uint8]) -> None:
        """Take two buffers."""

    with board(trace=100) as driver:
        feed = feed_of(driver)
        feed.ask_details()
        stream = Device(0, driver).create_stream()
        arrays = [stream.empty(MIB, "uint8") for _ in range(3)]
        item = stream.launch(take, (1, 1), arrays[2], arrays[0][MIB // 2 :])
        item.wait_sync(PATIENCE)
        while item.seq not in feed.records["seq"]:
            feed.poll()
        feed.selection.select(item.seq)
        scene = MemoryPicture(feed).scene(Window())
        places = {int(at): (left, right) for at, left, right in zip(
            *(scene.columns[name].tolist() for name in ("offset", "left", "right")), strict=True)}  # fmt: skip
        first, last = (places[array.allocation.offset] for array in (arrays[0], arrays[2]))
        marks = list(zip(scene.columns["touch_left"].tolist(), scene.columns["touch_right"].tolist(), strict=True))
        assert marks[0] == (pytest.approx(sum(first) / 2, abs=0.1), first[1]) and marks[1] == last
        feed.stop()


def test_a_kernel_that_is_not_over_marks_what_it_was_given() -> None:
    """One that is queued or runs has no record yet: its moments tell its name, its uses what it was given."""
    trace = given()
    moment = CommandEvent(60 * US, 1, Phase.SUBMITTED, Kind.LAUNCH, 0, 2, name="attention")
    shown = picture(replace(trace, records=(trace.records[0], *trace.records[2:]), moments=(moment,)))
    shown.feed.selection.select(1)
    scene = shown.scene(Window())
    assert len(touched(scene)) == 3
    assert scene.told["touched"][0].startswith("kernel attention uses 3 ranges, 148 MiB: ")


def test_a_reduction_marks_its_second_operand_too() -> None:
    """Its record tells the first operand and the result, which keep their words; the other is one that it uses."""
    trace = training()
    at = 3 * GIB + 24 * MIB
    made = record(9, Kind.LAUNCH, 2, 222, 223, name="reduce sum int32", bytes=MIB, dst_device=0, dst_offset=0,
                  src_device=0, src_offset=at)  # fmt: skip
    uses = tuple(MemoryUse(9, 0, offset, MIB) for offset in (at, at + MIB, 0))
    shown = picture(replace(trace, records=(*trace.records, made), uses=uses))
    shown.feed.selection.select(9)
    scene = shown.scene(Window())
    found = [(Touch(how).name, size) for _, how, _, size in touched(scene)]
    assert found == [("WROTE", MIB), ("READ", MIB), ("USES", MIB)]
    assert [text.split(" at ")[0] for text in scene.told["touched"]] == [
        "kernel wrote 1 MiB", "kernel read 1 MiB", "kernel reduce sum int32 uses 3 ranges, 3 MiB: 1 MiB",
    ]  # fmt: skip


def test_many_ranges_are_told_in_short() -> None:
    """All are marked; eight are told one by one."""
    uses = tuple(MemoryUse(1, 0, place * MIB, MIB // 2) for place in range(20))
    shown = picture(replace(training(), uses=uses))
    shown.feed.selection.select(1)
    scene = shown.scene(Window())
    assert len(touched(scene)) == 20
    (text,) = scene.told["touched"]
    assert "uses 20 ranges, 10 MiB: " in text and text.endswith(", and 12 more") and text.count(" at offset ") == 8


def test_a_saved_picture_knows_what_every_kernel_was_given() -> None:
    """With all touches asked for, those of kernels that are not selected come along, and stretch no lane."""
    scene = picture(given()).scene(Window(options={"touches": "all"}))
    assert [seq for _, how, seq, _ in touched(scene) if how == Touch.USES] == [1, 1, 1]
    assert [lane["scale"] for lane in scene.told["lanes"]] == [
        lane["scale"] for lane in picture(given()).scene(Window()).told["lanes"]
    ]


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
    launched = picture(given())
    launched.update()
    assert operations_on(launched.feed, launched.history, 7) == [[1, "kernel 1 used it at 69 µs"]]
    assert operations_on(launched.feed, launched.history, 0) == [[1, "kernel 1 used it at 69 µs"]]
    assert operations_on(launched.feed, launched.history, launched.history.row(13))[0][0] == 3  # another owner since
    told = shown.scene(Window(options={"generation": 13})).told["chosen"]
    assert told["generation"] == 13 and "model.py:140" in told["text"][0] and "recorded trace" in told["text"][1]


@pytest.mark.slow
@every("options", [
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
    """Samples of memory in use are enough for the curve; no holder is known."""
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
    """An empty trace has a scene, an SVG and a text that say so, and no legend."""
    widget = MemoryMap(Trace())
    assert "This trace tells of no memory: record it with tracer.detailed()." in widget.to_svg()
    assert widget.scene(Window()).told["kinds"] == []
    assert widget.to_text() == "This trace tells of no memory: record it with tracer.detailed()."
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
    """The SVG is well-formed and its titles name the holder of each range; a selected copy is marked."""
    widget = MemoryMap(training())
    widget.feed.selection.select(3)
    root = ElementTree.fromstring(widget.to_svg(theme=theme))  # type: ignore[arg-type]
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sum("by train.py:12" in text for text in titles) == 4
    assert any("freed by pipeline.py:88" in text for text in titles)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"wrote", "read", "kept for reuse"} <= set(texts)
    widget.close()


def test_a_range_with_others_over_it_has_no_words() -> None:
    """A large one was freed, and smaller ones begin in its place: what is left of its words would mislead."""
    book = Ledger()
    large = book.take(1, 0, 4 * MIB, 0)
    book.free(2, large)
    kept = Trace((), changes=tuple(book.changes), names=TraceNames({0: "gcu300"}))
    book.take(3, 0, MIB, 0)
    before, after = (MemoryMap(each).to_svg() for each in (kept, replace(kept, changes=tuple(book.changes))))
    assert ">4 MiB</text>" in before and ">4 MiB</text>" not in after and ">1 MiB</text>" in after


def test_svg_and_text_mark_what_a_kernel_was_given() -> None:
    """The SVG has a mark with its words for each range, and the sentence below it; a terminal is told the same."""
    widget = MemoryMap(given())
    widget.feed.selection.select(1)
    root = ElementTree.fromstring(widget.to_svg())
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(text for text in titles if " uses " in text and "here" in text) == [
        "number 1 uses 12 MiB here", "number 1 uses 40 MiB here", "number 1 uses 96 MiB here",
    ]  # fmt: skip
    texts = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("uses") == 3
    assert "kernel attention uses 3 ranges, 148 MiB" in widget.to_text()
    widget.close()
    uses = tuple(MemoryUse(1, 0, at * MIB, MIB) for at in range(0, 60, 2))
    crowded_labels = MemoryMap(replace(training(), uses=uses))
    crowded_labels.feed.selection.select(1)
    svg = crowded_labels.to_svg()
    assert svg.count("uses 1 MiB here") == 30 and 1 <= svg.count(">uses</text>") < 30
    crowded_labels.close()


def test_text_tells_the_holders() -> None:
    """A terminal is told the figures, and the largest ranges of each bank with their lines; the rest in a sum."""
    widget = MemoryMap(training())
    text = widget.to_text(60)
    assert "device 0: 328 MiB of 48 GiB in use, peak 416 MiB" in text
    lines = "# live: allocation 13: 80 MiB", "= kept: allocation 14", "x freed: allocation 5"
    assert all(line in text for line in lines)
    widget.close()
    many = MemoryMap(crowded(1000)).to_text()
    assert many.count("smaller ones") == 3 and len(many.splitlines()) < 80


def test_headings_of_a_saved_picture_fit_the_least_width() -> None:
    """What a saved map says of a device is told in lines that fit beside another picture, where none is cut."""
    widget = MemoryMap(training())
    scene = widget.scene(widget.saved_window())
    state = [text for what, x, _, text, *_ in scene.told["items"] if what == "t" and x == MARGIN and " " in text]
    assert "in use at the end" in " ".join(state) and len(state) > 1
    assert max(map(len, state)) * LETTER <= LEAST_WIDTH - MARGIN
