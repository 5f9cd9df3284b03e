"""What numpy needs of the namespace of a source text is there, though the text itself may not name it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from atops.base.errors import CompilationError
from atops.kernels.programs.program import compile_source

ROOT = Path(__file__).resolve().parents[2]

# numpy imports the module behind these methods when one is first called in the process, through the caller's builtins.
FIRST_SUM = '''
import numpy as np

import atops
from atops import kernels as k

text = """
@k.kernel
def reduce(x):
    tile = k.local(4, np.float64)
    tile[:] = x
    x[0] = tile[1:].sum() + tile[1:].max()
"""

async def main():
    async with atops.Device(0).create_stream() as stream:
        x = stream.upload(np.array([0.0, 1.0, 2.0, 3.0]))
        stream.launch(k.compile_source(text).kernels["reduce"], (1, 1), x)
        return await stream.fetch(x)

assert atops.run(main)[0] == 9
'''


@pytest.mark.slow
def test_numpy_may_load_its_own_parts():
    """The first sum of a process, in a compiled kernel, is a sum."""
    ended = subprocess.run(
        [sys.executable, "-c", FIRST_SUM], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_the_text_may_not_import():
    """What is there for numpy is no name of the language."""
    with pytest.raises(CompilationError, match="undefined name '__import__'"):
        compile_source("@k.kernel\ndef f(x):\n    __import__('os')\n")
