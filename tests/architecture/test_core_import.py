"""Importing the package is cheap: no thread, no notebook, terminal, graph or second-loop library, little time."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import Any

import pytest

from tests.architecture.source_tree import ROOT

APPS_ONLY = ("IPython", "anywidget", "ipywidgets", "numba", "onnx", "rich", "traitlets", "trio")
LATE = (  # of which many programs need nothing: loaded when it is first named or asked for
    "atops.checking.check", "atops.runtime.pipeline", "atops.runtime.profiling", "atops.runtime.races.command_detector",
    "atops.runtime.run", "atops.tops", "difflib", "html", "json",
)  # fmt: skip
RUNS = 3
MOST_SECONDS = 1.5  # generous: the budget of 0.30 s is measured by the bench, and no busy machine fails a test

PROBE = """
import sys, threading, time
start = time.process_time()
import {package}
seconds = time.process_time() - start
print(dict(seconds=seconds, threads=[t.name for t in threading.enumerate()], loaded=sorted(sys.modules)))
"""


def probe(package: str) -> dict[str, Any]:
    """Return what importing `package` in a fresh interpreter does: its seconds, its threads, the packages loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(package=package)],
        check=True,
        capture_output=True,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
    )
    return ast.literal_eval(done.stdout)


@pytest.mark.slow
def test_the_core_brings_nothing_along(record_property: pytest.FixtureRequest):
    """`import atops` starts no thread, loads no package that only apps need, and is quick."""
    runs = [probe("atops") for _ in range(RUNS)]
    seconds = min(run["seconds"] for run in runs)
    record_property("import_seconds", seconds)
    assert runs[0]["threads"] == ["MainThread"]
    assert not set(runs[0]["loaded"]).intersection(APPS_ONLY + LATE)
    assert seconds <= MOST_SECONDS


@pytest.mark.slow
def test_the_probe_sees_what_an_import_brings():
    """The probe reports a package that is loaded by another, so the test above can fail."""
    assert {"trio", "outcome"} <= set(probe("trio")["loaded"])
