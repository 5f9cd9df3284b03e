"""The rules for functions of a kernel source, checked in the syntax tree: TOPS C++, 8.1 to 8.4 and 8.6 to 8.8.

Each fault is reported at its place; nothing is executed. Names have the values that the function would find. Branches
that the macros of the compile target rule out are skipped where names are looked for that the target lacks, as a
preprocessor would drop them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from atops.base.dtypes import kernel_dtype
from atops.base.errors import InvalidType
from atops.base.python_ast import expression_tree
from atops.device.dte.operations import OPERATIONS
from atops.device.span.span import Span
from atops.kernels.inspection import FunctionNode, bound_names, own_nodes
from atops.kernels.memory.arrays import dynamic_shared
from atops.kernels.memory.device_variables import Variable
from atops.kernels.source.constant_folding import AlreadyReported, NotConstant, fold, resolve
from atops.kernels.source.diagnostics import DiagnosticLog, Located, SourceText
from atops.kernels.source.names import DECORATORS, language
from atops.kernels.stores import lost_stores, stores_nothing
from atops.kernels.sync import syncblocks
from atops.kernels.tables.vectors import FUNCTIONS, VECTORS
from atops.kernels.target import TARGETS, CompileTarget, macros_of

__all__ = ("FunctionChecks", "decorators_of")

_KERNELS = frozenset(("kernel", "cooperative"))
_REQUESTS = ("Request", "DteEvent")  # awaitable results, by the annotation of the function
_METHODS = ("arrive_and_wait", "wait")  # of barriers and events, whose types are not known here
_SCALARS = (Any, object, int, float, bool, Span, np.ndarray)
_TYPES = "k.Span, an element type such as np.float32 or 'bfloat16', int, float or bool"


def decorators_of(node: FunctionNode, names: Mapping[str, object]) -> dict[str, ast.expr]:
    """Return which of the language's decorators a function has, each with its expression. Others are left out."""
    found: dict[str, ast.expr] = {}
    for each in node.decorator_list:
        try:
            value = resolve(each.func if isinstance(each, ast.Call) else each, names)
        except NotConstant:
            continue
        found.update({name: each for name, decorator in DECORATORS.items() if decorator is value})
    return found


class FunctionChecks:
    """The rules for one function at the top of a source; `run` goes through them all."""

    def __init__(self, node: FunctionNode, names: Mapping[str, object], source: SourceText, log: DiagnosticLog) -> None:
        self.node = node
        self.names = names
        self.source = source
        self.log = log
        self.decorators = decorators_of(node, names)
        self.is_kernel = bool(self.decorators.keys() & _KERNELS)
        self.bound = bound_names(node)
        self.what = f"{'kernel' if self.is_kernel else 'function'} {node.name}"

    def run(self) -> None:
        """Report what is wrong with the function."""
        self._decorators()
        self._defaults()
        for node in ast.walk(self.node):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._awaits(node)
                if node is not self.node and decorators_of(node, self.names).keys() & _KERNELS:
                    self.error(f"kernel {node.name} is defined inside {self.what}; define it at the top", node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self.error("an import inside a function; import at the top of the source", node)
            elif isinstance(node, ast.ClassDef):
                self.error(f"class {node.name} inside {self.what}; kernels define no classes", node)
            elif isinstance(node, ast.Global):
                listed = ", ".join(node.names)
                self.error(f"`global {listed}`: threads share memory; declare a k.device_variable at the top", node)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._dropped(node.value)
            elif isinstance(node, ast.Call):
                self._kernel_call(node)
        self._stores()
        if self.is_kernel:
            self._signature()
            self._results()
            self._dynamic_shared()
            self._advice()
        self._architecture()

    def error(self, message: str, node: Located) -> None:
        """Report an error in the function's text."""
        self.log.error(message, self.source, node)

    def _stores(self) -> None:
        """Report assignments to names of variables, which would bind names of the function and store nothing."""
        reported: set[str] = set()
        for node in ast.walk(self.node):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Store) or node.id in reported:
                continue
            if isinstance(self.names.get(node.id), ast.Assign | ast.AnnAssign | Variable):
                reported.add(node.id)
                self.error(f"{self.what} {stores_nothing(node.id)}", node)
        for lost in lost_stores(self.node, self._meaning):
            if lost.name not in reported:
                self.error(f"{self.what} {stores_nothing(lost.name, lost.what)}", lost.node)

    # How it is declared.

    def _decorators(self) -> None:
        known = list(self.decorators.values())
        for each in self.node.decorator_list:
            if each not in known:
                text = ast.unparse(each)
                self.error(f"unknown decorator '{text}'; expected k.kernel, k.cooperative, k.device or k.host", each)
            elif isinstance(each, ast.Call):
                self._decorator_arguments(each)
        for other in sorted(self.decorators.keys() & {"device", "host"}) if self.is_kernel else ():
            self.error(f"{self.node.name} is a kernel and a {other} function; it can be one of them", self.node)

    def _decorator_arguments(self, call: ast.Call) -> None:
        if self.decorators.get("kernel") is not call or call.args:
            forms = "@k.kernel, @k.kernel(name=..., cooperative=..., arch=...) or @k.device"
            return self.error(f"decorator '{ast.unparse(call)}'; expected {forms}", call)
        for each in call.keywords:
            kind = {"name": str, "cooperative": bool, "arch": str}.get(each.arg or "")
            if kind is None:
                self.error(f"@k.kernel has no argument '{each.arg}'; it has name, cooperative and arch", each)
                continue
            try:
                value = fold(each.value, self.names)
            except AlreadyReported:
                continue
            except NotConstant as error:
                self.error(f"the {each.arg} of a kernel is a constant; {error}", error.node)
                continue
            if type(value) is not kind or value == "":
                self.error(f"the {each.arg} of a kernel expects a {kind.__name__}, got {value!r}", each.value)

    def _names_as_compiled(self) -> Mapping[str, object]:
        """Return the names, with the macros of the architecture that a kernel itself says it is compiled for."""
        call = self.decorators.get("kernel")
        for each in call.keywords if isinstance(call, ast.Call) else ():
            if each.arg == "arch" and (target := TARGETS.get(ast.unparse(each.value).strip("'\""))) is not None:
                return {**self.names, **macros_of(target)}
        return self.names

    def _defaults(self) -> None:
        for each in (*self.node.args.defaults, *self.node.args.kw_defaults):
            if each is not None:
                try:
                    fold(each, self.names)
                except AlreadyReported:
                    continue
                except NotConstant as error:
                    self.error(f"a default is a constant; {error}", error.node)

    def _signature(self) -> None:
        arguments = self.node.args
        for star, each in (("*", arguments.vararg), ("**", arguments.kwarg)):
            if each is not None:
                self.error(f"{self.what}: parameter {star}{each.arg} has no fixed number; kernels name each", each)
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if each.annotation is not None and not self._is_type(each.annotation):
                message = f"annotation '{ast.unparse(each.annotation)}' of parameter {each.arg} is unknown"
                self.error(f"{message}; expected {_TYPES}", each.annotation)
        returns = self.node.returns
        if returns is not None and not _is_none(returns):
            self.error(f"{self.what} is annotated with a result; a kernel returns nothing", returns)

    def _is_type(self, node: ast.expr) -> bool:
        """Return whether a parameter can be annotated so: with an element type, a span, or a type of the language."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self._is_type(expression_tree(node.value).body) or _is_element(node.value)
            except (SyntaxError, ValueError):
                return False
        if isinstance(node, ast.Subscript):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self._is_of_language(node.value) and all(map(self._is_argument, inner))
        try:
            value = resolve(node, {**_PYTHON_TYPES, **self.names})
        except AlreadyReported:
            return True
        except NotConstant:
            return False
        return any(value is each for each in _SCALARS) or _is_element(value) or self._is_of_language(node)

    def _is_argument(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) or self._is_type(node)

    def _is_of_language(self, node: ast.expr) -> bool:
        """Return whether an expression names a type that the language defines."""
        try:
            value = resolve(node, self.names)
        except NotConstant:
            return False
        return isinstance(value, type) and value.__module__.startswith("atops.")

    # What it does.

    def _awaits(self, function: FunctionNode) -> None:
        """Report `await` in a plain function, and generators."""
        for node in own_nodes(function):
            if isinstance(node, ast.Yield | ast.YieldFrom) and self.is_kernel and function is self.node:
                self.error(f"{self.what} is a generator; a kernel awaits and yields nothing", node)
            waits = isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith)
            if waits and isinstance(function, ast.FunctionDef):
                assert isinstance(node, ast.expr | ast.stmt)
                self.error(f"'await' in {function.name}, a plain def; make it `async def {function.name}`", node)

    def _results(self) -> None:
        for node in own_nodes(self.node):
            if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
                self.error(f"{self.what} returns a value; a kernel returns nothing, it stores its results", node)

    def _dropped(self, call: ast.Call) -> None:
        """Report a request or a coroutine that is made by a statement of its own and not awaited."""
        text, value = ast.unparse(call.func), self._meaning(call.func)
        if isinstance(value, ast.AsyncFunctionDef) and not decorators_of(value, self.names).keys() & _KERNELS:
            self.error(f"{text}() is a coroutine and does nothing until it is awaited: `await {text}(...)`", call)
        elif inspect.isfunction(value):
            returns = inspect.unwrap(value).__annotations__.get("return")
            if returns == "DteEvent":
                self.log.warning(
                    f"the event of {text}() is lost; `await {text}(...)`, or keep the event and await it later",
                    self.source, call,
                )  # fmt: skip
            elif returns in _REQUESTS:
                self.error(f"{text}() is a request and does nothing until it is awaited: `await {text}()`", call)
        elif value is None and isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            self.log.warning(f"{text}() is not awaited, as that of a barrier or an event must be", self.source, call)

    def _kernel_call(self, call: ast.Call) -> None:
        value = self._meaning(call.func)
        function = value if isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef) else None
        if function is not None and decorators_of(function, self.names).keys() & _KERNELS:
            self.error(f"{self.what} calls kernel {function.name}; kernels call functions", call)

    def _dynamic_shared(self) -> None:
        nodes = (node for node in ast.walk(self.node) if isinstance(node, ast.expr))
        uses = [node for node in nodes if self._meaning(node) is dynamic_shared]
        for each in uses[1:]:
            self.error(f"{self.what} asks for dynamic shared memory a second time; a kernel has one", each)
            self.log.note("the first is here", self.source, uses[0])

    def _advice(self) -> None:
        """Warn of what is allowed, but probably a mistake."""
        together = "cooperative" in self.decorators or any(
            each.arg == "cooperative" for call in self.decorators.values() if isinstance(call, ast.Call)
            for each in call.keywords
        )  # fmt: skip
        for node in ast.walk(self.node):
            if not isinstance(node, ast.Call):
                continue
            if self._meaning(node.func) is syncblocks and not together:
                message = f"{self.what} uses syncblocks and is not declared cooperative: `@k.cooperative`"
                self.log.warning(message, self.source, node)

    def _architecture(self) -> None:
        """Warn of each operation, function and vector type that the function names and its compile target lacks.

        It is a warning, as only a run shows whether the line is reached.
        """
        names = self._names_as_compiled()
        target = _target_of(names)
        if target is None:
            return
        level = target.figures.gcu_arch
        lacking = {id(getattr(language(), name)): (name, first) for name, first in _first_chips() if first > level}
        methods = {f"config_{row.name}": row.gcu_arch for row in OPERATIONS.values() if row.gcu_arch > level}
        if not lacking and not methods:
            return
        for node in _reached(self.node.body, names):
            found = lacking.get(id(value)) if (value := self._meaning(node)) is not None else None
            if found is None and isinstance(node, ast.Attribute) and node.attr in methods:
                found = node.attr, methods[node.attr]
            if found is not None:
                assert isinstance(node, ast.expr)
                message = f"{found[0]} needs gcu{found[1]}; the source is compiled for {target.name}"
                self.log.warning(f"{message}. `if k.__AGCU_ARCH__ >= {found[1]}:` keeps it apart", self.source, node)

    def _meaning(self, node: ast.AST) -> object:
        """Return the value of a global name, or of a dotted one; None where it is the function's own or unknown."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in self.bound or not isinstance(node, ast.expr):
            return None
        try:
            return resolve(node, self.names)
        except NotConstant:
            return None


_PYTHON_TYPES: Mapping[str, object] = {"int": int, "float": float, "bool": bool, "object": object}


def _is_element(value: object) -> bool:
    if not isinstance(value, type | str | np.dtype):
        return False
    try:
        kernel_dtype(value)
    except InvalidType:
        return False
    return True


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (None, "None")


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
