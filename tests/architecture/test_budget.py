"""Files and functions stay small, and names say what is inside."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture.source_tree import Module, modules, plant

MOST_LINES = 500  # of code: blank lines, comments, docstrings and imports apart
LEAST_LINES = 40  # of code, in the two packages: below that a file is a fragment, unless a reason says otherwise
MOST_FUNCTION_LINES = 40
MOST_MODULES = 16  # in a folder, its __init__ apart
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}

# What may break a rule, and why. Keys: "module" for files and names, "module:Class.method" for functions.
LONG_FILES: dict[str, str] = {}
SHORT_FILES: dict[str, str] = {
    "atops.apps.histogram": "the demo's kernel, which a reader of the demo looks for first",
    "atops.apps.mcp_server": "a command's module, which loads the protocol's SDK only when it is called",
    "atops.base.clock": "the two clocks, for the tracer beside it and the executors above",
    "atops.base.html_table": "a table for notebooks, used on two floors",
    "atops.base.python_ast": "one idea, used on three floors: CPython's parser, one thread at a time",
    "atops.base.waiting.current_loop": "chooses among the adapters, none of which knows the others",
    "atops.kernels.source.files": "what a command asks of a file before it loads half of atops for C++",
    "atops.runtime.core.host_waits": "completions and places of queues stand on it, and neither on the other's idea",
    "atops.runtime.schedules.host": "chooses between two executors, one of which it loads only for trio",
    "atops.errors": "a public name",
    "atops.executable": "a public name",
    "atops.kernels.memory.spaces": "the order of spaces, below all that has a space",
    "atops.tops.program.lines": "asked by calls and by launches, and neither is the other's idea",
    "atops.kernels.timing": "what a user names, and no other function of kernels is like it",
    "atops.kernels.output": "what a user names: printf and assert, a section of the text",
    "atops.runtime.commands.fill": "a family of commands has a file",
    "atops.runtime.races.signal_writes": "one idea: who wrote a kernel signal, which has no bytes to keep a history of",
    "atops.runtime.core.poller": "a timer, tested by itself, for two kinds of waits",
    "atops.hip.aio": "a public name",
    "atops.hip.functions.event": "a family of functions has a file",
    "atops.hip.functions.host": "one idea: host memory as C names it",
    "atops.hip.functions.processes": "a family of functions has a file",
    "atops.hip.hip": "a public name",
    "atops.tops.aio": "a public name",
    "atops_widgets.magics.checking": "what a cell becomes to be checked, beside the magics of which it is one",
}
LONG_FUNCTIONS: dict[str, str] = {
    "atops.hip.functions.device:_properties_of": "a struct of a hundred figures, each known one on a line",
    "atops.runtime.queues.drain:DrainedQueue.drain": "the hot loop of every stream: a call costs a tenth of its rate",
    "atops.runtime.stream_memory:MemoryVerbs.copy": "the commonest command: a call costs a twentieth of its rate",
}
SHADOWING_NAMES: dict[str, str] = {
    "atops.runtime.commands.copy": "the family of copies",
    "atops.runtime.queues.queue": "the queue of a stream",
    "atops.hip.functions.copy": "the family of copies",
    "atops.tops.functions.copy": "the family of copies",
    "atops.base.trace": "the field's word",
    "atops.trace": "the field's word",
}
CROWDED_FOLDERS: dict[str, str] = {}


def lines_of(module: Module) -> int:
    """Return the number of lines of code: without blank lines, comments, docstrings and imports."""
    counted = {at for at, line in enumerate(module.text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            counted -= set(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = node.body[:1] if ast.get_docstring(node) is not None else []
            counted -= {at for each in docstring for at in range(each.lineno, each.end_lineno + 1)}
    return len(counted)


def functions_of(module: Module) -> dict[str, int]:
    """Return the length of each function by its qualified name: from `def` to its end, docstring excluded."""
    lengths = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}."
                if not isinstance(child, ast.ClassDef):
                    lengths[name[:-1]] = child.end_lineno - child.lineno + 1 - docstring_lines(child)
            visit(child, name)

    visit(module.tree, f"{module.name}:")
    return lengths


def docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines the function's docstring takes."""
    if ast.get_docstring(function) is None:
        return 0
    return function.body[0].end_lineno - function.body[0].lineno + 1


def over(limit: int, lengths: dict[str, int], reasons: dict[str, str]) -> list[str]:
    """Return what is longer than `limit` without a reason, and the reasons that nothing needs any more."""
    long = {name for name, length in lengths.items() if length > limit}
    faults = [f"{name} has {lengths[name]} lines; {limit} at most" for name in sorted(long - set(reasons))]
    return faults + [f"{name} needs its exception no more" for name in sorted(set(reasons) - long)]


def fragments(lengths: dict[str, int], reasons: dict[str, str]) -> list[str]:
    """Return the modules that are too short without a reason, and the reasons that nothing needs any more."""
    short = {name for name, length in lengths.items() if length < LEAST_LINES}
    faults = [
        f"{name} has {lengths[name]} lines of code; {LEAST_LINES} at least: merge it into the module whose idea it is, "
        "or say in SHORT_FILES why it is a file"
        for name in sorted(short - set(reasons))
    ]
    return faults + [f"{name} needs its exception no more" for name in sorted(set(reasons) - short)]


def poor_names(known: dict[str, Module], reasons: dict[str, str]) -> list[str]:
    """Return the modules whose name says nothing, or is also the name of a module of the standard library."""
    faults = []
    for name in known:
        last = name.rpartition(".")[2]
        if last in EMPTY_NAMES:
            faults.append(f"{name} says nothing of what is inside")
        if last in sys.stdlib_module_names and last != "__main__" and name not in reasons:
            faults.append(f"{name} shadows the standard library's {last}")
    return faults


@pytest.mark.slow
def test_no_file_is_too_long():
    """No source file has more than 500 lines of code, except those with a reason in the table."""
    faults = over(MOST_LINES, {name: lines_of(module) for name, module in modules().items()}, LONG_FILES)
    assert not faults, "\n" + "\n".join(faults)


@pytest.mark.slow
def test_no_file_is_a_fragment():
    """No module of the two packages has fewer than 40 lines of code, except those with a reason in the table."""
    lengths = {
        name: lines_of(module)
        for name, module in modules().items()
        if name.partition(".")[0] in ("atops", "atops_widgets") and module.path.stem not in ("__init__", "__main__")
    }
    faults = fragments(lengths, SHORT_FILES)
    assert not faults, "\n" + "\n".join(faults)


def test_no_folder_is_crowded():
    """No folder has more than 16 modules, except those with a reason in the table."""
    counts = Counter(module.folder for module in modules().values() if module.path.stem != "__init__")
    crowded = {folder: count for folder, count in counts.items() if count > MOST_MODULES}
    faults = [f"{folder} has {count} modules" for folder, count in crowded.items() if folder not in CROWDED_FOLDERS]
    assert not faults, "\n" + "\n".join(faults)
    assert set(CROWDED_FOLDERS) <= set(crowded)


@pytest.mark.slow
def test_no_function_is_too_long():
    """No function has more than 40 lines beside its docstring, except those with a reason in the table."""
    lengths: dict[str, int] = {}
    for module in modules().values():
        lengths |= functions_of(module)
    faults = over(MOST_FUNCTION_LINES, lengths, LONG_FUNCTIONS)
    assert not faults, "\n" + "\n".join(faults)


def test_names_say_what_is_inside():
    """No module is called utils or the like, and none has the name of a module of the standard library."""
    faults = poor_names(modules(), SHADOWING_NAMES)
    assert not faults, "\n" + "\n".join(faults)


def test_lengths_are_counted_without_docstrings(tmp_path: Path):
    """A method is measured from `def` to its end without decorator and docstring; nested ones are seen too."""
    source = """
        class A:
            @property
            def f(self):
                '''One.

                Two.
                '''
                def g(): ...
                return 1
        """
    module = plant(tmp_path, {"atops/base/a.py": textwrap.dedent(source)})["atops.base.a"]
    assert functions_of(module) == {"atops.base.a:A.f": 3, "atops.base.a:A.f.g": 1}


def test_what_is_over_the_limit_is_named():
    """Too long without a reason is a fault, and so is a reason without need."""
    assert over(2, {"a": 3, "b": 2, "c": 9}, {"c": "a table", "b": "once long"}) == [
        "a has 3 lines; 2 at most",
        "b needs its exception no more",
    ]


def test_fragments_are_named():
    """Too short without a reason is a fault, and so is a reason without need."""
    told = fragments({"a": 39, "b": 40, "c": 2}, {"c": "a public name", "b": "once short", "gone": "a folder has it"})
    assert [each.partition(";")[0] for each in told] == [
        "a has 39 lines of code",
        "b needs its exception no more",
        "gone needs its exception no more",
    ]


def test_poor_names_are_seen(tmp_path: Path):
    """A module called utils and one called queue are found; one with a reason is not."""
    known = plant(tmp_path, {"atops/base/utils.py": "", "atops/base/queue.py": "", "atops/base/signal.py": ""})
    assert poor_names(known, {"atops.base.signal": "the chip's own word"}) == [
        "atops.base.queue shadows the standard library's queue",
        "atops.base.utils says nothing of what is inside",
    ]
