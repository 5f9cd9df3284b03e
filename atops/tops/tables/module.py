"""The functions of modules, launches and runtime compilation: TOPS Runtime API, 2.8 to 2.10."""

from __future__ import annotations

from atops.tops.tables.function import Function, family

__all__ = ("MODULE_FUNCTIONS",)

MODULE_FUNCTIONS: tuple[Function, ...] = (
    *family("Module", "2.8", """
        topsModuleLoad(out topsModule_t *module, const char *fname) -> InvalidValue InvalidContext FileNotFound
            OutOfMemory SharedObjectInitFailed NotInitialized
        topsModuleUnload(topsModule_t module) -> InvalidValue
        topsModuleGetFunction(out topsFunction_t *function, topsModule_t module, const char *kname) ->
            InvalidValue InvalidContext NotInitialized NotFound
        topsFuncGetAttributes(out topsFuncAttributes *attr, const void *func) -> InvalidValue
            InvalidDeviceFunction
        topsFuncGetAttribute(out int *value, topsFunction_attribute attrib, topsFunction_t hfunc) ->
            InvalidValue InvalidDeviceFunction
        topsModuleLoadData(out topsModule_t *module, const void *image) -> NotInitialized OutOfMemory
        topsModuleLoadDataEx(out topsModule_t *module, const void *image, unsigned int numOptions, topsJitOption
            *options, void **optionValues) -> NotInitialized OutOfMemory
        topsModuleLaunchKernel(topsFunction_t f, unsigned int gridDimX, unsigned int gridDimY, unsigned int
            gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int
            sharedMemBytes, topsStream_t stream, void **kernelParams, void **extra) -> InvalidDevice
            NotInitialized InvalidValue
        topsLaunchCooperativeKernel(const void *f, dim3 gridDim, dim3 blockDimX, void **kernelParams, size_t
            sharedMemBytes, topsStream_t stream) -> InvalidDevice NotInitialized InvalidValue
            CooperativeLaunchTooLarge
    """),
    *family("Clang", "2.9", """
        topsConfigureCall(dim3 gridDim, dim3 blockDim, size_t sharedMem = 0, topsStream_t stream = 0) ->
            InvalidDevice NotInitialized InvalidValue
        topsSetupArgument(const void *arg, size_t size, size_t offset) -> InvalidDevice NotInitialized
            InvalidValue
        topsLaunchByPtr(const void *func) -> InvalidDevice NotInitialized InvalidValue
        __topsPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem = 0, topsStream_t stream = 0)
            -> InvalidDevice NotInitialized InvalidValue
        __topsPopCallConfiguration(out dim3 *gridDim, out dim3 *blockDim, out size_t *sharedMem, out
            topsStream_t *stream) -> InvalidDevice NotInitialized InvalidValue
        topsLaunchKernel(const void *function_address, dim3 numBlocks, dim3 dimBlocks, void **args, size_t
            sharedMemBytes = 0, topsStream_t stream = 0) -> InvalidValue InvalidDevice
    """),
    *family("Runtime", "2.10", """
        const char * topsrtcGetErrorString(topsrtcResult result)
        topsrtcResult topsrtcVersion(out int *major, out int *minor)
        topsrtcResult topsrtcAddNameExpression(topsrtcProgram program, const char *name_expression)
        topsrtcResult topsrtcCompileProgram(topsrtcProgram program, int num_options, const char **options)
        topsrtcResult topsrtcCreateProgram(out topsrtcProgram *program, const char *source, const char *name,
            int num_headers, const char **headers, const char **include_names)
        topsrtcResult topsrtcDestroyProgram(topsrtcProgram *program)
        topsrtcResult topsrtcGetLoweredName(topsrtcProgram program, const char *name_expression, out const char
            **lowered_name)
        topsrtcResult topsrtcGetProgramLog(topsrtcProgram program, out char *log)
        topsrtcResult topsrtcGetProgramLogSize(topsrtcProgram program, out size_t *log_size)
        topsrtcResult topsrtcGetCode(topsrtcProgram program, out char *code)
        topsrtcResult topsrtcGetCodeSize(topsrtcProgram program, out size_t *codeSizeRet)
    """),
)
