"""The bench: what it prints and writes, when it fails, and that its figures mean what they say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import LaunchFailure
from atops.device.dte.operations import OPERATIONS
from benchmarks import bench
from benchmarks.bare.drain import TaskDrain, ThreadDrain, one_thread
from benchmarks.bench import BENCHMARKS, main
from benchmarks.measuring.figures import Figure, Skipped, at_least, at_most, compared, quantity, value_at_most
from benchmarks.measuring.measure import Effort, Times, board, interleave
from benchmarks.rows import kernels, vectors
from benchmarks.rows.kernels import example_kernels
from benchmarks.rows.switched_off import without_detector_hooks, without_trace_checks
from benchmarks.rows.transforms import FULL, Case, cases
from benchmarks.rows.vector_add import Vectors, add_shares, add_slices, add_tiles
from benchmarks.rows.vectors import STATEMENTS, in_kernel
from tests.every import every

FIGURE_KEYS = {
    "benchmark", "what", "value", "unit", "reference", "reference_value", "ratio", "spread", "budget", "held",
}  # fmt: skip

GOOD = Figure("good", 1.0, "µs", "noop", 2.0, 0.5, (0.4, 0.6), at_most(1.0))
BAD = Figure("bad", 30.0, "µs", budget=value_at_most(20))
UNJUDGED = Figure("unjudged", 3.0, "/s")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace the benchmarks by some that yield the given figures, or raise the given exception."""

    def plant(**made: Any) -> None:
        def benchmark(result: Any) -> Callable[[Effort], Iterator[Figure]]:
            def run(effort: Effort) -> Iterator[Figure]:
                if isinstance(result, Exception):
                    raise result
                yield from result

            return run

        monkeypatch.setattr(bench, "BENCHMARKS", {name: benchmark(result) for name, result in made.items()})

    return plant


def report_of(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the bench and return its exit code and its JSON report."""
    path = tmp_path / "report.json"
    code = main([*arguments, "--json", str(path)])
    return code, json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_smoke_run_goes_through_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Benchmarks run with tiny sizes, none raises, none is judged, and the report has the schema's shape.

    All but those that start a browser or many processes: `make bench-smoke` goes through these, too.
    """
    rows = [name for name in BENCHMARKS if name not in ("widgets", "cluster", "import")]
    code, report = report_of(tmp_path, "--smoke", *(f"--only={name}" for name in rows))
    assert (code, report["failed"], report["held"], report["smoke"], report["schema"]) == (0, {}, True, True, 1)
    assert set(report["versions"]) == {"atops", "python", "implementation", "numpy"}
    assert report["machine"]["cpus"] >= 1
    assert {figure["benchmark"] for figure in report["figures"]} | set(report["skipped"]) == set(rows)
    assert len(report["figures"]) >= 20
    for figure in report["figures"]:
        assert set(figure) == FIGURE_KEYS
        assert figure["held"] is None
        assert figure["value"] >= 0 or " over " in figure["what"]  # a difference of two short times may be less
        assert figure["ratio"] is None or figure["ratio"] > 0
    printed = capsys.readouterr().out
    assert [figure["what"] for figure in report["figures"] if figure["what"].strip() not in printed] == []


def test_budgets_that_hold_end_well(planted: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """With every budget kept the exit code is 0 and the last line says so."""
    planted(one=[GOOD, UNJUDGED])
    code, report = report_of(tmp_path)
    assert (code, report["held"]) == (0, True)
    assert [figure["held"] for figure in report["figures"]] == [True, None]
    assert "the one budget holds" in capsys.readouterr().out


def test_a_missed_budget_fails_the_run(
    planted: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A figure over its budget is marked, counted and makes the exit code 1; the others are still measured."""
    planted(one=[BAD], two=[GOOD])
    code, report = report_of(tmp_path)
    assert (code, report["held"]) == (1, False)
    assert [(figure["what"], figure["held"]) for figure in report["figures"]] == [("bad", False), ("good", True)]
    assert report["figures"][0]["budget"] == {"sense": "<=", "limit": 20, "of": "value"}
    printed = capsys.readouterr().out
    rows = [line.rstrip() for line in printed.splitlines() if line.startswith(("bad", "good"))]
    assert [row.endswith("MISS") for row in rows] == [True, False]
    assert "1 of 2 budgets missed" in printed


def test_a_smoke_run_judges_nothing(planted: Callable[..., None], tmp_path: Path):
    """The same missed budget is no failure of a smoke run."""
    planted(one=[BAD])
    code, report = report_of(tmp_path, "--smoke")
    assert (code, report["held"], report["figures"][0]["held"]) == (0, True, None)


@pytest.mark.parametrize("arguments", [(), ("--smoke",)], ids=["full", "smoke"])
def test_a_benchmark_that_raises_fails_the_run(
    planted: Callable[..., None], tmp_path: Path, arguments: tuple[str, ...]
):
    """What raised is reported with its traceback, also in a smoke run, and the rest goes on."""
    planted(one=ZeroDivisionError("no pair"), two=[GOOD])
    code, report = report_of(tmp_path, *arguments)
    assert code == 1
    assert "ZeroDivisionError: no pair" in report["failed"]["one"]
    assert [figure["what"] for figure in report["figures"]] == ["good"]


def test_what_is_not_installed_is_skipped(planted: Callable[..., None], tmp_path: Path):
    """A peer that is missing is named and is no failure."""
    planted(one=Skipped("numba is not installed"), two=[GOOD])
    code, report = report_of(tmp_path)
    assert (code, report["skipped"], report["failed"]) == (0, {"one": "numba is not installed"}, {})


def test_only_some_benchmarks_run(planted: Callable[..., None], tmp_path: Path):
    """--only picks benchmarks, in the order given, each once."""
    planted(one=[GOOD], two=[UNJUDGED])
    _, report = report_of(tmp_path, "--only", "two", "--only", "two")
    assert [figure["benchmark"] for figure in report["figures"]] == ["two"]


@pytest.mark.parametrize(
    "arguments",
    [("--only", "nothing"), ("--repeat", "0"), ("--repeat", "x"), ("--json", "."), ("extra",)],
    ids=" ".join,
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    """An unknown benchmark, a bad number, a folder as file and a stray word end with code 2 and a message."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_json_to_the_standard_output_is_all_that_is_printed(
    planted: Callable[..., None], capsys: pytest.CaptureFixture[str]
):
    """With `--json -` the output is one JSON document."""
    planted(one=[GOOD])
    assert main(["--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"][0]["what"] == "good"


def test_the_table_fits_its_width(planted: Callable[..., None], capsys: pytest.CaptureFixture[str]):
    """Without a terminal no line is longer than 100 columns, and a row takes one."""
    planted(one=[GOOD, BAD, UNJUDGED])
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith(("good", "bad", "unjudged")) for line in lines) == 3


def test_the_ratio_is_the_median_of_the_pairs():
    """A load that doubles both sides of a pair changes no ratio, and one pair that it hits half-way does not count."""
    times = Times({"a": [2.0, 4.0, 8.0, 90.0, 2.0], "b": [1.0, 2.0, 4.0, 1.0, 1.0]})
    assert times.ratio("a", "b") == 2.0
    assert times.spread("a", "b") == (2.0, 2.0)
    assert (times.least("a"), times.typical("a")) == (2.0, 4.0)


def test_sides_take_turns():
    """Each side runs once to warm up and then alternates with the other."""
    turns: list[str] = []

    def side(name: str, seconds: float) -> Callable[[], float]:
        return lambda: turns.append(name) or seconds  # type: ignore[func-returns-value]

    times = interleave(2, a=side("a", 1.0), b=side("b", 4.0))
    assert turns == ["a", "b"] * 3
    assert times.ratio("b", "a") == 4.0


def test_rates_and_lower_bounds_compare_speeds():
    """The ratio of a rate, or under a lower bound, is one of speeds; else one of times. Counts are allowed for."""
    times = Times({"a": [1.0, 1.0], "b": [4.0, 4.0]})
    slow = compared("", times, "a", "b", reference="b", unit="µs", count=1000, budget=at_most(0.3))
    assert (slow.value, slow.reference_value, slow.ratio, slow.held) == (1e3, 4e3, 0.25, True)
    fast = compared("", times, "a", "b", reference="b", unit="µs", count=1000, budget=at_least(5))
    assert (fast.ratio, fast.held) == (4.0, False)
    rate = compared("", times, "a", "b", reference="b", unit="/s", count=1000, other_count=500)
    assert (rate.value, rate.reference_value, rate.ratio, rate.held) == (1000, 125, 8.0, None)
    assert quantity(0.5, "GB/s", 1e9) == 2.0


def test_the_bare_drains_copy():
    """The references move the bytes, on a loop, in two threads and in one; the last is done when the call returns."""
    target, source = bytearray(8), bytearray(range(8))
    task_drain = TaskDrain()
    for count in (0, 1, 50):
        task_drain.copy(memoryview(target), memoryview(source), count)
        assert target == (source if count else bytes(8))
    task_drain.close()
    target, drain = bytearray(8), ThreadDrain()
    slots = [drain.submit(memoryview(target), memoryview(source)) for _ in range(50)]
    drain.copy(memoryview(target), memoryview(source), 50)
    drain.close()
    assert target == source
    assert all(slot.done for slot in slots)
    other = bytearray(8)
    one_thread(memoryview(other), memoryview(source), 3)
    assert other == source


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [add_tiles, add_slices, add_shares], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("size", [1, 8192, 24 * 8192 * 3 + 5])
def test_the_kernels_add(kernel: Any, size: int):
    """Each kernel of the vector addition gives numpy's sum, whatever is left over for the last tile."""
    with board(strict=True) as device:
        vectors = Vectors(device, size)
        vectors.check(kernel)
        assert np.array_equal(vectors.sum, vectors.hosts[0] + vectors.hosts[1])


@pytest.mark.slow
def test_a_build_without_trace_checks_traces_nothing():
    """Inside the block commands leave no record though tracing is on; before and after they do."""
    with board() as device:
        stream, target = device.create_stream(), device.allocate(256)
        tracer = device.driver.tracer

        def records_of_a_fill() -> int:
            before = tracer.statistics().emitted
            stream.fill(target, 1)
            stream.sync()
            return tracer.statistics().emitted - before

        assert records_of_a_fill() == 1
        with without_trace_checks():
            assert records_of_a_fill() == 0
        assert records_of_a_fill() == 1


@k.kernel
def overlapping(x: k.Span[np.int32]) -> None:
    """Store to the same place from each thread."""
    x[0] = k.threadIdx.x


@pytest.mark.slow
def test_a_build_without_detector_hooks_finds_nothing():
    """Inside the block what a kernel accesses is not seen though the detectors are on; before and after it is."""
    with board(detect=True) as device:
        stream = device.create_stream()

        def launch() -> None:
            stream.launch(overlapping, (1, 2), stream.zeros(1, np.int32))
            stream.sync()

        def seen() -> int:
            return device.driver.report().observed.get("accesses in kernels", 0)

        launch()
        assert seen() == 2
        with without_detector_hooks():
            launch()
        assert seen() == 2
        launch()
        assert seen() == 4


@pytest.mark.slow
def test_every_example_kernel_has_a_row():
    """A smoke run yields one figure for each file of the folder beside the harness, with the budget of kernels."""
    figures = list(example_kernels(Effort(smoke=True)))
    assert len(figures) == len({path.stem for path in kernels.FOLDER.glob("*.py")} - kernels.HARNESS)
    assert len({figure.what for figure in figures}) == len(figures)
    assert {figure.budget for figure in figures} == {at_most(12)}


def test_without_the_source_tree_kernels_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An installed package has no examples; their row says so and is no failure."""
    monkeypatch.setattr(kernels, "FOLDER", tmp_path / "kernels")
    with pytest.raises(Skipped, match="source tree"):
        list(example_kernels(Effort(smoke=True)))


def test_a_kernel_that_is_wrong_has_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is not numpy's equal fails before it is timed."""
    for path in (kernels.FOLDER / "measured.py", kernels.FOLDER / "elementwise.py"):
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8").replace("result += 1", "result += 2"))
    monkeypatch.setattr(kernels, "FOLDER", tmp_path)
    with pytest.raises(AssertionError, match="element-wise"):
        list(example_kernels(Effort(smoke=True)))


@pytest.mark.slow
def test_every_transform_has_a_case_of_a_mebibyte():
    """Each of the 22 is measured once, and moves or fills 1 MiB at full size."""
    found = list(cases(FULL))
    assert [case.name for case in found] == list(OPERATIONS)
    for case in found:
        assert any(each is not None and abs(each.nbytes - (1 << 20)) < 1 << 15 for each in (case.dst, case.src))


@every("case", list(cases(32)), ids=lambda case: case.name)
def test_the_expressions_of_a_transform_are_its_equals(case: Case):
    """Each leaves the same bytes; one that leaves others is refused."""
    case.check()
    with pytest.raises(AssertionError, match=f"{case.name}: expression 0"):
        replace(case, expressions=(lambda dst, src: None,)).check()


def test_vectors_and_numpy_compute_the_same(monkeypatch: pytest.MonkeyPatch):
    """The statements of each row are equals on the chip; a row whose sides differ fails the launch."""
    uneven = ("add and subtract", "v + w", "x - y")
    monkeypatch.setattr(vectors, "STATEMENTS", (*STATEMENTS, uneven))
    seconds: list[float] = []
    with board() as device:
        stream = device.create_stream()
        for row, _ in enumerate(STATEMENTS):
            for side in range(2):
                stream.launch(in_kernel, (1, 1), row, side, 2, seconds.append).wait_sync()
        assert len(seconds) == 2 * len(STATEMENTS) and min(seconds) > 0
        with pytest.raises(LaunchFailure, match=r"v \+ w is not x - y"):
            stream.launch(in_kernel, (1, 1), len(STATEMENTS), 0, 2, seconds.append).wait_sync()
        stream.clear_error()
