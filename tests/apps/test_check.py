"""`atops check`: exit codes, reports, and scripts as they stand."""

from __future__ import annotations

import json
import os
import shlex

import pytest

from atops.cli import main

SCRIPT = """
import asyncio
import sys
import atops

async def update(right):
    total, lock = [0], asyncio.Lock()

    async def add():
        value = total[0]
        await asyncio.sleep(0)
        total[0] = value + 1

    async def locked():
        async with lock:
            await add()

    await asyncio.gather(*((locked if right else add)() for _ in range(2)))
    assert total[0] == 2, "an update was lost"

async def wrong():
    await update(False)

async def right():
    await update(True)

async def differs():
    order = []

    async def note(number):
        await asyncio.sleep(0)
        order.append(number)

    await asyncio.gather(note(1), note(2))
    return order

if __name__ == "__main__":
    print("a line that is not shown")
    asyncio.run(wrong())
"""


RACE = """
import atops

async def main():
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        x = device.zeros(4)
        one.fill(x, 1)
        two.fill(x, 1)

if __name__ == "__main__":
    atops.run(main, atops.EmulatorOptions(seed=1))
"""


@pytest.fixture(name="script")
def _script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize("name", ["", ":wrong"])
def test_the_printed_command_repeats_the_failure(script, capsys, name):
    """It is a command of this command line, for a script and for a function of one."""
    assert main(["check", script + name, "--schedules", "20", "--no-detect"]) == 1
    lines = capsys.readouterr().out.splitlines()
    _, _, _, *command = shlex.split(lines[lines.index("Replay:") + 1])
    assert main(command) == 1
    assert "fails under the given schedule: assertion, AssertionError: an update was lost" in capsys.readouterr().out


def test_the_printed_command_repeats_different_results(script, capsys):
    """One schedule has nothing to be compared with: it is the whole check."""
    assert main(["check", f"{script}:differs", "--same-result", "--schedules", "20", "--seed", "3", "--json"]) == 1
    _, _, _, *command = shlex.split(json.loads(capsys.readouterr().out)["command"])
    assert main(command) == 1
    assert "different results" in capsys.readouterr().out


def test_a_script_as_it_stands(script, capsys):
    """What it gives to asyncio.run is checked, and what it prints is not shown."""
    assert main(["check", script, "--schedules", "20"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("program.py fails under ")
    assert "an update was lost" in shown
    assert "not shown" not in shown


def test_functions_of_a_script(script, capsys):
    """One fails, the other is proved; as JSON, too."""
    assert main(["check", f"{script}:wrong", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["program"], report["verdict"]) == ("wrong", "failed")
    assert main(["check", f"{script}:right", "--strategy", "dpor", "--schedules", "2000"]) == 0
    assert "right is proved" in capsys.readouterr().out
    assert main(["check", f"{script}:right", "--schedules", "10", "--strategy", "pct", "--seed", "3"]) == 0
    assert "(pct, seed 3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("nowhere.py", (), "No such file"),
        ("program.py:nothing", (), "no function 'nothing'"),
        ("program.cpp", (), "is a C++ program"),
        ("program.py", ("--schedules", "0"), "schedules is 0"),
    ],
)
def test_mistakes_have_the_exit_code_2(script, name, arguments, said, capsys):
    """And a line on the standard error."""
    assert main(["check", script.replace("program.py", name), *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option, code", [("--detect", 1), ("--no-detect", 0)])
def test_detectors_are_asked_for_by_an_option(option, code, tmp_path, monkeypatch, capsys):
    """Also for what the script gives to atops.run; ATOPS_DETECT is what it was, then."""
    monkeypatch.setenv("ATOPS_DETECT", str(code ^ 1))
    path = tmp_path / "program.py"
    path.write_text(RACE)
    for script in (path, f"{path}:main"):
        assert main(["check", str(script), "--schedules", "3", option]) == code
        assert ("data race" in capsys.readouterr().out) == bool(code)
    assert os.environ["ATOPS_DETECT"] == str(code ^ 1)


@pytest.mark.slow
def test_a_script_that_runs_nothing_says_so(tmp_path, capsys):
    """There is nothing to check in it."""
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    assert main(["check", str(path)]) == 0
    assert "nothing in" in capsys.readouterr().err
