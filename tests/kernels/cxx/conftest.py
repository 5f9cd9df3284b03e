"""Kernels in C++ need a compiler: without one their tests are skipped, but not in CI."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

import atops
from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.device.native.toolchain import NAMED


@pytest.fixture(autouse=True)
def _compiler(compiler: None) -> None:
    pass


@pytest.fixture(params=["g++", "clang++"])
def each_compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compile with each of the compilers in turn. Returns its command."""
    command: str = request.param
    if shutil.which(command) is None:
        pytest.skip(f"needs {command}")  # one is enough: the other one is not installed everywhere
    monkeypatch.setenv(NAMED, command)
    return command


def run_kernel(
    source: str, name: str, config: Any, *arguments: Any, options: EmulatorOptions | None = None,
    fetch: int = 0, module: Any = None,
) -> Any:  # fmt: skip
    """Compile, upload arrays among the arguments, launch, and return what the argument `fetch` is then."""
    kernel = (module or k.compile_source(source, "test.tops").module()).function(name)

    async def main() -> Any:
        async with atops.Device(0).create_stream() as stream:
            given = [stream.upload(each) if hasattr(each, "dtype") and each.ndim else each for each in arguments]
            stream.launch(kernel, config, *given)
            await stream
            return (await stream.fetch(given[fetch])).copy() if given else None

    return atops.run(main, options or EmulatorOptions())


@pytest.fixture
def run() -> Callable[..., Any]:
    """Run a kernel of a source text once."""
    return run_kernel
