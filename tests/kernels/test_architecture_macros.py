"""GCU_ARCH and AGCU_ARCH: numbers where a kernel reads them, undefined on the host."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from atops import kernels as k
from atops.base.errors import CompilationError
from atops.kernels.target import MACROS, macro
from tests.kernel_bench import Bench


@pytest.fixture
def language() -> Iterator[Any]:
    """A module that offers the macros, as the kernel language does."""
    module = ModuleType("macro_language")
    module.__getattr__ = macro
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def read(bench: Bench, language: Any, arch: str | None = None) -> list[int | None]:
    """Return what a kernel that is compiled for `arch` reads."""
    seen: list[int | None] = []

    @k.kernel(arch=arch)
    async def look():
        seen.extend((language.GCU_ARCH, language.AGCU_ARCH, language.__AGCU_ARCH__))
        assert language.__GCU_ARCH__ == language.GCU_ARCH

    bench.launch(look, (1, 1))
    return seen


@pytest.mark.parametrize(
    ("chip", "arch", "expected"),
    [("gcu210", None, [210, 200, 200]), ("gcu300", None, [300, 300, 300]),
     ("gcu210", "gcu210", [210, 200, 200]), ("gcu300", "gcu300", [300, 300, 300]),
     ("gcu210", "agcu200", [None, 200, 200]), ("gcu300", "agcu200", [None, 200, 200]),
     ("gcu300", "agcu300", [None, 300, 300])],
)  # fmt: skip
def test_a_kernel_reads_numbers(
    make_bench: Callable[..., Bench], language: Any, chip: str, arch: str | None, expected: list[int | None]
):
    """The chip's numbers, or those of what the kernel is compiled for; an abstract architecture is no chip."""
    assert read(make_bench(arch=chip), language, arch) == expected


def test_the_host_has_none(language: Any):
    """On the host every macro is None, which is how one function tells the sides apart."""
    assert [getattr(language, name) for name in MACROS] == [None] * 4
    with pytest.raises(TypeError):
        _ = language.AGCU_ARCH >= 300


def test_a_macro_cannot_be_imported(language: Any):
    """An import on the host would be None for ever, so it is refused with the form to write."""
    for name in MACROS:
        with pytest.raises(ImportError, match=rf"then `k.{name}`"):
            exec(f"from {language.__name__} import {name}", {})
    with pytest.raises(AttributeError, match="has no attribute 'NO_ARCH'"):
        _ = language.NO_ARCH
    with pytest.raises(ImportError, match="cannot import name 'NO_ARCH'"):
        exec(f"from {language.__name__} import NO_ARCH", {})


def test_an_import_inside_a_kernel_is_read_there(bench: Bench, language: Any):
    """In a kernel's own code the number is the right one at that moment."""
    seen: list[int] = []

    @k.kernel
    def look():
        scope: dict[str, int] = {}
        exec(f"from {language.__name__} import AGCU_ARCH", scope)
        seen.append(scope["AGCU_ARCH"])

    bench.launch(look, (1, 1))
    assert seen == [300]


def test_the_languages_own_module_cannot_give_one_away():
    """The real module's macros are refused to an import as well, and a name that it lacks is told by that name."""
    with pytest.raises(ImportError, match="has its value where it is read"):
        from atops.kernels import GCU_ARCH  # noqa: F401  # the import is the test
    with pytest.raises(ImportError, match="cannot import name 'NO_ARCH'"):
        from atops.kernels import NO_ARCH  # noqa: F401  # as above


@pytest.mark.parametrize(
    ("name", "meant"),
    [("log", "; did you mean 'ln'?"), ("pow", "; did you mean 'power'?"),
     ("memcpy_asinc", "; did you mean 'memcpy_async'?"),
     ("qqq", ""), ("__qqq__", "")],
)  # fmt: skip
def test_a_name_that_the_language_lacks(name: str, meant: str):
    """The error and the compiler's message suggest the same name: what the language calls it, then what is near."""
    with pytest.raises(AttributeError) as caught:
        getattr(k, name)
    assert str(caught.value) == f"module 'atops.kernels' has no attribute {name!r}{meant}"
    with pytest.raises(CompilationError, match=re.escape(f"'k' has no name '{name}'{meant}\n")):
        k.compile_source(f"@k.kernel\ndef f(x):\n    k.{name}\n", "text.py")


def test_a_name_of_another_language():
    """The error and the compiler's message say what to write instead."""
    with pytest.raises(AttributeError, match=r"^k has no program_id\(\); use k\.blockIdx\.x$"):
        k.program_id  # noqa: B018
    with pytest.raises(CompilationError, match=r"'k' has no name 'program_id'; use k\.blockIdx\.x\n"):
        k.compile_source("@k.kernel\ndef f(x):\n    k.program_id\n", "text.py")
