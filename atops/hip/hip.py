"""HIP's functions, enumerations, flags and structs under their own names: `from atops.hip import hip`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NoReturn

from atops.bridge.codes import check as check
from atops.bridge.pointers import host_view as host_view
from atops.hip.functions.copy import *  # noqa: F403  # the names of the header
from atops.hip.functions.device import *  # noqa: F403
from atops.hip.functions.event import *  # noqa: F403
from atops.hip.functions.launch import *  # noqa: F403
from atops.hip.functions.memory import *  # noqa: F403
from atops.hip.functions.module import *  # noqa: F403
from atops.hip.functions.pools import *  # noqa: F403
from atops.hip.functions.processes import *  # noqa: F403
from atops.hip.functions.shared_pools import hipMemPoolExportPointer as hipMemPoolExportPointer
from atops.hip.functions.shared_pools import hipMemPoolExportToShareableHandle as hipMemPoolExportToShareableHandle
from atops.hip.functions.shared_pools import hipMemPoolImportFromShareableHandle as hipMemPoolImportFromShareableHandle
from atops.hip.functions.shared_pools import hipMemPoolImportPointer as hipMemPoolImportPointer
from atops.hip.functions.stream import *  # noqa: F403
from atops.hip.header import constants, enumerations, structs
from atops.hip.header.constants import *  # noqa: F403
from atops.hip.header.enumerations import *  # noqa: F403
from atops.hip.header.error_codes import hipError_t as hipError_t
from atops.hip.header.functions import FUNCTIONS
from atops.hip.header.pointers import DeviceArray as DeviceArray
from atops.hip.header.pointers import Pointer as Pointer
from atops.hip.header.structs import *  # noqa: F403
from atops.hip.hiprtc import hiprtcDestroyProgram as hiprtcDestroyProgram  # hip-python's programs call it here, too

VALUES = (constants, enumerations, structs)
EXTRAS = ("DeviceArray", "Pointer", "check", "hipError_t", "host_view")
__all__ = tuple(sorted({*FUNCTIONS, *(name for part in VALUES for name in part.__all__), *EXTRAS}))

# What programs ask for most, and what does it here.
ADVICE: Final = {
    "hipMemcpy2D": "copy row by row with hipMemcpy, or views of arrays with stream.copy",
    "hipMemcpy2DAsync": "copy row by row with hipMemcpyAsync, or views of arrays with stream.copy",
    "hipMallocPitch": "take hipMalloc(pitch * height), with a pitch of your own",
    "hipMalloc3D": "take hipMalloc(pitch * height * depth), with a pitch of your own",
}


def _missing(name: str) -> NoReturn:
    """Refuse a name, with what does it here."""
    advice = f"; {ADVICE[name]}" if name in ADVICE else ""
    raise AttributeError(f"atops.hip.hip has no {name}{advice}", name=name, obj=sys.modules[__name__])


if not TYPE_CHECKING:  # checkers are to refuse a name that does not exist
    __getattr__ = _missing
