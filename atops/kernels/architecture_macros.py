"""The built-in macros of TOPS C++, 8.1 and 8.6: numbers inside a kernel, undefined (None) on the host.

Their value depends on who reads it, so a module offers them by `__getattr__` and nobody can import one.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Mapping
from types import FrameType, MappingProxyType

from atops.device.exec.thread import KernelThread, maybe_current_thread
from atops.kernels.launch.target import CompileTarget

__all__ = ("MACROS", "macro", "macros_of")

IMPORT_FROM = dis.opmap["IMPORT_FROM"]



def _gcu_arch(thread: KernelThread) -> int | None:
    target: CompileTarget | None = getattr(getattr(thread.grid.entry, "kernel", None), "target", None)
    return thread.grid.arch.gcu_arch if target is None else target.gcu_arch


def _agcu_arch(thread: KernelThread) -> int:
    return thread.grid.arch.agcu_arch


MACROS: Mapping[str, Callable[[KernelThread], int | None]] = MappingProxyType(
    {"GCU_ARCH": _gcu_arch, "AGCU_ARCH": _agcu_arch, "__AGCU_ARCH__": _agcu_arch}
)


def macros_of(target: CompileTarget) -> dict[str, int | None]:
    """Return the macros as a target defines them; None is what is not defined (TOPS C++, 8.6)."""
    return {name: target.gcu_arch if read is _gcu_arch else target.agcu_arch for name, read in MACROS.items()}


def macro(name: str) -> int | None:
    """Return what the macro `name` stands for here: its number in a kernel, None where it is undefined.

    That is on the host, and GCU_ARCH in a kernel that is compiled for an abstract architecture.

    It is the `__getattr__` of the kernel language's module. Raises AttributeError for other names, and ImportError
    where the host imports one, because it would stay None in every kernel.
    """
    read = MACROS.get(name)
    if read is None:
        raise AttributeError(f"module 'atops.kernels' has no attribute {name!r}")
    thread = maybe_current_thread()
    if thread is not None:
        return read(thread)
    frame: FrameType | None = sys._getframe(1)
    if frame is not None and frame.f_code.co_name == "__getattr__":  # of the module, which has passed the name on
        frame = frame.f_back
    if frame is not None and frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == IMPORT_FROM:
        raise ImportError(f"{name} has its value where it is read: `from atops import kernels as k`, then `k.{name}`")
    return None
