"""Runs a notebook in a kernel of its own and names what is wrong with it: more than a cell that raised.

The notebook packages are imported by the functions that need them: they take seconds, and every worker collects this.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
OVERLAY = Path(sys.prefix) / ".kernel6"  # `make test` puts ipykernel 6 there
REQUIRED = "ATOPS_REQUIRE_KERNELS"
RAISES = "raises-exception"  # the tag of a cell that must raise
MOST_SECONDS = 60  # of a cell
COLOURS = re.compile(r"\x1b\[[\d;]*m")

BEGIN = "from tests.notebooks import guard\nguard.begin()"
END = "await guard.end()"


@dataclass(frozen=True)
class Kernel:
    """A version of ipykernel: the environment's own, or one in a folder that comes before it."""

    name: str
    folder: Path | None = None

    def require(self) -> None:
        """Skip the test where this version is not installed; fail it where it has to be."""
        if self.folder is None or (self.folder / "ipykernel").is_dir():
            return
        notice = f"{self.name} is not in {self.folder.name}; `make test` installs it"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(notice)
        pytest.skip(notice)


KERNELS = (Kernel("ipykernel"), Kernel("ipykernel 6", OVERLAY))


def from_source(path: Path) -> NotebookNode:
    """Return the notebook of a py:percent file."""
    import jupytext

    return jupytext.read(path, fmt="py:percent")


def from_cells(*cells: str) -> NotebookNode:
    """Return a notebook of code cells."""
    import nbformat

    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


def run(notebook: NotebookNode, kernel: Kernel, **environment: str) -> list[str]:
    """Run a notebook between the guard's cells and fill in its outputs. Return what is wrong with it."""
    import nbformat
    from nbclient.exceptions import CellExecutionError

    kernel.require()
    cells = notebook.cells
    first, last = (nbformat.v4.new_code_cell(text) for text in (BEGIN, END))
    whole = nbformat.from_dict({**notebook, "cells": [first, *cells, last]})
    with tempfile.TemporaryDirectory(prefix="nb") as folder:
        try:
            asyncio.run(_execute(whole, kernel, Path(folder), environment))
        except CellExecutionError as error:
            return [_plain(str(error))]
    notebook.cells = whole.cells[1:-1]
    return faults(whole)


async def _execute(notebook: NotebookNode, kernel: Kernel, folder: Path, environment: dict[str, str]) -> None:
    """Run all cells in a kernel that reads no settings of this machine and is reached over a socket file."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    paths = [*([str(kernel.folder)] if kernel.folder else []), str(ROOT), str(ROOT / "widgets")]
    specification = {
        "argv": [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": kernel.name,
        "language": "python",
        "env": {"PYTHONPATH": os.pathsep.join(paths), "IPYTHONDIR": str(folder / "ipython"), **environment},
    }
    (folder / "tested").mkdir()
    (folder / "tested" / "kernel.json").write_text(json.dumps(specification), encoding="utf-8")
    manager = AsyncKernelManager(
        kernel_name="tested",
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(folder)], ensure_native_kernel=False),
        connection_file=str(folder / "connection.json"),
        transport="ipc",
        ip=str(folder / "socket"),
    )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=MOST_SECONDS,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
    )
    await client.async_execute(cleanup_kc=True)


def faults(notebook: NotebookNode) -> list[str]:
    """Return what is wrong with a notebook whose cells have all run: what went to stderr, what should have raised."""
    found = []
    for cell in notebook.cells:
        outputs = cell.get("outputs", ())
        for output in outputs:
            if output.output_type == "stream" and output.name == "stderr":
                found.append(f"stderr: {output.text}of this cell:\n{cell.source}")
        if RAISES in cell.metadata.get("tags", ()) and not any(each.output_type == "error" for each in outputs):
            found.append(f"this cell did not raise:\n{cell.source}")
    return found


def text_of(cell: NotebookNode) -> str:
    """Return everything a cell shows as plain text."""
    parts: list[str] = []
    stream = None
    for output in cell.get("outputs", ()):
        before, stream = stream, output.get("name")
        if output.output_type == "stream" and stream == before:
            parts[-1] += output.text  # a kernel may flush between any two lines
        elif output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type == "error":
            parts.append("\n".join(output.traceback))
        else:
            parts.append(str(output.data.get("text/plain", "")))
    return _plain("\n".join(parts))


def _plain(text: str) -> str:
    return COLOURS.sub("", text)
