"""What a learner's file is worth: its task judged, its answers replayed, in a process of its own.

Run as `python -m atops.lessons.grading FILE GRADE`, it writes the grade as JSON into a file.
"""

from __future__ import annotations

import ast
import contextlib
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import DEVNULL

from atops.base.errors import InvalidValue
from atops.lessons.learner import find_source
from atops.lessons.source import read_cells, sources

__all__ = ("Grade", "grade", "graded", "main", "statements")

HANDED = frozenset({"lesson", "play", "watch", "get_ipython"})  # of a copy; what uses them is for the learner
OPENED = re.compile(r"open_lesson\(\s*[\"']?([^\"')]+)[\"']?\s*\)")


@dataclass(frozen=True)
class Grade:
    """The grade of one file: whether the task passes, and its question, if it has been answered."""

    file: str
    lesson: str
    passed: bool
    question: bool | None
    """Whether an answer of the file is one; None where there is none."""
    kind: str
    """How the task failed, as of `Verdict`; "never ends" also where the file took too long, "no lesson" where it is no
    copy of one, "" where it passed."""
    text: str


def grade(path: Path, seconds: float = 60.0) -> Grade:
    """Grade a learner's file in another process: what it does there, or breaks, it does to itself.

    `seconds` is how long it may take. What it prints goes nowhere, and processes that it leaves are ended. A file that
    is no copy of a lesson has a grade that says so. Raises OSError for a file that cannot be read.
    """
    try:
        name = find_source(_lesson_of(path)).name
    except (InvalidValue, UnicodeDecodeError) as error:
        return Grade(str(path), "", False, None, "no lesson", str(error))
    with tempfile.TemporaryDirectory(prefix="atops-grade-") as folder:
        found = Path(folder, "grade.json")
        command = [sys.executable, "-m", "atops.lessons.grading", str(path), str(found)]
        process = subprocess.Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)
        try:
            ended = f"its process ended with {process.wait(seconds)}, and gave no grade"
        except subprocess.TimeoutExpired:
            return Grade(str(path), name, False, None, "never ends", f"it was not over after {seconds:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        try:
            return Grade(**json.loads(found.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return Grade(str(path), name, False, None, "exception", ended)


def _lesson_of(path: Path) -> str:
    """Return the lesson that a file is a copy of: the one that it opens, else the one of its name.

    Raises InvalidValue where it opens none and has no lesson's name.
    """
    text = path.read_text(encoding="utf-8")
    found = OPENED.search(text.replace('\\"', '"'))
    if found is None and path.stem not in (each.name for each in sources()):
        raise InvalidValue(f"{path.name} is no copy of a lesson: it has no open_lesson(...)")
    return found[1].strip() if found else path.stem


def statements(path: Path) -> Iterator[tuple[ast.Module, str, str]]:
    """Yield what a file defines, cell by cell, each with its name and its text, and without what is for the learner.

    That is what uses the lesson or awaits something, and what uses a name that such a line has given to something.
    """
    handed = set(HANDED)
    for number, cell in enumerate(read_cells(path)):
        if cell.markdown:
            continue
        lines = ["#" + line if line.lstrip().startswith(("%", "!")) else line for line in cell.text.splitlines()]
        name = f"{path.name} (cell {number})"
        if path.suffix != ".ipynb":
            name, lines = str(path), [""] * (cell.line - 1) + lines
        text = "\n".join(lines) + "\n"
        tree = ast.parse(text, name)
        tree.body = [each for each in tree.body if not _for_the_learner(each, handed)]
        yield tree, name, text


def _for_the_learner(statement: ast.stmt, handed: set[str]) -> bool:
    """Tell whether a statement is left out; the names that it gives are `handed` then."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module in ("atops.lessons", "atops_widgets")
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    nodes = list(ast.walk(statement))
    names = [each for each in nodes if isinstance(each, ast.Name)]
    if not any(isinstance(each, ast.Await) for each in nodes) and not any(each.id in handed for each in names):
        return False
    handed |= {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return True


def _answers(path: Path) -> list[str]:
    """Return the schedules that a file gives to `lesson.answer`, as they stand there."""
    answers = []
    for cell in read_cells(path):
        if not cell.markdown:
            with contextlib.suppress(SyntaxError):
                for node in ast.walk(ast.parse(cell.text)):
                    if isinstance(node, ast.Call) and ast.unparse(node.func) == "lesson.answer" and node.args:
                        given = node.args[0]
                        answers += [given.value] if isinstance(given, ast.Constant) and type(given.value) is str else []
    return answers


def graded(path: Path) -> Grade:
    """Grade a learner's file in this process."""
    source = find_source(_lesson_of(path))
    names: dict[str, object] = {"__name__": "atops_learner"}
    try:
        for tree, name, text in statements(path):
            if path.suffix == ".ipynb":
                linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
            exec(compile(tree, name, "exec"), names)
    except BaseException as error:  # it may exit, too: what it has defined by then is judged
        if not isinstance(error, SystemExit) or source.task not in names:
            said = f"it cannot be run: {type(error).__name__}: {error}"
            return Grade(str(path), source.name, False, None, "exception", said)
    if source.task not in names:
        return Grade(str(path), source.name, False, None, "exception", f"it defines no {source.task}")
    lesson = source.lesson
    verdict = lesson.check(names[source.task])
    question: bool | None = None
    for schedule in _answers(path):
        try:
            question = bool(question) or bool(lesson.answer(schedule))
        except InvalidValue:
            question = bool(question)
    return Grade(str(path), source.name, bool(verdict), question, verdict.kind, verdict.text)


def main() -> None:
    """Write the grade of the first file that the command names into the second."""
    said = json.dumps(asdict(graded(Path(sys.argv[1]))))
    Path(sys.argv[2]).write_text(said, encoding="utf-8")
    os._exit(0)  # whatever threads it has left


if __name__ == "__main__":
    main()
