"""What means something in its own process only, and once: it is neither copied nor pickled."""

from __future__ import annotations

from typing import Any, NoReturn

from atops.base.errors import InvalidType

__all__ = ("InProcess",)


class InProcess:
    """An object that stands for something of the driver's, of which a copy would be a second one."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse. Raises InvalidType."""
        raise InvalidType(f"{self!r} cannot be copied or pickled: it is a part of its driver, in this process")
