"""topsSetDeviceAndResourceReservation (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from typing import ClassVar

import pytest

import atops.tops as tops
from atops.runtime.resources.bundle import set_chosen_bundle
from tests.tops.conformance import Case, Conformance
from tests.tops.functions.test_resource_bundle import (
    NONE_LEFT,
    Holder,
    clusters,
    create,
    places,
    processors,
    request,
    using,
)

INVALID = tops.topsErrorInvalidValue
IN_USE = tops.topsErrorDeviceAlreadyInUse
NAME = "topsSetDeviceAndResourceReservation"


def threads(count):
    """Return a request for so many SIP threads."""
    return tops.topsResourceRequestV2_t(reserved_threads=count)


def reserve(count, device=0):
    """Reserve SIP threads, and return the answer."""
    return tops.topsSetDeviceAndResourceReservation(device, threads(count))


@pytest.fixture(autouse=True)
def no_default():
    """Have no default bundle before and after each test."""
    set_chosen_bundle(None)
    yield
    set_chosen_bundle(None)


def reserved(world):
    """Return arguments that conflict with a reservation in force."""
    tops.check(reserve(4))
    return 0, threads(5)


def crowded(world):
    """Return arguments for more than an exclusive bundle leaves."""
    create("VG", sip_num=8, exclusive=True)
    create("PG", pg_mask=0b10, exclusive=True)
    return 0, threads(5)


class TestReservation(Conformance):
    """The function, by its rows."""

    def after_row(self) -> None:
        """Have no default bundle again."""
        set_chosen_bundle(None)

    functions = ("topsSetDeviceAndResourceReservation",)
    good: ClassVar = {NAME: lambda world: (1, threads(12))}
    bad = (
        Case(NAME, "device 2", (2, threads(1)), tops.topsErrorInvalidDevice),
        Case(NAME, "device -1", (-1, threads(1)), tops.topsErrorInvalidDevice),
        Case(NAME, "25 of 24 threads", (0, threads(25)), INVALID),
        Case(NAME, "threads below zero", (0, threads(-1)), INVALID),
        Case(NAME, "another number is in force", reserved, IN_USE),
        Case(NAME, "too few are left", crowded, IN_USE),
    )


def test_the_device_is_current_only_on_success(world):
    """It is what topsSetDevice does; after a failure the device before stays."""
    tops.check(reserve(4, 1))
    assert tops.check(tops.topsGetDevice()) == 1
    assert reserve(25) == (INVALID,)
    assert tops.check(tops.topsGetDevice()) == 1


@pytest.mark.parametrize(
    ("count", "processors_", "width"), [(1, 1, 1), (4, 1, 4), (12, 1, 12), (13, 2, 12), (24, 2, 12)]
)
def test_properties_and_attributes_report_what_is_reserved(world, count, processors_, width):
    """Clusters and threads shrink to the reservation, rounded up to whole clusters beyond one; the other board not."""
    tops.check(reserve(count))
    found = tops.check(tops.topsGetDeviceProperties(0))
    assert (found.multiProcessorCount, found.maxThreadsPerMultiProcessor) == (processors_, width)
    assert (found.maxThreadsPerBlock, found.maxThreadsDim) == (width, (width,) * 3)
    for attribute, value in (
        (tops.topsDeviceAttributeMultiprocessorCount, processors_),
        (tops.topsDeviceAttributeMaxThreadsPerBlock, width),
        (tops.topsDeviceAttributeMaxBlockDimX, width),
    ):
        assert tops.check(tops.topsDeviceGetAttribute(attribute, 0)) == value
    other = tops.check(tops.topsGetDeviceProperties(1))
    assert (other.multiProcessorCount, other.maxThreadsPerBlock) == (2, 12)
    assert found.name == other.name


def test_launches_use_what_is_reserved_and_nothing_else(world):
    """Blocks of 4 threads run on the 4 SIPs of one cluster; larger ones are refused as on a smaller chip."""
    tops.check(reserve(4))
    assert places(6, 4) == [(0, sip) for sip in range(4)]
    assert Holder(threads=5).answer == (tops.topsErrorInvalidConfiguration,)


def test_more_than_a_cluster_is_whole_clusters(world):
    """13 threads are both clusters of the chip."""
    tops.check(reserve(13))
    assert clusters(4, 12) == {0, 1}


def test_the_same_again_and_nothing_are_no_conflict(world):
    """The number in force and 0 succeed, and change nothing."""
    tops.check(reserve(4))
    tops.check(reserve(4))
    tops.check(reserve(0))
    assert places(2, 4) == [(0, sip) for sip in range(4)]


def test_nothing_reserved_is_the_whole_device(world):
    """0 leaves the device as it is."""
    tops.check(reserve(0))
    assert clusters(4, 12) == {0, 1}


def test_it_ends_with_a_reset(world):
    """After topsDeviceReset the device is whole, and another number can be reserved."""
    tops.check(reserve(4))
    tops.check(tops.topsDeviceReset())
    assert tops.check(tops.topsGetDeviceProperties(0)).maxThreadsPerBlock == 12
    assert clusters(4, 12) == {0, 1}
    tops.check(reserve(5))


def test_bundles_are_made_of_what_is_reserved(world):
    """A bundle of the device is the reservation, and an exclusive one leaves nothing of it to others."""
    tops.check(reserve(4))
    handle = create("DEVICE", exclusive=True)
    assert processors(handle) == 1
    assert Holder().answer == (NONE_LEFT,)
    assert tops.topsCreateResource(request(cluster_num=1))[0] == NONE_LEFT
    using(handle)
    assert places(3, 4) == [(0, sip) for sip in range(4)]


def test_it_goes_beside_exclusive_bundles(world):
    """A reservation takes SIPs that no exclusive bundle has."""
    create("PG", pg_mask=0b01, exclusive=True)
    tops.check(reserve(6))
    assert clusters(3, 6) == {1}
