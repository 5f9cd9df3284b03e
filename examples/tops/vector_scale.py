"""A C host program in Python, call by call: memory of every kind, copies, fills, a constant, and what pointers tell.

The device doubles a vector by no kernel at all: it is copied behind itself, so look at where the bytes lie.
"""

from __future__ import annotations

import numpy as np

import atops.tops as tops
from atops import kernels as k

N = 1024
NBYTES = 4 * N
TOPS_CHECK = tops.check  # what the macro of that name does: raise, or go on with the result

scale = k.constant("float32")


def main() -> None:
    """Fill, copy and compare, and give everything back."""
    TOPS_CHECK(tops.topsSetDevice(0))
    before, total = TOPS_CHECK(tops.topsMemGetInfo())

    h_x = TOPS_CHECK(tops.topsHostMalloc(NBYTES, tops.topsHostMallocDefault))  # pinned: copied asynchronously
    x = tops.host_view(h_x, NBYTES).view(np.float32)
    x[:] = np.arange(N)
    y = np.empty(2 * N, np.float32)  # pageable: the copy is over when the call returns

    d_x = TOPS_CHECK(tops.topsMalloc(2 * NBYTES))
    TOPS_CHECK(tops.topsMemsetD32Async(d_x + NBYTES, 0x3F800000, N))  # 1.0f
    TOPS_CHECK(tops.topsMemcpyAsync(d_x, h_x, NBYTES, tops.topsMemcpyHostToDevice))
    TOPS_CHECK(tops.topsMemcpy(y, d_x, 2 * NBYTES, tops.topsMemcpyDeviceToHost))
    assert np.array_equal(y, np.concatenate([x, np.ones(N, np.float32)]))

    TOPS_CHECK(tops.topsMemcpyDtoD(d_x + NBYTES, d_x, NBYTES))
    TOPS_CHECK(tops.topsMemcpyDtoH(y, d_x, 2 * NBYTES))
    assert np.array_equal(y, np.tile(x, 2))

    factor = np.float32(2.5)
    TOPS_CHECK(tops.topsMemcpyToSymbol(tops.TOPS_SYMBOL(scale), factor, 4))
    found = np.zeros(1, np.float32)
    TOPS_CHECK(tops.topsMemcpyFromSymbol(found, tops.TOPS_SYMBOL(scale), 4))
    y *= found

    about = TOPS_CHECK(tops.topsPointerGetAttributes(d_x + 12))
    base, size = TOPS_CHECK(tops.topsMemGetAddressRange(d_x + 12))
    print(f"{size} bytes at {base:#x} on device {about.device}, memory type {about.memoryType}")

    (err,) = tops.topsMemcpy(d_x, d_x + 4, NBYTES, tops.topsMemcpyDeviceToDevice)
    print(f"copying onto itself: {TOPS_CHECK(tops.topsGetErrorName(err))}")
    assert err == tops.topsGetLastError()[0] == tops.topsErrorInvalidValue

    TOPS_CHECK(tops.topsFree(d_x))
    TOPS_CHECK(tops.topsHostFree(h_x))
    after, _ = TOPS_CHECK(tops.topsMemGetInfo())
    print(f"{total - after} of {total} bytes are in use: the constant")
    assert before - after < NBYTES
    assert np.array_equal(y, 2.5 * np.tile(np.arange(N, dtype=np.float32), 2))


if __name__ == "__main__":
    main()
