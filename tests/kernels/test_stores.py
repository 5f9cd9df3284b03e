"""Assignments that store nothing in a variable: refused where the function is defined, as text and as Python."""

from __future__ import annotations

import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import CompilationError, InvalidType
from tests.every import every
from tests.kernel_bench import Bench

HEAD = (
    "from atops import kernels as k\nfrom atops.kernels import shared_variable as declare\nimport numpy as np\n"
    "TOTAL = k.device_variable(np.int32)\n\n\n"
)
DECLARED = "v = k.shared_variable((), np.int32)"
# Bodies with a line that assigns to a name and stores nothing: the one that says LOST.
LOST: dict[str, str] = {
    "assignment": f"{DECLARED}\nv = 3  # LOST",
    "of a computed value": f"{DECLARED}\nv = x[0] + 1  # LOST",
    "annotated": f"{DECLARED}\nv: int = 3  # LOST",
    "chained": f"{DECLARED}\nw = v = 3  # LOST",
    "tuple": f"{DECLARED}\nv, w = 1, 2  # LOST",
    "nested tuple": f"{DECLARED}\n(a, [b, *v]) = 1, [2, 3]  # LOST",
    "swap with what is no variable": f"{DECLARED}\nw = 1\nv, w = w, 2  # LOST",
    "walrus": f"{DECLARED}\nif (v := 3):  # LOST\n    pass",
    "walrus in a comprehension": f"{DECLARED}\n[(v := i) for i in range(2)]  # LOST",
    "loop target": f"{DECLARED}\nfor v in range(3):  # LOST\n    pass",
    "loop's tuple target": f"{DECLARED}\nfor i, v in enumerate((1, 2)):  # LOST\n    pass",
    "with": f"{DECLARED}\nwith k.dte_scope() as v:  # LOST\n    pass",
    "except": f"{DECLARED}\ntry:\n    pass\nexcept ValueError as v:  # LOST\n    pass",
    "match": f"{DECLARED}\nmatch x.size:\n    case v:  # LOST\n        pass",
    "def": f"{DECLARED}\ndef v():  # LOST\n    pass",
    "in a branch": f"{DECLARED}\nif x.size:\n    v = 3  # LOST",
    "declared in a branch": f"if x.size:\n    {DECLARED}\nv = 3  # LOST",
    "before the declaration, in a loop": f"for i in range(2):\n    v = i  # LOST\n    {DECLARED}",
    "in a function inside": f"{DECLARED}\ndef g():\n    v = 3  # LOST\ng()",
    "nonlocal": f"{DECLARED}\ndef g():\n    nonlocal v\n    v = 3  # LOST\ng()",
    "by another name of the language": "v = declare((), np.int32)\nv = 3  # LOST",
    "local variable": "v = k.local_variable((), np.int32)\nv = 3  # LOST",
    "device variable": "v = k.device_variable(np.int32)\nv = 3  # LOST",
    "constant": "v = k.constant(np.int32, 1)\nv = 3  # LOST",
    "declared by walrus": "if (v := k.shared_variable((), np.int32)).size:\n    v = 3  # LOST",
    "declared in a tuple": "v, w = k.shared_variable((), np.int32), 1\nv = 3  # LOST",
    "shared memory": "v = k.shared((), np.int32)\nv = 3  # LOST",
    "local memory": "v = k.local(4, np.int32)\nv = -1.5  # LOST",
    "private memory": "v = k.private(4, np.int32)\nv = 2 * 3  # LOST",
    "mdspan": "v = k.mdspan(k.local(4, np.int32), 2, 2)\nv = True  # LOST",
    "parameter": "x = 3  # LOST",
    "global variable": "TOTAL = 3  # LOST",
    "global variable, augmented": "TOTAL += 3  # LOST",
    "behind a branch that returns": f"{DECLARED}\nif x.size:\n    return\nv = 3  # LOST",
    "behind a pass that ends": f"{DECLARED}\nfor i in range(3):\n    if i:\n        break\nv = 3  # LOST",
}
KEPT: dict[str, str] = {
    "a store": f"{DECLARED}\nv[...] = 3",
    "augmented": f"{DECLARED}\nv += 3",
    "declared twice": f"{DECLARED}\n{DECLARED}",
    "declared in both branches": f"if x.size:\n    {DECLARED}\nelse:\n    v = k.local(4, np.int32)\nv[...] = 1",
    "before it": f"v = 3\nv += 1\n{DECLARED}",
    "given up": f"{DECLARED}\ndel v\nv = 3",
    "given up by None": f"{DECLARED}\nv = None\nv = 3",
    "places exchanged": f"{DECLARED}\nw = k.shared_variable((), np.int32)\nfor i in range(3):\n    v, w = w, v",
    "parameter of a function inside": f"{DECLARED}\ndef g(v):\n    v = 3\ng(1)",
    "lambda": f"{DECLARED}\nf = lambda v: v + 1",
    "comprehension": f"{DECLARED}\nw = [v for v in range(3)]",
    "result by the name of memory": "v = k.local(4, np.int32)\nv = v * 2\nv = 3",
    "part of a parameter": "x = x[1:]\nn = 3\nn += 1",
    "declared in a branch that returns": f"if x.size:\n    {DECLARED}\n    return\nv = 3\nv += 1",
    "declared in a branch that raises": f"if x.size:\n    {DECLARED}\n    raise ValueError\nv = 3\nv += 1",
    "declared in a case that returns": f"match x.size:\n    case 1:\n        {DECLARED}\n        return\nv = 3\nv += 1",
    "declared in a pass that ends": f"for i in range(2):\n    if i:\n        {DECLARED}\n        break\nv = 3\nv += 1",
    "a result in a loop, then a number": "v = k.local(4, np.int32)\nfor i in range(2):\n    v = v.sum()\nv = 3",
    "a result in a try, then a number": "v = k.local(4, np.int32)\ntry:\n    v = v.sum()\nfinally:\n    pass\nv = 3",
    "a result in a branch, then a number": "v = k.local(4, np.int32)\nif x.size:\n    v = v.sum()\nv = 3",
    "exchanged memory": "v, w = k.local(4, np.int32), k.local(4, np.int32)\nv, w = w, v",
}


def text_of(body: str, decorator: str = "kernel") -> str:
    """Return a source with a function of this body."""
    return f"{HEAD}@k.{decorator}\ndef f(x: k.Span[np.int32], n: np.int32 = 1):\n{textwrap.indent(body, '    ')}\n"


def define(path: Path, text: str) -> dict[str, Any]:
    """Execute a text as a module of that file would be."""
    path.write_text(text)
    names: dict[str, Any] = {"__name__": "__stores__"}
    exec(compile(text, str(path), "exec"), names)
    return names


@pytest.mark.slow
@every("case", LOST)
@every("decorator", ("kernel", "device", "cooperative"))
def test_an_assignment_that_stores_nothing_is_refused(tmp_path: Path, case: str, decorator: str) -> None:
    """By the decorator and by the compiler, with its line, and with what to write; once."""
    text = text_of(LOST[case], decorator)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "# LOST" in each)
    path = tmp_path / f"{case.replace(' ', '_')}_{decorator}.py"
    with pytest.raises(InvalidType) as refused:
        define(path, text)
    said = str(refused.value)
    assert f"f ({path.name}:{line}) assigns to " in said or f"/{path.name}:{line}) assigns to " in said, said
    assert "stores nothing in " in said and "[...] = ... to store, or choose another name" in said
    with pytest.raises(CompilationError):
        k.Program(text, "text.py").compile()
    log = program_log(text)
    assert log.count("stores nothing in ") == 1 and f"text.py:{line}:" in log, log


@pytest.mark.slow
@every("case", KEPT)
@every("decorator", ("kernel", "device"))
def test_what_loses_nothing_is_taken(tmp_path: Path, case: str, decorator: str) -> None:
    """Names that are free, and assignments that keep memory under a name."""
    text = text_of(KEPT[case], decorator)
    define(tmp_path / "kept.py", text)
    assert "stores nothing" not in program_log(text)


def program_log(text: str) -> str:
    """Return what the compiler says of a text."""
    program = k.Program(text, "text.py")
    with suppress(CompilationError):
        program.compile()
    return str(program.log)


def test_a_variable_of_the_function_around_it_is_known() -> None:
    """A kernel that binds the name of one cannot see it, where it is defined it is there."""
    total = k.device_variable(np.int32)
    for decorator in (k.kernel, k.device):
        with pytest.raises(InvalidType, match=r"\(.*test_stores\.py:\d+\) assigns to total, .*device variable"):

            @decorator
            def assigns() -> None:
                total = 1  # noqa: F841  # the mistake

        with pytest.raises(InvalidType, match="assigns to total"):

            @decorator
            def declares() -> None:
                nonlocal total
                total = 1

    @k.kernel
    def parameter(total: k.Span[np.int32]) -> None:
        total[...] = 1


@every("strict", (False, True))
def test_augmented_assignments_store(make_bench: Any, strict: bool) -> None:
    """In memory of every kind, so they are not refused."""
    bench: Bench = make_bench(strict=strict)
    x = bench.upload(np.zeros(8, np.int32))

    @k.kernel
    def add(x: k.Span[np.int32]) -> None:
        shared, local, device = k.shared_variable((), np.int32), k.local_variable((), np.int32), COUNT
        given, own, private = k.shared((), np.int32), k.local((), np.int32), k.private((), np.int32)
        for each in (shared, local, device, given, own, private):
            each[...] = 1
        shared += 1
        local *= 2
        device |= 2
        given -= 3
        own <<= 1
        private **= 2
        for place, each in enumerate((shared, local, device, given, own, private)):
            x[place] = each[...]

    bench.launch(add, (1, 1), x)
    assert x.host.tolist() == [2, 2, 3, -2, 2, 1, 0, 0]


COUNT = k.device_variable(np.int32)
