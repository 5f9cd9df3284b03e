"""HIP's functions under their own names, as hip-python has them: `from atops.hip import hip`.

Every call returns a tuple, `(err,)` or `(err, result, ...)`: out-parameters leave the argument list. `err` is a
`hip.hipError_t`; on failure each result is None. Nothing is raised but KeyboardInterrupt, SystemExit and a
cancellation; `hip.check(...)` raises instead, and returns the results alone.

    err, stream = hip.hipStreamCreate()
    memory = hip.check(hip.hipMalloc(4096)).configure(typestr="float32")
    (err,) = await aio.hipStreamSynchronize(stream)

Streams, events, memory and devices are those of `atops.tops` and of the object API: handles of one work in the other.

In this package are

    hip         all names
    aio         the awaitable twin of each function that can block
    hiprtc      runtime compilation: `from atops.hip import hiprtc`
    header/     what C has in the public header: constants, enumerations, error codes, structs, functions
    functions/  the implementations, a file a family

What the C-style functions of every API share is in atops.bridge.
"""

from __future__ import annotations

from atops.hip import aio as aio
from atops.hip import hip as hip
from atops.hip import hiprtc as hiprtc

__all__ = ("aio", "hip", "hiprtc")
