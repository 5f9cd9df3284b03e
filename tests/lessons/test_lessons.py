"""The lessons that come with atops: what is unfinished fails, what is finished passes, what is nearly right fails."""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import inspect
import io
import json
import linecache
import logging
import os
import re
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from atops.base.errors import InvalidValue
from atops.checking.check import Checking
from atops.cli import main
from atops.lessons import Lesson, Verdict, open_lesson
from atops.lessons.apart import Kept, NeverEnds, Patience
from atops.lessons.grading import grade, graded, statements
from atops.lessons.learner import Progress
from atops.lessons.lesson import HINTS
from atops.lessons.source import Source, sources
from tests.lessons.attempts import ATTEMPTS, SLIPS
from tests.lessons.wrong import wrong
from tests.notebooks.runner import KERNELS, Kernel, run, text_of

LESSONS = {source.name: source for source in sources()}
LEAST = 100  # of solutions with one thing wrong
each = pytest.mark.parametrize("name", LESSONS)
ALL = tuple(range(1, len(LESSONS) + 1))
KERNEL_NAMES = [kernel.name for kernel in KERNELS]
NO_VALUES_OF_A_HOST = (5, 6, 7, 8, 12)  # the numbers of those that finish a kernel, or get no values
each_judged = pytest.mark.parametrize(  # a verdict stands on hundreds of schedules: `make check` asks for one only
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (place > 0)) for place, name in enumerate(LESSONS)]
)


# What is gone or wrong, and how a verdict names it.
NAMED = {
    ".record(": r"`event = \w+\.record\(\); \w+\.wait\(event\)`",
    ".wait(": r"`event = \w+\.record\(\); \w+\.wait\(event\)`",
    "_value(": r"wait for a value|waits for a value",
    "syncthreads": r"`await k\.syncthreads\(\)`|wait at syncthreads",
    "await ": r"\bawait",
    "async with": r"another transfer comes between",
    "places.release()": r"waits at 12_a_batching_service.py:\d+",  # a deadlock lists who waits where
    "answer.cancel()": r"a client waits for ever",
}


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what is passed in a file of the test's."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv("ATOPS_PROGRESS", str(path))
    return path


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Drop what unfinished programs leave: coroutines that nobody awaited, tasks that failed unseen."""
    before = logging.getLogger("asyncio").level
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
    logging.getLogger("asyncio").setLevel(before)


def judged(source: Source, tag: str) -> Verdict:
    """Return the verdict on the task as it is given, or on the solution."""
    names = source.executed(tag)
    lesson = names["lesson"]
    assert isinstance(lesson, Lesson)
    return lesson.check(names[source.task])


def test_there_are_twelve():
    """In order, each judged by five cases or more, with three hints and a question; kernels in more than two blocks."""
    assert [source.number for source in LESSONS.values()] == list(range(1, 13))
    for source in LESSONS.values():
        lesson = source.lesson
        assert len(lesson.cases) >= 5 and len(lesson.hints) == 3 and lesson.question is not None
        assert lesson.solution()
        named = list(inspect.signature(lesson.program).parameters)[1:]
        sizes = [dict(zip(named, case, strict=True)) for case in lesson.cases]
        if "blocks" in sizes[0]:
            assert max(each["blocks"] for each in sizes) > 2 and any(each["size"] % 2 for each in sizes), "no multiples"


@each_judged
def test_the_task_fails_and_the_solution_passes(name: str):
    """The verdict on the first says why, with a line of the task, and gives the first hint."""
    source = LESSONS[name]
    verdict = judged(source, "task")
    assert not verdict and f"Hint: {source.lesson.hints[0]}" in str(verdict)
    assert verdict.kind == "too slow" or source.path.name in str(verdict)
    assert judged(source, "solution"), judged(source, "solution")


@each_judged
def test_a_solution_with_one_thing_wrong_fails(name: str):
    """Whatever wait, barrier, event or await that is, missing, of another stream, in a branch: the verdict names it."""
    source = LESSONS[name]
    names = source.executed()
    lesson = names["lesson"]
    assert isinstance(lesson, Lesson)
    survived, unnamed = [], []
    for what, tree in wrong(source.text_of("solution")):
        mutant = dict(names)
        exec(compile(tree, str(source.path), "exec"), mutant)
        verdict = lesson.check(mutant[source.task])
        said = str(verdict).partition("\nHint: ")[0]
        if verdict:
            survived.append(what)
        elif not any(re.search(words, said) for gone, words in NAMED.items() if gone in what):
            unnamed.append(f"{what}: {said}")
    assert survived == [] and unnamed == []


@pytest.mark.slow
@pytest.mark.parametrize("at", range(len(ATTEMPTS)), ids=[
    f"{number}-{text.splitlines()[0].removeprefix('# ')}" for number, _, text in ATTEMPTS
])  # fmt: skip
def test_what_learners_write_is_judged(at: int, monkeypatch: pytest.MonkeyPatch):
    """What is right in another way passes; values by the host, by luck or by waiting everywhere do not."""
    monkeypatch.setattr("atops.lessons.lesson.SECONDS", 2.0)
    number, kind, text = ATTEMPTS[at]
    source = list(LESSONS.values())[number - 1]
    names = source.executed()
    lesson = names["lesson"]
    assert isinstance(lesson, Lesson)
    name = f"attempt_{at}.py"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    exec(compile(text, name, "exec"), names)
    verdict = lesson.check(names[source.task])
    assert verdict.kind == kind, str(verdict)
    assert kind != "never ends" or re.search(rf"{name}:[89]\b", str(verdict))  # the loop's two lines


@pytest.mark.parametrize("at", [
    pytest.param(at, marks=[pytest.mark.slow] * ("steps" in words)) for at, (_, words, _) in enumerate(SLIPS)
])  # fmt: skip
def test_a_verdict_names_the_slip(at: int, monkeypatch: pytest.MonkeyPatch):
    """An `await` or `async` that is missing, a loop without an end, nothing returned: not only what comes of it."""
    number, words, text = SLIPS[at]
    source = list(LESSONS.values())[number - 1]
    names = source.executed()
    lesson = names["lesson"]
    assert isinstance(lesson, Lesson)
    monkeypatch.setattr("atops.lessons.apart.BLOCKED_TICKS", 2)
    monkeypatch.setitem(linecache.cache, "slip.py", (len(text), None, text.splitlines(keepends=True), "slip.py"))
    exec(compile(text, "slip.py", "exec"), names)
    verdict = lesson.check(names[source.task])
    assert not verdict and words in str(verdict), str(verdict)
    assert ("is it an `async def`?" in str(verdict)) == text.startswith("def "), "a kernel's `await` is another thing"
    assert "The order that shows it" not in str(verdict), "the plain order needs no choice"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, source in LESSONS.items() if source.number not in NO_VALUES_OF_A_HOST])
def test_a_host_alone_does_no_task(name: str, monkeypatch: pytest.MonkeyPatch):
    """The values of a solution, kept from its own run, are right, and no device has made them."""
    source = LESSONS[name]
    names = source.executed("solution")
    lesson, kept = names["lesson"], dict[tuple[object, ...], object]()
    assert isinstance(lesson, Lesson)
    solution = names[source.task]
    assert inspect.iscoroutinefunction(solution)

    async def remembered(device, *rest):
        key = tuple(each.tobytes() if isinstance(each, np.ndarray) else each for each in rest)
        if key not in kept:
            kept[key] = await solution(device, *rest)
        return kept[key]

    assert not lesson.check(remembered)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, source in LESSONS.items() if source.number in (1, 2, 3, 4, 9, 10)])
def test_what_a_task_is_given_stays(name: str):
    """What is expected is computed from it: results would be right of whatever was written over it."""
    source = LESSONS[name]
    names = source.executed("solution")
    lesson = names["lesson"]
    assert isinstance(lesson, Lesson)
    solution = names[source.task]
    assert inspect.iscoroutinefunction(solution)

    async def overwriting(device, *rest):
        for each in rest:
            if isinstance(each, np.ndarray):
                each[...] = 0
        return await solution(device, *rest)

    verdict = lesson.check(overwriting)
    assert not verdict and "read-only" in str(verdict), str(verdict)


def test_a_hundred_things_can_be_wrong():
    """In all solutions together."""
    assert sum(1 for source in LESSONS.values() for _ in wrong(source.text_of("solution"))) >= LEAST


@each
def test_the_question_has_an_answer(name: str):
    """A schedule that a search finds; the plain order is none, and neither is a run that is not over."""
    lesson = LESSONS[name].lesson
    question = lesson.question
    assert question is not None
    assert not lesson.answer(None)
    play = lesson.play()
    play.finish()
    assert not lesson.answer(play.schedule), "first come, first served answers it"
    found = Checking(
        question.program, 200, "random", (), question.options, 0, 2, 100_000, False, 300
    ).run()  # fmt: skip
    assert found.failure is not None and found.failure.kind == question.kind, found
    assert len(found.forced) <= 4, "it is too long a way for a hand"
    assert lesson.answer(found.schedule)


@pytest.mark.slow
@each
def test_a_copy_stands_alone(name: str, tmp_path: Path):
    """What it imports and defines is all that its task names."""
    source, names = LESSONS[name], dict[str, object]()
    path = tmp_path / f"{name}.py"
    path.write_text(source.as_percent(solved=True))
    for tree, file, _ in statements(path):
        exec(compile(tree, file, "exec"), names)
    assert source.task in names
    known = {*names, *dir(builtins), "atops", "lesson"}
    [solution] = [each for each in ast.parse(source.text_of("solution")).body if not isinstance(each, ast.Expr)][-1:]
    stored = {each.id for each in ast.walk(solution) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    stored |= {each.arg for each in ast.walk(solution) if isinstance(each, ast.arg)}
    stored |= {each.name for each in ast.walk(solution) if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef)}
    used = {each.id for each in ast.walk(solution) if isinstance(each, ast.Name)}
    assert used <= known | stored, used - known - stored


@pytest.mark.parametrize(("name", "suffix"), [("01_a_stream_is_a_queue", ".py"), ("06_blocks_and_barriers", ".ipynb")])
def test_copies_are_graded(name: str, suffix: str, tmp_path: Path):
    """In the process that grades: as given they fail, solved they pass."""
    source = LESSONS[name]
    for solved in (False, True):
        path = tmp_path / f"{source.name}{suffix}"
        path.write_text(source.as_percent(solved) if suffix == ".py" else source.as_notebook(solved))
        found = graded(path)
        assert (found.lesson, found.passed, found.question) == (name, solved, None), found.text


def _run_solved(kernel: Kernel, tmp_path: Path, numbers: tuple[int, ...]) -> None:
    """Run the notebooks of these lessons one behind the other in one kernel."""
    import nbformat

    chosen = [source for source in LESSONS.values() if source.number in numbers]
    notebooks = [nbformat.reads(source.as_notebook(solved=True), as_version=4) for source in chosen]
    whole = notebooks[0]
    whole.cells = [cell for notebook in notebooks for cell in notebook.cells]
    for number, cell in enumerate(whole.cells):
        cell.id = f"cell{number}"
    judged = [cell for cell in whole.cells if cell.source.startswith("lesson.check(")]
    for cell in judged:  # verdicts that stand on all schedules are another test's
        cell.source = f"lesson.schedules = 2\n{cell.source}"
    assert run(whole, kernel, ATOPS_PROGRESS=str(tmp_path / "progress.json")) == []
    checks = [text_of(cell) for cell in whole.cells if "lesson.check(" in cell.source]
    assert ["passed" in said for said in checks] == [True] * len(numbers), checks


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kernel", "numbers"), [(KERNELS[0], ALL), (KERNELS[1], (1, 6, 9, 12))], ids=KERNEL_NAMES)
def test_solved_notebooks_run(kernel: Kernel, numbers: tuple[int, ...], tmp_path: Path):
    """From the first cell to the last, and their checks pass; those of the older kernel are each of another form."""
    _run_solved(kernel, tmp_path, numbers)


@pytest.mark.soak
def test_all_solved_notebooks_run_in_the_older_kernel(tmp_path: Path):
    """The others, too."""
    _run_solved(KERNELS[1], tmp_path, ALL)


@pytest.mark.slow
def test_the_command_gives_copies_and_grades_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """A list, a copy that is kept, grades as JSON, hints, a solution; and what was passed is in the list."""
    monkeypatch.chdir(tmp_path)
    assert main(["learn"]) == 0
    assert "0 of 12 tasks passed" in capsys.readouterr().out
    assert main(["learn", "double", "--text"]) == 0
    copy = tmp_path / "04_double_buffering.py"
    assert "solution" not in copy.read_text().replace("lesson.solution()", "")
    copy.write_text(LESSONS[copy.stem].as_percent(solved=True))
    assert main(["learn", "4", "--text"]) == 0, "and the copy is kept"
    capsys.readouterr()
    assert main(["learn", "--grade", str(copy), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] and found["lesson"] == copy.stem
    assert "0 of 12" in (main(["learn"]), capsys.readouterr().out)[1], "grading is the teacher's"
    subprocess.run([sys.executable, str(copy)], check=True, capture_output=True)
    assert "1 of 12 tasks passed" in (main(["learn"]), capsys.readouterr().out)[1]
    assert main(["learn", "4", "--hints"]) == 0 and capsys.readouterr().out.startswith("1. ")
    assert main(["learn", "5", "--hints"]) == 0 and "\ntoo slow:\n1. While" in capsys.readouterr().out
    assert main(["learn", "4", "--solution"]) == 0 and "saved[now]" in capsys.readouterr().out
    assert main(["learn", "thirteen"]) == 2
    assert "no lesson is 'thirteen'" in capsys.readouterr().err
    assert main(["learn", "--grade", str(tmp_path / "none.py")]) == 2


@pytest.mark.slow
def test_a_hint_leads_to_what_failed():
    """A task that is too slow gets hints on that, from the verdict on, and not on the races that it has none of."""
    source = LESSONS["05_asynchronous_dma"]
    names = source.executed("solution")
    lesson = names["lesson"]
    assert isinstance(lesson, Lesson)
    hints = lesson.hints_on["too slow"]
    slow = source.text_of("solution").replace("leaving[now] = k.memcpy_async", "await k.memcpy_async")
    exec(compile(slow, "slow.py", "exec"), names)
    assert str(lesson.check(names[source.task])).endswith(f"Hint: {hints[0]}")
    assert [lesson.hint()[8:] for _ in hints] == list(hints)
    assert lesson.check(source.executed("solution")[source.task]) and lesson.hint() == f"1 of 3: {lesson.hints[0]}"


def test_opening_without_jupyter_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """The learner gets the copy for the terminal, and the words that install JupyterLab."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("atops.apps.learn.find_spec", lambda name: None)
    assert main(["learn", "1", "--open"]) == 0
    said = capsys.readouterr()
    assert "then run it" in said.out and "--open needs JupyterLab: pip install" in said.err
    assert main(["learn", "1", "--open", "--text"]) == 0 and not capsys.readouterr().err, "--text asks for no Jupyter"


@pytest.mark.slow
def test_the_command_asks_the_question(monkeypatch: pytest.MonkeyPatch, capsys):
    """Its program, what could come and what that does; wrong keys change nothing, and an answer is noted."""

    def play(*keys: str) -> int:
        left = iter(keys)
        monkeypatch.setattr("builtins.input", lambda _: next(left))
        return main(["learn", "6", "--play"])

    assert play("b", "zz", "9", "1", "a", "f", "b", "q") == 1
    said = capsys.readouterr().out
    assert "page[0] = 7" in said and "0: thread 0" in said and "begins kernel early" in said and "not an answer" in said
    assert play(*["1"] * 9) == 0 and "that is an answer" in capsys.readouterr().out
    assert json.loads(Path(os.environ["ATOPS_PROGRESS"]).read_text()) == {"06_blocks_and_barriers": ["question"]}


def test_grading_survives_what_it_grades(tmp_path: Path):
    """A file that never ends, one that ends the process, and one that is no Python."""
    path = tmp_path / "01_a_stream_is_a_queue.py"
    path.write_text("while True:\n    print(1)\n")
    assert (found := grade(path, seconds=1.5)).kind == "never ends", found.text
    path.write_text("import os\nos._exit(3)\n")
    assert "ended with 3" in grade(path).text
    path = tmp_path / "binary.py"
    path.write_bytes(bytes(range(256)))
    assert grade(path).kind == "no lesson"
    (part := path.with_name("syn.py")).write_text("x = 1\n")  # a part of a lesson's name
    assert grade(part).kind == "no lesson"


def test_files_of_learners_are_judged_by_what_they_define(tmp_path: Path):
    """Whatever stands beside the task: a check that is kept, an exit; not what cannot be run."""
    source = LESSONS["01_a_stream_is_a_queue"]
    solved, path = source.as_percent(solved=True), tmp_path / "mine.py"
    for more, passed in (
        ("verdict = lesson.check(keep_history)\nprint(verdict)\nassert verdict", True),
        ("import sys\nsys.exit()", True),
        ("raise KeyboardInterrupt", False),
        ("import none_of_that_name", False),
        ("def keep_history(:", False),
        ("del keep_history", False),
    ):
        path.write_text(f"{solved}\n{more}\n")
        found = graded(path)
        assert found.passed == passed and bool(found.text), found


@pytest.mark.slow
def test_progress_outlives_what_cannot_be_read(own_progress: Path):
    """A broken file counts as empty and is kept, a check is judged all the same, and what was passed stays."""
    own_progress.write_text("{broken")
    source = LESSONS["01_a_stream_is_a_queue"]
    lesson = open_lesson(1)
    assert lesson.check(source.executed("solution")[source.task])
    assert not lesson.check(source.executed("task")[source.task])
    assert json.loads(own_progress.read_text()) == {source.name: ["task"]}
    assert own_progress.with_name(f"{own_progress.name}.damaged").read_text() == "{broken"


def test_progress_that_cannot_be_noted_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Nothing fails for it; what the list shows would be a mystery otherwise."""
    (tmp_path / "file").write_text("")
    progress = Progress(tmp_path / "file" / "lessons.json")
    progress.note("01_a_stream_is_a_queue", "task", right=True)
    assert "cannot be noted in" in caplog.text and progress.passed() == {}


def test_a_lesson_of_ones_own():
    """Thirty lines make one; what makes none is refused."""

    async def program(task, size):
        assert await task(size) == size + 1, "one more"

    async def right(size):
        return size + 1

    async def off(size):
        return size

    lesson = Lesson("One more", program, [(1,), (5,)], hints=("Count.",))
    assert lesson.check(right) and not lesson.check(off)
    assert "with size=1" in str(lesson.check(off)) and str(lesson.check(off)).endswith("\n\nHint: Count.")
    several = {"race": ("Who is first?", "Wait."), "too slow": ("Why wait?",)}
    about = Lesson("One more", program, [(1,), (5,)], hints=several)
    assert [about.hint() for _ in range(3)] == ["1 of 2: Who is first?", *["2 of 2: Wait."] * 2]
    assert "one more" in str(about.check(off)) and "Hint" not in str(about.check(off))
    assert about.hint() == f"1 of 1: {HINTS['assertion']}", "a hint about races would mislead"
    with pytest.raises(InvalidValue, match="has no question"):
        lesson.play()
    with pytest.raises(InvalidValue, match="0 cases"):
        Lesson("None", program, [], hints=("Count.",))
    with pytest.raises(InvalidValue, match="1 hints"):
        Lesson("None", program, [(1,)], hints={"race": ()})
    with pytest.raises(TypeError, match="expected a coroutine function"):
        Lesson("Plain", lambda task: None, [(1,)], hints=("Count.",))


@each
def test_what_is_wrong_is_drawn_as_far_as_it_comes(name: str):
    """The picture of a task as the learner finds it, a deadlock too."""
    names = LESSONS[name].executed("task")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        trace = names["lesson"].picture(names[LESSONS[name].task]).trace
    assert ("the run ended with deadlock: " in said.getvalue()) == (name[:2] in ("07", "08"))
    assert trace.changes, "the memory map of a notebook is empty"
    assert trace.steps or LESSONS[name].number in (1, 8, 9, 12), "the cluster grid of a notebook is empty"


@pytest.mark.slow
@pytest.mark.asyncio
async def test_lessons_work_inside_a_running_loop():
    """As in a notebook's cell: they are judged, drawn and played on another thread."""
    source = LESSONS["01_a_stream_is_a_queue"]
    names = source.executed("solution")
    lesson = names["lesson"]
    assert isinstance(lesson, Lesson)
    assert lesson.check(names[source.task])
    with contextlib.redirect_stdout(io.StringIO()):
        assert lesson.picture(names[source.task]).records
    play = lesson.play()
    play.finish()
    assert play.schedule


def test_what_two_variables_share_stays_shared():
    """In the copies that a run begins with, too."""
    lock = asyncio.Lock()
    names: dict[str, Any] = {"lock": lock, "locks": [lock]}
    exec("def task():\n    return lock is locks[0], lock", names)
    task = names["task"]
    kept = Kept(task)
    kept.begin()
    same, copied = task()
    assert same and copied is not lock
    kept.end()
    assert task() == (True, lock)


def test_patience_ends_with_its_block(monkeypatch: pytest.MonkeyPatch):
    """Also where it is lost just as the block ends: else it would be lost again and again, for ever."""

    class Late(threading.Event):
        raised = False

        def set(self) -> None:
            if not self.raised:
                self.raised = True
                raise NeverEnds
            super().set()

    before = threading.active_count()
    ours = SimpleNamespace(**vars(threading) | {"Event": Late})
    monkeypatch.setattr("atops.lessons.apart.threading", ours)
    with Patience(60.0)():
        pass
    assert threading.active_count() == before


def test_a_loop_without_a_step_is_ended_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that makes steps has its whole time, however long; one that makes none is ended when it has idled."""
    monkeypatch.setattr("atops.lessons.apart.TICK_S", 0.01)
    runner: Any = SimpleNamespace(runs=0)
    patience = Patience(60.0, 0.1)
    patience.runner = runner
    begun = time.process_time()
    with pytest.raises(NeverEnds), patience():
        while time.process_time() < begun + 0.2:
            runner.runs += 1
        stepped = True
        while True:
            pass
    assert stepped


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [100, 0])
def test_a_check_leaves_the_interpreter_as_it_was(seconds: float) -> None:
    """In a process of its own: where an exception of its watcher is left pending, no traced function ever begins."""
    program = f"""if True:
        import sys
        from atops.lessons.apart import NeverEnds, Patience
        try:
            with Patience({seconds})():
                while not {seconds}:
                    pass
        except NeverEnds:
            print("ended")
        def traced(frame, event, argument):
            frame.f_trace_opcodes = True
            return traced
        sys.settrace(traced)
        (lambda: None)()
        sys.settrace(None)
        print("traced")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.split() == (["traced"] if seconds else ["ended", "traced"])
