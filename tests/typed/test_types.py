"""What type checkers say of a user's program: nothing where it is correct, and each mistake where one is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.typed import program

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = [str(HERE / "program.py"), str(HERE / "refused.py")]
Found = dict[str, dict[int, str]]
KEPT = "mypy of programs"  # in pytest's cache: what mypy knows of the package and of numpy, while these are the same


def output(*command: str, where: Path = ROOT) -> str:
    """Return what a checker printed; what it returns says no more than that it found something."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=where, env=environment, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def by_mypy(folder: Path, kept: Path) -> Found:
    """Return the errors of mypy, strict, by file and line."""
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = True\nmypy_path = {ROOT}\nexplicit_package_bases = True\n")
    text = output("mypy", "--config-file", str(folder / "mypy.ini"), "--cache-dir", str(kept), *FILES)
    found: Found = {}
    for file, line, message in re.findall(r"^(.*?):(\d+): error: (.*)$", text, re.MULTILINE):
        found.setdefault(Path(file).name, {})[int(line)] = message
    assert "Success" in text or found, text
    return found


def by_pyright(folder: Path, kept: Path) -> Found:
    """Return the errors of pyright, strict, by file and line."""
    for file in FILES:  # it checks a folder
        shutil.copy(file, folder)
    settings = {"typeCheckingMode": "strict", "include": ["."], "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    text = output("pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder), where=folder)
    told = json.loads(text)
    assert told["summary"]["filesAnalyzed"] == len(FILES)
    found: Found = {}
    for each in told["generalDiagnostics"]:
        found.setdefault(Path(each["file"]).name, {})[each["range"]["start"]["line"] + 1] = each["message"]
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_what_a_checker_finds(
    check: Callable[[Path, Path], Found], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Nothing in the program, whose assert_types all hold; and in the other file each mistake, and nothing else."""
    cache: pytest.Cache | None = getattr(pytestconfig, "cache", None)  # there is none with `-p no:cacheprovider`
    found = check(tmp_path, tmp_path / "cache" if cache is None else cache.mkdir(KEPT))
    assert found.get("program.py", {}) == {}
    lines = (HERE / "refused.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert len(marked) >= 15 and found["refused.py"].keys() == marked, found["refused.py"]


def test_the_program_runs() -> None:
    """What is checked is a program that works."""
    total = sum(4 * (number + 2) for number in range(program.SIZE)) / 2
    assert program.main() == (total, [0.0, 8.0, 16.0], program.SIZE - 1)
