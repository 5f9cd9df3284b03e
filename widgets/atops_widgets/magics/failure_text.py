"""A failed launch as a notebook shows it: the kernel's own lines, then the cell's line that waited for it.

The runtime's frames are left out; `%tb` shows them. Also the compiler's log of a text that does not compile.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final

from atops.base.errors import CompilationError, LaunchFailure, PriorLaunchFailure
from atops.base.trace.records import Place
from atops.device.call_site import source_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ("SHOWN", "failure_lines", "show_failure")

SHOWN: Final = (LaunchFailure, PriorLaunchFailure, CompilationError, BaseExceptionGroup)
MACHINERY: Final = frozenset(
    ("IPython", "anyio", "asyncio", "atops", "atops_widgets", "concurrent", "ipykernel", "numpy", "threading", "trio")
)
COMPILING = "get_ipython().run_cell_magic('kernel'"  # what IPython makes of `%%kernel`; the log says it better
BEFORE, AFTER = 3, 1  # lines shown around a kernel's
RED, GREEN, PLAIN = "\033[31m", "\033[32m", "\033[39m"


def show_failure(
    shell: InteractiveShell,
    kind: type[BaseException],
    error: BaseException,
    frames: TracebackType,
    tb_offset: int | None = None,
) -> list[str]:
    """Show a failure as `failure_lines` in the notebook, another error as IPython does. For `set_custom_exc`."""
    failures = list(_leaves(error))
    if not any(isinstance(each, SHOWN) for each in failures):
        shell.showtraceback((kind, error, frames), tb_offset=tb_offset)
        return []
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, frames  # `%tb` shows these
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    lines = failure_lines(failures, frames)
    shell._showtraceback(kind, error, lines)
    return lines


def failure_lines(failures: list[BaseException], frames: TracebackType | None) -> list[str]:
    """Return what to show of failures that reached a cell over `frames`."""
    lines, places = [], list(_places(frames))
    for error in failures:
        lines += [*_headline("", error), *_kernel_lines(error)]
        places += _places(error.__traceback__)  # in a group each has frames of its own
    shown = [place for place in _once(places) if not _text(place).startswith(COMPILING)]
    if not shown:
        return lines
    compiled = all(isinstance(each, CompilationError) for each in failures)
    lines.append("compiled by:" if compiled else "waited for by:")
    for place in shown:
        lines += [_where(place), f"----> {place.line} {_text(place)}"]
    return [*lines, "", "%tb shows the runtime's lines too"]


def _kernel_lines(error: BaseException) -> list[str]:
    """Return the lines of the kernel behind a failure, the innermost last."""
    first = _launch(error)
    if first is None:
        return []
    lines = [] if first is error else _headline("the first failure was ", first)
    places = [] if first.__cause__ is None else list(_places(first.__cause__.__traceback__))
    lines += [f"in block {_index(first.block)}, thread {_index(first.thread)}:"] * bool(places)
    for place in places:
        lines += [_where(place), *_around(place), ""]
    return lines


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _launch(error: BaseException) -> LaunchFailure | None:
    """Return the failed launch behind an error: itself, or what it was caused by."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, LaunchFailure):
        cause = cause.__cause__
    return cause


def _places(frames: TracebackType | None) -> Iterator[Place]:
    """Yield where the program's own frames stand, the innermost last."""
    while frames is not None:
        frame = frames.tb_frame
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in MACHINERY:
            yield Place(frame.f_code.co_filename, frames.tb_lineno, frame.f_code.co_qualname)
        frames = frames.tb_next


def _once(places: list[Place]) -> Iterator[Place]:
    """Yield places without those on a line that was there before: a comprehension is a function on the same line."""
    seen = set()
    for place in places:
        if (place.file, place.line) not in seen:
            seen.add((place.file, place.line))
            yield place


def _headline(before: str, error: BaseException) -> list[str]:
    return [f"{before}{RED}{type(error).__name__}{PLAIN}: {error}", ""]


def _text(place: Place) -> str:
    return linecache.getline(place.file, place.line).strip()


def _where(place: Place) -> str:
    return f"{GREEN}{source_name(place.file)}{PLAIN}, line {place.line}, in {place.function}"


def _around(place: Place) -> list[str]:
    """Return the lines around a place, which an arrow points at."""
    lines = linecache.getlines(place.file)
    shown = range(max(1, place.line - BEFORE), min(len(lines), place.line + AFTER) + 1)
    arrows = {place.line: "---->"}
    return [f"{arrows.get(each, '     ')} {each} {lines[each - 1]}".rstrip() for each in shown]


def _index(index: tuple[int, int, int] | None) -> str:
    return "unknown" if index is None else f"({','.join(map(str, index))})"
