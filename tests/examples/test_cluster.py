"""The examples of clusters: what they print is true, and the plan on paper bends where it says."""

from __future__ import annotations

import runpy

import pytest

from tests.examples.forks import run_each
from tests.examples.test_examples import FOLDER

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", exc_type=ImportError)


def test_the_histogram_survives_a_killed_worker(tmp_path):
    """Every count is numpy's."""
    program = FOLDER / "cluster" / "histogram.py"
    ran = run_each([program], tmp_path)[program]
    assert ran.returncode == 0, ran.stderr
    assert "2 workers" in ran.stdout and "is killed with SIGKILL" in ran.stdout
    assert "24 chunks" in ran.stdout and "every count is numpy's" in ran.stdout


def test_the_plan_on_paper_says_where_it_bends():
    """More workers are never busier; large bytes and short tasks bend first."""
    table = dict(runpy.run_path(str(FOLDER / "cluster" / "thousand_workers.py"))["table"]((2, 10, 50)))
    for parts in table.values():
        assert parts == sorted(parts, reverse=True) or max(parts) - min(parts) < 0.02, parts
    assert table["chunks of 4 MiB, 10 ms of kernels"][2] < 0.1 < 0.9 < table["batches of schedules, 5 s"][2]
