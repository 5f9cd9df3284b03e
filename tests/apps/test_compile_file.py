"""`atops compile`: what a file defines, its mistakes in its own lines, its code image, and bad input."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import atops
from atops import kernels as k
from atops.cli import main
from atops.kernels.programs.image import CodeImage

PYTHON = """\
from tiles import SIDE
@k.kernel
def scale(x, a: np.float32):
    tile = k.local(SIDE * BY, np.float32)
    x[k.thread_id()] *= a
"""
CXX = """\
#include "more/tiles.h"
__device__ int counter;
extern "C" __global__ void scale(float *x, float a) { x[threadIdx.x] *= a * SIDE; }
"""


def compiled(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run the command. Returns its code, and what it printed on both outputs."""
    code = main(["compile", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_a_text_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels are listed with what they take; an image has the texts that it needs, and no others of the folder."""
    file, image = tmp_path / "scale.py", tmp_path / "scale.image"
    file.write_text(PYTHON)
    (tmp_path / "tiles.py").write_text("SIDE = 16\n")
    (tmp_path / "other.py").write_text("this is not Python\n")
    code, out, err = compiled(capsys, file, "-DBY=4", "--arch", "gcu210", "-o", image)
    assert (code, out, err) == (0, "scale(x, a): 256 B of L1 a thread\n", "")
    found = CodeImage.load(image)
    assert (found.arch, [name for name, _ in found.headers]) == ("gcu210", ["tiles.py"])


def test_what_lies_near_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what the text mentions is read, also in a folder with more texts, and with those of the other language."""
    monkeypatch.setattr("atops.tops.program.command.MOST_HEADERS", 2)  # the file itself, and one
    file = tmp_path / "scale.py"
    file.write_text(PYTHON)
    (tmp_path / "a").mkdir()
    for name in ("a/far.py", "a.h", "b.h", "tiles.py"):
        (tmp_path / name).write_text("SIDE = 16\n")
    assert compiled(capsys, file, "-DBY=4")[0] == 0


def test_a_mistake_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not compile ends with 1 and the compiler's words, and writes no image."""
    file, image = tmp_path / "scale.py", tmp_path / "scale.image"
    file.write_text(PYTHON.replace("k.thread_id", "k.thread_idd"))
    (tmp_path / "tiles.py").write_text("SIDE = 16\n")
    code, out, err = compiled(capsys, file, "-DBY=4", "-o", image)
    assert (code, out, image.exists()) == (1, "", False)
    assert err.startswith("scale.py:5:9: error: 'k' has no name 'thread_idd'")


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there or no text, an option that is wrong and an image that cannot be written end with 2."""
    binary, good = tmp_path / "binary.tops", tmp_path / "good.py"
    binary.write_bytes(b"\xff\xfe\x00")
    good.write_text("@k.kernel\ndef f(x): x[0] = 1\n")
    for arguments, words in (
        ([tmp_path / "missing.tops"], "No such file or directory"),
        ([binary], "no text in UTF-8"),
        ([good, "-I", tmp_path / "nowhere"], "error: -I expects a folder, got '"),
        ([good, "-D2=3"], "good.py: error: macro name '2' is no identifier"),
        ([good, "-o", tmp_path / "no" / "image"], "No such file or directory"),
    ):
        code, out, err = compiled(capsys, *arguments)
        assert (code, out) == (2, "") and words in err, err


@pytest.mark.slow
def test_a_text_in_cxx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Headers are found, mistakes have the line of the file, warnings may be errors, and the image runs."""
    file, image = tmp_path / "scale.tops", tmp_path / "scale.image"
    file.write_text(CXX)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "tiles.h").write_text("#define SIDE 2\n")
    assert compiled(capsys, file, "-o", image) == (0, "scale(x, a)\nand counter\n", "")
    with closing(atops.Driver()) as driver:
        stream = atops.Device(0, driver).create_stream()
        x = stream.upload(np.arange(12, dtype=np.float32))
        stream.launch(k.load_module(image).function("scale"), (1, 12), x, 3.0)
        assert np.array_equal(stream.fetch(x).wait_sync(), 6 * np.arange(12))
    file.write_text(CXX.replace("x[thr", "y[thr"))
    code, out, err = compiled(capsys, file)
    assert (code, out) == (1, "") and err.startswith("scale.tops:3:") and "'y' was not declared" in err
    file.write_text("__device__ void never_heard_of();\n" + CXX.replace("{ x[", "{ never_heard_of(); x["))
    assert compiled(capsys, file)[0] == 0
    code, _, err = compiled(capsys, file, "-Werror")
    assert code == 1 and "never_heard_of" in err
