"""`atops compile`: the file's own lines, what it has, a code image that can be loaded, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from atops import kernels as k
from atops.cli import main

PYTHON = """from atops import kernels as k
N = 2
@k.kernel
def twice(y: k.Span, x: k.Span) -> None:
    y[:] = N * x
"""
CXX = """#include "part.h"
template <typename T> __global__ void scale(T *x, int n) { __local__ T tile[256]; tile[0] = x[0]; x[0] = tile[0] * K; }
__global__ void plain(float *x) { x[0] = part(); }
"""


def test_it_says_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str], compiler: None) -> None:
    """Kernels with parameters and memory; templates by a name expression; headers of the folder; a code image."""
    (tmp_path / "a.py").write_text(PYTHON)
    (tmp_path / "b.tops").write_text(CXX)
    (tmp_path / "part.h").write_text("inline float part() { return 1; }\n")
    assert main(["compile", str(tmp_path / "a.py"), "-o", str(tmp_path / "a.img")]) == 0
    assert "twice(y, x)" in capsys.readouterr().out
    assert list(k.load_module(tmp_path / "a.img").kernels) == ["twice"]
    command = ["compile", str(tmp_path / "b.tops"), "-DK=3", "-e", "scale<float>", "-o", str(tmp_path / "b.img")]
    assert main(command) == 0
    assert capsys.readouterr().out == "plain(x)\nscale<float>(x, n)\n"
    assert sorted(k.load_module(tmp_path / "b.img").kernels) == ["plain", "scale<float>"]


def test_mistakes_and_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str], compiler: None) -> None:
    """1 for a text that does not compile, told with line and caret; 2 for what is no text."""
    (tmp_path / "wrong.tops").write_text("__global__ void f(float *x) {\n    x[0] = nope;\n}\n")
    assert main(["compile", str(tmp_path / "wrong.tops")]) == 1
    said = capsys.readouterr().err
    assert "wrong.tops:2:12: error:" in said
    assert "\n           ^" in said
    assert main(["compile", str(tmp_path / "absent.tops")]) == 2
    (tmp_path / "none.py").write_text("N = 2\n")
    assert main(["compile", str(tmp_path / "none.py")]) == 0
    assert "none.py has no kernel" in capsys.readouterr().out
