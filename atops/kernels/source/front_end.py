"""The front end: a source text in, a unit out, and every fault of the text reported with its place.

The source language is Python. Reading executes nothing of a text: it is parsed, its constants are folded and its
functions compiled. Last, the definitions of a text without faults are made once, so that what only the language's own
objects can check is reported as well.
"""

from __future__ import annotations

import ast
import os.path
import re
from collections.abc import Callable, Mapping
from types import CodeType, ModuleType, SimpleNamespace

from atops.base.python_ast import expression_tree
from atops.kernels.inspection import FunctionNode
from atops.kernels.memory.device_variables import constant, device_variable
from atops.kernels.source.constant_folding import UNKNOWN, AlreadyReported, NotConstant, fold, resolve
from atops.kernels.source.diagnostics import DiagnosticLog, Located, SourceText, nearest
from atops.kernels.source.function_checks import FunctionChecks
from atops.kernels.source.names import check_names, importable, predefined
from atops.kernels.source.options import CompileOptions
from atops.kernels.source.python_unit import (
    TOO_DEEP,
    Bind,
    Include,
    PythonUnit,
    Run,
    UnitStep,
    compile_definition,
    module_of,
    parse,
)

__all__ = ("is_cxx", "read_source")

_CXX_MARKS = re.compile(r'__(global|device|host|shared)__|^\s*#\s*include\s*[<"]|<<<|^\s*extern\s+"C"', re.MULTILINE)
_CXX_FILES = (".cpp", ".cc", ".cxx", ".cu", ".tops", ".hip", ".h", ".hpp", ".c")

_DECLARATIONS = (device_variable, constant)
_ALLOWED = "a kernel source has imports, constants, device variables and functions there"


def is_cxx(source: SourceText) -> bool:
    """Return whether a text is TOPS C++: by its name's extension, or by what no Python has."""
    if os.path.splitext(source.name)[1].lower() in _CXX_FILES:
        return True
    return _CXX_MARKS.search(source.text) is not None and parse(source, DiagnosticLog()) is None  # a comment may quote


def read_source(
    source: SourceText, headers: Mapping[str, str], options: CompileOptions, log: DiagnosticLog
) -> PythonUnit | None:
    """Read a text in Python and its headers. Returns None where `log` has an error."""
    before = len(log.errors)
    macros: dict[str, object] = dict(options.built_in)
    for name, text in options.defines:
        macros[name] = _macro(name, text, source, log)
    try:
        unit = _Reader(source, log, macros, _Headers(headers)).unit()
        if unit is not None and len(log.errors) == before:
            _make_once(unit, log)
    except (RecursionError, MemoryError):
        log.error(TOO_DEEP, source)
        return None
    return unit if len(log.errors) == before else None


def _macro(name: str, text: str, source: SourceText, log: DiagnosticLog) -> object:
    """Return the value of a macro of the command line: a constant of Python."""
    try:
        return fold(expression_tree(text.strip()).body, {**predefined(), "true": True, "false": False})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        log.error(f"macro {name}={text} is no constant; expected a number, a text in quotes or a tuple", source)
    except NotConstant as error:
        log.error(f"macro {name}={text}: {error}", source)
    return 0


def _make_once(unit: PythonUnit, log: DiagnosticLog) -> None:
    """Make the definitions, so that what they refuse themselves becomes a diagnostic at their line."""
    made: dict[int, dict[str, object]] = {}
    for each in unit.units():
        space = made[id(each)] = each.fresh()
        for step in each.steps:
            try:
                each.take(step, space, made)
            except Exception as error:
                if isinstance(step, Run):  # a name that a header lacks now was reported there
                    log.error(str(error), each.source, step.node)
    for space in made.values():
        space.clear()  # functions and their names refer to each other: without this, variables would be freed late


class _Headers:
    """The named texts that a source may import, read when they are first asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = {name.removesuffix(".py").replace("/", "."): (name, text) for name, text in texts.items()}
        self.units: dict[str, PythonUnit | None] = {}
        self.names: dict[str, dict[str, object]] = {}
        self.reading: list[str] = []


class _Reader:
    """Reads one text: parses it, reads the statements at its top in order, checks and compiles its functions.

    `names` are the values known so far: constants, modules, functions and declarations by their nodes. `steps` holds
    what is done already and the definitions yet to be compiled, in the order of the text.
    """

    def __init__(self, source: SourceText, log: DiagnosticLog, macros: Mapping[str, object], headers: _Headers) -> None:
        self.source = source
        self.log = log
        self.headers = headers
        self.predefined = {**predefined(), **macros}
        self.names: dict[str, object] = dict(self.predefined)
        self.lines: dict[str, ast.stmt] = {}
        self.steps: list[UnitStep | ast.stmt] = []
        self.incomplete = False  # names are missing that an import would have brought

    def unit(self) -> PythonUnit | None:
        """Return the text as a unit; None where it has an error."""
        before = len(self.log.errors)
        tree = parse(self.source, self.log)
        if tree is None:
            return None
        self.read(tree.body)
        steps: list[UnitStep] = []
        for step in self.steps:
            if isinstance(step, Bind | Include | Run):
                steps.append(step)
            elif (code := self._compiled(step)) is not None:
                steps.append(Run(code, step))
        if len(self.log.errors) > before:
            return None
        return PythonUnit(self.source, self.predefined, tuple(steps))

    def _compiled(self, node: ast.stmt) -> CodeType | None:
        before = len(self.log.errors)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            FunctionChecks(node, self.names, self.source, self.log).run()
        code = compile_definition(node, self.source, self.log, known=len(self.log.errors) > before)
        if code is not None and not self.incomplete:
            check_names(code, self.names, self.source, self.log)
        return code

    def read(self, statements: list[ast.stmt]) -> None:
        """Read statements; each that may not stand there is an error of its own."""
        for statement in statements:
            rule = _RULES.get(type(statement), _Reader._refuse)
            rule(self, statement)

    def error(self, message: str, node: Located) -> None:
        """Report an error in this text."""
        self.log.error(message, self.source, node)

    def _refuse(self, node: ast.stmt) -> None:
        kind = _KINDS.get(type(node), "this statement")
        self.error(f"{kind} cannot stand at the top of a kernel source; {_ALLOWED}", node)
        self._forget(node)

    def _forget(self, node: ast.AST) -> None:
        """Let what a wrong statement would have defined be unknown, so that it is reported once."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.names.setdefault(each.id, UNKNOWN)
            elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.names.setdefault(each.name, UNKNOWN)

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring, or `...`
            self._refuse(node)

    def _if(self, node: ast.If) -> None:
        """Take the branch that the constants choose, as the preprocessor does (TOPS C++, 8.1)."""
        try:
            chosen = fold(node.test, self.names)
        except AlreadyReported:
            return self._forget(node)
        except NotConstant as error:
            self._forget(node)
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
            self._forget(target)
            return self.error("a constant is assigned to one plain name", target)
        self.names.setdefault(target.id, UNKNOWN)  # its own faults are reported once
        if isinstance(value, ast.Call) and self._declares(value):
            return self._declare(target.id, value, node)
        mutable = isinstance(value, ast.List | ast.Dict | ast.Set)
        try:
            folded = None if mutable else fold(value, self.names)
        except AlreadyReported:
            return
        except NotConstant as error:
            return self.error(f"'{target.id}' is no constant: {error}", error.node)
        if mutable or isinstance(folded, list):
            return self.error(f"'{target.id}' could be changed; a constant is a number, a text or a tuple", value)
        if self._bind(target.id, folded, node):
            self.steps.append(Bind(target.id, folded))

    def _declares(self, value: ast.Call) -> bool:
        try:
            return any(resolve(value.func, self.names) is each for each in _DECLARATIONS)
        except NotConstant:
            return False

    def _declare(self, name: str, call: ast.Call, node: ast.stmt) -> None:
        """Take a device variable, whose arguments are constants; its name is the one it is assigned to."""
        for each in (*call.args, *(given.value for given in call.keywords)):
            try:
                fold(each, self.names)
            except AlreadyReported:
                return
            except NotConstant as error:
                return self.error(f"device variable '{name}': {error}", error.node)
        if all(given.arg != "name" for given in call.keywords):
            keyword = ast.keyword("name", ast.Constant(name))
            call.keywords.append(ast.fix_missing_locations(ast.copy_location(keyword, call)))
        if self._bind(name, node, node):
            self.steps.append(node)

    def _bind(self, name: str, value: object, node: ast.stmt) -> bool:
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
                self.names.setdefault(alias.asname or alias.name.partition(".")[0], UNKNOWN)
            elif alias.asname is None and "." in alias.name:
                self.error(f"write `import {alias.name} as ...`", alias)
            elif include is None:
                self._import_as(alias.asname or alias.name, found, node)
            elif self._bind(alias.asname or alias.name, found, node):
                self.steps.append(Include(include, {}, alias.asname or alias.name))

    def _import_as(self, name: str, value: object, node: ast.stmt) -> None:
        """Bind what was imported, which may be there already under this name."""
        if self.names.get(name) is not value and self._bind(name, value, node):
            self.steps.append(Bind(name, value))

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__" and not node.level:
            return
        found, include = self._module("." * node.level + (node.module or ""), node)
        if found is None:
            self.incomplete |= any(alias.name == "*" for alias in node.names)
            self.names.update({alias.asname or alias.name: UNKNOWN for alias in node.names})
            return
        offered = {name: each for name, each in vars(found).items() if not name.startswith("__")}
        taken: dict[str, str] = {}
        for alias in node.names:
            if alias.name == "*" and include is not None:
                theirs = (name for name in offered if name not in include.predefined)
                taken |= {name: name for name in theirs if self._bind(name, offered[name], node)}
            elif alias.name not in offered:
                self.error(f"'{node.module}' has no '{alias.name}'{nearest(alias.name, offered)}", alias)
                self.names.setdefault(alias.asname or alias.name, UNKNOWN)
            elif include is None:
                self._import_as(alias.asname or alias.name, offered[alias.name], node)
            elif self._bind(alias.asname or alias.name, offered[alias.name], node):
                taken[alias.asname or alias.name] = alias.name
        if include is not None:
            self.steps.append(Include(include, taken))

    def _module(self, name: str, node: Located) -> tuple[ModuleType | SimpleNamespace | None, PythonUnit | None]:
        """Return a module's names, and its unit if it is a header. Reports one that is neither."""
        if name in self.headers.texts:
            return self._header(name, node)
        known = importable()
        if name in known:
            return known[name], None
        offered = ", ".join(sorted({*known, *self.headers.texts}))
        self.error(f"'{name}' cannot be imported into a kernel source; {offered} can", node)
        return None, None

    def _header(self, name: str, node: Located) -> tuple[ModuleType | None, PythonUnit | None]:
        """Return a header's names and unit; it is read as a text of its own, with the same macros."""
        headers = self.headers
        if name in headers.reading:
            self.error(f"header '{name}' includes itself: {' -> '.join([*headers.reading, name])}", node)
            return None, None
        if name not in headers.units:
            headers.reading.append(name)
            reader = _Reader(SourceText(*headers.texts[name]), self.log, self.predefined, headers)
            headers.units[name] = reader.unit()
            headers.names[name] = reader.names
            headers.reading.remove(name)
        unit = headers.units[name]
        if unit is None:
            self.log.note(f"header '{name}' is imported here", self.source, node)
            return None, None
        return module_of(name, headers.names[name]), unit


_KINDS: Mapping[type[ast.stmt], str] = {
    ast.For: "a loop", ast.While: "a loop", ast.With: "`with`", ast.Try: "`try`", ast.Delete: "`del`",
    ast.AugAssign: "a change of a variable", ast.ClassDef: "a class", ast.Assert: "`assert`", ast.Raise: "`raise`",
    ast.Global: "`global`", ast.Expr: "an expression",
}  # fmt: skip

_RULES: Mapping[type[ast.stmt], Callable[..., None]] = {
    ast.Expr: _Reader._expression, ast.Pass: lambda reader, node: None, ast.If: _Reader._if,
    ast.ClassDef: _Reader._class,
    ast.FunctionDef: _Reader._function, ast.AsyncFunctionDef: _Reader._function, ast.Assign: _Reader._assign,
    ast.AnnAssign: _Reader._annotated, ast.Import: _Reader._import, ast.ImportFrom: _Reader._import_from,
}  # fmt: skip
