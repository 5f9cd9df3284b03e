"""What can be told of a kernel from its code before it runs: its dynamic shared memory, and the constants it names."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from atops.kernels.memory.arrays import dynamic_shared
from atops.kernels.memory.device_variables import Variable

__all__ = ("constants_of", "dynamic_shared_lines", "uses_dynamic_shared")

_NAME = dynamic_shared.__name__
PLAIN = ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CLASSDEREF")  # of names that are no locals and no attributes


def dynamic_shared_lines(function: Callable[..., Any]) -> list[int]:
    """Return the line of each use of `dynamic_shared` that the function's own code has, by whatever name."""
    variables = _variables(function)
    return [
        line
        for opname, name, line in _names(_plain(function).__code__)
        if (opname in ("LOAD_ATTR", "LOAD_METHOD") and name == _NAME)
        or (opname in PLAIN and variables.get(name) is dynamic_shared)
    ]


def uses_dynamic_shared(function: Callable[..., Any]) -> bool:
    """Tell whether the function, or a Python function that it calls by a plain name, uses `dynamic_shared`."""
    return any(dynamic_shared_lines(each) for each in _reached(function))


def constants_of(function: Callable[..., Any]) -> list[Variable]:
    """Return the constants that the function, or a Python function that it calls by a plain name, names: `x`, `m.x`."""
    found: dict[Variable, None] = {}
    for each in _reached(function):
        for value in _named(each):
            if isinstance(value, Variable) and value.is_constant:
                found[value] = None
    return list(found)


def _reached(function: Callable[..., Any]) -> Iterator[FunctionType]:
    """Yield the function and every Python function that it reaches by plain names, each once."""
    pending, seen = [_plain(function)], set()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current
        variables = _variables(current)
        called = (variables.get(name) for opname, name, _ in _names(current.__code__) if opname in PLAIN)
        pending += [_plain(each) for each in called if isinstance(each, FunctionType)]


def _named(function: FunctionType) -> Iterator[Any]:
    """Yield what the function's global and enclosing names stand for, and what they have as `module.name`."""
    variables = _variables(function)
    value: Any = None
    for opname, name, _ in _names(function.__code__):
        if opname in PLAIN:
            value = variables.get(name)
        elif opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            value = vars(value).get(name)
        else:
            value = None
        if value is not None:
            yield value


def _plain(function: Callable[..., Any]) -> FunctionType:
    """Return the function as it was written, without the decorators that kept it as `__wrapped__`."""
    inner = inspect.unwrap(function)
    plain = inner if isinstance(inner, FunctionType) else function
    assert isinstance(plain, FunctionType)
    return plain


def _variables(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what the function's global and enclosing names stand for now."""
    plain = _plain(function)
    cells = zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)
    enclosed = {name: _contents(cell) for name, cell in cells}
    return {**plain.__globals__, **enclosed}


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _names(code: CodeType) -> Iterator[tuple[str, str, int]]:
    """Yield operation, name and line of each name that the code and the functions in it load."""
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        if instruction.starts_line is not None and not isinstance(instruction.starts_line, bool):
            line = instruction.starts_line
        if instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str):
            yield instruction.opname, instruction.argval, line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
