"""Functions of the package with another body for a while: what a check costs that is built in and says no.

A build without the check is made on the spot, from the package's own source: every function that asks gets a second
body in which the answer is a constant, and Python's compiler drops what follows from it. The two bodies are exchanged
between repetitions, so both run on the same objects.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType

__all__ = ("Bodies", "Definition", "exchanged", "other_bodies")

Bodies = dict[FunctionType, tuple[CodeType, CodeType]]
Definition = ast.FunctionDef | ast.AsyncFunctionDef
Answering = Callable[[Definition], ast.NodeTransformer]


@contextmanager
def exchanged(bodies: Bodies) -> Iterator[None]:
    """Give functions their other bodies for the block, in which none of them may be running at its begin or end."""
    for function, (_, bare) in bodies.items():
        function.__code__ = bare
    try:
        yield
    finally:
        for function, (whole, _) in bodies.items():
            function.__code__ = whole


def other_bodies(package: str, asks: Callable[[set[str]], bool], answering: Answering) -> Bodies:
    """Return the functions of a package that ask, by the names that they use, each with its two bodies.

    `answering` makes of a function's definition what puts constants in it. Raises LookupError for a function whose body
    cannot be exchanged.
    """
    modules = [module for name, module in sys.modules.items() if name.startswith(package)]
    found = {function for module in modules for function in _functions_of(module)}
    asking = [function for function in found if asks(set(function.__code__.co_names))]
    return {function: (function.__code__, _answered(function, answering)) for function in asking}


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions in the source of a module, at its top level and in its classes."""
    for value in vars(module).values():
        for each in vars(value).values() if inspect.isclass(value) else (value,):
            ours = inspect.isfunction(each) and each.__module__ == module.__name__
            if ours and each.__code__.co_filename == module.__file__:  # else it was made: a dataclass's, say
                yield each


def _answered(function: FunctionType, answering: Answering) -> CodeType:
    """Return the function's body with constants in the place of answers."""
    if function.__code__.co_freevars:
        raise LookupError(f"{function.__qualname__} asks from a closure; its body cannot be exchanged")
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    assert isinstance(definition, Definition)
    definition.decorator_list.clear()
    if _compiled(tree, function).co_code != function.__code__.co_code:
        raise LookupError(f"{function.__qualname__} was edited after it was loaded; its source is not what runs")
    return _compiled(ast.fix_missing_locations(answering(definition).visit(tree)), function)


def _compiled(tree: ast.Module, function: FunctionType) -> CodeType:
    """Return the body of the one function in `tree`, as if it stood where `function` does.

    Behind its module's imports: a call of what lies in an imported module is compiled in another way.
    """
    whole = ast.parse(inspect.getsource(sys.modules[function.__module__]))
    imports = [node for node in whole.body if isinstance(node, ast.Import | ast.ImportFrom)]
    module = compile(ast.Module([*imports, *tree.body], []), function.__code__.co_filename, "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))
