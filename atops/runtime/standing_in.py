"""What a command that is over leaves unfinished: its stream has skipped or dropped what it was to wait for.

Whoever waits for such a command because of its order (and not of what came of it) waits for that.
"""

from __future__ import annotations

from collections.abc import Iterable

from atops.runtime.completion import DONE, Completion, Owner

__all__ = ("unfinished",)


def unfinished(items: Iterable[Completion]) -> tuple[Completion, ...]:
    """Return what is not over of these commands and of what stands in for those that are: of each stream the newest.

    That one implies the others, which are before it. What is known to be over by now is forgotten. From any thread.
    """
    found: dict[Owner, Completion] = {}
    roots = list(items)
    todo, seen = roots.copy(), set[Completion]()
    while todo:
        item = todo.pop()
        if item._state < DONE:
            known = found.get(item.stream)
            if known is None or known.seq < item.seq:
                found[item.stream] = item
        elif item.stand_ins and item not in seen:
            seen.add(item)
            todo += item.stand_ins
    left = tuple(found.values())
    if len(roots) == 1 and seen:
        roots[0].stand_ins = left  # what is over gets no more of them: the next look is short
    return left
