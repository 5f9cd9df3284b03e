"""What a command is called in words for people: by the verb that enqueued it. It knows no command."""

from __future__ import annotations

import re

__all__ = ("verb_of",)

_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def verb_of(command: object) -> str:
    """Return the name of a command's class as the verbs of a stream are spelt: `copy`, `wait_value`."""
    return _WORDS.sub("_", type(command).__name__).lower()
