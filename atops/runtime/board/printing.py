"""Showing what kernels print: from a device's FIFO to a sink, on a lane of its own, before a launch counts as over.

No lock is held while a sink runs, and no kernel waits for one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import partial
from itertools import groupby

from atops.base.errors import InvalidType
from atops.base.log_fields import get_logger
from atops.device.chip import PrintFifo
from atops.runtime.executors.executor import HERE, Executor, Lane

__all__ = ("Printing", "to_stdout")

log = get_logger("atops.kernel")

PRINTS = Lane("print")  # one thread a driver, so that texts keep their order
Sink = Callable[[str], object]


def to_stdout(text: str) -> None:
    """Write to whatever `sys.stdout` is now, and flush it; where there is none, as without a console, to nothing."""
    print(text, end="", flush=True)


class Printing:
    """The printed output of one device.

    `fifo` holds what is not shown yet; its `size` may be set at any time, best before the first launch. (It is what
    topsLimitPrintfFifoSize is named after; TOPS Runtime API, 2.2 has no way to ask for that limit.) `sink` is called
    with texts in the order of printing, in the context of the launch; what it raises is logged. A sink must not wait
    for the device: that raises WouldDeadlock.
    """

    __slots__ = ("_executor", "_ordinal", "_sink", "fifo")

    def __init__(self, ordinal: int, fifo: PrintFifo, executor: Executor) -> None:
        self._ordinal = ordinal
        self._executor = executor
        self._sink: Sink = to_stdout
        self.fifo = fifo

    @property
    def sink(self) -> Sink:
        """What the texts are given to; at first `to_stdout`. Raises InvalidType for what cannot be called."""
        return self._sink

    @sink.setter
    def sink(self, sink: Sink) -> None:
        if not callable(sink):
            raise InvalidType(f"the sink for printed output is {sink!r}; expected a function that takes a str")
        self._sink = sink

    def when_shown(self, origin: object, then: Callable[..., object], *arguments: object) -> None:
        """Call `then(*arguments)` once everything that `origin` printed has been shown: at once, where that is nothing.

        `origin` is the bound kernel of a launch that is over.
        """
        if self.fifo.owes(origin):
            self._executor.run(PRINTS, partial(self._show_before, then, arguments))
        else:
            then(*arguments)

    def idle(self) -> bool:
        """Return whether everything has been shown; where it has not, have it shown."""
        if not self.fifo.quiet:
            self._executor.run(PRINTS, self._show)
        return self.fifo.quiet

    def _show_before(self, then: Callable[..., object], arguments: tuple[object, ...]) -> None:
        try:
            self._show()
        finally:
            then(*arguments)

    def _show(self) -> None:
        """Give the sink what the FIFO holds, joined as long as it is for the same launch."""
        texts, lost = self.fifo.take()
        role, HERE.role = HERE.role, "print"
        try:
            if lost:
                log.warning(
                    "device %d lost %d of the texts that its kernels printed: its printf FIFO of %d bytes was full; "
                    "show them in shorter launches, or make printing.fifo.size larger",
                    self._ordinal, lost, self.fifo.size, extra={"device": self._ordinal},
                )  # fmt: skip
            for origin, batch in groupby(texts, lambda printed: printed.origin):
                self._write("".join([printed.text for printed in batch]), getattr(origin, "context", None))
        finally:
            HERE.role = role
            self.fifo.mark_shown()

    def _write(self, text: str, context: Context | None) -> None:
        sink, here = self._sink, {"device": self._ordinal}
        try:
            if context is None:
                sink(text)
            else:
                context.run(sink, text)
        except BaseException:  # SystemExit and KeyboardInterrupt end the sink, not this thread
            log.exception("the sink %r for what kernels of device %d print raised", sink, self._ordinal, extra=here)

    def __repr__(self) -> str:
        return f"<Printing of device {self._ordinal}: {self.fifo!r} to {self._sink!r}>"
