"""Which links join the devices of a board, as arithmetic. Whether peer access is enabled is the driver's business."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from atops.base.errors import InvalidDevice, InvalidValue
from atops.base.options import VARIABLES
from atops.device.arch import ARCHITECTURES, Architecture

__all__ = ("Link", "LinkKind", "Topology")

_DEFAULT = ARCHITECTURES[VARIABLES["arch"].default]  # the chip of a board of which nothing is said

# The access word has eight bits for ports (TOPS Runtime API, 2.7).
MAX_PORTS = 8

# A ring takes two ports of each device.
_TO_NEXT, _TO_PREVIOUS = 0, 1


class LinkKind(IntEnum):
    """How two devices are joined, with the values of topsTopologyMapType. AUTO is a request, never a link."""

    AUTO = 0
    LOCAL = 1
    ESL = 2
    PCIE = 3
    P2P = 3
    CLS_AS_DEV = 4


NAMES: Final = {
    LinkKind.LOCAL: "local",
    LinkKind.ESL: "ESL",
    LinkKind.P2P: "P2P (PCIe)",
    LinkKind.CLS_AS_DEV: "clusters",
}


class Link(NamedTuple):
    """One way from a device to another: its kind, the first device's ESL port (None elsewhere), bytes per second."""

    kind: LinkKind
    port: int | None
    bandwidth: int

    @property
    def name(self) -> str:
        """What traces call it: "ESL port 0", "P2P (PCIe)", "local", "clusters"."""
        return NAMES[self.kind] if self.port is None else f"{NAMES[self.kind]} port {self.port}"


@dataclass(frozen=True, slots=True)
class Topology:
    """The links of a board of `devices` devices.

    - `esl`: the devices form a ring, port 0 to the next and port 1 to the previous. Two devices are joined by both
      ports, one device has no link, and there are no routes through third devices.
    - `ports`: ESL ports of each device, 0 to 8; a ring needs two.
    - `switch`: so many devices, counted from 0, share a PCIe switch.
    - `across_roots`: devices under different switches reach each other through the root complexes.
    - `clusters_as_devices`: the devices are the clusters of one chip.
    - Bandwidths are bytes per second, of each ESL port, of PCIe and within one chip.

    Raises InvalidValue, naming the field, for what no board can be.
    """

    devices: int
    esl: bool = False
    ports: int = _DEFAULT.esl_ports
    switch: int = 4
    across_roots: bool = True
    clusters_as_devices: bool = False
    esl_bandwidth: int = _DEFAULT.esl_bandwidth
    pcie_bandwidth: int = _DEFAULT.host_bandwidth
    local_bandwidth: int = _DEFAULT.l3_bandwidth

    def __post_init__(self) -> None:
        """Check the counts."""
        if self.devices < 0:
            raise InvalidValue(f"devices is {self.devices}; expected 0 or more")
        if not 0 <= self.ports <= MAX_PORTS:
            raise InvalidValue(f"ports is {self.ports}; expected 0 to {MAX_PORTS}")
        if self.esl and self.ports < 2:
            raise InvalidValue(f"ports is {self.ports}; an ESL ring needs at least 2")
        if self.switch < 1:
            raise InvalidValue(f"switch is {self.switch}; expected at least 1 device on a PCIe switch")

    @classmethod
    def of(cls, arch: Architecture, devices: int, esl: bool | None = None) -> Topology:
        """Return the default board of an architecture: four devices a switch, and on gcu300 an ESL ring.

        `esl` gives or takes the ring; None leaves the architecture's default.
        """
        return cls(
            devices,
            arch.gcu_arch >= 300 if esl is None else esl,
            arch.esl_ports,
            esl_bandwidth=arch.esl_bandwidth,
            pcie_bandwidth=arch.host_bandwidth,
            local_bandwidth=arch.l3_bandwidth,
        )

    def access_word(self, i: int, j: int) -> int:
        """Return how device i reaches device j, as topsDeviceCanAccessPeer has it (TOPS Runtime API, 2.7).

        Bits 7..0 are i's ESL ports that lead to j; 15..8 is 1 under the same PCIe switch, 2 across root complexes, 0
        without either; 23..16 is 1 where clusters are devices. From a device to itself it is 0. Raises InvalidDevice.
        """
        self._check(i, j)
        if i == j:
            return 0
        return self._port_bits(i, j) | self._pcie(i, j) << 8 | int(self.clusters_as_devices) << 16

    def links(self, i: int, j: int) -> tuple[Link, ...]:
        """Return every link from device i to device j: within the chip, ESL by port, PCIe. Raises InvalidDevice."""
        self._check(i, j)
        if i == j:
            return (Link(LinkKind.LOCAL, None, self.local_bandwidth),)
        found = [Link(LinkKind.CLS_AS_DEV, None, self.local_bandwidth)] if self.clusters_as_devices else []
        bits = self._port_bits(i, j)
        found += [Link(LinkKind.ESL, port, self.esl_bandwidth) for port in range(self.ports) if bits >> port & 1]
        if self._pcie(i, j):
            found.append(Link(LinkKind.PCIE, None, self.pcie_bandwidth))
        return tuple(found)

    def route(self, i: int, j: int, kind: int = LinkKind.AUTO, port_mask: int = -1) -> Link | None:
        """Return the link that a transfer from device i to device j takes.

        AUTO takes the fastest, of equal ones the first in the order of `links`, and is None where there is none. ESL
        takes the lowest of i's ports that leads to j and whose bit is set in `port_mask` (-1: any), and AUTO leaves out
        the others; other kinds ignore the mask. Raises InvalidDevice, and InvalidValue for an explicit link that does
        not exist.
        """
        try:
            wanted = LinkKind(kind)
        except ValueError:
            raise InvalidValue(f"link kind is {kind!r}; expected one of {', '.join(LinkKind.__members__)}") from None
        links = self.links(i, j)
        fit = [link for link in links if wanted in (LinkKind.AUTO, link.kind)]
        fit = [link for link in fit if link.port is None or port_mask >> link.port & 1]
        if fit or wanted is LinkKind.AUTO:
            return max(fit, key=lambda link: link.bandwidth, default=None)  # the first of those that are equal
        ports = f" with ports {port_mask:#x}" if wanted is LinkKind.ESL and port_mask != -1 else ""
        raise InvalidValue(f"no {wanted.name} link{ports} joins device {i} to {j}; there is {_names(links)}")

    def _check(self, *ordinals: int) -> None:
        """Raise InvalidDevice for an ordinal that the board does not have."""
        for ordinal in ordinals:
            if not 0 <= ordinal < self.devices:
                raise InvalidDevice(f"device {ordinal} is not on a board of {self.devices}; count from 0")

    def _port_bits(self, i: int, j: int) -> int:
        """Return i's ESL ports that lead to j, a bit each."""
        if not self.esl:
            return 0
        to_next = (i + 1) % self.devices == j
        to_previous = (i - 1) % self.devices == j
        return to_next << _TO_NEXT | to_previous << _TO_PREVIOUS

    def _pcie(self, i: int, j: int) -> int:
        """Return 1 where i and j share a PCIe switch, 2 where root complexes join them, else 0."""
        if i // self.switch == j // self.switch:
            return 1
        return 2 if self.across_roots else 0


def _names(links: tuple[Link, ...]) -> str:
    return ", ".join(f"{k.kind.name}" if k.port is None else f"{k.kind.name} port {k.port}" for k in links) or "none"
