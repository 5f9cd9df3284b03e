"""HIP runtime compilation as hip-python has it: a text becomes code, a module, a function; arguments go by `extra`."""

from __future__ import annotations

import ctypes

import numpy as np

from atops.hip import hip, hiprtc

SOURCE = b"""\
@k.kernel
async def scale_vector(factor: np.float32, n: np.int32, x: k.Span[np.float32]):
    tid = k.threadIdx.x + k.blockIdx.x * k.blockDim.x
    if tid < n:
        x[tid] = x[tid] * factor
"""
COUNT = 100


def hip_check(call_result):
    """Return what a call returned behind its error code; raise that error."""
    err, *result = call_result
    if err:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


def compiled(source: bytes, name: bytes) -> bytearray:
    """Return the code of a program; raise with its log where it has errors."""
    program = hip_check(hiprtc.hiprtcCreateProgram(source, name, 0, None, None))
    props = hip.hipDeviceProp_t()
    hip_check(hip.hipGetDeviceProperties(props, 0))
    options = [b"--offload-arch=" + props.gcnArchName]
    (err,) = hiprtc.hiprtcCompileProgram(program, len(options), options)
    if err != hiprtc.hiprtcResult.HIPRTC_SUCCESS:
        log = bytearray(hip_check(hiprtc.hiprtcGetProgramLogSize(program)))
        hip_check(hiprtc.hiprtcGetProgramLog(program, log))
        raise RuntimeError(log.decode())
    code = bytearray(hip_check(hiprtc.hiprtcGetCodeSize(program)))
    hip_check(hiprtc.hiprtcGetCode(program, code))
    hip_check(hiprtc.hiprtcDestroyProgram(program.createRef()))
    return code


def main() -> None:
    """Compile, load, launch twice, and compare."""
    module = hip_check(hip.hipModuleLoadData(compiled(SOURCE, b"scale_vector.py")))
    kernel = hip_check(hip.hipModuleGetFunction(module, b"scale_vector"))

    numbers = np.arange(COUNT, dtype=np.float32)
    memory = hip_check(hip.hipMalloc(numbers.nbytes)).configure(typestr="float32", shape=(COUNT,))
    hip_check(hip.hipMemcpy(memory, numbers, numbers.nbytes, hip.hipMemcpyKind.hipMemcpyHostToDevice))

    # By grid and block; then by work-items, with events at both ends of the kernel.
    extra = (ctypes.c_float(1.5), ctypes.c_int(COUNT), memory)
    block = hip.dim3(x=12)
    grid = hip.dim3(x=-(-COUNT // block.x))
    hip_check(hip.hipModuleLaunchKernel(
        kernel, *grid, *block, sharedMemBytes=0, stream=None, kernelParams=None, extra=extra
    ))  # fmt: skip
    start, stop = hip_check(hip.hipEventCreate()), hip_check(hip.hipEventCreate())
    hip_check(hip.hipExtModuleLaunchKernel(
        kernel, grid.x * block.x, 1, 1, *block, 0, None, None, extra, start, stop, hip.hipExtAnyOrderLaunch
    ))  # fmt: skip
    hip_check(hip.hipEventSynchronize(stop))
    assert hip_check(hip.hipEventElapsedTime(start, stop)) >= 0

    found = np.zeros_like(numbers)
    hip_check(hip.hipMemcpy(found, memory, found.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    print(f"{numbers[-3:].tolist()} scaled twice by 1.5: {found[-3:].tolist()}")
    assert np.allclose(found, numbers * 2.25)
    hip_check(hip.hipFree(memory))
    hip_check(hip.hipModuleUnload(module))


if __name__ == "__main__":
    main()
