"""What was found in a text in TOPS C++, and the tables by which its module tells what it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ("MAIN", "CxxKernel", "CxxVariable", "Fault", "Rewritten", "registration")


MAIN = "atops_program_main"  # what `main` is called
PROGRAM = f"""
extern "C" __attribute__((visibility("default"))) int atops_main(int count, char **arguments) {{
return atops::run_main({MAIN}, count, arguments);
}}
extern "C" __attribute__((visibility("default"))) void atops_set_host(const atops::Host *given) {{
atops::host = given;
}}
extern "C" __attribute__((visibility("default"))) const atops::MadeKernel *atops_made() {{
return atops::made_kernels;
}}
"""


@dataclass(frozen=True, slots=True)
class CxxKernel:
    """A kernel that was found: its qualified name, the names of its parameters, and where it is."""

    name: str
    parameters: tuple[str, ...]
    cooperative: bool
    file: str
    line: int
    dynamic_shared: bool
    overload: str = ""  # its type, where a function has its name, too


@dataclass(frozen=True, slots=True)
class CxxVariable:
    """A variable of the device: its qualified name, the name of what it begins with, and where it is."""

    name: str
    initial: str
    constant: bool
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Something of a text that is refused, and where."""

    message: str
    file: str
    line: int


@dataclass(slots=True)
class Rewritten:
    """A text for the compiler, and what was found on the way."""

    text: str = ""
    kernels: list[CxxKernel] = field(default_factory=list)
    templates: dict[str, CxxKernel] = field(default_factory=dict)  # of kernels, by name; each use of one is a kernel
    variables: list[CxxVariable] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    undefined: dict[str, tuple[str, int]] = field(default_factory=dict)  # variables that are declared only, and where
    main: bool = False  # a function that runs as a program


def registration(
    kernels: Sequence[CxxKernel], variables: Sequence[CxxVariable], templates: Sequence[CxxKernel], main: bool
) -> str:
    """Return the tables by which the module tells what it has, and how its program is run, if it is one."""
    expanded = "".join(map(_expanded, kernels))
    rows = "".join(
        f'atops::variable_row("{each.name.removeprefix("::")}", {each.initial}, {int(each.constant)}, '
        f'"{_quoted(each.file)}", {each.line}),\n'
        for each in variables
    )
    return (
        f'\n# 1 "registration"\nstatic const atops::KernelRow atops_kernels[] = {{\n{expanded}{{}}}};\n'
        f"static const atops::VariableRow atops_variables[] = {{\n{rows}{{}}}};\n"
        'extern "C" __attribute__((visibility("default"))) const atops::Module *atops_module() {\n'
        "static const atops::Module module = {atops::VERSION, atops::attach, atops::slots, atops_kernels, "
        f"{len(kernels)}, atops_variables, {len(variables)}}};\nreturn &module;\n}}\n"
        + (_functions(kernels, templates) + PROGRAM if main else "")
    )


def _functions(kernels: Sequence[CxxKernel], templates: Sequence[CxxKernel]) -> str:
    """Return the table of the kernels' functions, by whose addresses host code launches them, too.

    Those that templates make are in no table: of these there are the names of the templates, cooperative ones marked.
    What host code names with its arguments is noted as the program is loaded (`atops/host.h`).
    """
    addresses = "".join(f"reinterpret_cast<const void *>({_address(each)}), " for each in kernels)
    table = f"extern const void *const atops_functions[] = {{{addresses}nullptr}};\n"
    names = " ".join(f"{each.name.removeprefix('::')}{'!' * each.cooperative}" for each in templates)
    named = f'extern const char *const atops_templates = "{names}";\n'
    return "".join(f'extern "C" {{ __attribute__((visibility("default"))) {each}}}\n' for each in (table, named))


def _spelled(kernel: CxxKernel) -> str:
    """Return its name as the compiler has it: this part is rewritten by nobody."""
    return re.sub(r"\b__([fb][fp]16)\b", r"__atops_\1", kernel.name)


def _address(kernel: CxxKernel) -> str:
    """Return the address of its function."""
    return f"static_cast<{kernel.overload} *>(&{_spelled(kernel)})" if kernel.overload else f"&{_spelled(kernel)}"


def _expanded(kernel: CxxKernel) -> str:
    """Return a row of the table; the preprocessor is over, so no macro makes it."""
    entry = f"atops::Entry<{_address(kernel)}>"
    names = " ".join(kernel.parameters)
    return (
        f'{{"{kernel.name.removeprefix("::")}", {entry}::enter, {entry}::rows, {entry}::count, '
        f'{int(kernel.cooperative)}, "{names}", "{_quoted(kernel.file)}", {kernel.line}}},\n'
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
