"""The sources as the architecture tests see them: modules, their floors and their imports, read and never run.

Everything takes the folder to look at, so that each rule is also tested on a small tree that breaks it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FACADE = "atops"
APPS = 6

SOURCES = {
    "atops": "atops",
    "atops_widgets": "widgets/atops_widgets",
    "benchmarks": "benchmarks",
    "examples": "examples",
}

FLOORS = {
    "atops.base": 0,
    "atops.device": 1,
    "atops.trace": 2,
    "atops.kernels": 3,
    "atops.runtime": 4,
    "atops.errors": 5,
    "atops.executable": 5,
    "atops.bridge": 5,
    "atops.checking": 5,
    "atops.lessons": 5,
    "atops.tops": 5,
    "atops.hip": 5,
    "atops.aml": 5,
    "atops.distributed": 5,
    "atops.apps": APPS,
    "atops.otel": APPS,
    "atops.testing": APPS,
    "atops.cli": APPS,
    "atops.__main__": APPS,
    "atops_widgets": APPS,
    "benchmarks": APPS,
    "examples": APPS,
}

# The folders inside each floor, in the order of imports: a folder may import those before it. A name stands for the
# modules right in that folder. The __init__ of a folder hands names on and may import all of its own floor.
FOLDERS = (
    ("atops.base", "atops.base.waiting", "atops.base.trace"),
    (
        "atops.device", "atops.device.memory", "atops.device.races", "atops.device.exec", "atops.device.span",
        "atops.device.dte", "atops.device.native",
    ),
    ("atops.trace",),
    (
        "atops.kernels.tables", "atops.kernels.memory", "atops.kernels.vectors", "atops.kernels",
        "atops.kernels.source", "atops.kernels.cxx", "atops.kernels.programs",
    ),
    (
        "atops.runtime.executors", "atops.runtime.schedules", "atops.runtime.core", "atops.runtime.memory",
        "atops.runtime.board", "atops.runtime.commands", "atops.runtime.races", "atops.runtime.queues",
        "atops.runtime.pools", "atops.runtime.ipc", "atops.runtime.resources", "atops.runtime",
        "atops.runtime.executables",
    ),
    ("atops.checking.strategies", "atops.checking", "atops.distributed", "atops.lessons"),
    (
        "atops.bridge", "atops.tops.header", "atops.tops.functions", "atops.tops", "atops.tops.program",
        "atops.hip.header", "atops.hip.functions", "atops.hip", "atops.aml",
    ),
    ("atops", "atops.apps"),
    (
        "atops_widgets.feed", "atops_widgets.drawing", "atops_widgets.timeline", "atops_widgets.queues",
        "atops_widgets.memory_map", "atops_widgets.cluster_grid", "atops_widgets.scheduler", "atops_widgets.race_view",
        "atops_widgets.compare_view", "atops_widgets.allocations", "atops_widgets", "atops_widgets.magics",
    ),
    ("benchmarks.measuring", "benchmarks.bare", "benchmarks.programs", "benchmarks.rows", "benchmarks"),
)  # fmt: skip


@dataclass(frozen=True)
class Import:
    """One import of one of the project's modules: whether it goes through the facade, and whether it ever runs."""

    target: str
    line: int
    through_facade: bool
    runs: bool


@dataclass(frozen=True)
class Module:
    """A source file: its dotted name, its path, and what the tests ask of it."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """The file's text."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree."""
        return ast.parse(self.text, str(self.path))

    @cached_property
    def importing(self) -> list[ast.AST]:
        """The nodes that import, may import, or say that what is in them never runs."""
        kinds = (ast.Import, ast.ImportFrom, ast.Call, ast.If)
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]

    @property
    def package(self) -> str:
        """The package that relative imports of this module start from."""
        return self.name if self.path.stem == "__init__" else self.name.rpartition(".")[0]

    @property
    def folder(self) -> str:
        """The dotted name of the folder that the file is in."""
        return self.package

    @property
    def floor(self) -> int | None:
        """The floor of this module, or None where the table has none for it."""
        if self.name == FACADE:
            return APPS - 1
        parts = self.name.split(".")
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((FLOORS[prefix] for prefix in prefixes if prefix in FLOORS), None)

    def where(self, line: int = 1) -> str:
        """Return the place to print in a message."""
        return f"{self.name}:{line}"


def modules(root: Path = ROOT, *packages: str) -> dict[str, Module]:
    """Return every module under `root`, by name; of `packages` only, if any are given. The project is read once."""
    found = _project() if root == ROOT else _read(root)
    return {name: each for name, each in found.items() if not packages or name.partition(".")[0] in packages}


@cache
def _project() -> dict[str, Module]:
    """Return the project's modules: what a rule has parsed serves the others."""
    return _read(ROOT)


def forget() -> None:
    """Let go of the project's modules, and of what was parsed."""
    _project.cache_clear()


def _read(root: Path) -> dict[str, Module]:
    found = {}
    for package, folder in SOURCES.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = [package, *path.relative_to(root / folder).with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path)
    return found


def imports(module: Module, known: dict[str, Module]) -> list[Import]:
    """Return the imports of modules of ours, wherever they stand: in functions, under TYPE_CHECKING, by name."""
    never_run = {inner for node in module.importing if _for_types_only(node) for inner in _inside(node.body)}
    found = []
    for node in module.importing:
        for target, through_facade in _targets(node, module, known):
            if target.partition(".")[0] in SOURCES:
                found.append(Import(target, node.lineno, through_facade, node not in never_run))
    return found


def _for_types_only(node: ast.AST) -> bool:
    """Say whether the node is an `if TYPE_CHECKING`."""
    return isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def _inside(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield every node in the statements."""
    for statement in statements:
        yield from ast.walk(statement)


def _targets(node: ast.AST, module: Module, known: dict[str, Module]) -> Iterator[tuple[str, bool]]:
    """Yield what one node imports, and whether the statement binds or asks the facade."""
    match node:
        case ast.Import(names=names):
            for alias in names:
                binds_facade = alias.asname is None and alias.name.partition(".")[0] == FACADE
                yield alias.name, alias.name == FACADE or binds_facade
        case ast.ImportFrom(module=source, names=names, level=level):
            anchor = module.package.split(".")[: -(level - 1) or None] if level else []
            base = ".".join([*anchor, *([source] if source else [])])
            for alias in names:
                submodule = f"{base}.{alias.name}"
                yield submodule if submodule in known else base, base == FACADE
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield name, name == FACADE


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the classes and functions that a module defines at its top level, also under `if` and `try`."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            pending.extend(ast.iter_child_nodes(node))


def plant(root: Path, files: dict[str, str]) -> dict[str, Module]:
    """Write `files` under `root` and return the modules there: a small tree for a rule to be tested on."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return modules(root)
