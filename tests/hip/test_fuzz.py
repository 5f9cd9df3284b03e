"""Arguments of all kinds, each where another belongs: a code, as many results as the table says, and no exception."""

from __future__ import annotations

import ctypes
import logging
import random
from typing import Any

import numpy as np
import pytest

from atops.hip import hip, hiprtc
from atops.hip.header.functions import FUNCTIONS, RTC_FUNCTIONS
from tests.tops.conformance import new_world

# A wait for a value may never end, and a reset ends what the next calls are given.
NAMES = [name for name in FUNCTIONS if "WaitValue" not in name and name != "hipDeviceReset"]
ANSWERS = {hip: hip.hipError_t, hiprtc: hiprtc.hiprtcResult}
UNKNOWN = (hip.hipError_t.hipErrorUnknown, hiprtc.hiprtcResult.HIPRTC_ERROR_INTERNAL_ERROR)
CALLS = 400


class Array:
    """An array of another library, or what claims to be one."""

    def __init__(self, interface: object) -> None:
        self.__cuda_array_interface__ = interface


class NoIndex:
    """What has the method of a number, and fails in it."""

    def __index__(self) -> int:
        raise KeyError(self)


def any_arguments() -> list[Any]:
    """Return numbers, texts, memory, structs and handles, live ones too."""
    props = hip.hipMemPoolProps(1, 0, hip.hipMemLocation(1, 0))
    live = (
        hip.hipStreamCreateWithFlags(1), hip.hipEventCreate(), hip.hipMalloc(64), hip.hipMallocAsync(64, None),
        hip.hipMemPoolCreate(props), hip.hipHostMalloc(64, 0), hip.hipDeviceGetDefaultMemPool(0),
    )  # fmt: skip
    handles = [answer[1] for answer in live if not answer[0]]
    interfaces = (5, {}, {"data": ("a",)}, *({"data": (int(each), False)} for each in handles))
    return [
        None, 0, 1, -1, 2, 3, 7, 1 << 31, 1 << 32, 1 << 63, 1 << 64, -(1 << 63), 1.5, float("nan"), True, "x", b"x", [],
        [1], (), {}, object(), str, int, NoIndex(), np.zeros(4, np.uint8), np.zeros(0),
        np.int32(3), np.float32(1), ctypes.c_int(3), ctypes.byref(ctypes.c_int(1)), ctypes.c_void_p(),
        ctypes.c_void_p(5), ctypes.pointer(ctypes.c_int(3)),
        ctypes.POINTER(ctypes.c_int)(), (ctypes.c_uint8 * 64)(), bytearray(8), hip.hipMemLocation(1, 0),
        hip.hipMemLocation("a", None), props, hip.hipMemPoolProps(1, 0, None), hip.hipMemPoolProps("a", [], 7),
        hip.hipMemAccessDesc(), hip.hipMemAccessDesc(None, 3), hip.hipDeviceProp_t(),
        *handles, *map(ctypes.c_void_p, handles), *map(Array, interfaces),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_arguments(seed, caplog):
    """No call raises, and none meets what it does not know."""
    caplog.set_level(logging.CRITICAL, "atops")
    chooser = random.Random(seed)
    with new_world():
        for count in range(CALLS):
            if count % 20 == 0:
                values = any_arguments()
            name = chooser.choice([*NAMES, *RTC_FUNCTIONS])
            facade, function = (hip, FUNCTIONS[name]) if name in FUNCTIONS else (hiprtc, RTC_FUNCTIONS[name])
            given = [chooser.choice(values) for _ in function.parameters]
            code, *results = getattr(facade, name)(*given)
            assert isinstance(code, ANSWERS[facade]) and code not in UNKNOWN, (name, given)
            assert len(results) == function.outs, (name, given)
