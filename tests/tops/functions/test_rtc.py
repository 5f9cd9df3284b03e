"""Runtime compilation (TOPS Runtime API, 2.10)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import atops.tops as tops
from atops.base.errors import AtopsError
from atops.base.options import EmulatorOptions
from atops.kernels.programs.program import load_module
from atops.runtime.board.current_device import enter, leave
from atops.runtime.driver import Driver, board_of
from atops.tops.functions.api import last
from atops.tops.header.functions import FUNCTIONS
from tests.tops.conformance import Case, Conformance, World
from tests.tops.programs import SOURCE, contents, memory

INPUT, PROGRAM = tops.TOPSRTC_ERROR_INVALID_INPUT, tops.TOPSRTC_ERROR_INVALID_PROGRAM
COMPILATION = tops.TOPSRTC_ERROR_COMPILATION
TAKE_PROGRAM = {
    "topsrtcAddNameExpression": ("fill",),
    "topsrtcCompileProgram": (0, None),
    "topsrtcGetLoweredName": ("fill",),
    "topsrtcGetProgramLog": (),
    "topsrtcGetProgramLogSize": (),
    "topsrtcGetCode": (),
    "topsrtcGetCodeSize": (),
}
NEED_CODE = {"topsrtcGetLoweredName": ("fill",), "topsrtcGetCode": (), "topsrtcGetCodeSize": ()}


def program(_: World = None, source: str = SOURCE, name: str = "scale.py") -> int:
    """Return the handle of a program."""
    return tops.check(tops.topsrtcCreateProgram(source, name, 0, None, None))


def compiled(_: World = None) -> int:
    """Return the handle of a program that was compiled, with one name expression."""
    handle = program()
    tops.check(tops.topsrtcAddNameExpression(handle, "fill"))
    tops.check(tops.topsrtcCompileProgram(handle, 0, None))
    return handle


def failed(_: World = None) -> int:
    """Return the handle of a program with an error in it."""
    handle = program(source="@k.kernel\ndef f(x):\n    k.nothing(x)\n")
    assert tops.topsrtcCompileProgram(handle, None, None) == (COMPILATION,)
    return handle


def destroyed(_: World = None) -> int:
    """Return the handle of a program that is gone."""
    handle = program()
    tops.check(tops.topsrtcDestroyProgram(handle))
    return handle


class TestRtc(Conformance):
    """Every function of 2.10, by its rows."""

    functions = tuple(name for name, each in FUNCTIONS.items() if each.family == "Runtime")
    good: ClassVar = {
        "topsrtcGetErrorString": (tops.TOPSRTC_SUCCESS,),
        "topsrtcVersion": (),
        "topsrtcCreateProgram": (SOURCE, "scale.py", 1, ["TILE = 4\n"], ["tiles.py"]),
        "topsrtcDestroyProgram": lambda w: (program(),),
        "topsrtcAddNameExpression": lambda w: (program(), "&fill"),
        "topsrtcCompileProgram": lambda w: (program(), 1, ["-DTILE=4"]),
        "topsrtcGetLoweredName": lambda w: (compiled(), "fill"),
        **{
            name: lambda w: (compiled(),)
            for name in ("topsrtcGetProgramLog", "topsrtcGetProgramLogSize", "topsrtcGetCode", "topsrtcGetCodeSize")
        },
    }
    bad = (
        *(Case(name, "destroyed", lambda w, r=r: (destroyed(), *r), PROGRAM) for name, r in TAKE_PROGRAM.items()),
        *(Case(name, "null program", (None, *rest), PROGRAM) for name, rest in TAKE_PROGRAM.items()),
        *(Case(name, "not compiled", lambda w, r=r: (program(), *r), COMPILATION) for name, r in NEED_CODE.items()),
        *(Case(name, "with errors", lambda w, r=r: (failed(), *r), COMPILATION) for name, r in NEED_CODE.items()),
        Case("topsrtcDestroyProgram", "null", (None,), INPUT),
        Case("topsrtcDestroyProgram", "twice", lambda w: (destroyed(),), PROGRAM),
        Case("topsrtcCreateProgram", "no source", (None, "a.py", 0, None, None), INPUT),
        Case("topsrtcCreateProgram", "bytes that are no text", (b"\xff", "a.py", 0, None, None), INPUT),
        Case("topsrtcCreateProgram", "an empty name", ("", "", 0, None, None), INPUT),
        Case("topsrtcCreateProgram", "another count", ("", "a.py", 2, ["A = 1"], ["b.py"]), INPUT),
        Case("topsrtcCreateProgram", "a name too few", ("", "a.py", None, ["A = 1"], []), INPUT),
        Case("topsrtcCreateProgram", "one name twice", ("", "a.py", 2, ["A = 1", "A = 2"], ["b.py"] * 2), INPUT),
        Case("topsrtcCreateProgram", "a header that is no text", ("", "a.py", 1, [3], ["b.py"]), INPUT),
        Case("topsrtcAddNameExpression", "null", lambda w: (program(), None), INPUT),
        Case("topsrtcAddNameExpression", "no name", lambda w: (program(), " & "), INPUT),
        Case("topsrtcAddNameExpression", "after compiling", lambda w: (compiled(), "fill"), INPUT),
        Case("topsrtcAddNameExpression", "after failing", lambda w: (failed(), "fill"), INPUT),
        Case("topsrtcCompileProgram", "another count", lambda w: (program(), 2, ["-DA=1"]), INPUT),
        Case("topsrtcCompileProgram", "no options", lambda w: (program(), 1, [1]), INPUT),
        Case("topsrtcCompileProgram", "a text for options", lambda w: (program(), None, "-w"), INPUT),
        Case("topsrtcCompileProgram", "unknown", lambda w: (program(), 1, ["-O9"]), tops.TOPSRTC_ERROR_INVALID_OPTION),
        Case("topsrtcCompileProgram", "chip", lambda w: (program(), 1, ["-arch=x"]), tops.TOPSRTC_ERROR_INVALID_OPTION),
        Case("topsrtcGetLoweredName", "null", lambda w: (compiled(), None), INPUT),
        Case(
            "topsrtcGetLoweredName", "not added", lambda w: (compiled(), "empty"),
            tops.TOPSRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
        ),
    )  # fmt: skip
    anything: ClassVar = frozenset({("topsrtcGetErrorString", "result")})
    nullable: ClassVar = frozenset({("topsrtcCreateProgram", "name")})

    def check_null(self, world: World, name: str, parameter: str) -> None:
        """Check one row of `test_null`: null is a failure where there should be something."""
        super().check_null(world, name, parameter)
        assert last() is None  # these functions have no last error


def test_error_strings():
    """A defined code has its name for a text, whatever else the message for one that is none."""
    for code in tops.topsrtcResult:
        assert tops.topsrtcGetErrorString(code) == (tops.TOPSRTC_SUCCESS, code.name)
        assert tops.topsrtcGetErrorString(int(code)) == (tops.TOPSRTC_SUCCESS, code.name)
    for other in (8, 9, -1, 12, None, "x"):
        assert tops.topsrtcGetErrorString(other) == (tops.TOPSRTC_SUCCESS, "Invalid TOPSRTC error code")


def test_version():
    """The version is that of the release."""
    assert tops.topsrtcVersion() == (tops.TOPSRTC_SUCCESS, 2, 2)


def test_the_architecture_is_the_current_devices():
    """Without an option the code is for the board's chip; a named one counts."""
    for board in ("gcu210", "gcu300"):
        driver = Driver(EmulatorOptions(arch=board))
        enter(driver, board_of(driver))
        try:
            for options, meant in (([], board), (["--gpu-architecture=gcu300"], "gcu300")):
                handle = program()
                tops.check(tops.topsrtcCompileProgram(handle, len(options), options))
                assert load_module(tops.check(tops.topsrtcGetCode(handle))).target.name == meant
        finally:
            leave(driver)
            driver.close()


@pytest.mark.slow
def test_program_from_text_to_launch(world):
    """Headers, options and name expressions; the code is a module, the lowered name one of its functions."""
    source = SOURCE.replace("2 * value", "FACTOR * value + OFFSET").encode()
    source = b"from tiles import OFFSET\n" + source
    handle = tops.check(tops.topsrtcCreateProgram(source, b"scale.py", None, [b"OFFSET = 1\n"], [b"tiles.py"]))
    for name in ("fill", "&calls"):
        assert tops.topsrtcAddNameExpression(handle, name) == (tops.TOPSRTC_SUCCESS,)
    assert tops.topsrtcCompileProgram(handle, 2, ["-DFACTOR=10", b"--gpu-architecture=gcu300"]) == (0,)
    code = tops.check(tops.topsrtcGetCode(handle))
    assert tops.topsrtcGetCodeSize(handle) == (tops.TOPSRTC_SUCCESS, len(code))
    lowered = tops.check(tops.topsrtcGetLoweredName(handle, "fill"))
    assert lowered.isidentifier() and lowered != "fill"
    variable = tops.check(tops.topsrtcGetLoweredName(handle, "&calls"))
    assert tops.topsrtcDestroyProgram(handle) == (tops.TOPSRTC_SUCCESS,)

    module = tops.check(tops.topsModuleLoadData(code))
    assert tops.topsModuleGetGlobal(module, variable)[2] == 4
    function = tops.check(tops.topsModuleGetFunction(module, lowered))
    assert tops.topsModuleGetFunction(module, "fill") == (tops.topsSuccess, function)
    pointer = memory(world)
    tops.check(tops.topsModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, [pointer, 0.5, 3], None))
    assert contents(world, pointer) == [6, 6, 6, 0, 0, 0, 0, 0]


def test_log_names_the_place():
    """A wrong text is COMPILATION, and the log says where; its size has room for the end of the text in C."""
    handle = failed()
    err, log = tops.topsrtcGetProgramLog(handle)
    assert err == tops.TOPSRTC_SUCCESS and log.startswith("scale.py:3:") and "nothing" in log
    assert tops.topsrtcGetProgramLogSize(handle) == (tops.TOPSRTC_SUCCESS, len(log.encode()) + 1)
    assert tops.topsrtcGetProgramLogSize(program()) == (tops.TOPSRTC_SUCCESS, 1)
    assert tops.topsrtcCompileProgram(handle, 1, ["-DA-B=1"]) == (tops.TOPSRTC_ERROR_INVALID_OPTION,)
    assert "A-B" in tops.topsrtcGetProgramLog(handle)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("scale.cpp", "int x;"),
        ("scale.py", '#include <tops/tops_runtime.h>\nextern "C" __global__ void f(float* x) { x[0] = 1; }\n'),
    ],
)
def test_cpp_is_known_by_name_or_content(name, source, compiler):
    """It compiles, and its faults are told in its lines."""
    assert tops.topsrtcCompileProgram(program(source=source, name=name), 0, None) == (tops.TOPSRTC_SUCCESS,)
    wrong = program(source=source + "\nint x", name=name)
    assert tops.topsrtcCompileProgram(wrong, 0, None) == (COMPILATION,)
    assert f"{name}:" in tops.topsrtcGetProgramLog(wrong)[1]


def test_a_name_expression_that_names_nothing_fails_the_compilation():
    """It is an error of the program, told by the log."""
    handle = program()
    tops.check(tops.topsrtcAddNameExpression(handle, "fil"))
    assert tops.topsrtcCompileProgram(handle, None, ()) == (COMPILATION,)
    assert "'fil'" in tops.topsrtcGetProgramLog(handle)[1]


def test_the_name_may_be_null_and_programs_outlive_devices(world):
    """Without a name the log says "program"; a reset of the device leaves programs alone."""
    handle = tops.check(tops.topsrtcCreateProgram("x = (", None, 0, None, None))
    assert tops.topsDeviceReset() == (tops.topsSuccess,)
    assert tops.topsrtcCompileProgram(handle, 0, None) == (COMPILATION,)
    assert tops.topsrtcGetProgramLog(handle)[1].startswith("program:1:")
    assert np.int64(handle) == handle and tops.topsrtcDestroyProgram(np.int64(handle)) == (tops.TOPSRTC_SUCCESS,)


def test_check_says_why():
    """`check` gives the first error of the log, or what is wrong with the option, the handle or the name."""
    broken = program(source="@k.kernel\ndef f(x):\n    k.nope()\n    k.never()\n")
    for call, told in (
        (lambda: tops.topsrtcCompileProgram(broken, 0, None),
         r"^TOPSRTC_ERROR_COMPILATION: topsrtcCompileProgram: scale.py:3:\d+: error: .*nope.*\n(.*\n)+1 more in"),
        (lambda: tops.topsrtcCompileProgram(broken, 1, ["-O9"]), "error: unknown option '-O9'; known are"),
        (lambda: tops.topsrtcCompileProgram(1 << 50, 0, None), "_PROGRAM: topsrtcCompileProgram: .* is not a handle"),
        (lambda: tops.topsrtcGetLoweredName(compiled(), "fil"), "NOT_VALID: topsrtcGetLoweredName: .* was not added"),
    ):
        with pytest.raises(AtopsError, match=told):
            tops.check(call())
    with pytest.raises(AtopsError, match=r"^TOPSRTC_ERROR_INTERNAL_ERROR$"):
        tops.check(tops.TOPSRTC_ERROR_INTERNAL_ERROR)  # which nothing here has failed with


@pytest.mark.slow
def test_the_suffix_of_a_name_can_decide_the_language(compiler):
    """Python text under a C++ name is C++, and the log says that the name told; C++ text needs no such note."""
    note = "saxpy.cu: note: the name's .cu says C++; without it the text is read as Python"
    for source, noted in (("x = 1\n", True), ("__global__ void f() {", False)):
        handle = program(source=source, name="saxpy.cu")
        assert tops.topsrtcCompileProgram(handle, 0, None) == (COMPILATION,)
        assert (note in tops.check(tops.topsrtcGetProgramLog(handle))) == noted
