"""What a source names although the chip that it is compiled for lacks it, and how a source keeps such code apart."""

from __future__ import annotations

import pytest

from atops.device.dte.operations import OPERATIONS
from atops.kernels.tables.vectors import FUNCTIONS
from tests.every import every
from tests.kernels.source_texts import log_of

OLD = ("-arch=gcu210", "-arch=agcu200")
LACKING = [
    *[f"k.{name}{form}" for name, row in OPERATIONS.items() if row.gcu_arch > 210 for form in ("", "_async")],
    *[f"k.{row.name}" for row in FUNCTIONS],
    *[f"k.{keyword}" for keyword in ("vector", "vector2", "vector4")],
    *[f"dte.config_{name}" for name, row in OPERATIONS.items() if row.gcu_arch > 210],
]


def using(*lines: str) -> str:
    """Return the source of a kernel with these lines."""
    return "@k.kernel\ndef f(x, dte):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.slow
@every("name", LACKING)
def test_what_a_chip_lacks_is_warned_of_where_it_is_named(name: str):
    """Each operation, function and vector type of gcu300 is told for the older targets, and never for gcu300."""
    word = name.partition(".")[2]
    for option in OLD:
        target = option.partition("=")[2]
        [told] = log_of(using(f"y = {name}"), [option])
        assert told.startswith(f"3:9: warning: {word} needs gcu300; the source is compiled for {target}.")
    assert log_of(using(f"y = {name}"), ["-arch=gcu300"]) == log_of(using(f"y = {name}")) == []


def test_what_every_chip_has_is_not_warned_of():
    """Operations of both tables of the text, and a function's own names, are valid for every target."""
    common = "k.slice(dte, x, x, (0,))", "dte.config_pad(x, x, (0,), (0,), (0,))"
    text = using(*common, "sub_sample = x", "sub_sample[0]")
    assert [log_of(text, [option]) for option in (*OLD, "-arch=gcu300")] == [[], [], []]


@pytest.mark.parametrize(
    "test", ["k.__AGCU_ARCH__ >= 300", "k.AGCU_ARCH >= 300", "AGCU_ARCH > 200", "k.GCU_ARCH == 300", "GCU_ARCH == 300"]
)
def test_a_branch_of_another_architecture_is_not_read(test: str):
    """As a preprocessor would drop it; the other branch is read, and both of a test that no constant decides."""
    kept = using(f"if {test}:", "    k.exp(x)", "else:", "    x[0]", f"y = k.exp(x) if {test} else x")
    turned = using(f"if {test}:", "    x[0]", "else:", "    k.exp(x)")
    unknown = using("if x:", f"    if {test}:", "        k.exp(x)", "    k.ln(x)")
    assert log_of(kept, ["-arch=gcu210"]) == []
    assert log_of(turned, ["-arch=gcu210"]) == [
        "6:9: warning: exp needs gcu300; the source is compiled for gcu210. `if k.__AGCU_ARCH__ >= 300:` keeps it apart"
    ]
    assert [each[:16] for each in log_of(unknown, ["-arch=gcu210"])] == ["6:9: warning: ln"]


def test_a_kernel_that_says_for_what_it_is_compiled():
    """Its own `arch` counts, in both directions; functions beside it are compiled as the source."""
    old = "@k.kernel(arch='agcu200')\ndef f(x):\n    k.exp(x)\n    if k.AGCU_ARCH > 200:\n        k.ln(x)\n"
    new = "@k.kernel(arch='gcu300')\ndef f(x):\n    k.exp(x)\n"
    aside = "def g(x):\n    return k.exp(x)\n"
    assert [each[:30] for each in log_of(old)] == ["3:5: warning: exp needs gcu300"]
    assert log_of(new, ["-arch=gcu210"]) == []
    assert [each[:31] for each in log_of(aside, ["-arch=gcu210"])] == ["2:12: warning: exp needs gcu300"]


def test_warnings_can_be_errors():
    """With -Werror a source that names what its chip lacks is not compiled."""
    [told] = log_of(using("k.exp(x)"), ["-arch=gcu210", "-Werror"])
    assert told.startswith("3:5: error: exp needs gcu300")
