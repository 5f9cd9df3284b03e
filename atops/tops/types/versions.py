"""The versions that the C-style functions report: release 2.2 is 2020 (TOPS Runtime API, 2.1)."""

from __future__ import annotations

from typing import Final

__all__ = ("DRIVER_VERSION", "RTC_VERSION")

RTC_VERSION: Final = (2, 2)
DRIVER_VERSION: Final = 1000 * RTC_VERSION[0] + 10 * RTC_VERSION[1]
