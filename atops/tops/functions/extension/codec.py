"""Second names for device memory, as a video codec would take them: topsExtCodecMemHandle (TOPS Runtime API, 2.6)."""

from __future__ import annotations

from atops.base.errors import InvalidValue, NotSupported
from atops.tops.bridge.aliases import add_alias
from atops.tops.bridge.arguments import size_of
from atops.tops.bridge.call import call
from atops.tops.bridge.context import current_device
from atops.tops.bridge.pointers import device_memory
from atops.tops.functions.extension.codec_name import CodecName

__all__ = ("topsExtCodecMemHandle",)

WITH_CODEC = 300  # the architecture whose codecs take such names


@call
def topsExtCodecMemHandle(dev_addr: int, size: int) -> int:
    """Return another pointer for `size` bytes at `dev_addr` of the current device; topsFree releases only the name.

    Size 0 too has a pointer of its own. NotSupported: on gcu210. InvalidValue: bytes that are not inside one live
    allocation of the current device. OutOfMemory: no addresses are left.
    """
    device = current_device()
    if device.arch.gcu_arch != WITH_CODEC:
        raise NotSupported(f"{device!r} has no codec memory handles; gcu300 has")
    nbytes = size_of(size)
    memory = device_memory(dev_addr, nbytes, "dev_addr", device=device.ordinal)
    if memory.device is None:
        raise InvalidValue(f"dev_addr is in {memory.allocation!r}; memory of device {device.ordinal} is right")
    name = CodecName(memory)
    return add_alias(device.context, nbytes, name.resolve, name).address
