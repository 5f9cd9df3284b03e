"""Programs: texts, names, headers, options, name expressions and lowered names. TOPS Runtime API, 2.10."""

from __future__ import annotations

import inspect
import linecache

import numpy as np
import pytest

from atops.base.errors import CompilationError, IllegalState, InvalidOption, InvalidType, InvalidValue, NotFound
from atops.kernels.kernel import Kernel
from atops.kernels.programs.program import Program, compile_source
from atops.kernels.source.diagnostics import DiagnosticLog
from atops.kernels.source.options import CompileOptions, parse_options
from tests.kernel_bench import Bench
from tests.kernels.source_texts import SCALE, declarations, log_of

__all__ = ("declarations",)  # a fixture


def test_a_program_is_compiled_to_kernels_and_functions(declarations: None):
    """The result has kernels, the functions they call, device variables, and a log; `k` and `np` need no import."""
    made = compile_source(SCALE + "\n\ncount = k.device_variable(np.int32, 5)\n", "scale.py")
    assert list(made.kernels) == ["scale"] and list(made.functions) == ["share"] and list(made.variables) == ["count"]
    kernel = made.kernels["scale"]
    assert isinstance(kernel, Kernel) and kernel.is_async and kernel.__doc__.startswith("Each thread scales")
    assert made.variables["count"].name == "count" and str(made.log) == "" and made.language == "Python"
    assert kernel.parameters["alpha"].dtype == np.float32 and kernel.parameters["x"].memory


def test_the_same_text_can_be_an_ordinary_module():
    """Imports of what is there anyway are allowed, in the usual forms; so are `math` and single names."""
    text = (
        "from __future__ import annotations\nimport math\nfrom typing import Any\nimport ml_dtypes\n"
        "import numpy as np\nimport numpy as other\nfrom math import sqrt\nfrom atops import kernels as k\n"
        "from atops.kernels import local\n\nR = math.floor(sqrt(17.0))\n\n\n"
        "@kernel\ndef f(x: Any, y: ml_dtypes.bfloat16, z: other.int8):\n    local(R, np.int8)\n"
    )
    assert log_of(text) == []


def test_constants_are_computed_and_conditions_chosen():
    """Arithmetic, tuples, element types, pure functions and `if` of constants; the other branch is not looked at."""
    text = (
        "A = 1 << 4\nB = (A, A // 3, 'x')\nC = np.dtype(np.float32).itemsize * len(B)\nD = min(B[:2]) if A > 3 else 0\n"
        "E = A < 20 and not False\nF = 'a' + 'b'\nG = sum(range(10)) - -1\nH = k.BarrierScope.SIP\n"
        "if A == 16:\n    CHOSEN = np.int8\nelse:\n    CHOSEN = open('f')\n\n\n"
        "def f():\n    return A, B, C, D, E, F, G, H, CHOSEN\n"
    )
    values = compile_source(text).functions["f"]()
    assert values == (16, (16, 5, "x"), 12, 5, True, "ab", 46, values[7], np.int8) and values[7].name == "SIP"


def test_macros_are_those_of_the_target_and_of_the_options():
    """GCU_ARCH and AGCU_ARCH come with the architecture (8.6), -D defines constants, -U takes one back."""
    text = "V = (GCU_ARCH, AGCU_ARCH, __AGCU_ARCH__, k.GCU_ARCH, N, NAME, FLAG, RATE)\n\n\ndef f():\n    return V\n"
    defines = ["-D", "N=0x10", "-DNAME='x'", "--define-macro FLAG", "-D RATE=1.5", "-DGONE=3", "-UGONE"]
    rows = {"gcu300": (300, 300), "gcu210": (210, 200), "agcu200": (None, 200), "agcu300": (None, 300)}
    for arch, (gcu, agcu) in rows.items():
        made = compile_source(text, options=[f"--gpu-architecture={arch}", *defines])
        assert made.functions["f"]() == (gcu, agcu, agcu, gcu, 16, "x", 1, 1.5)
        assert made.options.target.name == arch and made.kernels == {}
    assert compile_source(text, options=["-arch", "dtu-enflame-tops--gcu210", *defines]).options.target.name == "gcu210"


BAD_OPTIONS = {
    "--gpu-architecture=gcu900": "unknown architecture 'gcu900'; expected one of gcu210, gcu300, agcu200, agcu300",
    "--gpu-architectur=gcu300": "unknown option '--gpu-architectur=gcu300'; did you mean '--gpu-architecture'?",
    "-O3": "unknown option '-O3'; known are ",
    "-I/include": "unknown option '-I/include'; includes are passed to the program as named headers",
    "-D": "option '-D' expects a value",
    "-D3=4": "macro name '3' is no identifier",
    "-DGCU_ARCH=300": "macro 'GCU_ARCH' is built in; --gpu-architecture sets it",
    "-w=1": "unknown option '-w=1'",
    "": "unknown option ''",
}


@pytest.mark.parametrize("option", BAD_OPTIONS)
def test_a_wrong_option_is_named_in_the_log(option: str):
    """InvalidOption carries the log, which has all wrong options and stays with the program."""
    program = Program(SCALE, "scale.py")
    with pytest.raises(InvalidOption) as caught:
        program.compile([option, "--what"] if option != "-D" else ["--what", option])
    told = [each.message for each in program.log]
    assert any(each.startswith(BAD_OPTIONS[option]) for each in told) and len(told) == 2
    assert str(caught.value) == str(program.log)


def test_options_are_a_sequence_of_texts():
    """Anything else is InvalidType; options that were read come back as they are spelled."""
    for wrong in ("-DN=3", [3], 5):
        with pytest.raises(InvalidType, match="sequence of strings"):
            Program(SCALE).compile(wrong)
    given = ["-Werror", "-DB=2", "-DA=(1, 2)", "-w", "-arch=gcu210"]
    options = parse_options(given, "a", DiagnosticLog())
    assert isinstance(options, CompileOptions)
    assert options.arguments() == ("--gpu-architecture=gcu210", "-DA=(1, 2)", "-DB=2", "-w", "-Werror")
    assert parse_options(options.arguments(), "a", DiagnosticLog()) == options
    assert parse_options(options, "a", DiagnosticLog()) is options


def test_a_macro_is_a_constant():
    """What is none is told in the log; nothing of it is executed."""
    assert log_of(SCALE, ["-DN=print(1)"]) == [
        " error: macro N=print(1): 'print' has no value known before the program runs"
    ]
    assert log_of(SCALE, ["-DN=1 +"])[0].startswith(" error: macro N=1 + is no constant; ")


def test_warnings_can_be_dropped_or_made_errors():
    """-w leaves a clean log, -Werror stops the compilation."""
    text = "@k.kernel\nasync def f():\n    await k.syncblocks()\n"
    assert [line.split(": ")[1] for line in log_of(text)] == ["warning"]
    assert log_of(text, ["-w"]) == []
    assert [line.split(": ")[1] for line in log_of(text, ["-Werror"])] == ["error"]


HEADERS = {
    "tiles.py": "import more.deep as deep\n\nTILE = SIZE = GCU_ARCH + 1\n\n\ndef helper():\n    return TILE, deep.X\n",
    "more/deep.py": "X = N * 2\n",
}


def test_headers_are_named_texts():
    """A text may take names, all names or a whole header; macros reach headers; headers may need headers."""
    for text in (
        "from tiles import helper\n", "from tiles import *\n", "import tiles\nfrom tiles import helper as h\n",
        "import tiles as t\nfrom tiles import *\n",
    ):  # fmt: skip
        made = compile_source(text, "a.py", ["-DN=4"], HEADERS)
        [function] = made.functions.values()
        assert function() == (301, 8) and next(iter(made.functions)) in ("h", "helper")
    assert log_of("from tiles import helpr\n", ["-DN=4"], headers=HEADERS) == [
        "1:19: error: 'tiles' has no 'helpr'; did you mean 'helper'?"
    ]


def test_an_error_in_a_header_is_placed_there():
    """It bears the header's name, with a note where the header is imported; what it lacks is not told again."""
    told = log_of("from tiles import *\n\n\ndef f():\n    return helper()\n", headers={"tiles.py": "X = q\n"})
    assert told == [
        "tiles.py:1:5: error: 'X' is no constant: 'q' has no value known before the program runs",
        "1:1: note: header 'tiles' is imported here",
    ]
    told = log_of("import a1\n", headers={"a1": "import a2\n", "a2": "import a1\n"})
    assert told[0] == "a2:1:8: error: header 'a1' includes itself: a1 -> a2 -> a1"
    told = log_of("import more.deep\n", ["-DN=1"], headers=HEADERS)
    assert told == ["1:8: error: write `import more.deep as ...`"]


def test_lowered_names_are_c_identifiers(declarations: None):
    """They are made of name and argument types; variables have one too; each is another."""
    text = (
        "@k.kernel\ndef f(x, y: k.Span, z: np.float32, w: int):\n    pass\n\n\n"
        "@kernel(name='g-1')\ndef g():\n    pass\n\n\nv = k.device_variable(np.int8)\n"
    )
    program = Program(text)
    for expression in ("f", "&f", " & g-1", "v"):
        program.add_name_expression(expression)
    program.compile()
    names = [program.lowered_name(each) for each in ("f", "&f", " & g-1", "v")]
    assert names[0] == names[1] == "_T1f_any_span_float32_int" and names[3] == "_T1v"
    assert all(each.isidentifier() and each.isascii() for each in names) and len(set(names)) == 3
    module = program.module()
    assert module.function(names[2]) is module.function("g-1") and module.variable(names[3]).name == "v"
    with pytest.raises(NotFound, match=r"'ff' was not added to program program; did you mean 'f'\?"):
        program.lowered_name("ff")


def test_name_expressions_have_their_time():
    """They are added before compiling; lowered names, modules and images are there after it has gone well."""
    program = Program(SCALE, "scale.py")
    for early in (lambda: program.lowered_name("scale"), program.module, program.image):
        with pytest.raises(CompilationError, match="it was not compiled yet"):
            early()
    program.add_name_expression("skale")
    with pytest.raises(CompilationError, match=r"'skale' names no kernel and no variable; did you mean 'scale'\?"):
        program.compile()
    for late in (lambda: program.lowered_name("skale"), program.module, program.image):
        with pytest.raises(CompilationError, match=r"its compilation failed:\nscale.py: error: name expression"):
            late()
    with pytest.raises(IllegalState, match="name expressions are added before"):
        program.add_name_expression("scale")
    for wrong, error in ((3, InvalidType), ("", InvalidValue), ("& ", InvalidValue), ("1+", InvalidValue),
                         ("5", InvalidValue)):  # fmt: skip
        with pytest.raises(error, match="name expression expects"):
            Program(SCALE).add_name_expression(wrong)


def test_a_program_can_be_compiled_again():
    """The last compilation counts, also when it fails."""
    program = Program("def f():\n    return N\n")
    assert program.compile(["-DN=1"]).functions["f"]() == 1 and program.compile(["-DN=2"]).functions["f"]() == 2
    with pytest.raises(CompilationError, match="undefined name 'N'"):
        program.compile()
    with pytest.raises(CompilationError, match="compilation failed"):
        program.module()
    assert repr(program) == "<Program program, failed>"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((3,), InvalidType), ((SCALE, 3), InvalidType), ((SCALE, ""), InvalidValue), ((SCALE, "a\n"), InvalidValue),
     ((SCALE, "a", ["x"]), InvalidType), ((SCALE, "a", {"x": 3}), InvalidType)],
)  # fmt: skip
def test_a_program_is_made_of_texts(arguments: tuple, error: type[Exception]):
    """Wrong types and empty names are refused at once."""
    with pytest.raises(error, match=r"expects a text|texts by name|name of a file"):
        Program(*arguments)


def test_compiling_executes_nothing(capsys: pytest.CaptureFixture[str]):
    """No call of the text runs while it is compiled or loaded, only what makes the definitions."""
    text = "@k.kernel\ndef f(x=1):\n    print('body')\n\n\ndef g():\n    print('g')\n    return 1\n\n\nX = 3\n"
    assert compile_source(text).module().function("f").name == "f" and capsys.readouterr().out == ""
    [told] = log_of(text + "Y = g()\n")
    assert told == "12:5: error: 'Y' is no constant: g() is not computed before the program runs"
    assert capsys.readouterr().out == ""


def test_the_text_is_found_by_tracebacks_and_inspect():
    """The lines are kept under a name of their own for each text, whatever a file of that name holds."""
    one = compile_source("def f():\n    return 1 / 0\n", "same.py").functions["f"]
    other = compile_source("def f():\n\n    raise KeyError\n", "same.py").functions["f"]
    assert one.__code__.co_filename != other.__code__.co_filename and "same.py" in one.__code__.co_filename
    linecache.checkcache()
    assert inspect.getsource(one) == "def f():\n    return 1 / 0\n"
    assert inspect.getsource(other).endswith("raise KeyError\n")


def test_messages_of_a_kernel_name_its_text_as_the_log_does(bench: Bench):
    """Faults, assertions, forgotten requests and deadlocks say scale.py, without the digest that Python needs."""
    text = (
        "@k.kernel\ndef fault():\n    1 / 0\n@k.kernel\ndef wrong():\n    k.assert_(0 == 1)\n"
        "@k.kernel\ndef owed():\n    (lambda: k.syncthreads())()\n"
        "@k.kernel\nasync def stuck():\n    if k.threadIdx.x: await k.syncthreads()\n"
    )
    module = compile_source(text, "scale.py").module()
    for name, said in (
        ("fault", "raised ZeroDivisionError: division by zero (scale.py:3)"),
        ("wrong", "at scale.py:6 in wrong: assertion `0 == 1` failed (scale.py:6)"),
        ("owed", "asked for syncthreads at scale.py:9 and never awaited it"),
        ("stuck", "thread 1 waits at syncthreads, scale.py:12"),
    ):
        error = bench.attempt(module.function(name), (1, 2)).error
        assert said in str(error) and "<scale.py" not in str(error)


def test_lines_are_counted_as_python_counts_them():
    """Ends of lines of other systems and form feeds move no diagnostic."""
    for end in ("\n", "\r\n", "\r"):
        told = log_of(end.join(["X = 1", "# \x0c \u2028", "Y = q", ""]))
        assert told == ["3:5: error: 'Y' is no constant: 'q' has no value known before the program runs"]
