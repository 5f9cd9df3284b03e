"""Every C-style program of the examples runs as a user runs it, arrives at its assert, and complains of nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.examples.forks import Ran, run_each

pytestmark = pytest.mark.timeout(300)  # the first test runs all programs
ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(path for family in ("tops", "hip", "aml") for path in (ROOT / "examples" / family).glob("*.py"))
NAMES = [path.stem for path in PROGRAMS]
OBSERVED = [path for path in PROGRAMS if path.parent.name != "tops" or path.stem == "two_processes"]

NOT_SEEN = re.compile(
    r"inconclusive: no race was found, and not all was observed|not seen:|  what (numpy|others) do.*|observed: .*"
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run all programs."""
    return run_each(PROGRAMS, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run those of OBSERVED with detectors."""
    return run_each(OBSERVED, tmp_path_factory.mktemp("observed"), ATOPS_DETECT="1")


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=NAMES)
def test_each_program_runs(path: Path, plain: Ran):
    """It ends well, prints a few lines, and leaves no file behind."""
    done = plain[path]
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert 1 <= len(done.stdout.splitlines()) <= 20


@pytest.mark.slow
@pytest.mark.parametrize("path", OBSERVED, ids=[path.stem for path in OBSERVED])
def test_the_detectors_find_nothing(path: Path, observed: Ran):
    """With threads, as it runs: a race would be logged. The others are judged with their mutants (tests/races).

    Where numpy or another process has some of the memory, the end of the process says that this was not seen.
    """
    done = observed[path]
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line and not NOT_SEEN.fullmatch(line)] == []


@pytest.mark.parametrize("path", PROGRAMS, ids=NAMES)
def test_each_program_asserts_its_result(path: Path):
    """A program that computes something else than it should does not end well."""
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
