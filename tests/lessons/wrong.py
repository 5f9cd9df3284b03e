"""A solution with one thing wrong: a wait, barrier, event or await that is missing, or of the wrong stream or place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from tests.races.synchronisation import mutants

__all__ = ("wrong",)

ORDERING = {"record", "wait", "wait_value", "write_value"}  # what a stream does to be in order with another
CLEANED = {"release", "cancel"}  # calls that give back, or tell others that they need not wait


def wrong(text: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield what is wrong, and the tree, for each one thing that can be."""
    for mutant in mutants(text):
        yield f"without {mutant}", mutant.tree
    tree = ast.parse(text)
    for number, node in enumerate(ast.walk(tree)):
        yield from _wrong_stream(text, tree, number, node)
        yield from _too_early(text, number, node)
        yield from _in_the_branch(text, number, node)
        yield from _not_cleaned(text, number, node)


def _wrong_stream(text: str, tree: ast.Module, number: int, node: ast.AST) -> Iterator[tuple[str, ast.Module]]:
    """Yield trees in which an event is recorded in another stream, or another stream waits."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    if node.func.attr not in ORDERING or not isinstance(node.func.value, ast.Name):
        return
    streams = [
        each.optional_vars.id
        for block in ast.walk(tree) if isinstance(block, ast.AsyncWith)
        for each in block.items if isinstance(each.optional_vars, ast.Name)
    ]  # fmt: skip
    for other in streams:
        if other != node.func.value.id:
            changed, call = _again(text, number)
            call.func.value.id = other
            yield f"line {node.lineno}: {ast.unparse(call)} for {ast.unparse(node)}", changed


def _too_early(text: str, number: int, node: ast.AST) -> Iterator[tuple[str, ast.Module]]:
    """Yield trees in which an event is recorded before what it is meant to stand for."""
    body = getattr(node, "body", ())
    for place, statement in enumerate(body if isinstance(body, list) else ()):
        call = getattr(statement, "value", None)
        if place and isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "record":
            changed, block = _again(text, number)
            block.body.insert(place - 1, block.body.pop(place))
            yield f"line {statement.lineno}: {ast.unparse(statement)} a line earlier", changed


def _in_the_branch(text: str, number: int, node: ast.AST) -> Iterator[tuple[str, ast.Module]]:
    """Yield trees in which a barrier has moved into the branch before it."""
    body = getattr(node, "body", ())
    for place, statement in enumerate(body if isinstance(body, list) else ()):
        if place and "syncthreads" in ast.unparse(statement) and isinstance(statement, ast.Expr):
            changed, block = _again(text, number)
            if isinstance(block.body[place - 1], ast.If):
                block.body[place - 1].body.append(block.body.pop(place))
                yield f"line {statement.lineno}: {ast.unparse(statement)} in the branch before it", changed


def _not_cleaned(text: str, number: int, node: ast.AST) -> Iterator[tuple[str, ast.Module]]:
    """Yield trees in which something is not given back."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(node, ast.Expr) and isinstance(call, ast.Call) and getattr(call.func, "attr", "") in CLEANED:
        changed, statement = _again(text, number)
        statement.value = ast.Constant(None)
        yield f"line {node.lineno}: without {ast.unparse(node)}", ast.fix_missing_locations(changed)


def _again(text: str, number: int) -> tuple[ast.Module, Any]:
    """Return a new tree, and its node of that number."""
    tree = ast.parse(text)
    return tree, list(ast.walk(tree))[number]
