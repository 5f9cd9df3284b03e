"""What means something in its own process only, and once: it is neither copied nor pickled."""

from __future__ import annotations

from typing import Any, NoReturn

from atops.base.errors import InvalidType

__all__ = ("InProcess",)


class InProcess:
    """A driver, or what stands for a part of one: a copy would be a second one."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse. Raises InvalidType."""
        raise InvalidType(f"{self!r} cannot be copied or pickled: a driver and its parts are of one process")
