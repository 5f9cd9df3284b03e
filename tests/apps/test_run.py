"""`atops run`: a program runs as Python runs it, under the options, and its trace is there however it ends."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from atops.cli import main
from atops.trace.file import load
from tests.every import every
from tests.runtime.child import environment

BOARD = """
import atops, numpy as np
async def main():
    async with atops.Device(0).create_stream(name="load") as stream:
        await stream.fetch(stream.upload(np.ones(8, np.float32)))
        options = atops.current_driver().options
        print(options.strict, options.seed, options.arch, options.devices, options.workers)
"""


def python(*arguments: str, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run Python there, and return what it said."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment(changes), capture_output=True, text=True, timeout=60)


def atops_run(*arguments: str, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m atops run` there."""
    return python("-m", "atops", "run", *arguments, cwd=cwd, **changes)


def seen(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """Return what a caller sees of a process."""
    return done.returncode, done.stdout, done.stderr


PROGRAMS = {
    "what a program sees": "import sys, helper\nprint(sys.argv, sys.path[0], __name__, __file__)\n"
    "print(__package__, __spec__, __loader__.__class__)\n"
    "print(sys.modules['__main__'].__dict__ is globals(), helper.VALUE, sorted(globals()))",
    "exit with a number": "raise SystemExit(7)",
    "exit with a text": "import sys; sys.exit('no such luck')",
    "a failure": "def f():\n    raise ValueError('boom')\n"
    "try:\n    f()\nexcept ValueError as e:\n    raise KeyError(3) from e",
    "no Python": "def f(:\n    pass",
    "its own hook": "import sys\nsys.excepthook = lambda kind, error, tb: print('mine', kind, tb.tb_lineno)\n1 / 0",
    "Ctrl-C": "raise KeyboardInterrupt",
    "threads and exits": "import threading, time, atexit\natexit.register(print, 'exit')\n"
    "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')",
    "a pool left open": "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor()\n"
    "print(p.submit(len, 'abc').result())",
    "a fork": "import os\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nprint(bool(child))",
    "a pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python_runs_it(name: str, tmp_path: Path) -> None:
    """Output, errors and exit code are those of `python SCRIPT`, with a trace and without."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper.py").write_text("VALUE = 3")
    (tmp_path / "sub" / "program.py").write_text(PROGRAMS[name])
    arguments = ("sub/program.py", "a", "--flag", "-m", "b")
    expected = seen(python(*arguments, cwd=tmp_path))
    assert seen(atops_run(*arguments, cwd=tmp_path)) == expected
    assert seen(atops_run("--trace", "t.json", "--strict", *arguments, cwd=tmp_path)) == expected
    assert (tmp_path / "t.json").exists() is (name != "no Python")
    if name == "Ctrl-C":
        assert expected[0] == -signal.SIGINT


@pytest.mark.slow
def test_modules_folders_and_archives(tmp_path: Path) -> None:
    """`-m MODULE`, a package, a folder and a zip file with a __main__.py run as Python runs them."""
    shows = "import sys\nprint(sys.argv, sys.path[0], __name__, __package__, __spec__ and __spec__.name)\n"
    (tmp_path / "single.py").write_text(shows)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "__main__.py").write_text(shows)
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", shows)
    programs = (("-m", "single", "-x", "1"), ("-m", "pack"), ("-m", "pack.__main__"), ("pack", "y"), ("app.zip", "-m"))
    for arguments in programs:
        done = atops_run(*arguments, cwd=tmp_path)
        assert seen(done) == seen(python(*arguments, cwd=tmp_path)), arguments
        assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["atops", "asyncio", "trio"])
def test_the_options_reach_a_program(loop: str, tmp_path: Path) -> None:
    """They are its boards' defaults, under every loop, and the trace has what it did."""
    main = "main()" if loop == "asyncio" else "main"
    (tmp_path / "program.py").write_text(f"{BOARD}\nimport {loop}\n{loop}.run({main})\n")
    options = ("--strict", "--seed=4", "--arch", "gcu210", "--devices", "2", "--trace", "t.json")
    done = atops_run(*options, "program.py", cwd=tmp_path)
    assert seen(done) == (0, "True 4 gcu210 2 1\n", "")
    assert "load" in load(tmp_path / "t.json").names.streams.values()
    variables = {"ATOPS_STRICT": "1", "ATOPS_SEED": "4", "ATOPS_ARCH": "gcu210", "ATOPS_DEVICES": "2"}
    done = python("program.py", cwd=tmp_path, ATOPS_TRACE="e%p.trace", **variables)
    assert seen(done) == (0, "True 4 gcu210 2 1\n", "")
    (file,) = tmp_path.glob("e*.trace")
    assert file.name != "e%p.trace" and load(file).records


@pytest.mark.slow
def test_what_the_program_gives_holds(tmp_path: Path) -> None:
    """A note names the option that was not taken; the others are. The trace of a seed is the same twice."""
    (tmp_path / "program.py").write_text(f"{BOARD}\natops.run(main, atops.EmulatorOptions(seed=3, clock='virtual'))\n")
    done = atops_run("--strict", "--seed", "4", "--trace", "a.trace", "program.py", cwd=tmp_path)
    assert seen(done)[:2] == (0, "True 3 gcu300 1 1\n")
    assert done.stderr == "atops run: note: the program gives seed=3 itself, and that holds\n"
    atops_run("--strict", "--trace", "b.trace", "program.py", cwd=tmp_path)
    assert load(tmp_path / "a.trace") == load(tmp_path / "b.trace")


@pytest.mark.slow
def test_a_program_that_forks(tmp_path: Path) -> None:
    """The child ends like the program, and has no part in the profile."""
    (tmp_path / "program.py").write_text(PROGRAMS["a fork"])
    done = atops_run("--profile", "--trace", "t.trace", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "False\nTrue\n")
    assert done.stderr.count("no records") == 1 and load(tmp_path / "t.trace").records == ()


@pytest.mark.slow
def test_a_program_that_dies(tmp_path: Path) -> None:
    """Several boards, the last of which fails: all are in the trace, and the figures are printed."""
    (tmp_path / "program.py").write_text(f"{BOARD}\natops.run(main)\natops.run(main)\nraise ValueError('boom')\n")
    done = atops_run("--trace", "t.json", "--profile", "program.py", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.endswith("ValueError: boom\n")
    assert "idle" in done.stderr and "load" in done.stderr
    assert {record.device for record in load(tmp_path / "t.json").records} == {0, 1}


@every("arguments, said", [
    ((), "there is no program"),
    (("-m",), "there is no program"),
    (("nothing.py",), "nothing.py"),
    (("-m", "no_such_module_anywhere"), "no_such_module_anywhere"),
    (("-m", "no_such.module"), "no_such"),
    (("--seed", "x", "p.py"), "--seed"),
    (("--devices", "99", "p.py"), "--devices is '99'"),
    (("--workers", "0", "p.py"), "--workers is '0'"),
    (("--colour", "p.py"), "--colour"),
    (("--trace", "no/such/folder.json", "p.py"), "the folder is missing"),
])  # fmt: skip
def test_mistakes(arguments: tuple[str, ...], said: str) -> None:
    """They end with 2 and a word on what is wrong, before anything runs, and leave the environment as it was."""
    before, argv, path = dict(os.environ), list(sys.argv), list(sys.path)
    told = io.StringIO()
    try:
        with pytest.raises(SystemExit) as left, contextlib.redirect_stderr(told):
            main(["run", *arguments])
    finally:
        sys.argv[:], sys.path[:] = argv, path
    assert left.value.code == 2 and said in told.getvalue()
    assert dict(os.environ) == before


@pytest.mark.slow
def test_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    """A full disk ends with 2, unless the program has failed itself."""
    (tmp_path / "well.py").write_text("print(1)")
    (tmp_path / "ill.py").write_text("raise SystemExit(5)")
    done = atops_run("--trace", "/dev/full", "well.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "1\n") and "No space left" in done.stderr
    assert atops_run("--trace", "/dev/full", "ill.py", cwd=tmp_path).returncode == 5


@pytest.mark.slow
def test_options_behind_the_program(tmp_path: Path) -> None:
    """They are the program's own, and a note says so."""
    (tmp_path / "program.py").write_text("import sys; print(sys.argv[1:])")
    done = atops_run("program.py", "--seed", "3", cwd=tmp_path)
    assert done.stdout == "['--seed', '3']\n"
    assert done.stderr.startswith("atops run: note: --seed behind the program")
