"""What docs/cxx.md says of each construct is what the compiler does, and the page is what the tables say."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

import pytest

from atops import kernels as k
from atops.apps.language_reference import CONSTRUCTS
from atops.base.errors import CompilationError
from atops.device.dte.operations import OPERATIONS
from atops.kernels.tables.native import DIFFERENT, MISSING, REFUSED, status
from atops.kernels.tables.vectors import FORMS, FUNCTIONS, OPERATORS, TYPE_SETS
from tests.kernels.cxx.constructs import TEXTS

ROOT = Path(__file__).resolve().parents[3]
TYPES = {form.cpp for form in FORMS}
NAMED = [row for row in CONSTRUCTS if row.cpp]


def test_the_page_is_what_the_tables_say():
    """`python docs/cxx_constructs.py` has been run since a table changed, and names every construct."""
    names = run_path(str(ROOT / "docs" / "cxx_constructs.py"))
    page = names["PAGE"].read_text(encoding="utf-8")
    assert names["page"]() == page, "run: python docs/cxx_constructs.py"
    for row in NAMED:
        shown = row.cpp.partition("(")[0] if row.cpp.startswith("tops::") else row.cpp
        assert row.cpp in TYPES or shown.replace("|", "\\|") in page, row.cpp


def test_each_construct_has_its_text_and_its_words():
    """Types, functions, operators and operations are compared as tables, here and beside."""
    tabled = {row.cpp for row in FUNCTIONS} | {row.cpp for row in OPERATORS} | TYPES
    rest = [row.cpp for row in NAMED if row.cpp not in tabled]
    assert {each for each in rest if each.partition("(")[0].removeprefix("tops::") not in OPERATIONS} == set(TEXTS)
    assert {*DIFFERENT, *MISSING, *REFUSED} <= {row.cpp for row in NAMED}


@pytest.mark.slow
def test_what_is_there_compiles():
    """All texts as one, each in a namespace of its own; what includes a header stands by itself."""
    there = [TEXTS[row.cpp] for row in NAMED if row.cpp in TEXTS and status(row)[0] in ("yes", "differs")]
    alone = [each for each in there if "#include" in each]
    text = "".join(f"namespace n{number} {{\n{each}\n}}\n" for number, each in enumerate(there) if each not in alone)
    for each in (text, *alone):
        k.compile_source(each, "constructs.cpp").module()


@pytest.mark.slow
def test_what_is_not_there_is_an_error_with_its_line():
    """Of the second line, where the construct stands."""
    for row in NAMED:
        if row.cpp in TEXTS and status(row)[0] in ("refused", "no"):
            with pytest.raises(CompilationError, match=r"constructs\.cpp:2:\d+: error: "):
                k.compile_source(f"//\n{TEXTS[row.cpp]}", "constructs.cpp").module()


@pytest.mark.slow
def test_operators_are_of_the_types_of_the_text_and_of_no_others():
    """The types by name, so that nothing is made of them: one compilation says it of all."""
    text = ""
    spelled = {"[x]": "x[0]"}
    for number, row in enumerate(OPERATORS):
        expression = spelled.get(row.cpp, row.cpp)
        text += f"template <class V> concept has{number} = requires(V x, V y) {{ {expression}; }};\n"
        types = next(each for each in OPERATORS if each.cpp == "x&y").types if "~" in row.cpp else row.types
        permitted = frozenset[str]().union(*(TYPE_SETS[each] for each in types))  # what `&` and `~` have, both have
        for form in FORMS:
            said = "" if form.cpp in permitted else "!"
            text += f'static_assert({said}has{number}<{form.cpp}>, "{said}{row.cpp} of {form.cpp}");\n'
    text += "".join(f"static_assert(sizeof({each.cpp}) == {each.nbytes});\n" for each in FORMS if not each.is_mask)
    try:
        k.compile_source(text, "operators.cpp")
    except CompilationError as error:
        pytest.fail("\n".join(re.findall(r"static assertion failed: (.*)", str(error))))
