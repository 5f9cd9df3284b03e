"""The C-style functions of the TOPS runtime under their own names: what ported code calls.

Every call returns a tuple, `(err,)` or `(err, result, ...)`: out-parameters leave the argument list, structs are
returned. Errors are members of topsError_t (topsrtcResult for runtime compilation); on failure each result is None.
`check(...)` raises instead, and returns the results alone. Nothing else is raised but KeyboardInterrupt, SystemExit and
a cancellation. Streams, events and modules are opaque ints: 0 or None is the null stream, 2 the per-thread stream.
`atops.tops.aio` has an awaitable twin of each call that can block.

    err, pointer = tops.topsMalloc(4096)
    pointer = tops.check(tops.topsMalloc(4096))
    (err,) = await tops.aio.topsDeviceSynchronize()

In this package are

    tables/     the declarations of all functions, from which exports, twins and tests are made
    functions/  their implementations, a folder a group of sections
    bridge/     what they share: calls, codes, arguments, handles, pointers, waiting
    types/      constants, enumerations and structs of the public header
    aio         the awaitable twins
"""

from __future__ import annotations

from atops.tops import (
    aio as aio,
)
from atops.tops.bridge.codes import check as check
from atops.tops.bridge.pointers import host_view as host_view
from atops.tops.functions.device.device import *  # noqa: F403  # hundreds of names, those of the tables
from atops.tops.functions.device.driver import *  # noqa: F403
from atops.tops.functions.executable.executable import *  # noqa: F403
from atops.tops.functions.executable.launch import *  # noqa: F403
from atops.tops.functions.executable.query import *  # noqa: F403
from atops.tops.functions.executable.refit import *  # noqa: F403
from atops.tops.functions.extension.banks import *  # noqa: F403
from atops.tops.functions.extension.cache import *  # noqa: F403
from atops.tops.functions.extension.const_buffers import *  # noqa: F403
from atops.tops.functions.extension.kernel_signals import *  # noqa: F403
from atops.tops.functions.extension.profile_meta import *  # noqa: F403
from atops.tops.functions.extension.reduce import *  # noqa: F403
from atops.tops.functions.extension.resource_bundle import *  # noqa: F403
from atops.tops.functions.extension.scatter import *  # noqa: F403
from atops.tops.functions.memory.attributes import *  # noqa: F403
from atops.tops.functions.memory.copy import *  # noqa: F403
from atops.tops.functions.memory.device_memory import *  # noqa: F403
from atops.tops.functions.memory.fill import *  # noqa: F403
from atops.tops.functions.memory.host_memory import *  # noqa: F403
from atops.tops.functions.memory.peer import *  # noqa: F403
from atops.tops.functions.memory.symbols import *  # noqa: F403
from atops.tops.functions.module.launch import *  # noqa: F403
from atops.tops.functions.module.launch_configuration import *  # noqa: F403
from atops.tops.functions.module.module import *  # noqa: F403
from atops.tops.functions.module.multi_cluster import *  # noqa: F403
from atops.tops.functions.module.rtc import *  # noqa: F403
from atops.tops.functions.stream.event import *  # noqa: F403
from atops.tops.functions.stream.ipc import *  # noqa: F403
from atops.tops.functions.stream.stream import *  # noqa: F403
from atops.tops.tables.all_functions import FUNCTIONS
from atops.tops.types import constants, enumerations, error_codes, structs
from atops.tops.types.constants import *  # noqa: F403
from atops.tops.types.enumerations import *  # noqa: F403
from atops.tops.types.error_codes import *  # noqa: F403
from atops.tops.types.structs import *  # noqa: F403

VALUES = (constants, enumerations, error_codes, structs)
EXTRAS = ("TOPS_SYMBOL", "aio", "check", "host_view")
__all__ = tuple(sorted({*FUNCTIONS, *(name for part in VALUES for name in part.__all__), *EXTRAS}))
