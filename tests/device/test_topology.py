"""The board's topology: access words, links and routes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atops.base.errors import InvalidDevice, InvalidValue
from atops.device.arch import architecture
from atops.device.topology import Link, LinkKind, Topology

RING = Topology.of(architecture("gcu300"), 6)
PLAIN = Topology.of(architecture("gcu210"), 6)


def test_kinds_have_the_headers_values() -> None:
    """The header counts Auto, Local, Esl, P2P, ClsAsDev."""
    assert [LinkKind.AUTO, LinkKind.LOCAL, LinkKind.ESL, LinkKind.P2P, LinkKind.CLS_AS_DEV] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("j", "word"),
    [(0, 0), (1, 0x0101), (2, 0x0100), (3, 0x0100), (4, 0x0200), (5, 0x0202)],
)
def test_access_word_on_a_ring(j: int, word: int) -> None:
    """Port 0 leads to the next, port 1 to the previous, and four devices share a switch."""
    assert RING.access_word(0, j) == word


def test_a_board_without_a_ring_has_no_port_bits() -> None:
    """A gcu210 board is joined by PCIe alone."""
    words = {PLAIN.access_word(i, j) & 0xFF for i in range(6) for j in range(6)}
    assert words == {0}
    assert PLAIN.access_word(0, 3) == 0x0100
    assert PLAIN.access_word(3, 4) == PLAIN.access_word(4, 3) == 0x0200


@pytest.mark.parametrize("devices", range(1, 9))
def test_a_ring_is_a_ring(devices: int) -> None:
    """Each port of the ring leads to one device, from which the other port leads back; alone, there is no link."""
    board = Topology.of(architecture("gcu300"), devices)
    for i in range(devices):
        for port, back in ((0, 1), (1, 0)):
            ends = [j for j in range(devices) if board.access_word(i, j) >> port & 1]
            assert len(ends) == (devices > 1)
            assert all(board.access_word(j, i) >> back & 1 for j in ends)


def test_two_devices_are_joined_by_both_ports() -> None:
    """The next and the previous device are the same one."""
    pair = Topology.of(architecture("gcu300"), 2)
    assert pair.access_word(0, 1) == pair.access_word(1, 0) == 0x0103
    assert [link.port for link in pair.links(0, 1)] == [0, 1, None]


def test_links_are_in_a_fixed_order() -> None:
    """ESL comes before PCIe, and a device reaches itself locally."""
    assert RING.links(0, 1) == (Link(LinkKind.ESL, 0, 25_000_000_000), Link(LinkKind.PCIE, None, 63_000_000_000))
    assert RING.links(2, 2) == (Link(LinkKind.LOCAL, None, 672_000_000_000),)
    assert [link.kind for link in PLAIN.links(0, 5)] == [LinkKind.P2P]
    chip = Topology(2, esl=True, clusters_as_devices=True)
    assert [link.kind for link in chip.links(0, 1)] == [LinkKind.CLS_AS_DEV, LinkKind.ESL, LinkKind.ESL, LinkKind.P2P]
    assert chip.access_word(0, 1) == 0x010103


def test_auto_takes_the_fastest_link() -> None:
    """Of equal ones the first: within the chip, then ESL with an allowed port, then PCIe."""
    assert RING.route(1, 1) == Link(LinkKind.LOCAL, None, 672_000_000_000)
    assert RING.route(0, 5) == Link(LinkKind.PCIE, None, 63_000_000_000)
    equal = replace(RING, pcie_bandwidth=RING.esl_bandwidth)
    assert equal.route(0, 5) == Link(LinkKind.ESL, 1, 25_000_000_000)
    assert equal.route(0, 5, port_mask=0b01) == Link(LinkKind.PCIE, None, 25_000_000_000)
    assert replace(RING, pcie_bandwidth=1).route(0, 5) == Link(LinkKind.ESL, 1, 25_000_000_000)
    assert RING.route(0, 3) == Link(LinkKind.PCIE, None, 63_000_000_000)


def test_auto_is_none_where_nothing_leads() -> None:
    """Without a way through the root complexes the host has to help."""
    island = Topology(8, across_roots=False)
    assert island.access_word(0, 4) == 0
    assert island.route(0, 4) is None
    assert island.route(0, 3) is not None


@pytest.mark.parametrize(("mask", "port"), [(-1, 0), (0b11, 0), (0b10, 1), (0b101, 0)])
def test_esl_takes_an_allowed_port(mask: int, port: int) -> None:
    """The lowest port whose bit is set."""
    pair = Topology.of(architecture("gcu300"), 2)
    link = pair.route(0, 1, LinkKind.ESL, mask)
    assert link is not None and (link.kind, link.port) == (LinkKind.ESL, port)


@pytest.mark.parametrize(
    ("i", "j", "kind", "mask"),
    [
        (0, 1, LinkKind.LOCAL, -1), (0, 1, LinkKind.CLS_AS_DEV, -1), (0, 3, LinkKind.ESL, -1),
        (0, 1, LinkKind.ESL, 0b10), (0, 1, LinkKind.ESL, 0), (2, 2, LinkKind.P2P, -1), (2, 2, LinkKind.ESL, -1),
    ],
)  # fmt: skip
def test_an_explicit_link_that_does_not_exist_is_refused(i: int, j: int, kind: LinkKind, mask: int) -> None:
    """The message names the kind and both devices."""
    with pytest.raises(InvalidValue, match=rf"{kind.name}.* device {i} to {j}"):
        RING.route(i, j, kind, mask)


def test_other_kinds_ignore_the_port() -> None:
    """Only ESL has ports."""
    assert RING.route(0, 1, LinkKind.P2P, 0) == Link(LinkKind.PCIE, None, 63_000_000_000)
    assert RING.route(1, 1, LinkKind.LOCAL, 0) is not None


def test_unknown_kinds_and_devices_are_refused() -> None:
    """Numbers that mean nothing raise, with what would be right."""
    with pytest.raises(InvalidValue, match=r"9.*AUTO"):
        RING.route(0, 1, 9)
    for i, j in ((0, 6), (-1, 0), (6, 6)):
        with pytest.raises(InvalidDevice, match="board of 6"):
            RING.access_word(i, j)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"devices": -1}, "devices"),
        ({"ports": 9}, "ports"),
        ({"esl": True, "ports": 1}, "ports"),
        ({"switch": 0}, "switch"),
    ],
)
def test_impossible_boards_are_refused(changes: dict[str, int], field: str) -> None:
    """The message names the field."""
    with pytest.raises(InvalidValue, match=field):
        Topology(**{"devices": 2, **changes})  # type: ignore[arg-type]


def test_options_give_and_take_the_ring() -> None:
    """The default is the architecture's; the caller may say otherwise."""
    assert Topology.of(architecture("gcu210"), 2, esl=True).access_word(0, 1) & 0xFF == 0b11
    assert Topology.of(architecture("gcu300"), 2, esl=False).access_word(0, 1) & 0xFF == 0
    assert Topology.of(architecture("gcu300"), 0).devices == 0
