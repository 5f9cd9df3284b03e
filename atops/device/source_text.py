"""The source text of an assertion, found from the instruction that failed."""

from __future__ import annotations

import ast
import linecache
from itertools import islice
from types import CodeType

from atops.base.python_ast import module_tree

__all__ = ("asserted",)


def asserted(code: CodeType, instruction: int, by_call: bool = False) -> str | None:
    """Return the condition that was asserted at an instruction of `code`, as its author wrote it.

    The instruction belongs to an `assert` statement; with `by_call` it is the call of an assert function, whose
    condition is its first argument or the one called `condition`. None where there is no such thing, or no source.
    """
    line, end_line, column, end_column = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    source = "".join(linecache.getlines(code.co_filename))
    if line is None or not source:
        return None
    try:
        tree = module_tree(source)
    except (SyntaxError, ValueError):  # the file is another one by now, or a cell has magic in it
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and not by_call and _covers(node, line, column):
            return _text(source, node.test)
        if isinstance(node, ast.Call) and by_call and (node.end_lineno, node.end_col_offset) == (end_line, end_column):
            named = [each.value for each in node.keywords if each.arg == "condition"]
            return _text(source, found[0]) if (found := [*node.args[:1], *named]) else None
    return None


def _covers(node: ast.Assert, line: int, column: int | None) -> bool:
    """Return whether a place lies inside a statement; without a column its line decides."""
    if column is None:
        return node.lineno <= line <= (node.end_lineno or node.lineno)
    start, end = (node.lineno, node.col_offset), (node.end_lineno or line, node.end_col_offset or column)
    return start <= (line, column) < end


def _text(source: str, node: ast.expr) -> str:
    """Return an expression as it stands in the source; in one line where it stands in several."""
    text = ast.get_source_segment(source, node)
    return text if text is not None and "\n" not in text else ast.unparse(node)
