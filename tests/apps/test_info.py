"""`atops info` says what the board is, to readers and to programs, and names what makes a board impossible."""

from __future__ import annotations

import json
import re
import threading
import tracemalloc
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from atops.base.options import EmulatorOptions
from atops.cli import main
from atops.device.arch import ARCHITECTURES
from atops.device.topology import Topology
from atops.runtime.device import Device
from tests.runtime.boards import board

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no variable set that changes the board, the width or the colours."""
    for name in ("ATOPS_ARCH", "ATOPS_DEVICES", "FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def table(capsys: Capture, *arguments: str) -> str:
    """Return what the command prints when all is well."""
    assert main(["info", *arguments]) == 0
    printed = capsys.readouterr()
    assert not printed.err
    return printed.out


def described(capsys: Capture, *arguments: str) -> dict[str, Any]:
    """Return what the command tells a program."""
    found: dict[str, Any] = json.loads(table(capsys, "--json", *arguments))
    return found


def figure(text: str, what: str) -> list[str]:
    """Return the cells that follow a name in its line."""
    (line,) = [line for line in text.splitlines() if line.startswith(what)]
    return re.split(r"  +", line[len(what) :].strip())


def test_the_default_board(capsys: Capture) -> None:
    """One gcu300 device, its figures with units and sources, the meaning of the sources, and where its memory lies."""
    text = table(capsys)
    assert text.startswith("gcu300 (S60, scorpio)\n")
    assert figure(text, "clusters") == ["2", "client"]
    assert figure(text, "L2 of a cluster, usable") == ["60 MiB", "client"]
    assert figure(text, "L3 bandwidth") == ["672 GB/s", "vendor"]
    assert figure(text, "float16") == ["160 TFLOPS", "chosen"]
    assert figure(text, "indexing of global memory") == ["yes"]
    assert figure(text, "bandwidth of an ESL port") == ["25 GB/s", "chosen"]
    assert "driver options\nworkers=1 dte=wait strict=False detect=False trace=65536" in text
    assert f"numpy {np.__version__}\n" in text
    assert "chosen: not public" in text
    assert "1 device\ndevice         L3 at\n     0  0x1000000000\n" in text
    assert "topsDeviceCanAccessPeer" not in text


def test_the_other_architecture(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option and the variable choose the chip, and the option is stronger."""
    monkeypatch.setenv("ATOPS_ARCH", "gcu300")
    text = table(capsys, "--arch", "gcu210")
    assert text.startswith("gcu210 (i20, dorado)\n")
    assert (figure(text, "vector types"), figure(text, "L3 bandwidth")) == (["no", "vendor"], ["819 GB/s", "vendor"])
    monkeypatch.setenv("ATOPS_ARCH", "gcu210")
    assert table(capsys) == text


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_eight_devices(arch: str, capsys: Capture) -> None:
    """Each device has its row with the word for every other, nothing is cut off, and the words are explained."""
    text = table(capsys, "--devices", "8", "--arch", arch)
    topology = Topology.of(ARCHITECTURES[arch], 8)
    rows = [line.split() for line in text.splitlines() if re.match(r" +\d  0x", line)]
    assert [row[0] for row in rows] == [str(device) for device in range(8)]
    assert [row[2:] for row in rows] == [[f"{topology.access_word(i, j):#x}" for j in range(8)] for i in range(8)]
    assert "8 devices\n" in text
    assert "topsDeviceCanAccessPeer" in text


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_lines_fit_the_terminal(columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prose is wrapped to the width, tables need at most 80 columns, no line ends in blanks, nothing is painted."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = table(capsys, "--devices", "8").splitlines()
    assert max(map(len, lines)) <= max(80, min(columns, 100))
    assert [line for line in lines if line != line.rstrip() or "\x1b" in line or "\r" in line] == []
    assert "at most    65536 x 256 x 256" in "\n".join(lines)


def test_no_devices(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board without devices is no error: the chip is described, and what sets their number is named."""
    monkeypatch.setenv("ATOPS_DEVICES", "0")
    text = table(capsys)
    assert figure(text, "clusters") == ["2", "client"]
    assert "no devices: --devices, or ATOPS_DEVICES" in text
    assert described(capsys)["devices"] == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("devices", [0, 1, 2, 8])
def test_the_json(arch: str, devices: int, capsys: Capture) -> None:
    """A program gets every figure of the architecture in plain units, their grades, and the links."""
    found = described(capsys, "--arch", arch, "--devices", str(devices))
    chip, topology = ARCHITECTURES[arch], Topology.of(ARCHITECTURES[arch], devices)
    assert set(found) == {"devices", "architecture", "sources", "options", "versions"}
    assert found["options"] == asdict(EmulatorOptions(arch=arch, devices=devices))
    assert {"atops", "python", "numpy"} <= set(found["versions"])
    for name, value in found["architecture"].items():
        own = getattr(chip, name)
        assert value == (list(own) if isinstance(own, tuple) else own), name
    assert set(found["architecture"]) == set(chip.__dataclass_fields__) - {"sources"}
    assert found["sources"] == dict(chip.sources)
    assert [each["ordinal"] for each in found["devices"]] == list(range(devices))
    for i, each in enumerate(found["devices"]):
        assert each["memory_bytes"] == chip.l3_bytes
        assert each["access_words"] == [topology.access_word(i, j) for j in range(devices)]


def test_it_starts_nothing(capsys: Capture) -> None:
    """Eight devices of 48 GiB are described without a thread, and without memory worth a mention."""
    described(capsys, "--devices", "8")  # what is imported when first used has been
    threads = threading.active_count()
    tracemalloc.start()
    described(capsys, "--devices", "8")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert threading.active_count() == threads
    assert most < 2_000_000


def test_addresses_are_those_of_a_real_board(capsys: Capture) -> None:
    """What is allocated on a device lies in the range that is told for it."""
    told = described(capsys, "--devices", "3")["devices"]
    with board(devices=3) as driver:
        for device in told:
            buffer = Device(device["ordinal"], driver).empty(1, "uint8")
            assert device["base_address"] <= buffer.address < device["base_address"] + device["memory_bytes"]
            buffer.close()


@pytest.mark.parametrize(
    ("variable", "value", "right"),
    [
        ("ATOPS_ARCH", "gcu999", "'gcu210' or 'gcu300'"),
        ("ATOPS_DEVICES", "9", "0 to 8"),
        ("ATOPS_DEVICES", "-1", "0 to 8"),
        ("ATOPS_DEVICES", "two", "0 to 8"),
    ],
)
def test_a_variable_that_no_board_can_be_of(
    variable: str, value: str, right: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is named in one line, with what it holds and what is expected; the exit code is 2."""
    monkeypatch.setenv(variable, value)
    assert main(["info"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"atops info: error: {variable} is {value!r}; expected {right}\n")


def test_an_option_overrules_a_bad_variable(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an option says instead of a variable is not looked for in the variable."""
    monkeypatch.setenv("ATOPS_ARCH", "gcu999")
    monkeypatch.setenv("ATOPS_DEVICES", "many")
    assert table(capsys, "--arch", "gcu210", "--devices", "0").startswith("gcu210")


@pytest.mark.parametrize("devices", ["9", "-1"])
def test_a_number_of_devices_that_no_board_has(devices: str, capsys: Capture) -> None:
    """The number and the range are named in one line, and the exit code is 2."""
    assert main(["info", f"--devices={devices}"]) == 2
    assert capsys.readouterr().err == f"atops info: error: devices is {devices}; expected 0 to 8\n"
