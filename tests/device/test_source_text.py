"""The text of an assertion, found from the failing instruction."""

from __future__ import annotations

import linecache
from types import CodeType

import pytest

from atops.device.source_text import asserted

SOURCES = {
    "one line": ("def f(check, x):\n    assert x.real > 3 and x, 'why'\n", "x.real > 3 and x"),
    "two on a line": ("def f(check, x):\n    assert x == 0; assert x > 1\n", "x > 1"),
    "several lines": ("def f(check, x):\n    assert (\n        x > 1 and\n        x < 5\n    )\n", "x > 1 and x < 5"),
    "beyond ascii": ("def f(check, x):\n    'ää'; assert x != 0 or 'ä' == x\n", "x != 0 or 'ä' == x"),
    "no assertion": ("def f(check, x):\n    raise AssertionError('x > 1')\n", None),
    "no source": (None, None),
}


def failed(name: str, source: str, known: bool = True) -> tuple[CodeType, int]:
    """Run a function that fails, and return its code and the instruction where it failed."""
    namespace: dict[str, object] = {}
    exec(compile(source, name, "exec"), namespace)
    if known:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)

    def check(condition: object, message: object = None) -> None:
        if not condition:
            raise AssertionError

    with pytest.raises(AssertionError) as caught:
        namespace["f"](check, 0)
    frames = caught.value.__traceback__
    while frames.tb_frame.f_code.co_filename != name:
        frames = frames.tb_next
    return frames.tb_frame.f_code, frames.tb_lasti


@pytest.mark.parametrize("case", SOURCES)
def test_an_assert_statement(case: str):
    """Its condition as it is written; none where there is no statement or no source."""
    source, condition = SOURCES[case]
    place = failed(f"<{case}>", source or SOURCES["one line"][0], known=source is not None)
    assert asserted(*place) == condition


@pytest.mark.parametrize(
    ("call", "condition"),
    [
        ("check(x > 1, 'why')", "x > 1"),
        ("check(message='why', condition=x > (2))", "x > (2)"),
        ("check(max(x, 0), str(max(1, 2)))", "max(x, 0)"),
        ("check(\n        x\n        > 1)", "x > 1"),
        ("check(*[x > 1])", "*[x > 1]"),
        ("check(**{'condition': x})", None),
    ],
)
def test_the_call_of_an_assert_function(call: str, condition: str | None):
    """Its first argument, or the one called condition."""
    place = failed(f"<{call}>", f"def f(check, x):\n    {call}\n")
    assert asserted(*place, by_call=True) == condition


def test_a_source_that_has_changed():
    """A file that is no Python any more, or has no such line, gives nothing."""
    place = failed("<changed>", SOURCES["one line"][0])
    for source in ("no ( python", "x = 1\n"):
        linecache.cache["<changed>"] = (len(source), None, source.splitlines(keepends=True), "<changed>")
        assert asserted(*place) is None
