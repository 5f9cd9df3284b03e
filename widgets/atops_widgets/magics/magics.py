"""`%load_ext atops_widgets`: `%%timeline`, `%%kernel`, `%atops`, and failures that show the kernel's own lines."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError

from atops.base.errors import InvalidOption
from atops.device.call_site import NAMERS
from atops.kernels.compile.program import compile_source
from atops.kernels.kernel import Kernel
from atops.trace.text import format_bytes
from atops_widgets.magics.cell_timeline import MAGIC, CellTimeline, as_comment
from atops_widgets.magics.failure_text import SHOWN, show_failure
from atops_widgets.magics.status_text import status

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ("Extension", "compile_cell", "load_ipython_extension", "unload_ipython_extension")


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


MAGICS: Final = (("cell", "timeline"), ("cell", "kernel"), ("line", "atops"))


class Extension:
    """What the extension adds to one shell, so that it can be taken away again."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._timeline = CellTimeline(shell)
        self._before = shell.custom_exceptions, shell.CustomTB

    def add(self) -> None:
        """Add the magics, the watch over cells and the handler of failures."""
        shell = self._shell
        shell.input_transformers_cleanup.append(as_comment)
        shell.events.register("pre_run_cell", self._timeline.before)
        shell.events.register("post_run_cell", self._timeline.after)
        for kind, name in MAGICS:
            shell.magics_manager.register_function(getattr(self, name), kind, name)
        shell.set_custom_exc(SHOWN, show_failure)  # type: ignore[no-untyped-call]  # IPython has no types
        NAMERS.append(self.cell)

    def remove(self) -> None:
        """Take all of it away."""
        shell = self._shell
        shell.input_transformers_cleanup.remove(as_comment)
        shell.events.unregister("pre_run_cell", self._timeline.before)
        shell.events.unregister("post_run_cell", self._timeline.after)
        for kind, name in MAGICS:
            shell.magics_manager.magics[kind].pop(name, None)
        shell.custom_exceptions, shell.CustomTB = self._before
        NAMERS.remove(self.cell)

    def cell(self, file: str) -> str | None:
        """Return what people call the file of a cell, `In[5]`; None for other files. From any thread."""
        known = self._shell.compile.format_code_name(file)
        return None if known is None else known[1]

    def timeline(self, _line: str, _cell: str) -> None:
        """Show what the device did while this cell ran: `%%timeline`, or `%%timeline board` for a driver of yours.

        The cell runs as without it, with await and all; the picture follows when it ends.
        """
        raise UsageError(f"{MAGIC} must be the first line of a cell, before other magics")

    def kernel(self, line: str, cell: str) -> None:
        """Compile this cell as kernel source: `%%kernel`, with options as in `%%kernel -DTILE=64`.

        `k` and `np` are there without an import; what the cell defines lands in the notebook's namespace.
        """
        print(compile_cell(line, cell, f"In[{self._shell.execution_count - 1}]", self._shell.user_ns))

    def atops(self, _line: str = "") -> None:
        """Show the drivers that are open, with devices, memory in use and the streams that have work."""
        print(status())


LOADED: WeakKeyDictionary[InteractiveShell, Extension] = WeakKeyDictionary()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the extension to a shell. Once is enough."""
    if shell not in LOADED:
        LOADED[shell] = Extension(shell)
        LOADED[shell].add()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take the extension away from a shell."""
    extension = LOADED.pop(shell, None)
    if extension is not None:
        extension.remove()
