"""What the compiler says, told of the program's own lines and in the words of its text."""

from __future__ import annotations

import re

from atops.kernels.cxx.columns import Columns, column_of_byte
from atops.kernels.cxx.reading import Texts
from atops.kernels.source.diagnostics import DiagnosticLog, SourcePosition, SourceText

__all__ = ("take",)

_SAID = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error|warning|note): (?P<text>.*)$"
)
# What the headers say of a call, as g++ and clang++ tell it, and of a launch: `parameters` are the kernel's.
_DECLARED = r".* declared with (?:attribute error|'error' attribute): "
_LAUNCH = re.compile(rf"call to .*?Launch<void \(\*\)(?P<parameters>\(.*?\)), {_DECLARED}")
_SAYS = re.compile(rf"^call to {_DECLARED}")
# Where a template of a header is used: g++ tells it before the error, from the inside out, clang++ behind it.
_REQUIRED = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? +(?P<text>(?:\w+ )?required .*)$")
_WITHIN = re.compile(r"^[^:\n]+: In \w+")  # begins what g++ tells of one function
_REQUESTED = "requested here"
_ASSERTED = re.compile(r"""static(?:_assert| assertion) failed due to requirement '.*'(?:: (.*)| "(.*)")$""")
_INCLUDED = re.compile(r"(In file included| +) from (?P<file>.+?):(?P<line>\d+)[:,]")
_PLACED = re.compile(r"const char\*, int\)")  # the last two parameters of a function of ours: where it is called
_CALLED = "__builtin_LINE"  # stands in the default arguments of these
_COUNTED = re.compile(r"candidate .*(?:expects|requires at most) (\d+) arguments?,(?: but)? (\d+) (?:were )?provided")
_MORE = re.compile(r"cannot convert ('.*' \(type '.*'\)) to type 'const char\*'|from ('.*') to 'const char \*' for")
_HALF = re.compile(r"\b__atops_([fb][fp]16)\b")
_PRIVATE = re.compile(r"__atops_\w+|atops::")
_OURS = re.compile(r"\bAnything\b|\bNarrow<")  # types of the headers, of which no text knows
_UNKNOWN_HIP = re.compile(r"undeclared identifier '(hip[A-Z]\w*)'|'(hip[A-Z]\w*)' was not declared")
_NARROW = (re.compile(r"\bNarrow<[^<>]*half[^<>]*>"), "__fp16"), (re.compile(r"\bNarrow<[^<>]*brain[^<>]*>"), "__bf16")
_VECTOR = re.compile(r"\bVector<([\w ]+), ?(128|256|512)>")
_ALIAS = re.compile(r"'[^']*' [{(]aka '(?:struct )?((?:__vector[24]? [\w ]+|__fp16|__bf16) ?[*&]*)'[)}]")
_KEYWORDS = {"128": "__vector", "256": "__vector2", "512": "__vector4"}
_CONST = re.compile(r"cannot assign to variable ('\w+') with const-qualified type .*")  # as clang++ has it
_NOT_INLINE = re.compile("'always_inline' function might not be inlinable")  # of g++, where `inline` is not beside it
_NO_OPERATOR = re.compile(r"no match for 'operator(\S+)'|invalid operands to binary expression")


def take(said: str, texts: Texts, log: DiagnosticLog, failed: bool, columns: Columns | None) -> None:
    """Take what the compiler says into the log: what is said of the program's own lines, in its own words.

    `columns` are those of the text that it has read; None where that is the program's own.
    """
    before, reader = len(log.errors), _Reader(texts, log, columns)
    for line in said.splitlines():
        if (found := _SAID.match(line)) is not None:
            reader.read(found)
        else:
            reader.read_context(line)
    if failed and len(log.errors) == before:
        last = said.strip().splitlines()[-1] if said.strip() else "it said nothing"
        detail = reader.elsewhere[0] if reader.elsewhere else last
        end = SourcePosition(texts.source.text.rstrip().count("\n") + 1, 1)
        detail, where = _behind(said, texts, columns) or (detail, end)
        log.error(f"the compiler refuses it: {detail}", texts.source, where)


class _Reader:
    """Reads one message after the other."""

    def __init__(self, texts: Texts, log: DiagnosticLog, columns: Columns | None) -> None:
        self.texts, self.log, self.columns = texts, log, columns
        self.elsewhere: list[str] = []  # errors that are in no text of the program
        self.own = False  # the last error or warning is in one: its notes are told
        self.wrong: tuple[SourceText, SourcePosition] | None = None  # where the last error is
        self.user: tuple[SourceText, SourcePosition] | None = None  # where the program uses the template told of
        self.unplaced = ""  # the error in a template of a header of which that is not known yet
        self.placed = False  # the candidate that is spoken of takes the place of its call

    def read_context(self, line: str) -> None:
        """Read a line that is no message: it may say where the template of the next one is used."""
        if _WITHIN.match(line):
            self.user = None
        elif self.user is None and (found := _REQUIRED.match(line)) is not None:
            source = self.texts.of(found["file"])
            if not isinstance(source, str):
                self.user = source, _position(found, source, self.columns)

    def read(self, found: re.Match[str]) -> None:
        """Read a message."""
        text, kind = _in_words_of_the_text(found["text"]), found["kind"]
        source = self.texts.of(found["file"])
        if isinstance(source, str):
            return self._of_a_header(found, text)
        where = _position(found, source, self.columns)
        if self.unplaced and kind == "note" and text.endswith(_REQUESTED):
            self.log.error(self.unplaced, source, where)
        self.unplaced = ""
        if _NOT_INLINE.search(text):
            self.own = False
        elif kind.endswith("error"):
            self.log.error(text + _instead(text, source.line(where.line)[where.column - 1 :]), source, where)
            self.own, self.wrong = True, (source, where)
        elif kind == "warning":
            self.log.warning(text, source, where)
            self.own = True
        elif self.own and not _OURS.search(text):  # the type of what an unknown intrinsic gives
            if text.startswith("candidate: "):
                self.placed = _PLACED.search(text) is not None
            self.log.note(_candidate(text) if self.placed else text, source, where)
        return None

    def _of_a_header(self, found: re.Match[str], text: str) -> None:
        """Read what is said of no line of the program. What clang++ says there of a candidate, g++ says of the call."""
        if found["kind"].endswith("error"):
            self.elsewhere.append(text)
            if self.user is not None:
                self.log.error(text, *self.user)
            self.unplaced = "" if self.user else text
        if text.startswith("candidate: "):
            self.placed = _PLACED.search(text) is not None
        elif self.own and self.wrong and self._is_placed(found) and (told := _candidate(text)) != text:
            self.log.note(told, *self.wrong)
        self.own = self.own and found["kind"] == "note"

    def _is_placed(self, found: re.Match[str]) -> bool:
        """Whether a line of a header has functions that take the place of their call."""
        return self.columns is not None and self.columns.has(found["file"], int(found["line"]), _CALLED)


def _candidate(text: str) -> str:
    """Return what is said of a candidate that takes the place of its call, of which the program does not know."""
    if counted := _COUNTED.search(text):
        return f"candidate expects up to {int(counted[1]) - 2} arguments, {counted[2]} provided"
    if more := _MORE.search(text):
        return f"candidate takes no argument more, and is given {more[1] or f'one of type {more[2]}'}"
    return text


def _position(found: re.Match[str], source: SourceText, columns: Columns | None) -> SourcePosition:
    """Return the place in a text of the program of what the compiler says; the column is 0 where it is not known."""
    line, byte = int(found["line"]), int(found["column"] or 0)
    original = source.line(line)
    if not byte:
        return SourcePosition(line, 0)
    if columns is None:
        return SourcePosition(line, column_of_byte(original, byte))
    return SourcePosition(line, columns.column(found["file"], line, byte, original, found["text"]))


def _behind(said: str, texts: Texts, columns: Columns | None) -> tuple[str, SourcePosition] | None:
    """Return an error that is in no line of the program, and the line that it comes from: an include, an open brace."""
    within, wrong = None, ""
    for line in said.splitlines():
        if included := _INCLUDED.match(line):
            if texts.of(included["file"]) is texts.source:
                within = SourcePosition(int(included["line"]))
        elif found := _SAID.match(line):
            if found["kind"].endswith("error"):
                wrong = found["text"]
                if within is not None and found["file"] != "registration":
                    return wrong, within
            elif found["kind"] == "note" and wrong and texts.of(found["file"]) is texts.source:
                return wrong, _position(found, texts.source, columns)
    return None


def _in_words_of_the_text(said: str) -> str:
    """Return what the compiler says without names of the headers: vectors as the text has them."""
    text = _PRIVATE.sub("", _HALF.sub(r"__\1", said))
    if launch := _LAUNCH.match(text):
        text = f"{text[launch.end() :]}, which are {launch['parameters']}"
    text = _CONST.sub(r"assignment of read-only variable \1", _SAYS.sub("", text))
    text = _ASSERTED.sub(r"static assertion failed: \1\2", text)
    if unknown := _UNKNOWN_HIP.search(text):
        name = unknown[1] or unknown[2]
        return f"'{name}' is not declared: programs in C++ call TOPS's functions, and HIP's are for Python (atops.hip)"
    for narrow, name in _NARROW:
        text = narrow.sub(name, text)
    return _ALIAS.sub(r"'\1'", _VECTOR.sub(lambda found: f"{_KEYWORDS[found[2]]} {found[1]}", text))


def _instead(text: str, at: str) -> str:
    """Return what to do in place of an operator that vectors have not; `at` is the program's text from there on."""
    operands = re.findall(r"'(__vector[24]? [\w ]+)'", text)
    found = _NO_OPERATOR.match(text)
    if found is None or len(operands) != 2:
        return ""
    if operands[0].split(" ", 1)[1] != operands[1].split(" ", 1)[1]:
        return "; both have to be of one type: convert one with tops::vcast"
    if operands[0] != operands[1]:
        return "; both have to be of one length"
    operator = found[1] or at  # clang++ does not name it
    if operator.startswith("/"):
        return "; call div(a, b) or tops::vdiv(a, b)"
    if operator.startswith(("<<", ">>")):
        return f"; it is of unsigned elements: call tops::vsh{'l' if operator[0] == '<' else 'r'}(a, b)"
    return ""
