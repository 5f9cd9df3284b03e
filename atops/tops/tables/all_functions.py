"""All functions of the TOPS Runtime API, by name: what the bridge, the exports and the tests are made from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from atops.tops.tables.device import DEVICE_FUNCTIONS
from atops.tops.tables.extension import EXTENSION_FUNCTIONS
from atops.tops.tables.function import Function
from atops.tops.tables.memory import MEMORY_FUNCTIONS
from atops.tops.tables.module import MODULE_FUNCTIONS
from atops.tops.tables.stream import STREAM_FUNCTIONS

__all__ = ("FUNCTIONS",)

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        function.name: function
        for rows in (DEVICE_FUNCTIONS, STREAM_FUNCTIONS, MEMORY_FUNCTIONS, MODULE_FUNCTIONS, EXTENSION_FUNCTIONS)
        for function in rows
    }
)
