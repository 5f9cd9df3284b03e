"""Diagnostics have the columns of the program's own lines, whatever stood there before; what rewriting costs."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from atops import kernels as k
from atops.errors import CompilationError
from atops.kernels.cxx.columns import Columns
from atops.kernels.cxx.rewrite import rewrite
from tests.every import every

LINES = (  # each names at its end what is nowhere declared; the last has nothing on its line
    "    __shared__ int s[12]; /* a comment; */ printf(\"%d\\n\", n);   __syncthreads();  none_1;",
    "    __local__ float l[4];   int\ta = MOST(n, n) + (NULL == x);   none_2;",
    "    const char *u = \"\u00e4\u00f6\"; __vector4 float v; __vector4 int w; MOST(n, 1); none_3;",
    "    int b = MOST(n, none_4);",
)
TEXT = "#define MOST(a, b) ((a) > (b) ? (a) : (b))\n__global__ void f(int *x, int n) {\n" + "\n".join(LINES) + "\n}\n"


def test_columns_behind_macros() -> None:
    """What the macros and the words of the language have become moves nothing."""
    with pytest.raises(CompilationError) as caught:
        k.compile_source(TEXT, "f.tops")
    said = [each.split(" error: ") for each in str(caught.value).splitlines() if " error: " in each]
    places = {message.split("'")[1]: where for where, message in reversed(said)}
    assert places == {
        f"none_{at}": f"f.tops:{at + 2}:{line.index(f'none_{at}') + 1}:" for at, line in enumerate(LINES, 1)
    }


GIVEN = """# 1 "f.tops"
 int s = (((n) > (m)) ? (n) : (m)); oops;
 x =
# 2 "f.tops" 3 4
     __null
# 2 "f.tops"
     + zz;
 static const auto &c = atops::variable(0, c_initial);
"""


@every(
    "line, byte, original, said, column",
    [
        (1, 13, "  int s = MOST(n, m); oops;", "'n'", 16),
        (1, 26, "  int s = MOST(n, m); oops;", "'n'", 16),
        (1, 37, "  int s = MOST(n, m); oops;", "'oops'", 23),
        (1, 10, "  int s = MOST(n, m); oops;", "expected", 11),  # what a macro gives is where it is named
        (1, 30, "  int s = MOST(n,", "'m'", 0),  # on a later line of the program
        (1, 42, "  int s = MOST(n, m); oops;", "expected", 28),  # behind the end
        (2, 8, "  x = NULL + zz;", "'zz'", 14),
        (2, 99, "  x = NULL + zz;", "'zz'", 0),
        (3, 21, "__constant__ float c = 1;", "'c'", 20),
        (3, 26, "__constant__ float c = 1;", "'atops'", 0),  # what was added is nowhere
    ],
)
def test_a_column(line: int, byte: int, original: str, said: str, column: int) -> None:
    """Of what the program has there; none where it has nothing for it."""
    assert Columns(GIVEN).column("f.tops", line, byte, original, said) == column


def test_what_scopes_cost() -> None:
    """Ten times as many blocks that hide a name are ten times as much work, counted in calls."""

    def calls(blocks: int) -> int:
        body = "{ float buf = 1; x[0] = buf; } buf[0] = 1;\n" * blocks
        text = f'# 1 "f.tops"\n__shared__ float buf[16];\n__global__ void f(float *x) {{\n{body}}}\n'
        counted, before = count(), sys.getprofile()
        sys.setprofile(lambda frame, event, argument: next(counted) and None)
        try:
            made = rewrite(text, ["f.tops"])
        finally:
            sys.setprofile(before)
        assert made.text.count("shared_memory(") == blocks
        return next(counted)

    assert calls(1000) < 12 * calls(100)
