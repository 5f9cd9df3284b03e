"""The command line: each command is found and explained, mistakes end with 2, and a pipe may close early."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial

import pytest

import atops.apps.info
from atops.cli import main
from tests.architecture.source_tree import ROOT
from tests.runtime.child import environment

COMMANDS = ("run", "compile", "trace", "demo", "info", "bench")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must end with code 2, and return what it says; it prints nothing else."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    printed = capsys.readouterr()
    assert (left.value.code, printed.out) == (2, "")
    return printed.err


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must end with code 0 by itself, and return what it prints."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    printed = capsys.readouterr()
    assert (left.value.code, printed.err) == (0, "")
    return printed.out


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the usage is shown, and that one is missing."""
    said = refused(capsys)
    assert said.startswith("usage: atops ")
    assert "required: COMMAND" in said


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A command that there is not is named, and those that there are."""
    said = refused(capsys, "dance")
    assert "'dance'" in said
    assert [name for name in COMMANDS if name not in said] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command refuses an option that it does not know."""
    assert "--colour" in refused(capsys, command, "--colour", "file")


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """The help has a line for each command."""
    lines = told(capsys, "--help").splitlines()
    for name in COMMANDS:
        assert any(line.split()[:1] == [name] and len(line.split()) > 3 for line in lines), name


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command says how it is used, and what each of its options does."""
    said = told(capsys, command, "--help")
    assert said.startswith(f"usage: atops {command} ")
    assert any(option in said for option in ("--json", "--inline", "--strict", "--html", "--arch"))


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The version is one line that begins with the name."""
    said = told(capsys, "--version")
    assert said.startswith("atops ")
    assert said.count("\n") == 1
    assert said.split() != ["atops"]


def test_what_a_command_returns_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the command's module comes through."""
    monkeypatch.setattr(atops.apps.info, "main", lambda arguments: 7 if arguments.json else 5)
    assert (main(["info", "--json"]), main(["info"])) == (7, 5)


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C in a command that does not handle it ends with 130 and no traceback."""

    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(atops.apps.info, "main", interrupted)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == ""


def test_the_package_imports_nothing_that_a_wheel_lacks() -> None:
    """No module of atops names the benchmarks, the examples or the tests in an import statement."""
    absent = re.compile(r"^\s*(from|import) (benchmarks|examples|tests)\b", re.MULTILINE)
    faults = [str(path) for path in sorted((ROOT / "atops").rglob("*.py")) if absent.search(path.read_text("utf-8"))]
    assert faults == []


@pytest.mark.parametrize("missing", ["benchmarks", "benchmarks.bench"])
def test_bench_of_an_installed_package(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wheel has no benchmarks: the command says where they are, and ends with 2."""
    monkeypatch.delitem(sys.modules, "benchmarks.bench", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["bench", "--smoke"]) == 2
    assert capsys.readouterr().err == "atops: error: the benchmarks are in the source tree; run `make bench` there\n"


@pytest.mark.slow
def test_as_a_module_without_a_command() -> None:
    """`python -m atops` alone ends with 2 and the usage, and starts nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "atops"], cwd=ROOT, env=environment({}), text=True, capture_output=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: atops ")


@pytest.mark.slow
@pytest.mark.parametrize("command", [("info",), ("info", "--json"), ("demo", __file__)], ids=" ".join)
def test_output_that_cannot_be_written(command: tuple[str, ...]) -> None:
    """A full disk is told in one line, with 2; a closed output is none, and no failure."""
    run = partial(subprocess.run, cwd=ROOT, env=environment({}), stderr=subprocess.PIPE, text=True, timeout=30)
    with open("/dev/full", "w") as full:
        done = run([sys.executable, "-m", "atops", *command], stdout=full)
    assert (done.returncode, done.stderr) == (2, "atops: error: [Errno 28] No space left on device\n")
    done = run(["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "atops", *command])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["flushed at the end", "flushed at once"])
def test_a_reader_that_goes_away(unbuffered: str) -> None:
    """When the reader of the output has gone, the command ends with 1 and complains about nothing."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "atops", "info", "--json"], cwd=ROOT, stdout=write, stderr=subprocess.PIPE,
            env=environment({"PYTHONUNBUFFERED": unbuffered}), text=True, timeout=30,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
