"""Functions of a C interface are read from rows of text."""

from __future__ import annotations

import pytest

from atops.base.result_codes import Result
from atops.bridge.declarations import CParameter, Declarations

family = Declarations("topsError_t", ("const char *", "topsrtcResult")).family


def test_a_family_is_read():
    """Out-parameters become results, defaults stay text, a row goes on where it is indented further."""
    first, second = family("Stream", "2.4", """
        waits topsA(out void **ptr, const void *src, unsigned int n = 0,
            topsStream_t stream = 0) -> InvalidValue
            MemoryFree
        const char * topsB()
    """)  # fmt: skip
    assert (first.family, first.section, first.name, first.waits) == ("Stream", "2.4", "topsA", True)
    assert first.parameters == (
        CParameter("src", "const void *"),
        CParameter("n", "unsigned int", "0"),
        CParameter("stream", "topsStream_t", "0"),
    )
    assert first.results == (CParameter("ptr", "void **"),)
    assert (first.returns, first.codes, first.outs) == ("topsError_t", {Result.InvalidValue, Result.Unknown}, 1)
    assert (second.returns, second.parameters, second.outs, second.waits) == ("const char *", (), 1, False)


@pytest.mark.parametrize("row", ["no declaration", "topsA(int *)", "topsA(int a", "topsA() -> NoSuchCode"])
def test_what_is_no_declaration(row):
    """A row that cannot be read is refused, and so is a code that there is not."""
    with pytest.raises((ValueError, KeyError)):
        list(family("X", "1", row))
