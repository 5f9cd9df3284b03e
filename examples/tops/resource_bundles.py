"""Two services on one device: a bundle of its own for the one that must not wait, what is left for the other."""

from __future__ import annotations

import struct

import numpy as np

import atops.tops as tops
from atops import kernels as k
from atops.tops import check

BANKS = 4
COUNT = 6_000
BYTES = COUNT * 4


@k.kernel
def scale(x: k.Span[np.float32], by: np.float32):
    """Multiply x, each thread its share."""
    with k.dte_scope() as dte:
        tile = k.local(500, np.float32)
        for part in k.tiles(COUNT, 500):
            k.memcpy(dte, tile, x[part])
            tile *= by
            k.memcpy(dte, x[part], tile)


@k.kernel
async def first_sum(x: k.Span[np.float32], sums: k.Span[np.float32]):
    """Sum the first half; then, when the other block has summed its half, store both sums' sum."""
    if k.threadIdx.x == 0:
        sums[0] = np.sum(x[: COUNT // 2], dtype=np.float32)
    await k.syncblocks()
    if k.threadIdx.x == 0:
        sums[2] = sums[0] + sums[1]


@k.kernel
async def second_sum(x: k.Span[np.float32], sums: k.Span[np.float32]):
    """Sum the second half, and meet the other block."""
    if k.threadIdx.x == 0:
        sums[1] = np.sum(x[COUNT // 2 : COUNT], dtype=np.float32)
    await k.syncblocks()


def main() -> None:
    """Scale on the cluster of a bundle, with its memory; sum on both clusters once the bundle has gone."""
    data = np.arange(COUNT, dtype=np.float32)
    x = scaled(data)
    result = sums_of(x)
    check(tops.topsFree(x))
    halves = np.array([half.sum(dtype=np.float32) for half in np.split(data * np.float32(0.5), 2)])
    assert np.allclose(result, [*halves, halves.sum()])
    assert sum(check(tops.topsGetMemUsageInfo(BANKS))[0]) == 0
    print("both halves and their sum:", *(f"{value:.0f}" for value in result))


def scaled(data: np.ndarray) -> int:
    """Return a pointer to half of each number, computed in a bundle that has cluster 1 for itself."""
    request = tops.topsResourceRequest_t(
        need_alloc_cluster=True,
        res_bundle_cfg=tops.topsResourceBundle_t(
            mode=tops.TOPS_RES_BUNDLE_MODE__PG, pg_mask=0b10, hbm_mem_size=1 << 20,
            hbm_policy=tops.TOPS_HBM_POLICY__BEST_FIT,
        ),
    )  # fmt: skip
    bundle = check(tops.topsCreateResource(request))
    clusters = check(tops.topsResourceBundleGetAttribute(bundle, tops.topsResourceBundleProcessorCount))
    banks = check(tops.topsGetAffinityBankListV2(bundle, BANKS))
    print("clusters of the bundle:", clusters, "- its banks, nearest first:", banks)

    # Nobody else gets two clusters now, and launches with the bundle run on its cluster only.
    error, _ = tops.topsCreateResource(tops.topsResourceRequest_t(cluster_count=2))
    print("both clusters for another bundle:", error.name)
    assert error is tops.topsErrorLaunchOutOfResources
    x = check(tops.topsMallocForResource(BYTES, bundle))
    check(tops.topsMemcpy(x, data, BYTES, tops.topsMemcpyHostToDevice))
    check(tops.topsDeviceSetResource(bundle))
    check(tops.topsLaunchKernel(scale, 4, 12, [x, 0.5], 0, 0))
    check(tops.topsDeviceSetResource(None))

    # Dead at once; the cluster comes back when the kernel is over. The memory stays until it is freed.
    check(tops.topsDestroyResource(bundle))
    check(tops.topsDeviceSynchronize())
    return x


def sums_of(x: int) -> np.ndarray:
    """Return the sums of both halves and their sum, by two kernels that meet on two clusters."""
    sums = check(tops.topsMalloc(16))
    arguments = struct.pack("QQ", x, sums)
    blocks = [
        tops.topsExtLaunchParams_t(cluster_id=cluster, func=kernel, args=arguments, args_size=len(arguments))
        for cluster, kernel in enumerate((first_sum, second_sum))
    ]
    check(tops.topsExtLaunchCooperativeKernelMultiCluster(blocks, len(blocks), 2, 12, 0))
    result = np.empty(3, np.float32)
    check(tops.topsMemcpy(result, sums, result.nbytes, tops.topsMemcpyDeviceToHost))
    check(tops.topsFree(sums))
    return result


if __name__ == "__main__":
    main()
