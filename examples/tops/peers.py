"""Sum a vector that is spread over the devices of a board: each sends its part to device 0 over the best link there is.

Written as its C original is: every call returns its code first, and pointers are numbers.
"""

from __future__ import annotations

import os

import numpy as np

import atops.tops as tops

os.environ.setdefault("ATOPS_DEVICES", "4")  # before the first call: the board is made then

PART = 1 << 16
LINKS = {1: "one PCIe switch", 2: "the root complexes"}


def best_link(device: int) -> int:
    """Return over which kind of link to reach device 0: ESL, by any of the ports that lead there, or what there is."""
    word = tops.check(tops.topsDeviceCanAccessPeer(device, 0))
    ports, switch = word & 0xFF, word >> 8 & 0xFF
    way = f"ESL ports {ports:#04b}" if ports else LINKS.get(switch, "the host" if device else "itself")
    print(f"device {device} to device 0: {way}")
    return tops.topsTopologyMapTypeEsl if ports else tops.topsTopologyMapTypeAuto


def main() -> None:
    """Fill a part on each device, gather them on device 0, and look at one of them through a region."""
    count = tops.check(tops.topsGetDeviceCount())
    rng = np.random.default_rng(1)
    parts = [rng.integers(0, 100, PART, np.int32) for _ in range(count)]
    size = parts[0].nbytes

    sources = []
    for device, part in enumerate(parts):
        tops.check(tops.topsSetDevice(device))
        pointer = tops.check(tops.topsMalloc(size))
        tops.check(tops.topsMemcpy(pointer, part, size, tops.topsMemcpyHostToDevice))
        sources.append(pointer)

    tops.check(tops.topsSetDevice(0))
    gathered = tops.check(tops.topsMalloc(count * size))
    for device, source in enumerate(sources):
        kind = best_link(device)
        tops.check(tops.topsMemcpyPeerExt(gathered + device * size, 0, source, device, size, kind, -1))

    everything = np.empty(count * PART, np.int32)
    tops.check(tops.topsMemcpy(everything, gathered, everything.nbytes, tops.topsMemcpyDeviceToHost))

    # The last device's first kilobyte under an address of device 0's own.
    last = count - 1
    window = tops.check(tops.topsDeviceEnablePeerAccessRegion(last, sources[last], 1024))
    head = np.empty(256, np.int32)
    tops.check(tops.topsMemcpy(head, window, 1024, tops.topsMemcpyDeviceToHost))
    tops.check(tops.topsDeviceDisablePeerAccessRegion(last, sources[last], 1024))
    (err,) = tops.topsMemcpy(head, window, 1024, tops.topsMemcpyDeviceToHost)

    for pointer in (*sources, gathered):
        tops.check(tops.topsFree(pointer))
    print(f"sum of {everything.size} elements: {everything.sum()}")
    assert everything.sum() == sum(part.sum() for part in parts)
    assert (head == parts[last][:256]).all() and err != tops.topsSuccess


if __name__ == "__main__":
    main()
