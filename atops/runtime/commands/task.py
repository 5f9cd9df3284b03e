"""Tasks of streams: coroutine objects that run in stream order, with the names and contexts of asyncio's tasks."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from inspect import iscoroutine
from typing import TYPE_CHECKING

from atops.base.errors import IllegalState, InvalidType
from atops.base.waiting.current_loop import running_loop_adapter
from atops.runtime.commands.call import Call
from atops.runtime.core.completion import Completion, T_co

if TYPE_CHECKING:
    from atops.runtime.queues.queue import StreamQueue

__all__ = ("OneCoroutine", "StreamTask")


class StreamTask(Completion[T_co]):
    """A coroutine in stream order, as `Stream.create_task` returns it: a completion with a name, as asyncio's tasks."""

    def __init__(
        self,
        queue: StreamQueue | None = None,
        coroutine: Coroutine[object, None, T_co] | None = None,
        name: object = None,
        context: Context | None = None,
    ) -> None:
        if queue is None or coroutine is None:  # a call of the program's; the runtime gives both
            raise InvalidType("StreamTask() makes no task; use stream.create_task(coroutine)")
        if context is not None and not isinstance(context, Context):
            raise InvalidType(f"create_task() expects a contextvars.Context as context, got {context!r}")
        self._name = None if name is None else str(name)
        self._context = copy_context() if context is None else context
        self._coroutine = coroutine
        adapter = running_loop_adapter()
        if adapter is None:
            raise IllegalState(f"create_task({OneCoroutine.name_of(coroutine)}()) where no loop runs; call it in one")
        once = OneCoroutine(coroutine)
        super().__init__(queue, Call(once, (), True, False, adapter, self._context))
        self.add_waiter(once)

    def get_name(self) -> str:
        """Return its name: that given, or one of its number and its stream. The task on the loop has it, too."""
        return self._name or f"Task-{self.seq} on {self.queue.label}"

    def set_name(self, value: object) -> None:
        """Set its name, made a str. The task on the loop gets it if it has not begun."""
        self._name = str(value)

    def get_coro(self) -> Coroutine[object, None, T_co]:
        """Return the coroutine."""
        return self._coroutine

    def get_context(self) -> Context:
        """Return the context that the coroutine runs in."""
        return self._context

    def __repr__(self) -> str:
        name = OneCoroutine.name_of(self._coroutine)
        return f"<StreamTask {self.seq}: {self.get_name()!r} {name}() on {self.queue.label}, {self.state}>"


class OneCoroutine:
    """A coroutine as a function to be called once. As a waiter of its command, it closes what never began.

    So a coroutine that was refused, skipped or dropped is not reported as never awaited.
    """

    def __init__(self, coroutine: Coroutine[object, None, object]) -> None:
        self.__qualname__ = self.name_of(coroutine)  # what messages call a command's function
        self._left = [coroutine]  # an operation of a list is one step: only one of two threads finds it there

    async def __call__(self) -> object:
        """Run it. Once."""
        return await self._left.pop()

    def wake(self) -> None:
        """Close the coroutine, unless it has begun. It lets go of what it was given, which Python 3.12 would not do."""
        while self._left:
            coroutine = self._left.pop()
            if iscoroutine(coroutine):
                with suppress(GeneratorExit):
                    coroutine.throw(GeneratorExit)
            coroutine.close()

    @staticmethod
    def name_of(coroutine: object) -> str:
        """Return what messages call a coroutine."""
        return str(getattr(coroutine, "__qualname__", type(coroutine).__qualname__))
