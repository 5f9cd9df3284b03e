"""The dashboard in a real JupyterLab: every widget is drawn, and all are linked."""

from __future__ import annotations

import pytest

from atops_widgets import WIDGETS
from tests.widgets.host import BrowserThread
from tests.widgets.jupyter_server import Notebook, Server
from tests.widgets.live_cells import IMPORTS, RECORDS, SUM, WORK


@pytest.mark.slow
def test_a_dashboard_in_jupyterlab(browser: BrowserThread, server: Server) -> None:
    """While cells run, every widget shows what they do; selecting in one marks in all; nothing is fetched or fails."""
    server.write("lab.ipynb", [IMPORTS, "atops_widgets.watch(threads=True)", WORK])
    notebook = Notebook(browser, server, "lab/workspaces/lab/tree/lab.ipynb")
    try:
        views = [notebook.shown(kind) for kind in WIDGETS]
        for view in views:
            view.until(f"view.rects.length > 0 && view.scene.held >= {RECORDS} && view.errors.length === 0")
        views[0].press("n")
        seq = views[0].until("view.marks.text && view.marks.seq + 1") - 1
        for view in views:
            view.until("view.marks.seq === argument && view.marks.text", seq)
        notebook.until(f"() => document.body.textContent.includes('sum {SUM}')")
    finally:
        notebook.close()
    assert notebook.requests == []
    assert notebook.errors == []
