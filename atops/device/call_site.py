"""Where in the user's program something was asked for: recorded cheaply, turned into words or text only when read."""

from __future__ import annotations

import ast
import dis
import linecache
import os
import re
import sys
import sysconfig
import weakref
from collections.abc import Callable
from contextvars import ContextVar, Token
from enum import Enum
from functools import partial
from itertools import islice
from types import CodeType, FrameType

import numpy as np

from atops.base.python_ast import module_tree

__all__ = (
    "Site", "asked_at", "asserted", "caller", "callers_of", "calling_place", "expression_at", "file_shown",
    "program_place", "source_name",
)  # fmt: skip

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
STDLIB, INSTALLED = sysconfig.get_path("stdlib") + os.sep, sysconfig.get_path("purelib") + os.sep
LIBRARIES = (PACKAGE, STDLIB, INSTALLED, sysconfig.get_path("platlib") + os.sep)
# What calls the program's tasks and threads. The frames behind it are no places of the program.
LOOPS = (f"{STDLIB}asyncio{os.sep}", f"{INSTALLED}trio{os.sep}", f"{STDLIB}threading.py")
NOT_THE_PROGRAM = (PACKAGE, os.path.dirname(np.__file__) + os.sep)  # numpy's operators call the package's arrays


COMPILED = re.compile(r"<(.+) [0-9a-f]{8}>")  # a text that a program compiled: its name and a digest
NAMERS: list[Callable[[str], str | None]] = []  # asked first: the cells of a notebook are no files


def source_name(path: str) -> str:
    """Return the path of a file, or for a compiled text the name by which the compiler's log calls it.

    The functions in `NAMERS` are asked first.
    """
    for namer in NAMERS:
        if (name := namer(path)) is not None:
            return name
    compiled = COMPILED.fullmatch(path)
    return path if compiled is None else compiled[1]


def file_shown(path: str) -> str:
    """Return what most messages call a file or a compiled text: its name without folders."""
    return os.path.basename(source_name(path))


class Site:
    """A place in a program. `str(site)` is "file:line in function", made from the code object when it is read."""

    __slots__ = ("_line", "code", "instruction")

    def __init__(self, code: CodeType, instruction: int) -> None:
        """Remember the code object and the offset of the instruction that was running."""
        self.code = code
        self.instruction = instruction
        self._line = -1  # not looked up yet

    @property
    def path(self) -> str:
        """The file as the interpreter knows it."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line of the instruction; the function's first one where the code has no table of lines."""
        if self._line < 0:
            self._line = self._looked_up()
        return self._line

    def _looked_up(self) -> int:
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def function(self) -> str:
        """The qualified name of the function."""
        return self.code.co_qualname

    def __str__(self) -> str:
        return f"{file_shown(self.path)}:{self.line} in {self.function}"

    def __repr__(self) -> str:
        return f"<Site {self}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Site):
            return NotImplemented
        return (self.path, self.line, self.function) == (other.path, other.line, other.function)

    def __hash__(self) -> int:
        return hash((self.path, self.function))


# By the id of a code object: a reference that tells when it is gone; the instructions that repeat an earlier one.
_repeats: dict[int, tuple[weakref.ref[CodeType], dict[int, int]]] = {}


def expression_at(code: CodeType, instruction: int) -> int:
    """Return the offset that stands for the expression which an instruction belongs to: that of its first copy.

    Compilers repeat the end of a function, or a `finally`, for each path that leads there, so that threads which come
    to one call in the text may be at different instructions.
    """
    known = _repeats.get(id(code))
    if known is None:
        known = _repeats[id(code)] = (weakref.ref(code, partial(_forget, id(code))), _repeated(code))
    return known[1].get(instruction, instruction)


def _forget(key: int, reference: weakref.ref[CodeType]) -> None:
    known = _repeats.get(key)
    if known is not None and known[0] is reference:  # the id may have been given to another code object meanwhile
        del _repeats[key]


def _repeated(code: CodeType) -> dict[int, int]:
    """Return the instructions that are copies of earlier ones: of the same kind, from the same columns of the text.

    Each with what belongs to it: a frame that has called may be at the last word of its call.
    """
    seen: dict[tuple[int, object], int] = {}
    copies: dict[int, int] = {}
    instructions = list(dis.get_instructions(code))
    ends = [each.offset for each in instructions[1:]] + [len(code.co_code)]
    for each, end in zip(instructions, ends, strict=True):
        place = each.positions
        if place is not None and place.lineno is not None and place.col_offset is not None:
            first = seen.setdefault((each.opcode, place), each.offset)
            if first != each.offset:
                copies |= {each.offset + word: first + word for word in range(0, end - each.offset, 2)}
    return copies


ASKED: ContextVar[Site | None] = ContextVar("atops_asked_at", default=None)


def caller(inside: int = 0, last: Site | None = None) -> Site:
    """Return the place of the innermost frame outside this package and numpy.

    That is the asker's own where the whole stack is inside, and in a block of `asked_at` the place given there.
    `inside`: so many frames, from the asker's on, are known to be the package's and are not looked at. `last`: an
    earlier answer, returned again if the place is the same, for one line of a program often asks many times.
    """
    if (asked := ASKED.get()) is not None:
        return asked
    if last is not None:
        try:
            frame = sys._getframe(1 + inside)
        except ValueError:  # no frame called: the asker is what a thread runs
            frame = sys._getframe(1)
        if last.code is frame.f_code and last.instruction == frame.f_lasti:
            return last
    return Site(*calling_place(inside, 2))


def calling_place(inside: int = 0, own: int = 1) -> tuple[CodeType, int]:
    """Return what `caller` does, as code and instruction. `own`: how far up the asker's frame is."""
    if (asked := ASKED.get()) is not None:
        return asked.code, asked.instruction
    try:
        frame: FrameType | None = sys._getframe(own + inside)
    except ValueError:  # no frame called: the asker is what a thread runs
        frame = None
    while frame is not None and _INSIDE[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        frame = sys._getframe(own)
    return frame.f_code, frame.f_lasti


def callers_of(site: Site, most: int) -> list[tuple[CodeType, int]]:
    """Return the frames of the program that led to a place, as code and instruction: the nearest first, at most `most`.

    Only the program's own, up to the task or thread that it is in: none of this package, of Python's library or of what
    is installed beside it. Empty where the place is not on this thread's stack.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code is not site.code or frame.f_lasti != site.instruction):
        frame = frame.f_back
    frame = None if frame is None else frame.f_back
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < most:
        kind = _FILES[frame.f_code.co_filename]
        if kind is _Kind.LOOP:
            break
        if kind is _Kind.PROGRAM:
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return found


def program_place(frame: FrameType | None) -> Site | None:
    """Return the innermost place of the program on the stack that ends in a frame, perhaps of another thread.

    Neither this package's nor that of a library which the program or the package has called. None where there is none.
    """
    while frame is not None and _FILES[frame.f_code.co_filename] is not _Kind.PROGRAM:
        frame = frame.f_back
    return None if frame is None else Site(frame.f_code, frame.f_lasti)


class _Inside(dict[str, bool]):
    """Whether a file, by its name, is no part of the program: the question most often asked of a frame."""

    def __missing__(self, name: str) -> bool:
        inside = name.startswith(NOT_THE_PROGRAM)
        if len(self) < _MOST_FILES:
            self[name] = inside
        return inside


class _Kind(Enum):
    """Whose code a file has."""

    PROGRAM, LIBRARY, LOOP = range(3)


class _Files(dict[str, _Kind]):
    """Whose code a file has, by its name."""

    def __missing__(self, name: str) -> _Kind:
        kind = _Kind.PROGRAM
        if name.startswith(LOOPS):
            kind = _Kind.LOOP
        elif name.startswith((*LIBRARIES, "<frozen ")):
            kind = _Kind.LIBRARY
        if len(self) < _MOST_FILES:
            self[name] = kind
        return kind


_MOST_FILES = 4096
_INSIDE = _Inside()
_FILES = _Files()


class asked_at:
    """In the block, have `caller` return this place: for what the package does later, in a task of its own.

    Such a task has no frame of the program under it.
    """

    __slots__ = ("_site", "_token")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._token: Token[Site | None] | None = None

    def __enter__(self) -> None:
        self._token = ASKED.set(self._site)

    def __exit__(self, *failure: object) -> None:
        if self._token is not None:
            ASKED.reset(self._token)


# ---- the text of an assertion, found from the instruction that failed


def asserted(code: CodeType, instruction: int, by_call: bool = False) -> str | None:
    """Return the condition that was asserted at an instruction of `code`, as its author wrote it.

    The instruction belongs to an `assert` statement; with `by_call` it is the call of an assert function, whose
    condition is its first argument or the one called `condition`. None where there is no such thing, or no source.
    """
    line, end_line, column, end_column = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    source = "".join(linecache.getlines(code.co_filename))
    if line is None or not source:
        return None
    try:
        tree = module_tree(source)
    except (SyntaxError, ValueError):  # the file is another one by now, or a cell has magic in it
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and not by_call and _covers(node, line, column):
            return _text(source, node.test)
        if isinstance(node, ast.Call) and by_call and (node.end_lineno, node.end_col_offset) == (end_line, end_column):
            named = [each.value for each in node.keywords if each.arg == "condition"]
            return _text(source, found[0]) if (found := [*node.args[:1], *named]) else None
    return None


def _covers(node: ast.Assert, line: int, column: int | None) -> bool:
    """Return whether a place lies inside a statement; without a column its line decides."""
    if column is None:
        return node.lineno <= line <= (node.end_lineno or node.lineno)
    start, end = (node.lineno, node.col_offset), (node.end_lineno or line, node.end_col_offset or column)
    return start <= (line, column) < end


def _text(source: str, node: ast.expr) -> str:
    """Return an expression as it stands in the source; in one line where it stands in several."""
    text = ast.get_source_segment(source, node)
    return text if text is not None and "\n" not in text else ast.unparse(node)
