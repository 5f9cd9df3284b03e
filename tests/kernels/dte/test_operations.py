"""The DTE functions: their signatures are the operation table's, and what they do is what the table does."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from atops import kernels as k
from atops.base.errors import DteError
from atops.device.dte.operations import OPERATIONS
from atops.kernels import dte
from tests.every import every
from tests.kernel_bench import Bench

SOURCE = np.arange(1, 13, dtype=np.int16).reshape(3, 4)

# Operation, shape of dst, parameters after dst and src, expected result on a dst full of -1.
CASES: list[tuple[str, tuple[int, ...], dict[str, Any], Any]] = [
    ("memcpy", (12,), {}, SOURCE.reshape(-1)),
    ("memset", (2, 2), {"value": 5}, np.full((2, 2), 5)),
    ("slice", (2, 2), {"offsets": [2, 1], "value": 9}, [[10, 11], [9, 9]]),
    ("deslice", (4, 5), {"offsets": [1, 1]}, np.pad(SOURCE, ((1, 0), (1, 0)), constant_values=-1)),
    ("transpose", (4, 3), {"layout": [1, 0]}, SOURCE.T),
    ("slice_transpose", (2, 3), {"offsets": [0, 1], "layout": [1, 0]}, SOURCE[:, 1:3].T),
    ("transpose_deslice", (4, 4), {"offsets": [0, 1], "layout": [1, 0]},
     np.pad(SOURCE.T, ((0, 0), (1, 0)), constant_values=-1)),
    ("pad", (4, 6), {"low": [1, 0], "high": [0, 2], "mid": [0, 0], "value": 7},
     np.pad(SOURCE, ((1, 0), (0, 2)), constant_values=7)),
    ("mirror_tb", (3, 4), {}, SOURCE[:, ::-1]),
    ("mirror_lr", (3, 4), {}, SOURCE[::-1]),
    ("broadcast", (2, 3, 4), {}, np.stack([SOURCE, SOURCE])),
]  # fmt: skip


@pytest.mark.slow
@every("strict", [False, True])
@every("asynchronous", [False, True])
@every("name, shape, parameters, expected", CASES, ids=[case[0] for case in CASES])
def test_each_operation(make_bench: Any, name: str, shape: tuple[int, ...], parameters: dict[str, Any], expected: Any,
                        asynchronous: bool, strict: bool):  # fmt: skip
    """Each does to global and local memory what its row says, at once and asynchronously."""
    bench = make_bench(strict=strict)
    x, y, z = bench.upload(SOURCE), bench.upload(np.full(shape, -1, np.int16)), bench.empty(shape, np.int16)
    function = getattr(k, f"{name}_async" if asynchronous else name)

    @k.kernel
    async def run(x, y, z):
        tile, out = k.local(SOURCE.shape, np.int16), k.local(shape, np.int16)
        with k.dte_scope() as dte:
            k.memcpy(dte, tile, x)
            k.memset(dte, out, -1)
            for dst, src in ((y, x), (out, tile)):
                done = function(dte, dst, **({} if name == "memset" else {"src": src}), **parameters)
                if asynchronous:
                    await done
            k.memcpy(dte, z, out)

    bench.launch(run, (1, 1), x, y, z)
    assert np.array_equal(y.host, expected) and np.array_equal(z.host, expected)
    assert np.array_equal(x.host, SOURCE)


def test_every_operation_has_its_three_forms():
    """At once, asynchronous and configured: each with the row's parameters, defaults and name, and the section."""
    forms = {*OPERATIONS, *(f"{name}_async" for name in OPERATIONS)}
    contexts = {"dte_scope", "event", "shared_dte_ctx", "tops_destroy_dte", "tops_dte_ctx_t", "tops_init_dte", "wait"}
    assert set(dte.__all__) == forms | contexts and forms <= set(k.__all__)
    configured = {name for name in dir(k.tops_dte_ctx_t) if name.startswith("config_")}
    assert configured == {f"config_{name}" for name in OPERATIONS}
    for name, row in OPERATIONS.items():
        own, method = getattr(k, name), getattr(k.tops_dte_ctx_t, f"config_{name}")
        for form, called in ((own, name), (getattr(k, f"{name}_async"), f"{name}_async"), (method, f"config_{name}")):
            first, *others = inspect.signature(form).parameters.values()
            source = ["src"] if row.takes_source else []
            assert first.name == ("self" if form is method else "ctx")
            assert [each.name for each in others] == ["dst", *source, *row.parameters]
            assert {each.name: each.default for each in others if each.default is not each.empty} == row.defaults
            assert form.__name__ == called
            assert row.section in form.__doc__ and (form is own or f"`{name}`" in form.__doc__)
        assert own.__doc__.startswith(row.documentation)


def test_a_wrong_call_is_an_error_of_the_operation(bench: Bench):
    """A parameter too few or too many is Python's own TypeError, and names the operation."""
    said = []

    @k.kernel
    def run(x):
        with k.dte_scope() as dte:
            for call in (lambda: k.slice(dte, x, x), lambda: k.mirror_lr(dte, x, x, x), lambda: dte.config_pad(x)):
                with pytest.raises(TypeError) as caught:
                    call()
                said.append(str(caught.value))

    bench.launch(run, (1, 1), bench.upload(SOURCE))
    assert [each.partition("(")[0] for each in said] == ["slice", "mirror_lr", "config_pad"]


def test_mirrors_begin_with_their_axis():
    """The names suggest the other axis, so that the help begins with the one that it is."""
    assert k.mirror_tb.__doc__.startswith("Last axis reversed")
    assert k.mirror_lr.__doc__.startswith("Last axis but one reversed")


def test_the_first_operations_work_on_both_chips(make_bench: Any):
    """gcu210 has the eleven operations too, on memory that its kernels cannot index."""
    bench = make_bench(arch="gcu210")
    x, y = bench.upload(SOURCE), bench.empty((4, 3), np.int16)

    @k.kernel
    def turn(x, y):
        with k.dte_scope() as dte:
            k.transpose(dte, y, x, [1, 0])

    bench.launch(turn, (1, 1), x, y)
    assert np.array_equal(y.host, SOURCE.T)


def test_a_large_vector_add_through_tiles(bench: Bench):
    """Twenty-four threads add two vectors tile by tile with two contexts each; every element arrives."""
    left, right = np.arange(50_000, dtype=np.float32), np.arange(50_000, dtype=np.float32)[::-1].copy()
    x, y, z = bench.upload(left), bench.upload(right), bench.empty(50_000)

    @k.kernel
    async def add(x, y, z):
        a, b = k.local(1024, np.float32), k.local(1024, np.float32)
        with k.dte_scope() as one, k.dte_scope() as two:
            for part in k.tiles(x.size, 1024):
                n = part.stop - part.start
                first = k.memcpy_async(one, a[:n], x[part])
                await k.memcpy_async(two, b[:n], y[part])
                await first
                np.add(a[:n], b[:n], out=a[:n])
                k.memcpy(one, z[part], a[:n])

    bench.launch(add, (2, 12), x, y, z)
    assert np.array_equal(z.host, left + right)


def test_errors_name_operation_and_line(bench: Bench):
    """Wrong ranks, types and values are the kernel's mistakes at their line."""
    x = bench.upload(SOURCE)
    for call, why in (
        (lambda c, x: k.slice(c, x[:2], x, [0]), "slice: "),
        (lambda c, x: k.transpose(c, x, x.view(np.uint16), [1, 0]), "transpose: "),
        (lambda c, x: k.memset(c, x, 1e9), "memset: "),
        (lambda c, x: k.pad(c, x, x, [0], [0], [0]), "pad: "),
    ):

        @k.kernel
        def wrong(x, call):
            with k.dte_scope() as dte:
                call(dte, x)

        with pytest.raises(DteError, match=rf"thread \(0,0,0\).*test_operations.py:\d+ in .*{why}"):
            bench.launch(wrong, (1, 1), x, call)
    assert np.array_equal(x.host, SOURCE)
