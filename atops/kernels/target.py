"""Compile targets: the chips on which a kernel runs, its features there, and the macros. TOPS C++, 8.1 and 8.6.

A macro is a number in a kernel and None on the host, so the module `k` computes it when it is read (`k.GCU_ARCH`), and
none can be imported.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import FrameType, MappingProxyType

from atops.base.errors import InvalidValue
from atops.device.arch import ARCHITECTURES, Architecture
from atops.device.exec.thread import KernelThread, maybe_current_thread

__all__ = ("MACROS", "TARGETS", "CompileTarget", "compile_target", "held_to", "macro", "macros_of")

IMPORT_FROM = dis.opmap["IMPORT_FROM"]

# The features that a chip has or lacks. Capacities are not among them: a launch checks those.
FEATURES = ("gcu_arch", "agcu_arch", "vector_types", "direct_global_access", "mapped_window_bytes")


@dataclass(frozen=True, slots=True)
class CompileTarget:
    """What a kernel can be compiled for: a chip, or an abstract architecture that all chips from one on have.

    `gcu_arch` is None for an abstract one; `runs_on` names the chips, and `figures` are those of the least of them.
    """

    name: str
    gcu_arch: int | None
    agcu_arch: int
    runs_on: tuple[str, ...]
    figures: Architecture = field(repr=False)


def _targets() -> Iterator[CompileTarget]:
    chips = sorted(ARCHITECTURES.values(), key=lambda chip: chip.gcu_arch)
    for chip in chips:
        yield CompileTarget(chip.name, chip.gcu_arch, chip.agcu_arch, (chip.name,), chip)
    for level in sorted({chip.agcu_arch for chip in chips}):
        able = [chip for chip in chips if chip.agcu_arch >= level]
        yield CompileTarget(f"agcu{level}", None, level, tuple(chip.name for chip in able), able[0])


TARGETS: Mapping[str, CompileTarget] = MappingProxyType({target.name: target for target in _targets()})


def compile_target(name: str) -> CompileTarget:
    """Return the target called `name`. Raises InvalidValue, naming the known ones, when there is none."""
    if not isinstance(name, str) or name not in TARGETS:
        raise InvalidValue(f"arch expects {', '.join(map(repr, TARGETS))} or None, got {name!r}")
    return TARGETS[name]


def _held(chip: Architecture, target: CompileTarget) -> Architecture:
    held = replace(chip, **{name: getattr(target.figures, name) for name in FEATURES})
    return chip if held == chip else replace(held, name=f"{chip.name} as {target.name}")


# By names, as each thread of a launch looks here: to hash an architecture takes longer.
_HELD: Mapping[tuple[str, str], Architecture] = MappingProxyType(
    {(name, target.name): _held(ARCHITECTURES[name], target) for target in TARGETS.values() for name in target.runs_on}
)


def held_to(arch: Architecture, target: CompileTarget | None) -> Architecture:
    """Return a chip's figures as a kernel compiled for `target` sees them, with the features of its least chip.

    Without a target they are the chip's own. The chip must be one that the target runs on.
    """
    return arch if target is None else _HELD[arch.name, target.name]



def _gcu_arch(thread: KernelThread) -> int | None:
    target: CompileTarget | None = getattr(getattr(thread.grid.entry, "kernel", None), "target", None)
    return thread.grid.arch.gcu_arch if target is None else target.gcu_arch


def _agcu_arch(thread: KernelThread) -> int:
    return thread.grid.arch.agcu_arch


MACROS: Mapping[str, Callable[[KernelThread], int | None]] = MappingProxyType(
    {"GCU_ARCH": _gcu_arch, "__GCU_ARCH__": _gcu_arch, "AGCU_ARCH": _agcu_arch, "__AGCU_ARCH__": _agcu_arch}
)


def macros_of(target: CompileTarget) -> dict[str, int | None]:
    """Return the macros as a target defines them, None for one that is not defined (TOPS C++, 8.6)."""
    return {name: target.gcu_arch if read is _gcu_arch else target.agcu_arch for name, read in MACROS.items()}


def macro(name: str) -> int | None:
    """Return the value of the macro `name` here: its number in a kernel, None where it is undefined.

    On the host all are undefined, and in a kernel that is compiled for an abstract architecture GCU_ARCH is. This is
    the `__getattr__` of the kernel language's module. Raises AttributeError for other names, and ImportError where the
    host imports one, because it would stay None in every kernel.
    """
    read = MACROS.get(name)
    if read is None:
        raise AttributeError(f"module 'atops.kernels' has no attribute {name!r}")
    thread = maybe_current_thread()
    if thread is not None:
        return read(thread)
    frame: FrameType | None = sys._getframe(1)
    if frame is not None and frame.f_globals.get("__name__") == "atops.kernels":  # the __getattr__ of the module `k`
        frame = frame.f_back
    if frame is not None and frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == IMPORT_FROM:
        raise ImportError(f"{name} has its value where it is read: `from atops import kernels as k`, then `k.{name}`")
    return None
