"""The options of a compilation: the target, the macros, and the handling of warnings. TOPS C++, 8.6."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from atops.base.errors import InvalidType
from atops.device.arch import ARCHITECTURES
from atops.kernels.source.diagnostics import DiagnosticLog
from atops.kernels.target import MACROS, TARGETS, CompileTarget, macros_of

__all__ = ("CompileOptions", "parse_options")

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


_OTHER_NAMES = {chip.gcu_arch_name: chip.name for chip in ARCHITECTURES.values()}

DEFAULT_TARGET = "gcu300"


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of one compilation, checked. `defines` are the macros and their texts, in the order of the names."""

    target: CompileTarget = TARGETS[DEFAULT_TARGET]
    defines: tuple[tuple[str, str], ...] = ()
    no_warnings: bool = False
    warnings_as_errors: bool = False

    @property
    def built_in(self) -> Mapping[str, int | None]:
        """Return the built-in macros as the target defines them; None is what is not defined (TOPS C++, 8.6)."""
        return macros_of(self.target)

    def arguments(self) -> tuple[str, ...]:
        """Return the options as they are spelled, in one fixed order; `parse_options` reads them back."""
        flags = ["-w"] * self.no_warnings + ["-Werror"] * self.warnings_as_errors
        return (f"--gpu-architecture={self.target.name}", *(f"-D{name}={text}" for name, text in self.defines), *flags)


class _Parsing:
    """The state of reading a list of options."""

    def __init__(self, name: str, log: DiagnosticLog, target: CompileTarget) -> None:
        self.name = name
        self.log = log
        self.target = target
        self.defines: dict[str, str] = {}
        self.no_warnings = self.warnings_as_errors = False

    def fail(self, message: str) -> None:
        self.log.error(message, self.name)

    def set_target(self, value: str) -> None:
        found = TARGETS.get(_OTHER_NAMES.get(value, value))
        if found is None:
            return self.fail(f"unknown architecture '{value}'; expected one of {', '.join(TARGETS)}")
        self.target = found

    def define(self, value: str) -> None:
        macro, given, text = value.partition("=")
        if not IDENTIFIER.fullmatch(macro):
            return self.fail(f"macro name '{macro}' is no identifier; expected -D NAME or -D NAME=value")
        if macro in MACROS:
            return self.fail(f"macro '{macro}' is built in; --gpu-architecture sets it")
        if "\n" in text or "\r" in text or "\0" in text:
            return self.fail(f"the text of macro '{macro}' has more than one line")
        if text.endswith("\\") or "/*" in text:
            return self.fail(f"the text of macro '{macro}' goes on behind it: {text!r}")
        if "__has_" in text or "_Pragma" in text:
            return self.fail(f"the text of macro '{macro}' asks for files: {text!r}")
        self.defines[macro] = text.strip() if given else "1"

    def undefine(self, value: str) -> None:
        self.defines.pop(value, None)

    def drop_warnings(self, value: str) -> None:
        self.no_warnings = True

    def harden_warnings(self, value: str) -> None:
        self.warnings_as_errors = True


# Each option: how it is spelled, whether a value follows, and what it does.
_OPTIONS: tuple[tuple[tuple[str, ...], bool, Callable[[_Parsing, str], None]], ...] = (
    (("--gpu-architecture", "-arch", "--offload-arch", "-march"), True, _Parsing.set_target),
    (("--define-macro", "-D"), True, _Parsing.define),
    (("--undefine-macro", "-U"), True, _Parsing.undefine),
    (("--disable-warnings", "-w"), False, _Parsing.drop_warnings),
    (("-Werror",), False, _Parsing.harden_warnings),
)
_SPELLINGS = {spelling: (spelling, valued, act) for spellings, valued, act in _OPTIONS for spelling in spellings}


def parse_options(
    options: CompileOptions | Sequence[str], name: str, log: DiagnosticLog, target: str = DEFAULT_TARGET
) -> CompileOptions | None:
    """Read options as on a command line. Faults go to `log` under `name`, and the result is None then.

    Takes `--gpu-architecture=gcu300` (or -arch, --offload-arch, -march; gcu210, gcu300, agcu200, agcu300), `-D NAME`
    and `-D NAME=value` (--define-macro), `-U NAME`, `-w` (no warnings) and `-Werror`. A value follows after `=`, as
    the next word, or, for options of one letter, at once. `target` is the architecture where none is named.

    Raises InvalidType for what is no sequence of strings.
    """
    if isinstance(options, CompileOptions):
        return options
    if isinstance(options, str) or not isinstance(options, Sequence) or any(type(each) is not str for each in options):
        raise InvalidType(f"options expects a sequence of strings, such as ['-DTILE=64'], got {options!r}")
    before, state = len(log.errors), _Parsing(name, log, TARGETS[target])
    words = iter(options)
    for word in words:
        _read(word.strip(), words, state)
    if len(log.errors) > before:
        return None
    defines = tuple(sorted(state.defines.items()))
    return CompileOptions(state.target, defines, state.no_warnings, state.warnings_as_errors)


def _read(word: str, words: Iterator[str], state: _Parsing) -> None:
    """Read one option, and its value where that is the next word."""
    spelling, end, value = (*re.split("([= ])", word, maxsplit=1), "", "")[:3]
    found, given = _SPELLINGS.get(spelling), bool(end)
    if (found is None or len(spelling) == 2) and word[:2] in _SPELLINGS and len(word) > 2:
        found, value, given = _SPELLINGS[word[:2]], word[2:].strip(), True  # -DNAME=value
    if found is None or (given and not found[1]):
        return state.fail(_unknown(word))
    if found[1] and not given:
        value = next(words, "")
        if not value:
            return state.fail(f"option '{found[0]}' expects a value")
    found[2](state, value.strip())


def _unknown(word: str) -> str:
    if word.startswith(("-I", "--include-path")):
        return f"unknown option '{word}'; includes are passed to the program as named headers, not searched for"
    near = difflib.get_close_matches(word.partition("=")[0], _SPELLINGS, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(sorted(_SPELLINGS))}"
    return f"unknown option '{word}'; {hint}"
