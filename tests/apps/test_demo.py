"""The demo, what it takes on its command line, and what it refuses before it begins."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import numpy as np
import pytest

from atops.apps import demo
from atops.apps.demo import Chunk, Plan, add_arguments, count
from atops.apps.demo_report import ProgressBar
from atops.apps.histogram import BLOCKS, VALUES
from atops.base.options import EmulatorOptions
from atops.base.trace.records import COPIES, Kind
from atops.cli import main
from atops.runtime.driver import Driver, board_of
from tests.architecture.source_tree import ROOT
from tests.every import every
from tests.runtime.child import environment
from tests.runtime.trace_records import crossing_slices

COLOUR = ("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
LIMIT = 60.0  # seconds that a child may take before it is killed


class Silent(ProgressBar):
    """A progress that is not shown."""

    def __init__(self) -> None:
        self.done = 0

    def advance(self, size: int) -> None:
        """Count."""
        self.done += size


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default board, and no colour that the outer environment forces."""
    for name in (*COLOUR, "ATOPS_ARCH", "ATOPS_DEVICES", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def some_files(tmp_path: Path) -> list[str]:
    """A few files of odd sizes, an empty one among them."""
    rng = np.random.default_rng(5)
    folder = tmp_path / "input"
    folder.mkdir()
    for number, size in enumerate((30_000, 0, 1, 70_003, 12_345)):
        (folder / f"{number}.bin").write_bytes((rng.integers(0, 256, size) ** 2 >> 8).astype(np.uint8).tobytes())
    return sorted(map(str, folder.iterdir()))


def bytes_of(files: list[str]) -> bytes:
    """Return the bytes of all files."""
    return b"".join(Path(name).read_bytes() for name in files)


def child(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run the demo in a process of its own, without a terminal."""
    kept = {name: value for name, value in environment(changes).items() if name not in COLOUR}
    command = [sys.executable, "-m", "atops", "demo", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
    )


# ---- counting


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("devices", "streams", "in_flight", "chunk"),
    [(1, 4, 8, 10_000), (1, 1, 1, 4096), (1, 50, 3, 3_000), (1, 3, 10**9, 2_000), (2, 4, 8, 5_000), (3, 2, 3, 1 << 20),
     (8, 1, 1, 999)],
)
async def test_counts(some_files: list[str], devices: int, streams: int, in_flight: int, chunk: int) -> None:
    """On both loops, with any number of devices and streams: every byte is counted once and every chunk checked."""
    plan = Plan([Path(name) for name in some_files], chunk, streams, in_flight)
    progress, data = Silent(), bytes_of(some_files)
    async with Driver(EmulatorOptions(devices=devices)) as driver:
        outcome = await count(plan, driver, progress, anyio.to_thread.run_sync)
    assert outcome.counts.tolist() == np.bincount(np.frombuffer(data, np.uint8), minlength=VALUES).tolist()
    assert (outcome.files, outcome.bytes, outcome.mismatches) == (5, len(data), [])
    assert outcome.chunks == -(-len(data) // chunk)
    assert progress.done == len(data)
    launches = [record for record in outcome.trace.records if record.kind is Kind.LAUNCH]
    assert len(launches) == outcome.chunks
    assert {record.name for record in launches} == {"byte_histogram"}
    assert len({record.stream for record in launches}) == min(outcome.chunks, devices * streams)
    moved = {kind: sum(each.bytes for each in outcome.trace.records if each.kind is kind) for kind in COPIES}
    assert moved[Kind.COPY_H2D] == len(data)
    assert moved[Kind.COPY_D2H] == outcome.chunks * BLOCKS * VALUES * 8


@pytest.mark.slow
@pytest.mark.anyio
async def test_no_memory_is_left(some_files: list[str]) -> None:
    """When all chunks are counted nothing of the device's memory is in use."""
    async with Driver(EmulatorOptions()) as driver:
        await count(Plan([Path(name) for name in some_files], 4096), driver, Silent(), anyio.to_thread.run_sync)
        memory = board_of(driver).context(0).memory
        board_of(driver).context(0).trim_pools()
        assert memory.statistics().used == 0


def reading_threads(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Note which threads read and which check, from now on."""
    seen: set[int] = set()
    read, expected = demo.read, demo._expected

    def noted(files: list[Path], size: int) -> Iterator[Chunk]:
        for chunk in read(files, size):
            seen.add(threading.get_ident())
            yield chunk

    def checked(chunk: Chunk) -> Any:
        seen.add(threading.get_ident())
        return expected(chunk)

    monkeypatch.setattr(demo, "read", noted)
    monkeypatch.setattr(demo, "_expected", checked)
    return seen


@pytest.mark.slow
def test_reading_does_not_block_the_loop(some_files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read, and counts checked, in other threads than the event loop's; inline there is one thread only."""
    seen = reading_threads(monkeypatch)
    assert main(["demo", "--chunk", "9K", *some_files]) == 0
    assert seen
    assert threading.get_ident() not in seen
    seen.clear()
    assert main(["demo", "--inline", "--chunk", "9K", *some_files]) == 0
    assert seen == {threading.get_ident()}


# ---- what it says and returns


@pytest.mark.slow
def test_the_standard_library(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the whole standard library is counted, and all of it correctly."""
    assert main(["demo"]) == 0
    printed = capsys.readouterr()
    assert "Python's standard library" in printed.out
    assert "chunks agree with numpy.bincount" in printed.out
    assert all(f"  pipeline {number}" in printed.out for number in range(4))
    assert printed.err == ""


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gcu210", "gcu300"])
@pytest.mark.parametrize("mode", [(), ("--inline",), ("--inline", "--seed", "3")], ids=["threads", "inline", "seed"])
def test_every_mode(
    arch: str, mode: tuple[str, ...], some_files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Threaded and inline, on both chips and on several devices, the same bytes are counted."""
    assert main(["demo", "--arch", arch, "--devices", "2", "--chunk", "8K", *mode, *some_files]) == 0
    out = capsys.readouterr().out
    assert f"5 files, {len(bytes_of(some_files)):,} bytes" in out
    assert f"2 x {arch}" in out
    assert "all 14 chunks agree" in out


def test_a_wrong_count(
    some_files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that counts nothing is found out: the chunk is named and the exit code is 1."""
    monkeypatch.setattr(demo, "count_bytes", lambda stream, data: stream.zeros((BLOCKS, VALUES), np.int64))
    assert main(["demo", *some_files]) == 1
    out = capsys.readouterr().out
    assert "MISMATCH: 1 of 1 chunks" in out
    assert "chunk 0: byte 0x00 counted 0 times" in out


def test_a_kernel_that_fails(
    some_files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failure on the device ends the run with code 1 and one line that names it."""
    monkeypatch.setattr(demo, "count_bytes", lambda stream, data: stream.call(lambda: 1 // 0))
    assert main(["demo", "--devices", "2", *some_files]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("atops demo: error: ")
    assert printed.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["not/there"], "not/there: No such file or directory"),
        ([os.devnull], "is neither a file nor a folder"),
        (["--devices", "9"], "devices is 9"),
        (["--seed", "1"], "--inline"),
        (["[/]no\n\x1b[31mfile"], "[/]no??[31mfile: No such file"),
        ([""], "No such file"),
        (["-"], "-: the standard input is not read; pass files and folders"),
    ],
    ids=["missing", "no file", "devices", "seed", "a name that steers the terminal", "no name", "standard input"],
)
def test_bad_input(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be counted is named in one line on the error output, and the exit code is 2."""
    assert main(["demo", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("atops demo: error: ")
    assert said in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("ATOPS_ARCH", "gcu1"), ("ATOPS_DEVICES", "0"), ("ATOPS_DEVICES", "9")])
def test_a_board_that_cannot_count(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An environment that asks for no board, or for one without devices, is refused by the variable's name."""
    monkeypatch.setenv(name, value)
    assert main(["demo"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("atops demo: error: ")
    assert name in said
    assert said.count("\n") == 1


def test_a_file_that_vanishes(
    some_files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is gone when its turn comes is named, on one device as on two."""

    def gone(files: list[Path], size: int) -> Iterator[Chunk]:
        yield np.zeros(4, np.uint8)
        raise FileNotFoundError(2, "No such file or directory", "gone.bin")

    monkeypatch.setattr(demo, "read", gone)
    for devices in ("1", "2"):
        assert main(["demo", "--devices", devices, *some_files]) == 2
        assert capsys.readouterr().err == "atops demo: error: gone.bin: No such file or directory\n"


@pytest.mark.slow
@pytest.mark.parametrize("change", [b"more" * 9_000, -25_000], ids=["grows", "shrinks"])
def test_a_file_that_changes(
    change: bytes | int, some_files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is longer or shorter when it is read than when it was measured is counted as it was read."""
    measured = demo.size_of

    def then_changed(files: list[Path]) -> int:
        size = measured(files)
        if isinstance(change, bytes):
            with files[0].open("ab") as file:
                file.write(change)
        else:
            os.truncate(files[0], files[0].stat().st_size + change)
        return size

    monkeypatch.setattr(demo, "size_of", then_changed)
    monkeypatch.setenv("FORCE_COLOR", "1")  # with a progress bar, which has to bear it
    assert main(["demo", "--chunk", "4K", *some_files]) == 0
    assert f" {len(bytes_of(some_files)):,} bytes" in capsys.readouterr().out


def test_empty_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty file and an empty folder are counted: nothing is in them."""
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    assert main(["demo", str(tmp_path / "empty")]) == 0
    assert "1 file, 0 bytes" in capsys.readouterr().out
    assert main(["demo", str(tmp_path / "folder")]) == 0
    assert "there was nothing to count" in capsys.readouterr().out


@pytest.mark.parametrize("mode", [[], ["--inline"], ["--devices", "2"]], ids=["threads", "inline", "two devices"])
def test_interrupted(
    mode: list[str], some_files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the middle of an input without end leaves with code 130 and one line."""

    def endless(files: list[Path], size: int) -> Iterator[Chunk]:
        for number in range(10_000):
            if number == 20:
                os.kill(os.getpid(), signal.SIGINT)
            yield np.zeros(1000, np.uint8)

    monkeypatch.setattr(demo, "read", endless)
    assert main(["demo", *mode, *some_files]) == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("atops demo: interrupted after ")
    assert printed.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", [(), ("--inline",)], ids=["threads", "inline"])
def test_an_interrupt_from_the_keyboard(mode: tuple[str, ...], tmp_path: Path) -> None:
    """Ctrl-C while the bar moves: the bar is wiped away, the cursor is back, one line is said, and nothing hangs."""
    endless = tmp_path / "endless"
    endless.touch()
    os.truncate(endless, 1 << 40)  # it has no blocks; to count it would take hours
    code, written = on_a_terminal(*mode, str(endless), bars=3)
    assert code == 130
    bar, cursor, rest = written.rpartition("\x1b[?25h")
    assert "counting" in bar
    assert cursor
    assert "counting" not in rest
    assert "atops demo: interrupted after " in rest
    assert rest.count("\n") == 1
    assert "Traceback" not in written


# ---- files


def test_the_trace(some_files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--trace writes what Perfetto reads: a slice for each kernel and copy, on a track of its stream."""
    path = tmp_path / "out.json"
    assert main(["demo", "--chunk", "16K", "--trace", str(path), *some_files]) == 0
    assert str(path) in capsys.readouterr().out
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    kernels = [event for event in events if event["ph"] == "X" and event["name"] == "byte_histogram"]
    assert len({event["args"]["seq"] for event in kernels}) == -(-len(bytes_of(some_files)) // (16 << 10))
    assert crossing_slices(events) == []  # a viewer would drop them


def test_the_trace_compressed(some_files: list[str], tmp_path: Path) -> None:
    """A trace whose name ends in .gz is compressed; of several devices and of one thread too, no slices cross."""
    path = tmp_path / "out.json.gz"
    assert main(["demo", "--inline", "--devices", "3", "--chunk", "4K", "--trace", str(path), *some_files]) == 0
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    assert len([event for event in events if event["ph"] == "X"]) > 28 * 3
    assert crossing_slices(events) == []


def test_a_file_that_cannot_be_written(some_files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Where the trace cannot be written the report is there all the same, and the exit code is 2."""
    assert main(["demo", "--trace", "/dev/full", *some_files]) == 2
    printed = capsys.readouterr()
    assert "agree" in printed.out
    assert printed.err == "atops demo: error: /dev/full: No space left on device\n"


@pytest.mark.parametrize("option", ["--trace", "--records"])
def test_what_is_counted_is_not_written_over(
    option: str, some_files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is named to be counted stays as it is; so do two files that would be one."""
    before = bytes_of(some_files)
    detour = str(Path(some_files[0]).parent / ".." / "input" / Path(some_files[0]).name)
    assert main(["demo", option, detour, *some_files]) == 2
    assert f"{option} would overwrite {detour}, which is to be counted" in capsys.readouterr().err
    both = Path(some_files[0]).parent / "both"
    assert main(["demo", "--trace", str(both), "--records", str(both), *some_files]) == 2
    assert f"--trace and --records must be two files, got {both}" in capsys.readouterr().err
    assert bytes_of(some_files) == before and not both.exists()


def recorded(path: Path, files: list[str], *arguments: str, hash_seed: str = "0") -> str:
    """Return the records of an inline run in a process of its own."""
    done = child("--inline", "--chunk", "8K", "--records", str(path), *arguments, *files, PYTHONHASHSEED=hash_seed)
    assert (done.returncode, done.stderr) == (0, "")
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("mode", [(), ("--seed", "7"), ("--seed", "7", "--devices", "2")], ids=" ".join)
def test_an_inline_run_replays(mode: tuple[str, ...], some_files: list[str], tmp_path: Path) -> None:
    """Two processes with different hash seeds leave the same records in the same order."""
    first, second = (recorded(tmp_path / seed, some_files, *mode, hash_seed=seed) for seed in ("1", "2"))
    assert first == second
    assert first.count("kind=LAUNCH") == 14


def test_an_inline_run_starts_no_thread(
    some_files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of an inline run needs a second thread, the progress bar of a terminal neither."""

    def refuse(thread: threading.Thread) -> None:
        raise AssertionError(f"{thread!r} was started")

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert main(["demo", "--inline", "--devices", "2", "--chunk", "8K", *some_files]) == 0
    assert "counting" in capsys.readouterr().err


def test_another_seed_is_another_order(some_files: list[str], tmp_path: Path) -> None:
    """The seed chooses the order: two of them differ, and both run the same commands."""
    texts = []
    for seed in ("1", "2"):
        arguments = ["--inline", "--seed", seed, "--chunk", "8K", "--records", str(tmp_path / seed)]
        assert main(["demo", *arguments, *some_files]) == 0
        texts.append((tmp_path / seed).read_text(encoding="utf-8"))
    assert texts[0] != texts[1]
    kinds = [sorted(line.split()[1] for line in text.splitlines()) for text in texts]
    assert kinds[0] == kinds[1]


# ---- terminals


@pytest.mark.slow
def test_without_a_terminal(some_files: list[str]) -> None:
    """Into files nothing but printable lines is written, and no progress."""
    done = child(*some_files)
    assert (done.returncode, done.stderr) == (0, "")
    assert not [line for line in done.stdout.splitlines() if not line.isprintable()]


@pytest.mark.slow
def test_a_narrow_encoding(some_files: list[str]) -> None:
    """Where the output can only be ASCII, it is: bars and units are written otherwise, and nothing fails."""
    done = child(*some_files, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "the one chunk agrees with numpy.bincount" in done.stdout


def on_a_terminal(*arguments: str, bars: int = 0) -> tuple[int, str]:
    """Run the demo on a terminal; return its exit code and all that it wrote.

    Once it has drawn so many `bars` it is interrupted, as Ctrl-C does.
    """
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in environment({"TERM": "xterm"}).items() if name not in (*COLOUR, "COLUMNS")}
    command = [sys.executable, "-m", "atops", "demo", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=kept, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65536):
            written += piece
            if bars and written.count(b"counting") >= bars:
                bars = 0
                process.send_signal(signal.SIGINT)
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(ours)
    return process.wait(LIMIT), written.decode()


@pytest.mark.slow
def test_on_a_terminal(some_files: list[str]) -> None:
    """A terminal gets a progress bar that is wiped away, colours, and the cursor back."""
    code, written = on_a_terminal(*some_files)
    assert code == 0
    bar, cursor, rest = written.rpartition("\x1b[?25h")
    assert cursor
    assert "100%" in bar
    assert "counting" not in rest
    assert "\x1b[" in rest
    assert "the one chunk agrees with numpy.bincount" in rest


def parsed(*words: str) -> argparse.Namespace:
    """Return what the demo's parser makes of these words."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def test_defaults():
    """Nothing needs to be said: chunks of 1 MiB, four streams, eight in flight, threads, the environment's board."""
    assert vars(parsed()) == {
        "files": [], "trace": None, "records": None, "inline": False, "seed": None, "arch": None, "devices": None,
        "streams": 4, "in_flight": 8, "chunk": 1 << 20,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("65536", 65536), ("64K", 65536), ("64k", 65536), ("3M", 3 << 20), ("1024M", 1 << 30)]
)
def test_sizes(text: str, size: int):
    """A chunk's size is in bytes, or in KiB or MiB with a letter."""
    assert parsed("--chunk", text).chunk == size


@every(
    "words",
    [
        ("--chunk", "0"), ("--chunk", "-1"), ("--chunk", "1G"), ("--chunk", "K"), ("--chunk", "1KM"),
        ("--chunk", "1.5M"), ("--chunk", "²"), ("--chunk", "1025M"), ("--streams", "0"), ("--in-flight", "x"),
        ("--devices", "0"), ("--devices", "-1"), ("--seed", "x"), ("--arch", "gcu999"), ("--trace", "."),
        ("--trace", "not-there/x.json"), ("--records", "not-there/x.txt"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    """Each wrong value is refused with its option's name, before anything is read."""
    with pytest.raises(SystemExit) as left:
        parsed(*words)
    assert left.value.code == 2
    assert words[0] in capsys.readouterr().err


def test_a_file_to_write(tmp_path: Path):
    """A file that is there, or could be, may be written to."""
    assert parsed("--trace", str(tmp_path / "new.json")).trace == str(tmp_path / "new.json")
