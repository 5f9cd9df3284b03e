"""The public names of executables: ONNX graphs as files that streams launch (TOPS Runtime API, 2.11).

They need the extra `onnx`. What an executable does is in `runtime/executables/executable.py`.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from atops.base.errors import InvalidType, InvalidValue
from atops.runtime.executables.build import BuildOptions, Ranges, build_file
from atops.runtime.executables.constants import ManagedConstant
from atops.runtime.executables.executable import Executable
from atops.runtime.executables.file import SectionKind
from atops.runtime.executables.graph import Graph

__all__ = ("Executable", "ManagedConstant", "build", "load")


def build(
    model: object,
    *,
    name: str = "",
    ranges: Ranges | None = None,
    refit: bool | Collection[str] = False,
    compilation_id: int | None = None,
    clusters: int = 1,
    memory: int = 0,
) -> Executable:
    """Make an executable of an ONNX model: a ModelProto, its bytes, or the path of a file. Nothing of it is run.

    `ranges` bounds dimensions by their name in the model: `{"batch": (1, 8)}`; others that have no extent take any.
    `refit` lets all constants (True), or those named, be changed later. Launches carry the profile meta of
    `compilation_id`. `clusters` and `memory` (bytes) are what a resource bundle for it asks for.

    Raises InvalidValue for what is no valid model, InvalidType, NotFound for a range or a constant that the model has
    not, NotSupported for operators and types that nothing here evaluates, and without the package onnx; OSError.
    """
    if not isinstance(name, str):
        raise InvalidType(f"the name is {name!r}; expected a str")
    for what, value, most in (("clusters", clusters, 1 << 32), ("memory", memory, 1 << 63)):
        if not isinstance(value, int) or not (what == "clusters") <= value < most:
            raise InvalidValue(f"{what} is {value!r}; {int(what == 'clusters')} or more is right")
    file = build_file(model, BuildOptions(name, ranges or {}, refit, compilation_id, clusters, memory))
    graph = Graph.of_built(file.content(SectionKind.CODE))
    return Executable(file, graph)


def load(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Executable:
    """Open an executable: a file, or the bytes of one. Nothing of it is run.

    Raises InvalidImage for what is none or is damaged, OSError, and NotSupported without the package onnx.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return Executable.from_bytes(source)
    return Executable.load(source)
