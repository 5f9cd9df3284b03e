"""Saved notebooks: what is over is a picture where no kernel runs, in JupyterLab, trusted or not, and as HTML."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.notebooks.runner import KERNELS, from_cells, run
from tests.widgets.host import BrowserThread, Host
from tests.widgets.jupyter_server import IDLE, Server
from tests.widgets.live_cells import IMPORTS, WORK

if TYPE_CHECKING:
    from nbformat import NotebookNode

pytestmark = pytest.mark.slow

VIEW = "application/vnd.jupyter.widget-view+json"
PICTURES = 6  # four of the board, the timeline of a cell, and a check
STOPPED, LIVE, CELL, CHECK, PLAYED, SHOWN = 2, 5, 6, 7, 9, 11  # which cell is which
PROGRAM = "async def program():\n    atops.Device(0).empty(4)\n"
SECTIONS = "() => [...document.querySelectorAll('section.atops')].filter((each) => each.atops?.frames > 0).length"
IMAGES = "() => [...document.images].filter((each) => each.alt && each.naturalWidth > 0).length"


@pytest.fixture(scope="module")
def saved() -> NotebookNode:
    """A notebook that was run: a board that is stopped in a later cell, one that is not, and `%%timeline`."""
    cells = [IMPORTS, "%load_ext atops_widgets", "board = atops_widgets.watch()\nboard", WORK, "board.stop()",
             "atops_widgets.watch()", f"%%timeline\n{WORK}",
             f"{PROGRAM}check = atops_widgets.Explorer(program, 20)\ncheck", "assert check.wait()",
             "played = atops_widgets.Scheduler(program)\nplayed", "played.stop()", "played"]  # fmt: skip
    notebook = from_cells(*cells)
    assert run(notebook, KERNELS[0]) == []
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def shown(notebook: NotebookNode, cell: int) -> Any:
    """Return the picture that a cell shows, by types; below one is a table of where the cell waited."""
    pictures = [each.data for each in notebook.cells[cell].outputs if "text/html" in each.get("data", ())]
    return next(each for each in reversed(pictures) if "awaited here" not in each["text/html"])


def test_what_is_over_needs_no_widgets(saved: NotebookNode) -> None:
    """A stopped board, in the cell where it was shown, `%%timeline`, a check that is over and a Scheduler that was
    stopped are HTML; a live one says that it was live.
    """
    for cell in (STOPPED, CELL):
        assert VIEW not in shown(saved, cell)
        assert "data:image/svg+xml" in shown(saved, cell)["text/html"]
    for cell in (CHECK, PLAYED, SHOWN):
        assert VIEW not in shown(saved, cell) and "This was live" not in shown(saved, cell)["text/html"]
    assert "of 20 schedules" in shown(saved, CHECK)["text/html"]
    assert "worker" in shown(saved, STOPPED)["text/plain"]
    assert VIEW in shown(saved, LIVE) and "This was live" in shown(saved, LIVE)["text/html"]


def test_it_is_drawn_in_exported_html(saved: NotebookNode, host: Host, tmp_path: Path) -> None:
    """A page made by nbconvert draws every picture, without network; where no script runs there are images."""
    from nbconvert import HTMLExporter

    text, _ = HTMLExporter(template_name="basic").from_notebook_node(saved)
    (tmp_path / "page.html").write_text(f"<!doctype html><body>{text}</body>", encoding="utf-8")
    host.open(tmp_path / "page.html")
    host.thread.call(host.page.wait_for_function, f"{SECTIONS.removeprefix('() => ')} === {PICTURES}")

    async def still() -> int:
        context = await host.thread.browser.new_context(java_script_enabled=False)
        page = await context.new_page()
        await page.goto((tmp_path / "page.html").as_uri())
        found = [await each.get_attribute("alt") for each in await page.query_selector_all("img")]
        await context.close()
        return len([each for each in found if each])

    assert host.thread.call(still) == PICTURES + 3  # a check is text; and the live board as it was when its cell ran


@pytest.mark.parametrize("trusted", [True, False])
def test_it_is_drawn_in_jupyterlab(
    saved: NotebookNode, browser: BrowserThread, server: Server, *, trusted: bool
) -> None:
    """Opened again, pictures that can be zoomed where it is trusted, else images, of which a check has none.

    Without the state of widgets, which JupyterLab does not save by default.
    """
    import nbformat

    path = server.folder / f"saved{trusted:d}.ipynb"
    cells = [each for number, each in enumerate(saved.cells) if number != LIVE]
    # What is trusted is the content, not the file: no two are alike.
    metadata = {"kernelspec": saved.metadata["kernelspec"], "title": path.stem}
    nbformat.write(nbformat.from_dict({**saved, "cells": cells, "metadata": metadata}), path)
    if trusted:
        subprocess.run([sys.executable, "-m", "jupyter", "trust", path], env=server.environment, check=True,
                       capture_output=True)  # fmt: skip

    async def opened() -> str:
        context = await browser.browser.new_context(viewport={"width": 1280, "height": 4000})
        page = await context.new_page()
        # In a workspace of its own: the default one opens the notebooks of earlier tests again, and may show another.
        await page.goto(f"{server.url}/lab/workspaces/{path.stem}/tree/{path.name}")
        await page.wait_for_function(IDLE)
        # Cells below the screen are drawn when they come into view, so the screen is high enough for all.
        count, least = (SECTIONS, PICTURES) if trusted else (IMAGES, PICTURES - 1)
        await page.wait_for_function(f"{count.removeprefix('() => ')} >= {least}")
        text = str(await page.evaluate("() => document.body.textContent"))
        await page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
        await context.close()
        return text

    text = asyncio.run_coroutine_threadsafe(opened(), browser.loop).result(60)
    assert "Error displaying widget" not in text
