"""The table of names in hip.md, made from the functions' declarations: `python docs/hip_names.py` writes it anew.

What HIP, CUDA and TOPS call a function follows from its name, but for the exceptions here; what the objects have for
it is written here. The tests compare the page with what this makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from atops.hip.header.functions import FUNCTIONS
from atops.tops.header.functions import FUNCTIONS as TOPS_FUNCTIONS

PAGE: Final = Path(__file__).parent / "hip.md"
BEGIN, END = "<!-- names: made by docs/hip_names.py -->\n", "<!-- end of names -->\n"

TITLES: Final = {
    "HIP stream": "Streams", "HIP pool": "Pools, and memory in stream order", "HIP device": "Devices and errors",
    "HIP event": "Events", "HIP memory": "Memory", "HIP processes": "Between processes", "HIP copy": "Copies and fills",
    "HIP module": "Modules and their launches", "HIP launch": "Launches of kernels", "HIP symbol": "Symbols",
}  # fmt: skip

# CUDA's driver functions begin with cu, the others with cuda; these are the first.
DRIVER: Final = re.compile(
    r"hip(Stream(Wait|Write)Value\d+|Init|Device(Get|GetName|TotalMem)|PointerGetAttribute|Memcpy[HD]to[HD](Async)?"
    r"|MemsetD\d+(Async)?|Module(Load|LoadData|LoadDataEx|Unload|GetFunction|GetTexRef|GetGlobal)|FuncGetAttribute)"
)
CUDA: Final = {
    "hipHostMalloc": "cudaHostAlloc", "hipHostFree": "cudaFreeHost", "hipModuleLaunchKernel": "cuLaunchKernel",
    "hipModuleLaunchCooperativeKernel": "cuLaunchCooperativeKernel",
    "hipModuleLaunchCooperativeKernelMultiDevice": "cuLaunchCooperativeKernelMultiDevice",
    "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor": "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "hipMemcpyWithStream": "",
}  # fmt: skip
TOPS: Final = {
    "hipStreamWaitValue32": "topsStreamWaitValue32Async", "hipStreamWriteValue32": "topsStreamWriteValue32Async",
    "hipModuleLaunchCooperativeKernel": "topsLaunchCooperativeKernel",
}  # fmt: skip

COPY, FILL = "stream.copy(dst, src)", "stream.fill(buffer, value)"
LAUNCH, COOPERATIVE = "stream.launch(kernel, config, x)", "stream.launch(kernel, config, x, cooperative=True)"
TIMED, TOGETHER = "stream.launch(kernel, config, x, start=event)", "atops.launch_together(launches, cooperative=True)"
OBJECTS: Final = {
    "hipStreamCreate": "device.create_stream()",
    "hipStreamCreateWithFlags": "device.create_stream(nonblocking=True)",
    "hipStreamCreateWithPriority": "device.create_stream(priority=-2)",
    "hipDeviceGetStreamPriorityRange": "stream.priority_range()",
    "hipStreamDestroy": "stream.close()",
    "hipStreamQuery": "stream.is_done",
    "hipStreamSynchronize": "stream.sync(), await stream",
    "hipStreamWaitEvent": "stream.wait(event)",
    "hipStreamGetFlags": "stream.is_nonblocking",
    "hipStreamGetPriority": "stream.priority",
    "hipExtStreamCreateWithCUMask": "device.create_stream(cluster_mask=1, sip_mask=3)",
    "hipExtStreamGetCUMask": "stream.cluster_mask, stream.sip_mask",
    "hipStreamAddCallback": "stream.add_callback(function, holds=True)",
    "hipStreamWaitValue32": 'stream.wait_value(word, 1, "GteUnsigned")',
    "hipStreamWaitValue64": "stream.wait_value(word, 1, width=64)",
    "hipStreamWriteValue32": "stream.write_value(word, 1)",
    "hipStreamWriteValue64": "stream.write_value(word, 1, width=64)",
    "hipStreamGetDevice": "stream.device",
    "hipLaunchHostFunc": "stream.call(function)",
    "hipMallocAsync": "stream.allocate(nbytes)",
    "hipFreeAsync": "stream.free(buffer)",
    "hipMemPoolTrimTo": "pool.trim(nbytes)",
    "hipMemPoolSetAttribute": "pool.release_threshold = nbytes",
    "hipMemPoolGetAttribute": "pool.used_current, pool.reserved_high",
    "hipMemPoolSetAccess": 'pool.set_access(device, "readwrite")',
    "hipMemPoolGetAccess": "pool.get_access(device)",
    "hipMemPoolCreate": "device.create_pool()",
    "hipMemPoolDestroy": "pool.destroy()",
    "hipMallocFromPoolAsync": "stream.allocate(nbytes, pool)",
    "hipDeviceGetDefaultMemPool": "device.default_pool",
    "hipDeviceGetMemPool": "device.current_pool",
    "hipDeviceSetMemPool": "device.current_pool = pool",
    "hipGetDeviceCount": "atops.Device.count()",
    "hipSetDevice": "device.set_current()",
    "hipGetDevice": "atops.Device()",
    "hipGetDeviceProperties": "device.properties",
    "hipDeviceGetAttribute": "device.properties",
    "hipDeviceGetName": "device.name",
    "hipDeviceGet": "atops.Device(0)",
    "hipDeviceSynchronize": "device.sync(), await device.wait()",
    "hipDeviceReset": "device.reset_sync(), await device.reset()",
    "hipDeviceCanAccessPeer": "device.can_access_peer(other)",
    "hipDeviceEnablePeerAccess": "device.enable_peer_access(other)",
    "hipDeviceDisablePeerAccess": "device.disable_peer_access(other)",
    "hipDeviceTotalMem": "device.memory_info()",
    "hipGetLastError": "stream.error",
    "hipPeekAtLastError": "stream.error",
    "hipEventCreate": "device.create_event()",
    "hipEventCreateWithFlags": "device.create_event(timing=False)",
    "hipEventRecord": "stream.record(event)",
    "hipEventQuery": "event.is_done",
    "hipEventSynchronize": "event.sync(), await event",
    "hipEventElapsedTime": "stop - start",
    "hipMalloc": "device.allocate(nbytes)",
    "hipFree": "buffer.close()",
    "hipMallocManaged": "device.malloc_managed(shape)",
    "hipHostMalloc": "device.host_malloc(shape)",
    "hipHostFree": "buffer.close()",
    "hipHostRegister": "device.register(array)",
    "hipHostUnregister": "buffer.close()",
    "hipHostGetDevicePointer": "buffer.address",
    "hipMemGetInfo": "device.memory_info()",
    "hipModuleLoad": "k.load_module(path)",
    "hipModuleUnload": "module.unload()",
    "hipModuleLoadData": "k.load_module(image)",
    "hipModuleLoadDataEx": "k.load_module(image)",
    "hipModuleGetFunction": "module.function(name)",
    "hipFuncGetAttributes": "k.function_attributes(kernel)",
    "hipFuncGetAttribute": "k.function_attributes(kernel)",
    "hipModuleLaunchKernel": LAUNCH,
    "hipExtModuleLaunchKernel": TIMED,
    "hipHccModuleLaunchKernel": TIMED,
    "hipModuleLaunchCooperativeKernel": COOPERATIVE,
    "hipModuleLaunchCooperativeKernelMultiDevice": TOGETHER,
    "hipLaunchCooperativeKernel": COOPERATIVE,
    "hipLaunchCooperativeKernelMultiDevice": TOGETHER,
    "hipExtLaunchMultiKernelMultiDevice": "atops.launch_together(launches)",
    "hipLaunchKernel": LAUNCH,
    "hipExtLaunchKernel": TIMED,
    "hipModuleGetGlobal": "device.symbol(variable)",
    "hipGetSymbolAddress": "device.symbol(variable).address",
    "hipGetSymbolSize": "device.symbol(variable).nbytes",
    "hipMemcpyToSymbol": "stream.copy(device.symbol(variable), src)",
    "hipMemcpyToSymbolAsync": "stream.copy(device.symbol(variable), src)",
    "hipMemcpyFromSymbol": "stream.copy(dst, device.symbol(variable))",
    "hipMemcpyFromSymbolAsync": "stream.copy(dst, device.symbol(variable))",
}


def cuda_name(name: str) -> str:
    """Return what CUDA calls a function of HIP; nothing where it has none."""
    if name in CUDA:
        return CUDA[name]
    if name.startswith(("hipExt", "hipHcc")):
        return ""
    return ("cu" if DRIVER.fullmatch(name) else "cuda") + name.removeprefix("hip")


def tops_name(name: str) -> str:
    """Return what TOPS calls it; nothing where it has none."""
    same = "tops" + name.removeprefix("hip")
    return TOPS.get(name, same if same in TOPS_FUNCTIONS else "")


def objects_of(name: str) -> str:
    """Return what the objects have for it."""
    if name.startswith("hipMem") and FUNCTIONS[name].family == "HIP copy":
        return COPY if name.startswith("hipMemcpy") else FILL
    return OBJECTS.get(name, "")


def lines() -> Iterator[str]:
    """Yield the lines of the tables, one for each family of functions."""
    family = ""
    for name, function in FUNCTIONS.items():
        if function.family != family:
            family = function.family
            yield f"\n### {TITLES[family]}\n"
            yield "| HIP | CUDA | `atops.tops` | objects | `aio` |"
            yield "|---|---|---|---|---|"
        cells = (name, cuda_name(name), tops_name(name), objects_of(name))
        twin = "awaitable" if function.waits else ""
        yield f"| {' | '.join(f'`{cell}`' if cell else '' for cell in cells)} | {twin} |"


def page() -> str:
    """Return the page with its tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{chr(10).join(lines())}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
