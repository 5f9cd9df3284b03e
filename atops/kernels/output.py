"""What a kernel prints and asserts: `printf` and `assert` of TOPS C++, 8.2."""

from __future__ import annotations

import sys

import numpy as np

from atops.base.c_format import c_format
from atops.base.errors import InvalidType, InvalidValue, KernelAssert
from atops.device.call_site import asserted, caller
from atops.device.exec.thread import maybe_current_thread
from atops.device.geometry import root_of
from atops.device.span.span import Span
from atops.kernels.memory.device_variables import Variable
from atops.kernels.memory.pointer import Pointer

__all__ = ("assert_", "printf")


def printf(format: str, /, *arguments: object) -> int:
    """Print as C's `printf` does, and return the number of characters.

    A kernel's text goes to the FIFO of its device, which the host shows at the end of each launch of the device, in
    the order of printing and before an `await` of that launch returns. A full FIFO loses its oldest texts; the host
    logs how many. Printing never waits. On the host it writes to `sys.stdout` at once, for functions of both sides.
    Raises InvalidType and InvalidValue as `c_format` does, in a kernel naming thread and line (TOPS C++, 8.2, in the
    examples).
    """
    thread = maybe_current_thread()
    try:
        text = c_format(format, arguments, _address_of)
    except (InvalidType, InvalidValue) as error:
        if thread is None:
            raise
        raise type(error)(f"{thread} at {caller()}: {error}") from None
    if thread is None:
        print(text, end="")
    else:
        if (agenda := thread.grid.agenda) is not None and agenda.footprint is not None:
            agenda.footprint.write(("printed", thread.grid.chip.ordinal))
        thread.grid.chip.print_fifo.put(text, thread.grid.entry)  # the entry has the context of the launching task
    return len(text)


def _address_of(value: object) -> int | None:
    """Return the address of device memory, in L1 and L2 its offset there; None for what is no memory of the thread."""
    if isinstance(value, Pointer):
        return value.place[1]
    if isinstance(value, Variable):
        value = value.span()
    if isinstance(value, Span):
        return value.address
    thread = maybe_current_thread()
    if thread is not None and isinstance(value, np.ndarray):
        root = root_of(value)
        if root is thread.sip.l1 or root is thread.block.cluster.l2:
            return int(value.ctypes.data - root.ctypes.data)
    return None


def assert_(condition: object, message: object = None) -> None:
    """Go on if `condition` is true; otherwise end the launch with KernelAssert: topsErrorAssert (Runtime API, 2.3).

    The error names the condition as it is written, its line, block and thread. Python's own `assert` ends a launch
    alike, but `python -O` removes it. On the host, in functions of both sides, AssertionError is raised.
    """
    if condition:
        return
    frame = sys._getframe(1)
    text = asserted(frame.f_code, frame.f_lasti, by_call=True)
    what = f"assertion {f'`{text}` ' if text else ''}failed" + (f": {message}" if message is not None else "")
    thread = maybe_current_thread()
    if thread is None:
        raise AssertionError(f"{caller()}: {what}")
    raise KernelAssert(f"{thread} at {caller()}: {what}")
