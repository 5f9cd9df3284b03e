"""What a learner's file is worth: its task judged, its answers replayed, in a process of its own.

Run as `python -m atops.lessons.grading FILE`, it prints the grade as a line of JSON.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from atops.base.errors import InvalidValue
from atops.lessons.learner import find_source
from atops.lessons.source import read_cells

__all__ = ("Grade", "grade", "graded", "main")

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
    """How the task failed, as of `Verdict`; "never ends" where it took too long, "" where it passed."""
    text: str


def grade(path: Path, seconds: float = 60.0) -> Grade:
    """Grade a learner's file in another process: what it does there, or breaks, it does to itself.

    `seconds` is how long it may take. Raises OSError for a file that cannot be read, InvalidValue for one that is no
    copy of a lesson.
    """
    name = find_source(_lesson_of(path)).name
    command = [sys.executable, "-m", "atops.lessons.grading", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return Grade(str(path), name, False, None, "never ends", f"it was not over after {seconds:g} s")
    try:
        return Grade(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Grade(str(path), name, False, None, "exception", f"its process ended with {done.returncode}: {said}")


def _lesson_of(path: Path) -> str:
    """Return the lesson that a file is a copy of: the one that it opens, else the one of its name."""
    text = path.read_text(encoding="utf-8")
    found = OPENED.search(text.replace('\\"', '"'))
    return found[1].strip() if found else path.stem


def _statements(path: Path) -> Iterator[tuple[ast.Module, str, str]]:
    """Yield what a file defines, cell by cell, each with its name and its text, and without what is for the learner."""
    for number, cell in enumerate(read_cells(path)):
        if cell.markdown:
            continue
        lines = ["#" + line if line.lstrip().startswith(("%", "!")) else line for line in cell.text.splitlines()]
        name = f"{path.name} (cell {number})"
        if path.suffix != ".ipynb":
            name, lines = str(path), [""] * (cell.line - 1) + lines
        text = "\n".join(lines) + "\n"
        tree = ast.parse(text, name)
        tree.body = [each for each in tree.body if not _for_the_learner(each)]
        yield tree, name, text


def _for_the_learner(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module in ("atops.lessons", "atops_widgets")
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    nodes = list(ast.walk(statement))
    return any(isinstance(each, ast.Await) or (isinstance(each, ast.Name) and each.id in HANDED) for each in nodes)


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
        for tree, name, text in _statements(path):
            if path.suffix == ".ipynb":
                linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
            exec(compile(tree, name, "exec"), names)
    except Exception as error:
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
    """Print the grade of the file that the command names."""
    with contextlib.redirect_stdout(io.StringIO()):
        found = graded(Path(sys.argv[1]))
    print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
