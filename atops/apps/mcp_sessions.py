"""Programs under way for `atops mcp`: a session each, by its name.

Each program runs in a child process of its own (`judge.py`), which a request that takes too long ends. It is code: it
may do all that the user who started the server may do.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from atops.checking.check import MOST_STEPS

__all__ = ("Child", "Refused", "Sessions")

Answer = dict[str, object]  # an object of JSON
MOST_SESSIONS: Final = 8
MOST_SOURCE: Final = 1 << 20  # characters
MOST_ANSWER: Final = 1 << 24  # bytes


class Refused(Exception):
    """A request that makes no sense, or that a program did not survive. The client is told why."""


class Child:
    """A child process with one program."""

    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stdout is not None and process.stdin is not None, "asked for"
        self._answers, self._requests = BufferedByteReceiveStream(process.stdout), process.stdin
        self._busy = anyio.Lock()

    async def ask(self, request: Mapping[str, object], seconds: float) -> Answer:
        """Return the answer. Raises Refused where there is none in time, and the child is over then, too."""
        async with self._busy:
            try:
                with anyio.fail_after(seconds):
                    await self._requests.send(json.dumps(request).encode() + b"\n")
                    line = await self._answers.receive_until(b"\n", MOST_ANSWER)
            except TimeoutError:
                await self.end()
                raise Refused(f"no answer within {seconds:g} s: the program was ended") from None
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
                with anyio.move_on_after(5):
                    await self._process.wait()  # for its code
                await self.end()
                raise Refused(f"the program ended its process, with code {self._process.returncode}") from None
            except BaseException:
                await self.end()  # cancelled: the answer would come to the next request
                raise
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    @property
    def over(self) -> bool:
        """Whether its process has ended."""
        return self._process.returncode is not None

    async def end(self) -> None:
        """End the process."""
        with anyio.CancelScope(shield=True):
            if not self.over:
                self._process.kill()
            await self._process.aclose()


class Sessions:
    """The programs under way, by the names of their sessions. Answers are objects for JSON."""

    def __init__(self) -> None:
        self._sessions: dict[str, Child] = {}
        self._numbers = itertools.count(1)

    async def judged(self, program: Mapping[str, object], request: Mapping[str, object], seconds: float) -> Answer:
        """Load a program into a child, ask that one thing, and end it."""
        child = await self._child(program, seconds)
        try:
            return await child.ask(request, seconds)
        finally:
            await child.end()

    async def start(self, program: Mapping[str, object], seconds: float) -> Answer:
        """Load a program, run it up to its first choice, and keep it as a session."""
        if len(self._sessions) >= MOST_SESSIONS:
            raise Refused(f"there are {MOST_SESSIONS} sessions ({', '.join(self._sessions)}): stop one first")
        child = await self._child(program, seconds)
        try:
            state = await child.ask({"do": "start", "steps": MOST_STEPS}, seconds)
        except BaseException:
            await child.end()
            raise
        name = f"s{next(self._numbers)}"
        self._sessions[name] = child
        return {"session": name, **state}

    async def ask(self, session: str, request: Mapping[str, object], seconds: float) -> Answer:
        """Ask a session. One whose process is over is forgotten."""
        child = self._sessions.get(session)
        if child is None:
            known = ", ".join(self._sessions) or "none"
            raise Refused(f"there is no session {session!r}; those there are: {known}")
        try:
            return {"session": session, **await child.ask(request, seconds)}
        finally:
            if child.over:
                self._sessions.pop(session, None)

    async def stop(self, session: str) -> Answer:
        """End a session."""
        child = self._sessions.pop(session, None)
        if child is None:
            raise Refused(f"there is no session {session!r}")
        await child.end()
        return {"session": session, "stopped": True}

    async def close(self) -> None:
        """End all sessions."""
        while self._sessions:
            await self._sessions.popitem()[1].end()

    async def _child(self, program: Mapping[str, object], seconds: float) -> Child:
        _look_at(program, seconds)
        command = [sys.executable, "-m", "atops.apps.judge"]
        child = Child(await anyio.open_process(command, stderr=subprocess.DEVNULL, env={**os.environ}))
        try:
            await child.ask({"do": "load", **program}, seconds)
        except BaseException:
            await child.end()
            raise
        return child


def _look_at(program: Mapping[str, object], seconds: float) -> None:
    script, source, function = (str(program[name]) for name in ("script", "source", "function"))
    if bool(script) == bool(source):
        raise Refused("give either script, the path of a Python file, or source, its text")
    if len(source) > MOST_SOURCE:
        raise Refused(f"source has {len(source):,} characters; expected {MOST_SOURCE:,} at most")
    if script and not os.path.isfile(script):
        raise Refused(f"script {script!r} is no file")
    if function and not function.isidentifier():
        raise Refused(f"function is {function!r}; expected the name of a function, or nothing for the whole script")
    if not 0 < seconds <= 600:
        raise Refused(f"seconds is {seconds!r}; expected more than 0, and 600 at most")
