"""`%%kernel`: a cell of kernel source, compiled; what it defines lands in the user's namespace."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import MutableMapping

from atops.base.errors import InvalidOption
from atops.kernels.compile.program import compile_source
from atops.kernels.kernel import Kernel
from atops.trace.text import format_bytes

__all__ = ("compile_cell",)


def compile_cell(options: str, source: str, name: str, namespace: MutableMapping[str, object]) -> str:
    """Compile the `source` of a cell with the `options` of its first line, into `namespace`. Return what to print.

    Diagnostics count lines as the cell's editor does, the magic's own line too. Raises CompilationError with the log,
    InvalidOption where an option is wrong; then the namespace stays as it was.
    """
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise InvalidOption(f"%%kernel {options}: {error}; expected options such as -DTILE=64") from None
    compiled = compile_source("\n" + source, name, words)
    namespace.update({**compiled.variables, **compiled.functions, **compiled.kernels})
    lines = [str(compiled.log)] if len(compiled.log) else []
    for kernel in compiled.kernels.values():
        figures = compiled.contents.attributes(kernel.name)
        sizes = {"L1 a thread": figures.local_bytes, "L2 a block": figures.shared_bytes}
        takes = [f"{format_bytes(size)} of {what}" for what, size in sizes.items() if size]
        lines.append(f"{_signature(kernel)}{': ' * bool(takes)}{', '.join(takes)}")
    others = [*compiled.functions, *compiled.variables]
    lines += [f"and {', '.join(others)}"] if others else []
    return "\n".join(lines) or "the cell defines nothing"


def _signature(kernel: Kernel) -> str:
    """Return a kernel's name and parameters."""
    parameters = [each.name for each in inspect.signature(kernel.function).parameters.values()]
    return f"{kernel.name}({', '.join(parameters)})"
