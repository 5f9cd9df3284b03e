"""What may stand at the top of a kernel source: definitions, constants, declarations, imports, and `if` between them.

Nothing there is executed while it is read: constants are folded, and functions only compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from atops.kernels.memory.device_variables import constant, device_variable
from atops.kernels.source.constant_folding import NotConstant, fold, resolve
from atops.kernels.source.diagnostics import DiagnosticLog, SourceText, nearest
from atops.kernels.source.function_source import FunctionNode
from atops.kernels.source.names import importable, predefined
from atops.kernels.source.python_unit import Bind, Include, PythonUnit, UnitStep, module_of

__all__ = ("Declaration", "Headers", "ModuleReader")

_UNKNOWN = object()  # what a name stands for whose definition is wrong
_DECLARATIONS = (device_variable, constant)
_ALLOWED = "a kernel source has imports, constants, device variables and functions there"


class Headers:
    """The named texts that a source may import, read when they are first asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = {name.removesuffix(".py").replace("/", "."): (name, text) for name, text in texts.items()}
        self.units: dict[str, PythonUnit | None] = {}
        self.names: dict[str, dict[str, Any]] = {}
        self.reading: list[str] = []


class Declaration:
    """A device variable that is declared, as far as it is known before anything runs. `node` is its statement."""

    def __init__(self, name: str, node: ast.stmt) -> None:
        self.name = name
        self.node = node


class ModuleReader:
    """Reads the statements at the top of one text, in order.

    `names` are the values known so far: constants, modules, functions and declarations by their nodes. `steps` are
    done already, `pending` are definitions yet to be compiled, each with its place among the steps.
    """

    def __init__(self, source: SourceText, log: DiagnosticLog, macros: Mapping[str, Any], headers: Headers) -> None:
        self.source = source
        self.log = log
        self.headers = headers
        self.predefined = {**predefined(), **macros}
        self.names: dict[str, Any] = dict(self.predefined)
        self.lines: dict[str, ast.stmt] = {}
        self.steps: list[UnitStep | FunctionNode | Declaration] = []
        self.incomplete = False  # names are missing that an import would have brought

    def read(self, statements: list[ast.stmt]) -> None:
        """Read statements; each that may not stand there is an error of its own."""
        for statement in statements:
            rule = _RULES.get(type(statement))
            if rule is None:
                self._refuse(statement)
            else:
                rule(self, statement)

    def error(self, message: str, node: Any) -> None:
        """Report an error in this text."""
        self.log.error(message, self.source, node)

    def _refuse(self, node: ast.stmt) -> None:
        kind = _KINDS.get(type(node), "this statement")
        self.error(f"{kind} cannot stand at the top of a kernel source; {_ALLOWED}", node)

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring, or `...`
            self._refuse(node)

    def _pass(self, node: ast.Pass) -> None:
        """Take a statement that does nothing."""

    def _if(self, node: ast.If) -> None:
        """Take the branch that the constants choose, as the preprocessor does (TOPS C++, 8.1)."""
        try:
            chosen = fold(node.test, self.names)
        except NotConstant as error:
            return self.error(f"the condition of an `if` at the top of a source is a constant; {error}", error.node)
        self.read(node.body if chosen else node.orelse)

    def _class(self, node: ast.ClassDef) -> None:
        kernels = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        decorated = [each for each in kernels if each.decorator_list]
        for each in decorated:
            self.error(f"kernel {each.name} is a member of {node.name}; a kernel is a plain function", each)
        if not decorated:
            self._refuse(node)

    def _function(self, node: FunctionNode) -> None:
        if self._bind(node.name, node, node):
            self.steps.append(node)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assigned(node.target, node.value, node)
        else:
            self.error("a declaration without a value; give one", node)

    def _assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assigned(target, node.value, node)

    def _assigned(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> None:
        if not isinstance(target, ast.Name):
            return self.error("a constant is assigned to one plain name", target)
        self.names.setdefault(target.id, _UNKNOWN)  # what is wrong with it is said once
        if isinstance(value, ast.Call) and self._declares(value):
            return self._declare(target.id, value, node)
        try:
            folded = fold(value, self.names)
        except NotConstant as error:
            if isinstance(value, ast.List | ast.Dict | ast.Set):
                return self.error(f"'{target.id}' could be changed; a constant is a number, a text or a tuple", value)
            return self.error(f"'{target.id}' is no constant: {error}", error.node)
        if isinstance(folded, list):
            return self.error(f"'{target.id}' could be changed; a constant is a number, a text or a tuple", value)
        if self._bind(target.id, folded, node):
            self.steps.append(Bind(target.id, folded))

    def _declares(self, value: ast.Call) -> bool:
        try:
            return any(resolve(value.func, self.names) is each for each in _DECLARATIONS)
        except NotConstant:
            return False

    def _declare(self, name: str, call: ast.Call, node: ast.stmt) -> None:
        """Take a device variable, whose arguments are constants; it bears the name it is assigned to."""
        for each in (*call.args, *(given.value for given in call.keywords)):
            try:
                fold(each, self.names)
            except NotConstant as error:
                return self.error(f"device variable '{name}': {error}", error.node)
        if all(given.arg != "name" for given in call.keywords):
            bears = ast.keyword("name", ast.Constant(name))
            call.keywords.append(ast.fix_missing_locations(ast.copy_location(bears, call)))
        declaration = Declaration(name, node)
        if self._bind(name, declaration, node):
            self.steps.append(declaration)

    def _bind(self, name: str, value: Any, node: ast.stmt) -> bool:
        """Define a name, once. Returns whether it was free."""
        if name in self.lines:
            self.error(f"redefinition of '{name}'", node)
            self.log.note("it was defined here", self.source, self.lines[name])
            return False
        if name in self.predefined and value is not self.predefined[name]:
            self.error(f"'{name}' is a name of the language here; choose another", node)
            return False
        self.names[name] = value
        self.lines[name] = node
        return True

    # Imports.

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            found, include = self._module(alias.name, alias)
            if found is None:
                self.names.setdefault(alias.asname or alias.name.partition(".")[0], _UNKNOWN)
                continue
            if alias.asname is None and "." in alias.name:
                self.error(f"write `import {alias.name} as ...`", alias)
            elif include is None:
                self._import_as(alias.asname or alias.name, found, node)
            elif self._bind(alias.asname or alias.name, found, node):
                self.steps.append(Include(include, {}, alias.asname or alias.name))

    def _import_as(self, name: str, value: Any, node: ast.stmt) -> None:
        """Bind what was imported, which may be there already under this name."""
        if self.names.get(name) is not value and self._bind(name, value, node):
            self.steps.append(Bind(name, value))

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__" and not node.level:
            return
        found, include = self._module("." * node.level + (node.module or ""), node)
        if found is None:
            self.incomplete |= any(alias.name == "*" for alias in node.names)
            self.names.update({alias.asname or alias.name: _UNKNOWN for alias in node.names})
            return
        offered = {name: each for name, each in vars(found).items() if not name.startswith("__")}
        taken: dict[str, str] = {}
        for alias in node.names:
            if alias.name == "*" and include is not None:
                taken |= {name: name for name in offered if self._header_name(name, include, offered[name], node)}
            elif alias.name not in offered:
                self.error(f"'{node.module}' has no '{alias.name}'{nearest(alias.name, offered)}", alias)
                self.names.setdefault(alias.asname or alias.name, _UNKNOWN)
            elif include is None:
                self._import_as(alias.asname or alias.name, offered[alias.name], node)
            elif self._bind(alias.asname or alias.name, offered[alias.name], node):
                taken[alias.asname or alias.name] = alias.name
        if include is not None:
            self.steps.append(Include(include, taken))

    def _header_name(self, name: str, include: PythonUnit, value: Any, node: ast.stmt) -> bool:
        return name not in include.predefined and self._bind(name, value, node)

    def _module(self, name: str, node: Any) -> tuple[Any, PythonUnit | None]:
        """Return a module's names, and its unit if it is a header. Reports one that is neither."""
        if name in self.headers.texts:
            return self._header(name, node)
        known = importable()
        if name in known:
            return known[name], None
        offered = ", ".join(sorted({*known, *self.headers.texts}))
        self.error(f"'{name}' cannot be imported into a kernel source; {offered} can", node)
        return None, None

    def _header(self, name: str, node: Any) -> tuple[Any, PythonUnit | None]:
        headers = self.headers
        if name in headers.reading:
            self.error(f"header '{name}' includes itself: {' -> '.join([*headers.reading, name])}", node)
            return None, None
        if name not in headers.units:
            headers.reading.append(name)
            headers.units[name] = self.read_header(*headers.texts[name])
            headers.reading.remove(name)
        unit = headers.units[name]
        if unit is None:
            self.log.note(f"header '{name}' is imported here", self.source, node)
            return None, None
        return module_of(name, headers.names[name]), unit

    def read_header(self, name: str, text: str) -> PythonUnit | None:
        """Read a header; what reads whole texts says how."""
        raise NotImplementedError


_KINDS: Mapping[type[ast.stmt], str] = {
    ast.For: "a loop", ast.While: "a loop", ast.With: "`with`", ast.Try: "`try`", ast.Delete: "`del`",
    ast.AugAssign: "a change of a variable", ast.ClassDef: "a class", ast.Assert: "`assert`", ast.Raise: "`raise`",
    ast.Global: "`global`", ast.Expr: "an expression",
}  # fmt: skip

_RULES: Mapping[type[ast.stmt], Any] = {
    ast.Expr: ModuleReader._expression, ast.Pass: ModuleReader._pass, ast.If: ModuleReader._if,
    ast.ClassDef: ModuleReader._class, ast.FunctionDef: ModuleReader._function,
    ast.AsyncFunctionDef: ModuleReader._function, ast.Assign: ModuleReader._assign,
    ast.AnnAssign: ModuleReader._annotated, ast.Import: ModuleReader._import,
    ast.ImportFrom: ModuleReader._import_from,
}  # fmt: skip
