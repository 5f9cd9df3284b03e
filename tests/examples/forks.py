"""Runs programs each in a process of its own, a fork of one that has loaded numpy and atops: half the time of a run.

What a program does from its first line to the interpreter's end is its own: arguments, folder, output, exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 100  # of a program: the first kernel in C++ may wait for the runtime to be compiled

# A child leaves the loop and ends as an interpreter does behind its script.
SCRIPT = f"""
import os, runpy, signal, sys
import numpy, atops
where, *programs = sys.argv[1:]
for number, program in enumerate(programs):
    child = os.fork()
    if not child:
        signal.alarm({MOST_SECONDS})
        for name, to in (("out", 1), ("err", 2)):
            os.dup2(os.open(f"{{where}}/{{number}}.{{name}}", os.O_CREAT | os.O_WRONLY), to)
        os.mkdir(f"{{where}}/{{number}}")
        os.chdir(f"{{where}}/{{number}}")
        sys.argv[:], sys.path[0] = [program], os.path.dirname(program)
        runpy.run_path(program, run_name="__main__")
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


Ran = dict[Path, subprocess.CompletedProcess[str]]


def run_each(programs: Iterable[Path], folder: Path, **environment: str) -> Ran:
    """Run programs one behind the other, with warnings as errors, in new folders below `folder` that they leave empty.

    Returns by program what each said and its exit code.
    """
    programs = list(programs)
    # Without threads of a library, beside which no process should fork.
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **environment}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(folder), *map(str, programs)],
        env=variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    codes = [int(line) for line in ended.stdout.split()]
    found = {}
    for number, (program, code) in enumerate(zip(programs, codes, strict=True)):
        left = list((folder / str(number)).iterdir())
        assert not left, f"{program} leaves {left}"
        out, err = ((folder / f"{number}.{name}").read_text(encoding="utf-8") for name in ("out", "err"))
        found[program] = subprocess.CompletedProcess([str(program)], code, out, err)
    return found
