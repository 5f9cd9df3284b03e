"""A real Jupyter server, with notebooks opened and run in the browser of the tests, in Notebook and in JupyterLab."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.widgets.host import BrowserThread, Shown

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
IDLE = """() => {
  const current = window.jupyterapp?.shell.currentWidget;
  return current?.sessionContext?.session?.kernel?.status === "idle";
}"""
RUN_ALL = """async () => {
  await window.jupyterapp.commands.execute("notebook:run-all-cells");
  void 0;
}"""
RUN_ONE = """async (number) => {
  const {commands, shell} = window.jupyterapp;
  shell.currentWidget.content.activeCellIndex = number;
  await commands.execute("notebook:run-cell");
  void 0;
}"""
# Twenty frames: what stands above moves while it is laid out anew.
SCROLL = """async (selector) => {
  for (let frame = 0; frame < 20; frame += 1) {
    document.querySelector(selector).scrollIntoView({block: "start"});
    await new Promise(requestAnimationFrame);
  }
}"""
SAVE = """async () => {
  await window.jupyterapp.shell.currentWidget.context.save();
  void 0;
}"""
# What a person switches on in the settings: the pictures are saved in the notebook.
SETTINGS = {"@jupyter-widgets/jupyterlab-manager/plugin.jupyterlab-settings": {"saveState": True}}


class Server:
    """One server in a folder of its own, reached with its token only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        own = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME")
        places = {name: str(folder / name) for name in own}
        for name, content in SETTINGS.items():
            path = folder / "JUPYTER_CONFIG_DIR" / "lab" / "user-settings" / name
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(content), encoding="utf-8")
        own_paths = os.pathsep.join([str(ROOT), str(ROOT / "widgets")])
        self.environment = {**os.environ, **places, "PYTHONPATH": own_paths}
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "notebook", "--no-browser",
                "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
                "--IdentityProvider.token=", "--ServerApp.allow_root=True", f"--ServerApp.root_dir={folder}",
                "--JupyterNotebookApp.expose_app_in_browser=True", "--LabApp.expose_app_in_browser=True",
                "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            ],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            env=self.environment,
        )  # fmt: skip
        self._wait(port)

    def write(self, name: str, cells: list[str]) -> None:
        """Write a notebook of code cells."""
        made = [{"cell_type": "code", "id": f"cell{number}", "metadata": {}, "outputs": [], "execution_count": None,
                 "source": text} for number, text in enumerate(cells)]  # fmt: skip
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        content = {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
        (self.folder / name).write_text(json.dumps(content), encoding="utf-8")

    def close(self) -> None:
        """End the server and its kernels."""
        self._process.terminate()
        self._process.wait(SECONDS)
        self._log.close()

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise AssertionError(f"the server did not start:\n{text}") from None
                time.sleep(0.05)


class Notebook:
    """A notebook that was opened in a page and run. `requests` are addresses on other hosts that were asked for,
    `errors` what failed in modules of widgets: they come as blobs, the front end's own scripts do not.
    """

    def __init__(self, thread: BrowserThread, server: Server, path: str) -> None:
        self.thread = thread
        self.server = server
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page: Any = None
        self.context: Any = None
        self._call(self._open, f"{server.url}/{path}")

    def until(self, script: str) -> Any:
        """Wait until a function of JavaScript returns something true in the page; return it."""
        return self._call(self._until, script)

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """Return what a function of JavaScript returns in the page."""
        return self._call(self.page.evaluate, script, argument)

    def shown(self, kind: Any) -> Shown:
        """Return the first view of a class of widgets, when it is there."""
        selector = f"section.atops[aria-label='{kind.label}']"
        self.until(f'() => document.querySelector("{selector}")?.atops?.answered')
        return Shown(self, None, selector)

    def run_cell(self, number: int) -> None:
        """Run one cell, to its end."""
        self.evaluate(RUN_ONE, number)

    def focus(self, selector: str) -> None:
        """Give an element the focus."""
        self._call(self.page.locator(selector).first.focus)

    def press(self, key: str) -> None:
        """Press a key wherever the focus is."""
        self._call(self.page.keyboard.press, key)

    def save(self) -> None:
        """Save the notebook to its file."""
        self.evaluate(SAVE)

    def reload(self) -> None:
        """Load the page again; the kernel goes on."""
        self._call(self.page.reload)
        self.until(IDLE)

    def show_theme(self, name: str) -> None:
        """Show the front end in one of its themes."""
        self.evaluate("(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        self.until(f"() => document.body.dataset.jpThemeName === '{name}'")

    def picture(self, path: Path, selector: str) -> None:
        """Write a picture of the page, higher than a screen, that begins with an element."""
        self._call(self.page.set_viewport_size, {"width": 1200, "height": 1500})
        self.evaluate(SCROLL, selector)
        self._call(lambda: self.page.screenshot(path=path))

    def close(self) -> None:
        """Shut the kernels down and close the page."""
        self.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
        self._call(self.context.close)

    def _call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Call an async function on the browser's thread; a kernel that starts may take its time."""

        async def run() -> T:
            return await function(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self.thread.loop).result(SECONDS)

    async def _open(self, url: str) -> None:
        self.context = await self.thread.browser.new_context(viewport={"width": 1200, "height": 2400})
        await self.context.route("**/*", self._route)
        self.page = await self.context.new_page()
        self.page.on("pageerror", self._note)
        await self.page.goto(url)
        await self._until(IDLE)
        await self.page.evaluate(RUN_ALL)

    async def _until(self, script: str) -> Any:
        return await (await self.page.wait_for_function(script, timeout=SECONDS * 900)).json_value()

    async def _route(self, route: Any) -> None:
        if route.request.url.startswith((self.server.url, "data:", "blob:", "about:")):
            await route.continue_()
        else:
            self.requests.append(route.request.url)
            await route.abort()

    def _note(self, error: Any) -> None:
        if "blob:" in (error.stack or ""):
            self.errors.append(error.stack)
