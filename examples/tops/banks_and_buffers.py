"""A layer's host code as a C program has it: weights shared under a key, activations on chosen banks, sums reduced."""

from __future__ import annotations

import numpy as np

import atops.tops as tops
from atops.tops import check

BANKS = 4
ROWS, COLUMNS = 64, 96
SIZE = ROWS * COLUMNS * 4
WEIGHTS_KEY = 0x5EED


def main() -> None:
    """Add shared weights to a matrix whose halves lie on the two nearest banks."""
    nearest = check(tops.topsGetAffinityBankList(BANKS))
    print("banks, nearest first:", nearest)
    stream = check(tops.topsStreamCreate())

    # Two users of one constant buffer: the second gets the pointer of the first, and uploads nothing.
    values = np.linspace(-1, 1, ROWS * COLUMNS, dtype=np.float32)
    weights = check(tops.topsConstBufferGet(WEIGHTS_KEY, values, SIZE, stream))
    assert check(tops.topsConstBufferGet(WEIGHTS_KEY, None, SIZE, stream)) == weights

    matrix = make_matrix(nearest)
    activations = np.arange(ROWS * COLUMNS, dtype=np.float32)
    check(tops.topsMemcpyHtoDAsync(matrix, activations, SIZE, stream))
    used = check(tops.topsMemGetInfoExt(BANKS))[0]
    print("bytes in use, bank by bank:", used)

    # The reduction takes plain memory, which the matrix is gathered into; the weights stay in the L2 buffer meanwhile.
    plain = check(tops.topsExtMallocWithAffinity(SIZE, 0, tops.topsMallocTopDown))
    check(tops.topsMemcpyDtoDAsync(plain, matrix, SIZE, stream))
    check(tops.topsMemCachePrefetch(weights, SIZE))
    check(tops.topsMemoryReduceAsync(plain, weights, plain, tops.REDUCE_SUM, tops.FLOAT, ROWS * COLUMNS, stream))
    check(tops.topsMemCacheInvalidate(weights, SIZE))
    result = np.empty_like(activations)
    check(tops.topsMemcpyDtoHAsync(result, plain, SIZE, stream))
    check(tops.topsStreamSynchronize(stream))

    for _ in range(2):
        check(tops.topsConstBufferPut(WEIGHTS_KEY, stream))
    check(tops.topsFree(plain))
    check(tops.topsFree(matrix))
    check(tops.topsStreamDestroy(stream))
    current, peak = check(tops.topsGetMemUsageInfo(BANKS))
    print("most bytes, bank by bank:", peak)
    assert sum(current) == 0
    assert np.array_equal(result, activations + values)
    print("the sum is correct")


def make_matrix(banks: list[int]) -> int:
    """Return one matrix on two banks: its left half as it is, its right half transposed."""
    half = COLUMNS // 2
    matrix = check(tops.topsMallocScatter(SIZE))
    check(tops.topsMemorySetDims(matrix, [ROWS, COLUMNS], 2))
    check(tops.topsScatterPopulateSub(matrix, 4, banks[0], [ROWS, half], [0, 0], [0, 1], 2))
    check(tops.topsScatterPopulateSub(matrix, 4, banks[1], [half, ROWS], [0, half], [1, 0], 2))
    return matrix


if __name__ == "__main__":
    main()
