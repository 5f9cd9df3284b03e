"""The syntax tree of a function, the nodes of its own scope, and the names that it binds."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator

from atops.base.python_ast import module_tree

__all__ = ("FunctionNode", "bound_names", "function_tree", "own_nodes")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def function_tree(function: Callable[..., object]) -> FunctionNode | None:
    """Return the syntax tree of a function; None where its source cannot be had, as of a lambda or in a bare prompt."""
    try:
        tree = module_tree(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    node = tree.body[0] if tree.body else None
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """Yield the nodes of the function's body in the order of the text, without those of functions defined in it."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPES):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def bound_names(function: FunctionNode) -> set[str]:
    """Return every name that the function, or what is defined in it, binds: parameters, variables, functions."""
    bound: set[str] = set()
    declared: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.arg(arg=name):
                bound.add(name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound |= {name} if node is not function else set()
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.Global(names=names):
                declared.update(names)
    return bound - declared
