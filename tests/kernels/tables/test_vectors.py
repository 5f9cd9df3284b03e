"""The vectors' rows of the language's tables: each names what it says, and runs as it is written."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from atops import kernels
from atops.base.errors import InvalidType
from atops.device.arch import ARCHITECTURES
from atops.kernels.tables.constructs import Construct
from atops.kernels.tables.vectors import FORMS, KEYWORD_BYTES, OPERATORS, TYPE_SETS, VECTORS
from atops.kernels.vectors import vector_type
from atops.kernels.vectors.vector_type import VECTOR_TYPES, VectorType, sizeof
from tests.every import every
from tests.kernel_bench import Bench
from tests.kernels.vector_host import TYPES, in_kernel, sample

k = SimpleNamespace(**{name: getattr(vector_type, name) for name in ("vector", "vector2", "vector4", "sizeof")})
COMBINED = {"x&~y": lambda p, q: p and not q, "x|~y": lambda p, q: p or not q, "~(x&y)": lambda p, q: not (p and q),
            "~(x|y)": lambda p, q: not (p or q), "~(x^y)": lambda p, q: p == q}  # fmt: skip
VARIABLES = [row for row in VECTORS if row.cpp.endswith(";")]
names = every("row", OPERATORS, ids=lambda row: row.cpp)


def types_of(row: Construct) -> set[VectorType]:
    """Return the types that a row permits."""
    return {VECTOR_TYPES[name] for words in row.types for name in TYPE_SETS[words]}


def run(row: Construct, **names: Any) -> Any:
    """Return the value of what a row says a kernel writes."""
    return eval(row.python, {"k": k, "np": np, **names})


def test_every_row_is_of_this_section():
    """Each row has its own C++ spelling, a sentence, and the architecture that has vectors."""
    assert len({row.cpp for row in VECTORS}) == len(VECTORS) == 3 + 49 + 5 + 25
    for row in VECTORS:
        assert row.section == "8.3" and row.gcu_arch == 300 and row.summary.endswith(".")
        assert not row.differs or row.differs.endswith(".")


def test_types_are_what_their_rows_name():
    """The Python name of each row is the type with the row's lanes and bytes; the keyword is its family."""
    rows = {row.cpp: row for row in VECTORS}
    for form in FORMS:
        kind = run(rows[form.cpp])
        row = rows[form.cpp]
        assert kind is VECTOR_TYPES[form.cpp] and (kind.lanes, kind.nbytes) == (form.lanes, form.nbytes)
        assert row.summary.startswith(f"{form.lanes} ") and f", {form.nbytes} bytes" in row.summary
        assert ("The same type" in row.differs) == (form.cpp != kind.name)
    for keyword, size in KEYWORD_BYTES.items():
        assert run(rows[f"__{keyword}"]) is getattr(k, keyword) and getattr(k, keyword)["int"].nbytes == size


@pytest.mark.slow
@names
def test_an_operator_takes_the_types_of_its_row(row: Construct):
    """On each type that the row permits it gives a value, and on any other InvalidType."""
    for kind in TYPES:
        x, y = kind.wrap(sample(kind, 0)), kind.wrap(sample(kind, 1))
        if kind in types_of(row):
            made = run(row, x=3 if row.cpp == "[x]" else x, y=y, v=x)
            assert made is not None
            if row.cpp in COMBINED:
                pairs = zip(x.values.tolist(), y.values.tolist(), strict=True)
                assert made.values.tolist() == [COMBINED[row.cpp](p, q) for p, q in pairs]
        elif row.cpp not in COMBINED or not kind.operators.keys() >= {"x&y", "~x"}:
            with pytest.raises(InvalidType, match="is not for __vector"):
                run(row, x=x, y=y, v=x)


PROOFS: dict[str, Callable[[dict[str, Any]], None]] = {
    "__vector4 int v;": lambda made: _equal(made["v"], np.zeros(128, np.int32)),
    "__vector4 int v = x;": lambda made: _equal(made["v"], np.full(128, 7, np.int32)),
    "__local__ __vector float v[128];": lambda made: _equal(made["v"], np.arange(4096, dtype="f4").reshape(128, 32)),
    "x = *(__vector4 float*)(p + i);": lambda made: _equal(made["x"], np.arange(64, 192, dtype="f4")),
    "*(__vector4 float*)(p + i) = x;": lambda made: _equal(made["p"][64:192], np.full(128, 7, "f4")),
}


def _equal(made: Any, expected: np.ndarray) -> None:
    lanes = getattr(made, "values", made)
    assert lanes.dtype == expected.dtype and np.array_equal(lanes, expected)


@pytest.mark.parametrize("row", VARIABLES, ids=lambda row: row.cpp)
def test_a_statement_does_what_its_row_says(row: Construct, bench: Bench):
    """Definitions, arrays, loads and stores run in a kernel as they are written."""

    def body() -> None:
        memory = kernels.local(4096, np.float32)
        memory[...] = np.arange(4096)
        x: Any = 7 if "load" not in row.python and "store" not in row.python else k.vector4["float"](7)
        scope = {"k": k, "np": np, "memory": memory, "p": memory, "index": 0, "i": 64, "x": x}
        exec(row.python, scope)
        PROOFS[row.cpp](scope)

    in_kernel(bench, body)


def test_sizes_are_the_keywords():
    """The size of a type is its keyword's, and twice that for 64-bit elements of __vector4."""
    assert all(arch.vector_bytes == tuple(KEYWORD_BYTES.values()) for arch in ARCHITECTURES.values())
    for form in FORMS:
        assert sizeof(VECTOR_TYPES[form.cpp]) == KEYWORD_BYTES[form.keyword] * (2 if "long" in form.spelling else 1)
