"""What work on a device is bound to and shares: resource bundles, constant buffers, kernel signals (Runtime API, 2.11).

A bundle is clusters and memory. A constant buffer is memory of a device that its users share under a key. A kernel
signal is a word that the host and running kernels of a device share.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from atops.base.errors import ExecutionError, InvalidImage
from atops.bridge.arguments import instance, member, size_of, whole
from atops.bridge.call import until
from atops.bridge.handles import current_device, live, register, take, usable_stream_of
from atops.bridge.pointers import contents, is_null, own
from atops.runtime.memory.buffer import Buffer
from atops.runtime.resources.bundle import ResourceBundle, create_bundle, set_chosen_bundle
from atops.runtime.resources.placement import BundleRequest
from atops.runtime.stream import queue_of
from atops.tops.functions.api import call
from atops.tops.functions.executable import executable_of
from atops.tops.header.enumerations import topsHbmPolicy, topsResBundlMode, topsResourceBundleInfoType_t
from atops.tops.header.structs import topsResourceBundle_t, topsResourceRequest_t

__all__ = (
    "topsConstBufferGet", "topsConstBufferPut", "topsCreateResource", "topsCreateResourceForExecutable",
    "topsDestroyResource", "topsDeviceSetResource", "topsKernelSignalAlloc", "topsKernelSignalAvailableNumGet",
    "topsKernelSignalFree", "topsKernelSignalMaxNumGet", "topsKernelSignalRead", "topsKernelSignalWrite",
    "topsMallocForResource", "topsResourceBundleGetAttribute",
)  # fmt: skip

# ---- bundles

POLICIES: Final[Mapping[topsHbmPolicy, str]] = MappingProxyType(
    {
        topsHbmPolicy.TOPS_HBM_POLICY__BEST_FIT: "best_fit",
        topsHbmPolicy.TOPS_HBM_POLICY__AFFINITY_ONLY: "affinity_only",
        topsHbmPolicy.TOPS_HBM_POLICY__NONE: "none",
    }
)


@call
async def topsCreateResource(req: topsResourceRequest_t) -> int:
    """Claim clusters and memory of the current device, and return a handle; topsDestroyResource ends it.

    A reset of the device that another caller has begun is waited for first. LaunchOutOfResources: too few free
    clusters, SIPs or copy engines. OutOfMemory: no such memory. InvalidValue: not a request, or an empty one.
    """
    return await _create(_request(req))


@call
async def topsCreateResourceForExecutable(exe: int) -> int:
    """As topsCreateResource, for what the target-resource section of an executable asks for.

    InvalidHandle: not an executable. InvalidImage: the section is no request. LaunchOutOfResources, OutOfMemory.
    """
    section = executable_of(exe).target_resource
    try:
        request = _request(topsResourceRequest_t.from_bytes(section))
    except ValueError as error:
        raise InvalidImage(f"the target resource of the executable is not a request: {error}") from error
    return await _create(request)


async def _create(request: BundleRequest) -> int:
    """Return the handle of a new bundle, once no reset of the current device is going on."""
    context = current_device().context
    for item in context.resetting():
        try:
            await until(item)
        except ExecutionError:  # the reset dropped it
            continue
    context = current_device().context
    return register(create_bundle(context, request), context)


def _request(req: object) -> BundleRequest:
    request = instance(req, topsResourceRequest_t, "req")
    bundle = instance(request.res_bundle_cfg, topsResourceBundle_t, "res_bundle_cfg")
    mode = member(topsResBundlMode, bundle.mode, "mode")
    policy = POLICIES[member(topsHbmPolicy, bundle.hbm_policy, "hbm_policy")]
    clusters = cluster_mask = sips = None
    engines = 0
    match mode:
        case topsResBundlMode.TOPS_RES_BUNDLE_MODE__DEVICE:
            pass
        case topsResBundlMode.TOPS_RES_BUNDLE_MODE__CLUSTER:
            clusters = size_of(bundle.cluster_num, "cluster_num")
        case topsResBundlMode.TOPS_RES_BUNDLE_MODE__PG:
            cluster_mask = size_of(bundle.pg_mask, "pg_mask")
        case topsResBundlMode.TOPS_RES_BUNDLE_MODE__VG:
            sips, engines = size_of(bundle.sip_num, "sip_num"), size_of(bundle.cdma_num, "cdma_num")
        case _:
            clusters = size_of(request.cluster_count, "cluster_count")
    return BundleRequest(
        clusters=clusters,
        cluster_mask=cluster_mask,
        sips=sips,
        engines=engines,
        exclusive=bool(request.need_alloc_cluster),
        memory=size_of(bundle.hbm_mem_size, "hbm_mem_size"),
        policy="affinity_only" if request.mem_alloc_affinity_only else policy,
    )


@call
def topsDestroyResource(res: int) -> None:
    """End a bundle at once; what it claims is free when its last work is over. InvalidHandle.

    Memory of topsMallocForResource stays valid until topsFree.
    """
    take(res, ResourceBundle).close()


@call
def topsResourceBundleGetAttribute(res: int, type: topsResourceBundleInfoType_t) -> int:
    """Return on how many clusters a bundle is, a part of one counting as one (topsResourceBundleProcessorCount).

    InvalidHandle; InvalidValue: another type.
    """
    bundle = live(res, ResourceBundle)
    member(topsResourceBundleInfoType_t, type, "type")  # which has one member
    return bundle.processors


@call
def topsMallocForResource(size: int, res: int) -> int:
    """Return a pointer to memory that a bundle reserves, else by its policy; topsFree gives it back to the bundle.

    Size 0 gives a pointer of its own. OutOfMemory; InvalidValue: not a size; InvalidHandle.
    """
    return own(live(res, ResourceBundle).allocate(size_of(size))).address


@call
def topsDeviceSetResource(res: int | None) -> None:
    """Make a bundle the default of this task, or of this thread outside of tasks: later launches there run in it.

    None, or 0, restores the device's own. InvalidHandle.
    """
    set_chosen_bundle(None if is_null(res) else live(res, ResourceBundle))


# ---- constant buffers


@call
async def topsConstBufferGet(hash_key: int, init_data: object, size: int, stream: int | None) -> int:
    """Return the pointer to the constant buffer of a key, on the stream's device, and count one more user.

    A new key allocates `size` bytes and uploads `init_data` in the order of `stream`; for a known one the stream waits
    until the contents are there. `init_data` may be used again on return: host memory is taken at the call, and only
    the copy of device memory is waited for. NotFound: a new key and no `init_data`. InvalidValue: a known key and
    another size, a key of more than 64 bits, init_data of less than `size` bytes. OutOfMemory.
    """
    queue, key, nbytes = usable_stream_of(stream), size_of(hash_key, "hash_key"), size_of(size)
    source = None if init_data is None else contents(init_data, nbytes, "init_data")
    device = queue.device
    memory = device.context.constants.get(key, nbytes, queue, lambda: device.allocate(nbytes), source)
    if isinstance(source, Buffer):
        await until(queue.record())
    return memory.address


@call
def topsConstBufferPut(hash_key: int, stream: int | None) -> None:
    """Count one user less of the constant buffer of a key; the last one frees it in the order of `stream`.

    NotFound: the stream's device has no such key.
    """
    queue = usable_stream_of(stream)
    queue_of(queue).context.constants.put(size_of(hash_key, "hash_key"), queue)


# ---- kernel signals


@call
def topsKernelSignalMaxNumGet() -> int:
    """Return how many kernel signals the current device has."""
    return len(current_device().signals)


@call
def topsKernelSignalAvailableNumGet() -> int:
    """Return how many kernel signals of the current device can still be allocated."""
    return current_device().signals.available


@call
def topsKernelSignalAlloc() -> int:
    """Allocate a signal of value 0 and return its handle, which kernels take as an int.

    LaunchOutOfResources: all are allocated.
    """
    return current_device().signals.allocate()


@call
def topsKernelSignalFree(handle: int) -> None:
    """Free a signal; threads that wait on it go on waiting. InvalidHandle: it is not allocated."""
    current_device().signals.free(whole(handle, "handle"))


@call
def topsKernelSignalRead(handle: int) -> int:
    """Return the value of a signal. InvalidHandle: it is not allocated."""
    return current_device().signals.read(whole(handle, "handle"))


@call
def topsKernelSignalWrite(handle: int, value: int) -> None:
    """Store the value of a signal; kernel threads whose wait it satisfies continue.

    InvalidHandle: it is not allocated. InvalidValue: a value that 32 bits do not hold.
    """
    current_device().signals.write(whole(handle, "handle"), size_of(value, "value", 32))
