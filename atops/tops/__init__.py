"""The C-style functions of the TOPS runtime under their own names: what ported code calls.

Every call returns a tuple, `(err,)` or `(err, result, ...)`: out-parameters leave the argument list, structs are
returned. Errors are members of topsError_t (topsrtcResult for runtime compilation); on failure each result is None.
`check(...)` raises instead, and returns the results alone. Nothing else is raised but KeyboardInterrupt, SystemExit and
a cancellation. Streams, events and modules are opaque ints: 0 or None is the null stream, 2 the per-thread stream.
`atops.tops.aio` has an awaitable twin of each call that can block.

    err, pointer = tops.topsMalloc(4096)
    pointer = tops.check(tops.topsMalloc(4096))
    (err,) = await tops.aio.topsDeviceSynchronize()
"""

from __future__ import annotations

from atops.tops import (
    aio as aio,
)
from atops.tops.bridge.checking import check as check
from atops.tops.bridge.pointers import host_view as host_view
from atops.tops.functions.device import device, driver, error, reservation
from atops.tops.functions.device.device import *  # noqa: F403  # as above
from atops.tops.functions.device.driver import *  # noqa: F403  # as above
from atops.tops.functions.device.error import *  # noqa: F403  # as above
from atops.tops.functions.device.reservation import *  # noqa: F403  # as above
from atops.tops.functions.executable import executable
from atops.tops.functions.executable import launch as executable_launch
from atops.tops.functions.executable import query as executable_query
from atops.tops.functions.executable import refit as executable_refit
from atops.tops.functions.executable.executable import *  # noqa: F403  # as above
from atops.tops.functions.executable.launch import *  # noqa: F403  # as above
from atops.tops.functions.executable.query import *  # noqa: F403  # as above
from atops.tops.functions.executable.refit import *  # noqa: F403  # as above
from atops.tops.functions.extension import (
    banks,
    cache,
    codec,
    const_buffers,
    dims,
    kernel_signals,
    profile_meta,
    reduce,
    resource_bundle,
    scatter,
)
from atops.tops.functions.extension.banks import *  # noqa: F403  # hundreds of names, each listed in its own module's __all__
from atops.tops.functions.extension.cache import *  # noqa: F403  # as above
from atops.tops.functions.extension.codec import *  # noqa: F403  # as above
from atops.tops.functions.extension.const_buffers import *  # noqa: F403  # as above
from atops.tops.functions.extension.dims import *  # noqa: F403  # as above
from atops.tops.functions.extension.kernel_signals import *  # noqa: F403  # as above
from atops.tops.functions.extension.profile_meta import *  # noqa: F403  # as above
from atops.tops.functions.extension.reduce import *  # noqa: F403  # as above
from atops.tops.functions.extension.resource_bundle import *  # noqa: F403  # as above
from atops.tops.functions.extension.scatter import *  # noqa: F403  # as above
from atops.tops.functions.memory import attributes as memory_attributes
from atops.tops.functions.memory import copy as memory_copy
from atops.tops.functions.memory import device_memory as memory
from atops.tops.functions.memory import fill as memory_set
from atops.tops.functions.memory import host_memory, peer, symbols
from atops.tops.functions.memory.attributes import *  # noqa: F403  # as above
from atops.tops.functions.memory.copy import *  # noqa: F403  # as above
from atops.tops.functions.memory.device_memory import *  # noqa: F403  # as above
from atops.tops.functions.memory.fill import *  # noqa: F403  # as above
from atops.tops.functions.memory.host_memory import *  # noqa: F403  # as above
from atops.tops.functions.memory.peer import *  # noqa: F403  # as above
from atops.tops.functions.memory.symbols import *  # noqa: F403  # as above
from atops.tops.functions.module import launch, launch_configuration, module, multi_cluster, rtc
from atops.tops.functions.module.launch import *  # noqa: F403  # as above
from atops.tops.functions.module.launch_configuration import *  # noqa: F403  # as above
from atops.tops.functions.module.module import *  # noqa: F403  # as above
from atops.tops.functions.module.multi_cluster import *  # noqa: F403  # as above
from atops.tops.functions.module.rtc import *  # noqa: F403  # as above
from atops.tops.functions.stream import event, ipc, stream
from atops.tops.functions.stream.event import *  # noqa: F403  # as above
from atops.tops.functions.stream.ipc import *  # noqa: F403  # as above
from atops.tops.functions.stream.stream import *  # noqa: F403  # as above
from atops.tops.types import constants, enumerations, error_codes, structs
from atops.tops.types.constants import *  # noqa: F403  # as above
from atops.tops.types.enumerations import *  # noqa: F403  # as above
from atops.tops.types.error_codes import *  # noqa: F403  # as above
from atops.tops.types.structs import *  # noqa: F403  # as above

FAMILIES = (
    driver, device, error, stream, event, memory, host_memory, memory_copy, memory_set, memory_attributes, symbols,
    banks, cache, codec, const_buffers, kernel_signals, profile_meta, reduce, peer, ipc, module, launch,
    launch_configuration, rtc, dims, scatter, resource_bundle, reservation, multi_cluster, executable,
    executable_launch, executable_query, executable_refit,
)  # fmt: skip
VALUES = (constants, enumerations, error_codes, structs)
__all__ = tuple(
    sorted({"aio", "check", "host_view", *(name for part in (*FAMILIES, *VALUES) for name in part.__all__)})
)
