"""Mutants of a source: copies with one small fault each, made by mutmut's operators and two of our own.

Only what functions and lambdas do is changed. Imports, annotations, decorators, defaults, docstrings and the text of
strings stay as they are.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string


@dataclass(frozen=True)
class Mutant:
    """One fault: the file, the line (from 1), the operator that made it, and the texts before and after it."""

    path: str
    line: int
    operator: str
    original: str
    text: str

    @property
    def diff(self) -> str:
        """Return the lines that differ, without context."""
        lines = difflib.unified_diff(self.original.splitlines(), self.text.splitlines(), lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def drop_statement(node: cst.Expr) -> Iterable[cst.CSTNode]:
    """Replace a call or an await that stands alone by `pass`."""
    if not isinstance(node.value, cst.SimpleString | cst.ConcatenatedString | cst.Ellipsis | cst.Yield):
        yield cst.Pass()


def negate_condition(node: cst.If | cst.While) -> Iterable[cst.CSTNode]:
    """Turn the condition round."""
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test))


OPERATORS = [
    *((kind, make) for kind, make in mutation_operators if make is not operator_string),
    (cst.Expr, drop_statement),
    (cst.If, negate_condition),
    (cst.While, negate_condition),
]


@dataclass(frozen=True)
class _Site:
    """A node, what replaces it, its line, and the operator's name."""

    node: cst.CSTNode
    replacement: cst.CSTNode
    line: int
    operator: str


class _Sites(cst.CSTVisitor):
    """Collects the sites of a module."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Site] = []
        self._inside = 0  # functions and lambdas round the node

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Import | cst.ImportFrom | cst.Annotation | cst.Decorator | cst.Parameters):
            return False
        if self._inside:
            line = self.get_metadata(PositionProvider, node).start.line
            for kind, make in OPERATORS:
                if isinstance(node, kind):
                    self.found += (_Site(node, new, line, make.__name__) for new in make(node))
        self._inside += isinstance(node, cst.FunctionDef | cst.Lambda)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        self._inside -= isinstance(original_node, cst.FunctionDef | cst.Lambda)


def sample(sources: dict[str, str], count: int, chance: Random) -> Iterator[Mutant]:
    """Yield `count` mutants of the sources (path to text), or all if there are fewer.

    The operators take turns, so that the mix of faults is the same whatever the sources are made of.
    """
    modules, turns = {}, {}
    for path, text in sorted(sources.items()):
        wrapper = MetadataWrapper(cst.parse_module(text))
        wrapper.visit(sites := _Sites())
        modules[path] = wrapper.module
        for site in sites.found:
            turns.setdefault(site.operator, []).append((path, site))
    piles = [turns[name] for name in sorted(turns)]
    for pile in piles:
        chance.shuffle(pile)
    while count and any(piles):
        for pile in filter(None, piles):
            path, site = pile.pop()
            text = modules[path].deep_replace(site.node, site.replacement).code
            if count and text != sources[path] and _compiles(text):
                count -= 1
                yield Mutant(path, site.line, site.operator, sources[path], text)


def _compiles(text: str) -> bool:
    """Say whether the text is Python; `return` in place of `break` may not be, outside a function."""
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True
