"""`atops mcp`: its tools through the SDK's client in memory, and the command over standard input and output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from atops.apps.judge import Judge, answer
from atops.apps.mcp_sessions import Sessions
from atops.cli import main as command

pytestmark = pytest.mark.slow
if not find_spec("mcp"):  # to import it takes a second: only who runs these tests does
    pytest.skip("the extra mcp is missing", allow_module_level=True)

CARELESS = """
import atops, numpy as np

async def careless():
    device = atops.Device(0)
    async with device.create_stream() as one, device.create_stream() as two:
        row = device.zeros(4, np.int32)
        one.fill(row, 7)
        result = await two.fetch(row)
    print("whatever it prints")
    assert result.tolist() == [7, 7, 7, 7]

async def careful():
    device = atops.Device(0)
    async with device.create_stream() as one:
        row = device.zeros(4, np.int32)
        one.fill(row, 7)
        return (await one.fetch(row)).tolist()

async def in_trio():
    import trio
    async with trio.open_nursery() as nursery:
        nursery.start_soon(careful)

def spins():
    while True:
        pass

def ends():
    import os
    os._exit(7)

if __name__ == "__main__":
    atops.run(careless)
"""
Call = Callable[..., Awaitable[Any]]


def talk(story: Callable[[Call], Awaitable[None]]) -> None:
    """Have a story call tools; a call returns the answer, or the text of what was refused."""
    from mcp import Client

    from atops.apps.mcp_tools import make_server

    async def main() -> None:
        sessions = Sessions()
        async with Client(make_server(sessions)) as client:

            async def call(tool: str, **arguments: Any) -> Any:
                answer = await client.call_tool(tool, arguments)
                return answer.content[0].text if answer.is_error else answer.structured_content  # type: ignore[union-attr]

            try:
                await story(call)
            finally:
                await sessions.close()

    anyio.run(main)


def test_a_program_is_checked_and_its_failure_replayed(tmp_path: Path) -> None:
    """By text and by path, a function and a whole script; the report has both lines, and its schedule fails again."""
    script = tmp_path / "careless.py"
    script.write_text(CARELESS)

    async def story(call: Call) -> None:
        found = await call("check", source=CARELESS, function="careless", detect=False)
        assert found["report"]["verdict"] == "failed" and found["report"]["failure"]["kind"] == "assertion"
        assert "forced choice" in found["text"]
        again = {"schedule": found["report"]["schedule"], "function": "careless", "detect": False}
        assert (await call("replay", source=CARELESS, **again))["report"]["failure"]["kind"] == "assertion"
        assert "another program" in await call("replay", source=CARELESS.replace("[7, 7, 7, 7]", "[7]"), **again)
        raced = await call("check", script=str(script), schedules=5)
        assert raced["report"]["failure"]["kind"] == "race" and "record()" in raced["text"]
        proof = await call("check", source=CARELESS, function="careful", strategy="exhaustive")
        assert proof["report"]["verdict"] == "proved"
        trio = await call("check", source=CARELESS, function="in_trio", schedules=5, backend="trio")
        assert trio["report"]["verdict"] == "explored 5"

    talk(story)


def test_a_session_is_stepped_through() -> None:
    """Choices are listed, picked by words and position, taken back, explained, and finished."""

    async def story(call: Call) -> None:
        state = await call("start", source=CARELESS, function="careless", detect=False)
        session = state["session"]
        assert [each["choice"] for each in state["choices"]] == ["stream 1", "stream 2"]
        first = await call("pick", session=session, choice="stream 2")
        assert first["picks"] == 1 and await call("list_choices", session=session) == first
        state = first
        while state["choices"]:
            names = [each["choice"] for each in state["choices"]]
            state = await call("pick", session=session, choice="stream 2" if "stream 2" in names else 0)
        assert state["verdict"].startswith("failed: assertion") and state["schedule"].startswith("v1.")
        told = await call("explain", session=session)
        assert "program.py:" in told["text"] and "stream 2" in told["text"]
        assert (await call("back", session=session, picks=state["picks"]))["picks"] == 0
        assert (await call("finish", session=session))["verdict"] == "passed"
        assert "what could come" not in await call("pick", session=session, choice=0)
        await call("stop", session=session)
        assert "no session" in await call("explain", session=session)

    talk(story)


def test_what_makes_no_sense_is_refused() -> None:
    """Each with what was given and what is expected; the server goes on."""

    async def story(call: Call) -> None:
        for arguments, says in (
            ({}, "either script"),
            ({"script": "a.py", "source": "b"}, "either script"),
            ({"script": "/nowhere/at/all.py"}, "is no file"),
            ({"source": "x = ("}, "SyntaxError"),
            ({"source": "raise KeyError('k')", "function": "main"}, "cannot be loaded: KeyError"),
            ({"source": CARELESS, "function": "missing"}, "has no function 'missing'"),
            ({"source": CARELESS, "function": "a.b"}, "expected the name of a function"),
            ({"source": CARELESS, "function": "careful", "strategy": "best"}, "expected 'random'"),
            ({"source": CARELESS, "function": "careful", "schedules": 0}, "1 or more"),
            ({"source": CARELESS, "function": "careful", "seconds": 1e9}, "600 at most"),
            ({"source": CARELESS, "function": "careful", "backend": "curio"}, "backend"),
            ({"source": CARELESS, "function": "spins", "backend": "trio"}, "coroutine function"),
            ({"source": "#" * (1 << 20 | 1)}, "characters"),
        ):
            assert says in await call("check", **arguments), arguments
        assert "expected the string" in await call("replay", schedule="random", source=CARELESS)
        assert "no session 's9'" in await call("pick", session="s9", choice=0)
        session = (await call("start", source=CARELESS, function="careless"))["session"]
        assert "what could come is" in await call("pick", session=session, choice="stream 9")
        assert "expected 0 to 0" in await call("back", session=session, picks=4)
        assert (await call("finish", session=session))["verdict"].startswith("failed: race")

    talk(story)


def test_a_program_cannot_hold_the_server_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never ends, or ends its process, is told of; sessions are counted."""
    monkeypatch.setattr("atops.apps.mcp_sessions.MOST_SESSIONS", most := 2)

    async def story(call: Call) -> None:
        assert "no answer within 2 s" in await call("check", source=CARELESS, function="spins", seconds=2)
        assert "ended its process, with code 7" in await call("check", source=CARELESS, function="ends")
        for _ in range(most):
            await call("start", source=CARELESS, function="careful")
        assert "stop one first" in await call("start", source=CARELESS, function="careful")
        await call("stop", session="s1")
        assert (await call("start", source=CARELESS, function="careful"))["session"] == f"s{most + 1}"

    talk(story)


def test_the_command_speaks_the_protocol() -> None:
    """A client starts it, lists the tools, which say what they take, and calls one."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def main() -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        server = StdioServerParameters(command=sys.executable, args=["-m", "atops", "mcp"], env=environment)
        async with Client(stdio_client(server)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {
                "check", "replay", "start", "list_choices", "pick", "back", "finish", "explain", "stop",
            }  # fmt: skip
            assert all(tool.description for tool in tools.values())
            assert "strategy" in tools["check"].input_schema["properties"]
            found = await client.call_tool("check", {"source": CARELESS, "function": "careful", "schedules": 3})
            assert found.structured_content is not None and not found.is_error

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(main)


def test_without_the_sdk_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the extra, and ends with 2."""
    monkeypatch.setitem(sys.modules, "atops.apps.mcp_tools", None)
    assert command(["mcp"]) == 2
    assert "pip install 'atops[mcp]'" in capsys.readouterr().err


def test_a_request_out_of_turn_is_answered() -> None:
    """The child answers everything: a run before a program, an unknown request, a line that is no JSON."""
    judge = Judge()
    for line in ('{"do": "check"}', '{"do": "pick", "choice": 0}', '{"do": "dance"}', "no json", "[]"):
        assert "error" in json.loads(json.dumps(answer(judge, line)))
