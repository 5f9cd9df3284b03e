"""Every synchronisation of a Python text, and the text without one of them: a mutant for each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ("Mutant", "mutants")

# What can be taken out, by the name that is called. A statement that does nothing else goes whole.
STATEMENTS = {
    "wait": "wait for an event",
    "wait_value": "wait for a value",
    "write_value": "store of a value that is waited for",
    "record": "record of an event",
    "set": "set of an event",
    "signal_write": "signal",
    "signal_add": "signal",
    # of C-style functions, behind the name of their API
    "StreamWaitEvent": "wait for an event",
    "EventRecord": "record of an event",
    "StreamWaitValue32": "wait for a value",
    "StreamWaitValue32Async": "wait for a value",
    "StreamWaitValue64": "wait for a value",
    "StreamWriteValue32": "store of a value that is waited for",
    "StreamWriteValue32Async": "store of a value that is waited for",
    "StreamWriteValue64": "store of a value that is waited for",
    "StreamSynchronize": "wait of the host",
    "EventSynchronize": "wait of the host",
    "DeviceSynchronize": "wait of the host",
}
CHECKS = {"check", "TOPS_CHECK", "hip_check"}  # what raises the codes of C-style functions
API = re.compile(r"^(tops|hip)(?=[A-Z])")
BARRIERS = {"syncthreads", "syncblocks", "arrive_and_wait"}


@dataclass(frozen=True)
class Mutant:
    """A text without one synchronisation: of which kind that is, and where it stands."""

    kind: str
    line: int
    taken: str
    text: str
    number: int

    @property
    def tree(self) -> ast.Module:
        """The tree that is left, a new one each time."""
        tree = ast.parse(self.text)
        changed: ast.Module = _Without(_sites(tree)[self.number][1]).visit(tree)
        return ast.fix_missing_locations(changed)

    def __str__(self) -> str:
        return f"line {self.line}: {self.taken}"


def mutants(text: str) -> Iterator[Mutant]:
    """Yield all mutants of a text, in the order of its lines."""
    for number, (kind, node) in enumerate(_sites(ast.parse(text))):
        yield Mutant(kind, node.lineno, ast.unparse(node).splitlines()[0], text, number)


def _sites(tree: ast.Module) -> list[tuple[str, ast.expr | ast.stmt]]:
    """Return the nodes that can be taken out, each with its kind."""
    found: list[tuple[str, ast.expr | ast.stmt]] = []

    def walk(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.AsyncFunctionDef):
            inside = inside or any(ast.unparse(each).startswith("k.") for each in node.decorator_list)
        if isinstance(node, ast.Await):
            found.append((_kind_of_await(node, inside), node))
        elif isinstance(node, ast.AsyncWith) and _orders(node):
            found.append(("lock, or room in a stream", node))
        elif isinstance(node, ast.Expr) and (kind := _statement(node)):
            found.append((kind, node))
            return
        elif isinstance(node, ast.Call) and _called(node) == "record" and not node.args:
            found.append(("record of an event", node))
        for child in ast.iter_child_nodes(node):
            walk(child, inside)

    walk(tree, False)
    return sorted(found, key=lambda each: (each[1].lineno, each[1].col_offset))


def _kind_of_await(node: ast.Await, inside: bool) -> str:
    if isinstance(node.value, ast.Call) and _called(node.value) in BARRIERS:
        return "barrier"
    if isinstance(node.value, ast.Call) and _called(node.value) == "signal_wait":
        return "signal"
    return "await of a transfer" if inside else "await of the host"


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _statement(node: ast.Expr) -> str:
    """Return what kind of synchronisation a statement is, if it is one and nothing else."""
    call = node.value
    if not isinstance(call, ast.Call):
        return ""
    if _called(call) in CHECKS and isinstance(call.args[0], ast.Call):
        call = call.args[0]
    name = API.sub("", _called(call))
    if name in ("wait", "record") and not call.args:  # of the loop's own events; what is not kept is no record
        return ""
    return "" if name == "set" and call.args else STATEMENTS.get(name, "")


def _orders(node: ast.AsyncWith) -> bool:
    """Whether a block is there for order alone: a lock, or room in a stream."""
    return all(
        isinstance(item.context_expr, ast.Attribute)
        or (isinstance(item.context_expr, ast.Call) and _called(item.context_expr) == "room")
        for item in node.items
    )


class _Without(ast.NodeTransformer):
    """Take one node out of a tree."""

    def __init__(self, target: ast.AST) -> None:
        self.target = target

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        """Replace the node by what is left of it: nothing, what was awaited, a block's body, another event."""
        if node is not self.target:
            return self.generic_visit(node)
        left: ast.AST | list[ast.stmt]
        match node:
            case ast.AsyncWith():
                return [ast.copy_location(ast.Pass(), node), *node.body]
            case ast.Expr():
                left = ast.Pass()
            case ast.Await(value=ast.Call() as call) if _called(call) in (*BARRIERS, "signal_wait"):
                left = ast.Constant(None)
            case ast.Await(value=value):
                left = value
            case ast.Call(func=ast.Attribute(value=stream)):  # an event that nothing has recorded
                left = ast.parse(f"({ast.unparse(stream)}).device.create_event()", mode="eval").body
            case _:
                raise TypeError(f"{ast.dump(node)} cannot be taken out")
        return ast.copy_location(left, node)
