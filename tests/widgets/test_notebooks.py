"""The widgets in a real Notebook and a real JupyterLab, with a real kernel: they draw, live, and fetch nothing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from atops_widgets import WIDGETS
from tests.widgets.host import BrowserThread, missing
from tests.widgets.jupyter_server import Notebook, Server

CELLS = [
    "import numpy as np, atops, atops_widgets",
    "board = atops_widgets.watch()\nboard",
    """async with atops.Device(0).create_stream(name="worker") as stream:
    x = stream.zeros(1024, np.int32)
    for value in range(20):
        await stream.fill(x, value)
    print("sum", int((await stream.fetch(x)).sum()))""",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of notebooks."""
    if not all(find_spec(name) for name in ("notebook", "jupyterlab", "ipykernel")):
        missing("notebook, jupyterlab and ipykernel are not all installed")
    made = Server(tmp_path_factory.mktemp("notebooks"))
    yield made
    made.close()


@pytest.mark.parametrize("place", ["notebooks", "lab/tree"])
def test_a_live_dashboard(browser: BrowserThread, server: Server, place: str) -> None:
    """Every widget of the dashboard is drawn and gets frames from the kernel while cells run; no host is asked."""
    server.write("live.ipynb", CELLS)
    notebook = Notebook(browser, server, f"{place}/live.ipynb")
    try:
        for kind in WIDGETS:
            name = kind.script.removesuffix(".js")
            notebook.until(f"""() => {{
              const view = document.querySelector("[data-testid=atops-{name}]")?.atops;
              return view?.answered && view.scene.held > 20 && view.rects.length > 0;
            }}""")
        notebook.until("() => document.body.textContent.includes('sum 19456')")
    finally:
        notebook.close()
    assert notebook.requests == []
