"""Which operator a type has, and that computing never warns."""

from __future__ import annotations

import pytest

from atops.base.errors import InvalidType
from atops.kernels.tables.vectors import OPERATORS, TYPE_SETS
from atops.kernels.vectors.vector_type import VECTOR_TYPES
from tests.every import every
from tests.kernels.vector_host import FLOATS, INTEGERS, MASKS, TYPES, UNSIGNED

LONG = [each for each in TYPES if "long" in each.name]
SHORT = [each for each in UNSIGNED + MASKS if each not in LONG]
PERMITTED = {
    **dict.fromkeys(("x+y", "x-y", "x*y", "++x", "--x"), FLOATS + INTEGERS),
    **dict.fromkeys(("x<<y", "x>>y"), UNSIGNED),
    "-x": [each for each in FLOATS + INTEGERS if each not in UNSIGNED],
    **dict.fromkeys(("x==y", "x!=y", "x<y", "x<=y", "x>y", "x>=y"), TYPES),
    **dict.fromkeys(("x&y", "x|y", "x^y", "~x"), SHORT),
}


@every("cpp", PERMITTED)
def test_each_operator_has_the_types_of_the_text(cpp: str):
    """A type that the text permits computes; any other raises, naming operator, type and what is permitted."""
    for kind in TYPES:
        if kind in PERMITTED[cpp]:
            assert callable(kind.operators[cpp])
        else:
            with pytest.raises(InvalidType) as caught:
                kind.operators[cpp]
            said = str(caught.value)
            assert said.startswith(f"{cpp} is not for {kind.name}; it is for ")
            named = {VECTOR_TYPES[name] for name in said.rpartition(": ")[2].split(", ")}
            assert named == {each for each in PERMITTED[cpp] if each.keyword == kind.keyword}


def test_the_table_says_the_same():
    """Both names of a mask are in the table's sets, and its words cover exactly the permitted types."""
    for row in OPERATORS:
        if row.cpp in PERMITTED:
            names = {name for words in row.types for name in TYPE_SETS[words]}
            assert names == {name for name, kind in VECTOR_TYPES.items() if kind in PERMITTED[row.cpp]}
