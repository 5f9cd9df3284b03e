"""Driver initialisation and version (TOPS Runtime API, 2.1)."""

from __future__ import annotations

from typing import ClassVar

import pytest

import atops.tops as tops
from atops.base.result_codes import Result
from atops.tops.header.functions import FUNCTIONS
from tests.tops.conformance import Case, Conformance

DEVICE_CALLS = {
    "topsDeviceComputeCapability": (),
    "topsDeviceGet": (),
    "topsDeviceGetName": (64,),
    "topsDeviceGetPCIBusId": (13,),
    "topsDeviceTotalMem": (),
}
NO_ARGUMENT = "its only argument in C is an out-parameter, which Python does not have"


class TestDriver(Conformance):
    """Every function of 2.1, by its rows."""

    functions = tuple(name for name, function in FUNCTIONS.items() if function.family == "Driver")
    good: ClassVar = {
        "topsInit": (0,),
        "topsDriverGetVersion": (),
        "topsRuntimeGetVersion": (),
        "topsDeviceGetByPCIBusId": ("0000:02:00.0",),
        **{name: (*more, 1) for name, more in DEVICE_CALLS.items()},
    }
    bad = (
        Case("topsInit", "flags", (1,), tops.topsErrorInvalidValue),
        Case("topsInit", "negative flags", (-1,), tops.topsErrorInvalidValue),
        Case("topsDeviceGetName", "no room", (0, 0), tops.topsErrorInvalidValue),
        Case("topsDeviceGetPCIBusId", "12 characters of room", (12, 0), tops.topsErrorInvalidValue),
        Case("topsDeviceGetByPCIBusId", "no such form", ("bus 1",), tops.topsErrorInvalidValue),
        Case("topsDeviceGetByPCIBusId", "bytes that are no text", (b"\xff",), tops.topsErrorInvalidValue),
        Case("topsDeviceGetByPCIBusId", "nothing there", ("0000:03:00.0",), tops.topsErrorInvalidDevice),
        Case("topsDeviceGetByPCIBusId", "another domain", ("0001:01:00.0",), tops.topsErrorInvalidDevice),
        *(Case(name, "device 2 of 2", (*more, 2), tops.topsErrorInvalidDevice) for name, more in DEVICE_CALLS.items()),
        *(Case(name, "device -1", (*more, -1), tops.topsErrorInvalidDevice) for name, more in DEVICE_CALLS.items()),
        *(Case(name, "device 1.0", (*more, 1.0), tops.topsErrorInvalidValue) for name, more in DEVICE_CALLS.items()),
        *(Case(name, "device True", (*more, True), tops.topsErrorInvalidValue) for name, more in DEVICE_CALLS.items()),
    )
    unreachable: ClassVar = {
        ("topsDriverGetVersion", Result.InvalidValue): NO_ARGUMENT,
        ("topsRuntimeGetVersion", Result.InvalidValue): NO_ARGUMENT,
    }


def test_version(world):
    """2.2 is 2020, of driver and runtime alike."""
    assert tops.topsDriverGetVersion() == tops.topsRuntimeGetVersion() == (tops.topsSuccess, 2020)


def test_name_is_cut(world):
    """The name has at most len - 1 characters, the end of the text being the last."""
    whole = tops.check(tops.topsDeviceGetName(256, 0))
    assert whole.startswith("Enflame S60")
    assert tops.check(tops.topsDeviceGetName(8, 0)) == whole[:7]
    assert tops.check(tops.topsDeviceGetName(1, 0)) == ""


@pytest.mark.parametrize("ordinal", [0, 1])
def test_bus_id_round_trip(world, ordinal):
    """What topsDeviceGetPCIBusId returns, topsDeviceGetByPCIBusId takes; domain and function may be left out."""
    text = tops.check(tops.topsDeviceGetPCIBusId(13, ordinal))
    assert len(text) == 12
    for form in (text, text.encode(), text.upper(), text[5:], text[5:10]):
        assert tops.topsDeviceGetByPCIBusId(form) == (tops.topsSuccess, ordinal)


def test_figures(world):
    """Capability and memory are the architecture's."""
    assert tops.topsDeviceComputeCapability(0) == (tops.topsSuccess, 3, 0)
    assert tops.check(tops.topsDeviceTotalMem(1)) == world.driver.arch.l3_bytes
