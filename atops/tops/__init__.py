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
from atops.tops import (
    banks,
    cache,
    codec,
    const_buffers,
    constants,
    device,
    device_structs,
    dims,
    driver,
    enumerations,
    error,
    error_codes,
    event,
    executable,
    executable_enumerations,
    executable_launch,
    executable_query,
    executable_refit,
    graph_enumerations,
    host_memory,
    ipc,
    kernel_signals,
    launch,
    launch_configuration,
    launch_structs,
    memory,
    memory_attributes,
    memory_copy,
    memory_enumerations,
    memory_set,
    module,
    multi_cluster,
    peer,
    profile_meta,
    reduce,
    reservation,
    resource_bundle,
    resource_structs,
    rtc,
    scatter,
    stream,
    structs,
    symbols,
)
from atops.tops._checking import check as check
from atops.tops._pointers import host_view as host_view
from atops.tops.banks import *  # noqa: F403  # hundreds of names, each listed in its own module's __all__
from atops.tops.cache import *  # noqa: F403  # as above
from atops.tops.codec import *  # noqa: F403  # as above
from atops.tops.const_buffers import *  # noqa: F403  # as above
from atops.tops.constants import *  # noqa: F403  # as above
from atops.tops.device import *  # noqa: F403  # as above
from atops.tops.device_structs import *  # noqa: F403  # as above
from atops.tops.dims import *  # noqa: F403  # as above
from atops.tops.driver import *  # noqa: F403  # as above
from atops.tops.enumerations import *  # noqa: F403  # as above
from atops.tops.error import *  # noqa: F403  # as above
from atops.tops.error_codes import *  # noqa: F403  # as above
from atops.tops.event import *  # noqa: F403  # as above
from atops.tops.executable import *  # noqa: F403  # as above
from atops.tops.executable_enumerations import *  # noqa: F403  # as above
from atops.tops.executable_launch import *  # noqa: F403  # as above
from atops.tops.executable_query import *  # noqa: F403  # as above
from atops.tops.executable_refit import *  # noqa: F403  # as above
from atops.tops.graph_enumerations import *  # noqa: F403  # as above
from atops.tops.host_memory import *  # noqa: F403  # as above
from atops.tops.ipc import *  # noqa: F403  # as above
from atops.tops.kernel_signals import *  # noqa: F403  # as above
from atops.tops.launch import *  # noqa: F403  # as above
from atops.tops.launch_configuration import *  # noqa: F403  # as above
from atops.tops.launch_structs import *  # noqa: F403  # as above
from atops.tops.memory import *  # noqa: F403  # as above
from atops.tops.memory_attributes import *  # noqa: F403  # as above
from atops.tops.memory_copy import *  # noqa: F403  # as above
from atops.tops.memory_enumerations import *  # noqa: F403  # as above
from atops.tops.memory_set import *  # noqa: F403  # as above
from atops.tops.module import *  # noqa: F403  # as above
from atops.tops.multi_cluster import *  # noqa: F403  # as above
from atops.tops.peer import *  # noqa: F403  # as above
from atops.tops.profile_meta import *  # noqa: F403  # as above
from atops.tops.reduce import *  # noqa: F403  # as above
from atops.tops.reservation import *  # noqa: F403  # as above
from atops.tops.resource_bundle import *  # noqa: F403  # as above
from atops.tops.resource_structs import *  # noqa: F403  # as above
from atops.tops.rtc import *  # noqa: F403  # as above
from atops.tops.scatter import *  # noqa: F403  # as above
from atops.tops.stream import *  # noqa: F403  # as above
from atops.tops.structs import *  # noqa: F403  # as above
from atops.tops.symbols import *  # noqa: F403  # as above

FAMILIES = (
    driver, device, error, stream, event, memory, host_memory, memory_copy, memory_set, memory_attributes, symbols,
    banks, cache, codec, const_buffers, kernel_signals, profile_meta, reduce, peer, ipc, module, launch,
    launch_configuration, rtc, dims, scatter, resource_bundle, reservation, multi_cluster, executable,
    executable_launch, executable_query, executable_refit,
)  # fmt: skip
VALUES = (
    constants, device_structs, enumerations, error_codes, executable_enumerations, graph_enumerations, launch_structs,
    memory_enumerations, resource_structs, structs,
)  # fmt: skip
__all__ = tuple(
    sorted({"aio", "check", "host_view", *(name for part in (*FAMILIES, *VALUES) for name in part.__all__)})
)
