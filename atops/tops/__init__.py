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

    header/     what C has in the public header: constants, enumerations, error codes, structs, functions
    functions/  the implementations, a file a family
    aio         the awaitable twins
    program/    whole programs in C++: a `main` with its kernels, run in a process of its own

What the C-style functions of every API share is in atops.bridge.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from atops.base.neighbours import import_of
from atops.bridge.codes import check as check
from atops.bridge.pointers import host_view as host_view
from atops.tops import aio as aio
from atops.tops.functions.copy import *  # noqa: F403  # hundreds of names, those of the header
from atops.tops.functions.device import *  # noqa: F403
from atops.tops.functions.executable import *  # noqa: F403
from atops.tops.functions.launch import *  # noqa: F403
from atops.tops.functions.memory import *  # noqa: F403
from atops.tops.functions.module import *  # noqa: F403
from atops.tops.functions.peer import *  # noqa: F403
from atops.tops.functions.resources import *  # noqa: F403
from atops.tops.functions.scatter import *  # noqa: F403
from atops.tops.functions.stream import *  # noqa: F403
from atops.tops.header import constants, enumerations, error_codes, structs
from atops.tops.header.constants import *  # noqa: F403
from atops.tops.header.enumerations import *  # noqa: F403
from atops.tops.header.error_codes import *  # noqa: F403
from atops.tops.header.functions import FUNCTIONS
from atops.tops.header.structs import *  # noqa: F403

VALUES = (constants, enumerations, error_codes, structs)
EXTRAS = ("TOPS_SYMBOL", "aio", "check", "host_view")
__all__ = tuple(sorted({*FUNCTIONS, *(name for part in VALUES for name in part.__all__), *EXTRAS}))

OTHERS = ("cuda", "hip", "cu")  # what functions of other libraries begin with


def _other_library(name: str) -> NoReturn:
    """Refuse a name: one of CUDA or HIP with the name that it has here."""
    here = next(("tops" + name.removeprefix(each) for each in OTHERS if name.startswith(each)), "")
    text = f"atops.tops has no {name}" + (f"; use {here}" if here in __all__ else "")
    if here in __all__ and import_of(sys._getframe(1)):
        raise ImportError(text, name=name)
    raise AttributeError(text, name=name, obj=sys.modules[__name__])


if not TYPE_CHECKING:  # checkers are to refuse a name that does not exist
    __getattr__ = _other_library
