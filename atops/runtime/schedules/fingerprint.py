"""Which program, under which options, a schedule belongs to: two checksums, the same in every process.

Of the program: the code of its main function, and of the functions and kernels of the program that this names, and
that those name. What they read from elsewhere is not seen; a run that differs for that departs from its schedule.
"""

from __future__ import annotations

import dataclasses
import inspect
import zlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType

from atops.base.errors import InvalidValue
from atops.base.options import EmulatorOptions
from atops.base.schedule_string import Recorded, read_schedule
from atops.device.call_site import PACKAGE

__all__ = ("as_recorded", "check_fingerprint", "fingerprint")

# Options that change no choice, or say what is chosen.
OTHERS = frozenset((
    "schedule", "seed", "detect", "steps", "trace", "abort_grace", "callback_threads", "warm_bytes", "slice",
))  # fmt: skip
OF_PROGRAM = 4  # bytes


def fingerprint(main: Callable[..., object] | None, options: EmulatorOptions, backend: str = "asyncio") -> bytes:
    """Return the checksums of a program, and of its options with the loop that runs it: four bytes each."""
    program = zlib.crc32(repr(list(_codes(main))).encode())
    chosen = [(field.name, getattr(options, field.name)) for field in dataclasses.fields(options)]
    chosen += [] if backend == "asyncio" else [("backend", backend)]
    asked = zlib.crc32(repr([(name, value) for name, value in chosen if name not in OTHERS]).encode())
    return program.to_bytes(OF_PROGRAM, "big") + asked.to_bytes(4, "big")


def check_fingerprint(
    recorded: Recorded, main: Callable[..., object] | None, options: EmulatorOptions, backend: str = "asyncio"
) -> None:
    """Raise InvalidValue where a schedule is of another program, or was made under other options."""
    here = fingerprint(main, options, backend)
    if recorded.program[:OF_PROGRAM] != here[:OF_PROGRAM]:
        raise InvalidValue(
            f"the schedule is of another program than {_name(main)}, or of other code of it: its main function, a "
            "kernel or a function that it calls has changed, or Python's version has"
        )
    if recorded.program != here:
        given = f"{options!r}" + ("" if backend == "asyncio" else f", backend={backend!r}")
        raise InvalidValue(f"the schedule of {_name(main)} was made under other options than {given}")


def as_recorded(options: EmulatorOptions, main: Callable[..., object], backend: str) -> EmulatorOptions:
    """Return the options with the clock of their schedule's string, if it is one of `main` under the virtual clock.

    Raises InvalidValue for a string that is none.
    """
    schedule = options.schedule
    if not isinstance(schedule, str) or schedule in ("plain", "random") or options.clock == "virtual":
        return options
    virtual = dataclasses.replace(options, clock="virtual")
    return virtual if read_schedule(schedule).program == fingerprint(main, virtual, backend) else options


def _name(main: object) -> str:
    return getattr(main, "__qualname__", None) or repr(main)


def _codes(main: object) -> Iterator[object]:
    """Yield what says what a program does, function by function in the order in which they are named."""
    todo, seen = [main], set[int]()
    while todo:
        function = _function_of(todo.pop(0))
        if function is None or id(function) in seen or function.__code__.co_filename.startswith(PACKAGE):
            continue
        seen.add(id(function))
        yield _told(function.__code__)
        yield repr(function.__defaults__) if _plain(function.__defaults__) else None
        todo += _named_by(function)


def _named_by(function: FunctionType) -> list[object]:
    found = []
    for code in _with_inner(function.__code__):
        found += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not there yet
            continue
    return found


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _function_of(value: object) -> FunctionType | None:
    """Return the function that a value is, or has in it as a kernel has."""
    if isinstance(value, FunctionType):
        value = inspect.unwrap(value)
        return value if isinstance(value, FunctionType) else None
    if isinstance(value, ModuleType):
        return None
    inner = getattr(value, "function", None) or getattr(value, "__func__", None) or getattr(value, "func", None)
    return inner if isinstance(inner, FunctionType) else None


def _told(code: CodeType) -> tuple[object, ...]:
    """Return what a code object does, without where it stands."""
    constants = [_told(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return code.co_name, code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants


def _constant(value: object) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _plain(values: tuple[object, ...] | None) -> bool:
    return all(isinstance(value, int | float | str | bool | type(None)) for value in values or ())
