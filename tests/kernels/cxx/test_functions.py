"""The mathematical functions of C++ kernels against those of kernels in Python: the same bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from atops import kernels as k
from atops.kernels.tables.vectors import FUNCTIONS, MathFunction
from atops.kernels.vectors.numerics import numeric

ELEMENTS = {
    "float": np.dtype(np.float32), "__fp16": np.dtype(np.float16), "__bf16": np.dtype(ml_dtypes.bfloat16),
    "int": np.dtype(np.int32), "unsigned int": np.dtype(np.uint32), "short": np.dtype(np.int16),
    "unsigned short": np.dtype(np.uint16), "char": np.dtype(np.int8), "unsigned char": np.dtype(np.uint8),
    "long": np.dtype(np.int64), "unsigned long": np.dtype(np.uint64),
}  # fmt: skip
OF_TWO = ("mod", "div", "power", "atan2")
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]


def _forms(row: MathFunction) -> list[str]:
    return [form for form in sorted(row.permitted) if not form.startswith("__vector2")]


def _kernel(row: MathFunction, form: str, number: int) -> str:
    element = form.partition(" ")[2]
    call = f"{row.name}(u, v)" if row.name in OF_TWO else f"{row.name}(u)"
    body = f"*({form} *)r = {call};"
    if row.gives_mask:
        body = f"auto m = {call}; for (int i = 0; i < m.lanes; ++i) r[i] = m[i];"
    return (
        f"__global__ void {row.name}_{number}({element} *r, {element} *x, {element} *y) "
        f"{{ {form} u = *({form} *)x, v = *({form} *)y; (void)v; {body} }}\n"
    )


def _operands(element: np.dtype[Any], lanes: int, trial: int) -> tuple[Any, Any]:
    random = np.random.default_rng(trial)
    if element.kind in "iu":
        info = np.iinfo(element)
        x, y = random.integers(info.min, info.max, (2, lanes), dtype=element, endpoint=True)
        x[:3], y[y == 0] = [info.min, info.max, 0], 1
        if element.kind == "i":
            y[:3] = [-1, -1, 3]
        return x, y
    x = (random.standard_normal(lanes) * 10.0 ** random.integers(-4, 5, lanes)).astype(element)
    y = (random.standard_normal(lanes) * 3).astype(element)
    x[:8], y[:4] = np.array(SPECIAL).astype(element), np.array([0, 2, -3, 0.5]).astype(element)
    return (np.abs(x) if trial % 2 else x), y


@pytest.mark.slow
def test_functions(run: Any) -> None:
    """Of every type that the text gives them; special values among others."""
    cases = [(row, form, number) for row in FUNCTIONS for number, form in enumerate(_forms(row))]
    module = k.compile_source("".join(_kernel(*case) for case in cases), "functions.tops").module()
    for row, form, number in cases:
        keyword, _, spelling = form.partition(" ")
        element = ELEMENTS[spelling]
        lanes = 128 if element.itemsize == 8 else {"__vector": 128, "__vector4": 512}[keyword] // element.itemsize
        compute = numeric(row.name, element)
        for trial in range(2):
            x, y = _operands(element, lanes, trial)
            got = run("", f"{row.name}_{number}", (1, 1), np.zeros_like(x), x, y, module=module)
            expected = np.asarray(compute(x, y) if row.name in OF_TWO else compute(x)).astype(element)
            same = (got == expected) | ((got != got) & (expected != expected))
            assert same.all(), (row.name, form, x[~same][:3], got[~same][:3], expected[~same][:3])


POWERS = "\n".join(f"""__global__ void {name}s(float *y, float *x, int n) {{
    for (int i = 0; i < n; i += 128) *(__vector4 float *)(y + i) = {name}(*(__vector4 float *)(x + i));
}}""" for name in ("exp", "sigmoid", "softplus"))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp", "sigmoid", "softplus"])
def test_powers_of_every_size(run: Any, name: str) -> None:
    """From the least number that is not 0 to beyond the greatest, each rounded once from a double."""
    random = np.random.default_rng(5)
    sizes = np.concatenate([random.uniform(-110, 95, 1 << 16), random.standard_normal(1 << 15)])
    edges = np.array([88.72283, 88.72284, -87.33655, -103.27893, -103.97208, 200, 201, -200, -201, 0, -0.0], np.float32)
    steps = np.nextafter(edges, np.float32(np.inf)), np.nextafter(edges, np.float32(-np.inf))
    x = np.resize(np.concatenate([*steps, edges, np.array(SPECIAL), sizes]).astype(np.float32), 3 << 15)
    got = run(POWERS, f"{name}s", (1, 1), np.zeros_like(x), x, x.size)
    with np.errstate(all="ignore"):
        expected = numeric(name, x.dtype)(x)
    assert expected.dtype == x.dtype
    same = (got == expected) & (np.signbit(got) == np.signbit(expected)) | np.isnan(got) & np.isnan(expected)
    assert same.all(), (x[~same][:3], got[~same][:3], expected[~same][:3])
