"""The native runtime: its structures as ctypes has them, built from source at first use, loaded once.

The structures are those of `src/abi.h`; its VERSION is compared when the library is loaded.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_int8,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Final, TypeVar

from atops.base.errors import IllegalState
from atops.base.locks import fork_safe
from atops.device.native.toolchain import Toolchain, find_toolchain, keep, kept, key_of, processor

__all__ = (
    "CHOOSE", "FIND", "PRINT", "SOURCES", "VERSION", "BlockPlace", "Dim", "FaultText", "KernelRow", "ModuleRow",
    "NativeModule", "Operand", "Pad", "ParameterRow", "Range", "Run", "Transfer", "VariableRow", "how_loading_ends",
    "load_module", "private_ranges", "runtime_library",
)  # fmt: skip

T = TypeVar("T")

VERSION = 11
MOST_DIMENSIONS = 8
SOURCES = Path(__file__).parent / "src"
NOT_THE_PROGRAM = (str(Path(__file__).parents[2]) + os.sep, "/usr/")
OF_ZIG = "/ziglang/lib/"  # in the names of files of the wheel's C++ library
UNITS = ("dte.cpp", "fiber.cpp", "run.cpp", "fault.cpp", "shadow.cpp", "watch.cpp", "hooks.cpp", "library.cpp",
         "heap.cpp", "apart.cpp")

# Calls of these go to `library.cpp` and `heap.cpp`: a kernel cannot make them, or not as they are.
NOT_IN_KERNELS = (
    "exit", "_exit", "_Exit", "quick_exit", "raise", "kill", "sleep", "usleep", "nanosleep", "clock_nanosleep", "pause",
    "pthread_mutex_lock", "pthread_cond_wait", "pthread_join", "pthread_create", "fork", "_Fork", "vfork",
    "system", "popen", "daemon", "clone", "posix_spawn", "posix_spawnp",
    "execv", "execvp", "execve", "execvpe", "fexecve", "execveat", "execl", "execlp", "execle",
    "chdir", "chroot", "setuid", "seteuid", "setreuid", "setresuid", "setgid", "setegid", "setregid", "setresgid",
    "setsid", "setpgid",
    "select", "poll", "sem_wait", "alarm", "signal", "sigaction", "pthread_exit", "syscall",
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
    "close", "dup2", "fclose", "__assert_fail", "__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort",
    "malloc", "calloc", "realloc", "reallocarray", "free", "aligned_alloc", "posix_memalign", "malloc_usable_size",
    "getline", "getdelim", "strdup", "strndup",
    *(f"_Z{each}{how}" for each in ("nwm", "nam") for how in ("", "St11align_val_t", "RKSt9nothrow_t")),
    *(f"_Z{each}{how}" for each in ("dlPv", "daPv") for how in ("", "m", "St11align_val_t", "mSt11align_val_t")),
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
)  # fmt: skip

_loading = fork_safe(threading.RLock())
_loaded: list[ctypes.CDLL] = []


class Dim(Structure):
    """Three extents, or an index."""

    _fields_ = (("x", c_uint32), ("y", c_uint32), ("z", c_uint32))


class Range(Structure):
    """Live memory, from the first byte to the one behind the last."""

    _fields_ = (("low", c_uint64), ("high", c_uint64))


class Pad(Structure):
    """An L1 or L2."""

    _fields_ = (("bytes", c_void_p), ("capacity", c_uint64))


class BlockPlace(Structure):
    """Where a block runs."""

    _fields_ = (("index", Dim), ("l2", Pad), ("l1", POINTER(Pad)), ("l2_used", c_uint64), ("l1_used", c_uint64))


class ParameterRow(Structure):
    """A parameter of a kernel: kinds as numpy's, "P" for a pointer, "e" for a brain float."""

    _fields_ = (("kind", c_int8), ("element", c_int8), ("element_bytes", c_uint16), ("bytes", c_uint32))


class KernelRow(Structure):
    """A kernel of a module."""

    _fields_ = (
        ("name", c_char_p), ("enter", c_void_p), ("parameters", POINTER(ParameterRow)), ("count", c_int32),
        ("cooperative", c_int32), ("names", c_char_p), ("file", c_char_p), ("line", c_int32),
    )  # fmt: skip


class VariableRow(Structure):
    """A variable of the device, and what it begins with."""

    _fields_ = (
        ("name", c_char_p), ("initial", c_void_p), ("bytes", c_uint64), ("kind", c_int8), ("element_bytes", c_uint16),
        ("constant", c_int32), ("rank", c_int32), ("extents", c_int64 * MOST_DIMENSIONS), ("file", c_char_p),
        ("line", c_int32),
    )  # fmt: skip


class ModuleRow(Structure):
    """What a module has."""

    _fields_ = (
        ("version", c_uint32), ("attach", c_void_p), ("slots", c_void_p), ("kernels", POINTER(KernelRow)),
        ("kernel_count", c_int32), ("variables", POINTER(VariableRow)), ("variable_count", c_int32),
    )  # fmt: skip


FIND = CFUNCTYPE(c_int32, c_uint64, POINTER(Range))
CHOOSE = CFUNCTYPE(c_int32, POINTER(c_uint32), c_int32)
PRINT = CFUNCTYPE(None, POINTER(c_char), c_uint64)


class FaultText(Structure):
    """What is said of a fault, and the file of its line."""

    _fields_ = (("file", c_char * 512), ("text", c_char * 4096))


class Run(Structure):
    """A run, and what came of it."""

    _fields_ = (
        ("version", c_uint32), ("gcu_arch", c_uint32), ("module", c_void_p), ("enter", c_void_p),
        ("arguments", c_void_p), ("grid", Dim), ("block", Dim), ("blocks", c_int32), ("cooperative", c_int32),
        ("places", POINTER(BlockPlace)), ("dynamic_shared", c_uint64), ("seeded", c_int32), ("seed", c_uint64),
        ("eager", c_int32), ("strict", c_int32), ("library_heap", c_int32), ("stop", c_int32),
        ("ranges", POINTER(Range)), ("range_count", c_int32), ("find", FIND), ("print", PRINT), ("text_low", c_uint64),
        ("text_high", c_uint64), ("fault", c_int32), ("fault_block", Dim), ("fault_thread", Dim),
        ("fault_address", c_uint64), ("fault_bytes", c_uint64), ("fault_write", c_int32), ("fault_pc", c_uint64),
        ("fault_callers", c_uint64 * 4), ("fault_line", c_int32), ("told", POINTER(FaultText)), ("moved", c_uint64),
        ("switches", c_uint64), ("scheduler", c_void_p), ("shadow", c_void_p), ("fault_where", c_uint32),
        ("apart", c_int32), ("waits", c_int32), ("thread", c_uint64), ("choose", CHOOSE),
    )  # fmt: skip


_EXTENTS = c_int64 * MOST_DIMENSIONS


class Operand(Structure):
    """What a transfer moves from or to."""

    _fields_ = (("address", c_void_p), ("rank", c_int32), ("item", c_uint32), ("space", c_int32), ("extents", _EXTENTS))


class Transfer(Structure):
    """A transfer of the DTE."""

    _fields_ = (
        ("name", c_char_p), ("take", c_uint8), ("turn", c_uint8), ("land", c_uint8), ("has_shape", c_bool),
        ("phase", c_int32), ("ratio", c_int32), ("gcu_arch", c_int32), ("numbers_given", c_int32 * 7),
        ("value", c_uint64), ("dst", Operand), ("src", Operand), ("src_offsets", _EXTENTS),
        ("slice_shape", _EXTENTS), ("dst_offsets", _EXTENTS), ("layout", _EXTENTS), ("low", _EXTENTS),
        ("high", _EXTENTS), ("mid", _EXTENTS),
    )  # fmt: skip


def runtime_library() -> ctypes.CDLL:
    """Return the native runtime, built where it is not kept yet. Raises NotSupported without a compiler."""
    if _loaded:  # asked for each run of a block: the lock takes five times as long
        return _loaded[0]
    with _loading:
        if not _loaded:
            toolchain = find_toolchain()
            library = _use(
                _built(toolchain), lambda: _built(toolchain),
                lambda path: ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL),  # modules call atops_place
            )  # fmt: skip
            if library.atops_version() != VERSION:
                raise IllegalState(f"the native runtime is of version {library.atops_version()}; expected {VERSION}")
            library.atops_run.argtypes = (c_void_p,)  # of a Run: to make that takes half as long as an empty one
            library.atops_interrupt.argtypes = (POINTER(Run),)
            library.atops_transfer.argtypes = (POINTER(Transfer), c_char_p, c_uint64)
            library.atops_attach.argtypes = (c_void_p,)
            library.atops_attach.restype = None
            library.atops_prepare.argtypes = (c_void_p,)
            library.atops_prepare.restype = None
            library.atops_interrupt.restype = None
            library.atops_shadow.restype = c_void_p
            library.atops_shadow_free.argtypes = (c_void_p,)
            library.atops_shadow_free.restype = None
            library.atops_shadow_constant.argtypes = (c_void_p, c_uint64, c_uint64, c_char_p)
            library.atops_shadow_constant.restype = None
            library.atops_shadow_hold.argtypes = (c_void_p,)
            library.atops_shadow_release.argtypes = (c_void_p,)
            library.atops_shadow_release.restype = None
            library.atops_shadow_where.argtypes = (c_void_p, c_uint32, c_void_p)
            library.atops_shadow_where.restype = None
            library.atops_shadow_counts.argtypes = (c_void_p, c_void_p, c_void_p)
            library.atops_shadow_counts.restype = None
            library.atops_shadow_found.argtypes = (c_void_p, c_void_p)
            library.atops_shadow_found.restype = c_int64
            library.atops_shadow_touched.argtypes = (c_void_p, c_int32, c_void_p)
            library.atops_shadow_touched.restype = c_int64
            _loaded.append(library)
        return _loaded[0]


def _built(toolchain: Toolchain) -> Path:
    """Return the file of the runtime."""
    contents = [path.read_bytes() for path in sorted(SOURCES.iterdir()) if path.is_file()]
    key = key_of(["runtime", toolchain.version, processor(), *contents])
    if (found := kept(key)) is not None:
        return found.path
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "runtime.so"
        toolchain.library([SOURCES / unit for unit in UNITS], made, ["-march=native", "-ldl", "-pthread"])
        return keep(key, made)


def _use(path: Path, again: Callable[[], Path] | None, use: Callable[[Path], T]) -> T:
    """Use a kept file; it is made again, once, where it was removed meanwhile: what is kept has a size."""
    try:
        return use(path)
    except OSError:
        if again is None or path.exists():
            raise
    return use(again())


class NativeModule:
    """A loaded module: its kernels and variables. It stays loaded as long as this object is there.

    The variables lie where `places` says, which needs a copy of the module for each set of places; without, they are
    what they begin with, and no kernel is run.
    """

    def __init__(
        self, path: Path, places: Sequence[int] | None = None, again: Callable[[], Path] | None = None
    ) -> None:  # fmt: skip
        """Load it, and let it know the runtime. `again` makes its file anew, where that was removed meanwhile."""
        runtime = runtime_library()
        self.path = path
        self._again = again
        self._lines: dict[int, list[tuple[str, str, int]]] = {}
        if places is None:
            self.path = _use(path, again, lambda path: self._load(runtime, path))
            return
        table = (c_void_p * len(places))(*places)
        runtime.atops_prepare(table)
        try:
            with tempfile.TemporaryDirectory() as folder:  # one file is loaded once only
                self._load(runtime, Path(_use(path, again, lambda path: shutil.copy(path, folder))))
        finally:
            runtime.atops_prepare(None)
        weakref.finalize(self, _unload, self.library._handle).atexit = False

    def on(self, places: Sequence[int]) -> NativeModule:
        """Return a copy of it whose variables lie at `places`."""
        return load_module(self.path, places, self._again)

    def _load(self, runtime: ctypes.CDLL, path: Path) -> Path:
        self.library = ctypes.CDLL(str(path))
        entry = self.library.atops_module
        entry.restype = POINTER(ModuleRow)
        self.row = entry()
        if self.row.contents.version != VERSION:
            raise IllegalState(f"{path.name} is of version {self.row.contents.version}; expected {VERSION}")
        self.address = ctypes.cast(self.row, c_void_p).value or 0
        runtime.atops_attach(self.address)
        self.text_low, self.text_high, self.text_offset = _text_of(path)
        code = path.read_bytes()
        self.library_heap = 2 * any(name in code for name in FREES_ITSELF) or int(NEW in code)
        return path

    def line_of(self, counters: Sequence[int]) -> str:
        """Return "file:line" of the first instruction that is of the program's own lines; empty where none is."""
        found = self.place_of([each for each in counters if each])
        return "" if found is None or not _of_the_program(found[1]) else f"{os.path.basename(found[1])}:{found[2]}"

    def place_of(self, counters: Sequence[int]) -> tuple[str, str, int] | None:
        """Return (function, file, line) of an instruction, or of the first of what has called it that is the program's.

        `counters` are the instruction and its callers. What headers of this package do is where they are used.
        """
        self.read_lines(counters)
        found = [each for counter in counters for each in self._lines[counter]]
        own = [each for each in found if _of_the_program(each[1])]
        return next(iter(own or found), None)

    def read_lines(self, counters: Sequence[int]) -> None:
        """Read debug lines of instructions: what was expanded where, the innermost function first.

        The program that reads them comes with the compilers; it is asked once for each place.
        """
        new = [each for each in dict.fromkeys(counters) if each not in self._lines]
        self._lines.update((each, []) for each in new)
        inside = [each for each in new if self.text_low <= each < self.text_high]
        distance = self.text_low - self.text_offset
        if inside and self._again is not None and not self.path.exists():
            self.path = self._again()
        found = _lines_at(self.path, [each - distance for each in inside])
        self._lines.update((offset + distance, lines) for offset, lines in found.items())

    @property
    def kernels(self) -> list[KernelRow]:
        """Return the rows of its kernels."""
        rows = self.row.contents
        return [rows.kernels[each] for each in range(rows.kernel_count)]

    @property
    def variables(self) -> list[VariableRow]:
        """Return the rows of its variables."""
        rows = self.row.contents
        return [rows.variables[each] for each in range(rows.variable_count)]


def _lines_at(path: Path, offsets: Sequence[int]) -> dict[int, list[tuple[str, str, int]]]:
    """Return (function, file, line) of instructions of a library, of each what was expanded there."""
    reader, found = shutil.which("addr2line"), dict[int, list[tuple[str, str, int]]]()
    if not offsets or reader is None:
        return found
    try:
        said = subprocess.run(
            [reader, "-a", "-i", "-f", "-C", "-e", str(path)], input="\n".join(map(hex, offsets)), capture_output=True,
            text=True, timeout=60, check=False,
        ).stdout.splitlines()  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return found
    offset, function = -1, ""
    for line in said:
        if line.startswith("0x"):
            offset, function = int(line, 16), ""
        elif not function:
            function = _in_words_of_the_text(line)
        else:
            file, _, number = line.partition(" ")[0].rpartition(":")
            if number.isdigit() and number != "0":
                found.setdefault(offset, []).append((function, file, int(number)))
            function = ""
    return found


def _of_the_program(file: str) -> bool:
    """Whether a file of debug lines is a text of the program: no header, and not what ends the module.

    The compiler calls the first header of all "<stdin>": it reads the whole of it there.
    """
    if file.startswith(NOT_THE_PROGRAM) or OF_ZIG in file:
        return False
    return os.path.basename(file) not in ("registration", "<stdin>")


def private_ranges(writable: bool = False) -> list[tuple[int, int]]:
    """Return where memory of this process lies that no other one has, each from its first address to behind its last.

    Neither device memory nor pinned memory does. `writable`: only what can be stored to.
    """
    with open("/proc/self/maps") as file:
        rows = [line.split(maxsplit=2) for line in file]
    places = [place.split("-") for place, access, _ in rows if access.endswith("p") and (not writable or "w" in access)]
    return [(int(low, 16), int(high, 16)) for low, high in places]


def _text_of(path: Path) -> tuple[int, int, int]:
    """Return where the code of a loaded library lies, and how far from the library's beginning it begins."""
    names, base = (str(path), f"{path} (deleted)"), 0  # it was loaded before, and is another file now
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].strip() in names:
                start, _, end = fields[0].partition("-")
                base = base or int(start, 16)
                if "x" in fields[1]:
                    return int(start, 16), int(end, 16), int(start, 16) - base
    return 0, 0, 0


def _unload(handle: int) -> None:
    _ctypes.dlclose(handle)


# What the headers make of the text's types, as functions are called after them.
_NARROW: Final = re.compile(r"(tops::Rounded<)?atops::Narrow<[^<>]*widened_(half|brain)[^<>]*>(?(1) ?>)")
_NARROW_NAMES: Final = {"half": ("__fp16", "tops::half"), "brain": ("__bf16", "tops::bfloat")}
_VECTOR: Final = re.compile(r"atops::Vector<([\w: ]+), (128|256|512)>")
_VECTOR_NAMES: Final = {"128": "__vector", "256": "__vector2", "512": "__vector4"}


def _in_words_of_the_text(function: str) -> str:
    """Return the name of a function as the program has it, without its parameters."""
    narrow = _NARROW.sub(lambda found: _NARROW_NAMES[found[2]][found[1] is not None], function)
    plain = _VECTOR.sub(lambda found: f"{_VECTOR_NAMES[found[2]]} {found[1]}", narrow)
    return plain.partition("(")[0].removeprefix("void ").replace(" >", ">")


# What a module calls for which the C++ library takes memory; parts of names in the library that free what it has taken.
NEW: Final = b"_Znwm"
FREES_ITSELF: Final = (b"basic_", b"St6locale", b"10filesystem")
INITIALISERS: Final = b"_GLOBAL__sub_I_"  # what compilers call the function that makes the objects at file scope
LOADED: Final = b"atops: the module is loaded"
LOADS: Final = f"""import ctypes, sys
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL).atops_tell(sys.argv[2].encode()); ctypes.CDLL(sys.argv[2])
sys.stdout.buffer.write({LOADED!r})"""
LOADED_S: Final = 10.0  # by then its objects are made


def how_loading_ends(path: Path) -> tuple[str, tuple[str, int] | None]:
    """Return what comes of a process that loads a module, such as "ended with SIGSEGV"; "" where it goes on.

    And the file and line of the program where that is; None where they are not known.

    Objects at file scope are made as a module is loaded, outside of every kernel, where a fault would end this process:
    one that has any is loaded by another process first.
    """
    if INITIALISERS not in path.read_bytes():
        return "", None
    command = [sys.executable, "-I", "-S", "-c", LOADS, str(_built(find_toolchain())), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LOADED_S, check=False)
    except subprocess.TimeoutExpired:
        return f"took more than {LOADED_S:g} s", None
    if (code := done.returncode) >= 0:
        return "" if LOADED in done.stdout else f"ended the process, with code {code}", None
    counters = [int(each, 16) for each in re.findall(rb"^atops: fault at (0x[0-9a-f]+)$", done.stdout, re.MULTILINE)]
    found = _lines_at(path, counters)
    own = [each[1:] for counter in counters for each in found.get(counter, ()) if _of_the_program(each[1])]
    return f"ended with {signal.Signals(-code).name}", next(iter(own), None)


def load_module(
    path: Path, places: Sequence[int] | None = None, again: Callable[[], Path] | None = None
) -> NativeModule:  # fmt: skip
    """Return the module of a file that was built before, its variables at `places`; `again` builds it anew."""
    with _loading:
        return NativeModule(path, places, again)
