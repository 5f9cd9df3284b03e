"""Lessons as they are kept: notebooks as text ("py:percent"), with a judge and a solution in tagged cells."""

from __future__ import annotations

import ast
import json
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atops.base.errors import InvalidValue
from atops.lessons.lesson import Lesson

__all__ = ("Cell", "Source", "cells_of", "read_cells", "sources")

HEAD = "# ---\n"
MARK = "# %%"
OPEN = """\
from atops.lessons import open_lesson

lesson = open_lesson("{name}")
"""
STUCK = """\
`print(lesson.hint())` gives you a hint, and the next one each time; `print(lesson.solution())` shows how it is done.

## A question

{question}

{program}

You are the scheduler.
{how}
A command comes in steps: its stream begins it, an engine carries it out if it moves bytes, and its time ends. `task 0`
is the program, `task 0.0` the first task that it makes.

`play.schedule` is the run as a string, once it is over. Where it is an answer, write the string in place of
`play.schedule` below, with quotes: so it is kept, and can be graded.
"""
BY_HAND = """\
`python -m atops learn {number} --play` asks for one choice after the other. Here, `play` is this program up to its
first choice; `play.pick(0)` has the first of what could come next come, `play.back()` takes a choice back, and
`play.finish()` leaves the rest to come as it comes."""
BY_WIDGET = """\
Below, this program is stopped at its first choice. Pick what comes next, with the pointer or the keyboard, step back,
or leave the rest to come as it comes; it looks for a failing run, too, but try it yourself first."""
PLAY = """\
play = lesson.play()
print(play)
"""
ANSWER = """\
lesson.answer(play.schedule)
"""
SCHEDULER = """\
from atops_widgets import Scheduler

play = Scheduler(lesson.question.program, options=lesson.question.options)
play"""
WATCH = """\
from atops_widgets import watch
"""
NOTEBOOK = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


@dataclass(frozen=True)
class Cell:
    """A cell: its text, whether it is markdown, its tags, and the line of its file at which the text begins, from 1."""

    text: str
    markdown: bool = False
    tags: tuple[str, ...] = ()
    line: int = 1


def cells_of(text: str) -> Iterator[Cell]:
    """Yield the cells of a text in the percent format; what comes before the first mark is none."""
    mark, start, body = "", 0, list[str]()
    for number, line in enumerate([*text.splitlines(), MARK], 1):
        if not line.startswith(MARK):
            body.append(line)
            continue
        if mark:
            yield _cell(mark, body, start)
        mark, start, body = line, number + 1, []


def _cell(mark: str, body: list[str], line: int) -> Cell:
    markdown = "[markdown]" in mark
    tags = mark.partition("tags=")[2]
    if markdown:
        body = [each.removeprefix("#").removeprefix(" ") for each in body]
    return Cell("\n".join(body).strip("\n") + "\n", markdown, tuple(json.loads(tags)) if tags else (), line)


def read_cells(path: Path) -> list[Cell]:
    """Return the cells of a notebook; a program is one. Raises InvalidValue for an .ipynb file that is no notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return [Cell(text)]
    try:
        return [
            Cell("".join(cell["source"]), cell["cell_type"] == "markdown", tuple(cell["metadata"].get("tags", ())))
            for cell in json.loads(text)["cells"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidValue(f"{path} is no notebook: {error!r}") from error


class Source:
    """A lesson in its file: what a learner gets of it, its solution, and the lesson itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        self.cells = list(cells_of(path.read_text(encoding="utf-8")))
        self._lesson: Lesson | None = None

    @property
    def number(self) -> int:
        """The lesson's number, from its file's name."""
        return int(self.name.partition("_")[0])

    def text_of(self, *tags: str) -> str:
        """Return the text of the cells with one of these tags, each at the lines at which it stands in the file.

        The tag "" is that of cells without any, as far as they do not use the lesson.
        """
        lines: list[str] = []
        for cell in self.cells:
            plain = "" in tags and not cell.tags and not cell.markdown and "lesson." not in cell.text
            if plain or any(tag in tags for tag in cell.tags):
                lines += [""] * (cell.line - 1 - len(lines)) + cell.text.splitlines()
        return "\n".join(lines) + "\n"

    def executed(self, *tags: str) -> dict[str, object]:
        """Run the judge, what stands around it, and the cells with these tags; return the names they define."""
        names: dict[str, object] = {"__name__": f"atops_lesson_{self.name}"}
        exec(compile(self.text_of("", "judge", *tags), str(self.path), "exec"), names)
        return names

    @property
    def lesson(self) -> Lesson:
        """The lesson, with its name. Places in its judge are of a file of their own: a copy has the lesson's name."""
        if self._lesson is not None:
            return self._lesson
        file, text = f"judge of lesson {self.number}", self.text_of("", "judge")
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        names: dict[str, object] = {"__name__": f"atops_lesson_{self.name}"}
        exec(compile(text, file, "exec"), names)
        lesson = names["lesson"]
        assert isinstance(lesson, Lesson), f"{self.path} defines no lesson"
        lesson.name, lesson.solved = self.name, self.text_of("solution").strip("\n")
        self._lesson = lesson
        return lesson

    @property
    def task(self) -> str:
        """The name of what the learner writes: the last function of the task's cell."""
        names = [line.split("(")[0].split()[-1] for line in self.text_of("task").splitlines() if _defines(line)]
        return names[-1]

    @property
    def title(self) -> str:
        """The lesson's title."""
        return next(cell for cell in self.cells if cell.markdown).text.splitlines()[0].partition("·")[2].strip()

    @property
    def riddle(self) -> str:
        """The text of the question's program and of what it uses of the judge, with the numbers of the lines."""
        question = self.lesson.question
        assert question is not None, f"{self.path} asks no question"
        text = self.text_of("judge")
        functions = [each for each in ast.parse(text).body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        (program,) = [each for each in functions if each.name == question.program.__name__]
        used = {each.id for each in ast.walk(program) if isinstance(each, ast.Name)} | {program.name}
        parts = []
        for each in functions:
            if each.name in used:
                start = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
                lines = text.splitlines()[start - 1 : each.end_lineno]
                parts.append("".join(f"{at:>3}  {line}".rstrip() + "\n" for at, line in enumerate(lines, start)))
        return "\n".join(parts)

    def copy(self, solved: bool = False, how: str = BY_HAND) -> list[Cell]:
        """Return the cells of a learner's copy: without solution, and with a call in place of the judge.

        A copy that is `solved` has the solution in place of the task. `how` says how the question is answered.
        """
        dropped = "task" if solved else "solution"
        found = []
        for cell in self.cells:
            if "judge" in cell.tags:
                found.append(Cell(OPEN.format(name=self.name)))
            elif dropped not in cell.tags:
                found.append(cell)
        question = self.lesson.question
        if question is not None:
            stuck = STUCK.format(question=question.text, program=f"```python\n{self.riddle}```",
                                 how=how.format(number=self.number))  # fmt: skip
            found += [Cell(stuck, markdown=True), Cell(PLAY), Cell(ANSWER)]
        return found

    def as_percent(self, solved: bool = False) -> str:
        """Return a learner's copy as text, a program that prints what a notebook shows."""
        parts = []
        for cell in self.copy(solved):
            if cell.markdown:
                body = "".join(f"# {line}".rstrip() + "\n" for line in cell.text.splitlines())
                parts.append(f"{MARK} [markdown]\n{body}")
                continue
            tags = f" tags={json.dumps(list(cell.tags))}" if cell.tags else ""
            body = f"print({cell.text.strip()})\n" if cell.text.startswith("lesson.") else cell.text
            parts.append(f"{MARK}{tags}\n{body}")
        return "\n".join(parts)

    def as_notebook(self, solved: bool = False) -> str:
        """Return a learner's copy as a notebook, version 4.5 of its format, with a live picture and the scheduler."""
        cells = []
        for number, cell in enumerate(self.copy(solved, BY_WIDGET)):
            text = SCHEDULER if cell.text == PLAY else cell.text.rstrip("\n")
            if text.startswith("lesson.picture("):
                text = f"{WATCH}\nwatch({text}.trace)"
            kept: dict[str, object] = {
                "id": f"cell-{number}", "metadata": {"tags": list(cell.tags)} if cell.tags else {},
                "cell_type": "markdown" if cell.markdown else "code", "source": text,
            }  # fmt: skip
            if not cell.markdown:
                kept |= {"execution_count": None, "outputs": []}
            cells.append(kept)
        return json.dumps({"cells": cells, "metadata": NOTEBOOK, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _defines(line: str) -> bool:
    return line.startswith(("def ", "async def "))


def sources() -> list[Source]:
    """Return all lessons that come with atops, in their order."""
    here = Path(__file__).parent
    installed, tree = here / "sources", here.parents[1] / "examples" / "lessons"
    folder = installed if installed.is_dir() else tree
    return [Source(path) for path in sorted(folder.glob("[0-9][0-9]_*.py"))]
