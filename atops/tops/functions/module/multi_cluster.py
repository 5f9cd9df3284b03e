"""One cooperative grid whose blocks run different kernels on chosen clusters (TOPS Runtime API, 2.11)."""

from __future__ import annotations

from collections.abc import Sequence

from atops.base.errors import CooperativeLaunchTooLarge, InvalidValue, NotSupported
from atops.kernels.block_kernels import BlockKernel, BlockKernels, Segment
from atops.kernels.bound import BoundKernel
from atops.kernels.launch_config import LaunchConfig
from atops.runtime.commands.launch import Launch, LaunchOptions
from atops.runtime.memory.scatter import Scattered
from atops.runtime.stream import Stream
from atops.tops.bridge.arguments import instance, listed, size_of, whole
from atops.tops.bridge.call import call
from atops.tops.bridge.pointers import contents, is_null
from atops.tops.functions.module.launch import Geometry, function_of, geometry_of, stream_for
from atops.tops.functions.module.launch_arguments import arguments_in, bytes_at
from atops.tops.types.structs import dim3, topsExtLaunchParams_t, topsKernelDescriptor_t

__all__ = ("topsExtLaunchCooperativeKernelMultiCluster",)

Dims = dim3 | int | Sequence[int]


@call
def topsExtLaunchCooperativeKernelMultiCluster(
    launchParamsList: Sequence[topsExtLaunchParams_t],
    numClusters: int | None,
    gridDim: Dims,
    blockDim: Dims,
    stream: int | None,
) -> None:
    """Launch one cooperative grid of `numClusters` blocks, of which block i runs entry i on the entry's cluster.

    An entry's `func` is a kernel or a function handle, `args` its arguments in one buffer, `rodata`, if any, the bytes
    of the constants that it refers to, in the order in which it names them, each at its natural alignment. Host memory
    is taken at the call, `rodata` in device memory when the kernel starts. CooperativeLaunchTooLarge: more clusters
    than the device has. NotSupported: an `update_count`. InvalidValue: a repeated or unknown cluster, another number of
    blocks, wrong arguments; the rest as topsLaunchCooperativeKernel.
    """
    entries = _entries(launchParamsList, numClusters)
    geometry = geometry_of(gridDim, blockDim, max(_shared_bytes(each) for each in entries), stream)
    if geometry.grid.volume != len(entries):
        raise InvalidValue(f"gridDim must have {len(entries)} blocks, one for each entry, got {tuple(geometry.grid)}")
    queue = stream_for(function_of(entries[0].func), geometry)
    if len(entries) > queue.context.arch.clusters:
        raise CooperativeLaunchTooLarge(
            f"{queue.context.arch.name} has {queue.context.arch.clusters} clusters, got {len(entries)} entries"
        )
    clusters = tuple(whole(each.cluster_id, "cluster_id") for each in entries)
    kernels = BlockKernels([_block_kernel(each, geometry, queue) for each in entries])
    config = LaunchConfig(geometry.grid, geometry.block, geometry.shared, True)
    launch = Launch(kernels, config, LaunchOptions(pinned=clusters))
    if queue.context.resources is not None:
        launch = queue.context.resources.admit(queue, launch)
    else:
        queue.context.clusters.check(
            kernels.name, config.block.volume, len(entries), True, queue.cluster_mask, queue.sip_mask, clusters
        )
    queue.submit(launch)


def _entries(params: object, count: object) -> list[topsExtLaunchParams_t]:
    """Return the entries. Raises InvalidType, InvalidValue for another count, NotSupported for updates."""
    entries = [instance(each, topsExtLaunchParams_t, "an entry") for each in listed(params, count, "launchParamsList")]
    if not entries:
        raise InvalidValue("launchParamsList must have 1 entry or more, got none")
    for each in entries:
        instance(each.descriptor, topsKernelDescriptor_t, "the descriptor of an entry")
        if size_of(each.update_count, "update_count"):
            raise NotSupported(f"update_count must be 0, got {each.update_count}; launches take no updates of code")
    return entries


def _shared_bytes(entry: topsExtLaunchParams_t) -> int:
    return size_of(entry.descriptor.shared_mem_size, "shared_mem_size")


def _block_kernel(entry: topsExtLaunchParams_t, geometry: Geometry, queue: Stream) -> BlockKernel:
    """Return what one block runs. Raises as a launch of its function would."""
    function, shared = function_of(entry.func), _shared_bytes(entry)
    stream_for(function, geometry._replace(shared=shared))
    kernel = function.kernel
    kernel.configure(LaunchConfig(geometry.grid, geometry.block, shared), queue.context.arch, None, True)
    size = size_of(entry.args_size, "args_size")
    data = b"" if is_null(entry.args) and not size else bytes_at(entry.args, size, "args")
    values = arguments_in(kernel, data)
    for value in values:
        queue.check_ours(value)
    split = len(kernel.parameters) - len(kernel.keyword_only)  # which come last
    named = dict(zip(list(kernel.parameters)[split:], values[split:], strict=False))
    bound: BoundKernel = kernel.bind(tuple(values[:split]), named)
    return BlockKernel(bound, shared, _constants(entry))


def _constants(entry: topsExtLaunchParams_t) -> bytes | Segment | None:
    """Return the constant segment: a copy of host memory, or where it lies on a device; None for none."""
    size = size_of(entry.rodata_size, "rodata_size")
    if is_null(entry.rodata) and not size:
        return None
    found = contents(entry.rodata, size, "rodata")
    if isinstance(found, bytes):
        return found
    if isinstance(found.allocation, Scattered):
        raise InvalidValue(f"rodata must be in one place, such as a part of scatter memory, got {found.allocation!r}")
    return found.allocation, found.offset, size
