"""The waits and source lines in a saved picture, whose page cannot ask for them."""

from __future__ import annotations

from typing import Final

import numpy as np

from atops_widgets.feed.columns import Column
from atops_widgets.feed.feed import Feed
from atops_widgets.feed.links import SYNCHRONISING
from atops_widgets.feed.source_lines import line_of

__all__ = ("saved_links",)

LINKED: Final = 20_000  # records whose links and lines are kept, the newest


def saved_links(feed: Feed) -> tuple[dict[str, Column], list[str]]:
    """Return links and lines as columns, and the lines in words.

    `link_before` and `link_after` are the two ends of each edge, `link_through` what is stepped over to what lies
    behind; `link_site` is for each command in `link_seq` the index of its line.
    """
    before, after = feed.links().pairs(LINKED)
    records, moments = feed.records, feed.moments
    through = records["seq"][np.isin(records["kind"], list(SYNCHRONISING))][-LINKED:]
    told = np.flatnonzero(moments["site"] >= 0)[-LINKED:]
    sites, number = np.unique(moments["site"][told], return_inverse=True)
    columns = {
        "link_before": before, "link_after": after, "link_through": through,
        "link_seq": moments["seq"][told], "link_site": number.astype(np.int32),
    }  # fmt: skip
    return columns, [line_of(feed.names, site) for site in sites.tolist()]
