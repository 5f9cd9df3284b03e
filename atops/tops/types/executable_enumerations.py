"""The enumerations about resources, executables and reductions: as types, and each name by itself as in C."""

from __future__ import annotations

from enum import IntEnum

__all__ = (
    "BFLOAT16", "CHAR", "DOUBLE", "FLOAT", "FLOAT16", "FLOAT32", "HALF", "INT", "INT8", "INT32", "INT64",
    "LFLOAT64", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_SUM", "REDUCE_UNKNOW", "SHT_CLUSTER",
    "SHT_CONSTANT", "SHT_CPU_FUNCTION", "SHT_CPU_FUNC_DATA", "SHT_CPU_FUNC_PARAM", "SHT_HEADER", "SHT_HOST_CONST",
    "SHT_HOST_PROGRAM", "SHT_INPUT", "SHT_JITBINARY", "SHT_KERNEL_ASSERT_INFO", "SHT_LAST_TYPE",
    "SHT_MANAGED_CONSTANT", "SHT_NULL_", "SHT_OUT", "SHT_PACKET", "SHT_PACKET_UPDATE", "SHT_PROFILE",
    "SHT_RAND_STATE", "SHT_RESOURCE", "SHT_RODATA", "SHT_SIPCODE", "SHT_SIP_CALLBACK", "SHT_SIP_FUNC_PARAM",
    "SHT_SIP_FUNC_PARAM_UPDATE", "SHT_STREAM", "SHT_TARGET_RESOURCE", "SHT_TASK", "SHT_TENSOR_TABLE", "SHT_USER5",
    "SHT_USER6", "SHT_USER7", "SHT_USER8", "SHT_USER9", "TOPS_HBM_POLICY__AFFINITY_ONLY",
    "TOPS_HBM_POLICY__BEST_FIT", "TOPS_HBM_POLICY__NONE", "TOPS_RES_BUNDLE_MODE__CLUSTER",
    "TOPS_RES_BUNDLE_MODE__DEVICE", "TOPS_RES_BUNDLE_MODE__PG", "TOPS_RES_BUNDLE_MODE__UNKNOWN",
    "TOPS_RES_BUNDLE_MODE__USER", "TOPS_RES_BUNDLE_MODE__VG", "TOPS_RES_LOC__DIST", "TOPS_RES_LOC__SAME", "UINT8",
    "UINT32", "UINT64", "UNKNOW", "topsExecutableInfoBlockCount", "topsExecutableInfoInputBankList",
    "topsExecutableInfoInputCount", "topsExecutableInfoInputDataTypeList", "topsExecutableInfoInputDimsList",
    "topsExecutableInfoInputMaxDimsList", "topsExecutableInfoInputMinDimsList", "topsExecutableInfoInputRank",
    "topsExecutableInfoInputSizeList", "topsExecutableInfoOutputBankList", "topsExecutableInfoOutputCount",
    "topsExecutableInfoOutputDataTypeList", "topsExecutableInfoOutputDimsList",
    "topsExecutableInfoOutputMaxDimsList", "topsExecutableInfoOutputRank", "topsExecutableInfoOutputSizeList",
    "topsExecutableInfoTensorTableSize", "topsExecutableInfoThreadNumberPerBlock", "topsExecutableInfoType_t",
    "topsExtExecutableSectionHeaderType_t", "topsHbmPolicy", "topsReduceDataType", "topsReduceOpType",
    "topsResBundlMode", "topsResLocMode", "topsResourceBundleInfoType_t", "topsResourceBundleProcessorCount",
)  # fmt: skip


class topsResLocMode(IntEnum):
    """Whether resources are in one place."""

    TOPS_RES_LOC__SAME = 0
    TOPS_RES_LOC__DIST = 1


class topsHbmPolicy(IntEnum):
    """From which banks a bundle's memory comes (2.11)."""

    TOPS_HBM_POLICY__BEST_FIT = 0
    TOPS_HBM_POLICY__AFFINITY_ONLY = 1
    TOPS_HBM_POLICY__NONE = 2


class topsResBundlMode(IntEnum):
    """What a resource bundle consists of (2.11)."""

    TOPS_RES_BUNDLE_MODE__UNKNOWN = 0
    TOPS_RES_BUNDLE_MODE__DEVICE = 1
    TOPS_RES_BUNDLE_MODE__CLUSTER = 2
    TOPS_RES_BUNDLE_MODE__VG = 3
    TOPS_RES_BUNDLE_MODE__PG = 4
    TOPS_RES_BUNDLE_MODE__USER = 5


class topsExecutableInfoType_t(IntEnum):
    """What topsExecutableQueryInfo can be asked for (2.11)."""

    topsExecutableInfoInputCount = 0
    topsExecutableInfoOutputCount = 1
    topsExecutableInfoInputSizeList = 2
    topsExecutableInfoOutputSizeList = 3
    topsExecutableInfoInputRank = 4
    topsExecutableInfoInputDimsList = 5
    topsExecutableInfoOutputRank = 6
    topsExecutableInfoOutputDimsList = 7
    topsExecutableInfoInputDataTypeList = 8
    topsExecutableInfoOutputDataTypeList = 9
    topsExecutableInfoTensorTableSize = 10
    topsExecutableInfoInputMinDimsList = 11
    topsExecutableInfoInputMaxDimsList = 12
    topsExecutableInfoOutputMaxDimsList = 13
    topsExecutableInfoBlockCount = 14
    topsExecutableInfoInputBankList = 15
    topsExecutableInfoOutputBankList = 16
    topsExecutableInfoThreadNumberPerBlock = 17


class topsResourceBundleInfoType_t(IntEnum):
    """What topsResourceBundleGetAttribute can be asked for (2.11)."""

    topsResourceBundleProcessorCount = 0


class topsReduceOpType(IntEnum):
    """How topsMemoryReduceAsync combines two elements (2.11)."""

    REDUCE_SUM = 0
    REDUCE_PROD = 1
    REDUCE_MAX = 2
    REDUCE_MIN = 3
    REDUCE_UNKNOW = 4


class topsReduceDataType(IntEnum):
    """Of what type the elements of topsMemoryReduceAsync are (2.11)."""

    INT8 = 0
    CHAR = 0
    UINT8 = 1
    INT32 = 2
    INT = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    HALF = 6
    FLOAT32 = 7
    FLOAT = 7
    LFLOAT64 = 8
    DOUBLE = 8
    BFLOAT16 = 9
    UNKNOW = 10


class topsExtExecutableSectionHeaderType_t(IntEnum):
    """The sections of an executable (2.11)."""

    SHT_NULL_ = 0
    SHT_HEADER = 1
    SHT_RESOURCE = 2
    SHT_INPUT = 3
    SHT_OUT = 4
    SHT_CONSTANT = 5
    SHT_SIPCODE = 6
    SHT_SIP_FUNC_PARAM = 7
    SHT_SIP_FUNC_PARAM_UPDATE = 8
    SHT_STREAM = 9
    SHT_PACKET = 10
    SHT_PACKET_UPDATE = 11
    SHT_CLUSTER = 12
    SHT_JITBINARY = 13
    SHT_CPU_FUNC_PARAM = 14
    SHT_CPU_FUNC_DATA = 15
    SHT_CPU_FUNCTION = 16
    SHT_PROFILE = 17
    SHT_HOST_CONST = 18
    SHT_TASK = 19
    SHT_SIP_CALLBACK = 20
    SHT_TARGET_RESOURCE = 21
    SHT_TENSOR_TABLE = 22
    SHT_KERNEL_ASSERT_INFO = 23
    SHT_RAND_STATE = 24
    SHT_HOST_PROGRAM = 25
    SHT_RODATA = 26
    SHT_MANAGED_CONSTANT = 27
    SHT_USER5 = 28
    SHT_USER6 = 29
    SHT_USER7 = 30
    SHT_USER8 = 31
    SHT_USER9 = 32
    SHT_LAST_TYPE = 33


# An enumeration yields its members without aliases, in the header's order.
(TOPS_RES_LOC__SAME, TOPS_RES_LOC__DIST) = topsResLocMode
(TOPS_HBM_POLICY__BEST_FIT, TOPS_HBM_POLICY__AFFINITY_ONLY, TOPS_HBM_POLICY__NONE) = topsHbmPolicy
(
    TOPS_RES_BUNDLE_MODE__UNKNOWN, TOPS_RES_BUNDLE_MODE__DEVICE, TOPS_RES_BUNDLE_MODE__CLUSTER,
    TOPS_RES_BUNDLE_MODE__VG, TOPS_RES_BUNDLE_MODE__PG, TOPS_RES_BUNDLE_MODE__USER,
) = topsResBundlMode
(
    topsExecutableInfoInputCount, topsExecutableInfoOutputCount, topsExecutableInfoInputSizeList,
    topsExecutableInfoOutputSizeList, topsExecutableInfoInputRank, topsExecutableInfoInputDimsList,
    topsExecutableInfoOutputRank, topsExecutableInfoOutputDimsList, topsExecutableInfoInputDataTypeList,
    topsExecutableInfoOutputDataTypeList, topsExecutableInfoTensorTableSize, topsExecutableInfoInputMinDimsList,
    topsExecutableInfoInputMaxDimsList, topsExecutableInfoOutputMaxDimsList, topsExecutableInfoBlockCount,
    topsExecutableInfoInputBankList, topsExecutableInfoOutputBankList, topsExecutableInfoThreadNumberPerBlock,
) = topsExecutableInfoType_t
(topsResourceBundleProcessorCount,) = topsResourceBundleInfoType_t
(REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_UNKNOW) = topsReduceOpType
(INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, LFLOAT64, BFLOAT16, UNKNOW) = topsReduceDataType
CHAR = topsReduceDataType.CHAR
INT = topsReduceDataType.INT
HALF = topsReduceDataType.HALF
FLOAT = topsReduceDataType.FLOAT
DOUBLE = topsReduceDataType.DOUBLE
(
    SHT_NULL_, SHT_HEADER, SHT_RESOURCE, SHT_INPUT, SHT_OUT, SHT_CONSTANT, SHT_SIPCODE, SHT_SIP_FUNC_PARAM,
    SHT_SIP_FUNC_PARAM_UPDATE, SHT_STREAM, SHT_PACKET, SHT_PACKET_UPDATE, SHT_CLUSTER, SHT_JITBINARY,
    SHT_CPU_FUNC_PARAM, SHT_CPU_FUNC_DATA, SHT_CPU_FUNCTION, SHT_PROFILE, SHT_HOST_CONST, SHT_TASK,
    SHT_SIP_CALLBACK, SHT_TARGET_RESOURCE, SHT_TENSOR_TABLE, SHT_KERNEL_ASSERT_INFO, SHT_RAND_STATE,
    SHT_HOST_PROGRAM, SHT_RODATA, SHT_MANAGED_CONSTANT, SHT_USER5, SHT_USER6, SHT_USER7, SHT_USER8, SHT_USER9,
    SHT_LAST_TYPE,
) = topsExtExecutableSectionHeaderType_t
