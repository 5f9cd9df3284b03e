"""What commands are called in messages, and what the runtime asks of each kind."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import atops
from atops.runtime.core.commands import ROWS, always, define, words_of


@pytest.mark.anyio
async def test_a_command_is_called_as_its_verb() -> None:
    """A completion is named by the verb that made it, in its repr, its table and the words of a failure."""
    device = atops.Device(0)
    word = device.empty(1, np.uint32)
    async with device.create_stream(name="work") as stream:
        write, wait, copy = stream.write_value(word, 1), stream.wait_value(word, 1), stream.copy(word, np.uint32([3]))
        await stream
        assert [words_of(each.command) for each in (write, wait, copy)] == ["write_value", "wait_value", "copy"]
        assert repr(wait) == f"<Completion {wait.seq}: wait_value on work, done>"
        assert f"Completion {wait.seq}: wait_value" in wait._repr_html_()
    with pytest.raises(atops.errors.InvalidHandle, match="cannot enqueue write_value: work is closed"):
        stream.write_value(word, 1)
    word.close()


class _Nothing(tuple):
    """A kind of command that is never entered."""


@pytest.mark.parametrize("part", list(inspect.signature(define).parameters)[1:])
def test_no_kind_is_half_there(part: str) -> None:
    """A kind of command that lacks a part of its row is refused where it is defined, and not entered."""
    parts = dict.fromkeys(inspect.signature(define).parameters.keys() - {"kind", part}, always)
    with pytest.raises(TypeError, match=part):
        define(_Nothing, **parts)
    assert _Nothing not in ROWS
