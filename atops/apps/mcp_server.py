"""`atops mcp`: a judge of programs for whatever writes them by machine, as tools of the Model Context Protocol."""

from __future__ import annotations

import argparse
import importlib
import sys

import anyio

from atops.apps.mcp_sessions import Sessions

__all__ = ("add_arguments", "main")

EPILOG = """\
Speaks the Model Context Protocol over standard input and output; a client starts it. Tools: check, replay, start,
list_choices, pick, back, finish, explain, stop. A program runs as code, with the rights of the user who starts it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def main(arguments: argparse.Namespace) -> int:
    """Serve until the client is gone. Returns 0, or 2 where the protocol's SDK is missing."""
    sessions = Sessions()
    try:
        server = importlib.import_module("atops.apps.mcp_tools").make_server(sessions)
    except ImportError as error:
        print(f"atops mcp: error: {error}; the extra brings it: pip install 'atops[mcp]'", file=sys.stderr)
        return 2

    async def serve() -> None:
        try:
            await server.run_stdio_async()
        finally:
            with anyio.CancelScope(shield=True):
                await sessions.close()

    anyio.run(serve)
    return 0
