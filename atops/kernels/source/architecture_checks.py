"""Names in a source that its compile target lacks. TOPS C++, 8.3, 8.4, 8.6 and 8.7.

Branches that the macros of the target rule out are skipped, as a preprocessor would drop them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping

from atops.device.dte.operations import OPERATIONS
from atops.kernels.builtin_variables import macros_of
from atops.kernels.source.constant_folding import NotConstant, fold
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText
from atops.kernels.source.function_source import FunctionNode
from atops.kernels.source.names import language
from atops.kernels.tables.functions import FUNCTIONS
from atops.kernels.tables.vectors import VECTORS
from atops.kernels.target import TARGETS, CompileTarget

__all__ = ("check_architecture",)

_CONFIGURE = "config_"


def check_architecture(
    function: FunctionNode,
    names: Mapping[str, object],
    meaning: Callable[[ast.AST], object],
    source: SourceText,
    log: DiagnosticLog,
) -> None:
    """Warn of each operation, function and vector type that a function names and its compile target lacks.

    The macros among `names` tell the target. `meaning` returns the value of a global name, None for a name of the
    function itself. It is a warning, as only a run shows whether the line is reached.
    """
    target = _target_of(names)
    if target is None:
        return
    level = target.figures.gcu_arch
    lacking = {id(getattr(language(), name)): (name, first) for name, first in _first_chips() if first > level}
    methods = {f"{_CONFIGURE}{row.name}": row.gcu_arch for row in OPERATIONS.values() if row.gcu_arch > level}
    if not lacking and not methods:
        return
    for node in _reached(function.body, names):
        found = lacking.get(id(value)) if (value := meaning(node)) is not None else None
        if found is None and isinstance(node, ast.Attribute) and node.attr in methods:
            found = node.attr, methods[node.attr]
        if found is not None:
            assert isinstance(node, ast.expr)
            message = f"{found[0]} needs gcu{found[1]}; the source is compiled for {target.name}"
            log.warning(f"{message}. `if k.__AGCU_ARCH__ >= {found[1]}:` keeps it apart", source, node)


def _target_of(names: Mapping[str, object]) -> CompileTarget | None:
    """Return the target that defines the macros so; None where the text redefines one."""
    for target in TARGETS.values():
        if all(name in names and names[name] == value for name, value in macros_of(target).items()):
            return target
    return None


def _first_chips() -> Iterator[tuple[str, int]]:
    """Yield the language's names that not every chip has, each with its first chip."""
    for row in OPERATIONS.values():
        yield from ((row.name, row.gcu_arch), (f"{row.name}_async", row.gcu_arch))
    yield from ((row.name, row.gcu_arch) for row in FUNCTIONS)
    for construct in VECTORS:
        if (name := construct.python.removeprefix("k.")).isidentifier():
            yield name, construct.gcu_arch


def _reached(nodes: Iterable[ast.AST], names: Mapping[str, object]) -> Iterator[ast.AST]:
    """Yield all nodes and those below them, in no order, without the branches that constants rule out."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        below = ast.iter_child_nodes(node)
        if isinstance(node, ast.If | ast.IfExp):
            try:
                taken = node.body if fold(node.test, names) else node.orelse
                below = iter(taken if isinstance(taken, list) else [taken])
            except NotConstant:
                pass
        pending.extend(below)
