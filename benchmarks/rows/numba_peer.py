"""The numba CUDA simulator as a peer, in a process of its own: an empty launch and a barrier round."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import atops
from benchmarks.measuring.figures import Figure, Skipped, compared
from benchmarks.measuring.measure import Effort, board, interleave, timed
from benchmarks.rows.barriers import THREADS, rounds
from benchmarks.rows.round_trips import empty

__all__ = ("Simulator", "numba_peer")

REFERENCE = "numba simulator"
SCRIPT = Path(atops.__file__).parents[1] / "benchmarks" / "programs" / "numba_simulator.py"


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
