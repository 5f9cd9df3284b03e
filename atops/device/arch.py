"""The architectures' figures as one table, each with the grade of its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from atops.base.dims import Dim3
from atops.base.errors import InvalidValue

__all__ = ("ARCHITECTURES", "Architecture", "Grade", "architecture")

Grade = Literal["vendor", "client", "secondary", "chosen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The figures of one chip. Sizes are bytes, bandwidths bytes per second, rates operations per second.

    `sources` grades each figure: "vendor" published it, shipped "client" code uses it, a "secondary" guide or sheet has
    it, or it is "chosen" because it is not public. Names, alignments and what follows from them bear no grade.
    """

    name: str
    product: str
    code_name: str
    gcu_arch_name: str
    compute_capability: tuple[int, int]
    gcu_arch: int  # 210 or 300: which operations there are
    agcu_arch: int  # what __AGCU_ARCH__ is in a kernel compiled for this chip (TOPS C++, 8.1)

    clusters: int
    sips_per_cluster: int
    max_threads_per_block: int
    max_grid: Dim3
    max_block: Dim3  # per dimension; x * y * z is bounded by max_threads_per_block as well

    l1_bytes: int  # per SIP thread
    l1_usable: int
    l2_bytes: int  # per cluster
    l2_usable: int  # what blocks may ask for; the rest is the prefetch buffer
    l2_bandwidth: int  # of all clusters together
    l3_bytes: int  # per device
    l3_bandwidth: int
    banks: int  # equal parts of L3, a memory controller each

    copy_engines_per_cluster: int
    copy_virtual_channels: int  # of all the copy engines of a cluster; 0 where not known
    dte_per_sip: int
    fp32_flops: int
    fp16_flops: int
    int8_ops: int
    clock_khz: int

    launch_latency_ns: int  # these seven are for kernels under a virtual clock: see cost.py
    barrier_latency_ns: int  # of a block, of counted barriers and kernel signals
    grid_barrier_latency_ns: int
    dte_latency_ns: int  # from the issue of a transfer to its first byte
    dte_bytes_per_tick: int  # of one engine
    global_access_latency_ns: int  # of a load or store in global memory without a DTE
    function_ticks: int  # of a mathematical function of one vector; operators take one

    host_link: str
    host_bandwidth: int  # each direction
    esl_ports: int
    esl_bandwidth: int  # each port

    vector_types: bool
    vector_bytes: tuple[int, int, int]  # of __vector, __vector2 and __vector4 (TOPS C++, 8.3)
    direct_global_access: bool  # whether kernels may index raw pointers into global memory
    mapped_window_bytes: int  # the most that one mapped window spans; 0 where there is none
    mapped_window_alignment: int
    address_bits: int
    malloc_alignment: int
    vector_alignment: int
    constant_bytes: int  # per kernel
    stack_bytes: int  # per thread
    kernel_signals: int

    sources: Mapping[str, Grade] = field(repr=False, compare=False)

    @property
    def sips(self) -> int:
        """Return how many SIP threads the whole device has."""
        return self.clusters * self.sips_per_cluster

    @property
    def l2_reserved(self) -> int:
        """Return the bytes of each cluster's L2 that blocks cannot have: the capacity of the prefetch buffer."""
        return self.l2_bytes - self.l2_usable


# How the figures are known whose grade is the same for every chip.
_COMMON_SOURCES: Mapping[str, Grade] = {
    "address_bits": "secondary",
    "banks": "chosen",
    "constant_bytes": "chosen",
    "l2_bandwidth": "chosen",  # not public: 64 bytes for each SIP thread at each tick of the clock
    "stack_bytes": "chosen",
    "kernel_signals": "chosen",
    "clock_khz": "chosen",
    "launch_latency_ns": "chosen",
    "barrier_latency_ns": "chosen",
    "grid_barrier_latency_ns": "chosen",
    "dte_latency_ns": "chosen",
    "dte_bytes_per_tick": "chosen",  # what l2_bandwidth has for each SIP thread
    "global_access_latency_ns": "chosen",
    "function_ticks": "chosen",
    "esl_ports": "chosen",
    "esl_bandwidth": "chosen",
    "clusters": "client",
    "sips_per_cluster": "client",
    "max_threads_per_block": "client",
    "max_block": "client",
    "dte_per_sip": "client",
    "l3_bytes": "vendor",
    "l3_bandwidth": "vendor",
    "vector_types": "vendor",
    "vector_bytes": "vendor",
}

_GCU210 = Architecture(
    name="gcu210",
    product="i20",
    code_name="dorado",
    gcu_arch_name="dtu-enflame-tops--gcu210",
    compute_capability=(2, 1),
    gcu_arch=210,
    agcu_arch=200,
    clusters=2,
    sips_per_cluster=12,
    max_threads_per_block=12,
    max_grid=Dim3(65536, 256, 256),
    max_block=Dim3(12, 12, 12),
    l1_bytes=1_048_576,
    l1_usable=1_032_192,
    l2_bytes=25_165_824,
    l2_usable=25_165_824,
    l2_bandwidth=2_150_400_000_000,
    l3_bytes=17_179_869_184,
    l3_bandwidth=819_000_000_000,
    banks=4,
    copy_engines_per_cluster=4,
    copy_virtual_channels=32,
    dte_per_sip=1,
    fp32_flops=32_000_000_000_000,
    fp16_flops=128_000_000_000_000,
    int8_ops=256_000_000_000_000,
    clock_khz=1_400_000,
    launch_latency_ns=3_000,
    barrier_latency_ns=100,
    grid_barrier_latency_ns=500,
    dte_latency_ns=200,
    dte_bytes_per_tick=64,
    global_access_latency_ns=200,
    function_ticks=8,
    host_link="PCIe 4.0 x16",
    host_bandwidth=31_500_000_000,
    esl_ports=4,
    esl_bandwidth=25_000_000_000,
    vector_types=False,
    vector_bytes=(128, 256, 512),
    direct_global_access=False,
    mapped_window_bytes=0,
    mapped_window_alignment=0,
    address_bits=40,
    malloc_alignment=256,
    vector_alignment=128,
    constant_bytes=65_536,
    stack_bytes=65_536,
    kernel_signals=64,
    sources=MappingProxyType(
        {
            **_COMMON_SOURCES,
            "max_grid": "secondary",
            "l1_bytes": "secondary",
            "l1_usable": "secondary",
            "l2_bytes": "secondary",
            "l2_usable": "secondary",
            "copy_engines_per_cluster": "client",
            "copy_virtual_channels": "client",
            "fp32_flops": "vendor",
            "fp16_flops": "vendor",
            "int8_ops": "vendor",
            "host_link": "secondary",
            "host_bandwidth": "secondary",
        }
    ),
)

_GCU300 = Architecture(
    name="gcu300",
    product="S60",
    code_name="scorpio",
    gcu_arch_name="dtu-enflame-tops--gcu300",
    compute_capability=(3, 0),
    gcu_arch=300,
    agcu_arch=300,
    clusters=2,
    sips_per_cluster=12,
    max_threads_per_block=12,
    max_grid=Dim3(65536, 256, 256),
    max_block=Dim3(12, 12, 12),
    l1_bytes=1_572_864,
    l1_usable=1_572_352,
    l2_bytes=67_108_864,
    l2_usable=62_914_560,
    l2_bandwidth=2_150_400_000_000,
    l3_bytes=51_539_607_552,
    l3_bandwidth=672_000_000_000,
    banks=4,
    copy_engines_per_cluster=4,
    copy_virtual_channels=0,
    dte_per_sip=1,
    fp32_flops=40_000_000_000_000,
    fp16_flops=160_000_000_000_000,
    int8_ops=320_000_000_000_000,
    clock_khz=1_400_000,
    launch_latency_ns=3_000,
    barrier_latency_ns=100,
    grid_barrier_latency_ns=500,
    dte_latency_ns=200,
    dte_bytes_per_tick=64,
    global_access_latency_ns=200,
    function_ticks=8,
    host_link="PCIe 5.0 x16",
    host_bandwidth=63_000_000_000,
    esl_ports=4,
    esl_bandwidth=25_000_000_000,
    vector_types=True,
    vector_bytes=(128, 256, 512),
    direct_global_access=True,
    mapped_window_bytes=268_435_456,
    mapped_window_alignment=2_097_152,
    address_bits=40,
    malloc_alignment=256,
    vector_alignment=128,
    constant_bytes=65_536,
    stack_bytes=65_536,
    kernel_signals=64,
    sources=MappingProxyType(
        {
            **_COMMON_SOURCES,
            "max_grid": "chosen",
            "l1_bytes": "client",
            "l1_usable": "client",
            "l2_bytes": "client",
            "l2_usable": "client",
            "copy_engines_per_cluster": "chosen",
            "fp32_flops": "chosen",
            "fp16_flops": "chosen",
            "int8_ops": "chosen",
            "host_link": "vendor",
            "host_bandwidth": "vendor",
            "mapped_window_bytes": "client",
            "mapped_window_alignment": "client",
        }
    ),
)

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType({chip.name: chip for chip in (_GCU210, _GCU300)})


def architecture(name: str) -> Architecture:
    """Return the figures of the architecture called `name`, such as "gcu300".

    Raises InvalidValue, naming the known ones, when there is none of this name.
    """
    try:
        return ARCHITECTURES[name]
    except (KeyError, TypeError):
        known = " or ".join(repr(each) for each in ARCHITECTURES)
        raise InvalidValue(f"architecture is {name!r}; expected {known}") from None
