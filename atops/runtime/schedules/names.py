"""Names of what could come next: those of streams and tasks, and of steps that have none of their own.

No name depends on an address, the hash seed or the time. A task is called after what made it and how many that had made
before: its name is the same under any schedule in which its maker makes its tasks in the same order.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from weakref import WeakKeyDictionary

from atops.base.agenda import Agenda
from atops.base.choice import TASK, Name

__all__ = ("CALLBACK", "ENGINE", "STEP", "TIMER", "Names")

CALLBACK, ENGINE, STEP, TIMER = "callback", "engine", "step", "timer"
_INHERITING = frozenset((CALLBACK, ENGINE, STEP, TIMER))  # what they make is called after what made them


class Names:
    """Gives names to what is put on an agenda."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._made: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.tasks: WeakKeyDictionary[asyncio.Task[object], Name] = WeakKeyDictionary()

    def anonymous(self, kind: str) -> Name:
        """Return a new name for a step of this kind, after what runs now."""
        return kind, *self._after(kind)

    def of_step(self, step: object, kind: str) -> Name:
        """Return the name of a step of the driver's: that of its owner, if it has one; else a new one.

        That is after the stream that its owner says it is made for, else after what runs now.
        """
        owner = getattr(step, "__self__", None)
        name: Name | None = getattr(owner, "choice", None)
        if name is not None:
            return name
        stream: Name | None = getattr(owner, "made_for", None)
        if stream is None:
            return self.anonymous(kind)
        maker = " ".join(map(str, stream))
        return kind, maker, self._count(kind, maker)

    def of_task(self, callback: object) -> Name | None:
        """Return the name of the task of which this is a step; None for any other callback of a loop."""
        task = getattr(callback, "__self__", None)  # as asyncio's own reports ask
        if not isinstance(task, asyncio.Task):
            return None
        name = self.tasks.get(task)
        if name is None:
            name = self.tasks[task] = self.new_task()
        return name

    def new_task(self) -> Name:
        """Return the name of a task that is new, after what runs now."""
        maker, nth = self._after(TASK)
        path = maker.removeprefix("task ")
        return (TASK, str(nth) if not path else f"{path}.{nth}")

    def launch(self, stream: Name) -> str:
        """Return what the next launch of a stream is called: "2 of stream 1"."""
        _, device, number = stream
        place = f"stream {number}" if device == 0 else f"stream {number} of device {device}"
        return f"{self._count('launch', place)} of {place}"

    def _after(self, kind: str) -> tuple[str, int]:
        current = self._agenda.current
        if not current:
            maker = ""
        elif current[0] in _INHERITING:
            maker = str(current[1])
        else:
            maker = " ".join(map(str, current))
        return maker, self._count(kind, maker)

    def _count(self, kind: str, maker: str) -> int:
        nth = self._made[kind, maker]
        self._made[kind, maker] = nth + 1
        return nth
