"""Programs, modules and images in C++, and what is kept of them; the same calls as for programs in Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atops.tops as tops
from atops import kernels as k
from atops.device.native import toolchain
from atops.errors import IllegalState, InvalidValue, NotSupported
from atops.kernels.cxx.reading import Texts
from atops.kernels.source.diagnostics import SourceText

SCALE = """#include <tops.h>
__global__ void scale(float *x, int n, float a) { if (threadIdx.x < n) x[threadIdx.x] *= a; }"""


@pytest.mark.slow
def test_an_image_carries_the_source(run: Any) -> None:
    """And no machine code: it is compiled, or found, when a function is asked for."""
    image = k.compile_source(SCALE, "scale.tops").image()
    data = image.to_bytes()
    assert image.language == "TOPS C++" and SCALE.encode() in data and b"ELF" not in data
    module = k.load_module(data)
    got = run("", "scale", (1, 4), np.ones(4, np.float32), 3, 5.0, module=module)
    assert got.tolist() == [5, 5, 5, 1]


@pytest.mark.slow
def test_the_c_functions_take_it() -> None:
    """`topsrtc` compiles it, modules load its code, kernels are launched with a list of arguments."""

    def value(answer: tuple[Any, ...]) -> Any:
        assert int(answer[0]) == 0, answer
        return answer[1] if len(answer) == 2 else answer[1:]

    program = value(tops.topsrtcCreateProgram(SCALE, "scale.cpp", 0, None, None))
    value(tops.topsrtcCompileProgram(program, 1, ["--gpu-architecture=gcu300"]))
    module = value(tops.topsModuleLoadData(value(tops.topsrtcGetCode(program))))
    function = value(tops.topsModuleGetFunction(module, "scale"))
    memory, numbers = value(tops.topsMalloc(16)), np.ones(4, np.float32)
    value(tops.topsMemcpy(memory, numbers, 16, tops.topsMemcpyKind.topsMemcpyHostToDevice))
    arguments = [memory, np.int32(2), np.float32(3)]
    value(tops.topsModuleLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, None, arguments, None))
    value(tops.topsDeviceSynchronize())
    value(tops.topsMemcpy(numbers, memory, 16, tops.topsMemcpyKind.topsMemcpyDeviceToHost))
    assert numbers.tolist() == [3, 3, 1, 1]
    value(tops.topsFree(memory))
    bad = value(tops.topsrtcCreateProgram("__global__ void f( { }", "bad.cpp", 0, None, None))
    assert tops.topsrtcCompileProgram(bad, 0, None)[0].name == "TOPSRTC_ERROR_COMPILATION"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "answer", "said"),
    [
        ("scale.cpp", "int x;", "TOPSRTC_SUCCESS", ""),
        ("scale.py", SCALE, "TOPSRTC_SUCCESS", ""),
        ("saxpy.cu", "__global__ void f() {}", "TOPSRTC_SUCCESS", ""),
        ("saxpy.cu", "x = 1\n", "TOPSRTC_ERROR_COMPILATION", "saxpy.cu:1:1: error: "),
    ],
)
def test_the_name_or_the_text_tells_the_language(name: str, source: str, answer: str, said: str) -> None:
    """Text under a C++ name is C++, whatever it is; C++ text is C++, whatever its name."""
    handle = tops.check(tops.topsrtcCreateProgram(source, name, 0, None, None))
    assert tops.topsrtcCompileProgram(handle, 0, None)[0].name == answer
    assert said in tops.check(tops.topsrtcGetProgramLog(handle))
    tops.check(tops.topsrtcDestroyProgram(handle))


@pytest.mark.slow
def test_headers_of_the_program(run: Any) -> None:
    """Are included by their names; what they say wrong is told in their lines."""
    text = '#include "parts/twice.h"\n__global__ void f(float *x) { x[0] = twice(x[0]); }'
    good = "#pragma once\n__device__ inline float twice(float v) { return 2 * v; }"
    module = k.compile_source(text, "test.tops", headers={"parts/twice.h": good}).module()
    assert run("", "f", (1, 1), np.array([4.0], np.float32), module=module).tolist() == [8.0]
    with pytest.raises(Exception, match=r"parts/twice\.h:2:\d+: error"):
        bad = "#pragma once\nfloat twice(float v) { return w; }"
        k.compile_source(text, "test.tops", headers={"parts/twice.h": bad})


def test_names_of_headers(tmp_path: Path) -> None:
    """Two names may be of one file, and a folder above may be called as one of ours; a text is no folder."""
    source = SourceText("test.tops", "")
    names = {"a.h": "1", "./a.h": "1", "b.h": "1", "c/../b.h": "2", "../below/a.h": "3", "../../below_/a.h": "4"}
    texts = Texts(source, names, tmp_path)
    found = {name: (texts.folder / name).read_text() for name in names if "c/" not in name}
    assert found == {**{name: names[name] for name in found}, "b.h": "2"}
    assert getattr(texts.of(str(texts.folder / "b.h")), "name", None) == "c/../b.h"
    for nth, wrong in enumerate(({"a": "1", "a/b.h": "2"}, {"a/b.h": "1", "a": "2"}, {"a/b.h": "1", "a": "1"})):
        with pytest.raises(InvalidValue, match="headers: 'a"):
            Texts(source, wrong, tmp_path / str(nth))
    for wrong in ("a\0b", "a" * 5000):
        with pytest.raises(InvalidValue, match=r"headers: 'a.* can be the name of no file"):
            Texts(source, {wrong: ""}, tmp_path / "wrong")


@pytest.mark.slow
def test_what_is_kept_is_compared_before_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that changed are compiled anew; a folder that others can write to is refused."""
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path))
    k.compile_source(SCALE, "scale.tops").kernels  # noqa: B018  # loads it, and the runtime perhaps
    [kept] = [path for path in tmp_path.glob("native/*.so") if b"scale" in path.read_bytes()]
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    known = toolchain.kept(kept.stem)
    assert known is not None and known.path == kept
    with kept.open("ab") as file:
        file.write(b"more")
    assert toolchain.kept(kept.stem) is None
    os.chmod(tmp_path / "native", 0o777)
    with pytest.raises(IllegalState, match="only you write"):
        k.compile_source(SCALE, "scale.tops")


def test_no_compiler_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do about it; kernels in Python need none."""
    monkeypatch.setenv("ATOPS_CXX", "no-such-compiler")
    with pytest.raises(NotSupported, match="no-such-compiler"):
        k.compile_source(SCALE, "scale.tops")
    assert k.compile_source("from atops import kernels as k\n\n@k.kernel\ndef f(): pass\n", "f.py").kernels
    monkeypatch.delenv("ATOPS_CXX")
    monkeypatch.setattr(toolchain, "_first", lambda: None)
    with pytest.raises(NotSupported, match=r"pip install 'atops\[cxx\]'"):
        toolchain.find_toolchain()


@pytest.mark.slow
def test_the_compiler_of_the_wheel_serves(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    """`pip install 'atops[cxx]'`: faults are told and accesses watched with it, as with others."""
    pytest.importorskip("ziglang")
    monkeypatch.setenv("ATOPS_CXX", "ziglang")
    module = k.compile(SCALE.replace("n)", "n + 100)"), "scale.tops")
    assert run("", "scale", (1, 4), np.ones(4, np.float32), 3, 5.0, module=module).tolist() == [5] * 4


@pytest.mark.slow
def test_the_program_of_the_page_runs() -> None:
    """That of docs/cxx.md, which needs a compiler."""
    page = (Path(__file__).parents[3] / "docs/cxx.md").read_text()
    text = page.split("```python fragment\n")[1].split("```")[0]
    exec(compile(text, "docs/cxx.md", "exec"), {"__name__": "page"})


@pytest.mark.slow
def test_what_is_kept_calls_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text, headers and options are found with their warnings; another of these is compiled."""
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path))
    called: list[Sequence[str]] = []
    run = toolchain.Toolchain.run

    def counted(self: toolchain.Toolchain, arguments: Sequence[str], *rest: Any) -> Any:
        called.append(arguments)
        return run(self, arguments, *rest)

    monkeypatch.setattr(toolchain.Toolchain, "run", counted)
    text = '#include "n.h"\n#warning so\n__global__ void f(int *x, short y) { *x = N; }'

    def compiled(options: Sequence[str] = (), header: str = "#define N 3") -> k.CompiledProgram:
        called.clear()
        return k.compile_source(text, "f.tops", options, {"n.h": header})

    first = compiled()
    assert len(called) == 2 and [each.severity for each in first.log] == ["warning"]
    again = compiled()
    assert not called and list(again.log) == list(first.log)
    assert list(again.kernels["f"].parameters) == ["x", "y"] and not called
    for other in (compiled(["-DM=1"]), compiled(header="#define N 4"), compiled(["-w"])):
        assert called and other.kernels


@pytest.mark.slow
@pytest.mark.parametrize("form", ['"{}"', "<{}>"])
def test_includes_reach_no_other_file(form: str, tmp_path: Path) -> None:
    """Not by its whole path, and not by a way up from the folder of the headers."""
    secret = tmp_path / "secret.h"
    secret.write_text("#define SECRET 7\n")
    for name in (str(secret), os.path.relpath(secret, Path(k.__file__).parent / "cxx/include")):
        text = f"#include {form.format(name)}\n__global__ void f(int *x) {{ *x = SECRET; }}"
        with pytest.raises(Exception, match="only headers of the language"):
            k.compile_source(text, "f.tops")


@pytest.mark.slow
def test_opening_an_image_calls_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept of it, and yet nothing is compiled or run before a function is asked for."""
    data = k.compile_source(SCALE, "scale.tops").image().to_bytes()
    called: list[object] = []
    monkeypatch.setenv("ATOPS_CACHE", str(tmp_path))
    monkeypatch.setattr("subprocess.run", lambda *words, **_: called.append(words))
    k.load_module(data)
    assert not called and not list(tmp_path.rglob("*.so"))
