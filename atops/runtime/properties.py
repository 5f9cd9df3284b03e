"""The figures of a device as a program reads them: `device.properties`, and what C-style calls tell of it."""

from __future__ import annotations

from dataclasses import dataclass

from atops.device.arch import Architecture

__all__ = ("DeviceProperties", "properties_of")


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """All that C-style calls tell of a device (TOPS Runtime API, 2.2 topsGetDeviceProperties, topsDeviceGetAttribute).

    Sizes are in bytes, clocks in kHz, dimensions are (x, y, z). With SIP threads reserved, the clusters and threads are
    those reserved. A figure that is not known is 0. A cluster is the text's multiprocessor.
    """

    name: str
    arch_name: str  # "dtu-enflame-tops--gcu300"
    arch: int  # 210 or 300
    compute_capability: tuple[int, int]
    total_memory: int
    memory_channels: int
    memory_clock_rate: int
    memory_bus_width: int
    clock_rate: int
    clock_instruction_rate: int
    multiprocessor_count: int
    max_threads_per_multiprocessor: int
    max_threads_per_block: int
    max_block_dim: tuple[int, int, int]
    max_grid_dim: tuple[int, int, int]
    max_shared_memory_per_block: int
    max_shared_memory_per_multiprocessor: int
    local_memory_per_thread: int
    pci_domain_id: int
    pci_bus_id: int
    pci_device_id: int
    uuid: bytes  # of the device, 16 bytes
    remote_uuid: bytes  # 96 bytes
    compute_mode: int
    concurrent_kernels: bool
    cooperative_launch: bool
    cooperative_multi_device_launch: bool
    kernel_exec_timeout_enabled: bool
    ecc_enabled: bool
    large_bar: bool
    can_map_host_memory: bool
    managed_memory: bool
    direct_managed_memory_access_from_host: bool
    concurrent_managed_access: bool
    pageable_memory_access: bool
    unified_addressing: bool


def properties_of(ordinal: int, name: str, arch: Architecture, total: int) -> DeviceProperties:
    """Return the properties of a device: of `arch`, which has what is reserved, with `total` bytes of memory."""
    block, grid = arch.max_block, arch.max_grid
    return DeviceProperties(
        name=name,
        arch_name=arch.gcu_arch_name,
        arch=arch.gcu_arch,
        compute_capability=arch.compute_capability,
        total_memory=total,
        memory_channels=arch.banks,
        memory_clock_rate=0,
        memory_bus_width=0,
        clock_rate=arch.clock_khz,
        clock_instruction_rate=arch.clock_khz,
        multiprocessor_count=arch.clusters,
        max_threads_per_multiprocessor=arch.sips_per_cluster,
        max_threads_per_block=arch.max_threads_per_block,
        max_block_dim=(block.x, block.y, block.z),
        max_grid_dim=(grid.x, grid.y, grid.z),
        max_shared_memory_per_block=arch.l2_usable,
        max_shared_memory_per_multiprocessor=arch.l2_usable,
        local_memory_per_thread=arch.l1_usable,
        pci_domain_id=0,
        pci_bus_id=ordinal + 1,
        pci_device_id=0,
        uuid=f"atops device {ordinal}".encode().ljust(16, b"\0"),
        remote_uuid=bytes(96),
        compute_mode=0,
        concurrent_kernels=True,
        cooperative_launch=True,
        cooperative_multi_device_launch=False,
        kernel_exec_timeout_enabled=False,
        ecc_enabled=False,
        large_bar=True,
        can_map_host_memory=True,
        managed_memory=True,
        direct_managed_memory_access_from_host=True,
        concurrent_managed_access=True,
        pageable_memory_access=False,
        unified_addressing=True,
    )
