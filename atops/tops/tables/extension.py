"""The functions of the extensions: TOPS Runtime API, 2.11."""

from __future__ import annotations

from atops.tops.tables.function import Function, family

__all__ = ("EXTENSION_FUNCTIONS",)

EXTENSION_FUNCTIONS: tuple[Function, ...] = (
    *family("Extension", "2.11", """
        topsMemorySetDims(const void *devPtr, int64_t *dims, size_t dims_count)
        topsMemoryGetDims(const void *devPtr, out int64_t *dims, out size_t *dims_count)
        topsCreateExecutable(out topsExecutable_t *exe, const void *bin, size_t size)
        topsCreateExecutableFromFile(out topsExecutable_t *exe, const char *filepath)
        topsDestroyExecutable(topsExecutable_t exe)
        waits topsCreateResource(out topsResource_t *res, topsResourceRequest_t req)
        waits topsCreateResourceForExecutable(out topsResource_t *res, topsExecutable_t exe)
        topsDestroyResource(topsResource_t res)
        topsResourceBundleGetAttribute(topsResource_t res, topsResourceBundleInfoType_t type, out uint64_t
            *data)
        topsMallocForResource(out void **ptr, size_t size, topsResource_t res) -> OutOfMemory InvalidValue
        topsLaunchExecutableV2(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count,
            int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, topsStream_t stream)
        topsLaunchExecutableV3(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count,
            int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, out int64_t
            *output_dims, out size_t *output_rank, topsStream_t stream)
        waits topsLaunchExecutable(topsExecutable_t exe, topsResource_t res, void **inputs, size_t input_count,
            int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, out int64_t
            *output_dims, out size_t *output_rank, topsStream_t stream)
        waits topsLaunchExecutableWithConstData(topsExecutable_t exe, topsResource_t res, void **inputs, size_t
            input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, out
            int64_t *output_dims, out size_t *output_rank, void **const_datas, size_t const_datas_count,
            topsStream_t stream)
        topsLaunchExecutableWithConstDataV2(topsExecutable_t exe, topsResource_t res, void **inputs, size_t
            input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, void
            **const_datas, size_t const_datas_count, topsStream_t stream)
        topsLaunchExecutableWithConstDataV3(topsExecutable_t exe, topsResource_t res, void **inputs, size_t
            input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count, out
            int64_t *output_dims, out size_t *output_rank, void **const_datas, size_t const_datas_count,
            topsStream_t stream)
        topsExecutableGetConstManagedData(topsExecutable_t exe, out unsigned int *numOptions, out char **name,
            out void **address, out uint64_t *size, out int64_t *uid, out void **flag)
        topsExecutableUpdateConstantKey(topsExecutable_t exe)
        topsExecutableUpdateRuntimeResource(topsExecutable_t exe, topsResource_t res, topsStream_t stream)
        waits topsExecutableLoadConstData(topsExecutable_t exe, topsResource_t res, out void **&dev_ptr, out
            size_t *dev_ptr_count)
        topsExecutableGetSubFuncInfo(topsExecutable_t exe, out char **info_raw_data, out size_t *info_size, out
            int **param_info, out int *param_count)
        topsExecutableGetRefitFlag(topsExecutable_t exe, out int *refit_flag)
        topsExecutableCallSubFunc(topsExecutable_t exe, const char *func_name, void **inputs, size_t
            input_count, int64_t *input_dims, size_t *input_rank, void **outputs, size_t output_count,
            topsStream_t stream)
        topsDeviceSetResource(topsResource_t res)
        waits topsConstBufferGet(uint64_t hash_key, void *init_data, size_t size, out void **ptr, topsStream_t
            stream)
        topsConstBufferPut(uint64_t hash_key, topsStream_t stream)
        topsExecutableQueryInfo(topsExecutable_t exe, topsExecutableInfoType_t info_type, out uint64_t *data)
        topsExecutableQueryInfoV2(topsExecutable_t exe, topsExecutableInfoType_t info_type, out int64_t *data)
        topsExecutableQueryInputName(topsExecutable_t exe, int index, out char **name)
        topsExecutableQueryOutputName(topsExecutable_t exe, int index, out char **name)
        topsExecutableSaveToFile(topsExecutable_t exe, const char *path)
        topsExtMallocWithBank(out void **ptr, size_t size, uint64_t bank) -> OutOfMemory InvalidValue
        topsExtMallocWithBankV2(out void **ptr, size_t size, uint64_t bank, unsigned int flags) -> OutOfMemory
            InvalidValue
        topsExtMallocWithAffinity(out void **ptr, size_t size, uint64_t bank, unsigned int flags) -> OutOfMemory
            InvalidValue
        topsExtLaunchCooperativeKernelMultiCluster(const topsExtLaunchParams_t *launchParamsList, int
            numClusters, dim3 gridDim, dim3 blockDim, topsStream_t stream)
        topsExtSetProfileMeta(uint8_t *meta, uint32_t size, int64_t compilation_id)
        topsScatterMemoryGetInfo(const void *dev_ptr, int index, out int64_t *win_pos, out size_t *win_size, out
            int64_t *map_ctrl, out size_t *map_size)
        topsScatterMemoryGetSubNum(const void *dev_ptr, out size_t *size)
        topsMallocScatter(out void **ptr, size_t size)
        waits topsScatterClearSubMemory(const void *dev_ptr)
        topsScatterSetSubMem(const void *dev_ptr, void *sub_dptr, int64_t *win_pos, size_t win_size, int64_t
            *map_ctrl, size_t map_size)
        topsScatterPopulateSub(const void *dev_ptr, size_t bpe, uint64_t bank, int64_t *dims, int64_t *win_pos,
            int64_t *map_ctrl, size_t rank_size)
        waits topsScatterInplace(const void *dev_ptr, size_t sub_count, size_t bpe, uint64_t *bank_list, int64_t
            **dims_list, int64_t **win_pos_list, int64_t **map_ctrl_list, size_t rank_size)
        topsScatterGetSubMem(const void *dev_ptr, int index, out void **sub_dptr)
        topsMemoryReduceAsync(void *lhs, void *rhs, void *result, topsReduceOpType op, topsReduceDataType dtype,
            uint32_t element_cnt, topsStream_t stream)
        topsMemCachePrefetch(topsDeviceptr_t dptr, size_t size) -> InvalidValue MemoryAllocation
        topsMemCacheInvalidate(topsDeviceptr_t dptr, size_t size) -> InvalidValue MemoryAllocation
        topsExtGetMcAvailableMemSize(uint64_t mc, out uint64_t *size)
        topsExecutableGetSectionCount(topsExecutable_t exe, topsExtExecutableSectionHeaderType_t sh_type, out
            uint64_t *count)
        topsExecutableGetSectionInfo(topsExecutable_t exe, topsExtExecutableSectionHeaderType_t sh_type, int mc,
            out topsExtExecutableSectionInfo_t *info)
        topsGetMemUsageInfo(out size_t *current_used_bytes, out size_t *peek_used_bytes, int bank_total)
        topsGetAffinityBankList(out int *affinity_bank_list, int bank_total)
        topsGetAffinityBankListV2(topsResource_t res, out int *affinity_bank_list, int bank_total)
        topsMemGetInfoExt(out size_t *used_list, out size_t *free_list, out size_t *max_available_list, out
            size_t *total_list, int bank_total) -> InvalidDevice InvalidValue
        topsKernelSignalMaxNumGet(out int *num)
        topsKernelSignalAvailableNumGet(out int *num)
        topsKernelSignalAlloc(out int *handle)
        topsKernelSignalFree(int handle)
        topsKernelSignalRead(int handle, out uint32_t *value)
        topsKernelSignalWrite(int handle, uint32_t value)
        topsSetDeviceAndResourceReservation(int deviceId, topsResourceRequestV2_t *resRequest) -> InvalidDevice
            DeviceAlreadyInUse
    """),
)
