"""C's format strings: what `printf` makes of a format and its arguments.

Where C leaves the behaviour undefined (a wrong argument, a flag without meaning), an error names the conversion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from atops.base.errors import InvalidType, InvalidValue

__all__ = ("CONVERSIONS", "Conversion", "c_format")

MOST = 4095  # characters of one conversion: what C promises at least, and so the most that is portable

_LENGTHS = MappingProxyType({"": 32, "hh": 8, "h": 16, "l": 64, "ll": 64, "j": 64, "z": 64, "t": 64})  # bits, LP64
_WHOLE = (int, np.integer, np.bool_)
_REAL = (float, np.floating, ml_dtypes.bfloat16)
_SPEC = r"(?s)%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|j|z|t|L)?(.)?"


class Conversion(NamedTuple):
    """A conversion character: what it `takes` in words, and which flags and length modifiers have a meaning for it."""

    kind: str
    takes: str
    flags: str
    lengths: tuple[str, ...] = ("",)
    precision: bool = True


_INTEGER = tuple(_LENGTHS)
_FLOAT = ("", "l", "L")

CONVERSIONS: Mapping[str, Conversion] = MappingProxyType(
    {
        row.kind: row
        for row in (
            Conversion("d", "an integer", "-+ 0", _INTEGER),
            Conversion("i", "an integer", "-+ 0", _INTEGER),
            Conversion("u", "an integer", "-+ 0", _INTEGER),
            Conversion("o", "an integer", "-+ #0", _INTEGER),
            Conversion("x", "an integer", "-+ #0", _INTEGER),
            Conversion("X", "an integer", "-+ #0", _INTEGER),
            *(Conversion(kind, "a float", "-+ #0", _FLOAT) for kind in "fFeEgGaA"),
            Conversion("c", "a character or its code", "-", precision=False),
            Conversion("s", "a str or bytes", "-"),
            Conversion("p", "memory or an address", "-", precision=False),
        )
    }
)


class _Spec(NamedTuple):
    """One conversion of a format: as it is written, and what that says. -1 is a `*`."""

    text: str
    flags: str
    width: int | None
    precision: int | None
    bits: int
    kind: str


def _no_address(value: object) -> int | None:
    """Return no address: without memory there is none."""
    return None


def c_format(
    format: str, arguments: Sequence[object], address_of: Callable[[object], int | None] = _no_address
) -> str:
    """Return what C's `printf` would write for `format` and `arguments`, up to the first NUL of the format.

    Integers are Python's and numpy's, bool too; a conversion takes what fits its bits (`%d` 32, `%ld` 64, `%hhd` and
    `%hd` 32 that they cut down), an unsigned one negative values as well, which wrap. Floats are Python's, numpy's and
    bfloat16; memory of no dimensions is its one element. `%p` takes an int, and whatever `address_of` has an address
    for. Raises InvalidType for a wrong number of arguments and an argument of another type, InvalidValue for a value
    that does not fit, a conversion that C does not have and `%n`; each names the conversion and the value.
    """
    if not isinstance(format, str):
        raise InvalidType(f"the format of printf is {type(format).__name__} {format!r}; expected a str")
    pieces: list[str] = []
    taken = _Arguments(format, arguments, address_of)
    for part in _parsed(format):
        pieces.append(part if isinstance(part, str) else _converted(part, taken))
    taken.check_end()
    return "".join(pieces)


@lru_cache(maxsize=256)  # kernels print with the same few formats in every thread
def _parsed(format: str) -> tuple[str | _Spec, ...]:
    """Return the literal texts and the conversions of a format. Raises InvalidValue for what C does not have."""
    return tuple(_parts(format.partition("\0")[0]))


def _parts(format: str) -> Iterator[str | _Spec]:
    end = 0
    for match in re.finditer(_SPEC, format):
        if match.start() > end:
            yield format[end : match.start()]
        end = match.end()
        yield "%" if match[0] == "%%" else _spec(format, match)
    if end < len(format):
        yield format[end:]


def _spec(format: str, match: re.Match[str]) -> _Spec:
    """Return one conversion. Raises InvalidValue where it has no meaning."""
    text, (flags, width, precision, length, kind) = match[0], match.groups()
    row = CONVERSIONS.get(kind)
    if row is None:
        raise InvalidValue(f"printf format {format!r}: there is no conversion {text!r}; %{', %'.join(CONVERSIONS)} are")
    if (length or "") not in row.lengths:
        raise InvalidValue(f"printf format {format!r}: {text!r} has the length {length!r}, which %{kind} does not take")
    if wrong := set(flags) - set(row.flags):
        raise InvalidValue(f"printf format {format!r}: flag {min(wrong)!r} of {text!r} has no meaning for %{kind}")
    if precision is not None and not row.precision:
        raise InvalidValue(f"printf format {format!r}: the precision of {text!r} has no meaning for %{kind}")
    extents = _extent(width), _extent(precision)
    if max(extent or 0 for extent in extents) > MOST:
        raise InvalidValue(f"printf format {format!r}: {text!r} asks for more than {MOST} characters")
    return _Spec(text, flags, *extents, _LENGTHS.get(length or "", 64), kind)


def _extent(text: str | None) -> int | None:
    """Return a width or a precision: None where there is none, -1 for `*`, and a lone point is a precision of 0."""
    return None if text is None else -1 if text == "*" else int(text or 0)


class _Arguments:
    """The arguments of one call, taken from the left. What is wrong with one is said with its place and its value."""

    __slots__ = ("_format", "_next", "_values", "address_of")

    def __init__(self, format: str, values: Sequence[Any], address_of: Callable[[object], int | None]) -> None:
        self._format = format
        self._values = values
        self.address_of = address_of
        self._next = 0

    def take(self, spec: _Spec) -> Any:
        """Return the next one; memory of no dimensions is its one element, but for %p. Raises InvalidType."""
        if self._next == len(self._values):
            raise InvalidType(
                f"printf format {self._format!r}: {spec.text} has no argument left; {len(self._values)} were given"
            )
        self._next += 1
        value = self._values[self._next - 1]
        if spec.kind != "p" and getattr(value, "ndim", 1) == 0 and not isinstance(value, np.generic):
            return value[()]
        return value

    def whole(self, spec: _Spec, what: str = "an integer") -> int:
        """Return the next one as an int. Raises InvalidType where it is none."""
        value = self.take(spec)
        if not isinstance(value, _WHOLE):
            raise self.wrong(spec, value, what)
        return int(value)

    def size(self, spec: _Spec) -> int:
        """Return the next one as a width or a precision. Raises InvalidType and InvalidValue."""
        size = self.whole(spec, "an int for *")
        if abs(size) > MOST:
            raise self.unfit(spec, size, f"at most {MOST} characters")
        return size

    def wrong(self, spec: _Spec, value: object, expected: str) -> InvalidType:
        """Return the error for the argument taken last, which has the wrong type."""
        return InvalidType(
            f"printf format {self._format!r}: {spec.text} got argument {self._next}, {type(value).__name__} {value!r}; "
            f"expected {expected}"
        )

    def unfit(self, spec: _Spec, value: object, expected: str) -> InvalidValue:
        """Return the error for the argument taken last, which is out of its range."""
        return InvalidValue(
            f"printf format {self._format!r}: {spec.text} got argument {self._next}, {value!r}; expected {expected}"
        )

    def check_end(self) -> None:
        """Raise InvalidType where arguments are left over."""
        if self._next < len(self._values):
            raise InvalidType(
                f"printf format {self._format!r} takes {self._next} arguments; {len(self._values)} were given, and "
                f"nothing converts {self._values[self._next]!r}"
            )


def _converted(spec: _Spec, arguments: _Arguments) -> str:
    """Return what one conversion writes, its width included."""
    flags, width, precision = spec.flags, spec.width, spec.precision
    if width == -1:
        width = arguments.size(spec)
        if width < 0:
            flags, width = flags + "-", -width
    if precision == -1 and (precision := arguments.size(spec)) < 0:
        precision = None  # as if it had not been given
    zeros = "0" in flags and "-" not in flags
    if spec.kind in "diuoxX":
        prefix, text = _integer(spec, arguments, flags, precision)
        zeros = zeros and precision is None
    elif spec.kind in "csp":
        prefix, text = "", _word(spec, arguments, precision)
    else:
        prefix, text = _real(spec, arguments, flags, precision)
        zeros = zeros and text[-1] not in "fFnN"  # neither inf nor nan
    if width is None:
        return prefix + text
    if zeros:
        return prefix + text.rjust(width - len(prefix), "0")
    return (prefix + text).ljust(width) if "-" in flags else (prefix + text).rjust(width)


def _integer(spec: _Spec, arguments: _Arguments, flags: str, precision: int | None) -> tuple[str, str]:
    """Return the sign or the base's prefix, and the digits."""
    value = arguments.whole(spec)
    signed = spec.kind in "di"
    width = max(spec.bits, 32)  # as it was passed; what is shorter is cut afterwards
    low, high = -1 << (width - 1), (1 << (width - 1 if signed else width)) - 1
    if not low <= value <= high:
        more = "" if width == 64 else f" (%ll{spec.kind} has 64 bits)"
        raise arguments.unfit(spec, value, f"{low} to {high}{more}")
    value &= (1 << spec.bits) - 1
    if signed:
        if value >> (spec.bits - 1):
            value -= 1 << spec.bits
        digits, prefix = str(abs(value)), _sign(value < 0, flags)
    else:
        digits = format(value, "d" if spec.kind == "u" else spec.kind)
        prefix = "0" + spec.kind if "#" in flags and spec.kind in "xX" and value else ""
    if precision is not None:
        digits = digits.rjust(precision, "0") if value or precision else ""
    if "#" in flags and spec.kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    return prefix, digits


def _real(spec: _Spec, arguments: _Arguments, flags: str, precision: int | None) -> tuple[str, str]:
    """Return the sign, with the 0x of hexadecimal floats, and the rest."""
    value = arguments.take(spec)
    if not isinstance(value, _REAL):
        raise arguments.wrong(spec, value, CONVERSIONS[spec.kind].takes)
    number = float(value)
    prefix = _sign(math.copysign(1, number) < 0 and not math.isnan(number), flags)
    number = abs(number)
    if spec.kind in "aA" and math.isfinite(number):
        text = _hexadecimal(number, precision, "#" in flags)
        return (prefix + "0x", text) if spec.kind == "a" else (prefix + "0X", text.upper())
    kind = "fF"[spec.kind.isupper()] if not math.isfinite(number) else spec.kind
    alternate = "#" if "#" in flags else ""
    return prefix, f"%{alternate}.{6 if precision is None else precision}{kind}" % number


def _hexadecimal(number: float, precision: int | None, point: bool) -> str:
    """Return a float that is not negative as hexadecimal digits and a power of two, without its 0x."""
    mantissa, _, exponent = number.hex()[2:].partition("p")
    lead, _, digits = mantissa.partition(".")
    if precision is None:
        digits = digits.rstrip("0")
    elif precision >= len(digits):
        digits = digits.ljust(precision, "0")
    else:
        cut = 4 * (len(digits) - precision)
        whole, rest = divmod(int(lead + digits, 16), 1 << cut)
        half = 1 << (cut - 1)
        whole += rest > half or (rest == half and whole & 1)
        rounded = format(whole, f"0{precision + 1}x")
        lead, digits = rounded[: len(rounded) - precision], rounded[len(rounded) - precision :]
    return f"{lead}{'.' if digits or point else ''}{digits}p{exponent}"


def _word(spec: _Spec, arguments: _Arguments, precision: int | None) -> str:
    """Return a character, a string up to its NUL, or an address."""
    value = arguments.take(spec)
    if spec.kind == "p":
        return _pointer(spec, arguments, value)
    if spec.kind == "c" and isinstance(value, _WHOLE):
        return chr(int(value) & 0xFF)
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str) or (spec.kind == "c" and len(text) != 1):
        raise arguments.wrong(spec, value, CONVERSIONS[spec.kind].takes)
    return text if spec.kind == "c" else text.partition("\0")[0][:precision]


def _pointer(spec: _Spec, arguments: _Arguments, value: object) -> str:
    """Return an address; the null pointer is an int."""
    address = arguments.address_of(value)
    if address is not None:
        return f"{address:#x}"
    if not isinstance(value, _WHOLE):
        raise arguments.wrong(spec, value, CONVERSIONS["p"].takes)
    if not 0 <= int(value) < 1 << 64:
        raise arguments.unfit(spec, value, "an address of 64 bits")
    return f"{int(value):#x}" if value else "(nil)"


def _sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
