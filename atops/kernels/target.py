"""Compile targets: the chips on which a kernel runs, and the features that it has there. TOPS C++, 8.1 and 8.6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from atops.base.errors import InvalidValue
from atops.device.arch import ARCHITECTURES, Architecture

__all__ = ("TARGETS", "CompileTarget", "compile_target", "held_to")

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
