"""Every widget in a real Notebook 7 with a real kernel: drawn live, linked, loaded again, saved; nothing is fetched."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from inspect import signature
from typing import Any

import pytest

from atops_widgets import WIDGETS, Timeline, TraceWidget
from tests.widgets.host import BrowserThread, Shown
from tests.widgets.jupyter_server import ROOT, Notebook, Server
from tests.widgets.live_cells import IMPORTS, RECORDS, SUM, WORK
from tests.widgets.pictures import FOLDER, WANTED
from tests.widgets.unpacking import unpack_snapshot

pytestmark = pytest.mark.slow

WORK_CELL = 1 + len(WIDGETS)
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
CELLS = "() => window.jupyterapp.shell.currentWidget.content.widgets.map((cell) => cell.model.type)"
each_widget = pytest.mark.parametrize("kind", WIDGETS, ids=lambda kind: kind.__name__)
DRAWN = f"view.rects.length > 0 && view.scene.held >= {RECORDS}"


NAME = "widgets"


class Gate:
    """A notebook that shows each widget, does some work, and shows each again."""

    def __init__(self, browser: BrowserThread, server: Server) -> None:
        made_in = [f"{kind.__name__} = {made(kind)}\n{kind.__name__}" for kind in WIDGETS]
        server.write(f"{NAME}.ipynb", [IMPORTS, *made_in, WORK, *(kind.__name__ for kind in WIDGETS)])
        self.notebook = Notebook(browser, server, f"notebooks/{NAME}.ipynb")

    def view(self, kind: type[TraceWidget]) -> Shown:
        """Return a widget's first view, as soon as it shows what the cells did."""
        view = self.notebook.shown(kind)
        view.until(DRAWN)
        return view

    def saved(self) -> dict[str, Any]:
        """Save the notebook and return its file."""
        self.notebook.save()
        content: dict[str, Any] = json.loads((self.notebook.server.folder / f"{NAME}.ipynb").read_text("utf-8"))
        return content


@pytest.fixture(scope="module")
def gate(browser: BrowserThread, server: Server) -> Iterator[Gate]:
    """The notebook, which all tests have in common."""
    gate = Gate(browser, server)
    yield gate
    gate.notebook.close()
    assert gate.notebook.requests == []
    assert gate.notebook.errors == []


def made(kind: type[TraceWidget]) -> str:
    """Return the expression that makes a widget of the current driver, one that traces threads if it can."""
    return f"atops_widgets.{kind.__name__}({'threads=True' if 'threads' in signature(kind).parameters else ''})"


def test_they_show_a_running_driver(gate: Gate) -> None:
    """While cells run, rectangles appear; a second run of the work brings more records."""
    views = [gate.view(kind) for kind in WIDGETS]
    held = [view.get("view.scene.held") for view in views]
    gate.notebook.run_cell(WORK_CELL)
    for view, before in zip(views, held, strict=True):
        view.until("view.scene.held >= argument", before + RECORDS)
        view.until("view.rects.length > 0 && view.scene.state === 'live' && view.errors.length === 0")


@each_widget
def test_selecting_in_one_marks_in_the_other(gate: Gate, kind: type[TraceWidget]) -> None:
    """What is chosen in either is marked in both, and the timeline draws the mark."""
    beside = Timeline if kind is not Timeline else WIDGETS[-1]
    views = gate.view(kind), gate.view(beside)
    timeline = next(view for view in views if "Timeline" in view.selector)
    for chosen, other in (views, views[::-1]):
        if chosen is not timeline and not chosen.get("view.rects.some((r) => r.seq >= 0)"):
            continue  # it shows the inside of an operation, and has none to choose from
        chosen.get("view.select(-1)")
        other.until("view.marks.seq === -1")
        chosen.until("view.marks.seq === -1 && view.rects.some((r) => r.seq >= 0)")
        seq = chosen.get("view.rects.find((r) => r.seq >= 0).seq")
        chosen.get("view.select(argument)", seq)
        chosen.until("view.marks.seq === argument && view.marks.text", seq)  # the words are Python's: it has heard
        other.until("view.marks.seq === argument && view.marks.text", seq)
        timeline.until("view.rects.some((r) => r.mark === 'select' && r.seq === argument)", seq)


@each_widget
def test_its_keys_are_its_own(gate: Gate, kind: type[TraceWidget]) -> None:
    """While a picture has the focus the notebook's shortcuts, which cut and insert cells, do not hear plain keys."""
    view, other = gate.view(kind), gate.view(Timeline if kind is not Timeline else WIDGETS[-1])
    cells = gate.notebook.evaluate(CELLS)
    gate.notebook.focus(f"{view.selector} canvas")
    for key in ("a", "b", "x", "m", "y", "k", "f", "v", "Enter", "d", "d"):
        gate.notebook.press(key)
    assert gate.notebook.evaluate("() => document.activeElement.dataset.testid") == "atops-canvas"
    assert gate.notebook.evaluate(CELLS) == cells
    view.get("view.select(-1)")
    other.until("view.marks.seq === -1")  # Python has heard it, and no answer to what was selected before is to come
    view.until("view.marks.seq === -1")
    gate.notebook.press("Escape")  # with nothing selected it leads back to the cell, whose keys are the notebook's
    gate.notebook.until("() => document.activeElement.matches('.jp-Cell')")


def test_they_work_on_after_the_page_is_loaded_again(gate: Gate) -> None:
    """A page that is loaded again gets the pictures out of Python's memory, and what happens from then on."""
    held = [gate.view(kind).get("view.scene.held") for kind in WIDGETS]
    gate.notebook.save()
    gate.notebook.reload()
    views = [gate.view(kind) for kind in WIDGETS]
    assert all(view.get("view.scene.held") >= before for view, before in zip(views, held, strict=True))
    gate.notebook.run_cell(WORK_CELL)
    for view, before in zip(views, held, strict=True):
        view.until("view.scene.held >= argument && view.rects.length > 0", before + RECORDS)


def test_a_saved_notebook_has_the_pictures(gate: Gate) -> None:
    """Its file holds SVG and text beside each view, and the compressed picture, whole, for viewers without a kernel."""
    for kind in WIDGETS:
        gate.view(kind).until("view.model.get('snapshot')?.byteLength > 0")  # when nothing has happened for a second
    content = gate.saved()
    for cell in content["cells"][-len(WIDGETS) :]:
        data = cell["outputs"][0]["data"]
        html, text = "".join(data["text/html"]), "".join(data["text/plain"])
        svg = base64.b64decode(html.partition("base64,")[2].partition('"')[0]).decode()
        assert "This was live" in html and svg.startswith("<svg ") and len(re.findall("<rect |<path ", svg)) > 3
        assert len(text.split()) > 5
        model = content["metadata"]["widgets"][STATE]["state"][data[VIEW]["model_id"]]
        [snapshot] = [base64.b64decode(buffer["data"]) for buffer in model["buffers"] if buffer["path"] == ["snapshot"]]
        assert unpack_snapshot(snapshot)[0]["held"] >= RECORDS


def test_the_work_is_right(gate: Gate) -> None:
    """The notebook's own result is there: widgets disturb nothing."""
    gate.notebook.until(f"() => document.body.textContent.includes('sum {SUM}')")


@pytest.mark.skipif(not os.environ.get(WANTED), reason=f"pictures are made with {WANTED}=1")
def test_pictures_of_the_tour(browser: BrowserThread, server: Server) -> None:
    """The tour as Notebook 7 shows it, at the pipeline that is watched, in both themes."""
    import jupytext

    content = jupytext.read(ROOT / "examples" / "tour" / "tour.py", fmt="py:percent")
    last = next(number for number, cell in enumerate(content.cells) if "watched.stop()" in cell.source)
    content.cells = content.cells[: last - 1]  # with the pipeline, and still watching
    jupytext.write(content, server.folder / "tour.ipynb")
    notebook = Notebook(browser, server, "notebooks/tour.ipynb")
    try:
        for kind in WIDGETS[:-1]:
            # Of the board: `%%timeline` has one above it, which is over.
            section = f".atops-board section.atops[aria-label='{kind.label}']"
            notebook.until(f'() => document.querySelector("{section}")?.atops?.rects?.length > 0')
        for theme, name in (("light", "JupyterLab Light"), ("dark", "JupyterLab Dark")):
            notebook.show_theme(name)
            notebook.picture(FOLDER / f"tour-{theme}.png", ".atops-board [data-testid=atops-timeline]")
    finally:
        notebook.close()
