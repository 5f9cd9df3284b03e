"""What `import atops` costs a fresh interpreter: seconds, modules that belong in a notebook, threads."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import atops
from benchmarks.measuring.figures import Figure, value_at_most
from benchmarks.measuring.measure import Effort

__all__ = ("import_time",)

JUPYTER = {"IPython", "anywidget", "comm", "ipykernel", "ipywidgets", "jupyter", "nbformat", "notebook", "traitlets"}
PROGRAM = """
import json, sys, threading, time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted(sys.modules), threading.active_count()]))
"""


def import_time(effort: Effort) -> Iterator[Figure]:
    """Yield the seconds, next to those of numpy alone, then how many Jupyter modules and threads came along."""
    times: dict[str, list[float]] = {"numpy": [], "atops": []}
    names: list[str] = []
    threads = 1
    with TemporaryDirectory() as compiled:
        for turn in range(effort.times() + 1):
            for module, taken in times.items():
                seconds, names, threads = _imported(module, compiled)
                if turn:
                    taken.append(seconds)
    jupyter = {name for name in names if name.partition(".")[0].partition("_")[0] in JUPYTER}
    ratio = statistics.median(mine / theirs for mine, theirs in zip(times["atops"], times["numpy"], strict=True))
    yield Figure(
        "import atops", min(times["atops"]), "s", "import numpy", min(times["numpy"]), ratio, None, value_at_most(0.3)
    )
    yield Figure("  Jupyter modules that it loads", len(jupyter), "", budget=value_at_most(0))
    yield Figure("  threads that it starts", threads - 1, "", budget=value_at_most(0))


def _imported(module: str, compiled: str) -> tuple[float, list[str], int]:
    """Import a module in a fresh interpreter; return seconds, names of all modules, and how many threads there are.

    Its bytecode is kept in the folder `compiled`, and found there the next time. Elsewhere only what was installed has
    any for certain: where the environment asks for none to be written, numpy would be imported and atops compiled.
    """
    root = str(Path(atops.__file__).parents[1])  # the very atops that is measured, installed or not
    program = f"import sys; sys.path.insert(0, {root!r})\n" + PROGRAM.format(module=module)
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    answer: Any = json.loads(done.stdout)
    return answer[0], answer[1], answer[2]
