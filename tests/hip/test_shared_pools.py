"""Pools that processes share: the rows of their functions, and what another process sees, keeps and loses."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from atops.base.result_codes import Result
from atops.hip import hip
from atops.runtime.ipc.lending import EXPORTER
from tests.tops.conformance import Case, Conformance, World, new_world
from tests.tops.functions.test_ipc import until

E = hip.hipError_t
POSIX = hip.hipMemAllocationHandleType.hipMemHandleTypePosixFileDescriptor
H2D, D2H = hip.hipMemcpyKind.hipMemcpyHostToDevice, hip.hipMemcpyKind.hipMemcpyDeviceToHost
SIZE = 4096
OPEN: list[int] = []  # descriptors that rows have made
ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import resource
import sys
import numpy as np
from atops import kernels as k
from atops.hip import hip

@k.kernel
def store(x: k.Span[np.uint8], value: np.uint8) -> None:
    x[0] = value

POSIX = hip.hipMemAllocationHandleType.hipMemHandleTypePosixFileDescriptor
D2H, H2D = hip.hipMemcpyKind.hipMemcpyDeviceToHost, hip.hipMemcpyKind.hipMemcpyHostToDevice
pool = hip.check(hip.hipMemPoolImportFromShareableHandle(int(sys.argv[1]), POSIX, 0))
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "starved":
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        codes = [hip.hipMemPoolImportFromShareableHandle(int(sys.argv[1]), POSIX, 0)[0],
                 hip.hipMemPoolImportPointer(pool, hip.hipMemPoolPtrExportData(bytes.fromhex(rest[0])))[0]]
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        answer = codes[0], codes[1].name
    elif word == "open":
        answer = hip.hipMemPoolImportPointer(pool, hip.hipMemPoolPtrExportData(bytes.fromhex(rest[0])))
    elif word == "read":
        host = bytearray(4096)
        answer = hip.hipMemcpy(host, int(rest[0]), 4096, D2H)[0], sorted(set(host))
    elif word == "write":
        answer = hip.hipMemcpy(int(rest[0]), bytes([int(rest[1])]) * 4096, 4096, H2D)
    elif word == "free":
        answer = hip.hipFreeAsync(int(rest[0]), None)
        hip.check(hip.hipDeviceSynchronize())
    elif word == "access":
        answer = hip.hipMemPoolGetAccess(pool, hip.hipMemLocation(1, int(rest[0])))
    elif word == "store":
        hip.check(hip.hipSetDevice(int(rest[0])))
        answer = hip.hipLaunchKernel(store, 1, 1, [int(rest[1]), int(rest[2])], 0, None)
        hip.check(hip.hipDeviceSynchronize())
        hip.check(hip.hipSetDevice(0))
    print(answer[0].name, *answer[1:], flush=True)
"""


def shareable() -> int:
    """Return a pool that other processes can open."""
    return hip.check(hip.hipMemPoolCreate(hip.hipMemPoolProps(1, POSIX, hip.hipMemLocation(1, 0))))


def plain() -> int:
    """Return a pool that they cannot."""
    return hip.check(hip.hipMemPoolCreate(hip.hipMemPoolProps(1, 0, hip.hipMemLocation(1, 0))))


def descriptor(pool: int) -> int:
    """Return a descriptor of a pool."""
    found = ctypes.c_int(-1)
    hip.check(hip.hipMemPoolExportToShareableHandle(ctypes.byref(found), pool, POSIX, 0))
    OPEN.append(found.value)
    return found.value


def memory(pool: int) -> int:
    """Return memory of a pool, zeros."""
    made = hip.check(hip.hipMallocFromPoolAsync(SIZE, pool, None))
    hip.check(hip.hipMemset(made, 0, SIZE))
    hip.check(hip.hipDeviceSynchronize())
    return made


def exported(pointer: int) -> bytes:
    """Return what names memory in other processes."""
    data = hip.hipMemPoolPtrExportData()
    hip.check(hip.hipMemPoolExportPointer(data, pointer))
    return data.reserved


def imported(world: World, changed: int | None = None, other: bool = False) -> tuple[Any, ...]:
    """Return an imported pool, and data of it, of another one, or with one byte changed."""
    pool = shareable()
    mine = hip.check(hip.hipMemPoolImportFromShareableHandle(descriptor(pool), POSIX, 0))
    data = bytearray(exported(memory(shareable() if other else pool)))
    if changed is not None:
        data[changed] ^= 1
    return mine, hip.hipMemPoolPtrExportData(bytes(data))


def no_pool(world: World) -> int:
    """Return a descriptor of a file of 64 bytes that no pool has made."""
    made = os.memfd_create("forged")
    os.write(made, bytes(range(64)))
    OPEN.append(made)
    return made


def into() -> np.ndarray:
    """Return where an int can be stored."""
    return np.zeros(1, np.int32)


LIMITS = resource.getrlimit(resource.RLIMIT_NOFILE)


def starved(*arguments: Any) -> tuple[Any, ...]:
    """Return the arguments when no descriptor is left."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, LIMITS[1]))
    return arguments


class TestSharedPools(Conformance):
    """Every function of shared pools by its rows."""

    def after_row(self) -> None:
        """Close the descriptors, and allow new ones."""
        resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS)
        while OPEN:
            os.close(OPEN.pop())

    good: ClassVar = {
        "hipMemPoolExportToShareableHandle": lambda w: (into(), shareable(), POSIX, 0),
        "hipMemPoolImportFromShareableHandle": lambda w: (descriptor(shareable()), POSIX, 0),
        "hipMemPoolExportPointer": lambda w: (hip.hipMemPoolPtrExportData(), memory(shareable())),
        "hipMemPoolImportPointer": imported,
    }
    bad: ClassVar = (
        Case("hipMemPoolExportToShareableHandle", "not for others", lambda w: (into(), plain(), POSIX, 0),
             E.hipErrorInvalidValue),
        Case("hipMemPoolExportToShareableHandle", "type", lambda w: (into(), shareable(), 2, 0),
             E.hipErrorInvalidValue),
        Case("hipMemPoolExportToShareableHandle", "flags", lambda w: (into(), shareable(), POSIX, 1),
             E.hipErrorInvalidValue),
        Case("hipMemPoolExportToShareableHandle", "no descriptor is left",
             lambda w: starved(into(), shareable(), POSIX, 0), E.hipErrorOutOfMemory),
        Case("hipMemPoolImportFromShareableHandle", "forged", lambda w: (no_pool(w), POSIX, 0),
             E.hipErrorInvalidValue),
        Case("hipMemPoolImportFromShareableHandle", "no descriptor", (-1, POSIX, 0), E.hipErrorInvalidValue),
        Case("hipMemPoolImportFromShareableHandle", "type", lambda w: (descriptor(shareable()), 0, 0),
             E.hipErrorInvalidValue),
        Case("hipMemPoolExportPointer", "of another pool", lambda w: (hip.hipMemPoolPtrExportData(), memory(plain())),
             E.hipErrorInvalidValue),
        Case("hipMemPoolExportPointer", "interior",
             lambda w: (hip.hipMemPoolPtrExportData(), memory(shareable()) + 1), E.hipErrorInvalidValue),
        *(Case("hipMemPoolImportPointer", f"forged at {at}", lambda w, at=at: imported(w, at), E.hipErrorInvalidValue)
          for at in (0, 6, 16, 32, 48)),
        Case("hipMemPoolImportPointer", "of another pool", lambda w: imported(w, other=True), E.hipErrorInvalidValue),
        Case("hipMemPoolImportPointer", "of its owner", lambda w: (shareable(), hip.hipMemPoolPtrExportData()),
             E.hipErrorInvalidValue),
    )  # fmt: skip
    unreachable: ClassVar = {
        ("hipMemPoolExportPointer", Result.OutOfMemory): "only the first export of a process takes a descriptor",
        **{
            (name, Result.OutOfMemory): "another process's takes a descriptor: test_two_processes_share_memory"
            for name in ("hipMemPoolImportFromShareableHandle", "hipMemPoolImportPointer")
        },
        ("hipMemPoolImportPointer", Result.NotInitialized): "every call starts the runtime",
    }


class Other:
    """Another process that has opened a pool and obeys one line at a time."""

    def __init__(self, found: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "ATOPS_DEVICES": "2"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(found)], pass_fds=[found], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment,
        )  # fmt: skip

    def do(self, *words: object) -> list[str]:
        """Say a line, and return the words of the answer: first the code."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split(maxsplit=1)

    def open(self, data: bytes) -> int:
        """Import memory; return its pointer there."""
        code, pointer = self.do("open", data.hex())
        assert code == "hipSuccess"
        return int(pointer.strip().removeprefix("DeviceArray(").removesuffix(")"), 16)


@contextmanager
def another(pool: int) -> Iterator[Other]:
    """Run another process that opens the pool."""
    found = ctypes.c_int(-1)
    hip.check(hip.hipMemPoolExportToShareableHandle(ctypes.byref(found), pool, POSIX, 0))
    made = Other(found.value)
    os.close(found.value)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


def figure(pool: int, which: Any) -> int:
    """Return a figure of a pool."""
    found = ctypes.c_uint64()
    hip.check(hip.hipMemPoolGetAttribute(pool, which, found))
    return found.value


@pytest.fixture
def world() -> Any:
    """A board of two devices."""
    with new_world() as made:
        yield made


@pytest.mark.slow
def test_two_processes_share_memory(world: World) -> None:
    """Each sees what the other stores; a free there lets go; changed data, and imports without descriptors, fail."""
    pool = shareable()
    with another(pool) as other:
        pointer = memory(pool)
        data = exported(pointer)
        assert other.do("starved", data.hex()) == ["hipErrorOutOfMemory", "hipErrorOutOfMemory\n"]
        there = other.open(data)
        hip.check(hip.hipMemset(pointer, 5, SIZE))
        hip.check(hip.hipDeviceSynchronize())
        assert other.do("read", there) == ["hipSuccess", "[5]\n"]
        assert other.do("write", there, 9)[0].strip() == "hipSuccess"
        host = bytearray(SIZE)
        hip.check(hip.hipMemcpy(host, pointer, SIZE, D2H))
        assert set(host) == {9}
        assert other.do("free", there)[0].strip() == "hipSuccess"
        assert other.do("read", there)[0] == "hipErrorInvalidValue"
        assert other.do("open", (data[:40] + bytes([data[40] ^ 1]) + data[41:]).hex())[0] == "hipErrorInvalidValue"


@pytest.mark.slow
@pytest.mark.parametrize("access", [0, 3])
def test_which_devices_may_use_imported_memory(world: World, access: int) -> None:
    """Those to which the pool's process had given it when the pool was imported; there, those that have it."""
    pool = shareable()
    hip.check(hip.hipMemPoolSetAccess(pool, hip.hipMemAccessDesc(hip.hipMemLocation(1, 1), access), 1))
    named = ctypes.c_int(descriptor(pool))
    for handle in (named.value, named, ctypes.c_void_p(named.value), ctypes.byref(named), np.array([named.value])):
        mine = hip.check(hip.hipMemPoolImportFromShareableHandle(handle, POSIX, 0))
    assert [hip.hipMemPoolGetAccess(mine, hip.hipMemLocation(1, each)) for each in (0, 1)] == [(0, 3), (0, access)]
    assert hip.hipMemPoolGetAccess(mine, hip.hipMemLocation(1, 2)) == (E.hipErrorInvalidValue, None)
    gone = shareable()
    its = hip.check(hip.hipMemPoolImportFromShareableHandle(descriptor(gone), POSIX, 0))
    hip.check(hip.hipMemPoolDestroy(gone))
    assert hip.hipMemPoolGetAccess(its, hip.hipMemLocation(1, 1)) == (E.hipErrorInvalidValue, None)
    with another(pool) as other:
        pointer = memory(pool)
        there = other.open(exported(pointer))
        assert other.do("access", 1) == ["hipSuccess", f"{access}\n"]
        code = "hipSuccess" if access else "hipErrorPeerAccessNotEnabled"
        assert other.do("store", 1, there, 7)[0].strip() == code
        host = bytearray(SIZE)
        hip.check(hip.hipMemcpy(host, pointer, SIZE, D2H))
        assert host[0] == (7 if access else 0)


@pytest.mark.slow
def test_a_free_while_another_process_has_it(world: World) -> None:
    """The bytes stay theirs: nothing else gets the range before they have let go, by their end, too."""
    pool = shareable()
    with another(pool) as other:
        pointer = memory(pool)
        data = exported(pointer)
        there = other.open(data)
        hip.check(hip.hipMemset(pointer, 5, SIZE))
        hip.check(hip.hipFreeAsync(pointer, None))
        hip.check(hip.hipDeviceSynchronize())
        assert figure(pool, hip.hipMemPoolAttr.hipMemPoolAttrUsedMemCurrent) == 0
        again = [memory(pool) for _ in range(4)]
        assert pointer not in again
        assert other.do("read", there) == ["hipSuccess", "[5]\n"]
        assert other.do("open", data.hex())[0] == "hipErrorInvalidValue"  # it is freed: none can open it any more
        other.process.kill()
        other.process.wait()
    until(lambda: EXPORTER[0].leases == 0)
    for each in again:
        hip.check(hip.hipFreeAsync(each, None))
    hip.check(hip.hipDeviceSynchronize())
    hip.check(hip.hipMemPoolDestroy(pool))
    assert world.device.memory_info()[0] == world.device.memory_info()[1]


@pytest.mark.slow
def test_the_end_of_the_exporter(world: World) -> None:
    """Takes nothing from a process that has imported: here the pool and the memory are given up."""
    pool = shareable()
    with another(pool) as other:
        pointer = memory(pool)
        there = other.open(exported(pointer))
        hip.check(hip.hipMemset(pointer, 3, SIZE))
        hip.check(hip.hipMemPoolDestroy(pool))
        hip.check(hip.hipFreeAsync(pointer, None))
        hip.check(hip.hipDeviceSynchronize())
        assert other.do("read", there) == ["hipSuccess", "[3]\n"]
