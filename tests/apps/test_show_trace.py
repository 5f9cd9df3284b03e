"""`atops trace`: figures, text, Perfetto and a page from a file, and a word on a file that is none."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tempfile
from pathlib import Path

import pytest

from atops.base.trace.records import CounterSample, Kind, Status, Trace, TraceNames
from atops.cli import main
from atops.trace.chrome import to_chrome
from atops.trace.file import load, save, write
from tests.every import every
from tests.runtime.trace_records import record

SAMPLE = Trace(
    (
        record(0, Kind.COPY_H2D, 0, 40, bytes=4096, engine=1),
        record(1, Kind.WAIT_EVENT, 0, 60, stream=1, correlation=0),
        record(2, Kind.LAUNCH, 60, 100, stream=1, name="</script><b>scale&"),
        record(3, Kind.LAUNCH, 100, 100, stream=1, name="late", status=Status.SKIPPED),
    ),
    (CounterSample(10, 0, 4096),),
    TraceNames(streams={(0, 0): "load", (0, 1): "compute <1>"}),
    dropped=2,
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return the path of a trace."""
    write(tmp_path / "run.json", SAMPLE)
    return str(tmp_path / "run.json")


def test_figures_and_text(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is printed when it is asked for, and both without an option; idle time is a share, streams have names."""
    printed = {}
    for option in ("--summary", "--text", None):
        assert main(["trace", file, *([option] if option else [])]) == 0
        printed[option] = capsys.readouterr().out
    assert "idle     20%, 20 ns" in printed["--summary"] and "1 skipped" in printed["--summary"]
    assert "device 0, load" in printed["--summary"] and "legend" not in printed["--summary"]
    assert "legend: > copy" in printed["--text"] and "idle" not in printed["--text"]
    assert "legend: > copy" in printed[None] and "idle     20%" in printed[None]
    assert all("2 earlier records were lost" in text for text in printed.values())


def test_perfetto(file: str, tmp_path: Path) -> None:
    """What is written is the Chrome trace of the file; the file itself opens there, too."""
    assert main(["trace", file, "--perfetto", str(tmp_path / "out.json.gz")]) == 0
    told = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))
    assert told == to_chrome(SAMPLE.records, counters=SAMPLE.counters, names=SAMPLE.names)
    assert json.loads(Path(file).read_text())["traceEvents"] == told["traceEvents"]
    assert main(["trace", str(tmp_path / "out.json.gz")]) == 2


def test_a_page(file: str, tmp_path: Path) -> None:
    """It names no address, no name of the program becomes a tag, and what it draws is the trace."""
    assert main(["trace", file, "--html", str(tmp_path / "out.html")]) == 0
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "http" not in page and "<b>scale" not in page and "compute <1>" not in page and "{{" not in page
    assert page.count("</script>") == 2
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert [row["label"] for row in data["rows"]] == ["load", "compute <1>", "copy engine 1"]
    assert data["records"][1][7] == 0 and data["names"][1] == "</script><b>scale&"
    write(tmp_path / "same.html", SAMPLE)
    assert (tmp_path / "same.html").read_text(encoding="utf-8").count("\n") == page.count("\n")


def test_a_comparison(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first command that differs is marked; another file that is missing is named."""
    write(tmp_path / "other.json", Trace(SAMPLE.records[:2], names=SAMPLE.names))
    assert main(["trace", file, "--compare", str(tmp_path / "other.json")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("they differ from command 3 on") and ">    3 - compute <1>: kernel" in printed
    assert main(["trace", file, "--compare", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


def test_an_empty_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to show, and that is said."""
    save(tmp_path / "run", Trace())
    assert main(["trace", str(tmp_path / "run"), "--html", str(tmp_path / "out.html")]) == 0
    assert main(["trace", str(tmp_path / "run")]) == 0
    assert "no records" in capsys.readouterr().out


@every("content, said", [
    (None, "No such file"), (b"", "damaged"), (b"\xff\xfe", "damaged"), (b"{}", "no trace"), (b"[1]", "no trace"),
    (b'{"traceEvents": []}', "Chrome trace"), (b"\x1f\x8b", "damaged"), (b"[" * 100_000, "damaged"),
])  # fmt: skip
def test_a_file_that_is_none(content: bytes | None, said: str) -> None:
    """It ends with 2, and names the file and what is wrong."""
    told = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(told):
        path = Path(folder, "some.file")
        if content is not None:
            path.write_bytes(content)
        assert main(["trace", str(path)]) == 2
    assert "some.file" in told.getvalue() and said in told.getvalue()


def test_a_full_disk(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It ends with 2 and says so; the device is not replaced by a file."""
    for option in ("--perfetto", "--html"):
        assert main(["trace", file, option, "/dev/full"]) == 2
        assert "No space left" in capsys.readouterr().err
    assert main(["trace", os.path.dirname(file)]) == 2
    assert main(["trace", file, "--html", os.path.dirname(file)]) == 2
    assert load(file) == SAMPLE
