"""The attributes of kernels: computed from text, code and architecture, and what the allocators really give."""

from __future__ import annotations

import numpy as np
import pytest

from atops import kernels
from atops import kernels as k
from atops.base.errors import InvalidType, InvalidValue, LaunchFailure
from atops.device.arch import architecture
from atops.device.exec.thread import current_thread
from atops.device.memory.pieces import Pieces
from atops.kernels.memory.arrays import private
from atops.kernels.programs.kernel_attributes import FunctionAttributes, function_attributes
from atops.kernels.programs.program import compile_source
from atops.kernels.target import compile_target
from tests.every import every
from tests.kernel_bench import Bench
from tests.kernels.source_texts import declarations

__all__ = ("declarations",)  # a fixture

HEAD = """\
N = 100


def helper():
    return k.local(30, np.int8)


def nested(n):
    return [helper() for _ in range(2)] if n else helper()


def endless(n):
    k.local(1, np.int8)
    return endless(n - 1) if n else 0


def harmless(n):
    return harmless(n - 1) if n else 0


@k.kernel
def f(x, look):
"""

# Each row: a kernel's body, and what it takes of L1, of L2 and of the stack; None where the text does not tell.
BODIES: dict[str, tuple[str, tuple[int | None, int | None, int | None]]] = {
    "nothing": ("pass", (0, 0, 0)),
    "one call": ("k.local(N, np.float32)", (400, 0, 0)),
    "two calls, aligned": ("k.local(1, np.int8); k.local((2, 3), dtype='bfloat16')", (128 + 12, 0, 0)),
    "nothing behind something": ("k.local(1, np.int8); k.local(0, np.int8)", (128, 0, 0)),
    "all spaces": ("k.shared(5, np.int8); k.local(3, np.int8); k.shared(7, 'fp16')", (3, 128 + 14, 0)),
    "a loop": ("for i in range(4): k.local(130, np.int8)", (3 * 256 + 130, 0, 0)),
    "a loop over two": ("for i in range(3): k.local(1, np.int8); k.local(2, np.int8)", (5 * 128 + 2, 0, 0)),
    "loops in loops": (
        "for i in (1, 2):\n        for j in range(N // 10): k.shared(1, np.int64)", (0, 19 * 128 + 8, 0),
    ),
    "no turn": ("for i in range(0): k.local(9, np.int8)", (0, 0, 0)),
    "a comprehension": ("[k.local(8, np.int8) for i in range(2) for j in range(3)]", (5 * 128 + 8, 0, 0)),
    "both branches": ("if x.size: k.local(1, np.int8)\n    else: k.local(2, np.int8)", (128 + 2, 0, 0)),
    "the chosen branch": ("if GCU_ARCH >= 300: k.local(1, np.int8)\n    else: k.local(2, np.int8)", (1, 0, 0)),
    "a name of its own": ("n = N * 2\n    k.local(n, np.int8)", (200, 0, 0)),
    "a function": ("helper(); helper()", (128 + 30, 0, 0)),
    "a function of functions": ("nested(1)", (2 * 128 + 30, 0, 0)),
    "recursion without memory": ("harmless(3)", (0, 0, 0)),
    "recursion": ("endless(3)", (None, 0, 0)),
    "an unknown size": ("k.local(x.size, np.int8)", (None, 0, 0)),
    "an unknown type": ("k.shared(4, x.dtype)", (0, None, 0)),
    "a wrong size": ("k.local(-1, np.int8)", (None, 0, 0)),
    "an unknown loop": ("for i in range(x.size): k.local(1, np.int8)", (None, 0, 0)),
    "while": ("while x.size: k.local(1, np.int8)", (None, 0, 0)),
    "a name that changes": ("n = 1\n    n = 2\n    k.local(n, np.int8)", (None, 0, 0)),
    "a function inside": ("def g(): k.local(1, np.int8)\n    g()", (None, 0, 0)),
    "variables of a line": ("for i in range(4): k.local_variable(9, 'i1'); k.shared_variable(5, 'i1')", (9, 5, 0)),
    "another name for it": ("l = k.local\n    l(10, np.int8)", (None, 0, 0)),
    "a loop over allocators": ("for make in (k.local, k.shared): make(1, np.int8)", (None, None, 0)),
    "passed on": ("map(k.local, (1, 2))\n    k.shared(3, np.int8)", (None, 3, 0)),
    "a shadowed name": ("for range in (1, 2): k.local(N, np.int8)\n    for i in range(3): k.shared(1, np.int8)",
                        (228, None, 0)),
}  # fmt: skip


def attributes(text: str, target: str = "gcu300") -> FunctionAttributes:
    """Return the attributes of kernel f of a text."""
    return compile_source(text, options=[f"-arch={target}", "-w"]).module().attributes("f")


@pytest.mark.slow
@every("case", BODIES)
def test_memory_is_told_from_the_text(case: str):
    """Calls are added as the allocators will; what cannot be told is None and not invented."""
    body, (local, shared, private) = BODIES[case]
    found = attributes(f"{HEAD}    {body}\n")
    assert (found.local_bytes, found.shared_bytes, found.private_bytes) == (local, shared, private)


def _tells(case: str) -> bool:
    """Say whether a thread takes exactly what the text says: in all cases but those where both branches are counted."""
    return None not in BODIES[case][1] and case not in ("both branches", "a function of functions")


@every("case", [each for each in BODIES if _tells(each)])
def test_a_launch_that_holds_it_takes_what_was_told(case: str, bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """The figures are those of the running thread's L1 and of its block's L2 where nothing is given back."""
    held: list[object] = []
    take = Pieces.take
    monkeypatch.setattr(Pieces, "take", lambda *asked: held.append(taken := take(*asked)) or taken)
    body, (local, shared, _) = BODIES[case]
    kernel = compile_source(f"{HEAD}    {body}\n    look()\n", options=["-w"]).module().function("f")
    taken: list[tuple[int, int]] = []

    def look() -> None:
        thread = current_thread()
        taken.append((thread.l1_top, thread.block.l2_top))

    bench.launch(kernel, (1, 1), bench.empty(1), look)
    assert taken == [(local, shared)]


def test_private_memory_is_the_stack(monkeypatch: pytest.MonkeyPatch):
    """It is counted in bytes as they are: a stack has no alignment."""
    monkeypatch.setattr(kernels, "private", private, raising=False)
    assert attributes(f"{HEAD}    k.private(3, np.int8)\n    k.private(2, np.int16)\n").private_bytes == 7


def test_the_rest_is_the_architectures():
    """Threads, versions and the room for dynamic shared memory follow from the target; an abstract one is the least."""
    text = f"{HEAD}    k.shared(100, np.int8)\n    k.dynamic_shared(np.int8)\n"
    for target, versions, chip in (
        ("gcu300", (30, 30), "gcu300"), ("gcu210", (21, 20), "gcu210"),
        ("agcu200", (20, 20), "gcu210"), ("agcu300", (30, 30), "gcu300"),
    ):  # fmt: skip
        found, arch = attributes(text, target), architecture(chip)
        assert (found.binary_version, found.virtual_version) == versions and found.dynamic_shared
        assert found.max_threads_per_block == arch.max_threads_per_block
        assert found.max_dynamic_shared_bytes == arch.l2_usable - 128 and found.shared_bytes == 100
    other = compile_source(text, options=["-w"]).module().attributes("f", architecture("gcu210"))
    assert other.binary_version == 21
    assert attributes(f"{HEAD}    pass\n").max_dynamic_shared_bytes == architecture("gcu300").l2_usable
    assert attributes(f"{HEAD}    k.shared(x.size, np.int8)\n").max_dynamic_shared_bytes is None


@pytest.mark.parametrize("arch", ["gcu300", "gcu210"])
def test_the_room_for_dynamic_shared_memory_is_exact(make_bench, arch: str):
    """A launch with all of it runs, one byte more does not."""
    bench = make_bench(arch=arch)
    text = f"{HEAD}    k.dynamic_shared(np.int8)\n    k.shared(100, np.int8)\n"
    module = compile_source(text, options=[f"-arch={arch}"]).module()
    room = module.attributes("f").max_dynamic_shared_bytes
    assert room is not None
    bench.launch(module.function("f"), (1, 1, room), 0, 0)
    with pytest.raises(LaunchFailure, match="shared memory of 100 bytes was asked for"):
        bench.launch(module.function("f"), (1, 1, room + 1), 0, 0)


def test_attributes_take_names_and_defaults():
    """The target may be an object, a name or left out; what is none of them is refused."""
    plain, old = k.kernel(own), k.kernel(arch="agcu200")(own)
    assert function_attributes(plain).binary_version == 30 and function_attributes(old).binary_version == 20
    for target in ("gcu210", architecture("gcu210"), compile_target("gcu210")):
        assert function_attributes(plain, target).binary_version == 21
    with pytest.raises(InvalidType, match="expects a kernel, got 5"):
        function_attributes(5, "gcu300")
    with pytest.raises(InvalidType, match="target expects an Architecture, a CompileTarget or a name"):
        function_attributes(plain, 5)
    with pytest.raises(InvalidValue, match="None, got 'gcu9'"):
        function_attributes(plain, "gcu9")


def test_constants_are_those_it_refers_to(declarations: None):
    """Directly, through functions and through headers, each once; others of the module are not counted."""
    text = (
        "import parts\na = k.constant(np.int32, (1, 2))\nb = k.constant(np.int8, 1)\nc = k.constant(np.int8, 1)\n"
        "d = k.device_variable(np.int8, 1)\n\n\ndef g():\n    return a[0] + b[...]\n\n\n"
        "@k.kernel\ndef f(x):\n    x[0] = g() + a[1] + parts.e[0] + d[...]\n"
    )
    made = compile_source(text, headers={"parts.py": "e = k.constant(np.int64, (1, 2, 3))\n"})
    assert made.module().attributes("f").constant_bytes == 8 + 1 + 24


def test_registers_grow_with_variables_and_calls():
    """More variables, deeper expressions and functions that are called take more; a circle ends."""
    small = attributes(f"{HEAD}    a = 1\n").registers
    more = attributes(f"{HEAD}    a = 1\n    b = 2\n    c = 3\n").registers
    deep = attributes(f"{HEAD}    a = (1, (x, (x, (x, (x, x)))))\n").registers
    assert more == small + 2 and deep > small
    one = attributes(f"{HEAD}    a = 1\n    helper()\n").registers
    two = attributes(f"{HEAD}    a = 1\n    nested(2)\n").registers
    assert small < one < two and attributes(f"{HEAD}    a = 1\n    endless(2)\n").registers > small


@k.kernel
def here(x):
    """Take memory in an ordinary module."""
    k.local(ROWS, np.float32)
    own()


def own() -> None:
    """Take shared memory."""
    k.shared(3, np.int8)


ROWS = 4


def test_kernels_of_ordinary_modules_have_attributes_too():
    """Any kernel has them, where its source can be had; a lambda's cannot."""
    found = function_attributes(here, architecture("gcu300"))
    assert (found.local_bytes, found.shared_bytes, found.private_bytes) == (16, 3, 0)
    hidden = function_attributes(k.kernel(name="hidden")(lambda n: n + 1), architecture("gcu300"))
    assert (hidden.local_bytes, hidden.shared_bytes, hidden.private_bytes) == (None, None, None)
    assert hidden.registers > 0
