"""The reports of grids in which no thread can go on: threads and blocks that wait alike are one group.

It reads blocks and threads and changes nothing; the caller holds the barrier's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from atops.base.errors import KernelDeadlock
from atops.device.call_site import file_shown

if TYPE_CHECKING:
    from atops.device.exec.block import Block
    from atops.device.exec.grid import Grid

__all__ = ("block_deadlock", "deadlock", "waiting_lines")


def deadlock(grids: Iterable[Grid]) -> KernelDeadlock:
    """Return the error for grids of which no thread can go on, naming all threads and what they wait at."""
    lines = [line for grid in grids for line in waiting_lines(grid)]
    return KernelDeadlock("deadlock, no thread can go on: " + "; ".join(lines))


def block_deadlock(block: Block) -> KernelDeadlock:
    """Return the error for one block whose threads can only wait for each other."""
    return KernelDeadlock(
        f"deadlock, no thread can go on: kernel {block.grid.name}, block {block.linear}: {_threads(block)}"
    )


def waiting_lines(grid: Grid) -> list[str]:
    """Return a line for each group of blocks that wait alike, and one each for those that are over or not placed."""
    groups: dict[str, list[int]] = {}
    for linear, block in sorted(grid.blocks.items()):
        if any(thread.stands_at() for thread in block.threads):
            groups.setdefault(_threads(block), []).append(linear)
    lines = [f"kernel {grid.name}, {_count('block', which)}: {how}" for how, which in groups.items()]
    ended = grid.total_blocks - grid.remaining
    if not lines:
        return [f"kernel {grid.name}: every block has left the kernel"] if not grid.remaining else []
    if ended:
        lines.append(f"{ended} of its {grid.total_blocks} blocks {'has' if ended == 1 else 'have'} left the kernel")
    stranded = grid.placement.stranded(grid) if grid.placement is not None else 0
    if stranded:
        lines.append(f"{_number('block', stranded)} of it cannot start: its own waiting blocks hold every cluster")
    return lines


def _threads(block: Block) -> str:
    """Say what each group of threads of a block waits at, and where."""
    groups: dict[str, list[int]] = {}
    for thread in block.threads:
        if thread.ended:
            groups.setdefault("left the kernel", []).append(thread.linear)
        elif (what := thread.stands_at()) is not None:
            file, line = thread.where()
            groups.setdefault(f"{what}, {file_shown(file)}:{line}", []).append(thread.linear)
        else:
            groups.setdefault("", []).append(thread.linear)
    parts = []
    for what, which in groups.items():
        one = len(which) == 1
        if what == "left the kernel":
            verb = "has left the kernel" if one else "have left the kernel"
        elif what:
            verb = f"{'waits' if one else 'wait'} at {what}"
        else:
            verb = "can run"
        parts.append(f"{_count('thread', which)} {verb}")
    return "; ".join(parts)


def _count(noun: str, numbers: Sequence[int]) -> str:
    """Return "thread 3" or "threads 0-3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    text = ", ".join("-".join(map(str, run)) for run in runs)
    return f"{noun} {text}" if len(numbers) == 1 else f"{noun}s {text}"


def _number(noun: str, count: int) -> str:
    """Return "1 block" or "3 blocks"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
