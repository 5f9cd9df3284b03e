"""Source texts that the tests of the compiler share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from atops import kernels
from atops.base.errors import CompilationError
from atops.kernels.memory.device_variables import constant, device_variable
from atops.kernels.programs.program import Program

SCALE = '''\
"""Scale an array."""

TILE: int = 64


def share(x):
    return k.tiles(x.size, TILE)


@k.kernel
async def scale(x: k.Span, y, alpha: np.float32 = 2.0):
    """Each thread scales its own tiles of x into y."""
    buffer = k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in share(x):
            tile = buffer[: part.stop - part.start]
            await k.memcpy_async(dte, tile, x[part])
            np.multiply(tile, alpha, out=tile)
            k.memcpy(dte, y[part], tile)
'''


def log_of(
    text: str, options: Sequence[str] = (), name: str = "a.py", headers: dict[str, str] | None = None
) -> list[str]:
    """Compile a text and return the first line of every diagnostic, without the program's name."""
    program = Program(text, name, headers)
    try:
        program.compile(options)
    except CompilationError as error:
        assert str(error) == str(program.log) and program.log.errors
    else:
        assert not program.log.errors
    return [str(each).splitlines()[0].removeprefix(f"{name}:") for each in program.log]


@pytest.fixture
def declarations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have `k.device_variable` and `k.constant` in the language."""
    for function in (device_variable, constant):
        monkeypatch.setattr(kernels, function.__name__, function, raising=False)
    yield
