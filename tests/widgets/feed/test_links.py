"""The links between commands: chains through events are followed, and saved pictures hold the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atops.base.trace.records import Kind, TraceNames, TraceRecord
from atops_widgets import Feed
from atops_widgets.feed.columns import RECORDS, Columns, Texts
from atops_widgets.feed.links import NEAR, SYNCHRONISING, Links, SeqOrder, saved_links
from tests.runtime.trace_records import record
from tests.widgets.dashboard_traces import pipeline
from tests.widgets.traces import double_buffering


def links_of(records: list[TraceRecord]) -> Links:
    """Return the links of records."""
    columns = Columns(RECORDS, 10_000, Texts())
    columns.extend(records)
    return Links(columns)


def test_through_an_event() -> None:
    """A kernel waited for the copy behind the event and for the kernel before it; the copy is awaited by it."""
    links = links_of(list(double_buffering().records))
    assert set(links.waited_for(11)) == {10, 9, 8, 4, 3}  # wait, record, copy; record and kernel of the chunk before
    assert 11 in links.waiting(8)
    assert links.waited_for(0) == []


def test_what_is_unknown_has_no_neighbours() -> None:
    """A seq that is not held, API calls and commands outside of streams have none; a cause not held is told."""
    links = links_of([
        record(-1, Kind.API, 0, 9, stream=1), record(0, Kind.LAUNCH, 0, 1, stream=-1),
        record(1, Kind.WAIT_EVENT, 1, 2, stream=1, correlation=77),
        record(2, Kind.LAUNCH, 2, 3, stream=1),
    ])  # fmt: skip
    assert links.waited_for(99) == links.waiting(99) == links.waited_for(-1) == links.waited_for(0) == []
    assert links.waited_for(2) == [1, 77]
    assert links.row(77) == -1


def test_pairs_are_all_direct_edges() -> None:
    """The edges of the newest records are neighbours in streams and waits with their causes."""
    before, after = links_of(list(double_buffering(2).records)).pairs(1000)
    edges = set(zip(before.tolist(), after.tolist(), strict=True))
    assert {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (1, 8), (7, 13)} <= edges
    assert len(edges) == len(before)
    assert all(one < other for one, other in edges)


@pytest.mark.slow
def test_neighbours_far_apart_are_found() -> None:
    """Whatever lies between the commands of a stream, what stands before and after is that of a plain search."""
    rng = np.random.default_rng(7)
    kinds = (Kind.LAUNCH, Kind.WAIT_EVENT, Kind.RECORD, Kind.API)
    seqs = rng.permutation(4 * NEAR)
    found = [
        record(int(seq), kinds[seq % 4], 0, 1, stream=2 if seq % 1500 == 0 else 1 + int(seq % 2) * 2,
               correlation=int(seq) // 3 if seq % 4 == 1 else -1)
        for seq in seqs
    ]  # fmt: skip
    links = links_of(found)
    for seq in (0, 1, 2, 5, 1500, 3000, 4 * NEAR - 1, *rng.integers(0, 4 * NEAR, 40).tolist()):
        me = next(each for each in found if each.seq == seq)
        own = sorted(e.seq for e in found if e.stream == me.stream and e.kind != Kind.API)
        before = [] if me.kind is Kind.API else [other for other in own if other < seq][-1:]
        after = [] if me.kind is Kind.API else [other for other in own if other > seq][:1]
        waits = {each.seq for each in found if each.kind is Kind.WAIT_EVENT and each.correlation == seq}
        assert links._before(seq)[: len(before)] == before
        assert set(links._after(seq)) == {*after, *waits}


def test_the_last_part_of_a_command_is_found() -> None:
    """Of a command with several parts the last one is its row; the parts are no neighbours of each other."""
    links = links_of([record(3, Kind.COPY_D2H, 0, 1, stream=1), record(3, Kind.COPY_H2D, 1, 2, stream=1)])
    assert links.row(3) == 1
    assert links.waited_for(3) == []
    assert len(links.pairs(10)[0]) == 0


def test_every_command_has_its_line() -> None:
    """The line of each command whose enqueuing was seen is found by its number."""
    feed = Feed(pipeline())
    columns, sites = saved_links(feed)
    lines = {int(seq): sites[at] for seq, at in zip(columns["link_seq"], columns["link_site"], strict=True)}
    assert lines == {int(seq): feed._place(int(seq)) for seq in np.unique(feed.moments["seq"])}
    assert lines[7] == "pipeline.py:12 in main"


def test_links_and_what_is_stepped_over() -> None:
    """Edges are those of the feed; events and waits are stepped over. Without details there are no lines."""
    feed = Feed(double_buffering())
    columns, sites = saved_links(feed)
    before, after = feed.links().pairs(1000)
    assert np.array_equal(columns["link_before"], before) and np.array_equal(columns["link_after"], after)
    through = {Kind(feed.records.record(feed.links().row(int(seq))).kind) for seq in columns["link_through"]}
    assert through <= SYNCHRONISING and through
    assert sites == [] and len(columns["link_seq"]) == 0


def test_a_line_that_was_not_noted_is_empty() -> None:
    """A trace whose names lost their sites still has its columns."""
    trace = pipeline()
    columns, sites = saved_links(Feed(replace(trace, names=TraceNames())))
    assert set(sites) == {""} and len(columns["link_site"]) > 0


@given(st.lists(st.lists(st.integers(-1, 40), max_size=12), max_size=8), st.integers(4, 30))
def test_seqs_put_in_order_in_portions_are_in_order(portions: list[list[int]], capacity: int) -> None:
    """Whatever comes in which portions, and whatever is dropped, rows are in the order of seqs; API calls have none."""
    columns, order = Columns(RECORDS, capacity, Texts()), SeqOrder()
    for portion in portions:
        columns.extend([record(seq, Kind.LAUNCH, 0, 1, stream=1) for seq in portion])
        seqs, rows = order.of(columns)
        wanted = np.argsort(columns["seq"], kind="stable")
        wanted = wanted[columns["seq"][wanted] >= 0]
        assert rows.tolist() == wanted.tolist()
        assert seqs.tolist() == columns["seq"][wanted].tolist()
