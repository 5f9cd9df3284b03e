"""The other process of the bench of events between processes: it waits as it is told, and says when that was over.

Lines come in: 64 bytes in hexadecimal name an event to wait for, anything else is waited for by being read. For an
event a line goes out before the wait, and after each wait one with the time, by the clock of all processes.
"""

from __future__ import annotations

import sys
import time

import atops.tops as tops

__all__ = ("HANDLE", "main")

HANDLE = 128  # characters


def main() -> None:
    """Obey until the input ends."""
    events: dict[str, int] = {}
    for line in sys.stdin:
        now, name = time.monotonic(), line.strip()
        if len(name) == HANDLE:
            if name not in events:
                events[name] = tops.check(tops.topsIpcOpenEventHandle(tops.topsIpcEventHandle_t(bytes.fromhex(name))))
            print("waiting", flush=True)
            tops.check(tops.topsEventSynchronize(events[name]))
            now = time.monotonic()
        print(now, flush=True)


if __name__ == "__main__":
    main()
