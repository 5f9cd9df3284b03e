"""The load generator: what it counts is what the service counts; and both as the programs that a user starts."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.service import load
from tests.examples.serving import held, serving

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.parametrize("how", [{"rate": 2000.0}, {"concurrency": 6}])
async def test_the_load_generator_counts_what_the_service_counts(how: dict[str, Any]):
    """Open loop and closed loop: every request is answered and counted once, and the percentiles are in order."""
    async with serving() as running:
        plan = load.Plan(running.url, requests=40, deadline_ms=30_000, **how)
        report = await load.generate(plan)
        figures = await running.metrics()
        assert report.statuses == {"200": 40} and report.requests == 40
        assert figures['service_requests_total{status="200"}'] == 40
        assert 0 < report.p50_ms <= report.p95_ms <= report.p99_ms <= report.seconds * 1e3
        assert report.answered_per_second == pytest.approx(40 / report.seconds)
        assert 1 <= report.mean_batch <= 32


@pytest.mark.slow
@pytest.mark.asyncio
async def test_the_load_generator_counts_refusals_and_errors():
    """A deadline that none can keep is 504 for all; a port without a server is an error by name, not the end."""
    async with serving() as running:
        url = running.url
        async with held(running):
            report = await load.generate(load.Plan(url, requests=5, concurrency=5, deadline_ms=5))
        assert report.statuses == {"504": 5}
        assert (report.p50_ms, report.mean_batch, report.answered_per_second) == (None, None, 0)
    report = await load.generate(load.Plan(url, requests=2, concurrency=1))
    assert report.statuses == {"ConnectError": 2}


def test_percentiles_are_those_of_the_nearest_rank():
    """Of a hundred latencies the 95th is the 95th."""
    samples = load.Samples(seconds=[number / 1e3 for number in range(100, 0, -1)], batches=[1, 2])
    report = load.Report.of(samples, 2.0)
    assert (report.p50_ms, report.p95_ms, report.p99_ms) == pytest.approx((50, 95, 99))
    assert (report.answered_per_second, report.mean_batch) == (50, 1.5)


NONSENSE = [{}, {"rate": 1.0, "concurrency": 1}, {"rate": 0.0}, {"concurrency": 1, "requests": 0}]


@pytest.mark.parametrize("wrong", NONSENSE)
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, Any]):
    """Neither loop, both, no rate, no requests."""
    with pytest.raises(ValueError, match=r"pass a rate|must be a number above 0"):
        load.Plan("http://localhost", **wrong)


@pytest.fixture
def program() -> Iterator[str]:
    """The address of a service that runs as a program; at the end a signal ends it, and it ends well."""
    command = [sys.executable, "-W", "error", "-m", "examples.service.app", "--port", "0", "--delay-ms", "1"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        lines = []
        try:
            for line in process.stderr:
                lines.append(line)
                if "running on" in line:
                    break
            else:
                pytest.fail("".join(lines))
            yield line.partition("running on ")[2].split()[0]
        finally:
            process.send_signal(signal.SIGTERM)
            _, rest = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert "Application shutdown complete" in rest and "Traceback" not in rest


@pytest.mark.slow
def test_both_run_as_programs(program: str):
    """A user starts the service and the load generator, and ends the service with a signal."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.service.load", "--url", program, "--requests", "8", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["statuses"] == {"200": 8}


@pytest.mark.slow
@pytest.mark.asyncio
async def test_the_table_has_every_figure(capsys: pytest.CaptureFixture[str]):
    """The program prints it; where nothing was answered it has dashes, and the program says 1."""
    async with serving() as running:
        arguments = ["--url", running.url, "--requests", "4", "--rate", "500"]
        assert await asyncio.to_thread(load.main, [*arguments, "--deadline-ms", "30000"]) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in ("answered per second", "status 200", "p50", "p95", "p99", " ms"))
        async with held(running):
            assert await asyncio.to_thread(load.main, [*arguments, "--deadline-ms", "5"]) == 1
        assert "status 504" in (shown := capsys.readouterr().out) and "–" in shown


def test_the_program_refuses_a_plan_that_makes_no_sense(capsys: pytest.CaptureFixture[str]):
    """As any program does: with the reason, and with 2."""
    with pytest.raises(SystemExit) as ended:
        load.main(["--rate", "-3"])
    assert ended.value.code == 2 and "rate must be a number above 0, got -3.0" in capsys.readouterr().err
