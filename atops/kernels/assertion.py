"""`assert` of kernels: a condition that stops the launch where it does not hold."""

from __future__ import annotations

import sys

from atops.base.errors import KernelAssert
from atops.device.call_site import caller
from atops.device.exec.thread import maybe_current_thread
from atops.device.source_text import asserted

__all__ = ("assert_",)


def assert_(condition: object, message: object = None) -> None:
    """Go on if `condition` is true; otherwise end the launch with KernelAssert: topsErrorAssert (Runtime API, 2.3).

    The error names the condition as it is written, its line, block and thread. Python's own `assert` ends a launch
    alike, but `python -O` removes it. On the host, in functions of both sides, AssertionError is raised.
    """
    if condition:
        return
    frame = sys._getframe(1)
    text = asserted(frame.f_code, frame.f_lasti, by_call=True)
    said = f"assertion {f'`{text}` ' if text else ''}failed" + (f": {message}" if message is not None else "")
    thread = maybe_current_thread()
    if thread is None:
        raise AssertionError(f"{caller()}: {said}")
    raise KernelAssert(f"{thread} at {caller()}: {said}")
