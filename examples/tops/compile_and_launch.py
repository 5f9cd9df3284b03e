"""Compile a kernel while the program runs, and launch it: topsrtc, modules and launches, as a C host program has them.

Two kernels of one text, one header and two options. The first launch passes its arguments by kernelParams, the second
by the `extra` buffer, the third in steps, as a compiler makes them of `kernel<<<grid, block>>>(...)`.
"""

import ctypes

import numpy as np

from atops import tops

SOURCE = """
from shares import share

launches = k.device_variable(np.int32, 0)


@k.kernel
async def axpy(y: k.Span[np.float32], x: k.Span[np.float32], a: np.float32, n: np.int32):
    tile_x, tile_y = k.local(TILE, np.float32), k.local(TILE, np.float32)
    with k.dte_scope() as dte:
        for part in share(n):
            size = part.stop - part.start
            k.memcpy(dte, tile_x[:size], x[part])
            k.memcpy(dte, tile_y[:size], y[part])
            tile_y[:size] += a * tile_x[:size]
            k.memcpy(dte, y[part], tile_y[:size])


@k.kernel
async def count():
    if k.blockIdx.x == 0 and k.threadIdx.x == 0:
        launches[...] = launches[...] + 1
"""
SHARES = """
def share(n):
    return k.tiles(n, TILE)
"""
N, GRID, BLOCK = 10_000, 2, 12


class AxpyArguments(ctypes.Structure):
    """The arguments of axpy, as C lays them out."""

    _fields_ = (("y", ctypes.c_void_p), ("x", ctypes.c_void_p), ("a", ctypes.c_float), ("n", ctypes.c_int))


def compile_program() -> tuple[bytes, str]:
    """Return the code of the program and the lowered name of its kernel."""
    program = tops.check(tops.topsrtcCreateProgram(SOURCE, "axpy.py", 1, [SHARES], ["shares.py"]))
    tops.check(tops.topsrtcAddNameExpression(program, "axpy"))
    options = ["--gpu-architecture=gcu300", "-DTILE=512"]
    (err,) = tops.topsrtcCompileProgram(program, len(options), options)
    if err != tops.TOPSRTC_SUCCESS:
        raise SystemExit(tops.check(tops.topsrtcGetProgramLog(program)))
    code = tops.check(tops.topsrtcGetCode(program))
    lowered = tops.check(tops.topsrtcGetLoweredName(program, "axpy"))
    tops.check(tops.topsrtcDestroyProgram(program))
    return code, lowered


def show_errors() -> str:
    """Return what the compiler says of a text with a mistake."""
    program = tops.check(tops.topsrtcCreateProgram("x = (\n", "f.py", 0, None, None))
    (err,) = tops.topsrtcCompileProgram(program, 0, None)
    assert err == tops.TOPSRTC_ERROR_COMPILATION
    log = tops.check(tops.topsrtcGetProgramLog(program))
    tops.check(tops.topsrtcDestroyProgram(program))
    return log.splitlines()[0]


def launch_in_three_ways(axpy: int, device_y: int, device_x: int) -> None:
    """Add 2, 3 and 5 times x to y."""
    values = [device_y, device_x, 2.0, N]
    tops.check(tops.topsModuleLaunchKernel(axpy, GRID, 1, 1, BLOCK, 1, 1, 0, None, values, None))

    arguments = AxpyArguments(device_y, device_x, 3.0, N)
    extra = (
        tops.TOPS_LAUNCH_PARAM_BUFFER_POINTER, arguments,
        tops.TOPS_LAUNCH_PARAM_BUFFER_SIZE, ctypes.sizeof(arguments),
        tops.TOPS_LAUNCH_PARAM_END,
    )  # fmt: skip
    tops.check(tops.topsModuleLaunchKernel(axpy, GRID, 1, 1, BLOCK, 1, 1, 0, None, None, extra))

    tops.check(tops.topsConfigureCall(tops.dim3(GRID), tops.dim3(BLOCK)))
    for name, kind in AxpyArguments._fields_:
        field = getattr(AxpyArguments, name)
        value = kind(5.0) if name == "a" else kind(getattr(arguments, name))
        tops.check(tops.topsSetupArgument(value, field.size, field.offset))
    tops.check(tops.topsLaunchByPtr(axpy))


def main() -> None:
    """Launch axpy in three ways, and a kernel that counts in a variable of the module."""
    code, lowered = compile_program()
    print(f"{lowered}: {len(code)} bytes of code")
    print(show_errors())

    module = tops.check(tops.topsModuleLoadData(code))
    axpy = tops.check(tops.topsModuleGetFunction(module, lowered))
    count = tops.check(tops.topsModuleGetFunction(module, "count"))

    x, y = np.arange(N, dtype=np.float32), np.ones(N, np.float32)
    device_x, device_y = (tops.check(tops.topsMalloc(x.nbytes)) for _ in range(2))
    tops.check(tops.topsMemcpy(device_x, x, x.nbytes, tops.topsMemcpyHostToDevice))
    tops.check(tops.topsMemcpy(device_y, y, y.nbytes, tops.topsMemcpyHostToDevice))

    launch_in_three_ways(axpy, device_y, device_x)
    for _ in range(3):
        tops.check(tops.topsModuleLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, None, None, None))

    tops.check(tops.topsMemcpy(y, device_y, y.nbytes, tops.topsMemcpyDeviceToHost))
    pointer, size = tops.check(tops.topsModuleGetGlobal(module, "launches"))
    launches = np.zeros(1, np.int32)
    tops.check(tops.topsMemcpy(launches, pointer, size, tops.topsMemcpyDeviceToHost))
    print(f"y[9] is {y[9]}; count ran {launches[0]} times")

    tops.check(tops.topsModuleUnload(module))
    for each in (device_x, device_y):
        tops.check(tops.topsFree(each))
    assert np.array_equal(y, 1 + 10 * x) and launches[0] == 3


if __name__ == "__main__":
    main()
