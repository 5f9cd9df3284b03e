"""The structs that describe kernels and launches, by the header's field names, with their layout in C."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from atops.tops.types.structs import Field, Struct

__all__ = ("topsExtLaunchParams_t", "topsFuncAttributes", "topsKernelDescriptor_t")


@dataclass(slots=True)
class topsKernelDescriptor_t(Struct):
    """What an executable says of one of its kernels (2.11)."""

    kernarg_size: int = 0
    shared_mem_size: int = 0
    cdma_vc_num: tuple[int, int, int, int] = (0, 0, 0, 0)
    sdma_vc_num: int = 0
    sip_mbx_num: int = 0
    factor: int = 0
    sip_code_offset: int = 0
    exception_offset: int = 0
    sip_mode: int = 0
    stack_size: int = 0
    kernarg_readonly_num: int = 0
    kernarg_writable_num: int = 0
    global_gsync_entry_count: int = 0
    global_gsync_counter_count: int = 0
    shared_gsync_entry_count: int = 0
    shared_gsync_counter_count: int = 0
    shared_queue_count: int = 0
    shared_latch_count: int = 0
    shared_barrier_count: int = 0
    shared_mutex_count: int = 0
    global_queue_count: int = 0
    global_latch_count: int = 0
    global_barrier_count: int = 0
    global_mutex_count: int = 0

    SIZE: ClassVar = 108
    LAYOUT: ClassVar = (
        Field("kernarg_size", 0, "I"),
        Field("shared_mem_size", 4, "I"),
        Field("cdma_vc_num", 8, "4I"),
        Field("sdma_vc_num", 24, "I"),
        Field("sip_mbx_num", 28, "I"),
        Field("factor", 32, "B"),
        Field("sip_code_offset", 36, "I"),
        Field("exception_offset", 40, "I"),
        Field("sip_mode", 44, "I"),
        Field("stack_size", 48, "I"),
        Field("kernarg_readonly_num", 52, "I"),
        Field("kernarg_writable_num", 56, "I"),
        Field("global_gsync_entry_count", 60, "I"),
        Field("global_gsync_counter_count", 64, "I"),
        Field("shared_gsync_entry_count", 68, "I"),
        Field("shared_gsync_counter_count", 72, "I"),
        Field("shared_queue_count", 76, "I"),
        Field("shared_latch_count", 80, "I"),
        Field("shared_barrier_count", 84, "I"),
        Field("shared_mutex_count", 88, "I"),
        Field("global_queue_count", 92, "I"),
        Field("global_latch_count", 96, "I"),
        Field("global_barrier_count", 100, "I"),
        Field("global_mutex_count", 104, "I"),
    )


@dataclass(slots=True)
class topsExtLaunchParams_t(Struct):
    """One block's kernel of topsExtLaunchCooperativeKernelMultiCluster (2.11)."""

    cluster_id: int = 0
    func: int = 0
    code_size: int = 0
    args: int = 0
    args_size: int = 0
    rodata: int = 0
    rodata_size: int = 0
    tensor_table: int = 0
    tensor_table_size: int = 0
    debug_id: int = 0
    descriptor: topsKernelDescriptor_t = field(default_factory=topsKernelDescriptor_t)
    update_count: int = 0
    update_offset: int = 0

    SIZE: ClassVar = 208
    LAYOUT: ClassVar = (
        Field("cluster_id", 0, "I"),
        Field("func", 8, "Q"),
        Field("code_size", 16, "Q"),
        Field("args", 24, "Q"),
        Field("args_size", 32, "Q"),
        Field("rodata", 40, "Q"),
        Field("rodata_size", 48, "Q"),
        Field("tensor_table", 56, "Q"),
        Field("tensor_table_size", 64, "Q"),
        Field("debug_id", 72, "Q"),
        Field("descriptor", 80, "108s"),
        Field("update_count", 192, "Q"),
        Field("update_offset", 200, "Q"),
    )


@dataclass(slots=True)
class topsFuncAttributes(Struct):
    """What topsFuncGetAttributes tells of a function (2.8)."""

    binaryVersion: int = 0
    cacheModeCA: int = 0
    constSizeBytes: int = 0
    localSizeBytes: int = 0
    maxDynamicSharedSizeBytes: int = 0
    maxThreadsPerBlock: int = 0
    numRegs: int = 0
    preferredShmemCarveout: int = 0
    ptxVersion: int = 0
    sharedSizeBytes: int = 0

    SIZE: ClassVar = 56
    LAYOUT: ClassVar = (
        Field("binaryVersion", 0, "i"),
        Field("cacheModeCA", 4, "i"),
        Field("constSizeBytes", 8, "Q"),
        Field("localSizeBytes", 16, "Q"),
        Field("maxDynamicSharedSizeBytes", 24, "I"),
        Field("maxThreadsPerBlock", 28, "i"),
        Field("numRegs", 32, "i"),
        Field("preferredShmemCarveout", 36, "i"),
        Field("ptxVersion", 40, "i"),
        Field("sharedSizeBytes", 48, "Q"),
    )
