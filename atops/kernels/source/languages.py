"""Which languages a source text can be in, and how the one of a given text is found."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from types import MappingProxyType

from atops.kernels.source.diagnostics import DiagnosticLog, SourceText
from atops.kernels.source.front_end import FrontEnd, MissingFrontEnd
from atops.kernels.source.python_front_end import PythonFrontEnd
from atops.kernels.source.syntax import parse

__all__ = ("FRONT_ENDS", "front_end_of")

_CXX_MARKS = re.compile(r'__(global|device|host|shared)__|^\s*#\s*include\s*[<"]|<<<|^\s*extern\s+"C"', re.MULTILINE)


def _is_cxx(text: str) -> bool:
    """Return whether a text has C++ in it that Python cannot read: a Python comment may quote C++."""
    if not _CXX_MARKS.search(text):
        return False
    return parse(SourceText("", text), DiagnosticLog()) is None


_CXX = MissingFrontEnd("C++", (".cpp", ".cc", ".cxx", ".cu", ".tops", ".hip", ".h", ".hpp", ".c"), _is_cxx)
_PYTHON = PythonFrontEnd()

FRONT_ENDS: Mapping[str, FrontEnd] = MappingProxyType({each.language: each for each in (_CXX, _PYTHON)})


def front_end_of(name: str, text: str) -> FrontEnd:
    """Return the front end for a text: one that claims its content, or else one for the name's extension.

    A text that neither tells is Python.
    """
    extension = os.path.splitext(name)[1].lower()
    claimed = (each for each in FRONT_ENDS.values() if each.claims(text))
    named = (each for each in FRONT_ENDS.values() if extension in each.extensions)
    return next(claimed, None) or next(named, _PYTHON)
