"""One function fills memory of every kind: which kind it is, the area's flags say, and the caller does not care."""

from __future__ import annotations

import sys

import numpy as np

from atops import aml, tops
from atops.tops import check

SIZE = 4096
KINDS = {
    "on the device": aml.AML_AREA_HIP_FLAG_DEFAULT,
    "managed": aml.AML_AREA_HIP_FLAG_ALLOC_UNIFIED,
    "managed, for all devices": aml.AML_AREA_HIP_FLAG_ALLOC_UNIFIED | aml.AML_AREA_HIP_FLAG_ALLOC_GLOBAL,
    "pinned": aml.AML_AREA_HIP_FLAG_ALLOC_HOST,
    "pinned and mapped": aml.AML_AREA_HIP_FLAG_ALLOC_HOST | aml.AML_AREA_HIP_FLAG_ALLOC_MAPPED,
    "the program's own": aml.AML_AREA_HIP_FLAG_ALLOC_MAPPED,
}


def filled(area: aml.aml_area, value: int, options: aml.aml_area_hip_mmap_options) -> tuple[np.ndarray, str]:
    """Map memory of an area, fill it, and return what the host reads of it, and of what type the pointer is."""
    pointer = aml.aml_area_mmap(area, SIZE, options)
    if pointer is None:
        raise MemoryError(aml.aml_strerror(aml.aml_errno))
    result, kind = np.empty(SIZE, np.uint8), check(tops.topsPointerGetAttributes(pointer)).memoryType
    check(tops.topsMemset(pointer, value, SIZE))
    check(tops.topsMemcpy(result, pointer, SIZE, tops.topsMemcpyDefault))
    assert aml.aml_area_munmap(area, pointer, SIZE) == aml.AML_SUCCESS
    return result, tops.topsMemoryType(kind).name


def main() -> None:
    """Fill memory of each kind; then map a size that no device has, and say why that fails."""
    mine = np.zeros(SIZE, np.uint8)
    for value, (name, flags) in enumerate(KINDS.items(), 1):
        err, area = aml.aml_area_hip_create(0, flags)
        assert err == aml.AML_SUCCESS and area is not None
        result, kind = filled(area, value, aml.aml_area_hip_mmap_options(device=0, ptr=mine))
        assert (result == value).all()
        print(f"{name}: {result[0]} everywhere, by a pointer of {kind}")
        aml.aml_area_hip_destroy(area)
    assert (mine == len(KINDS)).all()  # it was never copied: the device has written it in its place

    assert aml.aml_area_mmap(aml.aml_area_hip, 1 << 50) is None
    assert aml.aml_errno == -aml.AML_ENOMEM
    aml.aml_area_fprintf(sys.stdout, "refused", aml.aml_area_hip)


if __name__ == "__main__":
    main()
