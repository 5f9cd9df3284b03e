"""Which memory of other devices the kernels of one may reach although peer access is off. It knows no kernel."""

from __future__ import annotations

from atops.runtime.core.services import DriverServices

__all__ = ("Granted",)


class Granted:
    """Allocations, by serial, that kernels of device `ordinal` may reach: each by itself, or by access to its pool.

    What is given by itself is counted; the driver's lock guards it.
    """

    __slots__ = ("_driver", "_ordinal", "_times")

    def __init__(self, driver: DriverServices, ordinal: int) -> None:
        self._driver = driver
        self._ordinal = ordinal
        self._times: dict[int, int] = {}

    def add(self, serial: int) -> None:
        """Grant one allocation, once more if it is granted already."""
        self._times[serial] = self._times.get(serial, 0) + 1

    def discard(self, serial: int) -> None:
        """Undo one `add`."""
        left = self._times.pop(serial) - 1
        if left:
            self._times[serial] = left

    def __contains__(self, serial: int) -> bool:
        """Whether an allocation may be reached. Without the driver's lock."""
        if serial in self._times:
            return True
        pools = [pool for context in self._driver.contexts for pool in context.known_pools()]
        return any(pool.opens(serial, self._ordinal) for pool in pools)
