"""Modules: what a program defines, found by plain and lowered names. TOPS Runtime API, 2.6 and 2.8."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import InvalidHandle, InvalidType, NotFound, NotSupported
from atops.base.result_codes import Result
from atops.device.arch import architecture
from atops.kernels.kernel import Kernel
from atops.kernels.programs.program import compile_source, lowered_name_of
from tests.kernel_bench import Bench
from tests.kernels.source_texts import SCALE, declarations

__all__ = ("declarations",)  # a fixture

COUNTING = """\
total = k.device_variable(np.int32, shape=3)
weights = k.constant(np.float32, (1, 2))


@k.device
def weight(i):
    return weights[i]


@k.kernel
def count(x):
    total[0] = total[0] + 1
    x[0] = weight(1)
"""


def test_a_kernel_is_found_by_both_names():
    """It is an ordinary kernel, the same each time; a device function is none (2.8, topsModuleGetFunction)."""
    module = compile_source(SCALE, "scale.py").module()
    kernel = module.function("scale")
    assert isinstance(kernel, Kernel) and kernel is module.function(lowered_name_of(kernel)) is module.kernels["scale"]
    for name, why in (
        ("scal", r"has no kernel 'scal'; did you mean 'scale'\?"), ("share", "it is a function, which kernels call"),
        ("", "has no kernel ''"), ("_T5scale", "no kernel"),
    ):  # fmt: skip
        with pytest.raises(NotFound, match=why):
            module.function(name)
    with pytest.raises(InvalidType, match="name expects a text, got 3"):
        module.function(3)


def test_variables_are_found_by_both_names(declarations: None):
    """Device variables and constants, each by its name (2.6, topsModuleGetGlobal); headers' under the header's name."""
    headers = {"parts.py": "deep = k.device_variable(np.int8)\n"}
    module = compile_source(f"import parts\n{COUNTING}", headers=headers).module()
    assert list(module.variables) == ["total", "weights", "parts.deep"]
    assert module.variable("total").shape == (3,) and module.variable("_T7weights").is_constant
    assert module.variable("parts.deep").nbytes == 1
    for name, why in (("totl", r"did you mean 'total'\?"), ("count", "no variable 'count'")):
        with pytest.raises(NotFound, match=why):
            module.variable(name)
    with pytest.raises(NotFound, match="it is a variable"):
        module.function("total")


def test_each_module_has_variables_of_its_own(declarations: None, bench: Bench):
    """Two modules of one program share nothing; a kernel reaches its own module's."""
    program = compile_source(COUNTING)
    one, other = program.module(), program.module()
    x = bench.empty(1)
    for module, times in ((one, 2), (other, 1)):
        for _ in range(times):
            bench.launch(module.function("count"), (1, 1), x)
    seen = [int(module.variable("total").on(bench.chip).array[0]) for module in (one, other)]
    assert seen == [2, 1] and x.host[0] == 2


def test_a_module_is_compiled_for_its_target():
    """A launch on another chip is refused with the code for it; an abstract target runs on all that it names."""
    chips = [architecture("gcu210"), architecture("gcu300")]
    for target, able in (("gcu210", [True, False]), ("agcu200", [True, True]), ("agcu300", [False, True])):
        kernel = compile_source(SCALE, options=[f"-arch={target}"]).module().function("scale")
        for chip, runs in zip(chips, able, strict=True):
            if runs:
                assert kernel.configure((2, 12), chip).block.x == 12
                continue
            with pytest.raises(NotSupported, match=f"compiled for {target}.*this is {chip.name}") as caught:
                kernel.configure((2, 12), chip)
            assert caught.value.code is Result.NoBinaryForGcu


def test_an_unloaded_module_has_nothing():
    """What was taken from it goes on; asking it again is an error, and so is unloading it twice (2.8)."""
    module = compile_source(SCALE, "scale.py").module()
    kernel = module.function("scale")
    assert repr(module) == "<Module scale.py for gcu300: scale>"
    module.unload()
    assert repr(module) == "<Module scale.py, unloaded>" and kernel.configure((1, 1), architecture("gcu300"))
    for late in (lambda: module.function("scale"), lambda: module.kernels, module.unload):
        with pytest.raises(InvalidHandle, match=r"module scale.py was unloaded"):
            late()


def test_a_kernel_of_a_module_runs(bench: Bench):
    """Compiled text computes what numpy does, tail included."""
    kernel = compile_source(SCALE, "scale.py").module().function("scale")
    values = np.arange(1000, dtype=np.float32)
    x, y = bench.upload(values), bench.empty(1000)
    bench.launch(kernel, (2, 12), x, y, 3)
    assert np.array_equal(y.host, values * 3)


def test_kernels_of_a_module_are_attributes():
    """`k.compile(text, arch=...)` gives the module at once; what it has not is named with what it has."""
    module = k.compile(SCALE, "scale.py", arch="gcu210")
    assert module.scale is module.function("scale") and module.target.name == "gcu210"
    assert k.compile(SCALE, options=["-w"]).scale.name == "scale"
    with pytest.raises(AttributeError, match="no kernel 'scales'; did you mean 'scale'"):
        _ = module.scales
    assert not hasattr(copy.copy(module), "__wrapped__")
