"""A lesson: a task, and a judge that runs what a learner wrote for it under many schedules."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from atops.base.choice import Plain
from atops.base.errors import InvalidType, InvalidValue
from atops.base.options import EmulatorOptions
from atops.base.trace.records import Kind, TraceRecord
from atops.checking.check import Checking
from atops.checking.check_report import CheckReport
from atops.checking.runner import classified
from atops.checking.stepper import Stepper, off_loop
from atops.device.call_site import Site, asked_at
from atops.lessons.apart import Kept, NeverEnds, Patience, noted_unawaited
from atops.lessons.verdict import Verdict, failed, passed, said
from atops.runtime.profiling import Profile, profile
from atops.runtime.run import run

if TYPE_CHECKING:
    from atops.lessons.learner import Progress

__all__ = ("Lesson", "Question", "commands", "given", "nanoseconds")

Task: TypeAlias = Any  # what the learner writes: a kernel, a coroutine function, or whatever the lesson's program calls
Program: TypeAlias = Callable[..., Awaitable[object]]
P = ParamSpec("P")
R = TypeVar("R")
PLAIN = EmulatorOptions(devices=1, arch="gcu300", seed=0, workers=1)
STRICT = replace(PLAIN, strict=True)
TIMED = replace(PLAIN, clock="virtual")
DRAWN = replace(TIMED, schedule="plain")  # which sees that nothing is left to run
SECONDS = 5.0  # of computing, for one case: each takes less than one
IDLE_SECONDS = 1.5  # of these without a step: each step takes less than a tenth of one
STEPS = 20_000  # of one run: the longest takes less than a thousand, one that polls some 15,000

# What leads on where a lesson has no hints of its own, by `Verdict.kind`.
HINTS = {
    "race": "The verdict names two lines that use the same bytes. Which of them has to come first, and what makes the "
    "other one wait: a place behind it in the same stream, an event, a barrier, an `await`?",
    "deadlock": "The verdict says who waits where. Take one of them: who was to do what it waits for, and what keeps "
    "that one from doing it?",
    "assertion": "The verdict says what came and what should have come. Take the smallest case, and follow one number "
    "by hand, line by line: where does it go wrong?",
    "exception": "The verdict names the line that raised, and says why. Mend that line first.",
    "too slow": "Look at the picture: where does one line stand idle while another one works? Which wait of yours "
    "keeps it there, and what for?",
    "not the task": "The values are right. The verdict says what work the device has not done, or did in a way that "
    "the task forbids: read the task again.",
    "never ends": "The verdict names the line that is run again and again. What has to become true for it to end, and "
    "who makes that true?",
}


class _Nowhere(io.TextIOBase):
    """Where the output of all runs but the first goes."""

    def write(self, text: str) -> int:
        return len(text)


@dataclass(frozen=True)
class Question:
    """A question whose answer is a schedule: one under which `program()` fails.

    The program is a coroutine function that a schedule breaks: an assertion in it, or a deadlock.
    """

    text: str
    program: Callable[[], Awaitable[object]]
    kind: str = "assertion"
    """How it has to fail: "assertion", "deadlock", "exception" or "race"."""
    options: EmulatorOptions = PLAIN


class Lesson:
    """A task and its judge: `lesson.check(task)` runs `program(task, *case)` for each case, under many schedules.

    The program is a coroutine function. It calls what the learner wrote, asserts what must be so, with a message for
    the learner, and is the same each time but for the schedule. Runs are strict and on the virtual clock, with the
    detectors on: a race fails them, also where the values are right.

    Where the lesson has a `limit`, the program returns the nanoseconds of virtual time that the task took, and
    `limit(*case)` says how many it may take. `work(profile, *case)` asserts what the device must have done for it: a
    `Profile` has the records of its commands. Both are asked of one more run, first come, first served.
    """

    def __init__(
        self,
        title: str,
        program: Program,
        cases: Sequence[tuple[object, ...]],
        *,
        hints: Sequence[str] | Mapping[str, Sequence[str]],
        schedules: int = 20,
        limit: Callable[..., float] | None = None,
        work: Callable[..., object] | None = None,
        arch: str = "gcu300",
        question: Question | None = None,
    ) -> None:
        """Put together a lesson.

        `cases` are the arguments of the program behind the task; each is judged under `schedules` schedules, on a chip
        of this `arch`. `hints` lead on, one after the other; where they are by kind of failure (see `Verdict.kind`), a
        task that fails in another way gets one of `HINTS`. Raises InvalidType for a program that is no coroutine
        function, InvalidValue for a lesson without cases or without hints, fewer schedules than one, or another chip.
        """
        if not inspect.iscoroutinefunction(program):
            raise InvalidType(f"the program of a lesson is {program!r}; expected a coroutine function (task, *case)")
        by_kind = hints if isinstance(hints, Mapping) else {}
        if not cases or not hints or not all(by_kind.values()):
            raise InvalidValue(f"the lesson {title!r} has {len(cases)} cases and {len(hints)} hints; give some of both")
        if type(schedules) is not int or schedules < 1:
            raise InvalidValue(f"schedules is {schedules!r}; expected a whole number, 1 or more")
        self.title, self.program, self.question = title, program, question
        self.cases = [tuple(case) for case in cases]
        # Those on each kind of failure, where they are given so; `hints` are the first ones, or all there are.
        self.hints_on = {kind: tuple(each) for kind, each in by_kind.items()}
        self.hints = next(iter(self.hints_on.values()), tuple(hints))
        self.schedules, self.limit, self.work = schedules, limit, work
        self._strict, self._drawn = replace(STRICT, arch=arch), replace(DRAWN, arch=arch)
        self.name = self.solved = ""  # of a lesson that is kept in a file: its name, and a solution's text
        self.progress: Progress | None = None
        self._told = Counter[tuple[str, ...]]()  # how many of which hints
        self._kind = ""  # how the task failed last

    def check(self, task: Task) -> Verdict:
        """Judge a task: values, races, deadlocks and schedules of all cases, and its time where there is a limit.

        Returns the verdict, which is true where it passes; `print` shows it, and so does a notebook.
        """
        verdict = off_loop(lambda: self._judged(task))
        self._kind = verdict.kind
        if not verdict and (own := self._own_hints()):
            verdict = replace(verdict, text=f"{verdict.text}\n\nHint: {own[0]}")
        if self.progress is not None:
            self.progress.note(self.name, "task", bool(verdict))
        return verdict

    def _judged(self, task: Task) -> Verdict:
        runs, kept = 0, Kept(task)
        program = self._program(task, kept)
        try:
            for schedules in (1, self.schedules):  # what a plain run shows of a later case comes before rare orders
                for case in self.cases:
                    with np.errstate(all="ignore"), contextlib.redirect_stdout(_Nowhere() if runs else sys.stdout):
                        runs += schedules
                        if (verdict := self._judged_case(program, schedules, case)) is not None:
                            return verdict
        finally:
            kept.end()
        return passed(self.title, len(self.cases), runs)

    def _judged_case(self, program: Program, schedules: int, case: tuple[object, ...]) -> Verdict | None:
        """Return how a task fails in a case, under so many schedules; None where it does not."""
        plain = schedules == 1
        patience, words, report, why = Patience(SECONDS, IDLE_SECONDS), self._words(case), None, ("", "")
        replays = 0 if plain else 100  # the plain order is not made small: it is told as that
        checking = Checking(program, schedules, "random", case, self._strict, 0, 2, STEPS, False, replays)
        patience.runner = checking.runner
        with noted_unawaited(plain) as unawaited, contextlib.suppress(NeverEnds), patience():
            report = checking.run()
            if report and plain:
                why = self._lacks(program, case, patience)
        if patience.stood is not None:
            stood = f"; it was at {patience.stood}" if patience.stood else ""
            does = "is blocked in a call that does not return" if patience.blocked else "computes for ever"
            why = "never ends", f"a run {does}, and lets nothing else go on{stood}"
        elif not report:
            assert report is not None, "it would have ended with NeverEnds"
            if report.failure is None or report.failure.kind != "step limit":
                return failed(self.title, words, report, unawaited)
            why = "never ends", f"a run goes on for ever: it was not over after {STEPS:,} steps{_busiest(report)}"
        return failed(self.title, words, why, unawaited) if why[0] else None

    def _lacks(self, program: Program, case: tuple[object, ...], patience: Patience) -> tuple[str, str]:
        """Return what is wrong with the time of a plain run, or with what the device did: its kind, and the words."""
        if self.limit is None and self.work is None:
            return "", ""
        plain = Checking(program, 1, "random", case, replace(self._drawn, schedule=None), 0, 2, 100_000, False, 0)
        patience.runner = plain.runner
        with profile() as seen, plain.runner as runner:
            ended = runner(Plain())
        if ended.failure is not None:
            return ended.failure.kind, ended.failure.text
        try:
            if self.work is not None:
                self.work(seen, *case)
        except AssertionError as error:
            return "not the task", f"the values are right, but {error}"
        return ("too slow", late) if (late := self._late(ended.result, case)) else ("", "")

    def _late(self, took: object, case: tuple[object, ...]) -> str:
        """Return what is wrong with the virtual time that a run took, "" if nothing."""
        if self.limit is None:
            return ""
        if not isinstance(took, (int, float)):
            raise InvalidType(f"the program of {self.title!r} returned {took!r}; with a limit it returns nanoseconds")
        most = self.limit(*case)
        if took <= most:
            return ""
        return f"right, but too slow: it takes {took:,.0f} ns of virtual time, and may take {most:,.0f}"

    def _program(self, task: Task, kept: Kept) -> Callable[..., Awaitable[object]]:
        """Return the program with the task in it, named after the task."""

        async def program(*case: object) -> object:
            kept.begin()
            return await self.program(task, *case)

        program.__name__ = getattr(task, "__name__", None) or "the task"
        return program

    def _words(self, case: tuple[object, ...]) -> str:
        names = list(inspect.signature(self.program).parameters)[1:]
        return ", ".join(f"{name}={value}" for name, value in zip(names, case, strict=False))

    def picture(self, task: Task, case: int = 0) -> Profile:
        """Run a task once, first come, first served, and return what the device did, over virtual time.

        `case` says on which of the cases. `print` draws it. A task that fails is drawn as far as it came. The trace
        tells of memory and of kernel threads, too.
        """
        if type(case) is not int or not 0 <= case < len(self.cases):
            raise InvalidValue(f"case {case!r}; {self.title!r} has cases 0 to {len(self.cases) - 1}")

        drawn = profile(threads=True)

        def draw() -> None:
            with drawn, np.errstate(all="ignore"):
                try:
                    run(self.program, self._drawn, task, *self.cases[case])
                except Exception as error:  # a deadlock, too, which ends the run
                    failure = classified(error)
                    print(f"the run ended with {said(failure.kind, failure.text)}")

        off_loop(draw)
        return drawn

    def hint(self) -> str:
        """Return the next hint on how the task failed last; after the last one, that again.

        Before the first check, and for a task that passes, they are the lesson's first ones.
        """
        hints = self._own_hints() or ((HINTS[self._kind],) if self._kind in HINTS else self.hints)
        self._told[hints] = min(self._told[hints] + 1, len(hints))
        return f"{self._told[hints]} of {len(hints)}: {hints[self._told[hints] - 1]}"

    def _own_hints(self) -> tuple[str, ...]:
        """Return this lesson's hints on how the task failed last; none where it has some on other ways only."""
        return self.hints_on.get(self._kind, ()) if self.hints_on else self.hints

    def solution(self) -> str:
        """Return the text of a solution. Raises InvalidValue for a lesson that is not kept in a file."""
        if not self.solved:
            raise InvalidValue(f"the lesson {self.title!r} has no solution of its own")
        return self.solved

    def play(self) -> Stepper:
        """Begin the program of the question, choice by choice: `pick`, `back`, `finish`, and `schedule` at its end."""
        question = self._asked()
        return Stepper(question.program, options=question.options, looks=True)

    def answer(self, schedule: str | None) -> Verdict:
        """Judge an answer to the question, the schedule of a run as `play()` gives it: None or "" until it is over.

        Raises InvalidValue for what is not a schedule of the question's program.
        """
        question = self._asked()
        if not schedule:
            return Verdict(False, f"{self.title}: no answer yet; pick on, or finish()")
        if not isinstance(schedule, str) or not schedule.startswith("v"):
            raise InvalidValue(f"an answer is the schedule of a run, a string that play() gives; got {schedule!r}")
        checking = Checking(question.program, 1, schedule, (), question.options, 0, 2, 100_000, False, 0)
        report = off_loop(checking.run)
        failure = report.failure
        right = failure is not None and failure.kind == question.kind
        if self.progress is not None:
            self.progress.note(self.name, "question", right)
        if right and failure is not None:
            return Verdict(True, f"{self.title}: that is an answer: {failure.text}")
        said = "it passes" if failure is None else f"{failure.kind}, {failure.text}"
        return Verdict(False, f"{self.title}: not an answer yet; under this schedule {said}")

    def _asked(self) -> Question:
        if self.question is None:
            raise InvalidValue(f"the lesson {self.title!r} has no question")
        return self.question

    def __repr__(self) -> str:
        return f"<Lesson {self.title!r}: check(task), picture(task), hint(), play(), answer(schedule)>"


def _busiest(report: CheckReport) -> str:
    """Say which line of the task a run has come to most often of late; "" where none is known."""
    places = Counter(place for place in report.places[-STEPS // 10 :] if place and not place.startswith("judge of "))
    return f"; it came to {places.most_common(1)[0][0]} again and again" if places else ""


def commands(seen: Profile, *kinds: Kind) -> list[TraceRecord]:
    """Return the records of the commands of these kinds that a profile has, in the order in which they began."""
    return sorted((each for each in seen.records if each.kind in kinds), key=lambda each: (each.started_ns, each.seq))


def given(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function of the judge one that learners call: what it does is told as done at the line of the call."""

    @wraps(function)
    def called(*arguments: P.args, **named: P.kwargs) -> R:
        frame = sys._getframe(1)
        with asked_at(Site(frame.f_code, frame.f_lasti)):
            return function(*arguments, **named)

    return called


@cache
def nanoseconds(program: Callable[..., Awaitable[object]], *arguments: object) -> int:
    """Return the nanoseconds of virtual time that `program(*arguments)` takes, first come, first served."""

    async def timed() -> int:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await program(*arguments)
        return round((loop.time() - start) * 1e9)

    return run(timed, TIMED)
