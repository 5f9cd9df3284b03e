"""The mutation run: which faults it plants, what it reports about them; and, in `make soak`, a run over the project."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.mutation import run
from tests.mutation.mutants import sample

pytestmark = pytest.mark.slow

SOURCE = '''"""A module."""
import os
from typing import Any

LIMIT = 1 + 2


@staticmethod
def place(value: int = 3, *, name: str | None = None) -> list[Any]:
    """Say 1 + 2."""
    found: int | None = value + 4
    while found < 5 and name is not None:
        print(found, name)
        found += 1
    return [found, "six"]
'''

MODULE = '''
def twice(value):
    return value + value


def unseen(value):
    return value * 3
'''
TESTS = "from figures.numbers import twice\n\ndef test_twice():\n    assert twice(3) == 6\n"
HANGS = """
import subprocess

def test_it():
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open("started", "w") as file:
        file.write(str(process.pid))
    process.wait()
"""
CONFIG = """
[numbers]
sample = 20
least = 0.9
sources = ["figures/*.py", "!figures/left_out.py"]
tests = ["tests/test_*.py"]
"""


def drawn(count: int, seed: str = "1") -> list[tuple[int, str, str]]:
    """Return what is drawn for SOURCE: line, operator, difference."""
    return [(each.line, each.operator, each.diff) for each in sample({"a.py": SOURCE}, count, Random(seed))]


def test_faults_are_planted_in_the_bodies_of_functions():
    """Statements, conditions and values are changed; imports, annotations, defaults, decorators, texts are not."""
    everything = drawn(1000)
    assert {line for line, _, _ in everything} == {11, 12, 13, 14}
    diffs = {diff for _, _, diff in everything}
    assert "-    found: int | None = value + 4\n+    found: int | None = value - 4" in diffs
    assert "-        print(found, name)\n+        pass" in diffs
    assert "-        print(found, name)\n+        print(found, )" in diffs
    assert any("+    while not (found < 5 and name is not None):" in diff for diff in diffs)
    assert any("+    while found <= 5 and name is not None:" in diff for diff in diffs)


def test_operators_take_turns():
    """A small sample has a fault of each operator before a second one of any."""
    several = [operator for _, operator, _ in drawn(1000)]
    small = Counter(operator for _, operator, _ in drawn(len(set(several))))
    assert set(small) == set(several)
    assert set(small.values()) == {1}


def test_a_seed_repeats_its_sample():
    """The same seed draws the same faults, another seed others; a larger sample goes on where the smaller one ends."""
    samples = [drawn(count) for count in (5, 8, 11)]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in pairwise(samples))
    assert drawn(8) == samples[1]
    assert drawn(8, "2") != samples[1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project: two functions, one of which is tested."""
    root = tmp_path / "project"
    for folder in ("figures", "tests"):
        (root / folder).mkdir(parents=True)
    (root / "figures" / "__init__.py").touch()
    (root / "figures" / "numbers.py").write_text(MODULE, encoding="utf-8")
    (root / "figures" / "left_out.py").write_text("def other():\n    return 1\n", encoding="utf-8")
    (root / "tests" / "test_numbers.py").write_text(TESTS, encoding="utf-8")
    return root


def start(tree: Path) -> tuple[int, dict]:
    """Run the small project; return the exit status and the report."""
    config, report = tree.parent / "groups.toml", tree.parent / "report.json"
    config.write_text(CONFIG, encoding="utf-8")
    status = run.main(["--root", str(tree), "--config", str(config), "--json", str(report)])
    return status, json.loads(report.read_text(encoding="utf-8"))["numbers"]


def test_a_fault_that_no_test_notices_survives(tree: Path, capsys: pytest.CaptureFixture[str]):
    """Faults of the tested function are killed, those of the other reported; too many of them make the run fail."""
    status, report = start(tree)
    assert status == 1
    assert (report["mutants"], report["killed"], report["timeouts"], report["survived"]) == (3, 1, 0, 2)
    assert report["rate"] == pytest.approx(1 / 3, abs=0.001)
    assert report["operators"] == {"operator_swap_op": 2, "operator_number": 1}
    assert {(each["file"], each["line"]) for each in report["survivors"]} == {("figures/numbers.py", 7)}
    printed = capsys.readouterr().out
    assert "figures/numbers.py:7 operator_number\n-    return value * 3\n+    return value * 4" in printed
    assert "numbers: the tests notice fewer faults than 90%" in printed
    assert (tree / "figures" / "numbers.py").read_text(encoding="utf-8") == MODULE, "the project itself is changed"


def test_tests_that_fail_anyway_are_refused(tree: Path):
    """Without a fault the tests must pass, else they would seem to notice every one."""
    (tree / "tests" / "test_numbers.py").write_text("def test_it():\n    assert 0\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"numbers: the tests fail before anything was changed:\n(?s:.*)assert 0"):
        start(tree)


def test_a_glob_without_files_is_refused(tree: Path):
    """A group whose files have moved is an error, not an empty success."""
    (tree / "figures" / "left_out.py").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file matches '!figures/left_out\.py'"):
        start(tree)


def test_a_hang_is_a_timeout(tree: Path):
    """A test that never ends is a timeout, by its own limit or by the run's; what it has started ends with it."""
    (tree / "tests" / "test_numbers.py").write_text(HANGS, encoding="utf-8")
    assert run.run(tree, ["tests/test_numbers.py"], limit=0.1, test_limit=60) == ("timeout", "")
    assert run.run(tree, ["tests/test_numbers.py"], limit=60, test_limit=1)[0] == "timeout"
    started = int((tree / "started").read_text(encoding="ascii"))
    with pytest.raises(ProcessLookupError):
        for _ in range(500):
            os.kill(started, 0)
            time.sleep(0.01)


def test_every_group_has_files():
    """The globs of groups.toml still find the sources and tests that they mean."""
    groups = run.groups_of(run.GROUPS)
    assert set(groups) == {"executors", "queues", "pools", "dte", "barrier"}
    for group in groups.values():
        assert run.found(run.ROOT, group["sources"])
        assert run.found(run.ROOT, group["tests"])


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", run.groups_of(run.GROUPS))
def test_the_tests_notice_faults(group: str):
    """Of the faults planted in each group's modules its tests notice at least the part that groups.toml asks for."""
    assert run.main([group, "--sample", "15"]) == 0
