"""Options from the environment: defaults of what a program leaves out, and nothing else."""

from __future__ import annotations

import pytest

from atops.base.errors import InvalidValue
from atops.base.options import VARIABLES, EmulatorOptions, trace_file
from tests.every import every


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every variable away."""
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable.name, raising=False)


@every("variable, text, field, value", [
    ("ATOPS_ARCH", "gcu210", "arch", "gcu210"),
    ("ATOPS_DEVICES", "4", "devices", 4),
    ("ATOPS_WORKERS", "3", "workers", 3),
    ("ATOPS_WORKERS", "sip", "workers", "sip"),
    ("ATOPS_STRICT", "1", "strict", True),
    ("ATOPS_STRICT", "True", "strict", True),
    ("ATOPS_STRICT", "off", "strict", False),
    ("ATOPS_DETECT", "1", "detect", True),
    ("ATOPS_SEED", "-7", "seed", -7),
    ("ATOPS_SEED", "", "seed", None),
    ("ATOPS_TRACE", "100", "trace", 100),
    ("ATOPS_TRACE", "run.json", "trace", 65536),
])  # fmt: skip
def test_a_variable_is_a_default(variable: str, text: str, field: str, value: object) -> None:
    """It holds in options that leave the field out, also beside others; what the program gives holds against it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, text)
        assert getattr(EmulatorOptions(), field) == value
        assert getattr(EmulatorOptions(slice=8), field) == value
        assert getattr(EmulatorOptions.from_environment({variable: text}), field) == value
        given = {"arch": "gcu300", "devices": 2, "workers": 1, "strict": False, "detect": False, "trace": 9, "seed": 3}
        options = EmulatorOptions(**given)  # type: ignore[arg-type]  # each is of its field's type
        assert {name: getattr(options, name) for name in given} == given
    assert EmulatorOptions.from_environment({}) == EmulatorOptions()


@every("variable, text", [
    ("ATOPS_ARCH", "gcu1"), ("ATOPS_DEVICES", "9"), ("ATOPS_DEVICES", "two"), ("ATOPS_WORKERS", "0"),
    ("ATOPS_WORKERS", "many"), ("ATOPS_STRICT", "perhaps"), ("ATOPS_SEED", "1.5"), ("ATOPS_TRACE", "-1"),
])  # fmt: skip
def test_what_no_board_can_be(variable: str, text: str) -> None:
    """The variable is named; options that give the field do not look at it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, text)
        with pytest.raises(InvalidValue, match=f"{variable} is '{text}'; expected"):
            EmulatorOptions()
        EmulatorOptions(arch="gcu210", devices=1, workers=1, strict=True, trace=0, seed=None)


@every("text, file", [("", ""), ("100", ""), ("-1", ""), ("run.json", "run.json"), ("./100", "./100"), ("0", "")])
def test_a_trace_file(text: str, file: str) -> None:
    """ATOPS_TRACE is a number of records or a file."""
    assert trace_file({"ATOPS_TRACE": text}) == file
