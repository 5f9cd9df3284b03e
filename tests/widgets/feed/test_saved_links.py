"""What a saved picture keeps of links and lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atops.base.trace.records import Kind, TraceNames
from atops_widgets import Feed
from atops_widgets.feed.links import SYNCHRONISING, saved_links
from tests.widgets.dashboard_traces import pipeline
from tests.widgets.traces import double_buffering


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


def test_a_line_that_nobody_noted_is_empty() -> None:
    """A trace whose names lost their sites still has its columns."""
    trace = pipeline()
    columns, sites = saved_links(Feed(replace(trace, names=TraceNames())))
    assert set(sites) == {""} and len(columns["link_site"]) > 0
