"""What tracing costs a small copy: switched on, and switched off but built in.

A build without tracing is made on the spot, from the runtime's own source: every function that asks whether the tracer
is active gets a second body in which the answer is the constant False, and Python's compiler drops what follows from
it. The two bodies are exchanged between repetitions, so both run on the same driver and the same stream.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from atops import Stream
from benchmarks.measuring.figures import Figure, at_most, compared
from benchmarks.measuring.measure import Effort, board, interleave

__all__ = ("tracing_cost", "without_trace_checks")

SIZE = 4096
RUNTIME = "atops.runtime."
PATIENCE = 60.0  # seconds; a gate that stays shut must not hang the bench


def tracing_cost(effort: Effort) -> Iterator[Figure]:
    """Yield the cost of a copy with tracing on, and with tracing off, against the alternatives one step below."""
    count = effort.size(5_000, 50)
    with board(trace=0) as plain, board() as traced:
        sides = [(device.create_stream(), device.allocate(SIZE), device.allocate(SIZE)) for device in (plain, traced)]

        def absent() -> float:
            with without_trace_checks():
                return _held_copies(*sides[0], count)

        times = interleave(
            effort.times(5),
            clean=True,  # the traced side fills a ring with tuples, which the collector would look at in the next
            absent=absent,
            off=lambda: _held_copies(*sides[0], count),
            on=lambda: _held_copies(*sides[1], count),
        )
    yield compared(
        "4 KiB copy, tracing off", times, "off", "absent",
        reference="checks removed", unit="µs", count=count, budget=at_most(1.03),
    )  # fmt: skip
    yield compared(
        "4 KiB copy, tracing on", times, "on", "off",
        reference="tracing off", unit="µs", count=count, budget=at_most(2.0),
    )  # fmt: skip


def _held_copies(stream: Stream, target: Any, source: Any, count: int) -> float:
    """Return the seconds to enqueue copies behind a closed gate and to run them once it is open.

    So the two halves do not take the interpreter lock from each other, whose hand-overs cost more than what is sought.
    """
    gate = threading.Event()
    stream.call(gate.wait)
    start = time.perf_counter()
    for _ in range(count):
        stream.copy(target, source)
    gate.set()
    stream.sync(PATIENCE)
    return time.perf_counter() - start


@contextmanager
def without_trace_checks() -> Iterator[None]:
    """Give the runtime's functions bodies that never ask for the tracer. For drivers without tracing, while idle."""
    if not BODIES:
        BODIES.update(_stripped_bodies())
    for function, (_, bare) in BODIES.items():
        function.__code__ = bare
    try:
        yield
    finally:
        for function, (whole, _) in BODIES.items():
            function.__code__ = whole


BODIES: dict[FunctionType, tuple[CodeType, CodeType]] = {}


def _stripped_bodies() -> dict[FunctionType, tuple[CodeType, CodeType]]:
    """Return the functions of the runtime that ask for the tracer, each with its body and the one without checks."""
    modules = [module for name, module in sys.modules.items() if name.startswith(RUNTIME)]
    found = {function for module in modules for function in _functions_of(module)}
    asking = [function for function in found if {"tracer", "active"} <= set(function.__code__.co_names)]
    if not any(function.__name__ == "drain" for function in asking):
        raise LookupError("no drain in the runtime asks whether the tracer is active; this benchmark measures nothing")
    return {function: (function.__code__, _stripped(function)) for function in asking}


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions that a module defines, at its top level and in its classes."""
    for value in vars(module).values():
        members = vars(value).values() if inspect.isclass(value) else (value,)
        yield from (each for each in members if inspect.isfunction(each) and each.__module__ == module.__name__)


def _stripped(function: FunctionType) -> CodeType:
    """Return the function's body with False in the place of each answer of the tracer."""
    if function.__code__.co_freevars:
        raise LookupError(f"{function.__qualname__} asks for the tracer from a closure; its body cannot be exchanged")
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list.clear()
    if _compiled(tree, function).co_code != function.__code__.co_code:
        raise LookupError(f"{function.__qualname__} was edited after it was loaded; its source is not what runs")
    aliases = {
        target.id
        for node in ast.walk(definition) if isinstance(node, ast.Assign) and _asks_tracer(node.value)
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    return _compiled(ast.fix_missing_locations(_Untraced(aliases).visit(tree)), function)


def _compiled(tree: ast.Module, function: FunctionType) -> CodeType:
    """Return the body of the one function in `tree`, as if it stood where `function` does.

    Behind its module's imports: a call of what lies in an imported module is compiled in another way.
    """
    whole = ast.parse(inspect.getsource(sys.modules[function.__module__]))
    imports = [node for node in whole.body if isinstance(node, ast.Import | ast.ImportFrom)]
    module = compile(ast.Module([*imports, *tree.body], []), function.__code__.co_filename, "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def _asks_tracer(node: ast.AST) -> bool:
    """Tell whether an expression is `....tracer.active` or `tracer.active`."""
    if not isinstance(node, ast.Attribute) or node.attr != "active":
        return False
    owner = node.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "tracer") or (
        isinstance(owner, ast.Name) and owner.id == "tracer"
    )


class _Untraced(ast.NodeTransformer):
    """Put False wherever the tracer, or a local name for its answer, is asked."""

    def __init__(self, aliases: set[str]) -> None:
        self.aliases = aliases

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace the question itself."""
        return ast.Constant(False) if _asks_tracer(node) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace a name that holds the answer, where it is read."""
        asked = node.id in self.aliases and isinstance(node.ctx, ast.Load)
        return ast.Constant(False) if asked else node
