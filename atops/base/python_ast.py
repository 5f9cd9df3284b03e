"""Python's parser, one thread at a time: CPython counts the depth of a tree that it builds in one place for all.

Two threads that parse at once may both get a SystemError for correct texts.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from atops.base.locks import fork_safe

__all__ = ("expression_tree", "module_tree")

T = TypeVar("T")

ATTEMPTS: Final = 100  # a program's own threads may parse meanwhile, without this lock


def module_tree(text: str, name: str = "<unknown>") -> ast.Module:
    """Return the tree of a module's text. Raises what `ast.parse` does."""
    return _alone(lambda: ast.parse(text, name))


def expression_tree(text: str) -> ast.Expression:
    """Return the tree of an expression. Raises what `ast.parse` does."""
    return _alone(lambda: ast.parse(text, mode="eval"))


def _alone(parse: Callable[[], T]) -> T:
    with _lock:
        for _ in range(ATTEMPTS):
            try:
                return parse()
            except SystemError:
                pass
        return parse()


_lock = fork_safe(threading.RLock())
