"""What the compiler says of wrong source texts: where, what, and all of it at once."""

from __future__ import annotations

import pytest

from atops.kernels.source.diagnostics import DiagnosticLog, SourcePosition, SourceText
from atops.kernels.source.front_end import is_cxx
from tests.every import every
from tests.kernels.source_texts import declarations, log_of

__all__ = ("declarations",)  # a fixture

KERNEL = "@k.kernel\n"
CANNOT = (
    "cannot stand at the top of a kernel source; a kernel source has imports, constants, device variables and "
    "functions there"
)
NO_IMPORT = "cannot be imported into a kernel source; atops, atops.kernels, math, ml_dtypes, numpy, typing can"
TYPES = "k.Span, an element type such as np.float32 or 'bfloat16', int, float or bool"


def test_a_diagnostic_is_printed_as_compilers_do():
    """Name, line, column, severity and message; the line; a caret as wide as what is meant, tabs kept."""
    source = SourceText("a.py", "first\n\ty = ällt + 1\n")
    log = DiagnosticLog()
    log.error("undefined name 'ällt'", source, SourcePosition(2, 6, 4))
    log.note("it was meant so", source, SourcePosition(1, 1, 5))
    assert str(log) == (
        "a.py:2:6: error: undefined name 'ällt'\n\ty = ällt + 1\n\t    ^~~~\n"
        "a.py:1:1: note: it was meant so\nfirst\n^~~~~\n1 error generated."
    )


def test_a_log_is_in_the_order_of_the_text_and_says_nothing_twice():
    """Diagnostics are sorted by place with their notes behind them; repetitions are dropped; the last line counts."""
    source, log = SourceText("a.py", "a\nb\n"), DiagnosticLog()
    log.warning("later", source, SourcePosition(2))
    log.error("earlier", source, SourcePosition(1))
    log.note("because", source, SourcePosition(2))
    log.error("earlier", source, SourcePosition(1))
    log.note("because", source, SourcePosition(2))
    assert [each.message for each in log] == ["earlier", "because", "later"] and len(log) == 3
    assert str(log).endswith("1 error and 1 warning generated.")
    assert str(DiagnosticLog()) == ""


def test_what_becomes_of_warnings_is_an_option():
    """A quiet log drops warnings with their notes, a strict one makes errors of them."""
    quiet, strict = DiagnosticLog(quiet=True), DiagnosticLog(strict=True)
    for log in (quiet, strict):
        log.warning("odd", "a.py")
        log.note("here", "a.py")
    assert len(quiet) == 0 and [each.message for each in strict.errors] == ["odd"]


def test_a_log_without_end_is_cut():
    """Fifty errors are shown and the rest counted."""
    source, log = SourceText("a.py", "x\n" * 80), DiagnosticLog()
    for line in range(1, 81):
        log.error("wrong", source, SourcePosition(line))
    assert "30 more errors are not shown" in str(log) and str(log).endswith("80 errors generated.")


# Each row: a text, and every diagnostic that it gets, in full.
TEXTS: dict[str, tuple[str, list[str]]] = {
    "syntax": ("def f(:\n    pass\n", ["1:7: error: invalid syntax"]),
    "syntax, twice": (
        "@k.kernel\ndef f(x):\n    x = = 1\n\n\ndef g(:\n    pass\n\n\ndef h():\n    pass\n",
        ["3:9: error: invalid syntax", "6:7: error: invalid syntax"],
    ),
    "bodies that are not indented": (
        f"{KERNEL}def f(x):\nreturn\n\n{KERNEL}def g(x):\n    if x:\n    pass\n\n{KERNEL}def h(x):\npass\n",
        ["3:1: error: expected an indented block after function definition on line 2",
         "8:5: error: expected an indented block after 'if' statement on line 7",
         "12:1: error: expected an indented block after function definition on line 11"],
    ),
    "a body that is missing": (
        f"{KERNEL}\ndef f(x):\n\n{KERNEL}def g(x):\n    x = = 1\n",
        ["5:1: error: expected an indented block after function definition on line 3", "7:9: error: invalid syntax"],
    ),
    "lines that are indented too much or too little": (
        f"{KERNEL}def f(x):\n    a = 1\n      b = 2\n    c = 3\n\n{KERNEL}def g(x):\n    a = 1\n  b = 2\n",
        ["4:6: error: unexpected indent", "10:8: error: unindent does not match any outer indentation level"],
    ),
    "a null character": ("x = 1\ny = '\0'\n", ["2:6: error: the text has a null character"]),
    "a method": (
        f"class A:\n    {KERNEL}    def f(self):\n        pass\n",
        ["3:5: error: kernel f is a member of A; a kernel is a plain function"],
    ),
    "a result": (
        f"{KERNEL}def f() -> int:\n    pass\n",
        ["2:12: error: kernel f is annotated with a result; a kernel returns nothing"],
    ),
    "a value": (
        f"{KERNEL}def f(x):\n    def g():\n        return 1\n    if x:\n        return None\n    return x\n",
        ["7:5: error: kernel f returns a value; a kernel returns nothing, it stores its results"],
    ),
    "a generator": (
        f"{KERNEL}def f(x):\n    yield x\n",
        ["3:5: error: kernel f is a generator; a kernel awaits and yields nothing"],
    ),
    "any number of parameters": (
        f"{KERNEL}def f(*x, **y):\n    pass\n",
        ["2:8: error: kernel f: parameter *x has no fixed number; kernels name each",
         "2:13: error: kernel f: parameter **y has no fixed number; kernels name each"],
    ),
    "an unknown name of the language": (
        f"{KERNEL}def f(x):\n    k.threadIndx(x)\n    k.thread_idd()\n",
        ["3:7: error: 'k' has no name 'threadIndx'; did you mean 'threadIdx'?",
         "4:7: error: 'k' has no name 'thread_idd'; did you mean 'thread_id'?"],
    ),
    "an unknown name of numpy": (
        f"{KERNEL}def f(x):\n    x[0] = np.flaot32(1)\n",
        ["3:15: error: 'np' has no name 'flaot32'; did you mean 'float32'?"],
    ),
    "undefined names": (
        f"{KERNEL}def f(alpha):\n    y = alfa\n    return\n\n\ndef g():\n    return [z for q in range(3)]\n",
        ["3:9: error: undefined name 'alfa'; did you mean 'alpha'?", "8:13: error: undefined name 'z'"],
    ),
    "a missing await": (
        f"{KERNEL}async def f():\n    k.syncthreads()\n    await k.syncthreads()\n",
        ["3:5: error: k.syncthreads() is a request and does nothing until it is awaited: `await k.syncthreads()`"],
    ),
    "a missing await of a function": (
        f"async def g():\n    await k.syncthreads()\n\n\n{KERNEL}async def f():\n    g()\n    await g()\n",
        ["7:5: error: g() is a coroutine and does nothing until it is awaited: `await g(...)`"],
    ),
    "a lost event": (
        f"{KERNEL}async def f(x, y):\n    with k.dte_scope() as d:\n        k.memcpy_async(d, x, y)\n",
        ["4:9: warning: the event of k.memcpy_async() is lost; `await k.memcpy_async(...)`, or keep the event and "
         "await it later"],
    ),
    "a barrier without a wait": (
        f"{KERNEL}async def f():\n    b = k.barrier(0, 2)\n    b.arrive_and_wait()\n",
        ["4:5: warning: b.arrive_and_wait() is not awaited, as that of a barrier or an event must be"],
    ),
    "await in a plain def": (
        f"{KERNEL}def f():\n    await k.syncthreads()\n",
        ["3:5: error: 'await' in f, a plain def; make it `async def f`"],
    ),
    "a second dynamic_shared": (
        f"{KERNEL}def f():\n    k.dynamic_shared(np.int8)\n    k.dynamic_shared(np.int8)\n",
        ["4:5: error: kernel f asks for dynamic shared memory a second time; a kernel has one",
         "3:5: note: the first is here"],
    ),
    "an unknown annotation": (
        f"{KERNEL}def f(x: np.float33, y: 'bfloat17', z: str, ok: 'bfloat16', too: np.int8):\n    pass\n",
        [f"{where}: error: annotation '{text}' of parameter {name} is unknown; expected {TYPES}"
         for where, text, name in (("2:10", "np.float33", "x"), ("2:25", "'bfloat17'", "y"), ("2:40", "str", "z"))],
    ),
    "an unknown decorator": (
        "@np.vectorize\ndef f(x):\n    pass\n",
        ["1:2: error: unknown decorator 'np.vectorize'; expected k.kernel, k.cooperative, k.device or k.host"],
    ),
    "arguments of a decorator": (
        "@k.kernel(nam='x', name=3, cooperative=f)\ndef f(x):\n    pass\n",
        ["1:11: error: @k.kernel has no argument 'nam'; it has name, cooperative and arch",
         "1:25: error: the name of a kernel expects a str, got 3",
         "1:40: error: the cooperative of a kernel is a constant; 'f' is no constant"],
    ),
    "two execution spaces": (
        "@k.device\n@k.kernel\ndef f(x):\n    pass\n",
        ["3:1: error: f is a kernel and a device function; it can be one of them"],
    ),
    "a kernel that is called": (
        f"{KERNEL}def f():\n    pass\n\n\n@kernel\ndef g():\n    f()\n",
        ["8:5: error: kernel g calls kernel f; kernels call functions"],
    ),
    "a kernel in a kernel": (
        f"{KERNEL}def f():\n    @k.kernel\n    def g():\n        pass\n",
        ["4:5: error: kernel g is defined inside kernel f; define it at the top"],
    ),
    "syncblocks without cooperation": (
        f"{KERNEL}async def f():\n    await k.syncblocks()\n",
        ["3:11: warning: kernel f uses syncblocks and is not declared cooperative: `@k.cooperative`"],
    ),
    "what follows from a wrong definition": (
        "import os\nT = os.environ['X']\nA, B = T, 2\nC = k.device_variable(np.int32, A)\nfor i in (1, 2):\n    D = i\n"
        f"{KERNEL}def f(x: T, y=A):\n    C[0] = A + B + C + D + T + i\n    x[0] = k.local(A, T)\n",
        ["1:8: error: 'os' cannot be imported into a kernel source; atops, atops.kernels, math, ml_dtypes, numpy, "
         "typing can",
         "3:1: error: a constant is assigned to one plain name",
         f"5:1: error: a loop {CANNOT}"],
    ),
    "a store that is lost": (
        f"tot = k.device_variable(np.int32)\n{KERNEL}def f(x):\n    tot = 1\n    tot += 1\n    tot[...] = 1\n",
        ["4:5: error: kernel f assigns to tot, which binds a name and stores nothing in the device variable; write "
         "tot[...] = ... to store, or choose another name"],
    ),
    "statements": (
        "for i in range(3):\n    pass\nprint(1)\ndel x\n",
        [f"1:1: error: a loop {CANNOT}",
         f"3:1: error: an expression {CANNOT}",
         f"4:1: error: `del` {CANNOT}"],
    ),
    "imports": (
        "import os\nfrom subprocess import run\nfrom numpy import flaot32\n\n\ndef f():\n    os.remove(run(flaot32))\n",
        [f"1:8: error: 'os' {NO_IMPORT}",
         f"2:1: error: 'subprocess' {NO_IMPORT}",
         "3:19: error: 'numpy' has no 'flaot32'; did you mean 'float32'?"],
    ),
    "import in a function": (
        "def f():\n    import os\n",
        ["2:5: error: an import inside a function; import at the top of the source"],
    ),
    "no constants": (
        "X = [1, 2]\nY = open('f')\nZ = 2 ** 10 ** 10\nk = 3\nW = 1 // 0\nQ = Y\n",
        ["1:5: error: 'X' could be changed; a constant is a number, a text or a tuple",
         "2:5: error: 'Y' is no constant: 'open' has no value known before the program runs",
         "3:5: error: 'Z' is no constant: 2 ** 10 ** 10 is too large",
         "4:1: error: 'k' is a name of the language here; choose another",
         "5:5: error: 'W' is no constant: 1 // 0 has no value: integer division or modulo by zero"],
    ),
    "a default that runs": (
        f"{KERNEL}def f(x=print(1)):\n    pass\n",
        ["2:9: error: a default is a constant; 'print' has no value known before the program runs"],
    ),
    "an annotation that runs": (
        f"{KERNEL}def f(x: 'print(1)'):\n    pass\n",
        [f"2:10: error: annotation ''print(1)'' of parameter x is unknown; expected {TYPES}"],
    ),
    "a redefinition": (
        "X = 1\n\n\ndef X():\n    pass\n",
        ["4:1: error: redefinition of 'X'", "1:1: note: it was defined here"],
    ),
    "global": (
        "X = 1\n\n\ndef f():\n    global X\n    X = 2\n",
        ["5:5: error: `global X`: threads share memory; declare a k.device_variable at the top"],
    ),
    "a class in a function": (
        "def f():\n    class A:\n        pass\n",
        ["2:5: error: class A inside function f; kernels define no classes"],
    ),
    "what only Python's compiler sees": (
        "def f():\n    nonlocal x\n\n\ndef g():\n    break\n",
        ["2:5: error: no binding for nonlocal 'x' found", "6:5: error: 'break' outside loop"],
    ),
    "what no device has": (
        f"{KERNEL}def f(x):\n    open('f')\n    eval('1')\n    __import__('os')\n",
        ["3:5: error: undefined name 'open'", "4:5: error: undefined name 'eval'",
         "5:5: error: undefined name '__import__'"],
    ),
}  # fmt: skip


@every("case", TEXTS)
def test_what_is_wrong_is_told_with_its_place(case: str):
    """Each fault of a text has its own diagnostic, at the line and column that it is about, and there are no others."""
    text, expected = TEXTS[case]
    assert log_of(text) == expected


def test_what_a_declaration_refuses_is_at_its_line(declarations: None):
    """An error of the language's own objects becomes a diagnostic of the statement that caused it."""
    text = "x = k.device_variable(np.int8, 300)\ny = k.constant(np.int8, z)\nw = k.constant()\n"
    told = log_of(text)
    assert told[0] == "2:25: error: device variable 'y': 'z' has no value known before the program runs"
    told = log_of(text.replace("z", "3"))
    assert told[0].startswith("1:1: error: the initial value 300 is out of the range of int8")
    assert told[1].startswith("3:1: error: constant() missing 1 required positional argument")


def test_errors_of_all_functions_come_at_once():
    """One compilation tells what is wrong everywhere, and warnings beside the errors."""
    text = f"{KERNEL}def f(x) -> int:\n    k.a(x)\n\n\n{KERNEL}async def g(x):\n    k.syncblocks()\n    b\n"
    assert [line.split(":")[0] for line in log_of(text)] == ["2", "3", "8", "8", "9"]


@pytest.mark.parametrize("text", ["x = " + "(" * 500 + ")" * 500, "x = " + "-" * 100_000 + "1", "\ud800 = 1"])
def test_texts_made_to_break_a_compiler_are_diagnosed(text: str):
    """Depth and halves of characters end in a diagnostic, not in a crash."""
    told = log_of(text)
    assert told and "error: " in told[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.cpp", "x = 1"), ("a", "__global__ void f(float* x) {}"), ("a.py", "#include <tops.h>\nint x;"),
     ("b", "int main() { f<<<1, 2>>>(); }")],
)  # fmt: skip
def test_cxx_is_known(name: str, text: str):
    """By the name or the content."""
    assert is_cxx(SourceText(name, text))


def test_python_that_speaks_of_cxx_is_python():
    """A comment or a text may quote C++."""
    assert log_of("# __global__ void f();  f<<<2, 12>>>()\n\n\ndef f():\n    '''#include <x>'''\n", name="p") == []


def test_what_python_warns_of_is_a_warning():
    """The compiler's own warnings are in the log, and no warning of the process."""
    [told] = log_of("def f(x):\n    return x is 3\n")
    assert told.startswith('2:1: warning: "is" with')
    [told] = log_of("X = '\\d'\n")
    assert told.startswith("1:1: warning: ") and "escape sequence" in told
