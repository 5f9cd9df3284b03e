"""The scheduler and the explorer in a real Notebook 7, with a real kernel that runs a loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from atops_widgets import Explorer, Scheduler
from tests.widgets.host import BrowserThread, Shown
from tests.widgets.jupyter_server import Notebook, Server

pytestmark = pytest.mark.slow

PROGRAM = """import numpy as np, atops, atops_widgets

async def careless():
    device = atops.Device(0)
    async with device.create_stream(name="load") as load, device.create_stream(name="work") as work:
        row = device.zeros(4, np.int32)
        load.fill(row, 7)
        got = await work.fetch(row)
    assert got.tolist() == [7] * 4"""
CELLS = [
    PROGRAM, "scheduler = atops_widgets.Scheduler(careless)\nscheduler", "atops_widgets.Explorer(careless, 50)",
    "atops_widgets.RaceView.of(careless)", 'atops_widgets.Compare.of(careless, "plain", "plain")',
    "print('now', len(scheduler.stepper.picks), scheduler.verdict)",
]  # fmt: skip
NOW = 5


@pytest.fixture
def notebook(browser: BrowserThread, server: Server) -> Iterator[Notebook]:
    """The notebook, run to its end."""
    server.write("scheduler.ipynb", CELLS)
    made = Notebook(browser, server, "notebooks/scheduler.ipynb")
    yield made
    made.close()
    assert made.requests == [] and made.errors == []


def test_they_work_in_a_notebook(notebook: Notebook) -> None:
    """Keys pick in the kernel, cells see what was picked, loading the page again shows it, the others are there."""
    view = notebook.shown(Scheduler)
    view.until("view.rects.length > 0 && view.run.options.length > 1")
    notebook.focus("[data-testid=atops-scheduler] canvas")
    notebook.press("2")
    view.until("view.run.position === 1")
    notebook.run_cell(NOW)
    notebook.until("() => document.body.textContent.includes('now 1 waits for a choice')")
    notebook.focus("[data-testid=atops-scheduler] canvas")
    notebook.press("x")
    view.until("view.run.failure && !view.scene.found.on")
    explorer = Shown(notebook, None, f"section.atops[aria-label='{Explorer.label}']")  # of HTML: the check is over
    explorer.until("view?.runs?.length > 0 && view.rects.some((rect) => rect.trail)")
    for label in ("Races", "Comparison"):
        notebook.until(f"() => document.querySelector('section[aria-label={label}] svg')")
    notebook.save()
    notebook.reload()
    view.until("view.run.failure && view.field.value.startsWith('v1.')")
