"""What other libraries call things, and what to write here: the cures in errors, and the table in the documents.

A class of the table is decorated with `answers(its name)`, which puts a descriptor into it for each of these names: to
look at one is an AttributeError with the cure, so `hasattr` knows nothing of it, nor does `dir` of an instance. With a
`__getattr__` instead, the interpreter would specialise no read of any attribute of the class.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Final, NoReturn, ParamSpec, TypeVar

from atops.base.errors import InvalidType

__all__ = (
    "EACH_TIME", "NAMES", "answers", "calls_named", "cure", "import_of", "instead_of", "keywords", "methods_of",
    "page", "refuse_await", "refuse_keywords",
)  # fmt: skip

T = TypeVar("T")
P = ParamSpec("P")

IMPORT_FROM = dis.opmap["IMPORT_FROM"]
CACHE, GET_AWAITABLE = dis.opmap["CACHE"], bytes([dis.opmap["GET_AWAITABLE"]])
CALLS = frozenset(number for name, number in dis.opmap.items() if name.startswith("CALL"))
COROUTINES = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

EACH_TIME: Final = " each time: no commands are captured to be replayed"  # behind what is called instead

# By the class: a name that it lacks, called or not, and what has its place.
NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "Stream": {
        "synchronize()": "sync()", "query()": "is_done", "done()": "is_done",
        "is_ready()": "is_done", "finished": "is_done", "wait_event()": "wait(event)",
        "wait_stream()": "wait(stream)", "record_event()": "record(event)",
        "begin_capture()": f"launch(kernel, config){EACH_TIME}", "end_capture()": f"launch(kernel, config){EACH_TIME}",
        "create_graph_builder()": f"launch(kernel, config){EACH_TIME}",
        "is_capturing": f"launch(kernel, config){EACH_TIME}",
        "memcpy()": "copy(dst, src)", "memcpy_async()": "copy(dst, src)", "copy_async()": "copy(dst, src)",
        "copy_to_device()": "upload(host)", "to_device()": "upload(host)", "put()": "upload(host)",
        "put_nowait()": "call(function)", "copy_to_host()": "fetch(array)", "get()": "fetch(array)",
        "get_nowait()": "fetch(array)", "task_done()": "completion.done()", "maxsize": "capacity",
        "empty_cache()": "pool.trim()", "memset()": "fill(dst, value)", "memset_async()": "fill(dst, value)",
        "malloc()": "allocate(nbytes)", "malloc_async()": "allocate(nbytes)", "alloc()": "allocate(nbytes)",
        "free_async()": "free(buffer)", "deallocate()": "free(buffer)", "launch_host_func()": "call(function)",
        "launch_host_function()": "call(function)", "host_func()": "call(function)", "call_soon()": "call(function)",
        "submit_task()": "create_task(coroutine)", "run_coroutine_threadsafe()": "create_task(coroutine)",
        "wait_value32()": "wait_value(target, value)", "write_value32()": "write_value(target, value)",
        "launch_kernel()": "launch(kernel, config)", "async_done()": "join()", "handle": "__tops_stream__()",
        "ptr": "__tops_stream__()", "cuda_stream": "__tops_stream__()", "stream_id": "number", "id": "number",
        "name": "label", "nonblocking": "is_nonblocking", "flush()": "sync()", "shutdown()": "close()",
        "destroy()": "close()", "array()": "empty(shape, dtype)", "ones()": "zeros(shape, dtype)",
        "cancel()": "abort()", "copy_to()": "copy(dst, src)", "copy_from()": "copy(dst, src)",
        "elapsed_time()": "later - earlier", "run()": "call(function)", "wait_for()": "wait(event)",
    },
    "Event": {
        "synchronize()": "sync()", "query()": "is_done", "cancel_scope": "cancel()", "set()": "stream.record(event)",
        "clear()": "stream.record(event)", "is_set()": "is_done", "get()": "sync()", "ready()": "is_done",
        "block_until_ready()": "sync()", "is_ready()": "is_done", "join()": "sync()",
        "get_loop()": "asyncio.get_running_loop()", "record()": "stream.record(event)",
        "elapsed_time()": "later - earlier", "time_since()": "later - earlier",
        "elapsed_time_until()": "later - earlier", "wait_event()": "stream.wait(event)", "handle": "number",
        "wait_sync()": "sync()", "is_timing_disabled": "timing", "enable_timing": "timing", "cuda_event": "number",
        "ptr": "number", "close()": "done()", "destroy()": "done()",
    },
    "Completion": {
        "synchronize()": "wait_sync()", "query()": "is_done", "cancel_scope": "cancel()", "set()": "done()",
        "clear()": "done()", "is_set()": "is_done", "get()": "wait_sync()", "ready()": "is_done",
        "block_until_ready()": "wait_sync()", "is_ready()": "is_done", "join()": "wait_sync()",
        "get_loop()": "asyncio.get_running_loop()", "sync()": "wait_sync()", "numpy()": "wait_sync()",
        "value": "result()", "get_name()": "state", "is_completed": "is_done", "elapsed_time()": "later - earlier",
    },
    "Device": {
        "synchronize()": "sync()", "query()": "is_idle", "launch()": "device.null_stream.launch(kernel, config)",
        "memcpy()": "device.null_stream.copy(dst, src)", "copy()": "device.null_stream.copy(dst, src)",
        "fill()": "device.null_stream.fill(dst, value)", "fetch()": "device.null_stream.fetch(array)",
        "record()": "device.null_stream.record()", "record_event()": "device.null_stream.record()",
        "call()": "device.null_stream.call(function)", "malloc()": "allocate(nbytes)", "alloc()": "allocate(nbytes)",
        "mem_alloc()": "allocate(nbytes)", "free()": "buffer.close()", "to_device()": "upload(host)",
        "put()": "upload(host)", "array()": "upload(host)", "device_array()": "empty(shape, dtype)",
        "ones()": "zeros(shape, dtype)", "full()": "zeros(shape, dtype)", "stream()": "create_stream()",
        "Stream()": "create_stream()", "event()": "create_event()", "Event()": "create_event()",
        "pinned_array()": "host_malloc(shape, dtype)", "pin_memory()": "register(array)",
        "host_register()": "register(array)", "mem_get_info()": "memory_info()", "mem_info": "memory_info()",
        "memory_stats()": "statistics()", "memory_allocated()": "statistics()", "memory_resource": "current_pool",
        "mempool": "current_pool", "pool": "current_pool", "device_id": "id", "index": "id",
        "attributes": "properties", "get_properties()": "properties", "compute_capability": "arch",
        "uuid": "properties", "push()": "use()", "pop()": "use()", "make_current()": "set_current()",
        "close()": "reset_sync()", "stream_create()": "create_stream()", "is_current": "set_current()",
        "empty_cache()": "device.default_pool.trim()", "asarray()": "upload(host)",
        "get_attribute()": "properties", "multiprocessor_count": "properties", "warp_size": "properties",
        "max_threads_per_block": "properties", "pci_bus_id": "properties", "total_memory": "memory_info()",
        "get_memory_info()": "memory_info()", "memory": "memory_info()",
    },
    "MemoryPool": {
        "free_all_blocks()": "trim()", "trim_to()": "trim()", "empty_cache()": "trim()", "close()": "destroy()",
        "malloc()": "stream.allocate(nbytes)", "alloc()": "stream.allocate(nbytes)",
        "allocate()": "stream.allocate(nbytes)", "free()": "stream.free(buffer)", "deallocate()": "stream.free(buffer)",
        "used_bytes()": "used_current", "total_bytes()": "reserved_current", "get_limit()": "max_size",
        "set_limit()": "device.create_pool()", "attributes": "statistics()",
    },
    "Buffer": {
        "get()": "stream.fetch(array)", "numpy()": "stream.fetch(array)", "copy_to_host()": "stream.fetch(array)",
        "copy_to_device()": "stream.copy(dst, src)", "copy_to()": "stream.copy(dst, src)",
        "copy_from()": "stream.copy(dst, src)", "copy()": "stream.copy(dst, src)", "copy_()": "stream.copy(dst, src)",
        "set()": "stream.copy(dst, src)", "cpu()": "stream.fetch(array)", "to()": "stream.fetch(array)",
        "tolist()": "stream.fetch(array)", "tobytes()": "stream.fetch(array)", "item()": "stream.fetch(array)",
        "asnumpy()": "stream.fetch(array)", "block_until_ready()": "stream.sync()",
        "fill()": "stream.fill(dst, value)", "fill_()": "stream.fill(dst, value)",
        "zero_()": "stream.fill(dst, value)", "memset()": "stream.fill(dst, value)", "free()": "close()",
        "delete()": "close()", "deallocate()": "close()", "release()": "close()", "handle": "address",
        "ptr": "address", "data_ptr()": "address", "device_ctypes_pointer": "address", "device_pointer": "address",
        "gpudata": "address", "data": "address", "mem": "address", "sync()": "stream.sync()",
        "synchronize()": "stream.sync()", "record_stream()": "stream.free(buffer)", "is_host": "is_host_accessible",
        "is_cuda": "is_device_accessible", "memory_resource": "device.current_pool",
        "pin_memory()": "device.register(array)", "is_pinned()": "is_host_accessible",
        "cuda()": "stream.upload(host)",
    },
    "DeviceArray": {
        "astype()": "stream.fetch(array)", "ravel()": "reshape(-1)", "flatten()": "reshape(-1)", "itemsize": "dtype",
        "strides": "shape", "T": "stream.launch(kernel, config)", "transpose()": "stream.launch(kernel, config)",
        "numel()": "size", "dim()": "ndim", "sum()": "stream.launch(kernel, config)",
        "mean()": "stream.launch(kernel, config)",
        "max()": "stream.launch(kernel, config)", "min()": "stream.launch(kernel, config)",
        "dot()": "stream.launch(kernel, config)", "at": "stream.copy(dst, src)",
    },
    "HostArray": {
        "numpy()": "array", "get()": "array", "cpu()": "array", "copy()": "array", "tolist()": "array",
        "item()": "array", "astype()": "array", "T": "array", "transpose()": "array", "sum()": "array",
        "mean()": "array", "max()": "array", "min()": "array", "dot()": "array", "fill()": "array",
    },
    "Driver": {
        "synchronize()": "device.sync()", "sync()": "device.sync()",
        "get_device()": "atops.Device(0)", "device_count()": "atops.Device.count()",
        "create_stream()": "device.create_stream()", "create_event()": "device.create_event()",
        "Stream()": "device.create_stream()", "stop()": "close()", "shutdown()": "close()",
        "reset()": "device.reset_sync()", "run_until_complete()": "atops.run(main)",
        "launch()": "device.null_stream.launch(kernel, config)", "upload()": "device.upload(host)",
        "profile()": "atops.profile()", "wait()": "device.wait()",
    },
    "Kernel": {
        "launch()": "stream.launch(kernel, config)", "run()": "stream.launch(kernel, config)",
        "forall()": "stream.launch(kernel, config)", "warmup()": "stream.launch(kernel, config)",
        "configure_launch()": "stream.launch(kernel, config)", "specialize()": "kernel.bind(arguments)",
        "py_func": "kernel.function", "fn": "kernel.function", "attributes": "k.function_attributes(kernel)",
        "get_regs_per_thread()": "k.function_attributes(kernel)", "num_regs": "k.function_attributes(kernel)",
        "shared_size_bytes": "k.function_attributes(kernel)",
        "max_threads_per_block": "k.function_attributes(kernel)", "local_size_bytes": "k.function_attributes(kernel)",
        "compile()": "k.compile(text)",
    },
    "k": {
        "program_id()": "k.blockIdx.x", "num_programs()": "k.gridDim.x", "grid()": "k.thread_id()",
        "gridsize()": "k.thread_count()", "get_global_id()": "k.thread_id()", "get_local_id()": "k.threadIdx.x",
        "wait_value()": "k.signal_wait(handle, value)", "write_value()": "k.signal_write(handle, value)",
        "atomic": "k.signal_add(handle, value)", "atomic_add()": "k.signal_add(handle, value)",
        "atomicAdd()": "k.signal_add(handle, value)", "load()": "k.memcpy(dte, dst, src)",
        "store()": "k.memcpy(dte, dst, src)", "arange()": "k.tiles(size, 1024)", "jit": "k.kernel",
        "global_": "k.kernel", "autotune": "k.kernel", "RawKernel": "k.Program(text, name)",
        "shared_memory()": "k.shared(n, dtype)", "array()": "k.local(n, dtype)", "empty()": "k.local(n, dtype)",
        "zeros()": "k.local(n, dtype)", "const": "k.constant(dtype, values)",
        "extern_shared()": "k.dynamic_shared(dtype)", "sync_threads()": "k.syncthreads()",
        "barrier_sync()": "k.syncthreads()", "debug_barrier()": "k.syncthreads()", "sync_grid()": "k.syncblocks()",
        "grid_sync()": "k.syncblocks()", "this_grid()": "k.syncblocks()", "cg": "k.syncblocks()",
        "syncwarp()": "k.syncthreads()", "shfl_sync()": "k.shared(n, dtype)", "print()": "k.printf(text)",
        "device_print()": "k.printf(text)", "device_assert()": "k.assert_(condition)",
        "static_assert()": "k.assert_(condition)", "blockidx": "k.blockIdx", "threadidx": "k.threadIdx",
        "block_idx": "k.blockIdx", "thread_idx": "k.threadIdx", "block_dim": "k.blockDim", "grid_dim": "k.gridDim",
        "laneid": "k.threadIdx", "warpsize": "k.blockDim", "async_copy()": "k.memcpy_async(dte, dst, src)",
        "cp_async()": "k.memcpy_async(dte, dst, src)", "memcpy_sync()": "k.memcpy(dte, dst, src)",
        "max()": "np.max(tile)", "min()": "np.min(tile)", "sum()": "np.sum(tile)", "dot()": "np.dot(tile, other)",
        "range()": "range(0, n)", "where()": "np.where(mask, tile, other)",
        "maximum()": "np.maximum(tile, other)", "minimum()": "np.minimum(tile, other)", "cdiv()": "math.ceil(n / tile)",
        "float32": "np.float32", "float64": "np.float64", "float16": "np.float16", "int8": "np.int8",
        "int16": "np.int16", "int32": "np.int32", "int64": "np.int64", "uint8": "np.uint8", "uint16": "np.uint16",
        "uint32": "np.uint32", "uint64": "np.uint64", "bfloat16": "ml_dtypes.bfloat16", "constexpr": "n: int",
        "full()": "tile[...] = value", "reduce()": "np.sum(tile)", "len()": "x.size",
        "float4": "k.vector4[np.float32]", "make_float4()": "k.vector4[np.float32]", "static_range()": "range(0, n)",
        "shared_array()": "k.shared(n, dtype)", "local_array()": "k.local(n, dtype)",
        "threadfence()": "k.syncthreads()", "selp()": "np.where(mask, tile, other)",
    },
    "atops": {
        "synchronize()": "atops.Device().sync()", "devices()": "atops.Device.all()",
        "get_device()": "atops.Device(0)", "select_device()": "atops.Device(0).use()",
        "set_device()": "atops.Device(0).use()", "current_device()": "atops.Device()",
        "device_count()": "atops.Device.count()", "get_device_count()": "atops.Device.count()",
        "local_devices()": "atops.Device.all()", "gpus": "atops.Device.all()", "list_devices()": "atops.Device.all()",
        "stream()": "device.create_stream()", "event()": "device.create_event()",
        "current_stream()": "device.current_stream", "default_stream()": "device.null_stream", "jit": "k.kernel",
        "kernel": "k.kernel", "RawKernel": "k.Program(text, name)", "RawModule": "k.load_module(path)",
        "Program": "k.Program(text, name)", "launch()": "stream.launch(kernel, config)",
        "array()": "stream.upload(host)", "asarray()": "stream.upload(host)", "to_device()": "stream.upload(host)",
        "device_put()": "stream.upload(host)", "asnumpy()": "stream.fetch(array)",
        "device_get()": "stream.fetch(array)", "empty()": "device.empty(shape, dtype)",
        "zeros()": "device.zeros(shape, dtype)", "ones()": "stream.upload(host)", "full()": "stream.upload(host)",
        "arange()": "stream.upload(host)", "empty_like()": "device.empty_like(other)",
        "device_array()": "device.empty(shape, dtype)", "device_array_like()": "device.empty_like(other)",
        "malloc()": "device.allocate(nbytes)", "pinned_array()": "device.host_malloc(shape, dtype)",
        "mapped_array()": "device.host_malloc(shape, dtype)",
        "managed_array()": "device.malloc_managed(shape, dtype)", "memcpy()": "stream.copy(dst, src)",
        "get_elapsed_time()": "later - earlier", "event_elapsed_time()": "later - earlier",
        "mem_get_info()": "device.memory_info()", "empty_cache()": "pool.trim()", "MemPool": "device.create_pool()",
        "grid()": "k.thread_id()", "syncthreads()": "k.syncthreads()", "threadIdx": "k.threadIdx",
        "blockIdx": "k.blockIdx", "LaunchOptions": "atops.LaunchConfig", "StreamOptions": "device.create_stream()",
        "EventOptions": "device.create_event()", "Queue": "device.create_stream()", "Future": "atops.Completion",
        "cuda": "atops.Device(0)", "Context": "atops.Device(0)", "driver": "atops.tops",
        "nvrtc": "k.Program(text, name)", "rtc": "k.Program(text, name)", "cudart": "atops.tops",
        "runtimeapi": "atops.tops", "mem": "device.current_pool", "memory": "device.current_pool",
        "ndarray": "atops.DeviceArray", "Tensor": "atops.DeviceArray", "tensor()": "stream.upload(host)",
        "Memory": "atops.Buffer", "UnownedMemory": "atops.Buffer", "MemoryPointer": "atops.Buffer",
        "MemoryResource": "atops.MemoryPool", "DeviceMemoryResource": "atops.MemoryPool",
        "ElementwiseKernel": "k.kernel", "ReductionKernel": "k.kernel", "vectorize": "k.kernel",
        "cuda_jit": "k.kernel", "system": "atops.Device.all()", "Timeout": "completion.wait_sync(timeout)",
        "wait()": "completion.wait_sync(timeout)", "gather()": "asyncio.gather(completion, event)",
        "run_coroutine_threadsafe()": "stream.create_task(coroutine)",
        "Graph": f"stream.launch(kernel, config){EACH_TIME}",
        "CUDAGraph": f"stream.launch(kernel, config){EACH_TIME}", "ExternalEvent": "device.create_event()",
        "Task": "atops.StreamTask", "create_task()": "stream.create_task(coroutine)",
        "manual_seed()": "atops.EmulatorOptions(seed=7)", "is_available()": "atops.Device.count()",
    },
}  # fmt: skip


def cure(kind: str, name: str) -> str | None:
    """Return what to do about a name that a class or module lacks, None where the table does not have it."""
    spelled = _spelled(kind, name)
    return None if spelled is None else f"{kind} has no {spelled}; use {NAMES[kind][spelled]}"


def import_of(frame: FrameType | None) -> bool:
    """Return whether `from module import name` stands here: Python would drop the text of an AttributeError."""
    return frame is not None and frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == IMPORT_FROM


def refuse_await(instead: str) -> None:
    """Raise InvalidType where a program awaits what this call returns, which is nothing to await. Call it first.

    Python would say that a NoneType, or another object, cannot be used in an `await` expression.
    """
    frame = sys._getframe(1).f_back
    if frame is None or not frame.f_code.co_flags & COROUTINES:  # None: called by no Python, as from `atexit`
        return
    code, at = frame.f_code.co_code, frame.f_lasti
    call, after = at, at + 2
    while call > 0 and code[call] == CACHE:  # where a frame stands in its call differs between versions of Python
        call -= 2
    while after < len(code) and code[after] == CACHE:
        after += 2
    if code[call] in CALLS and code[after : after + 1] == GET_AWAITABLE:
        name = sys._getframe(1).f_code.co_name
        raise InvalidType(f"{name}() gives nothing to await; use {instead}")


def refuse_keywords(name: str, given: Iterable[str], cures: Mapping[str, str]) -> None:
    """Raise InvalidType for a keyword of another library that `name` was given, with what to write."""
    for each in given:
        if each in cures:
            raise InvalidType(f"{name}() has no argument {each!r}; use {cures[each]}")


def keywords(**cures: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return what decorates a function: a wrong call is refused by InvalidType, with what to write.

    A keyword of another library with its cure; another one that the function lacks with the nearest that it has; too
    many or too few arguments with the signature. For what is called rarely: it adds a call.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            name = call.__qualname__.removesuffix(".__init__")
            if kwargs:
                refuse_keywords(name, kwargs, cures)
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                trace = error.__traceback__
                if trace is None or trace.tb_next is not None:  # raised inside the function
                    raise
                raise InvalidType(_wrong_call(name, function, kwargs, error)) from None

        return call

    return decorate


def methods_of(kind: type, *bases: type) -> None:
    """Have messages, Python's own too, name the methods that `bases` define for `kind` as those of `kind`."""
    for base in bases:
        for name, method in vars(base).items():
            if inspect.isfunction(method):
                method.__module__, method.__qualname__ = kind.__module__, f"{kind.__name__}.{name}"


def calls_named(cls: type[T]) -> type[T]:
    """Decorate a class: wrong calls of its constructor are refused as by `keywords`."""
    setattr(cls, "__init__", keywords()(cls.__init__))  # noqa: B010  # the method of a class is not assigned to
    return cls


def _wrong_call(name: str, function: Callable[..., object], given: Iterable[str], error: TypeError) -> str:
    """Return what to say of a call that does not fit the function's signature."""
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name in {"self", "cls"}:
        del parameters[0]
    for each in given:
        if each not in (names := [parameter.name for parameter in parameters]):
            from difflib import get_close_matches  # a call that is right does without it

            near = get_close_matches(each, names, 1)
            instead = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(names)}"
            return f"{name}() has no argument {each!r}; {instead}"
    shown = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])
    said = str(error).removeprefix(f"{function.__qualname__}() ")
    return f"{name}() {said}; expected {name}{shown}"


def instead_of(kind: str, name: str) -> str | None:
    """Return what to write for a name that a class or module lacks, None where the table does not have it."""
    spelled = _spelled(kind, name)
    return None if spelled is None else NAMES[kind][spelled]


def _spelled(kind: str, name: str) -> str | None:
    return next((each for each in (name, f"{name}()") if each in NAMES[kind]), None)


class _NoStatement(InvalidType, AttributeError):
    """What a `with` of an object that is no context manager raises: a TypeError, and to `hasattr` an AttributeError."""


# By the class: a statement that does not take it, and what has its place.
STATEMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Driver": {"with": "`async with driver:`, or contextlib.closing(driver)"},
    "Device": {"async with": "`with device:`"},
    "Event": dict.fromkeys(("with", "async with"), "`await event`, or event.sync()"),
    "Completion": dict.fromkeys(("with", "async with"), "`await completion`, or completion.wait_sync()"),
}

OPERANDS: Final = frozenset(("Buffer",))  # and what derives from it; == compares identity, as for other objects
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
OPERATORS: Final = tuple(
    f"__{each}__" for each in (*_BINARY, *(f"r{each}" for each in _BINARY), "neg", "pos", "invert", "abs",
                               "lt", "le", "gt", "ge")
)  # fmt: skip


def _refuse_operator(thing: object, *_: object) -> NoReturn:
    """Refuse arithmetic of device memory: what an operator of its class does. Raises InvalidType."""
    raise InvalidType(
        f"{thing!r} is device memory, and the host computes nothing with it; stream.launch(kernel, config, ...) "
        "computes on the device, and stream.fetch(array) gives a numpy array"
    )


class _Absent:
    """A name that a class lacks: to look at it, in an instance or the class, is an AttributeError with `text`."""

    __slots__ = ("kind", "name", "text")

    def __init__(self, name: str, text: str, kind: type[AttributeError] = AttributeError) -> None:
        self.name = name
        self.text = text
        self.kind = kind

    def __get__(self, thing: object, owner: type) -> NoReturn:
        error = self.kind(self.text)
        error.name, error.obj = self.name, owner if thing is None else thing
        raise error

    def __repr__(self) -> str:
        return f"<absent: {self.text}>"


_ABSENT: Final = frozenset(
    ("__enter__", "__aenter__", *(name.removesuffix("()") for names in NAMES.values() for name in names))
)


def _present(thing: object) -> list[str]:
    """Return what an object has, without the names that its classes only answer: its `__dir__`."""
    return [name for name in object.__dir__(thing) if name not in _ABSENT or hasattr(thing, name)]


def answers(kind: str) -> Callable[[type[T]], type[T]]:
    """Return what decorates the class of this name: each name of the table that it lacks is answered with the cure."""

    def decorate(cls: type[T]) -> type[T]:
        names = {each.removesuffix("()"): f"{kind} has no {each}; use {NAMES[kind][each]}" for each in NAMES[kind]}
        parts: dict[str, object] = {name: _Absent(name, text) for name, text in names.items() if not hasattr(cls, name)}
        for statement, instead in STATEMENTS.get(kind, {}).items():
            name = "__aenter__" if statement == "async with" else "__enter__"
            parts[name] = _Absent(name, f"`{statement}` takes no {kind}; use {instead}", _NoStatement)
        if kind in OPERANDS:
            parts |= dict.fromkeys(OPERATORS, _refuse_operator)
        for name, part in {**parts, "__dir__": _present}.items():
            setattr(cls, name, part)
        return cls

    return decorate


HEAD: Final = """# Names of other libraries

Where a class or a module lacks a name that CUDA, cuda.core, CuPy, PyTorch, numba, HIP, asyncio, JAX or Triton has, the
AttributeError says what to write: "Stream has no synchronize(); use sync()". These are the names. What names
no object in the right column is a method or a property of the same class.
"""


def page() -> str:
    """Return the table as the page docs/coming_from/names.md."""
    parts = [HEAD]
    for kind, names in NAMES.items():
        parts.append(f"\n| {kind} has no | use |\n|---|---|\n")
        cures: dict[str, list[str]] = {}
        for name, instead in names.items():
            cures.setdefault(instead, []).append(f"`{name}`")
        for instead, found in cures.items():
            call = instead.removesuffix(EACH_TIME)
            parts.append(f"| {', '.join(found)} | `{call}`{instead.removeprefix(call)} |\n")
    return "".join(parts)
