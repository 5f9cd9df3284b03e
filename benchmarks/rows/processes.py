"""Rows of other processes: what `import atops` costs a fresh interpreter, and the numba CUDA simulator as a peer."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import atops
from benchmarks.measuring.figures import Figure, Skipped, compared, value_at_most
from benchmarks.measuring.measure import Effort, board, interleave, timed
from benchmarks.rows.barriers import THREADS, rounds
from benchmarks.rows.commands import empty

__all__ = ("Simulator", "import_time", "numba_peer")

JUPYTER = {"IPython", "anywidget", "comm", "ipykernel", "ipywidgets", "jupyter", "nbformat", "notebook", "traitlets"}
PROGRAM = """
import json, sys, threading, time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted(sys.modules), threading.active_count()]))
"""
REFERENCE = "numba simulator"
SCRIPT = Path(atops.__file__).parents[1] / "benchmarks" / "programs" / "numba_simulator.py"


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


def numba_peer(effort: Effort) -> Iterator[Figure]:
    """Yield how many times as fast the same launch and the same barrier are here. Raises Skipped without the peer."""
    if importlib.util.find_spec("numba") is None:
        raise Skipped("numba is not installed; the extra `bench` brings it")
    if not SCRIPT.exists():
        raise Skipped("the peer's script comes with the source tree, and this is an installed package")
    launches, many, few = effort.size(100, 2), effort.size(2000, 10), effort.size(10, 1)
    with board() as device, Simulator() as simulator:
        stream = device.create_stream()

        def launch_all() -> None:
            for _ in range(launches):
                stream.launch(empty, (1, THREADS)).wait_sync()

        launch = interleave(effort.times(), theirs=lambda: simulator.run("launch", launches), ours=timed(launch_all))
        barrier = interleave(
            effort.times(),
            theirs=lambda: simulator.run("barrier", few),
            ours=timed(lambda: stream.launch(rounds, (1, THREADS), many).wait_sync()),
        )
    yield compared(
        "empty launch 1×12, times as fast", launch, "ours", "theirs",
        reference=REFERENCE, unit="µs", count=launches, faster=True,
    )  # fmt: skip
    yield compared(
        "barrier round of 12, times as fast", barrier, "ours", "theirs",
        reference=REFERENCE, unit="µs", count=many, other_count=few, faster=True,
    )  # fmt: skip


class Simulator:
    """The other process. A context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        )

    def run(self, what: str, count: int) -> float:
        """Return the seconds of `count` launches or barrier rounds. Raises RuntimeError when the process has ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(f"{what} {count}\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise RuntimeError(f"the simulator's process ended with code {self._process.wait()}")
        return float(answer)

    def __enter__(self) -> Simulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate()  # the end of its input ends it
