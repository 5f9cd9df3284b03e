"""The structs: fields, defaults, and the same bytes as in C."""

from __future__ import annotations

import struct
from dataclasses import fields

import pytest

import atops.tops as tops
from atops.base.errors import InvalidValue
from atops.tops.header.structs import Struct
from tests.every import every

SIZES = {
    "topsDeviceProp_t": 792, "topsPointerAttribute_t": 32, "topsFuncAttributes": 56, "topsExtLaunchParams_t": 208,
    "topsKernelDescriptor_t": 108, "topsIpcMemHandle_t": 64, "topsIpcEventHandle_t": 64, "topsResourceRequest_t": 528,
    "topsResourceBundle_t": 56, "dim3": 12, "uint3": 12, "topsExtExecutableSectionInfo_t": 64, "topsShape_t": 36,
    "topsResourceRequestV2_t": 8,
}  # fmt: skip
MODES = tops.topsResBundlMode


OFFSETS = {
    "topsDeviceProp_t": {
        "totalGlobalMem": 256, "maxThreadsDim": 276, "clockRate": 300, "maxSharedMemoryPerMultiProcessor": 360,
        "gcuArchName": 372, "cooperativeLaunch": 628, "localMemPerThread": 672, "localUuidId": 680, "remoteUuidId": 696,
    },
    "topsKernelDescriptor_t": {"cdma_vc_num": 8, "factor": 32, "sip_code_offset": 36, "global_mutex_count": 104},
    "topsExtLaunchParams_t": {"func": 8, "descriptor": 80, "update_count": 192, "update_offset": 200},
    "topsFuncAttributes": {"constSizeBytes": 8, "maxThreadsPerBlock": 28, "sharedSizeBytes": 48},
    "topsResourceBundle_t": {"sys_mem_size": 8, "hbm_policy": 24, "hcve_loc": 32, "vdec_core_num": 36},
    "topsResourceRequest_t": {"compute_res_claim": 8, "mem_alloc_affinity_only": 10, "res_bundle_cfg": 11},
    "topsExtExecutableSectionInfo_t": {"sh_type": 8, "key": 48, "is_sub_section": 56},
    "topsPointerAttribute_t": {"device": 4, "device_pointer": 8, "isManaged": 24, "allocationFlags": 28},
    "topsShape_t": {"dims": 4},
}  # fmt: skip


@every("name", OFFSETS)
def test_offsets(name):
    """Fields lie where a C compiler puts them."""
    found = {each.name: each.offset for each in getattr(tops, name)().layout()}
    assert {each: found[each] for each in OFFSETS[name]} == OFFSETS[name]


@every("name", SIZES)
def test_layout(name):
    """A struct has the size that C gives it; its fields follow each other inside it; its bytes bring it back."""
    kind = getattr(tops, name)
    made = kind()
    assert isinstance(made, Struct)
    assert len(made.to_bytes()) == kind.SIZE == SIZES[name]
    end = 0
    for _, offset, type_ in made.layout():
        assert offset >= end
        end = offset + struct.calcsize(f"<{type_}")
    assert kind.SIZE - 16 <= end <= kind.SIZE
    assert {each.name for each in fields(kind)} >= {each.name for each in made.layout()}
    assert kind.from_bytes(made.to_bytes()) == made
    with pytest.raises(InvalidValue, match=rf"{name}.from_bytes\(\) expects {kind.SIZE} bytes, got 0"):
        kind.from_bytes(b"")


def test_values_survive():
    """Numbers, text, nested structs and enumerations come back as they were."""
    bundle = tops.topsResourceBundle_t(
        mode=MODES.TOPS_RES_BUNDLE_MODE__VG, hbm_mem_size=1 << 33, sip_num=3, cdma_num=2, cdma_vc_num=1,
        hbm_policy=tops.TOPS_HBM_POLICY__NONE,
    )  # fmt: skip
    request = tops.topsResourceRequest_t(cluster_count=2, need_alloc_cluster=True, res_bundle_cfg=bundle)
    back = tops.topsResourceRequest_t.from_bytes(request.to_bytes())
    assert back == request
    assert back.res_bundle_cfg.mode is MODES.TOPS_RES_BUNDLE_MODE__VG
    launch = tops.topsExtLaunchParams_t(cluster_id=1, descriptor=tops.topsKernelDescriptor_t(shared_mem_size=64))
    assert tops.topsExtLaunchParams_t.from_bytes(launch.to_bytes()) == launch
    prop = tops.topsDeviceProp_t(name="a device", maxGridSize=(1, 2, 3), remoteUuidId=b"x" * 96)
    assert tops.topsDeviceProp_t.from_bytes(prop.to_bytes()) == prop


@pytest.mark.parametrize(
    ("mode", "field"),
    [(MODES.TOPS_RES_BUNDLE_MODE__CLUSTER, "cluster_num"), (MODES.TOPS_RES_BUNDLE_MODE__PG, "pg_mask")],
)
def test_a_union_holds_what_its_mode_says(mode, field):
    """The modes share their place in C: each writes and reads its own field there."""
    data = tops.topsResourceBundle_t(mode=mode, cluster_num=5, pg_mask=5, sip_num=9).to_bytes()
    assert data[40:44] == b"\5\0\0\0"
    back = tops.topsResourceBundle_t.from_bytes(data)
    assert getattr(back, field) == 5
    assert back.cluster_num + back.pg_mask + back.sip_num == 5


def test_what_does_not_fit():
    """A value that C's field cannot hold is named."""
    with pytest.raises(InvalidValue, match=r"dim3.x is -1"):
        tops.dim3(-1).to_bytes()


def test_dim3():
    """An extent is one by one by one unless told, and a sequence of three."""
    assert tuple(tops.dim3()) == (1, 1, 1)
    assert tuple(tops.dim3(4, 2)) == (4, 2, 1)
    assert tuple(tops.uint3()) == (0, 0, 0)
