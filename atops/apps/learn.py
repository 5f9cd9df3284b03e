"""`atops learn`: the lessons, a learner's copies of them, and grades."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from atops.base.errors import IllegalState, InvalidValue
from atops.lessons.grading import grade
from atops.lessons.learner import Progress, find_source, open_lesson
from atops.lessons.lesson import Lesson
from atops.lessons.source import Source, sources

__all__ = ("add_arguments", "main")

EPILOG = """\
Without LESSON it lists all, with what you have passed. `atops learn 1` puts your copy of the first into a file in this
folder, and keeps one that is there: a notebook where there is Jupyter, a Python program where there is none, or with
--text. `atops learn 1 --play` asks its question. Exit code 0: all is well; 1: a file did not pass, or the question is
not answered; 2: a mistake in the arguments."""
KEYS = "a number picks; b: back, f: the rest as it comes, a: from the start again, q: leave"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("lesson", nargs="?", metavar="LESSON", help="a number, or a part of a name")
    add("--text", action="store_true", help="a program for the terminal instead of a notebook")
    add("--open", action="store_true", help="open the notebook in JupyterLab")
    add("--play", action="store_true", help="be the scheduler of the lesson's question, here in the terminal")
    add("--hints", action="store_true", help="print the lesson's hints")
    add("--solution", action="store_true", help="print a solution")
    add("--grade", nargs="+", type=Path, metavar="FILE", help="judge learners' files, each in a process of its own")
    add("--seconds", type=float, default=60.0, metavar="N", help="how long a file may take (default: 60)")
    add("--json", action="store_true", help="print grades as JSON, one a line")


def main(arguments: argparse.Namespace) -> int:
    """List, open or grade lessons. Returns 0, 1 where a file did not pass, 2 for bad input."""
    try:
        if arguments.grade:
            return _grades(arguments.grade, arguments.seconds, arguments.json)
        if arguments.lesson is None:
            print(_overview())
            return 0
        source = find_source(arguments.lesson)
        if arguments.hints:
            _hints(source.lesson)
        elif arguments.solution:
            print(source.lesson.solution())
        elif arguments.play:
            return _play(source)
        else:
            return _copy(source, arguments.text or not find_spec("ipykernel"), arguments.open and not arguments.text)
    except BrokenPipeError:  # a reader that goes away early, which all commands know
        raise
    except (InvalidValue, OSError, UnicodeDecodeError) as error:
        said = f"{error.strerror}: {error.filename!r}" if isinstance(error, OSError) else str(error)
        print(f"atops learn: error: {said}", file=sys.stderr)
        return 2
    return 0


def _overview() -> str:
    """Return all lessons, with what was passed."""
    progress, known = Progress(), sources()
    passed = progress.passed()
    width = max(len(each.title) for each in known)
    lines = []
    for each in known:
        parts = ", ".join(f"{part} passed" for part in passed.get(each.name, ()))
        lines.append(f"{each.number:>3}  {each.title:<{width}}  {parts}".rstrip())
    over = sum("task" in passed.get(each.name, ()) for each in known)
    return "\n".join([
        *lines, "", f"{over} of {len(known)} tasks passed; noted in {progress.path}",
        "`atops learn 1` gives you the first.",
    ])  # fmt: skip


def _copy(source: Source, text: bool, opened: bool) -> int:
    """Put a learner's copy into this folder, and say how to go on."""
    path = Path(f"{source.name}{'.py' if text else '.ipynb'}")
    kept = path.exists()
    if not kept:
        path.write_text(source.as_percent() if text else source.as_notebook(), encoding="utf-8")
    print(f"{source.title}: {'your copy is' if kept else 'put'} in {path}")
    lab = find_spec("jupyterlab")
    if opened and not lab:
        print("--open needs JupyterLab: pip install 'atops[notebook]' jupyterlab, or make notebook", file=sys.stderr)
    if text:
        print(f"Edit the task in it, then run it: {_python()} {path}")
        return 0
    if not lab:
        print("Open it in your editor or in Jupyter, or take --text for a terminal")
        return 0
    if not opened:
        print(f"Open it: {_python()} -m jupyterlab {path}, or atops learn {source.number} --open")
        return 0
    return subprocess.run([sys.executable, "-m", "jupyterlab", str(path)]).returncode


def _hints(lesson: Lesson) -> None:
    """Print the hints of a lesson; those on several ways to fail under a line each that says which."""
    groups = dict.fromkeys(lesson.hints_on.values()) or {lesson.hints: None}
    for hints in groups:
        if len(groups) > 1:
            print(", ".join(kind for kind, own in lesson.hints_on.items() if own == hints) + ":")
        for number, hint in enumerate(hints, 1):
            print(f"{number}. {hint}")


def _python() -> str:
    """Return what runs this Python: its name, where a shell would find it by that."""
    found = which("python")
    return "python" if found and Path(found).absolute() == Path(sys.executable).absolute() else sys.executable


def _play(source: Source) -> int:
    """Ask the question of a lesson. Returns 0 where it was answered."""
    lesson = open_lesson(source.number)
    play = lesson.play()
    assert lesson.question is not None, "it was asked"
    print(f"{lesson.question.text}\n\n{source.riddle}")
    print(f"\n{play}\n\n{KEYS}")
    while True:
        try:
            key = input("> ").strip()
        except EOFError:
            return 1
        if key == "q":
            return 1
        try:
            if key == "b":
                play.back(1)
            elif key == "f":
                play.finish()
            elif key == "a":
                play.back(len(play.picks))
            else:
                play.pick(int(key) if key.isdecimal() else key)
        except (InvalidValue, IllegalState) as error:
            print(f"{error}\n{KEYS}")
            continue
        print(play)
        if play.schedule:
            verdict = lesson.answer(play.schedule)
            print(f"\n{verdict}")
            if verdict:
                return 0


def _grades(paths: list[Path], seconds: float, as_json: bool) -> int:
    """Grade files. Returns 0 where all pass, 2 where one cannot be read: the others are graded all the same."""
    code = 0
    for path in paths:
        try:
            found = grade(path, seconds)
        except OSError as error:
            print(f"atops learn: error: {error.strerror}: {error.filename!r}", file=sys.stderr, flush=True)
            code = 2
            continue
        code = max(code, 0 if found.passed else 1)
        if as_json:
            print(json.dumps(asdict(found)), flush=True)
            continue
        question = {None: "", True: "; its question is answered", False: "; its answer is none"}[found.question]
        print(f"{path}: {'passed' if found.passed else 'not yet'}{question}", flush=True)
        if not found.passed:
            print("\n".join(f"    {line}" for line in found.text.splitlines()))
    return code
