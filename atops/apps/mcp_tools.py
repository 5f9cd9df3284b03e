"""The tools of `atops mcp`, by the protocol's SDK, which this module imports."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from atops.apps.mcp_sessions import Refused, Sessions
from atops.checking.check import MOST_STEPS

__all__ = ("Tools", "make_server")

INSTRUCTIONS = """\
atops runs programs for an emulated accelerator: asyncio or trio programs with streams, and kernels. `check` runs one
under many schedules, with race detectors, and says how it fails, with the lines, what would order them, and a schedule
that repeats it. `start` lets you be the scheduler: `list_choices`, `pick` what comes next, `back`, `explain`. A program
is a path (`script`) or a text (`source`), and a `function` of it: a coroutine function without arguments; without one
all of it runs, as a main program does."""

Answer = dict[str, object]  # what a session answered: JSON
Backend = Literal["asyncio", "trio"]


class Tools:
    """What a client may call. Names, signatures and docstrings are what it is told."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def check(
        self, script: str = "", source: str = "", function: str = "", strategy: str = "random", schedules: int = 200,
        seed: int = 0, detect: bool = True, same_result: bool = False, backend: Backend = "asyncio",
        seconds: float = 60,
    ) -> Answer:  # fmt: skip
        """Run a program under many schedules until one fails: by an assertion, an exception, a deadlock or a race.

        strategy: random, pct, dpor or exhaustive. detect: report races, too. same_result: fail where `function` returns
        something else than at first. Returns `text`, the report to read, and `report`, the same as an object: verdict,
        failure, schedule, forced choices.
        """
        request = {
            "do": "check", "strategy": strategy, "schedules": schedules, "seed": seed, "same_result": same_result,
            "steps": MOST_STEPS,
        }  # fmt: skip
        program = _program(script, source, function, detect, backend)
        return await _told(self._sessions.judged(program, request, seconds))

    async def replay(
        self, schedule: str, script: str = "", source: str = "", function: str = "", detect: bool = True,
        backend: Backend = "asyncio", seconds: float = 60,
    ) -> Answer:  # fmt: skip
        """Run a program under the schedule of a report, and say how it ends. One of another program is refused."""
        if not schedule.startswith("v"):
            raise ToolError(f"schedule is {schedule!r}; expected the string that a report has")
        return await self.check(script, source, function, schedule, 1, 0, detect, False, backend, seconds)

    async def start(
        self, script: str = "", source: str = "", function: str = "", detect: bool = True,
        backend: Backend = "asyncio", seconds: float = 60,
    ) -> Answer:  # fmt: skip
        """Run a program up to its first choice. Returns a session, with what could come next."""
        program = _program(script, source, function, detect, backend)
        return await _told(self._sessions.start(program, seconds))

    async def list_choices(self, session: str) -> Answer:
        """Return what could come next in a session: each choice in words, with the line at which it stands."""
        return await self._ask(session, {"do": "choices"})

    async def pick(self, session: str, choice: str | int, seconds: float = 60) -> Answer:
        """Have a choice come next, by its words or its position from 0. Returns the next choices, or how it ended."""
        return await self._ask(session, {"do": "pick", "choice": choice}, seconds)

    async def back(self, session: str, picks: int = 1, seconds: float = 60) -> Answer:
        """Take back the last picks of a session."""
        return await self._ask(session, {"do": "back", "picks": picks}, seconds)

    async def finish(self, session: str, seconds: float = 60) -> Answer:
        """Let the rest of a session's program come first come, first served."""
        return await self._ask(session, {"do": "finish"}, seconds)

    async def explain(self, session: str) -> Answer:
        """Return where a session stands as `text`: a drawing of the run, races, the failure, what could come next."""
        return await self._ask(session, {"do": "explain"})

    async def stop(self, session: str) -> Answer:
        """End a session."""
        return await _told(self._sessions.stop(session))

    async def _ask(self, session: str, request: dict[str, object], seconds: float = 60) -> Answer:
        return await _told(self._sessions.ask(session, request, seconds))


def make_server(sessions: Sessions) -> MCPServer:
    """Return the server with the tools."""
    server, tools = MCPServer("atops", instructions=INSTRUCTIONS, log_level="ERROR"), Tools(sessions)
    for tool in (
        tools.check, tools.replay, tools.start, tools.list_choices, tools.pick, tools.back, tools.finish,
        tools.explain, tools.stop,
    ):  # fmt: skip
        server.tool()(tool)
    return server


def _program(script: str, source: str, function: str, detect: bool, backend: Backend) -> dict[str, object]:
    return {"script": script, "source": source, "function": function, "detect": detect, "backend": backend}


async def _told(answer: Awaitable[Answer]) -> Answer:
    """Return an answer. Raises the SDK's error for what was refused, whose text the client is told."""
    try:
        return await answer
    except Refused as error:
        raise ToolError(str(error)) from error
