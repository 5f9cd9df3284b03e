"""What is built in and switched off costs: tracing, and the detectors of races; and a small copy with tracing on.

Every function that asks whether the tracer is active gets a second body, in which the answer is the constant False; and
where one asks whether a thread, a block, a launch or a board has a detector, that it has none.
"""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from atops import Stream
from benchmarks.measuring.bodies import Bodies, Definition, exchanged, other_bodies
from benchmarks.measuring.figures import Figure, at_most, compared
from benchmarks.measuring.measure import Effort, board, interleave, timed
from benchmarks.rows.barriers import THREADS, rounds
from benchmarks.rows.vector_add import Vectors, add_tiles

__all__ = ("detectors_off", "tracing_cost", "without_detector_hooks", "without_trace_checks")

SIZE = 4096
RUNTIME = "atops.runtime."
HOOKS = {"race", "races", "detector"}  # what threads, blocks, launches and boards call theirs; None where they are off
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
            True,  # the traced side fills a ring with tuples, which the collector would look at in the next
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


def without_trace_checks() -> AbstractContextManager[None]:
    """Give the runtime's functions bodies that never ask for the tracer. For drivers without tracing, while idle."""
    if not WITHOUT_CHECKS:
        WITHOUT_CHECKS.update(other_bodies(RUNTIME, {"tracer", "active"}.issubset, _untraced))
        if not any(function.__name__ == "drain" for function in WITHOUT_CHECKS):
            raise LookupError("no drain in the runtime asks whether the tracer is active; this measures nothing")
    return exchanged(WITHOUT_CHECKS)


WITHOUT_CHECKS: Bodies = {}


def _untraced(definition: Definition) -> ast.NodeTransformer:
    """Return what puts False in the place of each answer of the tracer."""
    return _Untraced({
        target.id
        for node in ast.walk(definition) if isinstance(node, ast.Assign) and _asks_tracer(node.value)
        for target in node.targets if isinstance(target, ast.Name)
    })  # fmt: skip


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


# ---- detectors of races


def detectors_off(effort: Effort) -> Iterator[Figure]:
    """Yield the time of barriers, of a vector add and of copies, detectors off, beside the same without hooks."""
    count, copies = effort.size(2_000, 5), effort.size(5_000, 20)
    with board() as device:
        stream, vectors = device.create_stream(), Vectors(device, effort.size(1 << 20, 1 << 12))
        target, source = device.allocate(SIZE), device.allocate(SIZE)

        def barriers() -> None:
            stream.launch(rounds, (1, THREADS), np.int32(count))
            stream.sync()

        for name, side, unit, each in (
            ("round of barriers", timed(barriers), "µs", count),
            ("vector add 1M, 32 KiB tiles", timed(lambda: vectors.launch(add_tiles)), "ms", 1),
            ("4 KiB copy", lambda: _held_copies(stream, target, source, copies), "µs", copies),
        ):
            times = interleave(effort.times(10), off=side, absent=_without_hooks(side))
            yield compared(
                f"{name}, detectors off", times, "off", "absent",
                reference="hooks removed", unit=unit, count=each, budget=at_most(1.02),
            )  # fmt: skip


def _without_hooks(side: Callable[[], float]) -> Callable[[], float]:
    def without() -> float:
        with without_detector_hooks():
            return side()

    return without


def without_detector_hooks() -> AbstractContextManager[None]:
    """Give functions bodies that never ask for a detector. For drivers that have none, while idle."""
    if not WITHOUT_HOOKS:
        found = other_bodies("atops.", lambda names: not HOOKS.isdisjoint(names), lambda definition: _Unwatched())
        WITHOUT_HOOKS.update(found)
        missing = {"append", "drain", "_round", "__await__"} - {function.__name__ for function in WITHOUT_HOOKS}
        if missing:
            raise LookupError(f"{missing} ask for no detector; this measures nothing of them")
    return exchanged(WITHOUT_HOOKS)


WITHOUT_HOOKS: Bodies = {}


class _Unwatched(ast.NodeTransformer):
    """Answer that there is no detector wherever one is compared with None."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Replace the question."""
        asked = node.left.value if isinstance(node.left, ast.NamedExpr) else node.left
        if not isinstance(asked, ast.Attribute) or asked.attr not in HOOKS:
            return self.generic_visit(node)
        match node.ops, node.comparators:
            case [ast.Is()], [ast.Constant(None)]:
                return ast.Constant(True)
            case [ast.IsNot()], [ast.Constant(None)]:
                return ast.Constant(False)
            case _:
                return self.generic_visit(node)
