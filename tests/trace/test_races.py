"""Races in traces: where they come from, and that files, joins, Perfetto and text keep both sides of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.base.errors import InvalidValue
from atops.base.trace.records import RaceEvent, Trace
from atops.trace.chrome import to_chrome
from atops.trace.file import load, records_from_json, records_to_json, write
from atops.trace.join import BoardTrace, join
from atops.trace.page import to_page
from atops.trace.words import race_sentence, race_text, races_text

TWO = 2


@k.kernel
async def spread(out: k.Span) -> None:
    """Read what thread 0 stores, without a barrier."""
    s, me = k.shared(12, np.int32), int(k.threadIdx.x)
    if me == 0:
        s[:] = 7
    out[me] = s[me]


def racing() -> Trace:
    """Return the trace of a run with a race between two commands, and one inside a launch."""

    async def main() -> Trace:
        device = atops.Device(0)
        async with device.create_stream(name="load") as load, device.create_stream(name="work") as work:
            device.empty(16)
            x = device.empty(1024)
            load.copy(x, np.ones(1024, np.float32))
            work.fill(x[16:32], 2.0)
            work.launch(spread, (1, 12), work.zeros(12, np.int32))
        return atops.current_driver().tracer.snapshot()

    return atops.run(main, atops.EmulatorOptions(detect=True, clock="virtual"))


def test_a_race_of_commands_names_both() -> None:
    """Both sides have the numbers of their records and the lines, and the bytes lie where the allocation does."""
    trace = racing()
    race = trace.races[0]
    kinds = {record.seq: record for record in trace.records}
    assert {kinds[seq].kind.name for seq in race.seqs} == {"COPY_H2D", "FILL"}
    fill = next(record for record in trace.records if record.kind.name == "FILL")
    assert [race.offset + start for start, _ in race.ranges] == [fill.dst_offset]
    assert race.ranges == ((64, 128),) and race.device == 0 and (race.first.thread, race.second.block) == (-1, -1)
    assert {trace.names.sites[side.site].function.split(".")[-1] for side in (race.first, race.second)} == {"main"}


def test_a_race_in_a_kernel_names_the_threads() -> None:
    """Both sides are of the launch's record, with block, thread and the kernel's lines."""
    trace = racing()
    race = trace.races[1]
    launch = next(record.seq for record in trace.records if record.name == "spread")
    assert race.seqs == (launch, launch) and race.offset == -1
    threads = [(side.block, side.thread, side.write) for side in (race.first, race.second)]
    assert threads == [(0, 0, True), (0, 1, False)]
    lines = [trace.names.sites[side.site].line for side in (race.first, race.second)]
    assert lines[1] == lines[0] + 1


def test_two_runs_have_one_trace() -> None:
    """Nothing of a race depends on what the process did before."""
    assert racing() == racing()


def test_files_keep_races(tmp_path: Path) -> None:
    """A trace file and the one for Perfetto give them back; a file from before there were any has none."""
    trace = racing()
    for name in ("run.trace.gz", "run.json"):
        write(tmp_path / name, trace)
        assert load(tmp_path / name) == trace
    content = json.loads(records_to_json(trace))
    del content["races"]
    assert records_from_json(json.dumps(content)).races == ()


@pytest.mark.parametrize(
    "damage", [lambda row: row.pop(), lambda row: row.__setitem__(1, 5), lambda row: row[5].append([1]),
               lambda row: row[-1].__setitem__(2, 1), lambda row: row[-2].pop()],
)  # fmt: skip
def test_damaged_races_are_refused(damage: object) -> None:
    """A row that is no race makes the file damaged."""
    content = json.loads(records_to_json(racing()))
    damage(content["races"][0])  # type: ignore[operator]
    with pytest.raises(InvalidValue, match="damaged"):
        records_from_json(json.dumps(content))


def test_joined_traces_move_races() -> None:
    """Devices, commands, times and places of a race follow its board's."""
    one = racing()
    whole = join([BoardTrace(one, "a", 1, True), BoardTrace(one, "b", 1, True)])
    assert len(whole.races) == TWO * len(one.races)
    by_seq = {record.seq: record for record in whole.records}
    for race, old in zip(whole.races, [*one.races, *one.races], strict=True):
        for side, before in ((race.first, old.first), (race.second, old.second)):
            assert by_seq[side.seq].kind == {each.seq: each for each in one.records}[before.seq].kind
            assert whole.names.sites[side.site] == one.names.sites[before.site]
    assert [race.device for race in whole.races] == [0, 0, 1, 1]
    assert whole.races[2].at_ns >= one.records[-1].finished_ns


def test_perfetto_gets_marks_and_arrows() -> None:
    """Two marks and an arrow forward in time for two commands, one mark inside a launch; each stands on its slice."""
    trace = racing()
    chrome = to_chrome(trace.records, names=trace.names, races=trace.races)
    events = chrome["traceEvents"]
    assert isinstance(events, list)
    races = [event for event in events if event.get("cat") == "race"]
    assert sorted(event["ph"] for event in races) == ["f", "i", "i", "i", "s"]
    tail, head = (next(event for event in races if event["ph"] == which) for which in "sf")
    assert events.index(tail) < events.index(head) and tail["ts"] <= head["ts"] and tail["id"] == head["id"]
    slices = [event for event in events if event["ph"] == "X"]
    for event in races:
        assert any(
            (each["pid"], each["tid"]) == (event["pid"], event["tid"])
            and each["ts"] <= event["ts"] <= each["ts"] + each["dur"]
            and events.index(each) < events.index(event)
            for each in slices
        )
    assert "record()" in next(event for event in races if event["ph"] == "i")["args"]["advice"]


def test_races_in_words() -> None:
    """The text has all of them with their numbers, the page too; a name cannot move the cursor."""
    trace = racing()
    text = races_text(trace.races, trace.names)
    assert text.startswith("2 races") and "1. data race" in text and "2. race in shared memory" in text
    assert "load: copy writes, at test_races.py" in text and "`await k.syncthreads()`" in text
    assert "2 races, told in the text below" in to_page(trace) and "race in shared memory" in to_page(trace)
    assert races_text((), trace.names) == ""
    race: RaceEvent = trace.races[0]
    assert "\n" not in race_sentence(race, trace.names) and race_text(race, trace.names).count("\n") == 3
    bad = race._replace(first=race.first._replace(actor="a\x1b[2Jb\n"))
    assert "\x1b" not in race_text(bad, trace.names) and "?" in race_sentence(bad, trace.names)


def test_the_tracer_forgets_what_is_cleared() -> None:
    """`clear` forgets races; a reader's position goes on."""

    async def main() -> None:
        device, tracer = atops.Device(0), atops.current_driver().tracer
        for count in (1, 2):
            async with device.create_stream() as one, device.create_stream() as two:
                x = device.empty(16)
                one.fill(x, count)
                if count == 1:
                    two.fill(x[8:], 7)
                else:
                    two.copy(x[8:], np.zeros(8, np.float32))
            assert len(tracer.races()) == 1 and len(tracer.races_since(count - 1)[0]) == 1
            assert tracer.races_since(0)[1] == count
            tracer.clear()
        assert tracer.races() == []

    atops.run(main, atops.EmulatorOptions(detect=True))
