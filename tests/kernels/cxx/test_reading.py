"""A text can neither read nor find what is not its program's; what is kept is its user's alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.options import EmulatorOptions
from atops.device.native.library import _built
from atops.device.native.toolchain import cache_folder, find_toolchain, keep, kept
from atops.errors import CompilationError, IllegalState, LaunchFailure
from atops.kernels.cxx.reading import outside
from tests.every import every

KERNEL = "__global__ void f(float *x) { x[0] = 1; }\n"
ONLY = "only headers of the language"
LINES = "expected #line with a number"
SPELLED = "expected __has_include(<NAME>)"
# A text, the line that is told (FILE is a file outside), and why.
REFUSED = (
    ('#include "FILE"', 1, ONLY),
    ("#include <FILE>", 1, ONLY),
    ("int a;\n  # /* a\n */ include <FILE>", 3, ONLY),
    ('%:include "FILE"', 1, ONLY),
    ('#inc\\\nlude "FILE"', 2, ONLY),
    ('#import "FILE"', 1, ONLY),
    ('#include_next "FILE"', 1, ONLY),
    ('#include "../../../../../FILE"', 1, ONLY),
    ("#include <bits/../../../../../../..FILE>", 1, ONLY),
    ('#embed "FILE"', 1, "#embed is not there"),
    ('int a;\n#if __has_include("FILE")\n#endif', 2, ONLY),
    ('#if __has_include/**/("FILE")\n#endif', 1, ONLY),
    ('#if __has_embed("FILE")\n#endif', 1, ONLY),
    ("#if __has_include_next(<FILE>)\n#endif", 1, ONLY),
    ("#define H __has_include", 1, SPELLED),
    ("#if __has_include(NAME)\n#endif", 1, SPELLED),
    ("#define J(a, b) a##b\n#if J(__has_, include)(<FILE>)\n#endif", 2, "could become a part of __has_include"),
    ('# 1 "FILE" 1 3', 1, LINES),
    ('#line 5 "FILE"', 1, LINES),
    ("#line 5 NAME", 1, LINES),
    ('*/ #line 5 "FILE"', 1, LINES),
    ('#pragma GCC dependency "FILE"', 1, "pragma dependency"),
    ('#pragma GCC/**/dependency "FILE"', 1, "pragma dependency"),
    ('#pragma GCC/**/pch_preprocess "FILE"', 1, "pragma pch_preprocess"),
    ('\n_Pragma("\\x47CC dependency \\"FILE\\"")', 2, "expected _Pragma"),
    ('#define P(x) _Pragma(#x)\nP(GCC dependency "FILE")', 1, "expected _Pragma"),
    ("#define J(a, b) a##b\nJ(_, Pragma)(NAME)", 2, "could become a part of _Pragma"),
    ("#pragma GCC system_header", 1, "pragma system_header"),
    ('#pragma clang attribute push(__attribute__((section(".init_array"))), apply_to=any)', 1, "pragma attribute"),
    ("%: pragma/**/redefine_extname getpid system", 1, "pragma redefine_extname"),
    ("#pragma\0redefine_extname getpid system", 1, r"'\x00' stands in no program"),
    ('int a;\n#\0include "FILE"', 2, r"'\x00' stands in no program"),
    ('//\r#include "FILE"', 1, r"'\r' stands in no program"),
)
# What the compiler is given, and how it is refused; FILE holds the words "secret word".
COMPILED = (
    ('#define F "FILE"\n#include F', ONLY),
    ("#define F <bits/../../../../../../../../..FILE>\n#include F", ONLY),
    ('asm(".incbin \\"FILE\\"");', "inline assembly"),
    ('__asm(".incbin \\"FILE\\"");', "inline assembly"),
    ('__asm__(".incbin \\"FILE\\"");', "inline assembly"),
    ('__attribute__((section(".x,\\"a\\"\\n.incbin \\"FILE\\"\\n#"))) int q = 1;', "attribute section is not"),
    ('[[gnu::section(".x\\n.incbin \\"FILE\\"")]] int q = 1;', "attribute section is not"),
    ('int q __attribute__((used, __section__(R"(.x\n.incbin "FILE"))")));', "attribute __section__ is not"),
    ('int q() __attribute__((alias("x\\n.incbin \\"FILE\\"")));', "attribute alias is not"),
    ('__attribute__((section(".init_array"))) void (*z)() = nullptr;', "t.tops:1:1: error: the attribute sec"),
    ('\n[[using gnu: used, section(".init_array")]] void (*z)() = nullptr;', "t.tops:2:1: error: the attribute sec"),
    ('[[,gnu::section(".init_array")]] void (*z)() = nullptr;', "attribute section is not"),
    ('<:<:gnu::section(".init_array"):>:> void (*z)() = nullptr;', "written with"),
    ('[<:gnu::section(".init_array"):>] void (*z)() = nullptr;', "written with"),
    ('#define A(x) __attribute__((x))\nA(constructor) void g() { *(volatile int *)0 = 1; }', "attribute constructor"),
    ("[[gnu::destructor]] void g() { *(volatile int *)0 = 1; }", "attribute destructor"),
    ("__attribute__((constructor(101))) void g() {}", "attribute constructor"),
    ('extern "C" int g() __attribute__((ifunc("r")));', "t.tops:1:1: error: the attribute ifunc"),
    ('__attribute__((target_clones("default", "avx2"))) int g() { return 1; }', "attribute target_clones"),
)
OPTIONS = (["-o/tmp/x"], ["-include", "FILE"], ["-I/etc"], ["-fplugin=FILE"], ["@FILE"], ["-Wl,-x"], ["-B/tmp"],
           ["-march=native -oFILE"], ["-DA B=1"], ['-DA=1\n#include "FILE"'], ["-DA(x)=1"], ["-DA\0=1"],
           ["-DA=1 /*"], ["-DA=1\\"], ["-DA=__has_include"],
           ["-D_A=_Pragma(NAME)"])  # fmt: skip
RIGHT = (
    '#define U _Pragma("GCC unroll 4")\n#define L _Pragma("unroll")\n',
    "#include <cmath>\n#if __has_include(<cmath>) && defined(__has_include)\n#line 7\n#endif\n",
    '#ifdef __has_include\n#line 3 "t.tops"\n#endif\n',
    '#define J(a, b) a##b\nint next, include;\n__attribute__((aligned(16), used)) int J(has, _it) = 1;\n',
    '#define J(a, b) a##b\n#define U _Pragma("nounroll")\r\n',
    '__attribute__((optimize("O3"), tops_pipeline(4))) int slow(int x) { return x; }\n',  # one is of another compiler
)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """Return the path of a file that no text may read."""
    path = tmp_path / "secret.h"
    path.write_text("#secret word\n")
    return str(path)


@every("text, line, why", REFUSED)
def test_a_text_names_nothing_outside(text: str, line: int, why: str) -> None:
    """It is told before the compiler is called, whether there is such a file or not."""
    found = outside(text.replace("FILE", "/none/x.h"), ["t.tops"])
    assert len(found) >= 1 and found[0][0] == line and any(why in message for _, message in found), found


def test_what_stays_inside_is_taken() -> None:
    """A header of a folder may name one beside that folder, and none outside."""
    for text in RIGHT:
        assert outside(text, ["t.tops"]) == []
    assert outside('#include "../b.h"', [], "inner") == []
    assert outside('#include "../../b.h"', [], "inner") != []


@pytest.mark.slow
def test_nothing_outside_comes_into_a_kernel_or_its_log(secret: str, compiler: None) -> None:
    """Names that macros make, headers, the assembler, and options."""
    for text, why in COMPILED:
        with pytest.raises(CompilationError) as caught:
            k.compile_source(f"{text.replace('FILE', secret)}\n{KERNEL}", "t.tops")
        assert why in str(caught.value) and "secret word" not in str(caught.value), str(caught.value)
    with pytest.raises(CompilationError, match="pragma system_header"):
        headers = {"h.h": f'#pragma GCC system_header\n#include "{secret}"\n'}
        k.compile_source(f'#include "h.h"\n{KERNEL}', "t.tops", headers=headers)
    for options in OPTIONS:
        with pytest.raises(CompilationError, match=r"option|macro|architecture"):
            k.compile_source(KERNEL, "t.tops", [each.replace("FILE", secret) for each in options])
    for text in RIGHT:
        k.compile_source(text + KERNEL, "t.tops")


def test_what_is_kept_is_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that others write, links, and results that were changed are not used; nothing is left half written."""
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "made"
    made.write_bytes(b"code")
    path = keep("key", made, "notes")
    assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0
    assert kept("key") == (path, "notes") and sorted(os.listdir(path.parent)) == ["key.so", "key.sum"]
    for suffix in (".so", ".sum"):
        path.with_name("other").with_suffix(suffix).write_bytes(path.with_suffix(suffix).read_bytes())
    assert kept("other") is None  # of another key
    path.write_bytes(b"other")
    assert kept("key") is None
    path.unlink()
    path.symlink_to(made)
    assert kept("key") is None
    assert keep("key", made, "notes") == path and not path.is_symlink() and made.read_bytes() == b"code"
    for folder in (path.parent, tmp_path / "cache"):
        mode = folder.stat().st_mode
        folder.chmod(0o777)
        with pytest.raises(IllegalState, match="can be written by others"):
            cache_folder()
        folder.chmod(mode)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(IllegalState, match="can be written by others"):
        cache_folder()


def test_a_result_that_is_larger_than_all_may_be_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be compiled for ever; and in a folder that is for reading only what is kept is used as it is."""
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path))
    monkeypatch.setenv("ATOPS_CACHE_SIZE", "2")
    made = tmp_path / "made"
    made.write_bytes(b"code")
    found = keep("01", made), keep("02", made)
    assert kept("01") is None and kept("02") == (found[1], "")

    def fails(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", fails)
    assert kept("02") == (found[1], "")


def test_a_result_that_cannot_be_kept_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the disk is full."""
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path))
    made = tmp_path / "made"
    made.write_bytes(b"code")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="No space"):
        keep("key", made)
    assert os.listdir(tmp_path / "native") == []


def test_what_was_not_used_for_longest_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the folder has more bytes than it may; a result goes as a whole, and what others wrote aside with age."""
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path))
    monkeypatch.setenv("ATOPS_CACHE_SIZE", "10k")
    made = tmp_path / "made"
    made.write_bytes(bytes(1000))
    folder = cache_folder()
    (folder / "tmpleft").write_bytes(bytes(1000))
    os.utime(folder / "tmpleft", (0, 0))
    for nth in range(8):
        path = keep(f"1{nth}", made)  # the folder is not counted
        os.utime(path, (nth, nth))
        os.utime(path.with_suffix(".sum"), (nth, nth))
    assert len(os.listdir(folder)) == 17
    assert kept("11") is not None  # it is used now
    monkeypatch.setenv("ATOPS_CACHE_SIZE", "0")
    keep("0", made)
    assert len(os.listdir(folder)) == 19
    monkeypatch.setenv("ATOPS_CACHE_SIZE", "9000")
    keep("00", made)
    left = sorted({name.partition(".")[0] for name in os.listdir(folder)})
    assert left == ["0", "00", "11", "15", "16", "17"] and len(os.listdir(folder)) == 2 * len(left)
    assert all(kept(each) for each in left) and kept("10") is None
    for wrong in ("many", "-1", "1.5G", "1T"):
        monkeypatch.setenv("ATOPS_CACHE_SIZE", wrong)
        with pytest.raises(IllegalState, match=f"ATOPS_CACHE_SIZE is '{wrong}'; expected a number of bytes"):
            keep("2", made)


VANISHES = """
__device__ int calls = 0;
__global__ void f(int *x) {
    x[0] = ++calls;
    if (x[1]) *(volatile int *)8 = 1;
}
"""


@pytest.mark.slow
def test_a_file_that_was_removed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    """Before it is loaded, before it is copied for a device, and before its lines are read."""
    runtime = _built(find_toolchain())
    folder = tmp_path / "native"
    folder.mkdir(mode=0o700)
    for path in (runtime, runtime.with_suffix(".sum")):
        shutil.copy2(path, folder)
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path))

    def remove() -> None:
        for each in folder.iterdir():
            if each.stem != runtime.stem:
                each.unlink()

    for options in (EmulatorOptions(), EmulatorOptions(detect=True)):
        program = k.compile_source(VANISHES, "vanishes.tops")
        remove()
        module = program.module()
        remove()
        assert run("", "f", (1, 1), np.zeros(2, np.int32), module=module, options=options)[0] == 1
        remove()
        with pytest.raises(LaunchFailure, match=r"vanishes\.tops:5"):
            run("", "f", (1, 1), np.ones(2, np.int32), module=module, options=options)


TWO = """
import sys
from atops import kernels as k
made = k.compile_source("__global__ void f(float *x) { x[0] = 1; }", "two.tops").module()
print(made.function("f"))
"""


@pytest.mark.slow
def test_two_processes_make_the_same_at_once(tmp_path: Path, compiler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that compile one text at once load a whole module each, and the cache holds no half of one."""
    folder = tmp_path / "native"
    folder.mkdir(mode=0o700)
    runtime = _built(find_toolchain())
    for path in (runtime, runtime.with_suffix(".sum")):
        shutil.copy2(path, folder)
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path))
    command = [sys.executable, "-c", TWO]
    pair = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.communicate(timeout=120)[0] for each in pair] == ["<kernel f(x)>\n"] * 2
    assert len(os.listdir(folder)) > 2
    assert all(path.suffix in (".so", ".sum") and kept(path.stem) for path in map(folder.joinpath, os.listdir(folder)))
