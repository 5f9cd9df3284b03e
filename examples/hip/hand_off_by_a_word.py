"""HIP words of memory: two streams hand a buffer to and fro. One waits for odd turns, the other one for even ones."""

from __future__ import annotations

import numpy as np

from atops.hip import hip, hiprtc

SOURCE = b"""\
#include <hip/hip_runtime.h>

extern "C" __global__ void step(float *x, int n, float factor, float term) {
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) x[i] = x[i] * factor + term;
}
"""
COUNT, TURNS = 1000, 8


def hip_check(call_result):
    """Return what a call returned behind its error code; raise that error."""
    err, *result = call_result
    if err:
        raise RuntimeError(str(err))
    return result[0] if len(result) == 1 else result


def compiled(source: bytes) -> bytearray:
    """Return the code of a program; raise with its log where it has errors."""
    program = hip_check(hiprtc.hiprtcCreateProgram(source, b"step.cpp", 0, None, None))
    (err,) = hiprtc.hiprtcCompileProgram(program, 0, None)
    if err != hiprtc.hiprtcResult.HIPRTC_SUCCESS:
        log = bytearray(hip_check(hiprtc.hiprtcGetProgramLogSize(program)))
        hip_check(hiprtc.hiprtcGetProgramLog(program, log))
        raise RuntimeError(log.decode())
    code = bytearray(hip_check(hiprtc.hiprtcGetCodeSize(program)))
    hip_check(hiprtc.hiprtcGetCode(program, code))
    hip_check(hiprtc.hiprtcDestroyProgram(program.createRef()))
    return code


def main() -> None:
    """Enqueue all turns of one stream, then all of the other one: the word alone decides whose turn it is."""
    module = hip_check(hip.hipModuleLoadData(compiled(SOURCE)))
    step = hip_check(hip.hipModuleGetFunction(module, b"step"))
    doubles, adds = (hip_check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)) for _ in range(2))
    word, memory = hip_check(hip.hipMalloc(8)), hip_check(hip.hipMalloc(COUNT * 4))
    hip_check(hip.hipMemset(word, 0, 8))
    hip_check(hip.hipMemset(memory, 0, COUNT * 4))
    hip_check(hip.hipDeviceSynchronize())

    said: list[str] = []
    for stream, mine, factor, term, name in ((doubles, 1, 2.0, 0.0, "* 2"), (adds, 0, 1.0, 1.0, "+ 1")):
        for turn in range(mine, TURNS, 2):
            hip_check(hip.hipStreamWaitValue64(stream, word, turn, hip.hipStreamWaitValueEq))
            arguments = [memory, np.int32(COUNT), np.float32(factor), np.float32(term)]
            hip_check(hip.hipModuleLaunchKernel(step, 2, 1, 1, 12, 1, 1, 0, stream, arguments, None))
            hip_check(hip.hipLaunchHostFunc(stream, said.append, name))
            hip_check(hip.hipStreamWriteValue64(stream, word, turn + 1, 0))
    print("enqueued:", TURNS // 2, "times * 2, then", TURNS // 2, "times + 1")
    hip_check(hip.hipStreamSynchronize(doubles))
    hip_check(hip.hipStreamSynchronize(adds))

    expected = 0
    for turn in range(TURNS):
        expected = expected * 2 if turn % 2 else expected + 1
    found = np.zeros(COUNT, np.float32)
    hip_check(hip.hipMemcpy(found, memory, found.nbytes, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
    print("done in turns:", ", ".join(said))
    print("each number is", found[0])
    assert (found == expected).all() and said == ["+ 1", "* 2"] * (TURNS // 2)

    for stream in (doubles, adds):
        hip_check(hip.hipStreamDestroy(stream))
    for pointer in (word, memory):
        hip_check(hip.hipFree(pointer))
    hip_check(hip.hipModuleUnload(module))


if __name__ == "__main__":
    main()
