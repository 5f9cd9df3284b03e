"""Programs of their own: a child process with a hard time limit, whose output is shown when it does not do as told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

from tests.architecture.source_tree import ROOT

LIMIT = 100.0  # seconds that a child may take before it is killed; on a quiet machine the longest takes 20


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with `changes`, the package on the path and no other atops variable."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATOPS_", "PYTHON", "COV_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def start(program: str, *arguments: str, **changes: str) -> subprocess.Popen[str]:
    """Start `tests.runtime.programs.<program>` in a process of its own."""
    # From Python 3.12 on it warns of any fork beside threads, which is what some programs are for.
    options = ["-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning"]
    command = [sys.executable, *options, "-m", f"tests.runtime.programs.{program}", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment(changes), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,  # so that whatever it forks can be killed with it
    )  # fmt: skip


def finish(process: subprocess.Popen[str], limit: float = LIMIT) -> tuple[str, str]:
    """Wait for a child and return what it wrote. Kills it at the limit; fails unless it exits with 0."""
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{process.args} did not end within {limit} s\n{out}\n{err}") from None
    assert process.returncode == 0, f"{process.args} exited with {process.returncode}\n{out}\n{err}"
    return out, err


def run(program: str, *arguments: str, **changes: str) -> str:
    """Run a program to its end and return what it printed. Fails unless it exits with 0 and complains of nothing."""
    out, err = finish(start(program, *arguments, **changes))
    assert not err, f"{program} {arguments} complained\n{out}\n{err}"
    return out
