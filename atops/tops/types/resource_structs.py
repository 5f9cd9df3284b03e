"""The structs of resources and executables, by the header's field names, with their layout in C (2.11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from atops.tops.types.executable_enumerations import (
    topsExtExecutableSectionHeaderType_t,
    topsHbmPolicy,
    topsResBundlMode,
    topsResLocMode,
)
from atops.tops.types.structs import Field, Struct

__all__ = (
    "topsExtExecutableSectionInfo_t",
    "topsResourceBundle_t",
    "topsResourceRequestV2_t",
    "topsResourceRequest_t",
)

BUNDLE_ROOM = 512  # bytes that a request has for its bundle


@dataclass(slots=True)
class topsResourceBundle_t(Struct):
    """Which compute resources and how much memory a bundle is made of.

    `cluster_num` counts in mode CLUSTER, `pg_mask` in PG, `sip_num`, `cdma_num` and `cdma_vc_num` in VG: in C they
    share their place, here each has its own.
    """

    mode: topsResBundlMode = topsResBundlMode.TOPS_RES_BUNDLE_MODE__UNKNOWN
    sys_mem_size: int = 0
    hbm_mem_size: int = 0
    hbm_policy: topsHbmPolicy = topsHbmPolicy.TOPS_HBM_POLICY__BEST_FIT
    hcve_num: int = 0
    hcve_loc: topsResLocMode = topsResLocMode.TOPS_RES_LOC__SAME
    vdec_core_num: int = 0
    cluster_num: int = 0
    sip_num: int = 0
    cdma_num: int = 0
    cdma_vc_num: int = 0
    pg_mask: int = 0

    SIZE: ClassVar = 56
    LAYOUT: ClassVar = (
        Field("mode", 0, "i"),
        Field("sys_mem_size", 8, "Q"),
        Field("hbm_mem_size", 16, "Q"),
        Field("hbm_policy", 24, "i"),
        Field("hcve_num", 28, "I"),
        Field("hcve_loc", 32, "i"),
        Field("vdec_core_num", 36, "I"),
    )
    UNION: ClassVar = {
        topsResBundlMode.TOPS_RES_BUNDLE_MODE__CLUSTER: (Field("cluster_num", 40, "I"),),
        topsResBundlMode.TOPS_RES_BUNDLE_MODE__VG: (
            Field("sip_num", 40, "I"),
            Field("cdma_num", 44, "I"),
            Field("cdma_vc_num", 48, "I"),
        ),
        topsResBundlMode.TOPS_RES_BUNDLE_MODE__PG: (Field("pg_mask", 40, "I"),),
    }

    def layout(self) -> Iterator[Field]:
        """Yield the common fields, then those that the mode makes of the union."""
        yield from self.LAYOUT
        yield from self.UNION.get(self.mode, ())


@dataclass(slots=True)
class topsResourceRequest_t(Struct):
    """What topsCreateResource is asked for."""

    cluster_count: int = 0
    compute_res_claim: int = 0
    need_alloc_cluster: bool = False
    mem_alloc_affinity_only: bool = False
    res_bundle_cfg: topsResourceBundle_t = field(default_factory=topsResourceBundle_t)

    SIZE: ClassVar = 528
    LAYOUT: ClassVar = (
        Field("cluster_count", 0, "Q"),
        Field("compute_res_claim", 8, "B"),
        Field("need_alloc_cluster", 9, "?"),
        Field("mem_alloc_affinity_only", 10, "?"),
        Field("res_bundle_cfg", 11, f"{BUNDLE_ROOM}s"),
    )


@dataclass(slots=True)
class topsResourceRequestV2_t(Struct):
    """What topsSetDeviceAndResourceReservation is asked for: SIP threads of the device for this process."""

    reserved_threads: int = 0

    SIZE: ClassVar = 8
    LAYOUT: ClassVar = (Field("reserved_threads", 0, "Q"),)


@dataclass(slots=True)
class topsExtExecutableSectionInfo_t(Struct):
    """What topsExecutableGetSectionInfo tells of a section."""

    index: int = 0
    sh_type: topsExtExecutableSectionHeaderType_t = topsExtExecutableSectionHeaderType_t.SHT_NULL_
    size: int = 0
    device_load_size: int = 0
    offset_in_exe: int = 0
    loaded_address: int = 0
    key: int = 0
    is_sub_section: bool = False

    SIZE: ClassVar = 64
    LAYOUT: ClassVar = (
        Field("index", 0, "q"),
        Field("sh_type", 8, "Q"),
        Field("size", 16, "Q"),
        Field("device_load_size", 24, "Q"),
        Field("offset_in_exe", 32, "Q"),
        Field("loaded_address", 40, "Q"),
        Field("key", 48, "Q"),
        Field("is_sub_section", 56, "?"),
    )
