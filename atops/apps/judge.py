"""The child process of `atops mcp`: loads a program, and checks it or runs it choice by choice, as it is told to.

It reads a request a line, an object of JSON, and writes an answer a line. What the program prints goes nowhere. Run it
as `python -m atops.apps.judge`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from atops.apps.check import program_of
from atops.base.errors import AtopsError
from atops.base.options import EmulatorOptions
from atops.checking.check import Checking
from atops.checking.stepper import Stepper

__all__ = ("Judge", "answer", "serve")

Request = Mapping[str, Any]  # an object of JSON
REQUESTS = ("load", "check", "start", "choices", "pick", "back", "finish", "explain")


class Judge:
    """One program, from a script or a text, and the run of it that waits for a choice."""

    def __init__(self) -> None:
        self._program: Callable[..., object] | None = None
        self._options = EmulatorOptions()
        self._backend: Any = "asyncio"
        self._stepper: Stepper | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def load(self, request: Request) -> dict[str, object]:
        """Take a program: "script", a path, or "source", its text; "function", a function of it or "" for all of it."""
        path = request["script"]
        if request["source"]:
            self._folder = tempfile.TemporaryDirectory(prefix="atops-")
            path = os.path.join(self._folder.name, "program.py")
            Path(path).write_text(request["source"], encoding="utf-8")
        os.environ["ATOPS_DETECT"] = "01"[bool(request["detect"])]  # for runs that a script makes itself, too
        self._options = EmulatorOptions.from_environment()
        self._backend = request["backend"]
        self._program = program_of(path, request["function"])
        return {}

    def check(self, request: Request) -> dict[str, object]:
        """Run it under many schedules, or the one that "strategy" is; return the report, and its text."""
        report = Checking(
            self._loaded(), request["schedules"], request["strategy"], (), self._options, request["seed"], 2,
            request["steps"], request["same_result"], 300, self._backend,
        ).run()  # fmt: skip
        return {"report": json.loads(report.to_json()), "text": str(report)}

    def start(self, request: Request) -> dict[str, object]:
        """Run it up to the first choice."""
        self._stepper = Stepper(
            self._loaded(), options=self._options, steps=request["steps"], backend=self._backend
        )  # fmt: skip
        return self._state()

    def pick(self, request: Request) -> dict[str, object]:
        """Have something come next, by its words or its position."""
        self._begun().pick(request["choice"])
        return self._state()

    def back(self, request: Request) -> dict[str, object]:
        """Take back the last picks."""
        self._begun().back(request["picks"])
        return self._state()

    def finish(self, request: Mapping[str, object]) -> dict[str, object]:
        """Have the rest come first come, first served."""
        self._begun().finish()
        return self._state()

    def choices(self, request: Mapping[str, object]) -> dict[str, object]:
        """Return what could come next."""
        return self._state()

    def explain(self, request: Mapping[str, object]) -> dict[str, object]:
        """Return where it stands, as text."""
        return {**self._state(), "text": str(self._begun())}

    def _loaded(self) -> Callable[..., object]:
        if self._program is None:
            raise ValueError("no program was loaded")
        return self._program

    def _begun(self) -> Stepper:
        if self._stepper is None:
            raise ValueError("no run was started")
        return self._stepper

    def _state(self) -> dict[str, object]:
        stepper = self._begun()
        return {
            "verdict": stepper.verdict,
            "picks": len(stepper.picks),
            "choices": [{"choice": each.words, "place": each.place} for each in stepper.choices()],
            "schedule": stepper.schedule,
        }


def answer(judge: Judge, line: str) -> dict[str, object]:
    """Return the answer to a request: what it asks for, or "error", a text."""
    try:
        request = json.loads(line)
        if request["do"] not in REQUESTS:
            raise ValueError(f"the request is {request['do']!r}; expected one of {', '.join(REQUESTS)}")
        done: Callable[[Mapping[str, object]], dict[str, object]] = getattr(judge, request["do"])
        return done(request)
    except (AtopsError, ImportError, OSError, RuntimeError, SyntaxError, TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:  # of the program's, as it was loaded
        return {"error": f"the program cannot be loaded: {type(error).__name__}: {error}"}


def serve() -> None:
    """Answer requests until there are no more."""
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for each in (1, 2):
        os.dup2(nowhere, each)
    judge = Judge()
    requests, sys.stdin = sys.stdin, open(os.devnull)  # noqa: SIM115  # the program reads nothing
    with os.fdopen(answers, "w", encoding="utf-8") as target:
        for line in requests:
            target.write(json.dumps(answer(judge, line)) + "\n")
            target.flush()


if __name__ == "__main__":
    serve()
