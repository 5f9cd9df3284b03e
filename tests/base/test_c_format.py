"""C's format strings, compared with the C library, and what C leaves undefined."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atops.base.c_format import CONVERSIONS, c_format
from atops.base.errors import AtopsError, InvalidType, InvalidValue
from tests.every import every

C_TYPES = {"": ctypes.c_int, "hh": ctypes.c_int, "h": ctypes.c_int, "l": ctypes.c_long, "ll": ctypes.c_longlong,
           "j": ctypes.c_int64, "z": ctypes.c_ssize_t, "t": ctypes.c_ssize_t}  # fmt: skip
glibc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the oracle is this platform's C library")


def of_c(format: str, *arguments: Any) -> str:
    """Return what the C library prints."""
    buffer = ctypes.create_string_buffer(10_000)
    ctypes.CDLL(None).snprintf(buffer, len(buffer), format.encode(), *arguments)
    return buffer.value.decode()


sizes = st.sampled_from(["", "1", "3", "9", "24"])
precisions = st.sampled_from(["", ".", ".0", ".1", ".4", ".17"])


def flags(kind: str) -> st.SearchStrategy[str]:
    """Return strings of the flags that a conversion takes."""
    return st.lists(st.sampled_from(CONVERSIONS[kind].flags), max_size=3).map("".join)


@pytest.mark.slow
@glibc
@settings(max_examples=120)
@given(st.data(), st.sampled_from("diuoxX"), st.sampled_from(sorted(C_TYPES)), st.integers(0, 64), st.booleans())
def test_integers_are_written_as_c_does(data: st.DataObject, kind: str, length: str, bits: int, negative: bool):
    """Every flag, width, precision and length modifier, for numbers of every size."""
    most = (1 << (max(32, {"l": 64, "ll": 64, "j": 64, "z": 64, "t": 64}.get(length, 32)) - 1)) - 1
    value = min(data.draw(st.integers(0, 1 << bits)), most) * (-1 if negative else 1)
    format = f"[%{data.draw(flags(kind))}{data.draw(sizes)}{data.draw(precisions)}{length}{kind}]"
    assert c_format(format, [value]) == of_c(format, C_TYPES[length](value))


@pytest.mark.slow
@glibc
@settings(max_examples=120)
@given(st.data(), st.sampled_from("fFeEgGaA"), st.floats(allow_nan=False))
def test_floats_are_written_as_c_does(data: st.DataObject, kind: str, value: float):
    """Every flag, width and precision, for floats of every size, zeros with a sign, subnormals and infinities."""
    format = f"[%{data.draw(flags(kind))}{data.draw(sizes)}{data.draw(precisions)}{kind}]"
    assert c_format(format, [value]) == of_c(format, ctypes.c_double(value))


@pytest.mark.slow
@glibc
@settings(max_examples=60)
@given(st.data(), st.text("abc %", max_size=12), st.integers(1, 255))
def test_words_are_written_as_c_does(data: st.DataObject, text: str, code: int):
    """Strings with width and precision, characters, literal text and percent signs."""
    format = f"{text.replace('%', '%%')}[%{data.draw(flags('s'))}{data.draw(sizes)}{data.draw(precisions)}s]%%"
    assert c_format(format, [text]) == of_c(format, text.encode())
    if code < 128:
        assert c_format("%-3c|%3c", [code, chr(code)]) == of_c("%-3c|%3c", code, code)


WRITTEN: list[tuple[str, tuple[Any, ...], str]] = [
    ("%d of %u\n", (3, 12), "3 of 12\n"),
    ("%*.*f|%-*d|", (8, 2, 3.14159, 5, 7), "    3.14|7    |"),
    ("%*d|%.*f", (-5, 7, -1, 0.5), "7    |0.500000"),  # a negative width is a flag, a negative precision none at all
    ("%u %x %o", (-1, -1, -1), "4294967295 ffffffff 37777777777"),
    ("%lu %llx %zu", (-1, -1, 5), "18446744073709551615 ffffffffffffffff 5"),
    ("%hhu %hhd %hu %hd", (-1, 200, -1, 40_000), "255 -56 65535 -25536"),
    ("%u %hhu %lu", (np.int8(-1), np.int8(-1), np.int8(-1)), "4294967295 255 18446744073709551615"),
    ("%d %ld %u", (np.int16(-7), np.int64(-(1 << 40)), np.uint32(1 << 31)), "-7 -1099511627776 2147483648"),
    ("%d %d", (True, np.bool_(False)), "1 0"),
    ("%.3d|%05.3d|%.0d|%#x|%#o", (7, 7, 0, 0, 8), "007|  007||0|010"),  # unlike Python's %
    ("%05f|%-6f|%+f|% F", (np.inf, np.nan, np.inf, -np.nan), "  inf|nan   |+inf| NAN"),
    ("%f %.2f %g %e", (np.float16(0.5), ml_dtypes.bfloat16(1.5), np.float32(0.25), np.float64(1)),
     "0.500000 1.50 0.25 1.000000e+00"),
    ("%lf %Lf", (1.0, 2.0), "1.000000 2.000000"),
    ("%a %.1a %A", (1.5, 1.96875, 0.1), "0x1.8p+0 0x2.0p+0 0X1.999999999999AP-4"),
    ("%s %.2s %5s|%-5s|", ("abc", "abc", b"ab", np.str_("ä")), "abc ab    ab|ä    |"),
    ("%s", ("cut\0off",), "cut"),
    ("seen\0%d", (), "seen"),
    ("%c%c%c", ("x", 65, np.int8(-1)), "xA\xff"),
    ("%p %p", (0x1000000000, 0), "0x1000000000 (nil)"),
    ("100%%", (), "100%"),
    ("", (), ""),
]  # fmt: skip


@every("format, arguments, text", WRITTEN)
def test_what_is_written(format: str, arguments: tuple[Any, ...], text: str):
    """Types of Python, numpy and ml_dtypes; unsigned conversions wrap by their width; what differs from Python's %."""
    assert c_format(format, arguments) == text


def test_memory_of_no_dimensions_is_its_element():
    """A variable prints as its value, also as a width; %p asks for its place."""
    assert c_format("%*d|%.1f|%s", [np.array(3), np.array(7), np.array(0.25), np.array("a")[()]]) == "  7|0.2|a"
    assert c_format("%p", [np.array(7)], lambda value: 0x40 if isinstance(value, np.ndarray) else None) == "0x40"


def test_memory_has_an_address():
    """%p asks for it; what has none has to be an address itself."""
    addresses = {"x": 0x40, "y": 0}
    assert c_format("%p %4p %p", ["x", "y", 16], addresses.get) == "0x40  0x0 0x10"
    with pytest.raises(InvalidType, match=r"%p got argument 1, str 'z'; expected memory or an address"):
        c_format("%p", ["z"], addresses.get)


WRONG: list[tuple[str, tuple[Any, ...], type[AtopsError], str]] = [
    ("%d %d", (1,), InvalidType, r"'%d %d': %d has no argument left; 1 were given"),
    ("%d", (1, "more"), InvalidType, r"'%d' takes 1 arguments; 2 were given, and nothing converts 'more'"),
    ("%d", (2.5,), InvalidType, r"%d got argument 1, float 2.5; expected an integer"),
    ("%s %d", ("a", "b"), InvalidType, r"%d got argument 2, str 'b'; expected an integer"),
    ("%f", (1,), InvalidType, r"%f got argument 1, int 1; expected a float"),
    ("%g", ("1",), InvalidType, r"%g .* expected a float"),
    ("%s", (5,), InvalidType, r"%s got argument 1, int 5; expected a str or bytes"),
    ("%c", ("ab",), InvalidType, r"%c got argument 1, str 'ab'; expected a character or its code"),
    ("%*d", (2.0, 1), InvalidType, r"expected an int for \*"),
    ("%d", (np.zeros(3),), InvalidType, r"ndarray"),
    (b"%d", (1,), InvalidType, r"the format of printf is bytes"),
    ("%d", (1 << 31,), InvalidValue, r"2147483648; expected -2147483648 to 2147483647 \(%lld has 64 bits\)"),
    ("%u", (1 << 32,), InvalidValue, r"%llu has 64 bits"),
    ("%lld", (1 << 63,), InvalidValue, r"expected -9223372036854775808 to 9223372036854775807"),
    ("%p", (-1,), InvalidValue, r"an address of 64 bits"),
    ("%n", (1,), InvalidValue, r"no conversion '%n'; %d, %i"),
    ("%y", (1,), InvalidValue, r"no conversion '%y'"),
    ("50%", (), InvalidValue, r"no conversion '%'"),
    ("%5%", (), InvalidValue, r"no conversion '%5%'"),
    ("%1$d", (1,), InvalidValue, r"no conversion '%1\$'"),
    ("%#d", (1,), InvalidValue, r"flag '#' of '%#d' has no meaning for %d"),
    ("%05s", ("a",), InvalidValue, r"flag '0'"),
    ("%.2c", ("a",), InvalidValue, r"the precision of '%.2c'"),
    ("%ls", ("a",), InvalidValue, r"length 'l'"),
    ("%Ld", (1,), InvalidValue, r"length 'L'"),
    ("%99999d", (1,), InvalidValue, r"more than 4095 characters"),
    ("%.*f", (5000, 1.0), InvalidValue, r"5000; expected at most 4095 characters"),
]


@every("format, arguments, error, why", WRONG)
def test_what_c_leaves_undefined_is_refused(
    format: str, arguments: tuple[Any, ...], error: type[AtopsError], why: str
):  # fmt: skip
    """The error names the format, the conversion, the argument and what would be right."""
    with pytest.raises(error, match=why):
        c_format(format, arguments)
