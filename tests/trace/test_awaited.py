"""Where a program waits for the device: which line, how long, what ran meanwhile; and that traces keep it."""

from __future__ import annotations

import asyncio
import json
import linecache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import atops
from atops import kernels as k
from atops.base.trace.records import HostWait, Kind, Place, Trace, TraceNames
from atops.errors import InvalidValue
from atops.trace.awaited import ASYNCIO, Awaited, awaited
from atops.trace.chrome import to_chrome
from atops.trace.file import records_from_json, records_to_json
from atops.trace.join import BoardTrace, join
from tests.runtime.trace_records import record

MAIN, OTHER = Place("/p/main.py", 7, "main"), Place("/p/main.py", 9, "main")
SITES = {0: MAIN, 1: OTHER, 2: Place(f"{ASYNCIO}tasks.py", 1, "_wrap_awaitable")}


def trace() -> Trace:
    """Return a kernel from 100 to 200, a copy from 150 to 250, and waits at two lines and in a task."""
    records = (
        record(1, Kind.LAUNCH, 100, 200, stream=1, name="f"),
        record(2, Kind.COPY_D2H, 150, 250, stream=1),
        record(3, Kind.WAIT_EVENT, 0, 400, stream=1),
    )
    waits = (HostWait(50, 160, 1, 0), HostWait(120, 220, 2, 0), HostWait(240, 300, -1, 1), HostWait(310, 320, 2, 2))
    return Trace(records, names=TraceNames(sites=SITES), waits=waits)


def test_a_line_waits_as_long_as_one_of_its_tasks_does() -> None:
    """What ran meanwhile is counted once where tasks wait at once; a wait of a stream is no work."""
    found = awaited(trace())
    assert [(line.place, line.waits, line.total_ns, line.longest_ns, line.idle_ns) for line in found.lines] == [
        (MAIN, 2, 170, 110, 50), (OTHER, 1, 60, 60, 50), (None, 1, 10, 10, 10),
    ]  # fmt: skip
    assert [line.meanwhile for line in found.lines] == [
        (("kernel f", 100), ("copy device to host", 70)), (("copy device to host", 10),), (),
    ]  # fmt: skip
    assert (found.span_ns, found.total_ns, found.idle_ns) == (400, 240, 110)


def test_it_is_told_in_words_and_as_html(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the text of each line, where its file is at hand."""
    monkeypatch.setitem(linecache.cache, "/p/main.py", (1, None, ["\n"] * 6 + ["  await <this>\n"], "/p/main.py"))
    found = awaited(trace())
    said = str(found).splitlines()
    assert said[0] == "awaited here: 240 ns of 400 ns, 60%, in 110 ns of it nothing ran"
    assert said[1].split() == ["170", "ns", "42%", "main.py:7", "in", "main,", "2", "waits,", "longest", "110", "ns"]
    assert [line.strip() for line in said[2:4]] == [
        "await <this>", "meanwhile: kernel f 100 ns, copy device to host 70 ns, nothing 50 ns",
    ]  # fmt: skip
    assert "tasks that no line awaits itself, 1 wait" in said[-2]
    assert "await &lt;this&gt;" in found._repr_html_() and "<this>" not in found._repr_html_()
    assert str(awaited(Trace())) == Awaited((), 0, 0, 0)._repr_html_().removeprefix("<div>").removesuffix("</div>")


def test_traces_keep_it(tmp_path: Path) -> None:
    """Files, joined traces, whose places and commands are numbered anew, and Perfetto, by tracks of the host."""
    one = trace()
    content = json.loads(records_to_json(one))
    assert records_from_json(json.dumps(content)).waits == one.waits
    for damage in ([1, 2, 3], [1, 2, 3, "x"]):
        with pytest.raises(InvalidValue, match="no list of 4 integers"):
            records_from_json(json.dumps({**content, "waits": [damage]}))
    both = join([BoardTrace(one, "a", 1, True), BoardTrace(one, "b", 1, True)])
    assert [both.names.sites[wait.site] for wait in both.waits[4:]] == [SITES[wait.site] for wait in one.waits]
    assert [wait.seq for wait in both.waits[4:]] == [5, 6, -1, 6] and both.waits[4].started_ns == 450
    seen: Any = to_chrome(one.records, names=one.names, waits=one.waits)
    slices = [each for each in seen["traceEvents"] if each.get("cat") == "host wait" and each["ph"] == "X"]
    assert [(each["name"], each["args"].get("at")) for each in slices[:3]] == [
        ("waits for f", "main.py:7 in main"), ("waits for copy device to host", "main.py:7 in main"),
        ("waits for room", "main.py:9 in main"),
    ]  # fmt: skip
    assert slices[0]["tid"] != slices[1]["tid"] == slices[0]["tid"] + 1  # they overlap
    assert "ends" not in [each.get("name") for each in seen["traceEvents"]]  # none of them sees its command end
    seen = to_chrome(one.records, names=one.names, waits=[HostWait(90, 205, 1, 0)])
    arrows = [each for each in seen["traceEvents"] if each.get("name") == "ends"]
    assert [(each["ph"], each["ts"]) for each in arrows] == [("s", 0.199), ("f", 0.199)]  # from the time 0 on


@k.kernel
async def add(x: Any) -> None:
    x[k.threadIdx.x] += 1


async def waits() -> None:
    """Wait in each way; each of these waits begins before its command is over."""
    device = atops.Device(0)
    stream, x = device.create_stream(capacity=1), device.zeros(4, np.int32)
    await stream.launch(add, (1, 4), x)  # a completion
    stream.launch(add, (1, 4), x)
    await stream  # a stream
    event = stream.record()
    await event  # an event
    await asyncio.wait([asyncio.ensure_future(stream.fetch(x))])
    stream.launch(add, (1, 4), x).wait_sync()  # and blocks
    stream.launch(add, (1, 4), x)
    stream.sync()  # for a stream
    stream.launch(add, (1, 4), x)
    device.sync()  # for all
    stream.launch(add, (1, 4), x)
    async with stream.room():  # for room
        pass


def test_each_way_to_wait_is_noted_with_its_line() -> None:
    """And in a task that no line of the program awaits; nothing is noted outside of a profile."""
    options = atops.EmulatorOptions(clock="virtual")
    with atops.profile() as profile:
        atops.run(waits, options)
    found = profile.awaited()
    assert sorted(line.text.partition("  # ")[2] for line in found.lines if line.place is not None) == [
        "a completion", "a stream", "an event", "and blocks", "for a stream", "for all", "for room",
    ]  # fmt: skip
    [task] = [line for line in found.lines if line.place is None]
    assert task.waits == 1
    by_text = {line.text.partition("  # ")[2]: line for line in found.lines}
    launched = by_text["a completion"]
    assert launched.meanwhile[0][0] == "kernel add" and launched.total_ns >= launched.meanwhile[0][1] > 0
    assert found.total_ns <= found.span_ns and "awaited here" in str(profile)

    async def other() -> list[HostWait]:
        await atops.Device(0).create_stream().record()
        return atops.current_driver().tracer.waits()

    assert atops.run(other, options) == []


def test_waits_of_trio_have_their_lines() -> None:
    """Those of a cancelled scope, too, until they are cancelled."""
    async def main() -> None:
        stream = atops.Device(0).create_stream()
        word = atops.Device(0).zeros(1, np.uint32)
        await stream.record()
        with trio.move_on_after(1):
            await stream.wait_value(word, 1)  # never
        stream.abort()

    with atops.profile() as profile:
        atops.run(main, atops.EmulatorOptions(clock="virtual"), backend="trio")
    longest = profile.awaited().lines[0]
    assert longest.text.endswith("# never") and longest.total_ns == 10**9 == longest.idle_ns
