"""Which clusters and SIPs are chosen: arithmetic on masks, beside what is claimed."""

from __future__ import annotations

import random

import pytest

from atops.base.errors import InvalidValue, LaunchOutOfResources
from atops.runtime.resources.placement import BundleRequest, Claimed, choose_part, choose_reservation, left_by

FULL = 0b1111  # clusters of four SIPs
CHIP = (FULL,) * 3
ENGINES = 2


def claim(*part, engines=0, exclusive=False):
    """Return what a bundle has."""
    return Claimed(part, engines, exclusive)


def choose(claims=(), base=CHIP, **request):
    """Return the part that a request gets."""
    return choose_part(BundleRequest(**request), base, claims, ENGINES)


def test_a_request_for_nothing_is_for_everything():
    """Without a count the part is the device."""
    assert choose() == CHIP


@pytest.mark.parametrize(
    ("request_", "part"),
    [
        ({"clusters": 2}, (FULL, FULL, 0)),
        ({"cluster_mask": 0b101}, (FULL, 0, FULL)),
        ({"sips": 3}, (0b0111, 0, 0)),
        ({"sips": 4, "engines": 2}, (FULL, 0, 0)),
    ],
)
def test_an_idle_device_gives_the_lowest(request_, part):
    """Clusters, a mask and SIPs, from 0 up."""
    assert choose(**request_) == part


def test_clusters_that_few_use_come_first():
    """What shares goes where the fewest bundles are."""
    users = (claim(FULL, FULL, 0), claim(FULL, 0, 0))
    assert choose(users, clusters=1) == (0, 0, FULL)
    assert choose(users, clusters=2) == (0, FULL, FULL)


def test_exclusive_clusters_have_one_bundle():
    """Neither a count, nor a mask, nor SIPs get them; an exclusive request gets none that is shared."""
    taken = (claim(FULL, 0, 0, exclusive=True),)
    assert choose(taken, clusters=2) == (0, FULL, FULL)
    assert choose(taken, sips=1) == (0, 1, 0)
    for request in ({"clusters": 3}, {"cluster_mask": 0b001}, {"clusters": 3, "exclusive": True}, {}):
        with pytest.raises(LaunchOutOfResources, match="can"):
            choose(taken, **request)
    with pytest.raises(LaunchOutOfResources, match="1 can be had"):
        choose((claim(FULL, FULL, 0),), clusters=2, exclusive=True)


def test_sips_fit_best_and_share_only_when_they_must():
    """The cluster with the fewest unclaimed SIPs that suffice; shared ones after that, if none is exclusive."""
    used = (claim(0b0001, 0b0111, 0),)
    assert choose(used, sips=1) == (0, 0b1000, 0)
    assert choose(used, sips=3) == (0b1110, 0, 0)
    full = (claim(*CHIP),)
    assert choose(full, sips=2) == (0b0011, 0, 0)
    with pytest.raises(LaunchOutOfResources, match="2 SIP threads"):
        choose(full, sips=2, exclusive=True)


def test_engines_are_of_the_same_cluster():
    """A cluster whose engines are claimed gets no more of such bundles."""
    used = (claim(0b0001, 0, 0, engines=1), claim(0b0010, 0, 0, engines=1))
    assert choose(used, sips=1) == (0b0100, 0, 0)
    assert choose(used, sips=1, engines=1) == (0, 0b0001, 0)
    with pytest.raises(LaunchOutOfResources, match="copy engines"):
        choose(used, sips=1, engines=3)


def test_a_reservation_bounds_what_bundles_get():
    """The part lies in the base; a cluster of which it has a part counts as one."""
    base = (0, 0b0011, 0)
    assert choose(base=base) == base
    assert choose(base=base, clusters=1) == base
    with pytest.raises(LaunchOutOfResources, match="most"):
        choose(base=base, sips=3)


@pytest.mark.parametrize(
    ("threads", "part"), [(1, (1, 0, 0)), (4, (FULL, 0, 0)), (5, (FULL, FULL, 0)), (9, CHIP), (12, CHIP)]
)
def test_reservations_are_rounded_up_to_clusters(threads, part):
    """Up to one cluster's SIPs on one cluster, more in whole clusters."""
    assert choose_reservation(threads, CHIP, ()) == part


def test_reservations_go_beside_exclusive_bundles_and_over_others():
    """SIPs and clusters that share are free to it."""
    claims = (claim(0b0111, 0, 0, exclusive=True), claim(0, FULL, 0))
    assert choose_reservation(1, CHIP, claims) == (0b1000, 0, 0)
    assert choose_reservation(8, CHIP, claims) == (0, FULL, FULL)
    with pytest.raises(LaunchOutOfResources, match="2 can be had"):
        choose_reservation(9, CHIP, claims)


@pytest.mark.parametrize(
    "request_",
    [
        {"clusters": 0}, {"cluster_mask": 0}, {"sips": 0}, {"clusters": 1, "sips": 1}, {"engines": 1}, {"memory": -1},
        {"sips": 1, "engines": -1}, {"policy": "nearest"},
    ],
)  # fmt: skip
def test_a_request_without_a_meaning_is_refused(request_):
    """Nothing asked for, two things at once, negative numbers, an unknown policy."""
    with pytest.raises(InvalidValue, match="expected"):
        BundleRequest(**request_)


def test_a_mask_beyond_the_device_is_refused():
    """Bit 3 of three clusters."""
    with pytest.raises(InvalidValue, match="has 3 clusters"):
        choose(cluster_mask=0b1000)


def test_whatever_is_claimed_exclusive_parts_never_meet():
    """In any order of requests and ends no SIP of an exclusive bundle is another's, and all is there at the end."""
    chance = random.Random(7)
    claims, made = [], 0
    for _ in range(400):
        if claims and chance.random() < 0.4:
            claims.pop(chance.randrange(len(claims)))
            continue
        exclusive = chance.random() < 0.5
        request = chance.choice([{"clusters": chance.randint(1, 3)}, {"sips": chance.randint(1, 4)}])
        try:
            part = choose(claims, exclusive=exclusive, **request)
        except LaunchOutOfResources:
            continue
        for other in claims:
            if exclusive or other.exclusive:
                assert not any(mine & theirs for mine, theirs in zip(part, other.part, strict=True))
        claims.append(claim(*part, exclusive=exclusive))
        made += exclusive
    assert made > 20
    assert left_by(CHIP, ()) == CHIP
