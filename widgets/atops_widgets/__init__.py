"""Notebook widgets of atops: pictures of a running driver or of a recorded trace, linked with each other.

    import atops_widgets
    atops_widgets.watch()                       # the current driver, live
    atops_widgets.watch("run.trace.gz")         # a trace file

A `Feed` reads a driver's trace into columns; each `TraceWidget` turns them into scenes for its page, and into SVG, a
single HTML page and text. Selecting an operation in one marks it in all.

    feed/          what widgets read: records as columns, links between commands, what is selected
    drawing/       what every widget draws with: scenes, SVG, themes, pages
    timeline/      rows of streams, engines and clusters over time
    queues/        the queues of all streams at a moment
    memory_map/    ranges of device memory, their use and their contents
    cluster_grid/  the blocks and threads of one launch, step by step
    scheduler/     a program stopped at each choice, and a check of it while it runs
    race_view/     what the detectors have found: both sides, lines, bytes, and the order that is missing
    allocations/   who held memory, how much and how long
    compare_view/  two runs beside each other, and where they differ first
    magics/        `%load_ext atops_widgets`, and failures as a notebook shows them
    dashboard      `watch()`: all widgets of one feed, linked
"""

from __future__ import annotations

try:
    import anywidget  # noqa: F401  # looked for here, so that one message says what to install
    import ipywidgets  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"atops_widgets needs the package {missing.name}: pip install 'atops[notebook]'", name=missing.name
    ) from missing

from atops_widgets.allocations.allocations import Allocations
from atops_widgets.cluster_grid.cluster_grid import ClusterGrid
from atops_widgets.compare_view.compare_view import Compare
from atops_widgets.dashboard import WIDGETS, Dashboard, watch
from atops_widgets.drawing.base import TraceWidget
from atops_widgets.feed.feed import Feed, Marks, Selection, feed_of
from atops_widgets.magics.magics import load_ipython_extension, unload_ipython_extension
from atops_widgets.memory_map.memory_map import MemoryMap
from atops_widgets.queues.queues import Queues
from atops_widgets.race_view.race_view import RaceView
from atops_widgets.scheduler.explorer import Explorer
from atops_widgets.scheduler.scheduler import Scheduler
from atops_widgets.timeline.timeline import Timeline

__all__ = (
    "WIDGETS",
    "Allocations",
    "ClusterGrid",
    "Compare",
    "Dashboard",
    "Explorer",
    "Feed",
    "Marks",
    "MemoryMap",
    "Queues",
    "RaceView",
    "Scheduler",
    "Selection",
    "Timeline",
    "TraceWidget",
    "feed_of",
    "load_ipython_extension",
    "unload_ipython_extension",
    "watch",
)
