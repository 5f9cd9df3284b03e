"""Counting the vector operations of kernels, under a virtual clock only.

What computes a vector stands in tables, which are exchanged while such a run goes on: otherwise not even a question is
asked. Each operation then looks for the clock of its own thread, so that kernels of other runs are as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from atops.base.locks import fork_safe
from atops.device.exec.thread import get_slot

__all__ = ("counted", "counting", "timed")

_Compute = Callable[..., Any]
_Timed = Callable[[Any], Any]  # from an entry of a table to the one that counts
_Table = dict[Any, Any]
_tables: list[tuple[_Table, _Timed]] = []
_plain: list[_Table] = []  # the same as they were, while a run counts
_runs = [0]
_lock = fork_safe(threading.Lock())


def counted(table: _Table, entry: _Timed) -> None:
    """Have the entries of a table replaced by what `entry` makes of them, while a run counts."""
    _tables.append((table, entry))


def timed(compute: _Compute, function: bool = False) -> _Compute:
    """Return what computes the same, and moves the thread's clock on: by an operator, or by a mathematical function.

    An array of vectors takes as many times as long as it has of them.
    """

    def run(x: Any, y: Any = None, *rest: Any) -> Any:
        cell = get_slot()
        if cell is not None and (thread := cell.thread) is not None and (cost := thread.cost) is not None:
            vectors = 1
            if x.ndim == 2:
                vectors = len(x)
            elif y is not None and y.ndim == 2:  # of a scalar and an array of vectors
                vectors = len(y)
            cost.compute(vectors, function)
        if y is None:
            return compute(x)
        return compute(x, y, *rest) if rest else compute(x, y)

    return run


@contextmanager
def counting(virtual: bool) -> Iterator[None]:
    """Count, for the block, if the clock is virtual. Several threads may."""
    if not virtual:
        yield
        return
    with _lock:
        _runs[0] += 1
        if _runs[0] == 1:
            for table, entry in _tables:
                _plain.append(dict(table))
                table.update({key: entry(value) for key, value in table.items()})
    try:
        yield
    finally:
        with _lock:
            _runs[0] -= 1
            if not _runs[0]:
                for (table, _), plain in zip(_tables, _plain, strict=True):
                    table.update(plain)
                _plain.clear()
